//! `omni-soak`: runs a server under callers of every kind, and checks that nothing of them remains.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Parser;
use omni_tools::ServerProcess;
use omni_tools::soak::{Plan, Report, SERVER_ARGS, soak};

/// Puts a server under load of every kind: every protocol and format, and callers that cancel, vanish, read slowly,
/// come late, send errors or send nothing. Checks every stream against the protocol's rules, and in the end that the
/// server holds no more than before.
///
/// Exit codes: 0 if nothing is wrong, 1 if something is (it is listed), 2 if the soak could not be done.
#[derive(Debug, Parser)]
#[command(name = "omni-soak", version)]
struct Args {
    /// Minutes of load
    #[arg(long, default_value_t = 10.0, value_name = "N")]
    minutes: f64,
    /// Callers busy at the same time
    #[arg(long, default_value_t = 16, value_name = "N")]
    streams: u64,
    /// Seed of the callers' behaviour; random by default
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Megabytes by which memory may have grown in the end
    #[arg(long, default_value_t = 32, value_name = "MB")]
    allowance: u64,
    /// The server; the one beside this program unless given
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// More arguments for the server
    #[arg(last = true, value_name = "ARGS")]
    server_args: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(report) => {
            print(&args, &report);
            ExitCode::from(u8::from(!report.faults().is_empty()))
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stdout, reason = "the report is what the program is for")]
fn print(args: &Args, report: &Report) {
    if args.json {
        println!("{:#}", report.json());
    } else {
        println!("{report}");
    }
}

async fn run(args: &Args) -> anyhow::Result<Report> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = Duration::try_from_secs_f64(args.minutes * 60.0).context("--minutes")?;
    let plan = Plan {
        seed: args.seed.unwrap_or(now.as_secs()),
        streams: args.streams.max(1),
        // Buffers and KV blocks are touched one after the other: on a slow machine that takes minutes.
        warmup: (time / 2).clamp(Duration::from_secs(5), Duration::from_secs(180)),
        time,
        allowance: args.allowance << 20,
    };
    eprintln!("seed {}", plan.seed);
    let program = args.server.clone().map_or_else(beside, Ok)?;
    let own = args.server_args.iter().map(String::as_str);
    let server = ServerProcess::start(Path::new(&program), SERVER_ARGS.into_iter().chain(own))?;
    let mut report = soak(server.target(), plan, |what| eprintln!("{what}")).await?;
    server.terminate();
    let (_, errors) = tokio::task::spawn_blocking(|| server.wait()).await??;
    for error in errors {
        report.also(error);
    }
    Ok(report)
}

fn beside() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("where this program is")?;
    Ok(own.with_file_name("omni-server"))
}
