//! `omni-drift`: whether a voice stays itself over a long text; see `docs/voices.md`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use omni_tools::drift::{SpeakerModel, distance, table};

/// Measures how far speech moves away from the voice that it is spoken with, and prints Markdown.
///
/// Every window of the speech has a distance from the voice: one minus the cosine of the angle between the speaker's vectors, which the
/// checkpoint's own speaker encoder computes.
#[derive(Debug, Parser)]
#[command(name = "omni-drift", version)]
struct Args {
    /// A Base checkpoint of Qwen3-TTS: a directory, or random:NAME
    #[arg(long, value_name = "DIR")]
    model: String,
    /// Voice: a file written by `omni-client voices export`, or the recording that the voice was made of
    #[arg(long, value_name = "FILE")]
    voice: PathBuf,
    /// Voices of other people, to have something to compare with
    #[arg(long, value_name = "FILE")]
    other: Vec<PathBuf>,
    /// Length of a window in seconds
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=60))]
    window: u64,
    /// Speech of the voice: WAV, FLAC or Ogg Opus
    speech: PathBuf,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(report) => {
            print(&report);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<String> {
    let speaker = SpeakerModel::open(&args.model)?;
    let voice = speaker.voice(&args.voice)?;
    let speech = speaker.recording(&args.speech)?;
    let windows = speaker.drift(&voice, &speech, Duration::from_secs(args.window))?;
    let mut report = table(&windows);
    for path in &args.other {
        let apart = distance(&voice, &speaker.voice(path)?)?;
        report += &format!("\nFrom {}: {apart:.5}.\n", path.display());
    }
    Ok(report)
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn print(report: &str) {
    print!("{report}");
}
