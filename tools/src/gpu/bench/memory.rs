//! How fast the device's memory is: what every floor is counted with.

use std::time::Instant;

use omni_gpu::kernels::{Activation, Copy, Fill, Linear, Scratch};
use omni_gpu::{Address, Device, Float, Launch, Memory};

/// Bytes per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bandwidth {
    /// Reading and writing, both counted.
    pub(super) copy: f64,
    /// Reading a matrix for a product with one row, in bf16.
    pub(super) read: f64,
}

/// Inputs of the product.
const INPUTS: u32 = 4096;

/// With `bytes` to read; what is measured is `repeats` graphs of a launch each, all asked for at once.
pub(super) fn bandwidth<D: Device>(device: &D, bytes: usize, repeats: u32) -> omni_gpu::Result<Bandwidth> {
    let (from, to) = (device.alloc(bytes)?, device.alloc(bytes)?);
    // Ones in bf16, and as f32 a little more than one.
    let ones: Vec<u8> = [0x80, 0x3f].repeat(1 << 19);
    for at in (0..bytes).step_by(ones.len()) {
        let part = &ones[..ones.len().min(bytes - at)];
        device.upload(from.address().offset(at), part)?;
    }
    let copy = Copy {
        to: to.address(),
        from: from.address(),
        words: (bytes / 4) as u32,
    };
    let seconds = time(device, repeats, &copy.launch())?;
    let copied = 2.0 * bytes as f64 / seconds;
    let x = device.alloc(INPUTS as usize * 2)?;
    device.upload(x.address(), &ones[..INPUTS as usize * 2])?;
    let outputs = (bytes / 2 / INPUTS as usize) as u32;
    let product = Linear {
        out: to.address(),
        x: x.address(),
        w: from.address(),
        bias: Address::NONE,
        scale: Address::NONE,
        shift: Address::NONE,
        add: Address::NONE,
        norm: Address::NONE,
        eps: 0.0,
        scratch: Scratch::default(),
        rows: 1,
        outputs,
        inputs: INPUTS,
        activation: Activation::None,
    };
    let seconds = time(device, repeats, &product.launch(Float::Bf16))?;
    let read = f64::from(outputs) * f64::from(INPUTS) * 2.0 / seconds;
    Ok(Bandwidth { copy: copied, read })
}

/// Launches of a graph that shows how far they are apart.
const CHAIN: usize = 1000;

/// Seconds from one launch to the next in a graph, for launches of 1, 132 and 528 blocks that write a word per thread.
pub(super) fn gaps<D: Device>(device: &D, repeats: u32) -> omni_gpu::Result<Vec<(u32, f64)>> {
    const WORDS_OF_BLOCK: u32 = 1024;
    let blocks = [1, 132, 528];
    let memory = device.alloc((528 * WORDS_OF_BLOCK * 4) as usize)?;
    let gap = |blocks: u32| {
        let (to, words) = (memory.address(), blocks * WORDS_OF_BLOCK);
        let fill = Fill { to, word: 1, words }.launch();
        let chain = if repeats > 1 { CHAIN } else { 2 };
        Ok((
            blocks,
            time_all(device, repeats, &vec![fill; chain])? / chain as f64,
        ))
    };
    blocks.into_iter().map(gap).collect()
}

/// Seconds of one launch.
fn time<D: Device>(device: &D, repeats: u32, launch: &Launch) -> omni_gpu::Result<f64> {
    time_all(device, repeats, std::slice::from_ref(launch))
}

/// Seconds of a graph of launches.
fn time_all<D: Device>(device: &D, repeats: u32, launches: &[Launch]) -> omni_gpu::Result<f64> {
    device.record()?;
    let asked = launches.iter().try_for_each(|launch| device.launch(launch));
    let graph = device.recorded();
    asked?;
    let graph = graph?;
    device.replay(&graph)?;
    device.wait()?;
    let start = Instant::now();
    for _ in 0..repeats {
        device.replay(&graph)?;
    }
    device.wait()?;
    Ok(start.elapsed().as_secs_f64() / f64::from(repeats.max(1)))
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_seconds_make_a_rate() {
        let found = bandwidth(&omni_gpu::Emulated::default(), 1 << 16, 1).expect("it computes");
        assert!(found.copy > 0.0 && found.copy.is_finite(), "{found:?}");
        let gaps = gaps(&omni_gpu::Emulated::default(), 1).expect("it computes");
        assert!(gaps.iter().all(|(_, seconds)| *seconds > 0.0), "{gaps:?}");
        assert!(found.read > 0.0 && found.read.is_finite(), "{found:?}");
    }
}
