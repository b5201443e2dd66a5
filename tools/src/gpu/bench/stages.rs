//! Steps of one model, stage by stage, as a table.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use omni_models::{CountedFloor, DType, Kernels, LoadOptions, SpeechModel, StageFloor, counted_floor};

use super::steps::{self, Timed};
use super::{Run, ms};
use crate::gpu::report::number;

/// Frames of the pieces that code2wav is given.
const CHUNKS: [u32; 3] = [1, 4, 8];
/// Most that one kind of step may take of the time that is left.
const SHARE: u32 = 16;

/// A row of the table.
struct Row<'a> {
    batch: u32,
    what: &'a str,
    timed: &'a Timed,
    /// Bytes that such a step must read.
    bytes: f64,
}

const COLUMNS: [&str; 11] = [
    "what",
    "batch",
    "steps",
    "median ms",
    "p95 ms",
    "floor ms",
    "median / floor",
    "MB to read",
    "launches",
    "device busy",
    "device ms",
];

impl Row<'_> {
    fn cells(&self, speed: Option<f64>) -> [String; 11] {
        let floor = speed.map(|speed| self.bytes / speed);
        let over = floor.map(|floor| self.timed.at(0.5) / floor);
        [
            self.what.to_owned(),
            self.batch.to_string(),
            self.timed.wall.len().to_string(),
            ms(self.timed.at(0.5)),
            ms(self.timed.at(0.95)),
            floor.map_or("-".to_owned(), ms),
            over.map_or("-".to_owned(), number),
            number(self.bytes / 1e6),
            format!("{:.1}", self.timed.launches_each()),
            format!("{:.0} %", 100.0 * self.timed.busy_share()),
            ms(self.timed.busy / self.timed.wall.len() as f64),
        ]
    }
}

/// A loaded model, and what its steps must read.
type Loaded = (SpeechModel, CountedFloor);

/// Measures the steps of a model, and writes them down.
pub(super) fn measure(run: &mut Run<'_>, name: &str) -> anyhow::Result<()> {
    run.report.heading(2, &format!("Steps of {name}, bf16"))?;
    let begun = Instant::now();
    let options = LoadOptions {
        dtype: DType::Bf16,
        kernels: run.place.kernels(run.asked.graphs),
        persistent: run.asked.persistent,
        ..LoadOptions::default()
    };
    let asked = run.asked;
    let loaded = run.part(&format!("steps of {name}"), Duration::ZERO, || {
        let floors = counted_floor(asked.source(name)?, DType::Bf16)?;
        let model = SpeechModel::load(asked.source(name)?, options).context("it cannot be loaded")?;
        Ok((model, floors))
    });
    let Some(loaded) = loaded else {
        return Ok(run.report.paragraph("Not measured.")?);
    };
    let seconds = begun.elapsed().as_secs_f64();
    run.report.paragraph(format!("Loaded in {seconds:.1} s."))?;
    run.report.figures(1, &COLUMNS)?;
    run.longest = Duration::ZERO;
    for &batch in &run.asked.batches {
        speaking(run, name, &loaded, batch)?;
        for chunk in CHUNKS {
            decoding(run, name, &loaded, batch, chunk)?;
        }
    }
    let model = &loaded.0;
    let figures = model.gpu_figures().unwrap_or_default();
    run.report.line(format!(
        "\nWith what came before them, these steps recorded {} graphs and replayed known ones {} times, with {} fallbacks.",
        figures.graphs, figures.replays, figures.fallbacks
    ))?;
    let reasons = model.take_gpu_fallbacks().into_iter();
    run.broken
        .extend(reasons.map(|reason| format!("{name}: {reason}")));
    Ok(())
}

/// Frames by candle's layers, which are the reference: what own kernels are compared with.
pub(super) fn baseline(run: &mut Run<'_>, name: &str) -> anyhow::Result<()> {
    run.report
        .heading(2, &format!("Steps of {name}, bf16, by candle"))?;
    run.report.paragraph(match cfg!(feature = "candle-cuda") {
        true => "On the first CUDA device.",
        false => "On the processor: this build has no feature `candle-cuda`.",
    })?;
    let options = LoadOptions {
        dtype: DType::Bf16,
        kernels: Kernels::Candle,
        ..LoadOptions::default()
    };
    let asked = run.asked;
    let loaded = run.part(&format!("candle's steps of {name}"), Duration::ZERO, || {
        let floors = counted_floor(asked.source(name)?, DType::Bf16)?;
        let model = SpeechModel::load(asked.source(name)?, options).context("it cannot be loaded")?;
        Ok((model, floors))
    });
    let Some((model, floors)) = loaded else {
        return Ok(run.report.paragraph("Not measured.")?);
    };
    run.report.figures(1, &COLUMNS)?;
    for &batch in &run.asked.batches {
        let (count, most) = (run.asked.steps, run.budget.left() / SHARE);
        let label = format!("{name}: candle's frames of {batch}");
        let timed = run.part(&label, Duration::ZERO, || {
            steps::turns(&model, batch, count, most)
        });
        let Some(timed) = timed else { continue };
        let row = Row {
            batch,
            what: "both, in turn, by candle",
            timed: &timed,
            bytes: floors.predictor.step_bytes(batch) + read(&floors.talker, batch, 0.0),
        };
        let mut cells = row.cells(run.speed);
        // No graphs are counted there.
        cells[8..].fill("-".to_owned());
        run.report.row(&cells)?;
    }
    Ok(())
}

/// Frames of a batch of sequences.
fn speaking(run: &mut Run<'_>, name: &str, (model, floors): &Loaded, batch: u32) -> anyhow::Result<()> {
    let (count, most) = (run.asked.steps, run.budget.left() / SHARE);
    let found = run.part(&format!("{name}: frames of {batch}"), Duration::ZERO, || {
        steps::frames(model, batch, count, most)
    });
    let Some(times) = found else { return Ok(()) };
    let beside = beside(run, name, model, batch);
    let predictor = floors.predictor.step_bytes(batch);
    let talker = read(&floors.talker, batch, times.context);
    for (what, timed, bytes) in [
        ("talker step", &times.talker, talker),
        ("predictor frame", &times.predictor, predictor),
        ("both, in turn", &times.whole, talker + predictor),
        ("both, overlapped", &times.overlapped, talker + predictor),
    ] {
        let row = Row {
            batch,
            what,
            timed,
            bytes,
        };
        run.report.row(&row.cells(run.speed))?;
    }
    let Some((frames, pieces)) = beside else {
        return Ok(());
    };
    // Their figures of the device are those of both: what each does alone is not known here.
    for (what, timed, bytes) in [
        ("both, in turn, beside code2wav", &frames, talker + predictor),
        (
            "code2wav, 8 frames, beside both",
            &pieces,
            floors.code2wav.step_bytes(8 * batch),
        ),
    ] {
        let row = Row {
            batch,
            what,
            timed,
            bytes,
        };
        let mut cells = row.cells(run.speed);
        cells[8..].fill("-".to_owned());
        run.report.row(&cells)?;
    }
    Ok(())
}

/// Frames of a batch and pieces of as many streams at once, on queues of their own: what each costs the other.
fn beside(run: &mut Run<'_>, name: &str, model: &SpeechModel, batch: u32) -> Option<(Timed, Timed)> {
    if !run.computes() {
        return None;
    }
    let (count, most) = (run.asked.steps, run.budget.left() / SHARE);
    run.part(
        &format!("{name}: frames of {batch} beside code2wav"),
        Duration::ZERO,
        || {
            std::thread::scope(|scope| {
                let pieces = scope.spawn(|| steps::pieces(model, batch, 8, count, most));
                let frames = steps::turns(model, batch, count, most);
                let pieces = pieces.join().map_err(|_| anyhow::anyhow!("code2wav panicked"))?;
                Ok((frames?, pieces?))
            })
        },
    )
}

/// Pieces of a batch of streams.
fn decoding(
    run: &mut Run<'_>,
    name: &str,
    (model, floors): &Loaded,
    batch: u32,
    chunk: u32,
) -> anyhow::Result<()> {
    let what = format!("code2wav, {chunk} frames");
    let (count, most) = (run.asked.steps, run.budget.left() / (4 * SHARE));
    let found = run.part(&format!("{name}: {what} of {batch}"), Duration::ZERO, || {
        steps::pieces(model, batch, chunk, count, most)
    });
    let Some(timed) = found else { return Ok(()) };
    let row = Row {
        batch,
        what: &what,
        timed: &timed,
        bytes: floors.code2wav.step_bytes(batch * chunk),
    };
    run.report.row(&row.cells(run.speed))?;
    Ok(())
}

/// Weights, and the keys and values of all positions of all rows.
fn read(stage: &StageFloor, rows: u32, context: f64) -> f64 {
    stage.step_bytes(rows) + f64::from(rows) * context * stage.kv_position_bytes as f64
}
