//! Promises of a service beyond speed, measured on a server in a process of its own: the cost of silent callers, the
//! time from a cancel to the next admission, losses at a shutdown, and the good answers under twice the possible
//! load.
//!
//! Gives tables in Markdown. Timings are only meaningful on an otherwise idle machine.

mod cancels;
mod drain;
mod idle;
mod overload;

use std::fmt::Write as _;
use std::path::Path;

use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{audio_of, seeded};
use tonic::transport::Channel;

use crate::process::ServerProcess;

pub use cancels::cancels;
pub use drain::drain;
pub use idle::idle;
pub use overload::overload;

/// Ports that are free.
const OWN: [&str; 4] = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
/// Nine seconds of speech, about.
const LONG: &str = "The quick brown fox jumps over the lazy dog, and then it goes on to jump over everything else that lies in its way, \
                    because nobody has told it to stop, and because it likes to.";
/// Sentences of varied length.
pub(crate) const SENTENCES: [&str; 6] = [
    "Hello there.",
    "The quick brown fox jumps over the lazy dog.",
    "It costs three dollars and fifty cents, and it is worth every cent of it.",
    "Where are you going?",
    "A rather long sentence that goes on for a while, and then for a while more.",
    "Yes, of course.",
];

fn server(program: &Path, args: &[&str]) -> anyhow::Result<ServerProcess> {
    ServerProcess::start(program, OWN.iter().chain(args).copied())
}

/// Enough calls that everything made once has been made.
async fn warm(channel: &Channel) -> anyhow::Result<()> {
    let mut client = SpeechServiceClient::new(channel.clone());
    for seed in 0..8 {
        audio_of(&mut client, seeded(seed), LONG).await?;
    }
    Ok(())
}

/// The value below which `share` of `sorted` is (nearest rank).
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// A row: p50, p99 and the greatest of some times in seconds, as milliseconds.
fn row(out: &mut String, name: &str, mut seconds: Vec<f64>) {
    seconds.sort_by(f64::total_cmp);
    let ms = |share| 1e3 * percentile(&seconds, share);
    let _ = writeln!(
        out,
        "| {name} | {} | {:.1} | {:.1} | {:.1} |",
        seconds.len(),
        ms(0.5),
        ms(0.99),
        ms(1.0)
    );
}

const TIMES: &str = "| | count | p50 ms | p99 ms | most ms |\n|---|--:|--:|--:|--:|\n";
