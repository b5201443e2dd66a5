//! Every kernel against a plain reference, for both float types and for threads in both orders; with feature `cuda`
//! also on a device, if there is one.

mod device;
#[cfg(feature = "cuda")]
mod driver;
mod heads;
mod linear;
mod misuse;
mod moe;
mod norm;
mod pointwise;
mod random;
mod rows;
mod sample;
mod signal;
mod text;

mod anywhere;

use half::bf16;

use crate::{Address, Emulated, Float, Launch, Order};
use anywhere::Anywhere;

/// A device with the buffers of one test.
struct Lab {
    device: Anywhere,
    float: Float,
}

impl Lab {
    fn new(float: Float, order: Order) -> Self {
        Self {
            device: Anywhere::emulated(Emulated::new(order)),
            float,
        }
    }

    fn keep(&self, bytes: &[u8]) -> Address {
        let address = self.device.room(bytes.len());
        self.device.upload(address, bytes);
        address
    }

    /// Elements of the lab's type.
    fn rows(&self, values: &[f32]) -> Address {
        match self.float {
            Float::F32 => self.floats(values),
            Float::Bf16 => self.keep(
                &values
                    .iter()
                    .flat_map(|v| bf16::from_f32(*v).to_le_bytes())
                    .collect::<Vec<_>>(),
            ),
        }
    }

    fn floats(&self, values: &[f32]) -> Address {
        self.keep(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    fn words(&self, values: &[u32]) -> Address {
        self.keep(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Room for elements of the lab's type, not written yet.
    fn room(&self, elements: usize) -> Address {
        self.device.room(elements * self.float.bytes())
    }

    fn run(&self, launch: &Launch) {
        self.device.launch(launch).expect("a launch without flaw");
    }

    fn read(&self, from: Address, elements: usize) -> Vec<f32> {
        match self.float {
            Float::F32 => self.read_floats(from, elements),
            Float::Bf16 => self
                .bytes(from, elements * 2)
                .chunks_exact(2)
                .map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
        }
    }

    fn bytes(&self, from: Address, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.device.download(from, &mut bytes);
        bytes
    }

    fn read_words(&self, from: Address, count: usize) -> Vec<u32> {
        let bytes = self.bytes(from, count * 4);
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        bytes.chunks_exact(4).map(word).collect()
    }

    fn read_floats(&self, from: Address, count: usize) -> Vec<f32> {
        self.read_words(from, count)
            .into_iter()
            .map(f32::from_bits)
            .collect()
    }
}

/// Values rounded to this type.
fn rounded(float: Float, values: &[f32]) -> Vec<f32> {
    match float {
        Float::F32 => values.to_vec(),
        Float::Bf16 => values.iter().map(|v| bf16::from_f32(*v).to_f32()).collect(),
    }
}

/// Runs the tests on the device alone, for tools that slow down the whole process: the emulator would exceed their
/// time limit.
const ONLY_DEVICE: &str = "OMNI_TEST_ONLY_DEVICE";

/// Runs `compute` for both types and orders; the order must not show. `check` gets each type's result.
fn each_type<R: PartialEq + std::fmt::Debug>(compute: impl Fn(&Lab) -> R, check: impl Fn(Float, R)) {
    for float in [Float::F32, Float::Bf16] {
        if std::env::var_os(ONLY_DEVICE).is_some() {
            let device = Anywhere::device().expect("a device");
            check(float, compute(&Lab { device, float }));
            continue;
        }
        let forwards = compute(&Lab::new(float, Order::Forwards));
        let backwards = compute(&Lab::new(float, Order::Backwards));
        assert_eq!(forwards, backwards, "{float:?}: the order of the threads shows");
        check(float, forwards);
        // Where there is a device, it has to agree with the reference, too.
        if let Some(device) = Anywhere::device() {
            check(float, compute(&Lab { device, float }));
        }
    }
}

/// Small numbers that repeat with no short period.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0)
        .collect()
}

/// Compares within the type's rounding and another order of sums.
fn close(what: &str, float: Float, got: &[f32], expected: &[f32]) {
    let tolerance = match float {
        Float::F32 => 2e-5,
        Float::Bf16 => 1.0 / 128.0,
    };
    assert_eq!(got.len(), expected.len(), "{what}: count");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            (g - e).abs() <= tolerance * e.abs().max(1.0),
            "{what}, {float:?} [{i}]: {g}, expected {e}"
        );
    }
}
