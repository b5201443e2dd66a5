//! `omni-service`: measures the service's promises beyond speed; see `docs/benchmarks.md`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use omni_tools::service::{cancels, drain, idle, overload};

/// Measures memory of idle sessions, time from a cancel to a free place, a shutdown under load, and overload, on
/// servers of its own; prints Markdown.
#[derive(Debug, Parser)]
#[command(name = "omni-service", version)]
struct Args {
    /// Sessions that do nothing; 0 leaves them out
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    sessions: usize,
    /// Cancels; 0 leaves them out
    #[arg(long, default_value_t = 300, value_name = "N")]
    cancels: usize,
    /// Utterances that are being heard at a shutdown; 0 leaves it out
    #[arg(long, default_value_t = 32, value_name = "N")]
    streams: usize,
    /// Seconds of each step of the overload; 0 leaves it out
    #[arg(long, default_value_t = 20, value_name = "N")]
    seconds: u64,
    /// The server; the one beside this program unless given
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// More arguments for the server under overload
    #[arg(last = true, value_name = "ARGS")]
    server_args: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let program = match &args.server {
        Some(program) => program.clone(),
        None => std::env::current_exe()
            .context("where this program is")?
            .with_file_name("omni-server"),
    };
    let program: &Path = &program;
    if args.sessions > 0 {
        print("Idle sessions", &idle(program, args.sessions).await?);
    }
    if args.cancels > 0 {
        print("Cancel to a free place", &cancels(program, args.cancels).await?);
    }
    if args.streams > 0 {
        print("Shutdown under load", &drain(program, args.streams).await?);
    }
    if args.seconds > 0 {
        let own: Vec<_> = args.server_args.iter().map(String::as_str).collect();
        print("Overload", &overload(program, args.seconds, &own).await?);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the figures are what the program is for")]
fn print(title: &str, table: &str) {
    println!("\n### {title}\n\n{table}");
}
