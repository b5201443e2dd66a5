//! `omni-server`: see `omni-server --help`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser as _;
use omni_server::app::{App, LogRecords, init_logging, load_model};
use omni_server::config::{Config, RawConfig};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The command line or the configuration cannot be used.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let config = match RawConfig::parse().validate() {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(USAGE);
        }
    };
    match run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: &Config) -> anyhow::Result<()> {
    init_logging(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve(config))
}

async fn serve(config: &Config) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let source = config.model.clone();
    let mut app = App::start(config, Arc::new(LogRecords), move || load_model(&source)).await?;
    let outcome = tokio::select! {
        outcome = work(&mut app) => outcome,
        () = signals.next() => Ok(()),
    };
    app.shut_down(signals.next()).await;
    outcome
}

/// Runs until something fails.
async fn work(app: &mut App) -> anyhow::Result<()> {
    app.ready().await?;
    app.failed().await
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
