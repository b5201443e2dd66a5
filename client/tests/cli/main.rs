//! The command line as its users meet it: the real program against a scripted server over real sockets.

mod bench;
mod catalog_and_health;
mod chat_library;
mod errors;
mod fake;
mod files;
mod interrupts;
mod library;
mod program;
mod standard_input;
mod standard_output;
mod summary;
