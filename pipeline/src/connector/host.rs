//! The host of a stage for another process: the far end of a proxy.
//!
//! In: frames, from which jobs and their inputs are made. Out: frames with the stage's outputs. The stage itself is
//! one like any other, between edges of its own process.

mod linked;
mod shared;
mod stream;
mod work;

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{Failed, Heartbeat, Hello};
use tokio_stream::wrappers::WatchStream;

use super::forwarder::EventForwarder;
use super::hold::Hold;
use super::link::{AFTERTHOUGHT, Link, LinkError};
use super::peers::{Inbound, Peers};
use super::protocol::{StageNames, checked, unexpected};
use super::rendezvous::Rendezvous;
use super::wire::{NO_SEQUENCE, VERSION, WireError, known};
use crate::clock::Clock;
use crate::stage::{Changes, EngineSink, Notifier, NotifierFd, ReplicaStatus, StageHandle, TurnTimeouts};
pub use shared::{EventRouter, SharedReplica};
use shared::{Membership, WholeReplica};
use work::Work;

/// Connection whose other side has sent its greeting.
#[derive(Debug)]
pub struct HostSession {
    link: Link,
    wake: Notifier,
    line: NotifierFd,
    forwarder: EventForwarder,
    stages: StageNames,
    clock: Clock,
    /// Name of the requested stage.
    pub stage: String,
    /// Encoded settings of the stage.
    pub settings: Vec<u8>,
    /// The stage that connects, if it is one and no server.
    pub sender: Option<&'static str>,
}

/// Waits for the greeting of the other side. `stages` are the stages of all graphs.
///
/// # Errors
/// [`LinkError`]; a peer of another version is told the reason, too.
pub fn called(socket: UnixStream, stages: StageNames, clock: Clock) -> Result<HostSession, LinkError> {
    let wake = Notifier::default();
    let line = wake.line()?;
    let mut link = Link::new(socket, clock)?;
    let hello = match hello(&mut link, &line) {
        Err(error @ LinkError::Wire(WireError::Version { .. })) => {
            // Both greetings have the version in them, so that both sides can name the mismatch.
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

impl HostSession {
    /// Answers the greeting: the stage is being loaded.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn answer(&mut self) -> Result<(), LinkError> {
        self.link.say(NO_SEQUENCE, hello_as(self.stage.clone()))?;
        Ok(self.link.flush()?)
    }

    /// Sends a heartbeat.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn beat(&mut self) -> Result<(), LinkError> {
        self.link.say(NO_SEQUENCE, Body::Heartbeat(Heartbeat {}))?;
        Ok(self.link.flush()?)
    }

    /// Returns a sink for the events of the replica's engine, which are sent to the other side.
    pub fn listener(&self) -> Arc<dyn EngineSink> {
        Arc::new(self.forwarder.clone())
    }

    /// Sends the reason why there will be no stage.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn refuse(mut self, message: &str) -> Result<(), LinkError> {
        let message = message.to_owned();
        self.link.say(NO_SEQUENCE, Body::Failed(Failed { message }))?;
        Ok(self.link.flush()?)
    }

    /// Passes jobs to the replica `stage` until the other side closes the connection or the replica dies, also by
    /// exceeding `timeouts` in a turn. `status` is where the replica writes its state, and `changes` notifies of it.
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

    /// Passes jobs to a replica that serves other connections, too, until the other side closes the connection or the
    /// replica dies. Sequences of the connection are cancelled then.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn serve_shared(self, replica: &SharedReplica) -> Result<(), LinkError> {
        let membership = replica.router.join(self.forwarder.clone())?;
        let links = (Some(replica.rendezvous.clone()), replica.peers.clone());
        self.run(&replica.replica, Some(membership), links)
    }

    /// Takes items of sequences of a replica from the stage that [connected](Self::sender), until it closes the
    /// connection.
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

#[derive(derive_more::Debug)]
#[debug("Host {{ stage: {:?}, sequences: {:?}, .. }}", self.work.status.stage(), self.work.streams.len())]
struct Host {
    link: Link,
    work: Work,
    hold: Hold,
}

impl Host {
    /// Turns until the other side closes the connection or the connection or the replica fails.
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
            // Statistics change without a notification: after a message was sent, they are polled once more.
            let again = if self.link.attend(std::mem::take(&mut spoke)) {
                AFTERTHOUGHT
            } else {
                self.work.look_again()
            };
            let again = if gathers {
                self.hold.left(self.work.clock.now())
            } else {
                again
            };
            self.link.wait(line, Some(again))?;
        }
    }

    /// Does everything that is possible now.
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
            // The rest is sent when the socket takes more.
            if all || self.link.is_backed_up() {
                let sent = self.link.items() - before;
                if sent > 0 {
                    self.hold.sent(self.work.clock.now(), holds);
                }
                // Several items at once are a sign of more to come.
                let gathers = holds || sent > 1;
                return Ok(Turned { spoke, gathers });
            }
        }
    }
}

/// Result of [`Host::turn`].
struct Turned {
    /// `true` if something was sent.
    spoke: bool,
    /// `true` if items of the next moment are sent together.
    gathers: bool,
}
