//! `omni-gpu`: checks and measures an NVIDIA device; see `docs/benchmarks.md`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use omni_tools::gpu::{
    Bench, Budget, Embedded, PUBLISHED, Place, References, Report, Verdict, bench, check, describe,
};

/// Checks and measures what an NVIDIA device computes, and writes Markdown.
///
/// Exit codes: 0 if everything holds, 1 if something does not, 2 for a wrong command line, 3 if there is no device
/// that can be used, 4 if there was no time for all of it.
#[derive(Debug, Parser)]
#[command(name = "omni-gpu", version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare the device's results with those of the processor and of the reference implementation
    Check {
        #[command(flatten)]
        common: Common,
        /// Only cases whose name contains this; may be repeated
        #[arg(long, value_name = "TEXT")]
        only: Vec<String>,
    },
    /// Measure the device's speed: its memory, steps beside their least reads, and the whole server under callers
    Bench {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        bench: BenchArgs,
    },
}

/// Models measured by default, the most important first.
const MODELS: [&str; 4] = [PUBLISHED[0], PUBLISHED[1], PUBLISHED[2], "embedded"];

#[derive(Debug, Args)]
struct BenchArgs {
    /// Models: "embedded", or random weights of a known shape
    #[arg(long, value_delimiter = ',', default_values = MODELS, value_name = "NAME,...")]
    models: Vec<String>,
    /// Sequences at once: in steps, and as callers of the server
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32, 64], value_name = "N,...")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=512))]
    batches: Vec<u32>,
    /// Steps of each kind, most
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Requests of each caller of the server; 0 leaves the server out
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    requests: u32,
    /// Megabytes that the memory's speed is measured with
    #[arg(long, default_value_t = 1_024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8_192))]
    megabytes: u32,
}

impl BenchArgs {
    fn bench(&self, embedded: Embedded) -> Bench {
        Bench {
            models: self.models.clone(),
            embedded,
            batches: self.batches.clone(),
            steps: self.steps,
            requests: self.requests,
            bytes: (self.megabytes as usize) << 20,
        }
    }
}

#[derive(Debug, Args)]
struct Common {
    /// The device's number
    #[arg(long, default_value_t = 0, value_name = "N")]
    device: usize,
    /// Run the kernels on the processor instead: shows everything but the speed
    #[cfg(feature = "emulator")]
    #[arg(long, conflicts_with = "device")]
    emulated: bool,
    /// Take the embedded checkpoint from this folder, not the one that is compiled in: a build for devices has none
    #[arg(long, value_name = "DIR", value_parser = checkpoint)]
    embedded: Option<PathBuf>,
    /// Write the report to a file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Time that there is; what does not fit is left out and named
    #[arg(long, default_value_t = 8.0, value_name = "N", value_parser = minutes)]
    minutes: f64,
}

/// A time in minutes, of a day at most.
fn minutes(given: &str) -> Result<f64, String> {
    match given.parse() {
        Ok(minutes) if (0.0..=1440.0).contains(&minutes) => Ok(minutes),
        _ => Err("expected minutes from 0 to 1440".to_owned()),
    }
}

/// A folder with a checkpoint in it.
fn checkpoint(given: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(given);
    if folder.join("config.json").is_file() {
        Ok(folder)
    } else {
        Err("expected the folder of a checkpoint, there is no config.json".to_owned())
    }
}

impl Common {
    fn embedded(&self) -> Embedded {
        self.embedded.clone().map_or_else(Embedded::default, Embedded::at)
    }

    fn place(&self) -> Place {
        #[cfg(feature = "emulator")]
        if self.emulated {
            return Place::Emulated;
        }
        Place::Device(self.device)
    }
}

fn main() -> ExitCode {
    match run(&Program::parse().command) {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<Verdict> {
    let (Command::Check { common, .. } | Command::Bench { common, .. }) = command;
    let place = common.place();
    let device = match place.probe() {
        Ok(device) => device,
        Err(reason) => {
            eprintln!("error: {reason}");
            return Ok(Verdict::NoDevice);
        }
    };
    let budget = Budget::of(Duration::from_secs_f64(60.0 * common.minutes));
    let mut report = Report::open(common.out.as_deref())?;
    match command {
        Command::Check { only, .. } => {
            describe("What the device computes", place, &device, &mut report)?;
            let references = References {
                embedded: common.embedded(),
                ..References::default()
            };
            check(place, only, budget, &references, &mut report)
        }
        Command::Bench { bench: asked, .. } => {
            describe("How fast the device speaks", place, &device, &mut report)?;
            bench(place, &asked.bench(common.embedded()), budget, &mut report)
        }
    }
}
