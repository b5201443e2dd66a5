//! Time from a cancel to the admission of the next request.

use std::path::Path;
use std::time::Instant;

use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{Call, Reading, cancel, config, finish, seeded, text};

use super::{LONG, TIMES, row, server, warm};
use crate::line::Line;

/// The server's own measure.
const FREED: &str = "vllm:omni_cancel_latency_s";

/// On a server with one place: one caller speaks, another waits, the first cancels.
///
/// # Errors
/// If a server cannot be started or reached.
pub async fn cancels(program: &Path, rounds: usize) -> anyhow::Result<String> {
    let server = server(program, &["--max-active", "1"])?;
    let lines = [
        Line::open(server.target().address).await?,
        Line::open(server.target().address).await?,
    ];
    warm(&lines[0].channel).await?;
    let mut done = Vec::new();
    let mut next = Vec::new();
    let mut alone = Vec::new();
    for round in 0..rounds {
        let mut first = speaking(&lines[0]).await?;
        first.send(text(&LONG.repeat(4))).await;
        first.send(finish()).await;
        first.first_audio().await;
        let mut second = speaking(&lines[1]).await?;
        second.send(text(LONG)).await;
        second.send(finish()).await;
        // Both have been heard when this comes.
        tokio::time::sleep(std::time::Duration::from_millis(20 + round as u64 % 17)).await;
        let cancelled = Instant::now();
        first.send(cancel("")).await;
        let ended = async {
            first.utterance().await;
            cancelled.elapsed().as_secs_f64()
        };
        let begun = async {
            second.first_audio().await;
            cancelled.elapsed().as_secs_f64()
        };
        let (ended, begun) = tokio::join!(ended, begun);
        done.push(ended);
        next.push(begun);
        second.send(cancel("")).await;
        second.utterance().await;
        // As above, without a call before it.
        let asked = Instant::now();
        second.send(text(LONG)).await;
        second.send(finish()).await;
        second.first_audio().await;
        alone.push(asked.elapsed().as_secs_f64());
        second.send(cancel("")).await;
        second.utterance().await;
    }
    let mut out = TIMES.to_owned();
    row(&mut out, "cancel sent to `done` received", done);
    row(
        &mut out,
        "cancel sent to the first audio of who waited for the place",
        next,
    );
    row(
        &mut out,
        "first audio of the same text where the place is free",
        alone,
    );
    out.push_str(&freed(&Reading::at(server.target().metrics).await));
    Ok(out)
}

/// Time that cancelled work stayed on some stage, by the server's own histogram.
fn freed(reading: &Reading) -> String {
    let count = reading.sum(&format!("{FREED}_count"), &[]);
    let mean = 1e3 * reading.sum(&format!("{FREED}_sum"), &[]) / count;
    let mut steps: Vec<_> = reading
        .of_name(&format!("{FREED}_bucket"), &[])
        .map(|sample| (sample.labels["le"].parse().unwrap_or(f64::INFINITY), sample.value))
        .collect();
    steps.sort_by(|(a, _): &(f64, f64), (b, _)| a.total_cmp(b));
    let within = |share: f64| {
        let found = steps.iter().find(|(_, below)| *below >= share * count);
        1e3 * found.map_or(f64::NAN, |(le, _)| *le)
    };
    format!(
        "\nBy the server's own clock, from a cancel to the moment at which no stage works on it any more (`{FREED}`): {count} cancels, {mean:.2} ms \
         on average, half within {} ms, 99 % within {} ms, all within {} ms (steps of the histogram).\n",
        within(0.5),
        within(0.99),
        within(1.0)
    )
}

async fn speaking(line: &Line) -> anyhow::Result<Call> {
    let mut call = Call::try_open(&mut SpeechServiceClient::new(line.channel.clone()), None).await?;
    call.send(config(seeded(1))).await;
    call.ready().await;
    Ok(call)
}
