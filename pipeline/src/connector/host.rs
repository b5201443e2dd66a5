//! A stage for another process: the far end of a proxy.
//!
//! In: frames, from which jobs and their inputs are made. Out: frames with what the stage makes of them. The stage itself is
//! one like any other, between edges of its own process.

mod linked;
mod shared;
mod stream;

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use omni_engine::{SeqId, Stamp};
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{Failed, Heartbeat, Hello, Open, Ready};
use tokio::sync::oneshot;
use tokio_stream::wrappers::WatchStream;

use super::forwarder::EventForwarder;
use super::hold::Hold;
use super::link::{AFTERTHOUGHT, Link, LinkError};
use super::local::stamped_edge;
use super::peers::{Inbound, Peers};
use super::rendezvous::Rendezvous;
use super::replica::StageNames;
use super::stream::{Came, OPEN_CREDIT, Receiving, Sending};
use super::wire::{
    Arrival, NO_SEQUENCE, PeerClock, Received, VERSION, WireError, end, end_message, known, name, next_stage,
    request, token,
};
use crate::clock::Clock;
use crate::stage::{
    Changes, EdgeReceiver, End, EngineSink, JobRefused, Notifier, NotifierFd, ReplicaState, ReplicaStatus,
    StageHandle, StageJob, StageSnapshot, TurnTimeouts,
};
use linked::Elsewhere;
pub use shared::{EventRouter, SharedReplica};
use shared::{Membership, WholeReplica};
use stream::{StreamState, Tended};

/// Units of one sequence that may wait for the connection. Few, as those that may wait for the stage ([`OPEN_CREDIT`]): what a slow reader
/// leaves unread is to wait where it is counted, in the other process.
const OUTPUTS: u32 = 16;

/// How often the other side is told that this process lives, while the stage is loaded and while it has sequences.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);

/// A connection on which the other side has said what it wants.
#[derive(Debug)]
pub struct HostSession {
    link: Link,
    wake: Notifier,
    line: NotifierFd,
    forwarder: EventForwarder,
    stages: StageNames,
    clock: Clock,
    /// Name of the stage that is wanted.
    pub stage: String,
    /// How it is to be run.
    pub settings: Vec<u8>,
    /// The stage that connects, if it is one and no server.
    pub sender: Option<&'static str>,
}

/// Waits for the greeting of the other side. `stages` are the stages of all graphs.
///
/// # Errors
/// [`LinkError`]; for a peer of another version that is told so, too.
pub fn called(socket: UnixStream, stages: StageNames, clock: Clock) -> Result<HostSession, LinkError> {
    let wake = Notifier::default();
    let line = wake.line()?;
    let mut link = Link::new(socket, clock)?;
    let hello = match hello(&mut link, &line) {
        Err(error @ LinkError::Wire(WireError::Version { .. })) => {
            // Its own greeting has the version in it, so that both sides can say what is wrong.
            link.say(NO_SEQUENCE, hello_as(String::new()))?;
            link.flush()?;
            return Err(error);
        }
        hello => hello?,
    };
    let sender = match hello.sender.as_str() {
        "" => None,
        sender => Some(known(sender, &stages)?),
    };
    Ok(HostSession {
        link,
        forwarder: EventForwarder::new(wake.clone()),
        wake,
        line,
        stages,
        clock,
        stage: hello.stage,
        settings: hello.settings,
        sender,
    })
}

fn hello(link: &mut Link, line: &NotifierFd) -> Result<Hello, LinkError> {
    loop {
        if let Some(frame) = link.next()? {
            return match frame.body {
                Body::Hello(hello) => checked(hello),
                other => Err(unexpected(&other, "hello")),
            };
        }
        link.wait(line, None)?;
        link.read()?;
    }
}

/// The greeting of this side.
pub(super) fn hello_as(stage: String) -> Body {
    Body::Hello(Hello {
        version: VERSION,
        stage,
        settings: Vec::new(),
        sender: String::new(),
    })
}

/// A greeting in the version that is spoken here.
pub(super) fn checked(hello: Hello) -> Result<Hello, LinkError> {
    match hello.version {
        VERSION => Ok(hello),
        theirs => Err(WireError::Version {
            ours: VERSION,
            theirs,
        }
        .into()),
    }
}

impl HostSession {
    /// Answers the greeting: the stage is being loaded.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn answer(&mut self) -> Result<(), LinkError> {
        self.link.say(NO_SEQUENCE, hello_as(self.stage.clone()))?;
        Ok(self.link.flush()?)
    }

    /// Tells the other side that this process lives.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn beat(&mut self) -> Result<(), LinkError> {
        self.link.say(NO_SEQUENCE, Body::Heartbeat(Heartbeat {}))?;
        Ok(self.link.flush()?)
    }

    /// Takes what the engine of the replica tells, so that the other side hears it.
    #[must_use]
    pub fn listener(&self) -> Arc<dyn EngineSink> {
        Arc::new(self.forwarder.clone())
    }

    /// Says why there will be no stage.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn refuse(mut self, message: &str) -> Result<(), LinkError> {
        let message = message.to_owned();
        self.link.say(NO_SEQUENCE, Body::Failed(Failed { message }))?;
        Ok(self.link.flush()?)
    }

    /// Passes jobs to the replica `stage` until the other side hangs up or the replica dies, which it has done, too, when it
    /// does not return from a turn within `timeouts`. `status` is where the replica writes its state, and `changes` ring when
    /// it does.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::Peer`] when the replica has died.
    pub fn serve(
        self,
        stage: StageHandle,
        status: ReplicaStatus,
        changes: &Changes,
        timeouts: TurnTimeouts,
    ) -> Result<(), LinkError> {
        let replica = WholeReplica {
            stage: Arc::new(stage),
            status,
            changes: changes.clone(),
            timeouts,
        };
        self.run(&replica, None, (None, None))
    }

    /// Passes jobs to a replica that other connections have, too, until the other side hangs up or the replica dies. What the other side
    /// asked for and has not got is given up then.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn serve_shared(self, replica: &SharedReplica) -> Result<(), LinkError> {
        let membership = replica.router.join(self.forwarder.clone())?;
        let links = (Some(replica.rendezvous.clone()), replica.peers.clone());
        self.run(&replica.replica, Some(membership), links)
    }

    /// Takes items of sequences of a replica from the stage that [connected](Self::sender), until that hangs up.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn serve_link(self, replica: &SharedReplica) -> Result<(), LinkError> {
        self.take_items(replica.rendezvous.clone())
    }

    pub(super) fn take_items(self, rendezvous: Rendezvous) -> Result<(), LinkError> {
        let sender = self
            .sender
            .ok_or_else(|| WireError::absent("the sender of a link", "a stage"))?;
        let inbound = Inbound {
            link: self.link,
            wake: self.wake,
            sender,
            rendezvous,
            stages: self.stages,
        };
        inbound.run(&self.line)
    }

    fn run(
        self,
        replica: &WholeReplica,
        membership: Option<Membership>,
        (rendezvous, peers): (Option<Rendezvous>, Option<Peers>),
    ) -> Result<(), LinkError> {
        let line = self.line;
        let mut host = Host {
            link: self.link,
            work: Work {
                stage: Arc::clone(&replica.stage),
                changes: WatchStream::new(replica.changes.follow()),
                status: replica.status.clone(),
                timeouts: replica.timeouts,
                membership,
                rendezvous,
                peers,
                ready: false,
                heartbeat: self.clock.now(),
                forwarder: self.forwarder,
                stages: self.stages,
                wake: self.wake,
                streams: BTreeMap::new(),
                refused: Vec::new(),
                clock: self.clock,
            },
            hold: Hold::default(),
        };
        let ended = host.turns(&line);
        host.work.drop_all();
        ended
    }
}

struct Host {
    link: Link,
    work: Work,
    hold: Hold,
}

/// All of a host but its connection.
struct Work {
    stage: Arc<StageHandle>,
    /// Tells the sequences of this connection from those of others, if the replica has others.
    membership: Option<Membership>,
    /// Where items come in past the other side, if they do.
    rendezvous: Option<Rendezvous>,
    /// By which outputs go past the other side, if they do.
    peers: Option<Peers>,
    status: ReplicaStatus,
    changes: WatchStream<u64>,
    timeouts: TurnTimeouts,
    /// The other side knows that the replica works.
    ready: bool,
    /// When the other side was last told that this process lives.
    heartbeat: Stamp,
    forwarder: EventForwarder,
    stages: StageNames,
    wake: Notifier,
    /// Oldest first.
    streams: BTreeMap<SeqId, StreamState>,
    /// Jobs that the stage did not take.
    refused: Vec<(SeqId, JobRefused)>,
    clock: Clock,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("stage", &self.work.status.stage())
            .field("sequences", &self.work.streams.len())
            .finish_non_exhaustive()
    }
}

impl Host {
    /// Turns until the other side hangs up or something is of no use any more.
    fn turns(&mut self, line: &NotifierFd) -> Result<(), LinkError> {
        let mut spoke = false;
        loop {
            let gathers = match self.turn() {
                Ok(turned) => {
                    spoke |= turned.spoke;
                    turned.gathers
                }
                Err(LinkError::Closed) => return Ok(()),
                Err(error) => return Err(error),
            };
            if self.work.wake.will_look(gathers) && !gathers {
                continue;
            }
            // Figures change without a notification: after something was said, they are looked at again.
            let again = match self.link.attend(std::mem::take(&mut spoke)) {
                true => Some(AFTERTHOUGHT),
                false => self.work.look_again(),
            };
            let again = match gathers {
                true => Some(self.hold.left(self.work.clock.now())),
                false => again,
            };
            self.link.wait(line, again)?;
        }
    }

    /// Does whatever can be done now.
    fn turn(&mut self) -> Result<Turned, LinkError> {
        self.link.read()?;
        while let Some(frame) = self.link.next()? {
            self.work.frame(frame, &mut self.link)?;
        }
        self.work.report(&mut self.link)?;
        let holds = !self.hold.left(self.work.clock.now()).is_zero() && self.work.is_patient();
        let before = self.link.items();
        let mut spoke = false;
        loop {
            let all = self.work.tend(&mut self.link, holds)?;
            spoke |= !self.link.is_flushed();
            self.link.flush()?;
            // What is left will be sent when the socket takes more.
            if all || self.link.is_backed_up() {
                let sent = self.link.items() - before;
                if sent > 0 {
                    self.hold.sent(self.work.clock.now(), holds);
                }
                // Where several came at once, more will.
                let gathers = holds || sent > 1;
                return Ok(Turned { spoke, gathers });
            }
        }
    }
}

/// What came of [`Host::turn`].
struct Turned {
    /// There was something to say.
    spoke: bool,
    /// What comes in the next moment is sent together.
    gathers: bool,
}

impl Work {
    /// Takes a frame. One of a sequence that is not here any more was on its way when the sequence ended.
    fn frame(&mut self, frame: Received, link: &mut Link) -> Result<(), LinkError> {
        let clock = link.peer_clock();
        let (came, seq) = (Came::of(&frame, clock), frame.seq);
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
                } else if stream.elsewhere.is_some() && matches!(end, End::Lost { .. } | End::Severed { .. })
                {
                    // Of items that come by a link, which does not tell of it, or has broken, too.
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
        let (here, stage) = (Some(self.wake.clone()), Some(self.stage.wake().clone()));
        let (finished, done) = oneshot::channel();
        let (kind, reports) = (request.input(), request.reports_done());
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
            None => stream.sending = Sending::answering(Box::new(outputs)),
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

    fn drop_all(&mut self) {
        for stream in std::mem::take(&mut self.streams).into_values() {
            stream.cancel.set();
        }
        self.stage.wake().notify();
    }

    /// Says what became of the stage, and of jobs and items that came.
    fn report(&mut self, link: &mut Link) -> Result<(), LinkError> {
        self.look_at_stage(link)?;
        self.look_for_life(link)?;
        // Events can wait, and are to be added to nothing that waits already.
        if !link.is_backed_up() {
            link.pass_on_late()?;
        }
        for (seq, refused) in self.refused.drain(..) {
            link.say(seq, Body::End(end_message(end_of(&refused))))?;
        }
        Ok(())
    }

    /// When to look at the replica again although no notification comes: a step that hangs sends none, and the other side expects
    /// heartbeats.
    fn look_again(&self) -> Option<Duration> {
        let again = self.timeouts.shortest();
        if self.owes_heartbeats() {
            return Some(again.min(HEARTBEAT));
        }
        self.status.at_work().map(|_| again)
    }

    /// Whether the other side takes this process for dead when it hears nothing.
    fn owes_heartbeats(&self) -> bool {
        !self.ready || !self.streams.is_empty()
    }

    /// Gives up on a replica that does not return from a turn, and tells the other side that this process lives.
    fn look_for_life(&mut self, link: &mut Link) -> Result<(), LinkError> {
        if let Some((work, since)) = self.status.at_work()
            && self.clock.since(since) >= self.timeouts.of(work)
        {
            return give_up(link, self.timeouts.overdue(work));
        }
        if self.owes_heartbeats() && self.clock.since(self.heartbeat) >= HEARTBEAT {
            self.heartbeat = self.clock.now();
            link.say(NO_SEQUENCE, Body::Heartbeat(Heartbeat {}))?;
        }
        Ok(())
    }

    /// A replica that died would be built anew here. But the server is not to send jobs here meanwhile, and to begin
    /// afresh is for the process as a whole.
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

    /// Whether there are sequences whose items may wait for a moment.
    fn is_patient(&self) -> bool {
        self.streams.values().any(|stream| stream.sending.is_patient())
    }

    /// Looks at every sequence; items that may wait do so if `holds`. False if not all of what can be sent is in line.
    fn tend(&mut self, link: &mut Link, holds: bool) -> Result<bool, LinkError> {
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
                Ok(Tended::Orphaned) => {
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

/// How a sequence ends that the stage did not take. A stage that has ended has died: another replica may take the sequence.
fn end_of(refused: &JobRefused) -> End {
    let message = refused.to_string();
    match refused {
        JobRefused::Full { .. } => End::Overloaded(message),
        JobRefused::Ended { stage } => End::Lost { stage, message },
    }
}

fn give_up(link: &mut Link, message: String) -> Result<(), LinkError> {
    let failed = Failed {
        message: message.clone(),
    };
    link.say(NO_SEQUENCE, Body::Failed(failed))?;
    link.flush()?;
    Err(LinkError::Peer(message))
}

pub(super) fn unexpected(body: &Body, expected: &str) -> LinkError {
    LinkError::Protocol(format!("it sent {}, expected {expected}", name(body)))
}

#[cfg(test)]
mod tests;
