//! Protocols as their clients see them: gRPC, gRPC-Web, Riva and OpenAI's.

mod agents;
mod alignment;
mod bad_input;
mod browsers;
mod explain;
mod formats;
mod interruption;
mod open_webui;
mod openai;
mod pacing;
mod pending_config;
mod python_package;
mod realtime;
mod riva;
mod service;
mod sessions;
mod slow_links;
mod speak_protocol;
mod speech_stream;
mod studio;
mod text_buffering;
mod too_much;
mod whole_answers;
mod wyoming;
