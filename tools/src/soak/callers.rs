//! The kinds of callers there are, and how often each comes.

use std::future::Future;
use std::pin::Pin;

use omni_proto::v1;
use omni_tests::Dice;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{Target, https, operators, rude, sockets, speakers, talkers};
use crate::line::Line;

type Calling<'v> = Pin<Box<dyn Future<Output = String> + Send + 'v>>;

/// One kind of caller.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Frequency, relative to the others.
    pub(super) weight: u64,
    /// Runs it; returns the outcome in a few words, and panics on a violation.
    pub(super) call: fn(&mut Visit) -> Calling<'_>,
}

/// One call of one caller.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) target: Target,
    /// Name of the model.
    pub(super) model: String,
    /// None when it was cut.
    pub(super) line: Option<Line>,
    pub(super) dice: Dice,
}

impl Visit {
    pub(super) fn channel(&self) -> Channel {
        self.line.as_ref().expect("it is not cut yet").channel.clone()
    }

    /// Breaks the connection, as a machine does that loses its network.
    pub(super) fn cut(&mut self) {
        if let Some(line) = self.line.take() {
            line.cut();
        }
    }
}

macro_rules! kinds {
    ($($name:literal $weight:literal $call:path;)*) => {
        [$(Kind { name: $name, weight: $weight, call: |visit| Box::pin($call(visit)) }),*]
    };
}

/// All that are busy.
pub(super) const KINDS: [Kind; 25] = kinds! {
    "speak" 6 speakers::speaks;
    "speak, cancel" 4 speakers::cancels;
    "speak, vanish" 3 speakers::vanishes;
    "speak, leave" 2 speakers::leaves;
    "speak, deadline" 2 speakers::in_time;
    "speak, slow reader" 1 speakers::reads_slowly;
    "synthesize" 3 speakers::synthesizes;
    "converse" 4 talkers::converses;
    "converse, interrupt" 3 talkers::interrupts;
    "converse, vanish" 2 talkers::vanishes;
    "generate" 1 talkers::generates;
    "riva" 2 https::riva_whole;
    "riva online" 2 https::riva_online;
    "openai speech" 3 https::speech;
    "openai chat" 2 https::chat;
    "openai, vanish" 1 https::vanishes;
    "voice of a recording" 2 https::keeps_a_voice;
    "crowd of connections" 1 sockets::crowd;
    "websocket" 3 sockets::websocket;
    "websocket, vanish" 1 sockets::websocket_vanishes;
    "wyoming" 3 sockets::wyoming_speaks;
    "wyoming, vanish" 1 sockets::wyoming_vanishes;
    "replica, added and removed" 1 operators::changes_replicas;
    "wrong messages" 3 rude::wrong_messages;
    "wrong bytes" 2 rude::wrong_bytes;
};

/// The silent ones.
pub(super) const IDLE: Kind = Kind {
    name: "idle",
    weight: 1,
    call: |visit| Box::pin(speakers::idles(visit)),
};

/// Outcome of a refused call. Only refusals for overload are accepted.
pub(super) fn refused(status: &Status) -> String {
    assert_eq!(status.code(), Code::ResourceExhausted, "refused with {status:?}");
    format!("refused {}", omni_tests::reason(status))
}

/// Ends of utterances and answers that may come unasked under load.
pub(super) const BUSY: [&str; 2] = ["SERVER_OVERLOADED", "CONCURRENCY_LIMIT"];

/// Checks how an utterance or answer ended whose caller did nothing wrong.
pub(super) fn ended_well(finish: v1::FinishReason, error: &str) -> &'static str {
    use v1::FinishReason as F;
    match finish {
        F::Stop | F::Length | F::Repetition => "answered",
        F::Interrupted => "interrupted",
        F::Error if BUSY.contains(&error) => "overloaded",
        F::Error | F::Unspecified => panic!("it ended with {finish:?} {error}"),
    }
}
