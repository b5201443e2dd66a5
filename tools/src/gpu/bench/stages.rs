//! Steps of one model, stage by stage, as a table.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use omni_models::{CountedFloor, DType, LoadOptions, SpeechModel, StageFloor, counted_floor};

use super::steps::{self, Timed};
use super::{Ceilings, Run, ms};
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
        kernels: run.place.kernels(true),
        ..LoadOptions::default()
    };
    let asked = run.asked;
    let loaded = run.part(&format!("steps of {name}"), || {
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
    reasons.for_each(|reason| run.fails(format!("{name}: {reason}")));
    Ok(())
}

/// Frames of a batch of sequences.
fn speaking(run: &mut Run<'_>, name: &str, (model, floors): &Loaded, batch: u32) -> anyhow::Result<()> {
    let count = run.asked.steps;
    let most = run.budget.left() / SHARE;
    let found = run.part(&format!("{name}: frames of {batch}"), || {
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
    let found = run.part(&format!("{name}: {what} of {batch}"), || {
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
            assert_eq!(row.cells(Some(ceilings))[5..10], told);
        }
        assert_eq!(row.cells(None)[5..10], ["-", "-", "-", "8000", "6000"]);
        assert_eq!(row.cells(None)[10..], ["3.0", "50 %", "6.00"]);
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
}
