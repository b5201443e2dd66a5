//! The whole server under callers, as a table, beside what is asked of it.

use std::time::Duration;

use super::pipeline::{self, Came, Level, Server};
use super::{PUBLISHED, Run, ms, percentile};
use crate::gpu::models::Place;
use crate::gpu::report::{Report, number};

/// Most failure reasons reported per level.
const REASONS: usize = 3;

const COLUMNS: [&str; 10] = [
    "streams",
    "answers",
    "failed",
    "first packet, mean ms",
    "p50 ms",
    "p95 ms",
    "RTF p50",
    "RTF p95",
    "audio s/s",
    "no gap at 100 ms",
];

/// Measures, and writes it down.
pub(super) fn measure(run: &mut Run<'_>, name: &str) -> anyhow::Result<()> {
    let args = arguments(
        &run.asked.server_model(name),
        run.place,
        run.asked.batches.iter().copied().max().unwrap_or(1),
    );
    run.report.heading(2, &format!("The server with {name}"))?;
    let told = args.join(" ");
    run.report
        .paragraph(format!("`omni-server {told}`, callers in the same process."))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    run.longest = Duration::ZERO;
    let title = format!("the server with {name}");
    let server = run.part(&title, run.asked.load, || runtime.block_on(Server::start(&args)));
    let Some(server) = server else {
        return Ok(run.report.paragraph("Not measured.")?);
    };
    run.report.figures(0, &COLUMNS)?;
    run.longest = Duration::ZERO;
    let mut levels = Vec::new();
    for &batch in &run.asked.batches {
        let level = Level {
            streams: batch as usize,
            time: run.asked.load,
        };
        let title = format!("{title}, {batch} streams");
        // A first answer is waited for before, and the last ones behind.
        let found = run.part(&title, level.time.mul_f64(1.5), || {
            runtime.block_on(pipeline::load(server.address(), level))
        });
        let Some(came) = found else { continue };
        run.report.row(&cells(batch, &came))?;
        let reasons = came.failures.iter().take(REASONS);
        reasons.for_each(|reason| run.fails(format!("{title}: {reason}")));
        if came.answers.is_empty() {
            run.fails(format!("{title}: nothing was answered"));
        }
        levels.push((batch, came));
    }
    let fallbacks = runtime.block_on(server.fallbacks());
    run.report.line(format!(
        "\nSteps that could not be graphs: {}.",
        counted(fallbacks)
    ))?;
    // On a device that no GPU has counted any means that none has computed.
    let expected = match run.place {
        Place::Device(_) => Some(0.0),
        #[cfg(feature = "emulator")]
        Place::Emulated | Place::Nowhere => None,
    };
    if fallbacks != expected {
        run.fails(format!(
            "{title}: steps that could not be graphs: {}",
            counted(fallbacks)
        ));
    }
    if PUBLISHED.contains(&name) {
        targets(&levels, run.report)?;
    }
    runtime.block_on(server.stop());
    Ok(())
}

fn counted(fallbacks: Option<f64>) -> String {
    fallbacks.map_or_else(|| "no GPU has counted any".to_owned(), |count| count.to_string())
}

/// Arguments of such a server: its defaults follow the device.
fn arguments(model: &str, place: Place, streams: u32) -> [String; 4] {
    let device = match place {
        Place::Device(number) => format!("cuda:{number}"),
        // A server would be too slow there; its own kernels do.
        #[cfg(feature = "emulator")]
        Place::Emulated | Place::Nowhere => "cpu".to_owned(),
    };
    [
        format!("--model={model}"),
        "--speech-only".to_owned(),
        format!("--device={device}"),
        format!("--max-active={}", streams.max(8)),
    ]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn cells(batch: u32, came: &Came) -> [String; 10] {
    let first = came.first_audio();
    let factors = came.real_time_factors();
    [
        batch.to_string(),
        came.answers.len().to_string(),
        came.failures.len().to_string(),
        ms(mean(&first)),
        ms(percentile(&first, 0.5)),
        ms(percentile(&first, 0.95)),
        format!("{:.4}", percentile(&factors, 0.5)),
        format!("{:.4}", percentile(&factors, 0.95)),
        format!("{:.1}", came.audio_rate),
        format!("{:.1} %", 100.0 * came.continuous()),
    ]
}

/// A figure that is asked for: of how many streams, at most (or at least) how much.
struct Target {
    what: &'static str,
    streams: u32,
    bound: f64,
    least: bool,
    figure: fn(&Came) -> f64,
}

impl Target {
    fn met(&self, found: f64) -> bool {
        if self.least {
            found >= self.bound
        } else {
            found <= self.bound
        }
    }
}

const TARGETS: [Target; 5] = [
    Target {
        what: "first packet, one stream, mean ms",
        streams: 1,
        bound: 30.0,
        least: false,
        figure: |came| 1e3 * mean(&came.first_audio()),
    },
    Target {
        what: "RTF, one stream, p50",
        streams: 1,
        bound: 0.025,
        least: false,
        figure: |came| percentile(&came.real_time_factors(), 0.5),
    },
    Target {
        what: "audio seconds per second, 64 streams",
        streams: 64,
        bound: 600.0,
        least: true,
        figure: |came| came.audio_rate,
    },
    Target {
        what: "first packet, 64 streams, mean ms",
        streams: 64,
        bound: 100.0,
        least: false,
        figure: |came| 1e3 * mean(&came.first_audio()),
    },
    Target {
        what: "no gap at 100 ms, 64 streams, %",
        streams: 64,
        bound: 99.0,
        least: true,
        figure: |came| 100.0 * came.continuous(),
    },
];

/// Targets for one H200 with any of the published shapes, beside the measurements on this device.
fn targets(levels: &[(u32, Came)], report: &mut Report) -> std::io::Result<()> {
    report.line("")?;
    report.figures(1, &["target on one H200", "asked", "measured", ""])?;
    for target in &TARGETS {
        let level = levels.iter().find(|(batch, _)| *batch == target.streams);
        let found = level.map(|(_, came)| (target.figure)(came));
        let word = match found {
            None => "not measured",
            Some(found) if target.met(found) => "met",
            Some(_) => "missed",
        };
        let asked = format!("{} {}", if target.least { ">=" } else { "<=" }, target.bound);
        let found = found.map_or("-".to_owned(), number);
        report.row(&[target.what, &asked, &found, word])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_at_its_bound_and_missed_behind_it() {
        let [first, .., gaps] = &TARGETS;
        assert!(first.met(30.0) && !first.met(30.1) && !first.met(f64::NAN));
        assert!(gaps.met(99.0) && !gaps.met(98.9) && !gaps.met(f64::NAN));
    }
}
