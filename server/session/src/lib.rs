//! One call: commands in, events out, one record per utterance.
//!
//! In: a stream of [`Command`]s (checked and free of wire types) and an
//! [`Orchestrator`](omni_core::orchestrator::Orchestrator) to work with. Out: [`Event`]s through a small bounded channel,
//! and one [`UtteranceRecord`] per utterance to a [`RecordSink`]. A session never waits for its reader while it could
//! listen to its caller: events that cannot be sent stay in an outbox, production pauses behind it, and a cancel is
//! still received.

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs)]

mod alignment;
mod alternate;
mod chat;
mod courses;
mod delivery_stats;
mod error;
mod event_channel;
mod limits;
mod names;
mod outbox;
mod output;
mod pacer;
mod pipeline;
mod post_processing;
mod protocol;
mod recent;
mod record;
mod registry;
mod run;
mod session_loop;
mod settings;
mod text;
mod timeouts;
mod track;
mod utterance;

pub use alignment::TimedText;
pub use chat::{
    ChatCommand, ChatEvent, ChatEventBody, ChatLimits, ChatReady, ChatSession, ChatSettings,
    GivenConversation, Modalities, NewMessage, Respond, ResponseDone, Said, TokenIntervals, TurnRecord,
    TurnTimings, TurnUsage, shortened,
};
pub use courses::{Course, Courses};
pub use error::{CallerGone, ProtocolError, SessionCancelled, SessionTimeout, UtteranceError};
pub use event_channel::{EventSender, event_channel};
pub use limits::SessionLimits;
pub use protocol::{AudioOut, Command, Done, Event, EventBody, Ready, Warning};
pub use recent::{Recent, RecentFigures};
pub use record::{
    EndedRequest, Outcome, Packet, RecordSink, SessionChange, Sound, StageFigures, Timings, Usage,
    UtteranceRecord,
};
pub use registry::{Registry, RegistryGuard, SessionHandle, SessionView};
pub use run::{Session, SessionDeps};
pub use settings::{Buffering, Delivery, FIELD_IGNORED, IgnoredField, Settings};
pub use text::explain;
pub use track::{SequenceRecord, Sequences, Track};
