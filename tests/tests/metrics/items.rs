//! `items.txt`, item by item on a server with work done, plus the meaning of figures that are easily wrong.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::converse_request::Event as Request;
use omni_tests::{
    FakeScript, Reading, TestServer, audio_of, chat_config, config, finish, http, respond, speak, text,
};

const ITEMS: &str = include_str!("items.txt");

/// An item that is here, with its checks, or is not, with the reason.
struct Item<'a> {
    id: &'a str,
    here: bool,
    proof: &'a str,
}

fn items() -> Vec<Item<'static>> {
    let lines = ITEMS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<_> = line.splitn(4, '|').map(str::trim).collect();
            let [id, status, _, proof] = fields[..] else {
                panic!("four fields: {line}");
            };
            assert!(["R", "N"].contains(&status) && !proof.is_empty(), "{line}");
            Item {
                id,
                here: status == "R",
                proof,
            }
        })
        .collect()
}

/// A number, or the sum of series; `none` if there is no such series.
fn value(reading: &Reading, term: &str) -> Result<Option<f64>, String> {
    if term == "none" {
        return Ok(None);
    }
    if let Ok(number) = term.parse() {
        return Ok(Some(number));
    }
    let (name, labels) = term
        .strip_suffix('}')
        .and_then(|term| term.split_once('{'))
        .unwrap_or((term, ""));
    let labels: Vec<_> = labels
        .split(',')
        .filter_map(|label| label.split_once('='))
        .collect();
    let mut samples = reading.of_name(name, &labels).peekable();
    if samples.peek().is_none() && reading.of_name(name, &[]).next().is_none() {
        return Err(format!("there is no series {name}"));
    }
    Ok(samples
        .peek()
        .is_some()
        .then(|| samples.map(|sample| sample.value).sum()))
}

/// The labels of a family's series besides `le`, which all of them have.
fn labels(reading: &Reading, name: &str) -> Result<BTreeSet<String>, String> {
    let own = |sample: &&omni_tests::Sample| {
        let rest = sample.name.strip_prefix(name);
        rest.is_some_and(|rest| ["", "_count", "_sum", "_bucket"].contains(&rest))
    };
    let mut sets = reading.samples.iter().filter(own).map(|sample| {
        let labels = sample.labels.keys().filter(|label| *label != "le");
        labels.cloned().collect::<BTreeSet<_>>()
    });
    let first = sets.next().ok_or_else(|| format!("there is no series {name}"))?;
    match sets.find(|set| *set != first) {
        Some(other) => Err(format!("{name} has {first:?} and {other:?}")),
        None => Ok(first),
    }
}

/// The bounds of a histogram's first series, without the last.
fn bounds(reading: &Reading, name: &str) -> Vec<String> {
    let bucket = format!("{name}_bucket");
    let mut bounds = Vec::new();
    for sample in reading.of_name(&bucket, &[]) {
        let bound = &sample.labels["le"];
        if bound == "+Inf" {
            break;
        }
        bounds.push(bound.clone());
    }
    bounds
}

/// Checks that the test `function` is in `file`, from the root of the repository.
fn has_test(file: &str, function: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let source = std::fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
    let there = source.match_indices("test]").any(|(at, _)| {
        let rest = source[at..].split_once("fn ").map_or("", |(_, rest)| rest);
        rest.split_once('(').is_some_and(|(name, _)| name == function)
    });
    there
        .then_some(())
        .ok_or_else(|| format!("{file} has no test {function}"))
}

/// Runs one check; the error is its problem.
fn check(reading: &Reading, check: &str) -> Result<(), String> {
    let words: Vec<_> = check.split_whitespace().collect();
    match words[..] {
        ["test", file, function] => has_test(file, function),
        [name, "is", kind] => match reading.types.get(name) {
            Some(known) if known == kind => labels(reading, name).map(|_| ()),
            other => Err(format!("{name} is {other:?}")),
        },
        [name, "has", expected] => {
            let expected = expected.split(',').map(str::to_owned).collect();
            let known = labels(reading, name)?;
            (known == expected)
                .then_some(())
                .ok_or_else(|| format!("{name} has {known:?}"))
        }
        [name, "bounds", expected] => {
            let known = bounds(reading, name).join(",");
            (known == expected)
                .then_some(())
                .ok_or_else(|| format!("{name} has the bounds {known}"))
        }
        [left, relation, right] => {
            let a = value(reading, left)?;
            let b = value(reading, right)?;
            let holds = match relation {
                "==" => a == b,
                ">" => a.zip(b).is_some_and(|(a, b)| a > b),
                ">=" => a.zip(b).is_some_and(|(a, b)| a >= b),
                other => return Err(format!("no relation {other}")),
            };
            holds.then_some(()).ok_or_else(|| format!("{a:?} and {b:?}"))
        }
        _ => Err("no check".to_owned()),
    }
}

/// Three utterances, a spoken answer, a voice that does not exist, a good call by HTTP and a bad one.
async fn work(server: &TestServer) {
    speak(server, 3).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    chat.ask("say One sentence is long enough to be heard.").await;
    chat.answer().await;
    drop(chat);
    server.chats_over(1).await;
    let stranger = v1::SpeechConfig {
        voice: "nobody".to_owned(),
        ..v1::SpeechConfig::default()
    };
    audio_of(&mut server.speech(), stranger, "Hello.")
        .await
        .expect_err("there is no such voice");
    // A failing request for work, and two requests for none.
    http(server, "POST", "/v1/audio/speech", &[], "").await;
    http(server, "GET", "/v1/models", &[], "").await;
    http(server, "GET", "/nothing/here", &[], "").await;
}

#[tokio::test]
async fn every_item_is_here_and_proved_or_argued() {
    let server = TestServer::fake(FakeScript::default(), &["--metrics-enable", "torchserve"]).await;
    work(&server).await;
    // The machine's share is that since the reading before.
    Reading::of(&server).await;
    let mut reading = Reading::of(&server).await;
    // A call ends when its last byte is taken.
    while reading.sum("http_requests_total", &[]) < 3.0 {
        tokio::task::yield_now().await;
        reading = Reading::of(&server).await;
    }
    let items = items();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for item in &items {
        assert!(seen.insert(item.id), "{} is there twice", item.id);
        if item.here {
            for each in item.proof.split(';').map(str::trim) {
                if let Err(problem) = check(&reading, each) {
                    wrong.push(format!("{}: {each}: {problem}", item.id));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        items.len(),
        wrong.join("\n")
    );
    assert!(items.iter().any(|item| !item.here && item.proof.len() > 20));
    server.stop().await;
}

#[tokio::test]
async fn a_check_that_does_not_hold_is_found_out() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    for wrong in [
        "vllm:omni_requests_success_total == 2",
        "vllm:omni_requests_success_total is gauge",
        "vllm:omni_requests_success_total has model_name",
        "vllm:omni_audio_rtf bounds 1.0",
        "vllm:no_such_family == 0",
        "vllm:omni_requests_success_total{finished_reason=never} == 0",
        "vllm:omni_requests_success_total > 1",
        "test tests/tests/metrics/items.rs no_such_test",
        "test no/such/file.rs a",
        "nonsense",
    ] {
        assert!(check(&reading, wrong).is_err(), "{wrong}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_slow_writer_is_in_a_family_of_its_own_and_in_no_latency() {
    const PAUSE: Duration = Duration::from_millis(300);
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    call.ready().await;
    call.send(text("This is a sentence that")).await;
    tokio::time::sleep(PAUSE).await;
    call.send(text(" takes its time to be written.")).await;
    call.send(finish()).await;
    call.utterance().await;
    drop(call);
    server.idle(1).await;
    let record = server.records.all().remove(0);
    let timings = record.timings;
    let reading = Reading::of(&server).await;
    let sum = |name: &str| reading.sum(&format!("{name}_sum"), &[]);
    let close = |a: f64, b: Duration| (a - b.as_secs_f64()).abs() < 1e-6;
    assert!(close(sum("vllm:omni_text_wait_s"), timings.text_wait));
    let first_packet = timings.first_packet.expect("it was heard");
    // Until its sentence was whole nothing could be spoken, and the last of the text may be waited for after it.
    let written = timings.first_audio.expect("it was heard") - first_packet;
    assert!(
        written > Duration::ZERO && written <= timings.text_wait,
        "{timings:?}"
    );
    assert!(close(sum("vllm:omni_audio_ttfp_s"), first_packet));
    assert!(close(
        sum("vllm:omni_e2e_request_latency_s"),
        timings.total - timings.text_wait
    ));
    let talker = reading.stage("talker");
    let first_token = reading.sum("vllm:time_to_first_token_seconds_sum", &[("stage", &talker)]);
    assert!(
        first_token <= (timings.total - written).as_secs_f64(),
        "{first_token} {timings:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn the_real_time_factor_is_the_time_of_generation_over_the_playing_time() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    speak(&server, 1).await;
    let record = server.records.all().remove(0);
    let reading = Reading::of(&server).await;
    let expected = record.timings.generation.as_secs_f64() / record.usage.audio.as_secs_f64();
    let told = reading.sum("vllm:omni_audio_rtf_sum", &[]);
    assert!((told - expected).abs() < 1e-9, "{told} {expected}");
    // Time from the hand-over to the last output, for any length of steps.
    assert!(record.timings.generation >= record.timings.last().span.expect("it was decoded") / 2);
    server.stop().await;
}

#[tokio::test]
async fn what_callers_get_wrong_is_theirs_and_counted_once_whatever_it_is() {
    let server = TestServer::fake(FakeScript::default(), &["--max-text-bytes", "100"]).await;
    let voice = v1::SpeechConfig {
        voice: "nobody".to_owned(),
        ..v1::SpeechConfig::default()
    };
    audio_of(&mut server.speech(), voice, "Hello.")
        .await
        .expect_err("no voice");
    let long = "word ".repeat(40);
    audio_of(&mut server.speech(), v1::SpeechConfig::default(), &long)
        .await
        .expect_err("too long");
    server
        .until("the sessions have ended", || server.app.sessions() == 0)
        .await;
    let reading = Reading::of(&server).await;
    let failed = |reason: &str| reading.sum("vllm:omni_requests_failed_total", &[("reason", reason)]);
    assert_eq!(failed("client_error"), 2.0);
    assert_eq!(reading.sum("vllm:omni_requests_failed_total", &[]), 2.0);
    assert_eq!(
        reading.sum(
            "vllm:omni_requests_success_total",
            &[("finished_reason", "abort")]
        ),
        2.0
    );
    assert_eq!(reading.sum("vllm:admission_rejections_total", &[]), 0.0);
    server.stop().await;
}

#[tokio::test]
async fn who_is_turned_away_is_in_one_family_and_in_no_other() {
    let script = FakeScript::default();
    let args = ["--max-active", "1", "--max-waiting", "1"];
    let server = TestServer::fake(script.clone(), &args).await;
    script.talker.close();
    let mut calls = Vec::new();
    let rejected = "vllm:admission_rejections_total";
    let mut reading = Reading::of(&server).await;
    // One is worked on, one waits, and the next ones are refused.
    while reading.sum(rejected, &[]) < 2.0 {
        let call = server.call().await;
        call.send(config(v1::SpeechConfig::default())).await;
        call.send(text("Hello there, this is a sentence.")).await;
        call.send(finish()).await;
        calls.push(call);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        reading = Reading::of(&server).await;
    }
    assert_eq!(reading.sum("vllm:omni_requests_failed_total", &[]), 0.0);
    assert_eq!(reading.sum("vllm:omni_requests_success_total", &[]), 0.0);
    assert_eq!(reading.sum("vllm:omni_speech_stream_aborted_total", &[]), 0.0);
    script.talker.open();
    drop(calls);
    server.stop().await;
}

#[tokio::test]
async fn a_replica_that_dies_is_counted_although_it_is_back_at_once() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker_dies.light();
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    let talker = reading.stage("talker");
    let at = [("stage", talker.as_str()), ("replica", "0")];
    assert_eq!(reading.sum("vllm:omni_replica_deaths_total", &at), 1.0);
    assert_eq!(reading.sum("vllm:omni_replica_restarts_total", &at), 1.0);
    assert_eq!(reading.sum("vllm:omni_replica_deaths_total", &[]), 1.0);
    server.stop().await;
}

#[tokio::test]
async fn a_request_of_torchserves_is_counted_when_it_arrives() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--metrics-enable", "torchserve"]).await;
    script.talker.close();
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    call.ready().await;
    call.send(text("Hello there, this is a sentence.")).await;
    call.send(finish()).await;
    script.talker.reached().await;
    let reading = Reading::of(&server).await;
    assert_eq!(reading.sum("ts_inference_requests_total", &[]), 1.0);
    assert_eq!(reading.sum("ts_inference_latency_microseconds", &[]), 0.0);
    script.talker.open();
    call.utterance().await;
    drop(call);
    server.stop().await;
}

#[tokio::test]
async fn a_recording_that_is_answered_twice_is_heard_once_and_found_once() {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    let data = vec![1; 2_000].into();
    chat.send(Request::InputAudio(v1::InputAudio { data })).await;
    chat.send(Request::Commit(v1::CommitInput { respond: true }))
        .await;
    chat.answer().await;
    chat.send(respond()).await;
    chat.answer().await;
    drop(chat);
    server.chats_over(2).await;
    let reading = Reading::of(&server).await;
    assert_eq!(reading.sum("vllm:mm_cache_queries_total", &[]), 2.0);
    assert_eq!(reading.sum("vllm:mm_cache_hits_total", &[]), 1.0);
    let encoder = reading.stage("encoder");
    let heard = [("stage", encoder.as_str()), ("finished_reason", "stop")];
    assert_eq!(reading.sum("vllm:request_success_total", &heard), 1.0);
    server.stop().await;
}

#[tokio::test]
async fn bounds_that_an_operator_names_are_those_of_every_family_of_the_set() {
    let args = ["--metrics-buckets", "seconds=0.5,2", "--metrics-buckets", "rtf=1"];
    let server = TestServer::fake(FakeScript::default(), &args).await;
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    assert_eq!(bounds(&reading, "vllm:omni_audio_ttfp_s"), ["0.5", "2.0"]);
    assert_eq!(
        bounds(&reading, "vllm:omni_e2e_request_latency_s"),
        ["0.5", "2.0"]
    );
    assert_eq!(bounds(&reading, "vllm:omni_audio_rtf"), ["1.0"]);
    server.stop().await;
}
