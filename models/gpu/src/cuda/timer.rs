//! Times of graphs on the device, taken by an event in front of each, and one behind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaEvent, CudaStream, DriverError, sys};

/// Graphs that may wait to be looked at; further ones are not timed.
const MOST: usize = 64;

type Pair = (CudaEvent, CudaEvent);

/// Busy time of one queue.
#[derive(Default, derive_more::Debug)]
#[debug("Timer {{ pending: {:?}, .. }}", self.pending.len())]
pub(super) struct Timer {
    pending: VecDeque<Pair>,
    spare: Vec<Pair>,
}

impl Timer {
    /// Asks for `work` on the stream, and for the time that it takes. Where that cannot be had, there is none.
    pub(super) fn time<T>(&mut self, stream: &Arc<CudaStream>, work: impl FnOnce() -> T) -> T {
        let pair = self.pair(stream).ok();
        let begun = pair.filter(|(begin, _)| begin.record(stream).is_ok());
        let result = work();
        if let Some(pair) = begun
            && pair.1.record(stream).is_ok()
        {
            self.pending.push_back(pair);
        }
        result
    }

    fn pair(&mut self, stream: &Arc<CudaStream>) -> Result<Pair, DriverError> {
        if self.pending.len() == MOST {
            return Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY));
        }
        if let Some(pair) = self.spare.pop() {
            return Ok(pair);
        }
        let event = || {
            stream
                .context()
                .new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))
        };
        Ok((event()?, event()?))
    }

    /// Time of completed work not yet reported.
    pub(super) fn take(&mut self) -> Duration {
        let mut taken = Duration::ZERO;
        while let Some(pair) = self.pending.pop_front_if(|(_, end)| end.is_complete()) {
            let ms = pair.0.elapsed_ms(&pair.1).unwrap_or(0.0).max(0.0);
            taken += Duration::from_secs_f64(f64::from(ms) / 1e3);
            self.spare.push(pair);
        }
        taken
    }
}
