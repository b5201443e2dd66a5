//! Callers that vanish at any moment leave nothing behind: no session, sequence, block, task, thread, file or memory.
//!
//! `OMNI_ABORTS` sets how many (300 unless set); the figures before and after are printed.

use std::fs;
use std::time::{Duration, Instant};

use omni_config::{ModelSource, deploy::resolve};
use omni_proto::v1;
use omni_server::app::load_model;
use omni_tests::{Call, ChatCall, Dice, Held, TestServer, cancel, chat_config, config, interrupt, text};

/// Calls in flight at the same time.
const CALLERS: u64 = 8;
/// Calls of each caller before the first measurement, so that one-time allocations are done.
const WARMUP: u64 = 20;
/// Growth of the process in the end that is accepted for any number of calls, in KiB: the allocator's slack.
const SLACK_KIB: u64 = 24 * 1024;
/// Calls between two measurements; the test's own records are dropped then.
const ROUND: u64 = 200;
const STAGES: [&str; 3] = ["thinker", "talker", "code2wav"];

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).expect("a number")
}

/// Speaks, and vanishes somewhere on the way.
async fn speak_and_vanish(server: &TestServer, dice: &mut Dice) {
    let mut call = Call::open(&mut server.speech()).await;
    if dice.below(8) == 0 {
        return;
    }
    call.send(config(v1::SpeechConfig::default())).await;
    if dice.below(8) == 0 {
        return;
    }
    call.ready().await;
    call.send(text(
        "One sentence is said here. And here is another one, which may never be heard. ",
    ))
    .await;
    match dice.below(4) {
        0 => {}
        1 => tokio::time::sleep(Duration::from_millis(dice.below(20))).await,
        2 => drop(call.first_audio().await),
        _ => {
            call.first_audio().await;
            call.send(cancel("")).await;
            if dice.below(2) == 0 {
                call.utterance().await;
            }
        }
    }
}

/// Asks, and vanishes somewhere on the way.
async fn ask_and_vanish(server: &TestServer, dice: &mut Dice) {
    let mut call = ChatCall::open(&mut server.chat()).await;
    call.configure(chat_config(true)).await;
    call.ask("Please spell the word library.").await;
    match dice.below(4) {
        0 => {}
        1 => tokio::time::sleep(Duration::from_millis(dice.below(40))).await,
        2 => drop(call.next().await),
        _ => {
            call.next().await;
            call.send(interrupt(None)).await;
            if dice.below(2) == 0 {
                call.answer().await;
            }
        }
    }
}

/// `calls` calls by several callers at once.
async fn storm(server: &TestServer, calls: u64, seed: u64) {
    let callers = (0..CALLERS).map(|caller| async move {
        let mut dice = Dice::new(seed + caller);
        for _ in (caller..calls).step_by(CALLERS as usize) {
            match dice.below(3) {
                0 => ask_and_vanish(server, &mut dice).await,
                _ => speak_and_vanish(server, &mut dice).await,
            }
        }
    });
    futures::future::join_all(callers).await;
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    server
        .until("every stage is empty", || leftovers(server).is_empty())
        .await;
    server.records.forget();
    server.edges.forget();
}

/// Replicas that still hold something.
fn leftovers(server: &TestServer) -> Vec<String> {
    let front = server.app.orchestrator();
    let mut found = Vec::new();
    for stage in STAGES {
        for replica in front.pool(stage).expect("the model has it").replicas() {
            let stats = &replica.stats;
            let empty = stats.running == 0 && stats.waiting == 0 && stats.queued_items == 0;
            if !empty || stats.kv_usage != 0.0 || replica.in_flight != 0 {
                found.push(format!("{stage}: {replica:?}"));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the figures are for runs with more calls")]
async fn callers_who_vanish_at_any_moment_leave_nothing_behind() {
    let calls: u64 = std::env::var("OMNI_ABORTS").map_or(300, |calls| calls.parse().expect("a number"));
    // So few KV blocks that all have been touched before the first look.
    let sets = ["thinker", "talker"].map(|stage| format!("stages.{stage}.kv.blocks=256"));
    let deploy = resolve(None, &sets, 64).expect("legal settings").deploy;
    let mut server =
        TestServer::launch(&[], move || load_model(&ModelSource::Embedded, &deploy, false)).await;
    server.app.ready().await.expect("the embedded model loads");

    storm(&server, WARMUP * CALLERS, 1).await;
    let before = Held::settled(None).await;
    let memory = resident_kib();
    let began = Instant::now();
    for round in 0..calls.div_ceil(ROUND) {
        let left = calls - round * ROUND;
        storm(&server, left.min(ROUND), 1_000 * (round + 1)).await;
    }
    let took = began.elapsed();
    let after = Held::settled(Some(&before)).await;
    let grown = resident_kib().saturating_sub(memory);

    println!(
        "{calls} aborted calls in {took:.1?}: before {before:?}, after {after:?}, memory {memory} KiB + {grown} KiB"
    );
    assert_eq!(leftovers(&server), Vec::<String>::new());
    assert!(after.within(&before), "before {before:?}, after {after:?}");
    assert!(grown < SLACK_KIB, "the process grew by {grown} KiB");
    // It still serves.
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    call.ready().await;
    server.stop().await;
}
