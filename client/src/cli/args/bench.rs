//! What can be typed behind `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs};

use super::{Server, Voice, duration};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Every stream sends its next request when the last one is answered (closed loop). Time
counts from the first text sent, over a connection that is already open. The tables go to
standard output as Markdown.

With --chat every stream holds a conversation, and a request is one turn of it; time counts
from the moment the turn was sent.

Examples:
  omni-client bench --concurrency 1,4,16 --requests 64 --json bench.json > bench.md
  omni-client bench --chat --concurrency 32 --requests 256")]
pub(crate) struct Bench {
    /// Measure conversations instead of texts that are spoken
    #[arg(long)]
    pub(crate) chat: bool,
    /// Turns of a conversation before its stream begins another
    #[arg(long, value_name = "N", default_value_t = 4, requires = "chat")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), help_heading = "Chat")]
    pub(crate) turns: u32,
    /// Ask for answers without speech
    #[arg(long, requires = "chat", conflicts_with_all = ["voice", "language"], help_heading = "Chat")]
    pub(crate) text_only: bool,
    /// Longest answer in text tokens [default: the model's]
    #[arg(long, value_name = "N", requires = "chat", help_heading = "Chat")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,
    /// Numbers of streams at the same time, one row of the table each
    #[arg(
        long,
        short,
        value_name = "N,N,...",
        value_delimiter = ',',
        default_value = "1,2,4,8,16"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) concurrency: Vec<u32>,
    /// Measured requests in each row
    #[arg(long, short = 'n', value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests: u32,
    /// Requests of every stream before measuring starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warmup: u32,
    /// A text to speak or to say; may be given several times [default: two dozen of many lengths]
    #[arg(long, value_name = "TEXT", action = ArgAction::Append, conflicts_with = "text_file")]
    pub(crate) text: Vec<String>,
    /// A file with one text per line
    #[arg(long, value_name = "FILE")]
    pub(crate) text_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) voice: Voice,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Count a request that takes longer as failed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Write every single measurement to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
