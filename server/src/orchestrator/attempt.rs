//! One job in one stage, and whether work that was lost begins again.

use std::sync::Arc;

use omni_engine::{SeqId, Stamp};
use omni_telemetry::TraceContext;

use super::pipeline::Pipeline;
use crate::connector::{EdgeMeter, EdgeReader, EdgeWriter, Hop, Payload, Place, metered_edge};
use crate::stage::{CancelFlag, CancelTimer, End, JobRefused, Lease, Notifier, Recv, StageProgress};

/// A job that one stage works on, and the edge that its outputs come by. Dropping it cancels the job within one step.
pub(super) struct Attempt<J, T> {
    pub(super) seq: SeqId,
    pub(super) outputs: EdgeReader<T>,
    _cancel: CancelGuard,
    /// Counts as work in flight.
    lease: Lease<J>,
}

/// What a sequence gave, as its session sees it.
#[derive(Debug, PartialEq)]
pub enum SeqOutput<T> {
    /// An output.
    Item(T),
    /// The end, after all outputs. [`End::Lost`] if a replica hangs or none takes work: it is no fault of the request.
    End(End),
}

/// How an attempt ended.
#[derive(Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) end: End,
    /// The replica does not return from a step: the work is not to blame.
    pub(super) unresponsive: bool,
}

impl Ended {
    pub(super) fn unresponsive(end: End) -> Self {
        Self {
            end,
            unresponsive: true,
        }
    }
}

impl From<End> for Ended {
    fn from(end: End) -> Self {
        Self {
            end,
            unresponsive: false,
        }
    }
}

/// Where the job of an attempt leads, and for whom it is done.
pub(super) struct Ends<'a> {
    pub(super) seq: SeqId,
    /// Outputs that may wait for the session.
    pub(super) capacity: u32,
    /// When the request arrived.
    pub(super) arrived: Stamp,
    /// Held while the stage works on the job.
    pub(super) request: &'a Arc<CancelTimer>,
    pub(super) trace: Option<Arc<TraceContext>>,
}

/// What a stage needs of an attempt.
pub(super) struct JobParts<T> {
    pub(super) seq: SeqId,
    pub(super) outputs: Box<EdgeWriter<T>>,
    pub(super) cancel: CancelFlag,
    pub(super) progress: StageProgress,
}

impl<J, T: Send + Payload + 'static> Attempt<J, T> {
    /// Hands the job that `make` makes to the replica of `lease`, whose outputs go to the session.
    pub(super) fn new(
        pipeline: &Pipeline,
        lease: Lease<J>,
        ends: Ends<'_>,
        make: impl FnOnce(JobParts<T>) -> J,
    ) -> Result<(Self, StageProgress), JobRefused> {
        let (wake, cancel, seq) = (lease.wake().clone(), CancelFlag::default(), ends.seq);
        let guard = CancelGuard {
            flag: cancel.clone(),
            notifiers: vec![wake.clone()],
        };
        let [from, to] = [(lease.stage(), Some(lease.id())), ("session", None)]
            .map(|(stage, replica)| Place { stage, replica });
        let meter = meter(pipeline, Hop { seq, from, to }, ends.trace);
        let (writer, outputs) = metered_edge(ends.capacity, Some(wake), None, meter);
        let progress = StageProgress::new(Some(lease.id()));
        progress.arrive(ends.arrived);
        progress.hold(Arc::clone(ends.request));
        lease.submit(make(JobParts {
            seq,
            outputs: Box::new(writer),
            cancel,
            progress: progress.clone(),
        }))?;
        let attempt = Self {
            seq,
            outputs,
            _cancel: guard,
            lease,
        };
        Ok((attempt, progress))
    }

    /// Waits for what comes next; the error is how the attempt ended. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<T, Ended> {
        tokio::select! {
            // What was given before the replica was given up counts.
            biased;
            taken = self.outputs.next() => given(self.lease.stage(), taken),
            message = self.lease.lost() => Err(Ended::unresponsive(lost(self.lease.stage(), message))),
        }
    }
}

/// What an edge that `stage` writes had.
pub(super) fn given<T>(stage: &'static str, taken: Recv<T>) -> Result<T, Ended> {
    match taken {
        Recv::Item(item) => Ok(item),
        Recv::End(end) => Err(end.into()),
        Recv::Gone | Recv::Empty => Err(lost(stage, "the stage went away".to_owned()).into()),
    }
}

pub(super) fn lost(stage: &'static str, message: String) -> End {
    End::Lost { stage, message }
}

/// How often work that is lost begins again elsewhere. It may be the work that kills a replica, so the number is small; and what was
/// given out cannot be taken back, so there is none after that.
#[derive(Debug)]
pub(super) struct Retry {
    /// In messages.
    what: &'static str,
    left: u32,
    /// Since when it waits for a replica.
    waits_since: Stamp,
}

impl Retry {
    pub(super) fn new(pipeline: &Pipeline, what: &'static str) -> Self {
        Self {
            what,
            left: pipeline.handover.attempts,
            waits_since: pipeline.clock.now(),
        }
    }

    /// An output was given out.
    pub(super) fn given_out(&mut self) {
        self.left = 0;
    }

    /// Whether it may still begin again.
    pub(super) fn is_left(&self) -> bool {
        self.left > 0
    }

    pub(super) fn waits_since(&self) -> Stamp {
        self.waits_since
    }

    /// Whether it begins again at `now` after an attempt that ended so. If not, the error is how it ends: a loss for which no replica is known to be at
    /// fault stays one, and any other is the work's failure.
    pub(super) fn after(&mut self, ended: Ended, now: Stamp) -> Result<(), End> {
        match ended.end {
            End::Lost { stage, message } if self.left > 0 => {
                tracing::warn!(stage, message, "{} is retried on another replica", self.what);
                self.left -= 1;
                self.waits_since = now;
                Ok(())
            }
            End::Lost { stage, message } if !ended.unresponsive => Err(End::Failed { stage, message }),
            end => Err(end),
        }
    }
}

pub(super) fn meter(pipeline: &Pipeline, hop: Hop, trace: Option<Arc<TraceContext>>) -> EdgeMeter {
    EdgeMeter {
        hop,
        trace,
        clock: pipeline.clock,
        sink: Arc::clone(&pipeline.edge_sink),
    }
}

/// Cancels on drop.
#[derive(Debug)]
pub(super) struct CancelGuard {
    pub(super) flag: CancelFlag,
    pub(super) notifiers: Vec<Notifier>,
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.flag.set();
        for notifier in &self.notifiers {
            notifier.notify();
        }
    }
}
