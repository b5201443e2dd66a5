//! Recording of a step's launches, with consecutive small ones fused into persistent launches where enabled.
//!
//! The launches of the code predictor take a few microseconds each, with gaps as long between them. A persistent
//! launch runs the same blocks of the same kernels, so results are bit-identical. Experimental: not yet run on a
//! device.

use omni_gpu::kernels::Persistent;
use omni_gpu::{Device, Float, Launch, Memory};

use super::command_stream::CommandStream;

/// Shorter runs stay as they are.
const FEWEST: usize = 16;
/// Bytes before a program: the counter of its blocks.
const HEAD: usize = 256;

/// A recorded step.
pub(super) struct StepGraph<D: Device> {
    pub(super) graph: D::Graph,
    /// Launches that are parts of persistent ones.
    pub(super) joined: usize,
    /// Programs of persistent launches.
    _programs: Vec<D::Memory>,
}

impl<D: Device> CommandStream<D> {
    pub(super) fn record(&self, launches: &[Launch]) -> omni_gpu::Result<StepGraph<D>> {
        let mut programs = Vec::new();
        let joined = match self.persistent {
            Some(float) => self.join(launches, float, &mut programs)?,
            None => launches.to_vec(),
        };
        self.device.record()?;
        let launched = joined.iter().try_for_each(|launch| self.device.launch(launch));
        let graph = self.device.recorded();
        launched.and(graph).map(|graph| StepGraph {
            graph,
            joined: launches.len() + programs.len() - joined.len(),
            _programs: programs,
        })
    }

    /// Fuses long runs of suitable launches into persistent ones. They stay separate where the device lacks room for
    /// the blocks or cooperative launches.
    fn join(
        &self,
        launches: &[Launch],
        float: Float,
        programs: &mut Vec<D::Memory>,
    ) -> omni_gpu::Result<Vec<Launch>> {
        let mut joined = Vec::new();
        for run in launches.chunk_by(|a, b| Persistent::takes(a, float) && Persistent::takes(b, float)) {
            // Blocks that have nothing to do in any of them would only be waited for.
            let most = run.iter().map(|launch| launch.grid.count()).max().unwrap_or(0);
            let shared = run.iter().map(|launch| launch.shared).max().unwrap_or(0);
            let fits = run.len() >= FEWEST && Persistent::takes(&run[0], float);
            let blocks = if fits {
                self.device.resident(Persistent::kernel(float), shared)?
            } else {
                0
            };
            let blocks = blocks.min(u32::try_from(most).unwrap_or(u32::MAX));
            if blocks == 0 {
                joined.extend_from_slice(run);
                continue;
            }
            let mut bytes = vec![0; HEAD];
            bytes.extend(
                Persistent::program(run, float)
                    .iter()
                    .flat_map(|word| word.to_le_bytes()),
            );
            let program = self.device.alloc(bytes.len())?;
            self.device.upload(program.address(), &bytes)?;
            let persistent = Persistent {
                program: program.address().offset(HEAD),
                met: program.address(),
                count: u32::try_from(run.len()).unwrap_or(u32::MAX),
                shared,
            };
            joined.push(persistent.launch(float, blocks));
            programs.push(program);
        }
        Ok(joined)
    }
}
