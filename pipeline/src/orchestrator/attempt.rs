//! One job in one stage, and the retry of lost work.

use std::sync::Arc;

use omni_engine::{SeqId, Stamp};

use super::pipeline::Pipeline;
use crate::connector::{EdgeMeter, EdgeReader, Hop, Place, metered_edge};
use crate::item::Item;
use crate::request::StageRequest;
use crate::stage::{
    CancelFlag, CancelTimer, End, JobRefused, Lease, Notifier, Recv, StageJob, StageProgress,
};
use crate::trace::TraceHandle;

/// The session's end of an edge.
pub(super) const SESSION: Place = Place {
    stage: "session",
    replica: None,
};

/// A job that one stage works on, and the edge that its outputs come by. Dropping it cancels the job within one step.
pub(super) struct Attempt {
    pub(super) seq: SeqId,
    pub(super) outputs: EdgeReader,
    pub(super) progress: StageProgress,
    _cancel: CancelGuard,
    /// Counts as work in flight.
    lease: Lease,
}

/// End of an attempt.
#[derive(Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) end: End,
    /// `true` if the replica does not return from a step: the work is not to blame.
    pub(super) unresponsive: bool,
    /// `true` if the process of a replica became unreachable: the work is not known to be at fault.
    pub(super) severed: bool,
}

impl Ended {
    pub(super) fn unresponsive(end: End) -> Self {
        Self {
            end,
            unresponsive: true,
            severed: false,
        }
    }

    /// End of work between whose stages a link has broken.
    pub(super) fn severed(end: End) -> Self {
        Self {
            end,
            unresponsive: false,
            severed: true,
        }
    }

    /// Adds the state of the replicas that had the work: if one has died, the cause of its death counts.
    pub(super) fn with(self, leases: &[Lease]) -> Self {
        let severed = if leases.iter().all(Lease::is_alive) {
            self.severed
        } else {
            leases.iter().any(Lease::is_severed)
        };
        Self { severed, ..self }
    }
}

impl From<End> for Ended {
    fn from(end: End) -> Self {
        Self {
            end,
            unresponsive: false,
            severed: false,
        }
    }
}

/// The request that the job of an attempt belongs to.
#[derive(Clone)]
pub(super) struct Client {
    /// Arrival of the request.
    pub(super) arrived: Stamp,
    /// Held while a stage works on it.
    pub(super) request: Arc<CancelTimer>,
    pub(super) trace: Option<TraceHandle>,
}

impl Client {
    /// Progress record of a job for it, in that replica.
    pub(super) fn progress(&self, lease: &Lease) -> StageProgress {
        let progress = StageProgress::new(Some(lease.id()));
        progress.arrive(self.arrived);
        progress.hold(Arc::clone(&self.request));
        progress
    }
}

/// A lease as the end of an edge.
pub(super) fn place(lease: &Lease) -> Place {
    Place {
        stage: lease.stage(),
        replica: Some(lease.id()),
    }
}

impl Attempt {
    /// Submits `request` to the replica of `lease`. Its outputs go to the session, and `capacity` of them may wait
    /// for it.
    pub(super) fn new(
        pipeline: &Pipeline,
        (lease, capacity): (Lease, u32),
        request: StageRequest,
        client: &Client,
    ) -> Result<Self, JobRefused> {
        let wake = lease.wake().clone();
        let seq = pipeline.seqs.next();
        let hop = Hop {
            seq,
            from: place(&lease),
            to: SESSION,
        };
        let meter = meter(pipeline, hop, client.trace.clone());
        let (writer, outputs) = metered_edge(capacity, Some(wake.clone()), None, meter);
        let mut job = StageJob::new(seq, request, writer);
        job.progress = client.progress(&lease);
        let progress = job.progress.clone();
        let guard = CancelGuard {
            flag: job.cancel.clone(),
            notifiers: vec![wake],
        };
        lease.submit(job)?;
        Ok(Self {
            seq,
            outputs,
            progress,
            _cancel: guard,
            lease,
        })
    }

    /// Waits for the next output; the error is the end of the attempt. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Item, Ended> {
        tokio::select! {
            // Outputs from before the replica was given up count.
            biased;
            taken = self.outputs.next() => {
                given(self.lease.stage(), taken).map_err(|ended| ended.with(std::slice::from_ref(&self.lease)))
            }
            message = self.lease.lost() => Err(Ended::unresponsive(lost(self.lease.stage(), message))),
        }
    }
}

/// Item of an edge that `stage` writes, or the end of the attempt.
pub(super) fn given(stage: &'static str, taken: Recv<Item>) -> Result<Item, Ended> {
    match taken {
        Recv::Item(item) => Ok(item),
        Recv::End(end) => Err(end.into()),
        Recv::Gone | Recv::Empty => Err(lost(stage, "the stage ended".to_owned()).into()),
    }
}

pub(super) fn lost(stage: &'static str, message: String) -> End {
    End::Lost { stage, message }
}

/// Attempts left for lost work. It may be the work that kills a replica, so the number is small. Once an output was
/// given out, the work is retried only after its replica's process became unreachable: the outputs are the same ones
/// then, and those already given out are skipped.
#[derive(Debug)]
pub(super) struct Retry {
    /// Name of the work in messages.
    what: &'static str,
    left: u32,
    begun_again: bool,
    given_out: bool,
    /// Start of its wait for a replica.
    waits_since: Stamp,
}

impl Retry {
    pub(super) fn new(pipeline: &Pipeline, what: &'static str) -> Self {
        Self {
            what,
            left: pipeline.handover.attempts,
            begun_again: false,
            given_out: false,
            waits_since: pipeline.clock.now(),
        }
    }

    /// Records that an output was given out.
    pub(super) fn given_out(&mut self) {
        self.given_out = true;
    }

    /// Returns true if an attempt is left.
    pub(super) fn is_left(&self) -> bool {
        self.left > 0
    }

    /// Returns true if it has been retried.
    pub(super) fn has_begun_again(&self) -> bool {
        self.begun_again
    }

    /// Returns true if it is retried after a loss; `severed` if the process of its replica became unreachable.
    pub(super) fn begins_again(&self, severed: bool) -> bool {
        self.is_left() && (severed || !self.given_out)
    }

    /// Records that it waits for a replica from now on.
    pub(super) fn waits(&mut self, now: Stamp) {
        self.waits_since = now;
    }

    pub(super) fn waits_since(&self) -> Stamp {
        self.waits_since
    }

    /// Decides at `now` on another attempt after one that ended with `ended`. An error is the end of the work: a loss
    /// for which no replica is known to be at fault stays one, and any other becomes a failure of the work.
    pub(super) fn after(&mut self, ended: Ended, now: Stamp) -> Result<(), End> {
        match ended.end {
            End::Lost { stage, message } if self.begins_again(ended.severed) => {
                tracing::warn!(stage, message, "{} is retried on another replica", self.what);
                self.left -= 1;
                self.begun_again = true;
                self.waits_since = now;
                Ok(())
            }
            End::Lost { stage, message } if !ended.unresponsive => Err(End::Failed { stage, message }),
            end => Err(end),
        }
    }
}

pub(super) fn meter(pipeline: &Pipeline, hop: Hop, trace: Option<TraceHandle>) -> EdgeMeter {
    EdgeMeter {
        hop,
        trace,
        clock: pipeline.clock,
        sink: Arc::clone(&pipeline.edge_sink),
    }
}

/// Failure of a stage whose edge carries an item of a kind that it must not give.
pub(super) fn misfit(stage: &'static str, item: &Item) -> End {
    End::Failed {
        stage,
        message: format!("it gave {}, which nothing here takes", item.kind().name()),
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
