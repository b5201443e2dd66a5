//! The speed of the device's memory and of its products, which every floor is counted with.

use std::time::{Duration, Instant};

use omni_gpu::kernels::{Copy, Linear};
use omni_gpu::{Device, Float, Launch, Memory};

/// Length of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Time in which a device reaches its clocks before anything counts.
    warm_up: Duration,
    /// Rounds, of which the fastest counts: another one was disturbed.
    rounds: u32,
    /// Graphs of a round, all asked for at once.
    repeats: u32,
}

impl Effort {
    /// Effort on a device.
    #[cfg(feature = "cuda")]
    pub(super) const OF_DEVICE: Self = Self {
        warm_up: Duration::from_millis(200),
        rounds: 5,
        repeats: 10,
    };
    /// As little as there can be.
    #[cfg(feature = "emulator")]
    pub(super) const ONCE: Self = Self {
        warm_up: Duration::ZERO,
        rounds: 1,
        repeats: 1,
    };
}

/// Inputs of the product.
const INPUTS: u32 = 4096;

/// Numbers of both signs whose size is between 1/2 and 1, in bf16, and as f32 too: equal ones would take less power,
/// and a device with power to spare has higher clocks.
fn fill<D: Device>(device: &D, to: &impl Memory) -> omni_gpu::Result<()> {
    let mut state = 1_u32;
    let number = |_| {
        // Numerical Recipes' linear congruential generator; its upper bits are the better ones.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (0x3f00 | (state >> 16) as u16 & 0x807f).to_le_bytes()
    };
    let numbers = (0..1 << 19).flat_map(number).collect::<Vec<u8>>();
    let bytes = to.bytes();
    for at in (0..bytes).step_by(numbers.len()) {
        device.upload(to.address().offset(at), &numbers[..numbers.len().min(bytes - at)])?;
    }
    Ok(())
}

/// Bytes per second of memory of which `bytes` are read: by copying, or by a product of a matrix with one row,
/// whichever is faster. A slow copy must not raise the floors.
pub(super) fn bandwidth<D: Device>(device: &D, bytes: usize, effort: Effort) -> omni_gpu::Result<f64> {
    let (from, to) = (device.alloc(bytes)?, device.alloc(bytes)?);
    fill(device, &from)?;
    let copy = Copy {
        to: to.address(),
        from: from.address(),
        words: (bytes / 4) as u32,
    };
    let seconds = time(device, effort, &copy.launch())?;
    let copied = 2.0 * bytes as f64 / seconds;
    let x = device.alloc(INPUTS as usize * 2)?;
    fill(device, &x)?;
    let outputs = (bytes / 2 / INPUTS as usize) as u32;
    let product = Linear::product(to.address(), x.address(), from.address(), [1, outputs, INPUTS]);
    let seconds = time(device, effort, &product.launch(Float::Bf16))?;
    let read = f64::from(outputs) * f64::from(INPUTS) * 2.0 / seconds;
    Ok(copied.max(read))
}

/// Operations per second (additions and multiplications) of the product of two matrices of `side` rows and columns,
/// in bf16 on tensor cores; measured as in [`bandwidth`].
pub(super) fn product<D: Device>(device: &D, side: u32, effort: Effort) -> omni_gpu::Result<f64> {
    let bytes = side as usize * side as usize * 2;
    let out = device.alloc(bytes)?;
    let x = device.alloc(bytes)?;
    let w = device.alloc(bytes)?;
    fill(device, &x)?;
    fill(device, &w)?;
    let product = Linear::product(out.address(), x.address(), w.address(), [side; 3]);
    let seconds = time(device, effort, &product.launch(Float::Bf16))?;
    Ok(2.0 * f64::from(side).powi(3) / seconds)
}

/// Seconds of one launch, in a graph of its own.
fn time<D: Device>(device: &D, effort: Effort, launch: &Launch) -> omni_gpu::Result<f64> {
    device.record()?;
    let asked = device.launch(launch);
    let graph = device.recorded();
    asked?;
    let graph = graph?;
    let round = || {
        let start = Instant::now();
        (0..effort.repeats).try_for_each(|_| device.replay(&graph))?;
        device.wait()?;
        device.take_busy();
        Ok(start.elapsed().as_secs_f64() / f64::from(effort.repeats))
    };
    let begun = Instant::now();
    round()?;
    while begun.elapsed() < effort.warm_up {
        round()?;
    }
    (0..effort.rounds).try_fold(f64::INFINITY, |fastest, _| Ok(fastest.min(round()?)))
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_seconds_make_a_rate() {
        let device = omni_gpu::Emulated::default();
        for found in [
            bandwidth(&device, 1 << 16, Effort::ONCE),
            product(&device, 128, Effort::ONCE),
        ] {
            let found = found.expect("it computes");
            assert!(found > 0.0 && found.is_finite(), "{found}");
        }
    }
}
