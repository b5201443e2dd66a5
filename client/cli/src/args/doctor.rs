//! Arguments of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::{Server, Voice, duration};

pub(super) const EXAMPLES: &str = "\
Checks, in this order: the address, the connection, its encryption, health, the API key, the
services, the models, the voices, a spoken sentence, the clocks, and the place for output.

Examples:
  omni-client doctor
  omni-client doctor --endpoint speech.example:50051 --json | jq .checks";

#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// File or folder for audio, to check
    #[arg(long, short, value_name = "FILE|DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) voice: Voice,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up on a check after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
