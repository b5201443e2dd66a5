//! Cost of every kind of launch in a step, as a table.

use std::time::Duration;

use omni_models::{DType, KernelCost, LoadOptions, SpeechModel, StepCosts};

use super::{Run, ms, steps};
use crate::gpu::report::number;

/// Replays of each step, with all launches and without each kind, most.
const REPLAYS: u32 = 10;
/// Kinds of launches that are shown of a step, most; the others are one row.
const SHOWN: usize = 24;
/// In place of a time.
const NOT_LEFT_OUT: &str = "not left out";

/// Measures the launches of a model's steps, and writes them down.
pub(super) fn measure(run: &mut Run<'_>, name: &str) -> anyhow::Result<()> {
    run.report
        .heading(2, &format!("What launches cost the steps of {name}, bf16"))?;
    run.report.paragraph(
        "Each kind of launch was left out of the recorded step in turn: what it costs where it stands, gaps included. \
         A step whose launches overlap takes less than their sum. Launches that say where others read and write are not \
         left out.",
    )?;
    run.longest = Duration::ZERO;
    for batch in run.asked.batches.clone() {
        let place = run.place;
        let asked = run.asked;
        let replays = run.asked.steps.min(REPLAYS);
        let found = run.part(&format!("{name}: launches of {batch}"), Duration::ZERO, || {
            let options = LoadOptions {
                dtype: DType::Bf16,
                kernels: place.kernels(true),
                ..LoadOptions::default()
            };
            let model = SpeechModel::load(asked.source(name)?, options)?;
            model.profile_gpu(replays);
            // The decoded samples are invalid and ignored.
            steps::frames(&model, batch, 1, Duration::ZERO)?;
            steps::pieces(&model, batch, 1, 1, Duration::ZERO)?;
            Ok(model.take_gpu_costs())
        });
        for costs in found.into_iter().flatten() {
            table(run, batch, costs)?;
        }
    }
    Ok(())
}

fn table(run: &mut Run<'_>, batch: u32, mut costs: StepCosts) -> anyhow::Result<()> {
    let whole = costs.time.as_secs_f64();
    let operations: u64 = costs.kernels.iter().map(|cost| cost.operations).sum();
    let launches: usize = costs.kernels.iter().map(|cost| cost.launches).sum();
    run.report.paragraph(format!(
        "\n{} with {} rows, {batch} sequences: {launches} launches in {} ms of the device; products of many rows make {} TFLOP/s of all of it.",
        costs.stage,
        costs.rows,
        ms(whole),
        rate(operations, whole),
    ))?;
    run.report.figures(
        1,
        &[
            "kernel",
            "blocks",
            "launches",
            "us each",
            "ms in all",
            "share",
            "GFLOP",
            "TFLOP/s",
        ],
    )?;
    costs.kernels.sort_by_key(|cost| std::cmp::Reverse(cost.time));
    for cost in costs.kernels.iter().take(SHOWN) {
        run.report.row(&cells(cost, whole))?;
    }
    let rest = costs.kernels.get(SHOWN..).unwrap_or_default();
    if !rest.is_empty() {
        let seconds: f64 = rest
            .iter()
            .filter_map(|cost| cost.time)
            .map(|time| time.as_secs_f64())
            .sum();
        let count: usize = rest.iter().map(|cost| cost.launches).sum();
        let cells = [
            "others".to_owned(),
            "-".to_owned(),
            count.to_string(),
            "-".to_owned(),
            ms(seconds),
        ];
        run.report
            .row(&[&cells[..], &["-".to_owned(), "-".to_owned(), "-".to_owned()]].concat())?;
    }
    Ok(())
}

fn cells(cost: &KernelCost, whole: f64) -> [String; 8] {
    let [x, y, z] = cost.grid;
    let name = cost.kernel.to_owned();
    let blocks = format!("{x} x {y} x {z}");
    let launches = cost.launches.to_string();
    let Some(seconds) = cost.time.map(|time| time.as_secs_f64()) else {
        let [each, all, share, operations, rate] = [NOT_LEFT_OUT, "-", "-", "-", "-"].map(str::to_owned);
        return [name, blocks, launches, each, all, share, operations, rate];
    };
    [
        name,
        blocks,
        launches,
        number(1e6 * seconds / cost.launches as f64),
        ms(seconds),
        format!("{:.0} %", 100.0 * seconds / whole),
        number(cost.operations as f64 / 1e9),
        rate(cost.operations, seconds),
    ]
}

/// Operations per second, in trillions.
fn rate(operations: u64, seconds: f64) -> String {
    if operations == 0 || seconds <= 0.0 {
        return "-".to_owned();
    }
    number(operations as f64 / seconds / 1e12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_told_per_launch_and_in_all() {
        let cost = KernelCost {
            kernel: "gemm_64",
            grid: [32, 1, 8],
            launches: 4,
            operations: 2_000_000_000,
            time: Some(Duration::from_micros(40)),
        };
        let told = cells(&cost, 80e-6);
        assert_eq!(told[1], "32 x 1 x 8");
        assert_eq!((told[3].as_str(), told[5].as_str()), ("10.0", "50 %"));
        assert_eq!((told[6].as_str(), told[7].as_str()), ("2.00", "50.0"));
        assert_eq!(rate(0, 1.0), "-");
        let steering = KernelCost { time: None, ..cost };
        assert_eq!(cells(&steering, 80e-6)[3..5], ["not left out", "-"]);
    }
}
