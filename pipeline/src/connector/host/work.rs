//! The sequences of a connection, and reports on their stage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use omni_engine::{SeqId, Stamp};
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{Failed, Heartbeat, Open, Ready};
use tokio::sync::oneshot;
use tokio_stream::wrappers::WatchStream;

use super::linked::Elsewhere;
use super::shared::Membership;
use super::stream::{StreamState, Tended};

use crate::clock::Clock;
use crate::connector::forwarder::EventForwarder;
use crate::connector::link::{Link, LinkError};
use crate::connector::local::stamped_edge;
use crate::connector::peers::Peers;
use crate::connector::protocol::{HEARTBEAT, StageNames, unexpected};
use crate::connector::rendezvous::Rendezvous;
use crate::connector::stream::{Came, OPEN_CREDIT, Receiving, Sending};
use crate::connector::wire::{
    Arrival, NO_SEQUENCE, PeerClock, Received, WireError, end, end_message, next_stage, request, token,
};
use crate::stage::{
    EdgeReceiver, End, JobRefused, Notifier, ReplicaState, ReplicaStatus, StageHandle, StageJob,
    StageSnapshot, TurnTimeouts,
};

/// Units of one sequence that may wait for the connection. Few, as for those that may wait for the stage
/// ([`OPEN_CREDIT`]): outputs that a slow reader leaves unread should wait where they are counted, in the other
/// process.
const OUTPUTS: u32 = 16;

/// State of a host besides its connection.
pub(super) struct Work {
    pub(super) stage: Arc<StageHandle>,
    /// Tells the sequences of this connection from those of others, if the replica has others.
    pub(super) membership: Option<Membership>,
    /// Meeting point for items that arrive by links, if the stage takes any.
    pub(super) rendezvous: Option<Rendezvous>,
    /// Links for outputs that go past the other side, if there are any.
    pub(super) peers: Option<Peers>,
    pub(super) status: ReplicaStatus,
    pub(super) changes: WatchStream<u64>,
    pub(super) timeouts: TurnTimeouts,
    /// `true` once the other side knows that the replica works.
    pub(super) ready: bool,
    /// Time of the last heartbeat to the other side.
    pub(super) heartbeat: Stamp,
    pub(super) forwarder: EventForwarder,
    pub(super) stages: StageNames,
    pub(super) wake: Notifier,
    /// Oldest first.
    pub(super) streams: BTreeMap<SeqId, StreamState>,
    /// Jobs that the stage did not take.
    pub(super) refused: Vec<(SeqId, JobRefused)>,
    pub(super) clock: Clock,
}

impl Work {
    /// Handles a frame. A frame of an unknown sequence was in flight when the sequence ended, and is ignored.
    pub(super) fn frame(&mut self, frame: Received, link: &mut Link) -> Result<(), LinkError> {
        let clock = link.peer_clock();
        let came = Came::of(&frame, clock);
        let seq = frame.seq;
        if let Body::Open(open) = frame.body {
            return self.open(seq, open, clock);
        }
        let Some(stream) = self.streams.get_mut(&seq) else {
            return Ok(());
        };
        match frame.body {
            Body::Item(item) => {
                stream.take_back(&self.wake);
                let stamps = stream.receiving.item(came, item, self.clock.now())?;
                if stream.elsewhere.is_none() {
                    link.arrived(Arrival { seq, stamps });
                }
            }
            Body::Credit(credit) => stream.sending.credit(credit.units),
            Body::Idle(idle) => {
                stream.take_back(&self.wake);
                stream.receiving.set_idle(idle.idle);
            }
            Body::End(message) => {
                stream.take_back(&self.wake);
                let end = end(message, &self.stages)?;
                if stream.receiving.is_open() {
                    stream.receiving.end(end);
                } else if stream.elsewhere.is_some()
                    && !matches!(end, End::Stop | End::Length | End::Repetition)
                {
                    // A failure before the items that come by a link, because the link reports none or has broken,
                    // too.
                    link.say(seq, Body::End(end_message(end)))?;
                    self.drop(seq);
                }
            }
            Body::Cancel(_) => self.drop(seq),
            other => return Err(unexpected(&other, "a frame about a sequence")),
        }
        Ok(())
    }

    fn open(&mut self, seq: SeqId, open: Open, clock: PeerClock) -> Result<(), LinkError> {
        let message = open.request;
        let request = request(message.ok_or_else(|| WireError::absent("what is asked", "a request"))?)?;
        let here = Some(self.wake.clone());
        let stage = Some(self.stage.wake().clone());
        let (finished, done) = oneshot::channel();
        let kind = request.input();
        let reports = request.reports_done();
        let expects = (!open.expects.is_empty())
            .then(|| token(&open.expects))
            .transpose()?;
        let elsewhere = match (expects, &self.rendezvous) {
            (Some(token), Some(rendezvous)) => {
                Some(Elsewhere::expect(rendezvous, token, (kind, self.clock))?)
            }
            _ => None,
        };
        let (receiving, receiver, elsewhere) = match elsewhere {
            Some((receiver, elsewhere)) => (Receiving::elsewhere(), receiver, Some(elsewhere)),
            None => {
                let (inputs, receiver) = stamped_edge(OPEN_CREDIT, here.clone(), stage.clone(), self.clock);
                (Receiving::opened(Box::new(inputs), kind), receiver, None)
            }
        };
        let next = open.link.map(|link| next_stage(link, &self.stages)).transpose()?;
        let to_next = next.is_some();
        let permit = next.and_then(|next| self.peers.as_ref()?.reserve(&next));
        let taker = permit.as_ref().map(|permit| permit.wake.clone()).or(here);
        let (sender, outputs) = stamped_edge(OUTPUTS, stage, taker, self.clock);
        let own = match &self.membership {
            Some(membership) => membership.own(seq)?,
            None => seq,
        };
        let mut job = StageJob::new(own, request, sender);
        job.inputs = kind.map(|_| Box::new(receiver) as Box<dyn EdgeReceiver>);
        job.finished = reports.then_some(finished);
        if let Some(arrived) = open.arrived {
            job.progress.arrive(clock.to_local(arrived));
        }
        let mut stream = StreamState {
            sending: Sending::opening(None),
            receiving,
            elsewhere,
            linked: None,
            cancel: job.cancel.clone(),
            progress: job.progress.clone(),
            told: StageSnapshot::default(),
            finished: reports.then_some(done),
        };
        if self.streams.contains_key(&seq) {
            return Err(LinkError::Protocol(format!(
                "sequence {} was opened twice",
                seq.0
            )));
        }
        if let Err(refused) = self.stage.submit(job) {
            self.refused.push((seq, refused));
            return Ok(());
        }
        match permit {
            Some(permit) => stream.linked = Some(permit.send(outputs)),
            None => {
                stream.sending = Sending::answering(Box::new(outputs));
                if let Some(peers) = self.peers.as_ref().filter(|_| to_next) {
                    peers.relays();
                }
            }
        }
        self.streams.insert(seq, stream);
        Ok(())
    }

    fn drop(&mut self, seq: SeqId) {
        if let Some(stream) = self.streams.remove(&seq) {
            stream.cancel.set();
            self.stage.wake().notify();
        }
    }

    pub(super) fn drop_all(&mut self) {
        for stream in std::mem::take(&mut self.streams).into_values() {
            stream.cancel.set();
        }
        self.stage.wake().notify();
    }

    /// Reports the state of the stage, refused jobs and arrivals of items.
    pub(super) fn report(&mut self, link: &mut Link) -> Result<(), LinkError> {
        self.look_at_stage(link)?;
        self.look_for_life(link)?;
        // Events can wait, and are not added to a backlog.
        if !link.is_backed_up() {
            link.pass_on_late()?;
        }
        for (seq, refused) in self.refused.drain(..) {
            link.say(seq, Body::End(end_message(end_of(&refused))))?;
        }
        Ok(())
    }

    /// Longest wait for a notification. A step that hangs sends none, and the other side expects heartbeats.
    pub(super) fn look_again(&self) -> Duration {
        let beats = HEARTBEAT.saturating_sub(self.clock.since(self.heartbeat));
        match self.status.at_work() {
            Some(_) => beats.min(self.timeouts.shortest()),
            None => beats,
        }
    }

    /// Gives up on a replica that does not return from a turn, and sends a heartbeat.
    fn look_for_life(&mut self, link: &mut Link) -> Result<(), LinkError> {
        if let Some((work, since)) = self.status.at_work()
            && self.clock.since(since) >= self.timeouts.of(work)
        {
            return give_up(link, self.timeouts.overdue(work));
        }
        if self.clock.since(self.heartbeat) >= HEARTBEAT {
            self.heartbeat = self.clock.now();
        } else {
            return Ok(());
        }
        // A server that reads nothing should not find hundreds of them later.
        if !link.is_backed_up() {
            link.say(NO_SEQUENCE, Body::Heartbeat(Heartbeat {}))?;
        }
        Ok(())
    }

    /// Ends this process when the replica died: the server must send no jobs while a replica is rebuilt, so the
    /// process as a whole starts again.
    fn look_at_stage(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let waker = self.wake.waker();
        let mut context = Context::from_waker(&waker);
        while let Poll::Ready(Some(_)) = self.changes.poll_next_unpin(&mut context) {}
        match self.status.state() {
            ReplicaState::Loading => Ok(()),
            ReplicaState::Ready if self.ready => Ok(()),
            ReplicaState::Ready => {
                self.ready = true;
                link.say(NO_SEQUENCE, Body::Ready(Ready {}))?;
                link.listen_with(self.forwarder.clone());
                Ok(())
            }
            ReplicaState::Restarting { message } | ReplicaState::Failed { message } => give_up(link, message),
            ReplicaState::Removed => give_up(link, "it was stopped".to_owned()),
        }
    }

    /// Returns true if there are sequences whose items may wait for a moment.
    pub(super) fn is_patient(&self) -> bool {
        self.streams.values().any(|stream| stream.sending.is_patient())
    }

    /// Serves every sequence; items that may wait do so if `holds`. Returns false if the queue did not take
    /// everything that can be sent.
    pub(super) fn tend(&mut self, link: &mut Link, holds: bool) -> Result<bool, LinkError> {
        let mut all = true;
        let mut outcome = Ok(());
        let waker = self.wake.waker();
        let notifier = self.stage.wake();
        let stage = self.status.stage();
        self.streams.retain(|&seq, stream| {
            match stream.tend((stage, seq), link, holds, &mut Context::from_waker(&waker)) {
                Ok(Tended::All) => true,
                Ok(Tended::Part) => {
                    all = false;
                    true
                }
                Ok(Tended::Over) => false,
                Ok(Tended::Failed) => {
                    stream.cancel.set();
                    notifier.notify();
                    false
                }
                Ok(Tended::Severed) => {
                    stream.cancel.set();
                    notifier.notify();
                    true
                }
                Err(error) => {
                    outcome = Err(error);
                    true
                }
            }
        });
        outcome?;
        Ok(all)
    }
}

/// End of a sequence that the stage refused. A stage that has ended has died: another replica may take the sequence.
fn end_of(refused: &JobRefused) -> End {
    let message = refused.to_string();
    match refused {
        JobRefused::Full { .. } => End::Overloaded(message),
        JobRefused::Ended { stage } => End::Lost { stage, message },
    }
}

pub(super) fn give_up(link: &mut Link, message: String) -> Result<(), LinkError> {
    let failed = Failed {
        message: message.clone(),
    };
    link.say(NO_SEQUENCE, Body::Failed(failed))?;
    link.flush()?;
    Err(LinkError::Peer(message))
}

#[cfg(test)]
mod tests;
