//! One end of the connection between two processes: frames in, frames out, never blocking.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use omni_proto::stage::v1::Arrivals;
use omni_proto::stage::v1::frame::Body;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::forwarder::EventForwarder;
use super::wire::{Arrival, FrameReader, NO_SEQUENCE, PeerClock, Received, WireError, write_frame};
use crate::clock::Clock;
use crate::stage::NotifierFd;

/// Bytes queued for the socket beyond which no more items are taken from the edges.
const BACKED_UP: usize = 256 << 10;

/// Poll interval for best-effort statistics, which do not wake the thread. Polling stops once they no longer change.
pub(super) const AFTERTHOUGHT: Duration = Duration::from_millis(100);

/// Reason why a connection was given up.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The system returned an error.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The other process has closed it or has ended.
    #[error("the connection was closed by the other process")]
    Closed,
    /// The other process has ended within a frame.
    #[error("the connection was cut off within a frame after {got} bytes of it")]
    CutOff {
        /// Bytes that came of the frame.
        got: usize,
    },
    /// The peer sent bytes that cannot be read.
    #[error("the connection carries unreadable data: {0}")]
    Wire(#[from] WireError),
    /// The peer sent a message that the protocol does not allow here.
    #[error("the other process broke the protocol: {0}")]
    Protocol(String),
    /// The other process gave up.
    #[error("{0}")]
    Peer(String),
    /// It sends no heartbeats: it is stopped, or hangs as a whole.
    #[error("the other process has said nothing for {0:?}")]
    Silent(Duration),
}

impl LinkError {
    /// Returns true if the other process is gone, rather than it, or the data that it sent, being at fault.
    pub(super) fn is_severed(&self) -> bool {
        match self {
            Self::Io(_) | Self::Closed | Self::CutOff { .. } | Self::Silent(_) => true,
            Self::Wire(_) | Self::Protocol(_) | Self::Peer(_) => false,
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: UnixStream,
    input: FrameReader,
    output: Vec<u8>,
    /// Bytes at the front of `output` that the system has taken.
    written: usize,
    /// `true` if there may be something to read.
    readable: bool,
    /// Events of this end; they are sent ahead of their consequences.
    forwarder: Option<EventForwarder>,
    /// Arrivals of items that the other side has not been told of.
    arrivals: Vec<Arrival>,
    /// Time at which the other side was last sent both.
    passed_on: Stamp,
    /// Number of items queued.
    items: u64,
    clock: Clock,
    peer: PeerClock,
}

impl Link {
    pub(super) fn new(socket: UnixStream, clock: Clock) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            input: FrameReader::default(),
            output: Vec::new(),
            written: 0,
            readable: true,
            forwarder: None,
            arrivals: Vec::new(),
            passed_on: Stamp::default(),
            items: 0,
            peer: PeerClock::new(clock.now()),
            clock,
        })
    }

    /// Sends the events of `forwarder` from now on.
    pub(super) fn listen_with(&mut self, forwarder: EventForwarder) {
        self.forwarder = Some(forwarder);
    }

    /// Reports the arrival of an item to the other side: with the next item, or within [`AFTERTHOUGHT`].
    pub(super) fn arrived(&mut self, arrival: Arrival) {
        self.arrivals.push(arrival);
    }

    /// Returns true if the caller has to poll again after [`AFTERTHOUGHT`] because reports wait to be sent. Reports
    /// that follow notify the caller, unless it polls again, for these or in any case (`looks`).
    pub(super) fn attend(&self, looks: bool) -> bool {
        let looks = looks || !self.arrivals.is_empty();
        self.forwarder.as_ref().map_or(looks, |told| told.attend(looks))
    }

    /// Queues reports, at most once in [`AFTERTHOUGHT`]: messages that depend on them queue them first.
    pub(super) fn pass_on_late(&mut self) -> Result<(), WireError> {
        if self.clock.since(self.passed_on) >= AFTERTHOUGHT {
            self.pass_on()
        } else {
            Ok(())
        }
    }

    /// Queues all reports that were not sent.
    fn pass_on(&mut self) -> Result<(), WireError> {
        let reports = self.forwarder.as_ref().map(EventForwarder::take);
        if let Some(reports) = reports.filter(|reports| !reports.is_empty()) {
            self.passed_on = self.clock.now();
            let events = reports.message(self.peer);
            self.say(NO_SEQUENCE, Body::Events(events))?;
        }
        if self.arrivals.is_empty() {
            return Ok(());
        }
        self.passed_on = self.clock.now();
        let clock = self.peer;
        let arrivals = self.arrivals.drain(..).map(|arrival| arrival.message(clock));
        let arrivals = arrivals.collect();
        self.say(NO_SEQUENCE, Body::Arrivals(Arrivals { arrivals }))
    }

    pub(super) fn now(&self) -> Stamp {
        self.clock.now()
    }

    /// Conversion between instants of the two sides.
    pub(super) fn peer_clock(&self) -> PeerClock {
        self.peer
    }

    /// Queues a frame. [`flush`](Self::flush) sends the queue.
    pub(super) fn say(&mut self, seq: SeqId, body: Body) -> Result<(), WireError> {
        // Engine events go before their consequences, and the arrival of an item before the end of its sequence.
        if matches!(
            body,
            Body::Item(_) | Body::End(_) | Body::Cancel(_) | Body::Done(_) | Body::Failed(_)
        ) {
            self.pass_on()?;
        }
        let clock = self.clock;
        let peer = self.peer;
        if matches!(body, Body::Item(_)) {
            self.items += 1;
        }
        write_frame(&mut self.output, seq, body, || peer.to_wire(clock.now()))
    }

    /// Number of items queued so far.
    pub(super) fn items(&self) -> u64 {
        self.items
    }

    /// Returns true if the socket's backlog has reached [`BACKED_UP`] bytes, so that no items should be added.
    pub(super) fn is_backed_up(&self) -> bool {
        self.output.len() - self.written >= BACKED_UP
    }

    /// Returns true if nothing waits for the socket.
    pub(super) fn is_flushed(&self) -> bool {
        self.written == self.output.len()
    }

    /// Writes as much of the queue as the system takes. A closed connection is reported by [`read`](Self::read):
    /// messages that the other side sent before are read first.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.is_flushed() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                        self.written = self.output.len();
                    }
                    _ => return Err(error),
                },
            }
        }
        // Moves no byte more often than others are written, for any length of the queue.
        if self.is_flushed() || self.written >= BACKED_UP.max(self.output.len() / 2) {
            self.output.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Reads once. Frames are then taken with [`next`](Self::next) until there are none.
    pub(super) fn read(&mut self) -> Result<(), LinkError> {
        if !std::mem::take(&mut self.readable) {
            return Ok(());
        }
        match self.input.fill(&self.socket) {
            Ok(0) => Err(self.ended()),
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                // It ended without having read everything.
                io::ErrorKind::ConnectionReset => Err(self.ended()),
                _ => Err(error.into()),
            },
        }
    }

    fn ended(&self) -> LinkError {
        match self.input.pending() {
            0 => LinkError::Closed,
            got => LinkError::CutOff { got },
        }
    }

    /// Returns the next frame that was read completely.
    pub(super) fn next(&mut self) -> Result<Option<Received>, WireError> {
        let clock = self.clock;
        let frame = self.input.next(|| clock.now())?;
        if let Some(frame) = &frame {
            self.peer.frame(frame.sent, frame.began);
        }
        Ok(frame)
    }

    /// Waits until something can be read, something queued can be written, the notifier is notified, or `timeout` is
    /// over. Then the notifier can be notified again.
    pub(super) fn wait(&mut self, notifier: &NotifierFd, timeout: Option<Duration>) -> io::Result<()> {
        let mut interest = PollFlags::IN;
        interest.set(PollFlags::OUT, !self.is_flushed());
        let mut watched = [
            PollFd::from_borrowed_fd(self.socket.as_fd(), interest),
            PollFd::from_borrowed_fd(notifier.as_fd(), PollFlags::IN),
        ];
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let [socket, rung] = watched.map(|watched| watched.revents());
        // Reading also reports errors and the end of the other side.
        self.readable = socket.intersects(!PollFlags::OUT);
        if !rung.is_empty() {
            notifier.drain();
        }
        Ok(())
    }
}
