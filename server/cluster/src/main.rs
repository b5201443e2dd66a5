//! `omni-server-cluster`: see `omni-server-cluster --help` and README.md.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use omni_config::{Config, ServerCommand};
use omni_server::app::{init_logging, serve_stage};

use omni_cluster::args::Args;
use omni_cluster::settings::Part;
use omni_cluster::{frontend, runtime, worker};

/// As in the server: it returns freed memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command line or the configuration cannot be used.
const USAGE: u8 = 2;
/// Longest wait of the process for threads that poll files.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Log filter: Dynamo's runtime warns at every attempt to reach a process that is gone; the front end says it once.
/// An operator may enable it by its name.
const QUIET_FRONTEND: &[&str] = &["dynamo_runtime::pipeline::network::egress::tcp_client=error"];
/// Log filter: errors in a stage that was stopped and given up meanwhile, by its front ends and by discovery; the
/// stage reports both itself.
const QUIET_STAGE: &[&str] = &[
    "dynamo_runtime::pipeline::network::ingress::push_handler=off",
    "dynamo_runtime::storage::kv::file=off",
];

fn main() -> ExitCode {
    let args = Args::parse();
    // A part with `placement: process` starts this program for its stages.
    let worker = matches!(args.server.command, Some(ServerCommand::StageWorker));
    let (config, part) = match validated(args, worker) {
        Ok(valid) => valid,
        Err(problems) => {
            eprintln!("error: {problems}");
            return ExitCode::from(USAGE);
        }
    };
    let outcome = if worker {
        serve_stage(&config)
    } else {
        run(config, &part)
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn validated(args: Args, worker: bool) -> Result<(Config, Part), String> {
    if args.server.command.is_some() && !worker {
        return Err("commands are those of omni-server: this program only serves".to_owned());
    }
    let part = args.cluster.validate().map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
        format!("the configuration cannot be used:{}", lines.concat())
    })?;
    let config = args.server.validate().map_err(|error| error.to_string())?;
    Ok((config, part))
}

fn run(config: Config, part: &Part) -> anyhow::Result<()> {
    match part {
        Part::All => {}
        Part::Frontend(network) | Part::Stage { network, .. } => runtime::set_environment(network),
    }
    let quiet = match part {
        Part::Frontend(_) => QUIET_FRONTEND,
        Part::Stage { .. } => QUIET_STAGE,
        Part::All => &[],
    };
    init_logging(&config, quiet)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        match part {
            Part::All => frontend::run(config, None).await,
            Part::Frontend(network) => frontend::run(config, Some(network)).await,
            Part::Stage {
                stage,
                replica,
                network,
            } => worker::run(&config, stage, *replica, network).await,
        }
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}
