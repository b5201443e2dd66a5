//! `stats`, `top` and `admin`: for operators.

use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use omni_client::{Endpoint, EndpointError};

use super::{Access, duration};

pub(super) const EXAMPLES: &str = "\
Examples:
  omni-server --admin-listen 127.0.0.1:50052 &
  omni-client top
  omni-client stats --json | jq .first_packet.p95_ms
  omni-client admin cordon talker 1
  omni-client admin cancel 3f2a9c1d00b4e877 --reason \"too long\"
  omni-client admin drain --timeout 2m";

/// The default port of the admin service.
const PORT: u16 = 50_052;

/// The admin service of a server.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct AdminServer {
    /// Address of the admin service (omni-server --admin-listen); its API keys have the scope admin
    #[arg(
        long = "admin-endpoint",
        value_name = "URL",
        env = "OMNI_ADMIN_ENDPOINT",
        hide_env_values = true
    )]
    #[arg(default_value = "http://127.0.0.1:50052", value_parser = address)]
    pub(crate) endpoint: Endpoint,
    #[command(flatten)]
    access: Access,
}

impl AdminServer {
    pub(super) fn way(&mut self) -> (Vec<&mut Endpoint>, &Access) {
        (vec![&mut self.endpoint], &self.access)
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Stats {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: AdminServer,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Top {
    /// Refresh interval: 100ms to 60s
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print one line per refresh, even on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
    #[command(flatten)]
    pub(crate) server: AdminServer,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Admin {
    #[command(subcommand)]
    pub(crate) command: AdminCommand,
}

/// Commands of `admin`.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Stop giving new work to a replica; it finishes what it has
    Cordon(Withdraw),
    /// Put a replica back in service
    Uncordon(Which),
    /// Remove a replica once its work is finished
    Remove(Withdraw),
    /// Add a replica to a stage
    Add {
        /// The stage
        stage: String,
        #[command(flatten)]
        server: AdminServer,
    },
    /// End a session; `omni-client stats` lists them
    Cancel {
        /// Its name
        session: String,
        /// Reason that its caller receives
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        reason: String,
        #[command(flatten)]
        server: AdminServer,
    },
    /// Shut the server down as SIGTERM does, and wait until all sessions have ended
    Drain {
        /// Limit for the work in progress, for example 2m [default: as the server is configured]
        #[arg(long, value_name = "TIME", value_parser = duration)]
        timeout: Option<Duration>,
        #[command(flatten)]
        server: AdminServer,
    },
}

/// A replica.
#[derive(Debug, ClapArgs)]
pub(crate) struct Which {
    /// Its stage: thinker, talker, code2wav or encoder
    pub(crate) stage: String,
    /// Its number; `omni-client stats` shows it
    pub(crate) replica: String,
    #[command(flatten)]
    pub(crate) server: AdminServer,
}

/// A replica to take out of service.
#[derive(Debug, ClapArgs)]
pub(crate) struct Withdraw {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Do not ask for confirmation before the last replica of a stage goes, without which the server refuses all speech
    #[arg(long, short)]
    pub(crate) yes: bool,
}

impl AdminCommand {
    pub(super) fn server(&mut self) -> &mut AdminServer {
        match self {
            Self::Cordon(withdraw) | Self::Remove(withdraw) => &mut withdraw.which.server,
            Self::Uncordon(which) => &mut which.server,
            Self::Add { server, .. } | Self::Cancel { server, .. } | Self::Drain { server, .. } => server,
        }
    }
}

fn address(text: &str) -> Result<Endpoint, EndpointError> {
    Endpoint::parse_with_port(text, PORT)
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    let fits = (Duration::from_millis(100)..=Duration::from_secs(60)).contains(&interval);
    fits.then_some(interval)
        .ok_or_else(|| "expected 100ms to 60s".to_owned())
}
