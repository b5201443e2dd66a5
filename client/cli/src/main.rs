//! `omni-client`: speak, talk, look around and measure, from the command line.
//!
//! Arguments come in, an exit code goes out. Data goes to standard output or a file; messages for people go to
//! standard error.

mod args;
mod bench;
mod catalog;
mod chat;
mod deadline;
mod diagnosis;
mod doctor;
mod explain;
mod failure;
mod format;
mod health;
mod interrupt;
mod manual;
mod operator;
mod output;
mod sink;
mod speak;
mod summary;
mod text;
mod ui;
mod voices;
mod writer;

use std::io::{self, Write as _};
use std::process::ExitCode;

use args::{Args, Command};
use failure::Failure;
use ui::Ui;

fn main() -> ExitCode {
    let (mut args, matches) = Args::typed();
    let ui = Ui::new(args.quiet);
    if let Err(failure) = args.authorise(&matches) {
        return failure.report(&ui);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::io("cannot start", error).report(&ui),
    };
    let result = runtime.block_on(async {
        match run(&args, &ui).await {
            Ok(()) => Ok(()),
            Err(failure) => Err(diagnosis::diagnosed(failure).await),
        }
    });
    // A thread that waits for standard input cannot be woken; nothing else is left by now.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(&ui),
    }
}

async fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let advised = |failure| operator::explain(failure, ui);
    match &args.command {
        Command::Speak(speak) => speak::run(speak, ui).await,
        Command::Explain(text) => explain::run(text, ui).await,
        Command::Chat(chat) => chat::run(chat, ui).await,
        Command::Voices(voices) => match &voices.command {
            Some(command) => voices::run(command, ui).await,
            None => catalog::voices(&voices.list, ui).await,
        },
        Command::Models(list) => catalog::models(list, ui).await,
        Command::Health(health) => health::run(health, ui).await,
        Command::Bench(bench) => bench::run(bench, ui).await,
        Command::Doctor(doctor) => doctor::run(doctor, ui).await,
        Command::Stats(stats) => operator::stats(stats, ui).await.map_err(advised),
        Command::Top(top) => operator::top(top, ui).await.map_err(advised),
        Command::Admin(admin) => operator::admin(&admin.command, ui).await.map_err(advised),
        Command::Completions { shell } => manual::completions(*shell),
        Command::Man { dir } => manual::pages(dir.as_deref()),
    }
}

/// Writes data to standard output.
fn print(data: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(data)
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::write("standard output", error))
}
