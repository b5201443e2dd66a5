//! A stage in another process, as seen from this one: takes its jobs, and passes items, ends, cancellations and
//! credit both ways, many sequences over one connection.
//!
//! In: jobs whose edges are of this process. Out: the same, their items made elsewhere. A proxy is independent of
//! processes; it is given a connected socket, and when that breaks its jobs are lost.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use omni_engine::{FinishReason, SeqId, Stamp};
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{Cancel, Hello, Open};
use tokio::sync::oneshot;

use super::link::{Link, LinkError};
use super::protocol::{StageNames, checked, unexpected};
use super::stream::{Came, Forwarded, Receiving, Sending};
use super::wire::{
    Arrival, NO_SEQUENCE, PeerClock, Received, Reports, VERSION, WireError, end, end_message,
    next_stage_message, progress, request_message, token_message,
};
use crate::clock::Clock;
use crate::stage::{
    CancelFlag, End, EngineEvent, NotifierFd, ReplicaStatus, SeqTaken, StageJob, StageProgress,
};

/// Most sequences that an engine at the other side can have, which is far more than any takes.
const MOST_TAKEN: usize = 1 << 20;

/// Progress of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Silent,
    Loading,
    Ready,
}

/// One sequence.
struct StreamState {
    sending: Sending,
    receiving: Receiving,
    cancel: CancelFlag,
    progress: StageProgress,
    finished: Option<oneshot::Sender<()>>,
}

/// The calling side of a connection.
#[derive(derive_more::Debug)]
#[debug("Proxy {{ stage: {:?}, phase: {:?}, sequences: {:?}, .. }}", self.state.figures.status.stage(), self.state.phase, self.state.streams.len())]
pub(super) struct Proxy {
    link: Link,
    state: ProxyState,
}

/// Statistics of the remote engine: counts its events and passes them on.
#[derive(Debug)]
pub(super) struct RemoteStats {
    status: ReplicaStatus,
    /// Sequences that its engine took and has not reported the end of.
    taken: BTreeMap<SeqId, SeqTaken>,
}

impl RemoteStats {
    /// Creates the statistics of a new life.
    pub(super) fn new(status: ReplicaStatus) -> Self {
        let taken = BTreeMap::new();
        Self { status, taken }
    }

    /// Passes on the engine's events. Every sequence that it took ends once.
    fn tell(&mut self, news: &Reports) -> Result<(), LinkError> {
        for news in &news.told {
            match news {
                EngineEvent::Taken(taken) => {
                    self.taken.insert(taken.seq, *taken);
                }
                EngineEvent::Finished(end) if self.taken.remove(&end.seq).is_none() => continue,
                _ => {}
            }
            self.status.tell(news);
        }
        if self.taken.len() > MOST_TAKEN {
            let what = format!("its engine has more than {MOST_TAKEN} sequences");
            return Err(LinkError::Protocol(what));
        }
        if news.missed > 0 {
            let replica = self.status.id();
            let missed = news.missed;
            tracing::error!(%replica, missed, "metric events of a replica lost: too many waited to be sent");
        }
        Ok(())
    }

    /// Reports the ends that the engine can no longer report: sequences for which `lives` is true fail, others were
    /// cancelled before.
    fn end(&mut self, lives: impl Fn(SeqId) -> bool, now: Stamp) {
        for (seq, taken) in std::mem::take(&mut self.taken) {
            let reason = if lives(seq) {
                FinishReason::Error("its process was lost".to_owned())
            } else {
                FinishReason::Abort
            };
            self.status.tell(&taken.lost(reason, now));
        }
        self.status.tell(&EngineEvent::Idle);
    }
}

/// State of a proxy besides its connection.
struct ProxyState {
    phase: Phase,
    /// Oldest first.
    streams: BTreeMap<SeqId, StreamState>,
    figures: RemoteStats,
    stages: StageNames,
    /// Time of the other side's last message.
    silent_since: Stamp,
    clock: Clock,
}

impl Proxy {
    /// Sends the greeting and the settings of the stage.
    pub(super) fn new(
        socket: UnixStream,
        settings: Vec<u8>,
        figures: RemoteStats,
        stages: StageNames,
        clock: Clock,
    ) -> Result<Self, LinkError> {
        let mut link = Link::new(socket, clock)?;
        let stage = figures.status.stage().to_owned();
        let hello = Hello {
            version: VERSION,
            stage,
            settings,
            sender: String::new(),
        };
        link.say(NO_SEQUENCE, Body::Hello(hello))?;
        let state = ProxyState {
            phase: Phase::Silent,
            streams: BTreeMap::new(),
            figures,
            stages,
            silent_since: clock.now(),
            clock,
        };
        Ok(Self { link, state })
    }

    /// Returns true if the stage is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.state.phase == Phase::Ready
    }

    /// Returns true once the other side has sent its greeting.
    pub(super) fn is_greeted(&self) -> bool {
        self.state.phase != Phase::Silent
    }

    /// Time of the other side's last message.
    pub(super) fn silent_since(&self) -> Stamp {
        self.state.silent_since
    }

    /// Returns true if a job can be queued now. A job may be as long as a frame, and is not counted once it is
    /// queued.
    pub(super) fn has_room(&self) -> bool {
        !self.link.is_backed_up()
    }

    /// Takes a job; one that was cancelled is dropped.
    pub(super) fn accept(&mut self, job: StageJob) {
        if job.cancel.is_set() {
            return;
        }
        let seq = job.seq;
        let output = job.request.output();
        let arrived = job.progress.arrived();
        let open = Open {
            arrived: arrived.map(|at| self.link.peer_clock().to_wire(at)),
            request: Some(request_message(job.request)),
            link: job.next.map(next_stage_message),
            expects: job.expects.map(token_message).unwrap_or_default(),
        };
        if let Err(error) = self.link.say(seq, Body::Open(open)) {
            return job.outputs.end(failed(self.state.figures.status.stage(), &error));
        }
        let stream = StreamState {
            sending: Sending::opening(job.inputs),
            receiving: Receiving::answer(job.outputs, Some(output)),
            cancel: job.cancel,
            progress: job.progress,
            finished: job.finished,
        };
        self.state.streams.insert(seq, stream);
    }

    /// Does everything that is possible now.
    ///
    /// # Errors
    /// If the connection has failed.
    pub(super) fn turn(&mut self) -> Result<(), LinkError> {
        self.link.read()?;
        while let Some(frame) = self.link.next()? {
            self.state.frame(frame, self.link.peer_clock())?;
        }
        loop {
            let all = self.state.tend(&mut self.link)?;
            self.link.flush()?;
            // The rest is sent when the socket takes more.
            if all || self.link.is_backed_up() {
                return Ok(());
            }
        }
    }

    /// Sleeps until there may be something to do, or for `timeout`. Then the notifier can be notified again.
    pub(super) fn wait(&mut self, notifier: &NotifierFd, timeout: Option<Duration>) -> Result<(), LinkError> {
        Ok(self.link.wait(notifier, timeout)?)
    }

    /// Ends every sequence with `end`.
    pub(super) fn end_all(&mut self, end: &End) {
        let streams = std::mem::take(&mut self.state.streams);
        // Figures first, so that they contain the end when its reader learns of it.
        let now = self.state.clock.now();
        self.state.figures.end(|seq| streams.contains_key(&seq), now);
        for (_, mut stream) in streams {
            stream.receiving.end(end.clone());
        }
    }
}

impl ProxyState {
    /// Handles a frame. A frame of an unknown sequence was in flight when the sequence ended, and is ignored.
    fn frame(&mut self, frame: Received, clock: PeerClock) -> Result<(), LinkError> {
        self.silent_since = self.clock.now();
        let came = Came::of(&frame, clock);
        let seq = frame.seq;
        match (self.phase, frame.body) {
            (Phase::Silent, Body::Hello(hello)) => self.greeted(&checked(hello)?),
            (Phase::Silent, body) => Err(unexpected(&body, "hello")),
            (_, Body::Failed(failed)) => Err(LinkError::Peer(failed.message)),
            (Phase::Loading | Phase::Ready, Body::Heartbeat(_)) => Ok(()),
            (Phase::Loading, Body::Ready(_)) => {
                self.phase = Phase::Ready;
                Ok(())
            }
            (Phase::Loading, body) => Err(unexpected(&body, "ready")),
            (Phase::Ready, Body::Arrivals(arrivals)) => {
                for arrival in &arrivals.arrivals {
                    let Arrival { seq, stamps } = Arrival::of(arrival, clock);
                    if let Some(stream) = self.streams.get_mut(&seq) {
                        stream.sending.transferred(&stamps);
                    }
                }
                Ok(())
            }
            (Phase::Ready, Body::Events(events)) => self.figures.tell(&Reports::of(events, clock)?),
            (Phase::Ready, body) => self.about_sequence(seq, body, came),
        }
    }

    fn about_sequence(&mut self, seq: SeqId, body: Body, came: Came) -> Result<(), LinkError> {
        let ours = self.figures.status.stage();
        let Some(stream) = self.streams.get_mut(&seq) else {
            return Ok(());
        };
        match body {
            Body::Item(item) => {
                // The reader of the edge records the transfer.
                stream.receiving.item(came, item, self.clock.now())?;
            }
            Body::End(message) => {
                let end = end(message, &self.stages)?;
                // A stage whose own link broke keeps the sequence until it is cancelled. A stage that reports the
                // link of another is done with the sequence, and owes no heartbeats.
                let kept = matches!(&end, End::Severed { stage, .. } if *stage == ours);
                stream.receiving.end(end);
                if !kept {
                    self.streams.remove(&seq);
                }
            }
            Body::Cancel(_) => drop(self.streams.remove(&seq)),
            Body::Credit(credit) => stream.sending.credit(credit.units),
            Body::Idle(idle) => stream.receiving.set_idle(idle.idle),
            Body::Progress(message) => stream.progress.mirror(&progress(&message, came.clock)),
            Body::Done(_) => {
                stream.sending.close();
                stream.finished = None;
            }
            other => return Err(unexpected(&other, "a frame about a sequence")),
        }
        Ok(())
    }

    fn greeted(&mut self, hello: &Hello) -> Result<(), LinkError> {
        let ours = self.figures.status.stage();
        if hello.stage != ours {
            let theirs = &hello.stage;
            let what = format!("it works for the stage {theirs:?}, expected {ours:?}");
            return Err(LinkError::Protocol(what));
        }
        self.phase = Phase::Loading;
        Ok(())
    }

    /// Serves every sequence; returns false if the queue did not take everything that can be sent.
    fn tend(&mut self, link: &mut Link) -> Result<bool, LinkError> {
        let mut all = true;
        let mut outcome = Ok(());
        let stage = self.figures.status.stage();
        self.streams
            .retain(|&seq, stream| match stream.tend((stage, seq), link) {
                Ok(Tended::All) => true,
                Ok(Tended::Part) => {
                    all = false;
                    true
                }
                Ok(Tended::Over) => false,
                Err(error) => {
                    outcome = Err(error);
                    true
                }
            });
        outcome?;
        Ok(all)
    }
}

enum Tended {
    All,
    /// The connection is backed up.
    Part,
    /// The sequence is at its end.
    Over,
}

impl StreamState {
    fn tend(&mut self, (stage, seq): (&'static str, SeqId), link: &mut Link) -> Result<Tended, WireError> {
        if self.cancel.is_set() {
            link.say(seq, Body::Cancel(Cancel {}))?;
            return Ok(Tended::Over);
        }
        self.receiving.grant(seq, link)?;
        self.sending.tell_idle(seq, link)?;
        loop {
            if link.is_backed_up() {
                return Ok(Tended::Part);
            }
            match self.sending.forward(seq, link) {
                Forwarded::Item => {}
                Forwarded::Nothing => return Ok(Tended::All),
                Forwarded::End(end) => {
                    link.say(seq, Body::End(end_message(end)))?;
                    return Ok(Tended::All);
                }
                Forwarded::Gone => {
                    link.say(seq, Body::Cancel(Cancel {}))?;
                    return Ok(Tended::Over);
                }
                Forwarded::TooLong(error) => {
                    link.say(seq, Body::Cancel(Cancel {}))?;
                    self.receiving.end(failed(stage, &error));
                    return Ok(Tended::Over);
                }
            }
        }
    }
}

fn failed(stage: &'static str, error: &WireError) -> End {
    End::Failed {
        stage,
        message: error.to_string(),
    }
}
