//! `omni-gpu bench`: speed of a device beside the limits of its memory bandwidth and its matrix products.
//!
//! First the stages, each alone and waited for, then the whole server under callers, then optional details of the
//! stages. Every figure is measured in this run, ceilings included; the reads and operations of a step are counted
//! from the checkpoint's shapes.

mod beside;
#[cfg(any(feature = "cuda", feature = "emulator"))]
mod ceilings;
mod costs;
mod pipeline;
mod served;
mod stages;
mod steps;

use std::time::{Duration, Instant};

use omni_models::CheckpointSource;

use super::budget::Budget;
use super::clocks::Clocks;
use super::models::{Embedded, Place};
use super::report::{Report, number};
use super::verdict::Verdict;
#[cfg(any(feature = "cuda", feature = "emulator"))]
use ceilings::Effort;

/// The published shapes of what speaks, with random weights: Qwen3-Omni without its thinker, and Qwen3-TTS.
pub const PUBLISHED: [&str; 3] = [
    "random:qwen3-omni-30b-a3b-speech",
    "random:qwen3-tts-0.6b",
    "random:qwen3-tts-1.7b",
];

/// Settings of a measurement.
#[derive(Debug, Clone)]
pub struct Bench {
    /// `embedded`, or random weights of a known shape.
    pub models: Vec<String>,
    /// Location of the embedded one.
    pub embedded: Embedded,
    /// Sequences at once: in steps, and as callers of the server.
    pub batches: Vec<u32>,
    /// Steps of each kind, most.
    pub steps: u32,
    /// Time for which callers begin requests at each level.
    pub load: Duration,
    /// Bytes that the memory's speed is measured with.
    pub bytes: usize,
    /// Runs steps as graphs.
    pub graphs: bool,
    /// Joins consecutive launches into persistent ones.
    pub persistent: bool,
    /// Measures candle's layers, too.
    pub candle: bool,
    /// Measures the cost of each kind of launch in the steps.
    pub costs: bool,
    /// Measures the whole server.
    pub server: bool,
    /// Measures the ceilings with which floors are computed.
    pub ceilings: bool,
}

/// Beginning of a line about a failure; `scripts/gpu-report` searches for it.
const FAILED: &str = "Failed";

/// A measurement in progress.
struct Run<'a> {
    place: Place,
    asked: &'a Bench,
    budget: Budget,
    report: &'a mut Report,
    /// Those of the device, if they were measured.
    ceilings: Option<Ceilings>,
    left_out: Vec<String>,
    broken: Vec<String>,
    /// Longest time of a similar part so far.
    longest: Duration,
    clocks: Clocks,
}

/// Measures, as far as time allows.
///
/// # Errors
/// If the report cannot be written.
pub fn bench(place: Place, asked: &Bench, budget: Budget, report: &mut Report) -> anyhow::Result<Verdict> {
    let mut run = Run {
        place,
        asked,
        budget,
        report,
        ceilings: None,
        left_out: Vec::new(),
        broken: Vec::new(),
        longest: Duration::ZERO,
        clocks: Clocks::of(place),
    };
    if asked.ceilings && run.computes() {
        run.ceilings()?;
        run.clocks.tell(run.report)?;
    }
    for name in &asked.models {
        stages::measure(&mut run, name)?;
        run.clocks.tell(run.report)?;
    }
    if !run.computes() {
        return run.end();
    }
    if asked.server {
        for name in &asked.models {
            served::measure(&mut run, name)?;
            run.clocks.tell(run.report)?;
        }
    }
    if asked.costs {
        for name in &asked.models {
            costs::measure(&mut run, name)?;
            run.clocks.tell(run.report)?;
        }
    }
    if asked.candle {
        for name in &asked.models {
            stages::baseline(&mut run, name)?;
            run.clocks.tell(run.report)?;
        }
    }
    run.end()
}

impl Run<'_> {
    /// Runs `part` if there is time for it; a failure is reported and does not stop the others.
    fn part<T>(&mut self, name: &str, need: Duration, part: impl FnOnce() -> anyhow::Result<T>) -> Option<T> {
        if !self.budget.allows(need.max(self.longest)) {
            self.left_out.push(name.to_owned());
            return None;
        }
        let begun = Instant::now();
        let result = part();
        self.longest = self.longest.max(begun.elapsed());
        match result {
            Ok(found) => Some(found),
            Err(error) => {
                self.fails(format!("{name}: {error:#}"));
                None
            }
        }
    }

    /// Reports a failure at once, because the run may be cut short, and again at the end.
    fn fails(&mut self, what: String) {
        if let Err(error) = self.report.aside(&format!("- {FAILED}: {what}")) {
            self.broken.push(format!("the report cannot be written: {error}"));
        }
        self.broken.push(what);
    }

    /// Returns true if anything is computed.
    fn computes(&self) -> bool {
        #[cfg(feature = "emulator")]
        return self.place != Place::Nowhere;
        #[cfg(not(feature = "emulator"))]
        true
    }

    fn ceilings(&mut self) -> anyhow::Result<()> {
        let place = self.place;
        let bytes = self.asked.bytes;
        self.report.heading(2, "Ceilings")?;
        let found = self.part("the ceilings", Duration::ZERO, || device_figures(place, bytes));
        let Some(figures) = found else {
            return Ok(self.report.paragraph("Not measured.")?);
        };
        // A failure does not stop the others.
        let memory = self.measured("the memory's speed", figures.memory);
        let product = self.measured("the speed of a product", figures.product);
        let overheads = self.measured("overheads", figures.overheads);
        if let Some(memory) = memory {
            self.report.figures(1, &["", "GB/s"])?;
            for (what, speed) in [
                ("copying, bytes read and written", memory.copy),
                ("reading a matrix for one row", memory.read),
                ("bytes floors are counted with", memory.fastest()),
            ] {
                self.report.row(&[what, &format!("{:.3}", speed / 1e9)])?;
            }
            self.report.line("")?;
        }
        if let Some((side, speed)) = product {
            self.report.figures(1, &["a product, bf16", "GFLOP/s"])?;
            self.report.row(&[
                format!("{side} x {side} by {side} x {side}: FLOP floors are counted with"),
                number(speed / 1e9),
            ])?;
            self.report.line("")?;
        }
        if let Some(overheads) = overheads {
            self.report.figures(1, &["overhead", "us each"])?;
            for (what, seconds) in overheads {
                self.report.row(&[what, number(1e6 * seconds)])?;
            }
        }
        self.ceilings = memory.zip(product).map(|(memory, (_, operations))| Ceilings {
            bytes: memory.fastest(),
            operations,
        });
        Ok(())
    }

    /// Measurement, or nothing and the reason in the report.
    fn measured<T>(&mut self, what: &str, result: anyhow::Result<T>) -> Option<T> {
        result
            .inspect_err(|error| self.fails(format!("{what}: {error:#}")))
            .ok()
    }

    fn end(self) -> anyhow::Result<Verdict> {
        self.report.heading(2, "What is missing")?;
        if self.left_out.is_empty() && self.broken.is_empty() {
            self.report
                .line("Nothing: all that was asked for was measured.")?;
        }
        for (what, names) in [
            (FAILED, &self.broken),
            ("Left out for lack of time", &self.left_out),
        ] {
            for name in names {
                self.report.line(format!("- {what}: {name}"))?;
            }
        }
        let seconds = self.budget.gone().as_secs_f64();
        self.report.line(format!("\nAll of it took {seconds:.0} s."))?;
        Ok(Verdict::of(self.broken.is_empty(), self.left_out.is_empty()))
    }
}

/// Peak rates of a device, as far as the kernels here reach them.
#[derive(Debug, Clone, Copy)]
struct Ceilings {
    /// Bytes per second.
    bytes: f64,
    /// Additions and multiplications per second, of products in bf16.
    operations: f64,
}

/// Bytes per second.
#[derive(Debug, Clone, Copy)]
struct Bandwidth {
    /// Reading and writing, both counted.
    copy: f64,
    /// Reading a matrix for a product with one row, in bf16.
    read: f64,
}

impl Bandwidth {
    /// Bandwidth with which floors are computed: a slow copy must not raise them.
    fn fastest(self) -> f64 {
        self.copy.max(self.read)
    }
}

/// Measurements of a device without a model.
struct DeviceFigures {
    memory: anyhow::Result<Bandwidth>,
    /// Rows and columns of square matrices, and additions and multiplications per second of their product.
    product: anyhow::Result<(u32, f64)>,
    /// Launches and copies that do next to nothing, with their seconds.
    overheads: anyhow::Result<Vec<(String, f64)>>,
}

/// Figures of the device at `place`, reading `bytes`.
#[cfg(any(feature = "cuda", feature = "emulator"))]
fn device_figures(place: Place, bytes: usize) -> anyhow::Result<DeviceFigures> {
    fn of<D: omni_gpu::Device>(device: &D, bytes: usize, side: u32, effort: Effort) -> DeviceFigures {
        let product = ceilings::product(device, side, effort);
        DeviceFigures {
            memory: ceilings::bandwidth(device, bytes, effort).map_err(Into::into),
            product: product.map(|speed| (side, speed)).map_err(Into::into),
            overheads: ceilings::overheads(device, effort).map_err(Into::into),
        }
    }
    Ok(match place {
        #[cfg(feature = "cuda")]
        Place::Device(number) => of(&omni_gpu::Cuda::open(number)?, bytes, 8192, Effort::OF_DEVICE),
        #[cfg(not(feature = "cuda"))]
        Place::Device(_) => anyhow::bail!("this build has no kernels for NVIDIA devices"),
        #[cfg(feature = "emulator")]
        Place::Emulated => of(&omni_gpu::Emulated::default(), bytes, 128, Effort::ONCE),
        #[cfg(feature = "emulator")]
        Place::Nowhere => anyhow::bail!("nothing is computed"),
    })
}

#[cfg(not(any(feature = "cuda", feature = "emulator")))]
fn device_figures(_: Place, _: usize) -> anyhow::Result<DeviceFigures> {
    anyhow::bail!("this build has no kernels for NVIDIA devices")
}

impl Bench {
    fn source(&self, name: &str) -> anyhow::Result<CheckpointSource> {
        match name {
            "embedded" => self.embedded.source(),
            random => Ok(CheckpointSource::Random(random.parse()?)),
        }
    }

    /// Value of a server's `--model`.
    fn server_model(&self, name: &str) -> String {
        match name {
            "embedded" => self.embedded.server_model(),
            random => random.to_owned(),
        }
    }
}

/// Milliseconds.
fn ms(seconds: f64) -> String {
    number(1e3 * seconds)
}

/// The value that at least `share` of sorted ones do not exceed (nearest rank); not a number if there are none.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    // Shares such as 0.95 are a little more in binary than they look, which must not make it the next one.
    let rank = (share * sorted.len() as f64 - 1e-9).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}
