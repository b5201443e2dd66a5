//! `omni-gpu bench`: speed of a device beside the limits of its memory bandwidth and its matrix products.
//!
//! First the parts, each alone and waited for, then the whole server under callers. Every figure is measured in this
//! run, the ceilings included; what a step must read and compute is counted from the checkpoint's shapes.

#[cfg(any(feature = "cuda", feature = "emulator"))]
mod ceilings;
mod served;
mod stages;
mod steps;

use std::time::{Duration, Instant};

use omni_models::CheckpointSource;

use super::budget::Budget;
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

/// Models, loads and extent of a benchmark.
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
    /// Requests of each caller of the server; 0 leaves the server out.
    pub requests: u32,
    /// Bytes that the memory's speed is measured with.
    pub bytes: usize,
}

/// Beginning of a line about a failure; `scripts/gpu-report` looks for it.
const FAILED: &str = "Failed";

/// A measurement under way.
struct Run<'a> {
    place: Place,
    asked: &'a Bench,
    budget: Budget,
    report: &'a mut Report,
    /// Those of the device, if they were measured.
    ceilings: Option<Ceilings>,
    left_out: Vec<String>,
    broken: Vec<String>,
    /// The longest time that a part took which is like the next one.
    longest: Duration,
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
    };
    run.ceilings()?;
    for name in &asked.models {
        stages::measure(&mut run, name)?;
    }
    if asked.requests > 0 {
        for name in &asked.models {
            served::measure(&mut run, name)?;
        }
    }
    run.end()
}

impl Run<'_> {
    /// Runs `part` if there is time for it. One that fails is reported and keeps no other from being measured.
    fn part<T>(&mut self, name: &str, part: impl FnOnce() -> anyhow::Result<T>) -> Option<T> {
        if !self.budget.allows(self.longest) {
            self.left_out.push(name.to_owned());
            return None;
        }
        let begun = Instant::now();
        let result = part();
        self.longest = self.longest.max(begun.elapsed());
        result
            .inspect_err(|error| self.fails(format!("{name}: {error:#}")))
            .ok()
    }

    /// Reports a failure at once, because the run may be killed before its end, and once more there.
    fn fails(&mut self, failure: String) {
        if let Err(error) = self.report.aside(&format!("- {FAILED}: {failure}")) {
            self.broken.push(format!("the report cannot be written: {error}"));
        }
        self.broken.push(failure);
    }

    fn ceilings(&mut self) -> anyhow::Result<()> {
        let place = self.place;
        let bytes = self.asked.bytes;
        self.report.heading(2, "Ceilings")?;
        self.ceilings = self.part("the ceilings", || Ceilings::of(place, bytes));
        let Some(found) = self.ceilings else {
            return Ok(self.report.paragraph("Not measured.")?);
        };
        self.report.figures(1, &["floors are counted with", ""])?;
        for (what, value, unit) in [
            ("bytes of memory", found.bytes, "GB/s"),
            ("products in bf16", found.operations, "GFLOP/s"),
        ] {
            self.report
                .row(&[what.to_owned(), format!("{:.3} {unit}", value / 1e9)])?;
        }
        Ok(())
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
        Ok(Verdict::of(self.broken.is_empty(), self.left_out.is_empty()))
    }
}

/// Upper bounds of a device, as far as the kernels here get.
#[derive(Debug, Clone, Copy)]
struct Ceilings {
    /// Bytes per second.
    bytes: f64,
    /// Additions and multiplications per second, of products in bf16.
    operations: f64,
}

impl Ceilings {
    /// Figures of the device at `place`, reading `bytes`.
    #[cfg(any(feature = "cuda", feature = "emulator"))]
    fn of(place: Place, bytes: usize) -> anyhow::Result<Self> {
        fn of<D: omni_gpu::Device>(
            device: &D,
            bytes: usize,
            side: u32,
            effort: Effort,
        ) -> anyhow::Result<Ceilings> {
            Ok(Ceilings {
                bytes: ceilings::bandwidth(device, bytes, effort)?,
                operations: ceilings::product(device, side, effort)?,
            })
        }
        match place {
            #[cfg(feature = "cuda")]
            Place::Device(number) => of(&omni_gpu::Cuda::open(number)?, bytes, 8192, Effort::OF_DEVICE),
            #[cfg(not(feature = "cuda"))]
            Place::Device(_) => anyhow::bail!("this build has no kernels for NVIDIA devices"),
            #[cfg(feature = "emulator")]
            Place::Emulated => of(&omni_gpu::Emulated::default(), bytes, 128, Effort::ONCE),
        }
    }

    #[cfg(not(any(feature = "cuda", feature = "emulator")))]
    fn of(_: Place, _: usize) -> anyhow::Result<Self> {
        anyhow::bail!("this build has no kernels for NVIDIA devices")
    }
}

impl Bench {
    fn source(&self, name: &str) -> anyhow::Result<CheckpointSource> {
        match name {
            "embedded" => self.embedded.source(),
            random => Ok(CheckpointSource::Random(random.parse()?)),
        }
    }

    /// The server's `--model`.
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
