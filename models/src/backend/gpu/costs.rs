//! Cost of each kind of launch in a step, measured by leaving it out.
//!
//! A launch timed alone finds its operands in the caches and has no neighbours. So the step is timed complete and
//! once without each kind of launch: the difference is the cost in place, gaps included.

use std::time::Duration;

use omni_gpu::{Device, Launch};

use super::command_stream::CommandStream;
use super::watch::Watch;
use crate::backend::{KernelCost, StepCosts, StepKey};

/// Mean time of one of `replays` replays.
fn timed<D: Device>(device: &D, graph: &D::Graph, replays: u32) -> omni_gpu::Result<Duration> {
    device.wait()?;
    device.take_busy();
    for _ in 0..replays {
        device.replay(graph)?;
        // Few graphs are timed that no caller asks about.
        device.wait()?;
    }
    Ok(device.take_busy() / replays.max(1))
}

impl<D: Device> CommandStream<D> {
    /// Times a step that was just recorded. Its launches are run again, and without some of them they compute anything. Those that say
    /// where others read stay.
    pub(super) fn cost(
        &self,
        key: StepKey,
        launches: &[Launch],
        graph: &D::Graph,
        watch: &Watch,
    ) -> omni_gpu::Result<()> {
        let replays = watch.profiled();
        if replays == 0 || !watch.looks_at(key) {
            return Ok(());
        }
        let whole = timed(&self.device, graph, replays)?;
        let mut kernels: Vec<KernelCost> = Vec::new();
        for launch in launches {
            let alike =
                |cost: &&mut KernelCost| cost.kernel == launch.kernel.name && cost.grid == launch.grid.0;
            let operations = launch.operations();
            match kernels.iter_mut().find(alike) {
                Some(cost) => {
                    cost.launches += 1;
                    cost.operations += operations;
                }
                None => kernels.push(KernelCost {
                    kernel: launch.kernel.name,
                    grid: launch.grid.0,
                    launches: 1,
                    operations,
                    time: None,
                }),
            }
        }
        for cost in &mut kernels {
            let differs = |launch: &&Launch| launch.kernel.name != cost.kernel || launch.grid.0 != cost.grid;
            let (others, alike): (Vec<&Launch>, Vec<&Launch>) = launches.iter().partition(differs);
            if alike.iter().any(|launch| launch.steers()) {
                continue;
            }
            let others: Vec<Launch> = others.into_iter().copied().collect();
            let without = self.record(&others)?;
            cost.time = Some(whole.saturating_sub(timed(&self.device, &without.graph, replays)?));
        }
        // Restores the results of the step.
        self.device.replay(graph)?;
        watch.costs(StepCosts {
            stage: key.stage,
            rows: key.rows,
            time: whole,
            kernels,
        });
        Ok(())
    }
}
