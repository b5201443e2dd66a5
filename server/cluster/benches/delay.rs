//! Cost of hosts that are far apart: `cargo bench --bench delay` prints Markdown.
//!
//! Three hosts have a part each, and a server that is one process is beside the caller and the front end. Needs root,
//! for network namespaces.
#![cfg(target_os = "linux")]

#[path = "../tests/parts/certificates.rs"]
mod certificates;
#[path = "../tests/hosts/hosts.rs"]
#[expect(dead_code, reason = "the tests use all of it")]
mod hosts;
#[path = "../tests/parts/part.rs"]
#[expect(dead_code, reason = "the tests use all of it")]
mod part;
#[path = "../tests/hosts/relay.rs"]
#[expect(dead_code, reason = "the tests use all of it")]
mod relay;

use std::time::{Duration, Instant};

use hosts::Network;
use part::Part;

const TEXT: &str =
    "The quick brown fox jumps over the lazy dog, and then it goes home to sleep under the old oak tree.";
const BYTES_PER_SECOND: f64 = 48_000.0;
const ROUNDS: u64 = 60;

/// Milliseconds to the first audio, and for each second of audio after it.
async fn speak(part: &Part, seed: u64) -> [f64; 2] {
    let begun = Instant::now();
    let mut speech = part.speak(seed, TEXT).await;
    speech.begun().await;
    let first = begun.elapsed();
    let audio = speech.rest().await.expect("it speaks").len() as f64 / BYTES_PER_SECOND;
    let rest = begun.elapsed() - first;
    [first.as_secs_f64() * 1e3, rest.as_secs_f64() * 1e3 / audio]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn measure(delay: Duration) {
    let Some(network) = Network::with(&["talker", "code2wav"]) else {
        return;
    };
    let found = network.by_files();
    let _stages = ["talker", "code2wav"].map(|stage| network.stage(stage, stage, &found, &[]));
    let front = network.frontend(&found, &[]);
    front.serves();
    let alone = network.alone();
    network.relay.delay(delay);
    let mut figures = [const { Vec::new() }; 2];
    for seed in 0..ROUNDS + 5 {
        // In turn: the machine may have other work.
        for (part, figures) in [&alone, &front].into_iter().zip(&mut figures) {
            let said = speak(part, seed).await;
            if seed >= 5 {
                figures.push(said);
            }
        }
    }
    let [one, three] =
        figures.map(|figures| [0, 1].map(|n| median(figures.iter().map(|of| of[n]).collect())));
    let way = delay.as_secs_f64() * 1e3;
    let first = three[0] - one[0];
    let whole = three[1];
    let [alone, cluster] = [one[0], three[0]];
    let line = format!(
        "| {way} ms | {alone:.1} ms | {cluster:.1} ms | {first:.1} ms | {:.1} ms | {whole:.1} ms |",
        one[1]
    );
    report(&line);
}

#[expect(clippy::print_stdout, reason = "the table is what the program is for")]
fn report(line: &str) {
    println!("{line}");
}

fn main() {
    report(
        "| one way | first audio, one process | three hosts | more | per second of audio, one process | three hosts |",
    );
    report("|---|---|---|---|---|---|");
    for micros in [0, 500, 5_000] {
        // Each network has a thread of its own, which is a host of it.
        let measured = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime
                .expect("a runtime")
                .block_on(measure(Duration::from_micros(micros)));
        });
        measured.join().expect("it was measured");
    }
}
