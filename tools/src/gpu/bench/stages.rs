//! Steps of one model, stage by stage, as a table.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use omni_models::{CountedFloor, DType, Kernels, LoadOptions, SpeechModel, StageFloor, counted_floor};

use super::beside::{self, Most};
use super::steps::{self, Decoders, Priority, Speakers, Timed};
use super::{Ceilings, Run, ms, percentile};
use crate::gpu::report::number;

/// Frames of the pieces that code2wav is given.
const CHUNKS: [u32; 3] = [1, 4, 8];
/// Most that one kind of step may take of the time that is left.
const SHARE: u32 = 16;

/// Least work of a step.
#[derive(Debug, Clone, Copy)]
struct Work {
    /// Bytes of weights, and of keys and values, that it reads.
    bytes: f64,
    /// Additions and multiplications of its products.
    operations: f64,
}

impl Work {
    /// Work of a stage's step over `rows` rows that attend to `context` positions each.
    fn of(stage: &StageFloor, rows: u32, context: f64) -> Self {
        Self {
            bytes: stage.step_bytes(rows) + f64::from(rows) * context * stage.kv_position_bytes as f64,
            operations: stage.step_operations(rows),
        }
    }

    /// Seconds that reading takes at least, and that computing does.
    fn floors(self, ceilings: Ceilings) -> [f64; 2] {
        [self.bytes / ceilings.bytes, self.operations / ceilings.operations]
    }
}

/// A row of the table.
struct Row<'a> {
    batch: u32,
    what: &'a str,
    timed: &'a Timed,
    /// Of one stage after the other.
    work: &'a [Work],
}

const COLUMNS: [&str; 13] = [
    "what",
    "batch",
    "steps",
    "median ms",
    "p95 ms",
    "bytes floor ms",
    "FLOP floor ms",
    "median / larger floor",
    "MB to read",
    "GFLOP",
    "launches",
    "device busy",
    "device ms",
];
/// Columns that a backend without a device's counters does not know: from this one on.
const COUNTED: usize = 10;

impl Row<'_> {
    fn cells(&self, ceilings: Option<Ceilings>) -> [String; 13] {
        let mut cells = ["-", "-", "-"].map(str::to_owned);
        if let Some(ceilings) = ceilings {
            let floors = self.work.iter().map(|work| work.floors(ceilings));
            let [bytes, operations, larger] = floors.fold([0.0; 3], |sum, [bytes, operations]| {
                [
                    sum[0] + bytes,
                    sum[1] + operations,
                    sum[2] + bytes.max(operations),
                ]
            });
            cells = [ms(bytes), ms(operations), number(self.timed.at(0.5) / larger)];
        }
        let [bytes, operations, over] = cells;
        let sum = |of: fn(&Work) -> f64| self.work.iter().map(of).sum::<f64>();
        [
            self.what.to_owned(),
            self.batch.to_string(),
            self.timed.wall.len().to_string(),
            ms(self.timed.at(0.5)),
            ms(self.timed.at(0.95)),
            bytes,
            operations,
            over,
            number(sum(|work| work.bytes) / 1e6),
            number(sum(|work| work.operations) / 1e9),
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
    if run.computes() {
        side_by_side(run, name, &loaded.0)?;
    }
    let model = &loaded.0;
    let figures = model.gpu_figures().unwrap_or_default();
    run.report.line(format!(
        "\nWith what came before them, these steps recorded {} graphs and replayed known ones {} times, with {} fallbacks.",
        figures.graphs, figures.replays, figures.fallbacks
    ))?;
    let reasons = model.take_gpu_fallbacks().into_iter();
    reasons.for_each(|reason| run.fails(format!("{name}: {reason}")));
    Ok(())
}

/// Frames by candle's layers, which are the reference: what own kernels are compared with.
pub(super) fn baseline(run: &mut Run<'_>, name: &str) -> anyhow::Result<()> {
    run.report
        .heading(2, &format!("Steps of {name}, bf16, by candle"))?;
    run.report.paragraph(if cfg!(feature = "candle-cuda") {
        "On the first CUDA device."
    } else {
        "On the processor: this build has no feature `candle-cuda`."
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
        let count = run.asked.steps;
        let most = run.budget.left() / SHARE;
        let label = format!("{name}: candle's frames of {batch}");
        let timed = run.part(&label, Duration::ZERO, || {
            steps::turns(&model, batch, count, most)
        });
        let Some(timed) = timed else { continue };
        let row = Row {
            batch,
            what: "both, in turn, by candle",
            timed: &timed,
            work: &[&floors.talker, &floors.predictor].map(|stage| Work::of(stage, batch, 0.0)),
        };
        let mut cells = row.cells(run.ceilings);
        // No graphs are counted there.
        cells[COUNTED..].fill("-".to_owned());
        run.report.row(&cells)?;
    }
    Ok(())
}

/// Frames of a batch of sequences.
fn speaking(run: &mut Run<'_>, name: &str, (model, floors): &Loaded, batch: u32) -> anyhow::Result<()> {
    let count = run.asked.steps;
    let most = run.budget.left() / SHARE;
    let found = run.part(&format!("{name}: frames of {batch}"), Duration::ZERO, || {
        steps::frames(model, batch, count, most)
    });
    let Some(times) = found else { return Ok(()) };
    let both = [
        Work::of(&floors.talker, batch, times.context),
        Work::of(&floors.predictor, batch, 0.0),
    ];
    for (what, timed, work) in [
        ("talker step", &times.talker, &both[..1]),
        ("predictor frame", &times.predictor, &both[1..]),
        ("both, in turn", &times.whole, &both[..]),
        ("both, overlapped", &times.overlapped, &both[..]),
    ] {
        let row = Row {
            batch,
            what,
            timed,
            work,
        };
        run.report.row(&row.cells(run.ceilings))?;
    }
    Ok(())
}

/// Frames of the pieces of a vocoder beside a token loop.
const CHUNK: u32 = 8;
/// Frames that a token loop has room for while it waits for the vocoder, most: for every one that is measured, and in all.
const SPARE: (u32, u32) = (8, 1_000);

const SIDE_BY_SIDE: [&str; 13] = [
    "what",
    "batch",
    "alone, ms",
    "p95",
    "steps",
    "frames first, ms",
    "p95",
    "steps",
    "/ alone",
    "equal priorities, ms",
    "p95",
    "steps",
    "/ alone",
];

/// Frames of a batch and pieces of as many streams at once, on queues of their own: what each costs the other.
fn side_by_side(run: &mut Run<'_>, name: &str, model: &SpeechModel) -> anyhow::Result<()> {
    run.report.paragraph(format!(
        "\nBoth, in turn, and code2wav with pieces of {CHUNK} frames: each loop alone, and both at once, as a server has them (the frames' queue goes \
         before the vocoder's) and with equal priorities."
    ))?;
    run.report.figures(1, &SIDE_BY_SIDE)?;
    for &batch in &run.asked.batches {
        let most = Most {
            steps: run.asked.steps,
            time: run.budget.left() / SHARE,
        };
        let label = format!("{name}: frames of {batch} beside code2wav");
        let found = run.part(&label, Duration::ZERO, || {
            let room = most.steps + (SPARE.0 * most.steps).min(SPARE.1);
            let frames = |priority| Speakers::ready(model, batch, room, priority);
            let mut pieces = Decoders::ready(model, batch, CHUNK)?;
            let alone = (
                beside::alone(&mut frames(Priority::Urgent)?, most)?,
                beside::alone(&mut pieces, most)?,
            );
            let urgent = beside::both(&mut frames(Priority::Urgent)?, &mut pieces, most)?;
            let equal = beside::both(&mut frames(Priority::Equal)?, &mut pieces, most)?;
            Ok([[alone.0, urgent.0, equal.0], [alone.1, urgent.1, equal.1]])
        });
        let Some(found) = found else { continue };
        for (what, seconds) in ["both, in turn", "code2wav"].into_iter().zip(found) {
            run.report.row(&compared(what, batch, seconds))?;
        }
    }
    Ok(())
}

/// A row: how long the steps of a loop took, and how many were measured, alone and beside the other loop with each order of priorities.
fn compared(what: &str, batch: u32, arms: [Vec<f64>; 3]) -> Vec<String> {
    let [alone, others @ ..] = arms.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        let [median, late] = [0.5, 0.95].map(|share| percentile(&seconds, share));
        (median, [ms(median), ms(late), seconds.len().to_string()])
    });
    let mut cells = vec![what.to_owned(), batch.to_string()];
    cells.extend(alone.1);
    for (median, figures) in others {
        cells.extend(figures);
        cells.push(number(median / alone.0));
    }
    cells
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
    let count = run.asked.steps;
    let most = run.budget.left() / (4 * SHARE);
    let found = run.part(&format!("{name}: {what} of {batch}"), Duration::ZERO, || {
        steps::pieces(model, batch, chunk, count, most)
    });
    let Some(timed) = found else { return Ok(()) };
    let row = Row {
        batch,
        what: &what,
        timed: &timed,
        work: &[Work::of(&floors.code2wav, batch * chunk, 0.0)],
    };
    run.report.row(&row.cells(run.ceilings))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_compared_with_the_larger_of_the_times_to_read_and_to_compute() {
        let timed = Timed {
            wall: vec![0.012],
            busy: 0.006,
            launches: 3,
        };
        let work = Work {
            bytes: 4e9,
            operations: 3e12,
        };
        let row = Row {
            batch: 8,
            what: "a step",
            timed: &timed,
            work: &[work, work],
        };
        for (bytes, operations, told) in [
            (4e12, 2e15, ["2.00", "3.00", "4.00", "8000", "6000"]),
            (2e12, 2e15, ["4.00", "3.00", "3.00", "8000", "6000"]),
        ] {
            let ceilings = Ceilings { bytes, operations };
            assert_eq!(row.cells(Some(ceilings))[5..COUNTED], told);
        }
        assert_eq!(row.cells(None)[5..COUNTED], ["-", "-", "-", "8000", "6000"]);
        assert_eq!(row.cells(None)[COUNTED..], ["3.0", "50 %", "6.00"]);
    }

    #[test]
    fn each_of_several_stages_is_compared_with_its_own_larger_floor() {
        let timed = Timed {
            wall: vec![0.012],
            busy: 0.006,
            launches: 3,
        };
        let reads = Work {
            bytes: 4e9,
            operations: 1e12,
        };
        let computes = Work {
            bytes: 1e9,
            operations: 3e12,
        };
        let row = Row {
            batch: 8,
            what: "two stages",
            timed: &timed,
            work: &[reads, computes],
        };
        let ceilings = Ceilings {
            bytes: 2e12,
            operations: 1e15,
        };
        // 2 ms to read and 3 ms to compute; the sums are 2.5 and 4 ms, the sum of the larger ones is 5.
        let told = row.cells(Some(ceilings));
        assert_eq!(told[5..8], ["2.50", "4.00", "2.40"]);
    }

    #[test]
    fn a_step_reads_keys_and_values_of_all_rows_beside_its_weights() {
        let stage = StageFloor {
            parameters: 0,
            bytes: 0,
            dense_bytes: 100,
            mixtures: Vec::new(),
            kv_position_bytes: 10,
            row_operations: 7,
        };
        let work = Work::of(&stage, 3, 4.0);
        assert_eq!((work.bytes, work.operations), (220.0, 21.0));
    }

    #[test]
    fn a_loop_beside_another_is_compared_with_itself_alone() {
        let cells = compared(
            "code2wav",
            8,
            [vec![0.002, 0.001, 0.004], vec![0.003], vec![0.008]],
        );
        assert_eq!(
            cells,
            [
                "code2wav", "8", "2.00", "4.00", "3", "3.00", "3.00", "1", "1.50", "8.00", "8.00", "1",
                "4.00"
            ]
        );
        assert_eq!(cells.len(), SIDE_BY_SIDE.len());
    }
}
