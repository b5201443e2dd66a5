//! Rates of the device's memory and products, with which every floor is computed, and the overhead of launches and
//! copies that do next to nothing.

use std::time::{Duration, Instant};

use super::Bandwidth;
use omni_gpu::kernels::{Copy, Fill, Linear};
use omni_gpu::{Device, Float, Launch, Memory, Staging};

/// Length of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Time in which a device reaches its clocks before anything counts.
    warm_up: Duration,
    /// Rounds, of which the fastest counts: another one was disturbed.
    rounds: u32,
    /// Graphs of a round, all asked for at once.
    repeats: u32,
    /// Repetitions of an operation that takes next to no time.
    often: usize,
}

impl Effort {
    /// Effort on a device.
    #[cfg(feature = "cuda")]
    pub(super) const OF_DEVICE: Self = Self {
        warm_up: Duration::from_millis(200),
        rounds: 5,
        repeats: 10,
        often: 1000,
    };
    /// As little as there can be.
    #[cfg(feature = "emulator")]
    pub(super) const ONCE: Self = Self {
        warm_up: Duration::ZERO,
        rounds: 1,
        repeats: 1,
        often: 2,
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

/// Bandwidth of reading `bytes`; measured in graphs of one launch each.
pub(super) fn bandwidth<D: Device>(device: &D, bytes: usize, effort: Effort) -> omni_gpu::Result<Bandwidth> {
    let from = device.alloc(bytes)?;
    let to = device.alloc(bytes)?;
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
    Ok(Bandwidth { copy: copied, read })
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

/// Words of 4 bytes that a block of [`Fill`] writes.
const WORDS_OF_BLOCK: u32 = 1024;

/// Launches and copies that do next to nothing, with their seconds: launches in a graph by their blocks, single
/// launches, a graph, and copies to and from the device, each waited for. Each also reads the device's busy time, as
/// a step does.
pub(super) fn overheads<D: Device>(device: &D, effort: Effort) -> omni_gpu::Result<Vec<(String, f64)>> {
    let often = effort.often;
    let memory = device.alloc((528 * WORDS_OF_BLOCK * 4) as usize)?;
    let mut found = Vec::new();
    let mut told = |what: String, seconds| found.push((what, seconds));
    let fill = |blocks| {
        let to = memory.address();
        let words = blocks * WORDS_OF_BLOCK;
        Fill { to, word: 1, words }.launch()
    };
    for blocks in [1, 132, 528] {
        let seconds = time_all(device, effort, &vec![fill(blocks); often])?;
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
        device.wait()?;
        device.take_busy();
        Ok(())
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
    let mut back = Some(device.staging(4 << 10)?);
    let step = || {
        device.upload_async(memory.address(), &staging, staging.content().len())?;
        device.replay(&graph)?;
        let to = match back.take() {
            Some(to) => to,
            None => device.staging(4 << 10)?,
        };
        let pending = device.download_async(memory.address(), to, 4 << 10)?;
        back = Some(device.wait_copy(pending)?);
        device.take_busy();
        Ok(())
    };
    told(
        "a step: a copy of 4 KiB to the device, a graph of one launch, a copy of 4 KiB back that is waited for".to_owned(),
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
fn time<D: Device>(device: &D, effort: Effort, launch: &Launch) -> omni_gpu::Result<f64> {
    time_all(device, effort, std::slice::from_ref(launch))
}

/// Seconds of a graph of launches.
fn time_all<D: Device>(device: &D, effort: Effort, launches: &[Launch]) -> omni_gpu::Result<f64> {
    let graph = graph(device, launches)?;
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
        let found = bandwidth(&device, 1 << 16, Effort::ONCE).expect("it computes");
        assert!(found.copy > 0.0 && found.copy.is_finite(), "{found:?}");
        assert!(found.read > 0.0 && found.read.is_finite(), "{found:?}");
        let product = product(&device, 128, Effort::ONCE).expect("it computes");
        assert!(product > 0.0 && product.is_finite(), "{product}");
    }

    #[test]
    fn each_overhead_is_measured_and_named_once() {
        let found = overheads(&omni_gpu::Emulated::default(), Effort::ONCE).expect("it computes");
        assert!(found.iter().all(|(_, seconds)| *seconds > 0.0), "{found:?}");
        let names: BTreeSet<_> = found.iter().map(|(what, _)| what).collect();
        assert_eq!((names.len(), found.len()), (10, 10), "{found:?}");
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
