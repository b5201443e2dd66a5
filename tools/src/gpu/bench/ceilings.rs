//! How fast the device's memory and its products are, which every floor is counted with, and what launches and copies cost that do next to
//! nothing.

use std::time::Instant;

use omni_gpu::kernels::{Copy, Fill, Linear};
use omni_gpu::{Device, Float, Launch, Memory, Staging};

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

/// Ones in bf16, and as f32 a little more than one.
fn fill<D: Device>(device: &D, to: &impl Memory) -> omni_gpu::Result<()> {
    let (ones, bytes) = ([0x80, 0x3f].repeat(1 << 19), to.bytes());
    for at in (0..bytes).step_by(ones.len()) {
        device.upload(to.address().offset(at), &ones[..ones.len().min(bytes - at)])?;
    }
    Ok(())
}

/// With `bytes` to read; what is measured is `repeats` graphs of a launch each, all asked for at once.
pub(super) fn bandwidth<D: Device>(device: &D, bytes: usize, repeats: u32) -> omni_gpu::Result<Bandwidth> {
    let (from, to) = (device.alloc(bytes)?, device.alloc(bytes)?);
    fill(device, &from)?;
    let copy = Copy {
        to: to.address(),
        from: from.address(),
        words: (bytes / 4) as u32,
    };
    let seconds = time(device, repeats, &copy.launch())?;
    let copied = 2.0 * bytes as f64 / seconds;
    let x = device.alloc(INPUTS as usize * 2)?;
    fill(device, &x)?;
    let outputs = (bytes / 2 / INPUTS as usize) as u32;
    let product = Linear::product(to.address(), x.address(), from.address(), [1, outputs, INPUTS]);
    let seconds = time(device, repeats, &product.launch(Float::Bf16))?;
    let read = f64::from(outputs) * f64::from(INPUTS) * 2.0 / seconds;
    Ok(Bandwidth { copy: copied, read })
}

/// Additions and multiplications per second of the product of two matrices of `side` rows and columns, in bf16, by tensor cores; what is
/// measured is as in [`bandwidth`].
pub(super) fn product<D: Device>(device: &D, side: u32, repeats: u32) -> omni_gpu::Result<f64> {
    let bytes = side as usize * side as usize * 2;
    let (out, x, w) = (device.alloc(bytes)?, device.alloc(bytes)?, device.alloc(bytes)?);
    fill(device, &x)?;
    fill(device, &w)?;
    let product = Linear::product(out.address(), x.address(), w.address(), [side; 3]);
    let seconds = time(device, repeats, &product.launch(Float::Bf16))?;
    Ok(2.0 * f64::from(side).powi(3) / seconds)
}

/// How often something is asked for that takes next to no time.
const OFTEN: usize = 1000;
/// Words of 4 bytes that a block of [`Fill`] writes.
const WORDS_OF_BLOCK: u32 = 1024;

/// Launches and copies that do next to nothing, and seconds of each: launches in a graph by their blocks, launches alone, a graph and copies to
/// the device that are waited for. Each is measured often, unless `repeats` is 1.
pub(super) fn overheads<D: Device>(device: &D, repeats: u32) -> omni_gpu::Result<Vec<(String, f64)>> {
    let often = if repeats > 1 { OFTEN } else { 2 };
    let memory = device.alloc((528 * WORDS_OF_BLOCK * 4) as usize)?;
    let mut found = Vec::new();
    let mut told = |what: String, seconds| found.push((what, seconds));
    let fill = |blocks| {
        let (to, words) = (memory.address(), blocks * WORDS_OF_BLOCK);
        Fill { to, word: 1, words }.launch()
    };
    for blocks in [1, 132, 528] {
        let seconds = time_all(device, repeats, &vec![fill(blocks); often])?;
        told(
            format!("a launch in a graph, blocks: {blocks}"),
            seconds / often as f64,
        );
    }
    let launch = fill(1);
    let all = || {
        (0..often).try_for_each(|_| device.launch(&launch))?;
        device.wait()
    };
    told(
        "a launch alone, blocks: 1".to_owned(),
        each(1, all)? / often as f64,
    );
    let graph = graph(device, std::slice::from_ref(&launch))?;
    let replay = || {
        device.replay(&graph)?;
        device.wait()
    };
    told(
        "a graph of one launch, waited for".to_owned(),
        each(often, replay)?,
    );
    for kib in [4, 16, 64, 256] {
        let bytes = kib << 10;
        let staging = device.staging(bytes)?;
        let upload = || {
            device.upload_async(memory.address(), &staging, staging.content().len())?;
            device.wait()
        };
        told(
            format!("a copy of {kib} KiB to the device, waited for"),
            each(often, upload)?,
        );
    }
    let staging = device.staging(4 << 10)?;
    let step = || {
        device.upload_async(memory.address(), &staging, staging.content().len())?;
        device.replay(&graph)?;
        device.wait()
    };
    told(
        "a copy of 4 KiB to the device and a graph of one launch, waited for".to_owned(),
        each(often, step)?,
    );
    Ok(found)
}

/// Seconds of one of `count` calls, behind one that is not counted.
fn each(count: usize, mut call: impl FnMut() -> omni_gpu::Result<()>) -> omni_gpu::Result<f64> {
    call()?;
    let start = Instant::now();
    (0..count).try_for_each(|_| call())?;
    Ok(start.elapsed().as_secs_f64() / count as f64)
}

/// Seconds of one launch.
fn time<D: Device>(device: &D, repeats: u32, launch: &Launch) -> omni_gpu::Result<f64> {
    time_all(device, repeats, std::slice::from_ref(launch))
}

/// Seconds of a graph of launches.
fn time_all<D: Device>(device: &D, repeats: u32, launches: &[Launch]) -> omni_gpu::Result<f64> {
    let graph = graph(device, launches)?;
    device.replay(&graph)?;
    device.wait()?;
    let start = Instant::now();
    for _ in 0..repeats {
        device.replay(&graph)?;
    }
    device.wait()?;
    Ok(start.elapsed().as_secs_f64() / f64::from(repeats.max(1)))
}

fn graph<D: Device>(device: &D, launches: &[Launch]) -> omni_gpu::Result<D::Graph> {
    device.record()?;
    let asked = launches.iter().try_for_each(|launch| device.launch(launch));
    let graph = device.recorded();
    asked?;
    graph
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bytes_and_seconds_make_a_rate() {
        let device = omni_gpu::Emulated::default();
        let found = bandwidth(&device, 1 << 16, 1).expect("it computes");
        assert!(found.copy > 0.0 && found.copy.is_finite(), "{found:?}");
        assert!(found.read > 0.0 && found.read.is_finite(), "{found:?}");
        let product = product(&device, 128, 1).expect("it computes");
        assert!(product > 0.0 && product.is_finite(), "{product}");
    }

    #[test]
    fn each_overhead_is_measured_and_named_once() {
        let found = overheads(&omni_gpu::Emulated::default(), 1).expect("it computes");
        assert!(found.iter().all(|(_, seconds)| *seconds > 0.0), "{found:?}");
        let names: BTreeSet<_> = found.iter().map(|(what, _)| what).collect();
        assert_eq!(names.len(), 10, "{found:?}");
    }

    #[test]
    fn a_call_is_made_once_before_those_that_are_counted_and_its_error_is_told() {
        let mut calls = 0;
        each(3, || {
            calls += 1;
            Ok(())
        })
        .expect("no call fails");
        assert_eq!(calls, 4);
        let failed = || Err(omni_gpu::GpuError::Recording("not now"));
        assert!(each(3, failed).is_err());
    }
}
