//! Helpers of end-to-end tests: a scripted model, a server on a free port, clients, and the rules of the protocol.
//!
//! Tests speak to a real server over a real socket. With [`FakeSpeech`] they control what the model does and when, so
//! that a race is a sequence of events and not of sleeps. Every stream that a [`Call`] records is checked against the
//! protocol by [`check`].

mod browser;
mod call;
mod certificates;
mod chat;
mod chat_history;
mod chunk;
mod dice;
mod fake;
mod gate;
mod held;
mod history;
mod http;
mod metrics;
mod node;
pub mod parsers;
mod python;
mod recording;
mod remote;
mod rules;
mod server;
mod slow_link;
mod wire;
mod wyoming;

pub use browser::browse;
pub use call::{
    Call, Utterance, audio_of, audio_of_request, cancel, config, endless, error_reason, finish, flush, named,
    reason, seeded, text,
};
pub use certificates::{Authority, Signed};
pub use chat::{
    Answer, ChatCall, chat_config, chat_message, generate, generate_request, interrupt, respond, said,
    text_of,
};
pub use chat_history::{ChatHistory, check_chat};
pub use dice::Dice;
pub use fake::{
    Apart, Cached, Context, Contexts, Counts, Drawing, Drawn, FAKE_RATE, FAKE_SAMPLES_PER_FRAME, FakeScript,
    FakeSpeech, Preparation, Prepared, code2wav_stage, decode_job, speech_job, speech_request, talker_stage,
};
pub use gate::{Fuse, Gate};
pub use held::Held;
pub use history::{History, Whole, check};
pub use http::{HttpAnswer, http, http_to, http2};
pub use metrics::{Reading, Sample, TEXT, get, speak, vanish};
pub use node::node;
pub use python::python;
pub use recording::{babble, wav};
pub use remote::{Chunks, Make, RemoteStage, SETTINGS, host, restart, restart_after, stage_names};
pub use server::{Edges, Records, TestServer};
pub use slow_link::SlowLink;
pub use wire::{Ending, Received};
pub use wyoming::WyomingEvent;
