//! What becomes of the good answers when more is asked for than there is.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_proto::v1::synthesize_response::Event;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Code;

use super::{SENTENCES, percentile, server, warm};
use crate::call::seeded;
use crate::dice::Dice;
use crate::line::Line;

const CONNECTIONS: usize = 16;
/// Callers that together show what can be had: enough to keep every processor busy, few enough that none is refused.
const CALLERS: usize = 8;
/// An answer whose first sound comes later than this is of no use to anybody.
const PROMISE: Duration = Duration::from_secs(1);

/// How one request ended, and after how long.
#[derive(Debug, Clone, Copy)]
enum Came {
    Good,
    Late,
    Refused(f64),
    Failed,
}

/// Asks for nine tenths of what can be had and for twice as much, in turns; arrivals are a Poisson process.
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
    out.push_str("| offered | requests/s | good/s | late/s | refused/s | failed | refused after p50 / p99 / most ms |\n");
    out.push_str("|---|--:|--:|--:|--:|--:|---|\n");
    for (turn, factor) in [0.9, 2.0, 0.9, 2.0, 0.9].into_iter().enumerate() {
        let came = open_loop(
            &lines,
            factor * capacity,
            Duration::from_secs(seconds),
            turn as u64,
        )
        .await;
        let rate = |wanted: fn(&Came) -> bool| {
            came.iter().filter(|came| wanted(came)).count() as f64 / seconds as f64
        };
        let mut refusals: Vec<f64> = came
            .iter()
            .filter_map(|came| match came {
                Came::Refused(after) => Some(1e3 * after),
                _ => None,
            })
            .collect();
        refusals.sort_by(f64::total_cmp);
        let at = |share| percentile(&refusals, share);
        let told = match refusals.is_empty() {
            true => "-".to_owned(),
            false => format!("{:.1} / {:.1} / {:.1}", at(0.5), at(0.99), at(1.0)),
        };
        let _ = writeln!(
            out,
            "| {factor} of capacity | {:.1} | {:.1} | {:.1} | {:.1} | {} | {told} |",
            rate(|_| true),
            rate(|came| matches!(came, Came::Good)),
            rate(|came| matches!(came, Came::Late)),
            rate(|came| matches!(came, Came::Refused(_))),
            came.iter().filter(|came| matches!(came, Came::Failed)).count(),
        );
    }
    Ok(out)
}

/// Answers a second to callers of whom each asks again when the last answer is there. Only what was answered counts.
async fn capacity(lines: &Arc<Vec<Line>>, time: Duration) -> f64 {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let lines = Arc::clone(lines);
        callers.spawn(async move {
            let (mut dice, mut answered) = (Dice::new(number as u64), 0_u32);
            while begun.elapsed() < time {
                let came = ask(&lines[number % lines.len()], &mut dice, Instant::now()).await;
                answered += u32::from(matches!(came, Came::Good | Came::Late));
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
        let (lines, mut own) = (Arc::clone(lines), dice.part(number));
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
                    (v1::FinishReason::Stop, Some(first)) if first <= PROMISE => Came::Good,
                    (v1::FinishReason::Stop, _) => Came::Late,
                    (v1::FinishReason::Error, _)
                        if crate::call::error_reason(&outcome) == "SERVER_OVERLOADED" =>
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
