//! `omni-server`: see `omni-server --help`.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::CommandFactory as _;
use omni_config::{Config, MetricsCommand, Quotas, RawConfig, Scope, ServerCommand};
use omni_server::app::{App, Sinks, init_logging, list_metrics, load_model, metrics_catalogue, serve_stage};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Returns freed memory to the system. The default allocator keeps it, in as many arenas as there were threads: 592
/// recordings, 10,000 connections or 112 replicas that had come and gone left hundreds of megabytes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command line or the configuration cannot be used.
const USAGE: u8 = 2;
/// Time for which the process waits for threads that look at files.
const LAST_LOOK: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let raw = RawConfig::from_command_line();
    if let Some(ServerCommand::CheckConfig { changed }) = raw.command {
        return check_config(raw, changed);
    }
    match &raw.command {
        Some(ServerCommand::Completions { shell }) => {
            return printed(omni_manual::completions(RawConfig::command(), *shell).as_bytes());
        }
        Some(ServerCommand::Man { dir }) => return manual(dir.as_deref()),
        _ => {}
    }
    if let Some(ServerCommand::NewKey { name, scopes, quotas }) = &raw.command {
        return new_key(name, scopes, quotas);
    }
    let command = raw.command.clone();
    let config = match raw.validate() {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let outcome = match command {
        Some(ServerCommand::StageWorker) => serve_stage(&config),
        Some(ServerCommand::Metrics(MetricsCommand::List)) => {
            list_metrics(&config.metrics).and_then(|text| print(&text))
        }
        Some(ServerCommand::Metrics(MetricsCommand::Catalogue)) => {
            metrics_catalogue(&config.metrics).and_then(|text| print(&text))
        }
        _ => run(&config),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The page of the program to standard output, or a page of every command into a folder.
fn manual(folder: Option<&Path>) -> ExitCode {
    let Some(folder) = folder else {
        return match omni_manual::page(RawConfig::command()) {
            Ok(page) => printed(&page),
            Err(error) => failed("cannot make the page", &error),
        };
    };
    match omni_manual::write_pages(RawConfig::command(), folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("cannot write {}", folder.display()), &error),
    }
}

fn printed(data: &[u8]) -> ExitCode {
    match std::io::stdout().write_all(data) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed("cannot print", &error),
    }
}

fn failed(what: &str, error: &std::io::Error) -> ExitCode {
    eprintln!("error: {what}: {error}");
    ExitCode::FAILURE
}

fn check_config(raw: RawConfig, changed: bool) -> ExitCode {
    match raw.shown(changed) {
        Ok(shown) => printed(shown.as_bytes()),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn new_key(name: &str, scopes: &[Scope], quotas: &Quotas) -> ExitCode {
    let made = omni_config::new_key(name, scopes, quotas).and_then(|(key, line)| {
        print(&format!("{line}\n"))?;
        eprintln!("the key of {name}, which is not kept: {key}");
        Ok(())
    });
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    let printed = std::io::stdout().write_all(text.as_bytes());
    printed.context("cannot print")
}

fn run(config: &Config) -> anyhow::Result<()> {
    init_logging(config, &[])?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let served = runtime.block_on(serve(config));
    // All tasks have ended. A blocking thread may still be checking a file, and a hung disk must not keep the
    // process alive.
    runtime.shutdown_timeout(LAST_LOOK);
    served
}

async fn serve(config: &Config) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let source = config.model.clone();
    let deploy = config.deploy.clone();
    let speech_only = config.speech_only;
    let app = App::start(config, Sinks::log(), move || {
        load_model(&source, &deploy, speech_only)
    })
    .await?;
    app.serve(async || signals.next().await).await
}

/// The signals that end the server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
