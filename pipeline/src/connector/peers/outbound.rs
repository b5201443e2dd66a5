//! The end of a link at the sending stage.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{Attach, Cancel, Hello};
use tokio::sync::{mpsc, oneshot};

use super::{HEARTBEAT, Keepalive, LinkEnd, LinkHandle, MAILBOX, Outgoing, PeerParts, State};
use crate::connector::hold::Hold;
use crate::connector::link::{Link, LinkError};
use crate::connector::protocol::{checked, unexpected};
use crate::connector::replica::Peer;
use crate::connector::stream::{Forwarded, Sending};
use crate::connector::wire::{NO_SEQUENCE, VERSION, WireError, end_message, token_message};
use crate::stage::{End, NextStage, NotifierFd};

/// Longest wait until the other stage has said that it takes items.
const GREETING: Duration = Duration::from_secs(5);
/// Longest wait for the reason why a connection has ended.
const REASON_TIMEOUT: Duration = Duration::from_millis(100);

/// Makes a link and serves it until it fails or is stopped. `again` if a failure of it has been logged.
pub(super) fn run(handle: &LinkHandle, parts: &PeerParts, next: &NextStage, again: bool) {
    let stage = &next.stage;
    let failed = match connect(handle, parts, next) {
        Ok((mut outbound, peer)) => {
            let (jobs, taken) = mpsc::channel(MAILBOX);
            outbound.jobs = Some(taken);
            tracing::info!(stage, "link to the next stage open; items bypass the front ends");
            *handle.state.lock() = State::Works(jobs);
            let ended = outbound.turns(handle);
            *handle.state.lock() = State::Failed(parts.clock.now());
            let idle = outbound.sequences.is_empty();
            outbound.end_all(&ended);
            drop(outbound);
            let ended = ended
                .err()
                .map(|error| format!("{error}; {}", peer.end(REASON_TIMEOUT)));
            if idle && let Some(message) = &ended {
                // A replica that is removed ends when its work is done.
                tracing::info!(stage, message, "link to the next stage closed");
            }
            ended.filter(|_| !idle)
        }
        Err(message) => {
            *handle.state.lock() = State::Failed(parts.clock.now());
            Some(message).filter(|_| !again)
        }
    };
    if let Some(message) = failed.filter(|_| !handle.stop.is_set()) {
        tracing::warn!(
            stage,
            message,
            "link to the next stage failed; its items go by the front ends"
        );
    }
}

fn connect(
    handle: &LinkHandle,
    parts: &PeerParts,
    next: &NextStage,
) -> Result<(Outbound, Box<dyn Peer>), String> {
    let (socket, peer) = (parts.dial)(&next.address).map_err(|error| error.to_string())?;
    let now = parts.clock.now();
    let greeted = Link::new(socket, parts.clock)
        .and_then(|link| Ok((link, handle.wake.line()?)))
        .map_err(LinkError::from)
        .and_then(|(link, notified)| {
            let mut outbound = Outbound {
                link,
                notified,
                jobs: None,
                sequences: BTreeMap::new(),
                last: 0,
                hold: Hold::default(),
                keepalive: Keepalive::new(now),
                unused: (now, parts.idle),
                stage: parts.stage,
            };
            outbound.greet(handle, parts, next)?;
            Ok(outbound)
        });
    match greeted {
        Ok(outbound) => Ok((outbound, peer)),
        Err(error) => Err(format!("{error}; {}", peer.end(REASON_TIMEOUT))),
    }
}

struct Outbound {
    link: Link,
    notified: NotifierFd,
    /// Set once the other stage takes items.
    jobs: Option<mpsc::Receiver<Outgoing>>,
    /// Oldest first.
    sequences: BTreeMap<SeqId, Outflow>,
    /// Last sequence number on this link.
    last: u64,
    hold: Hold,
    keepalive: Keepalive,
    /// Start of the time without sequences, and its longest duration.
    unused: (Stamp, Duration),
    stage: &'static str,
}

struct Outflow {
    sending: Sending,
    /// Its end, until the other stage has confirmed it.
    unconfirmed: Option<End>,
    ended: oneshot::Sender<LinkEnd>,
}

impl Outbound {
    fn greet(&mut self, handle: &LinkHandle, parts: &PeerParts, next: &NextStage) -> Result<(), LinkError> {
        let hello = Hello {
            version: VERSION,
            stage: next.stage.clone(),
            settings: parts.greeting.clone(),
            sender: parts.stage.to_owned(),
        };
        self.link.say(NO_SEQUENCE, Body::Hello(hello))?;
        self.link.flush()?;
        let until = self.link.now() + GREETING;
        let mut greeted = false;
        loop {
            self.link.read()?;
            while let Some(frame) = self.link.next()? {
                match frame.body {
                    Body::Hello(hello) if !greeted => {
                        let theirs = checked(hello)?.stage;
                        if theirs != next.stage {
                            let what =
                                format!("it works for the stage {theirs:?}, expected {:?}", next.stage);
                            return Err(LinkError::Protocol(what));
                        }
                        greeted = true;
                    }
                    Body::Ready(_) if greeted => return Ok(()),
                    Body::Failed(failed) => return Err(LinkError::Peer(failed.message)),
                    other => return Err(unexpected(&other, "hello and ready")),
                }
            }
            let left = until.since(self.link.now());
            if left.is_zero() || handle.stop.is_set() {
                return Err(LinkError::Silent(GREETING));
            }
            self.link.wait(&self.notified, Some(left))?;
            self.link.flush()?;
        }
    }

    /// Turns until the link fails, is stopped or has been unused for too long.
    fn turns(&mut self, handle: &LinkHandle) -> Result<(), LinkError> {
        while !handle.stop.is_set() {
            let gathers = self.turn()?;
            handle.quiet.store(self.keepalive.is_quiet(), Ordering::Relaxed);
            if self.is_unused() && handle.retire(self.link.now()) {
                return Ok(());
            }
            if handle.wake.will_look(gathers) && !gathers {
                continue;
            }
            let again = if gathers {
                Some(self.hold.left(self.link.now()))
            } else {
                Some(HEARTBEAT.min(self.unused.1))
            };
            self.link.wait(&self.notified, again)?;
        }
        Ok(())
    }

    fn is_unused(&mut self) -> bool {
        let (since, limit) = &mut self.unused;
        if !self.sequences.is_empty() {
            *since = self.link.now();
        }
        self.link.now().since(*since) >= *limit
    }

    /// Does everything that is possible now; returns true if items of the next moment are sent together.
    fn turn(&mut self) -> Result<bool, LinkError> {
        self.link.read()?;
        while let Some(frame) = self.link.next()? {
            self.frame(frame.seq, frame.body)?;
        }
        self.accept()?;
        self.keepalive.look(&mut self.link)?;
        let patient = self.sequences.values().any(Outflow::is_patient);
        let holds = patient && !self.hold.left(self.link.now()).is_zero();
        let before = self.link.items();
        loop {
            let all = self.tend(holds)?;
            self.link.flush()?;
            // The rest is sent when the connection accepts more.
            if all || self.link.is_backed_up() {
                let sent = self.link.items() - before;
                if sent > 0 {
                    self.hold.sent(self.link.now(), holds);
                }
                return Ok(holds || sent > 1);
            }
        }
    }

    /// Handles a frame. A frame of an unknown sequence was in flight when the sequence ended, and is ignored.
    fn frame(&mut self, seq: SeqId, body: Body) -> Result<(), LinkError> {
        self.keepalive.heard(self.link.now());
        match body {
            Body::Heartbeat(_) => {}
            Body::Failed(failed) => return Err(LinkError::Peer(failed.message)),
            Body::Credit(credit) => {
                if let Some(outflow) = self.sequences.get_mut(&seq) {
                    outflow.sending.credit(credit.units);
                }
            }
            Body::Done(_) => {
                if let Some(outflow) = self.sequences.remove(&seq) {
                    let end = outflow.unconfirmed.ok_or_else(|| early(seq))?;
                    let _ = outflow.ended.send(LinkEnd::Ended(end));
                }
            }
            Body::Cancel(_) => {
                if let Some(outflow) = self.sequences.remove(&seq) {
                    let message = "the next stage does not take its items".to_owned();
                    let _ = outflow.ended.send(LinkEnd::Severed(message));
                }
            }
            other => return Err(unexpected(&other, "credit, a confirmation or a cancellation")),
        }
        Ok(())
    }

    /// Takes new sequences, as many as the connection has room for.
    fn accept(&mut self) -> Result<(), LinkError> {
        while !self.link.is_backed_up()
            && let Some(jobs) = &mut self.jobs
            && let Ok(outgoing) = jobs.try_recv()
        {
            self.last += 1;
            let seq = SeqId(self.last);
            let token = token_message(outgoing.token);
            self.link.say(seq, Body::Attach(Attach { token }))?;
            let outflow = Outflow {
                sending: Sending::linked(Box::new(outgoing.outputs)),
                unconfirmed: None,
                ended: outgoing.ended,
            };
            self.sequences.insert(seq, outflow);
        }
        Ok(())
    }

    /// Serves every sequence; items that may wait do so if it `holds`. Returns false if the queue did not take
    /// everything that can be sent.
    fn tend(&mut self, holds: bool) -> Result<bool, LinkError> {
        let mut all = true;
        let mut over = Vec::new();
        for (&seq, outflow) in &mut self.sequences {
            if self.link.is_backed_up() {
                all = false;
                break;
            }
            if outflow.unconfirmed.is_some() {
                continue;
            }
            outflow.sending.tell_idle(seq, &mut self.link)?;
            if holds && outflow.is_patient() {
                continue;
            }
            match outflow.forward((self.stage, seq), &mut self.link)? {
                Passed::All => {}
                Passed::Part => all = false,
                Passed::Over(end) => over.push((seq, end)),
            }
        }
        for (seq, end) in over {
            if let Some(outflow) = self.sequences.remove(&seq) {
                let _ = outflow.ended.send(end);
            }
        }
        Ok(all)
    }

    /// Ends the remaining sequences as severed.
    fn end_all(&mut self, ended: &Result<(), LinkError>) {
        let message = match ended {
            Ok(()) => "its stage is being stopped".to_owned(),
            Err(error) => error.to_string(),
        };
        for outflow in std::mem::take(&mut self.sequences).into_values() {
            let _ = outflow.ended.send(LinkEnd::Severed(message.clone()));
        }
        if let Some(jobs) = &mut self.jobs {
            jobs.close();
        }
    }
}

/// Result of a pass over a sequence.
enum Passed {
    /// Everything that can be sent is queued.
    All,
    /// The connection is backed up.
    Part,
    /// The sequence has ended.
    Over(LinkEnd),
}

/// Error for the confirmation of a sequence that has not ended.
fn early(seq: SeqId) -> LinkError {
    LinkError::Protocol(format!(
        "the end of sequence {} was confirmed before it was sent",
        seq.0
    ))
}

impl Outflow {
    fn is_patient(&self) -> bool {
        self.unconfirmed.is_none() && self.sending.is_patient()
    }

    fn forward(&mut self, (own, seq): (&'static str, SeqId), link: &mut Link) -> Result<Passed, WireError> {
        loop {
            if link.is_backed_up() {
                return Ok(Passed::Part);
            }
            let end = match self.sending.forward(seq, link) {
                Forwarded::Item => continue,
                Forwarded::Nothing => return Ok(Passed::All),
                // The replica is dying. The server must know that before it receives the loss, and tells the next
                // stage.
                Forwarded::End(end @ End::Lost { .. }) => return Ok(Passed::Over(LinkEnd::Ended(end))),
                Forwarded::End(end) => end,
                Forwarded::Gone => {
                    link.say(seq, Body::Cancel(Cancel {}))?;
                    let message = "the stage has given it up".to_owned();
                    return Ok(Passed::Over(LinkEnd::Severed(message)));
                }
                Forwarded::TooLong(error) => End::Failed {
                    stage: own,
                    message: error.to_string(),
                },
            };
            link.say(seq, Body::End(end_message(end.clone())))?;
            self.unconfirmed = Some(end);
            return Ok(Passed::All);
        }
    }
}
