//! The command line as its users meet it: the real program against a scripted server over real sockets.

mod bench;
mod bench_load;
mod bench_report;
mod catalog_and_health;
mod chat;
mod chat_audio;
mod chat_commands;
mod chat_library;
mod chat_terminal;
mod doctor;
mod errors;
mod explain;
mod fake;
mod files;
mod interrupts;
mod library;
mod operator;
mod program;
mod standard_input;
mod standard_output;
mod subtitles;
mod summary;
mod tls;
