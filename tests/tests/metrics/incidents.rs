//! Alerts that reach an operator: outages, silence, replicas that come and go, and audio that comes late.

use omni_pipeline::stage::{ReplicaId, ReplicaState};
use omni_proto::riva::AudioEncoding;
use omni_proto::riva::tts::SynthesizeSpeechRequest;
use omni_proto::riva::tts::riva_speech_synthesis_client::RivaSpeechSynthesisClient;
use omni_proto::v1;
use omni_tests::{FakeScript, HttpAnswer, Reading, TestServer, audio_of, config, finish, http, speak, text};
use tonic::Code;

fn failed(reading: &Reading, reason: &str) -> f64 {
    reading.sum("vllm:omni_requests_failed_total", &[("reason", reason)])
}

async fn post(server: &TestServer, path: &str, body: &str) -> HttpAnswer {
    let json = [("content-type", "application/json")];
    http(server, "POST", path, &json, body.to_owned()).await
}

#[tokio::test]
async fn requests_that_no_replica_could_take_are_failures_of_the_server_by_every_protocol() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    speak(&server, 1).await;
    let pool = server.app.orchestrator().pool("code2wav").expect("it speaks");
    pool.cordon(ReplicaId(0)).expect("a known replica");
    let refused = audio_of(&mut server.speech(), v1::SpeechConfig::default(), "Hello.").await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    let body = r#"{"model": "", "voice": "", "input": "Hello."}"#;
    let answer = post(&server, "/v1/audio/speech", body).await;
    assert_eq!(answer.status, 503);
    let body = r#"{"messages": [{"role": "user", "content": "Hello."}]}"#;
    let answer = post(&server, "/v1/chat/completions", body).await;
    let reading = Reading::of(&server).await;
    let chats = f64::from(u8::from(answer.status == 503));
    assert_eq!(failed(&reading, "stage_error"), 2.0 + chats);
    assert_eq!(
        reading.sum(
            "vllm:omni_requests_success_total",
            &[("finished_reason", "abort")]
        ),
        2.0 + chats
    );
    server.stop().await;
}

#[tokio::test]
async fn a_model_that_makes_no_sound_is_told_apart_from_a_text_without_any_and_from_a_volume_without_any() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let silent = |reading: &Reading, reason: &str| {
        reading.sum("vllm:omni_audio_silent_requests_total", &[("reason", reason)])
    };
    let counts = |reading: &Reading| ["model", "nothing_speakable", "volume"].map(|why| silent(reading, why));
    speak(&server, 2).await;
    let reading = Reading::of(&server).await;
    assert_eq!(counts(&reading), [0.0; 3]);
    assert_eq!(reading.sum("vllm:omni_audio_level_ratio_count", &[]), 2.0);
    let gaps = reading.sum("vllm:omni_audio_underrun_s_count", &[]);
    assert_eq!(gaps, 2.0);
    let quiet = v1::SpeechConfig {
        volume_gain_db: Some(-96.0),
        ..v1::SpeechConfig::default()
    };
    audio_of(&mut server.speech(), quiet, "Nobody hears this.")
        .await
        .expect("audio");
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    call.ready().await;
    for said in [" ", "____", "____"] {
        call.send(text(said)).await;
        call.send(finish()).await;
        call.utterance().await;
    }
    drop(call);
    server.idle(6).await;
    let reading = Reading::of(&server).await;
    assert_eq!(counts(&reading), [2.0, 1.0, 1.0]);
    // Silence is no proof of continuity.
    assert_eq!(reading.sum("vllm:omni_audio_underrun_s_count", &[]), gaps);
    assert_eq!(reading.sum("vllm:omni_audio_continuity_ok_total", &[]), gaps);
    assert_eq!(reading.sum("vllm:omni_requests_success_total", &[]), 6.0);
    server.stop().await;
}

const LONG: &str = "One sentence. Another sentence. A third sentence. And a fourth one.";

/// Ways in which audio is handed over in one piece, by name.
async fn whole(server: &TestServer, way: &str) {
    let answer = match way {
        "speech" => {
            let body = format!(r#"{{"input": "{LONG}", "response_format": "wav"}}"#);
            post(server, "/v1/audio/speech", &body).await
        }
        "chat" => {
            let body = format!(
                r#"{{"modalities": ["text", "audio"], "audio": {{"voice": "alloy", "format": "wav"}},
                    "messages": [{{"role": "user", "content": "say {LONG}"}}]}}"#
            );
            post(server, "/v1/chat/completions", &body).await
        }
        _ => {
            let request = SynthesizeSpeechRequest {
                text: LONG.to_owned(),
                encoding: AudioEncoding::LinearPcm.into(),
                sample_rate_hz: 16_000,
                ..SynthesizeSpeechRequest::default()
            };
            let mut riva = RivaSpeechSynthesisClient::new(server.channel.clone());
            riva.synthesize(request).await.expect("audio");
            return;
        }
    };
    assert_eq!(
        answer.status,
        200,
        "{way}: {}",
        String::from_utf8_lossy(&answer.body)
    );
}

#[tokio::test]
async fn audio_that_is_handed_over_in_one_piece_has_no_first_packet_and_no_gaps() {
    for way in ["speech", "chat", "riva"] {
        let server = TestServer::fake(FakeScript::default(), &[]).await;
        whole(&server, way).await;
        server
            .until("the session has ended", || server.app.sessions() == 0)
            .await;
        let spoken = server.records.all().pop().map(|record| record.timings);
        let answered = server.records.turns().pop().and_then(|turn| turn.timings.speech);
        let timings = spoken.or(answered).expect("it was spoken");
        let heard = timings.first_audio.expect("it was handed over");
        let made = timings.last_output.expect("it was made");
        assert!(heard >= made && heard <= timings.total, "{way}: {timings:?}");
        let reading = Reading::of(&server).await;
        for name in [
            "vllm:omni_audio_ttfp_s_count",
            "vllm:omni_audio_underrun_s_count",
            "vllm:omni_audio_continuity_ok_total",
            "vllm:omni_audio_chunk_gap_s_count",
            "vllm:omni_audio_playback_lead_s_count",
        ] {
            assert_eq!(reading.sum(name, &[]), 0.0, "{way}: {name}");
        }
        for name in [
            "vllm:omni_audio_level_ratio_count",
            "vllm:omni_audio_duration_s_count",
            "vllm:omni_e2e_request_latency_s_count",
        ] {
            assert_eq!(reading.sum(name, &[]), 1.0, "{way}: {name}");
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn audio_that_is_handed_over_as_it_is_made_has_gaps_to_judge() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let body = format!(r#"{{"input": "{LONG}", "response_format": "mp3"}}"#);
    post(&server, "/v1/audio/speech", &body).await;
    server.idle(1).await;
    let reading = Reading::of(&server).await;
    for name in ["vllm:omni_audio_underrun_s_count", "vllm:omni_audio_ttfp_s_count"] {
        assert_eq!(reading.sum(name, &[]), 1.0, "{name}");
    }
    server.stop().await;
}

#[tokio::test]
async fn probes_listings_and_files_are_in_no_latency_of_work() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for path in [
        "/health",
        "/livez",
        "/studio/",
        "/v1/models",
        "/",
        "/wp-login.php",
    ] {
        http(&server, "GET", path, &[], "").await;
    }
    let latency = "http_request_duration_highr_seconds_count";
    assert_eq!(Reading::of(&server).await.sum(latency, &[]), 0.0);
    let answer = post(&server, "/v1/audio/speech", r#"{"input": "Hello."}"#).await;
    assert_eq!(answer.status, 200);
    server.idle(1).await;
    let reading = Reading::of(&server).await;
    assert_eq!(reading.sum(latency, &[]), 1.0);
    assert_eq!(reading.sum("http_requests_total", &[]), 7.0);
    server.stop().await;
}

#[tokio::test]
async fn what_happens_after_two_hundred_replicas_came_and_went_is_counted() {
    let server = TestServer::fake(FakeScript::default(), &["--metrics-enable", "torchserve"]).await;
    let pool = server.app.orchestrator().pool("code2wav").expect("it speaks");
    let mut full = 0;
    for round in 0..200 {
        let before = pool.replicas().last().map(|view| view.id).expect("a replica");
        let added = pool.add().expect("a thread");
        let is = |id: ReplicaId, state: &ReplicaState| {
            let views = pool.replicas();
            views.iter().all(|view| view.id != id || view.state == *state)
        };
        server
            .until("the new one is ready", || is(added, &ReplicaState::Ready))
            .await;
        pool.remove(before).expect("a known replica");
        server
            .until("the old one is gone", || is(before, &ReplicaState::Removed))
            .await;
        let reading = Reading::of(&server).await;
        // Eight of those that are gone are shown.
        if round == 10 {
            full = reading.samples.len();
        }
    }
    let reading = Reading::of(&server).await;
    assert!(
        reading.samples.len() <= full,
        "{} series after 200 replicas, {full} after ten:\n{}",
        reading.samples.len(),
        reading.text
    );
    let workers = reading.of_name("WorkerLoadTime", &[]);
    let workers = workers.filter(|load| load.labels["WorkerName"].starts_with("code2wav-"));
    assert!(workers.count() <= 1 + 8, "{}", reading.text);
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    let code2wav = reading.stage("code2wav");
    let own = [("stage", code2wav.as_str()), ("replica", "200")];
    for name in [
        "vllm:request_success_total",
        "vllm:omni_audio_duration_s_count",
        "vllm:omni_stage_info",
        "vllm:omni_replica_up",
    ] {
        assert!(reading.sum(name, &own) > 0.0, "{name}");
    }
    assert_eq!(reading.sum("vllm:omni_metrics_dropped_total", &[]), 0.0);
    let infos = reading.of_name("vllm:omni_stage_info", &own[..1]).count();
    assert!(infos <= 1 + 8, "{infos} replicas are shown");
    server.stop().await;
}
