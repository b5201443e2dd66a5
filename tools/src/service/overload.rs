//! Good answers under overload.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_proto::v1::synthesize_response::Event;
use omni_tests::{Dice, seeded};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Code;

use super::{SENTENCES, percentile, server, warm};
use crate::line::Line;

const CONNECTIONS: usize = 16;
/// Callers that together reach the capacity: enough to keep every CPU busy, few enough that none is refused.
const CALLERS: usize = 8;
/// An answer whose first audio comes later than this is late.
const PROMISE: Duration = Duration::from_secs(1);
/// Offered load over the capacity.
const OFFERED: [f64; 6] = [0.9, 1.3, 3.0, 0.9, 1.3, 3.0];

/// Outcome of one request, and the time until it.
#[derive(Debug, Clone, Copy)]
enum Came {
    /// Whole, with the seconds until its first audio.
    Whole(f64),
    Refused(f64),
    Failed,
}

/// Offers 0.9, 1.3 and 3 times the capacity in turns; arrivals are a Poisson process.
///
/// # Errors
/// If a server cannot be started or reached.
pub async fn overload(program: &Path, seconds: u64, args: &[&str]) -> anyhow::Result<String> {
    let server = server(program, args)?;
    let mut lines = Vec::new();
    for _ in 0..CONNECTIONS {
        lines.push(Line::open(server.target().address).await?);
    }
    let lines = Arc::new(lines);
    warm(&lines[0].channel).await?;
    let capacity = capacity(&lines, Duration::from_secs(seconds)).await;
    anyhow::ensure!(capacity > 0.0, "nothing was answered");
    let mut out = format!(
        "Capacity, {CALLERS} callers without a pause: {capacity:.1} answers/s. A good answer is whole and begins within {PROMISE:?}.\n\n"
    );
    out.push_str(
        "| offered | requests/s | good/s | late/s | refused/s | failed | first audio p50 / p95 / most ms | refused after p50 / p99 / most ms |\n",
    );
    out.push_str("|---|--:|--:|--:|--:|--:|---|---|\n");
    for (turn, factor) in OFFERED.into_iter().enumerate() {
        let time = Duration::from_secs(seconds);
        let came = open_loop(&lines, factor * capacity, time, turn as u64).await;
        let first = sorted(&came, |came| match came {
            Came::Whole(after) => Some(*after),
            _ => None,
        });
        let refused = sorted(&came, |came| match came {
            Came::Refused(after) => Some(*after),
            _ => None,
        });
        let good = first.partition_point(|after| *after <= PROMISE.as_secs_f64());
        let rate = |count: usize| count as f64 / seconds as f64;
        let _ = writeln!(
            out,
            "| {factor} of capacity | {:.1} | {:.1} | {:.1} | {:.1} | {} | {} | {} |",
            rate(came.len()),
            rate(good),
            rate(first.len() - good),
            rate(refused.len()),
            came.len() - first.len() - refused.len(),
            millis(&first, [0.5, 0.95, 1.0]),
            millis(&refused, [0.5, 0.99, 1.0]),
        );
    }
    Ok(out)
}

fn sorted(came: &[Came], seconds: impl Fn(&Came) -> Option<f64>) -> Vec<f64> {
    let mut all: Vec<f64> = came.iter().filter_map(seconds).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Percentiles of sorted seconds, in milliseconds.
fn millis(sorted: &[f64], shares: [f64; 3]) -> String {
    if sorted.is_empty() {
        "-".to_owned()
    } else {
        shares
            .map(|share| format!("{:.1}", 1e3 * percentile(sorted, share)))
            .join(" / ")
    }
}

/// Answers per second to callers that each repeat as soon as they are answered. Only successful answers count.
async fn capacity(lines: &Arc<Vec<Line>>, time: Duration) -> f64 {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let lines = Arc::clone(lines);
        callers.spawn(async move {
            let mut dice = Dice::new(number as u64);
            let mut answered = 0_u32;
            while begun.elapsed() < time {
                let came = ask(&lines[number % lines.len()], &mut dice, Instant::now()).await;
                answered += u32::from(matches!(came, Came::Whole(_)));
            }
            answered
        });
    }
    let answered = callers.join_all().await;
    f64::from(answered.iter().sum::<u32>()) / begun.elapsed().as_secs_f64()
}

async fn open_loop(lines: &Arc<Vec<Line>>, rate: f64, time: Duration, seed: u64) -> Vec<Came> {
    let mut dice = Dice::new(seed);
    let begun = Instant::now();
    let mut due = Duration::ZERO;
    let mut requests = JoinSet::new();
    for number in 0.. {
        let unit = (dice.roll() >> 11) as f64 / (1_u64 << 53) as f64;
        due += Duration::from_secs_f64(-(1.0 - unit).ln() / rate);
        if due > time {
            break;
        }
        tokio::time::sleep_until(begun + due).await;
        let lines = Arc::clone(lines);
        let mut own = dice.part(number);
        requests
            .spawn(async move { ask(&lines[number as usize % lines.len()], &mut own, begun + due).await });
    }
    requests.join_all().await
}

/// One request that was due at `due`.
async fn ask(line: &Line, dice: &mut Dice, due: Instant) -> Came {
    let mut client = SpeechServiceClient::new(line.channel.clone());
    let request = v1::SynthesizeRequest {
        config: Some(seeded(dice.below(1_000))),
        text: dice.of(&SENTENCES).to_owned(),
    };
    let failed = |code| match code {
        Code::ResourceExhausted => Came::Refused(due.elapsed().as_secs_f64()),
        _ => Came::Failed,
    };
    let mut answer = match client.synthesize(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return failed(status.code()),
    };
    let mut first = None;
    loop {
        match answer.message().await {
            Ok(Some(v1::SynthesizeResponse {
                event: Some(Event::Audio(_)),
            })) => _ = first.get_or_insert_with(|| due.elapsed()),
            Ok(Some(v1::SynthesizeResponse {
                event: Some(Event::Done(done)),
            })) => {
                let outcome = done.outcome.unwrap_or_default();
                return match (outcome.finish_reason(), first) {
                    (v1::FinishReason::Stop, Some(first)) => Came::Whole(first.as_secs_f64()),
                    (v1::FinishReason::Error, _)
                        if omni_tests::error_reason(&outcome) == "SERVER_OVERLOADED" =>
                    {
                        Came::Refused(due.elapsed().as_secs_f64())
                    }
                    _ => Came::Failed,
                };
            }
            Ok(Some(_)) => {}
            Ok(None) => return Came::Failed,
            Err(status) => return failed(status.code()),
        }
    }
}
