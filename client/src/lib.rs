//! Client library for Omni.
//!
//! Text goes in as it is written, events come out as the server speaks; or messages go in and the server answers them,
//! in text and in speech. The library hides the wire types, checks that the server keeps the protocol (order,
//! contiguous audio, whole samples) and turns every failure into a [`ClientError`] that says what went wrong and
//! whether trying again helps. It never plays audio and never writes files.
//!
//! ```no_run
//! use omni_client::{Client, Endpoint, SpeechEvent, SpeechSettings};
//!
//! # async fn speak() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(&Endpoint::parse("http://127.0.0.1:50051")?).await?;
//! let (say, mut events) = client.speech(&SpeechSettings::default());
//! say.text("Hello there. ").await?;
//! say.text("Text may come in any pieces.").await?;
//! say.finish().await?;
//! while let Some(event) = events.next().await? {
//!     match event {
//!         SpeechEvent::Audio(_, audio) => println!("{} at {}", audio.samples(), audio.rate),
//!         SpeechEvent::Done(_, done) => {
//!             println!("{:?} after {:?}", done.outcome.finish, done.outcome.timings.total);
//!             break;
//!         }
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A conversation is a sender and events too:
//!
//! ```no_run
//! use omni_client::{ChatEvent, ChatSettings, Client, Endpoint};
//!
//! # async fn chat() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(&Endpoint::parse("http://127.0.0.1:50051")?).await?;
//! let (chat, mut events) = client.converse(&ChatSettings::default());
//! chat.say("What can you do?").await?;
//! while let Some(event) = events.next().await? {
//!     match event {
//!         ChatEvent::Text(_, text) => print!("{text}"),
//!         ChatEvent::Audio(_, audio) => drop(audio.pcm),
//!         // The next turn may begin.
//!         ChatEvent::Done(..) => break,
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to | call |
//! |---|---|
//! | speak text while it is being written | [`Client::speech`] |
//! | speak one text | [`Client::synthesize`] |
//! | see what a text becomes before it is spoken | [`Client::explain`] |
//! | stop, because the listener began to talk | [`SpeechSender::cancel`], [`ChatSender::interrupt`] |
//! | hold a conversation | [`Client::converse`] |
//! | answer one conversation and forget it | [`Client::generate`] |
//! | keep a voice of a recording | [`Client::create_voice`], [`Client::kept_voice`], [`Client::delete_voice`] |
//! | see what there is | [`Client::models`], [`Client::voices`], [`Client::services`] |
//! | know whether the server is ready | [`Client::health`], [`wait_until_serving`] |
//! | know whether a listener would hear gaps | [`Meter`] |
//! | talk in confidence | [`Endpoint::with_tls`], [`check_tls`] |
//! | decide whether to try again | [`ClientError`] |
//! | look at a server as its operator does, and steer it | [`Operator`] |
//!
//! Dropping the receiving half of any call ends it, and with it the work of the server.

mod audio;
mod call;
mod catalog;
mod chat;
mod checker;
mod client;
mod credentials;
mod done;
mod endpoint;
mod error;
mod explained;
mod health;
mod kept;
mod meter;
mod operator;
pub mod parsers;
mod reflection;
mod sampling;
mod speech;
mod stream;
mod tls;
mod waiting;

pub use audio::Audio;
pub use call::SessionClosed;
pub use catalog::{Model, Voice};
pub use chat::{
    ChatDone, ChatEvent, ChatEvents, ChatLimits, ChatReady, ChatSender, ChatSettings, Clip, ClipFormat,
    InputAudio, Message, MessageAdded, Outputs, Part, ResponseId, ResponseRequest, Role,
};
pub use client::Client;
pub use credentials::ApiKeyError;
pub use done::{Done, Finish, Outcome, StageTiming, Timings, Usage};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{ClientError, FieldViolation, RpcError, code_name};
pub use explained::{Explained, ExplainedSegment, ExplainedWord};
pub use health::Serving;
pub use kept::{KeptVoice, VoiceKind, VoiceOrigin, VoiceRecording};
pub use meter::{ChunkGap, Measured, Meter};
pub use omni_audio::{ContinuityReport, SampleRate, Samples};
pub use operator::{
    DrainProgress, Draining, Operator, Percentiles, Replica, ReplicaState, ServerInfo, Session, Stage, Stats,
    StatsEvents,
};
pub use sampling::Sampling;
pub use speech::{
    Buffering, Limits, Ready, SpeechEvent, SpeechEvents, SpeechSender, SpeechSettings, TimedText,
    UtteranceId, Warning,
};
pub use tls::{TlsFacts, TlsProblem, TlsSettings, TlsSettingsError, check_tls};
pub use tonic::Code;
pub use waiting::wait_until_serving;
