//! Counters count each request once.

use omni_tests::{FakeScript, Reading, TestServer, chat_config, speak, vanish};

#[tokio::test]
async fn nothing_is_counted_before_the_first_request() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let reading = Reading::of(&server).await;
    for name in [
        "vllm:omni_requests_success_total",
        "vllm:omni_transfer_size_bytes_count",
        "vllm:request_success_total",
        "vllm:generation_tokens_total",
        "vllm:time_to_first_token_seconds_count",
        "vllm:omni_audio_frames_total",
    ] {
        let sum: f64 = reading.of_name(name, &[]).map(|sample| sample.value).sum();
        assert_eq!(sum, 0.0, "{name}: warming up is no request");
    }
    let talker = reading.stage("talker");
    assert_eq!(reading.sum("vllm:omni_replica_up", &[("stage", &talker)]), 1.0);
    server.stop().await;
}

#[tokio::test]
async fn requests_and_audio_are_what_the_callers_got() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let frames = speak(&server, 3).await as f64;
    let reading = Reading::of(&server).await;
    let code2wav = reading.stage("code2wav");
    let at = [("stage", code2wav.as_str()), ("replica", "0")];
    for (name, labels, expected) in [
        (
            "vllm:omni_requests_success_total",
            &[("finished_reason", "stop")][..],
            3.0,
        ),
        ("vllm:omni_requests_success_total", &[], 3.0),
        ("vllm:omni_requests_failed_total", &[], 0.0),
        ("vllm:omni_e2e_request_latency_s_count", &[], 3.0),
        ("vllm:omni_request_queue_wait_s_count", &[], 3.0),
        (
            "vllm:omni_stage_gen_time_s_count",
            &[("stage", code2wav.as_str())],
            3.0,
        ),
        ("vllm:omni_audio_frames_total", &at, frames),
        ("vllm:omni_audio_ttfp_s_count", &at, 3.0),
        ("vllm:omni_audio_duration_s_count", &at, 3.0),
        ("vllm:omni_audio_rtf_count", &at, 3.0),
        ("vllm:omni_audio_underrun_s_count", &at, 3.0),
        ("vllm:omni_audio_skipped_requests_total", &at, 0.0),
        ("vllm:omni_num_requests_running", &[], 0.0),
        ("vllm:omni_num_requests_waiting", &[], 0.0),
    ] {
        assert_eq!(reading.sum(name, labels), expected, "{name} {labels:?}");
    }
    let records = server.records.all();
    let made: u32 = records.iter().map(|record| record.usage.frames).sum();
    assert_eq!(
        reading.sum("vllm:omni_generation_tokens_total", &[]),
        f64::from(made)
    );
    let tokens: u32 = records.iter().map(|record| record.usage.text_tokens).sum();
    assert_eq!(
        reading.sum("vllm:omni_prompt_tokens_total", &[]),
        f64::from(tokens)
    );
    server.stop().await;
}

#[tokio::test]
async fn a_spoken_answer_is_one_request_through_three_stages() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    chat.ask("say One sentence is long enough to be heard.").await;
    let answer = chat.answer().await;
    let samples = answer.samples() as f64;
    drop(chat);
    server.chats_over(1).await;
    let reading = Reading::of(&server).await;
    let turn = &server.records.turns()[0];
    assert_eq!(reading.sum("vllm:omni_requests_success_total", &[]), 1.0);
    assert_eq!(reading.sum("vllm:omni_audio_frames_total", &[]), samples);
    let expected = f64::from(turn.usage.prompt_tokens + turn.usage.prompt_audio);
    assert_eq!(reading.sum("vllm:omni_prompt_tokens_total", &[]), expected);
    for stage in ["thinker", "talker", "code2wav"] {
        let id = reading.stage(stage);
        let at = [("stage", id.as_str())];
        assert_eq!(
            reading.sum("vllm:omni_stage_gen_time_s_count", &at),
            1.0,
            "{stage}"
        );
        assert_eq!(reading.sum("vllm:request_success_total", &at), 1.0, "{stage}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_is_one_abort() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    vanish(&server, &script).await;
    script.talker.open();
    server.idle(1).await;
    let reading = Reading::of(&server).await;
    let abort = [("finished_reason", "abort")];
    assert_eq!(reading.sum("vllm:omni_requests_success_total", &abort), 1.0);
    assert_eq!(reading.sum("vllm:omni_requests_success_total", &[]), 1.0);
    assert_eq!(reading.sum("vllm:omni_requests_failed_total", &[]), 1.0);
    let gone = [("reason", "client_disconnect")];
    assert_eq!(reading.sum("vllm:omni_requests_failed_total", &gone), 1.0);
    assert_eq!(reading.sum("vllm:omni_e2e_request_latency_s_count", &[]), 0.0);
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_went_in_circles_is_counted_as_that_by_its_engine_and_by_the_pipeline() {
    let once_more = ["--set", "stages.thinker.repetition.count=3"];
    let server = TestServer::fake(FakeScript::default(), &once_more).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    chat.turn("say abcabcabcabcabc").await;
    drop(chat);
    server.chats_over(1).await;
    let reading = Reading::of(&server).await;
    let repetition = ("finished_reason", "repetition");
    assert_eq!(
        reading.sum("vllm:omni_requests_success_total", &[repetition]),
        1.0
    );
    assert_eq!(reading.sum("vllm:omni_requests_success_total", &[]), 1.0);
    assert_eq!(reading.sum("vllm:omni_requests_failed_total", &[]), 0.0);
    let thinker = reading.stage("thinker");
    let there = [("stage", thinker.as_str()), repetition];
    assert_eq!(reading.sum("vllm:request_success_total", &there), 1.0);
    server.stop().await;
}

#[tokio::test]
async fn every_hop_between_stages_is_measured_and_has_the_size_of_what_it_carried() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let before = server.edges.all().len();
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    let talker = reading.stage("talker");
    let code2wav = reading.stage("code2wav");
    let edge = [("from_stage", talker.as_str()), ("to_stage", code2wav.as_str())];
    let edges = server.edges.all();
    // Those before are of warming up.
    let between: Vec<_> = edges[before..]
        .iter()
        .filter(|edge| edge.hop.from.stage == "talker")
        .collect();
    let bytes: u64 = between.iter().map(|edge| edge.bytes).sum();
    let chunks: u32 = between.iter().map(|edge| edge.chunks).sum();
    assert!(chunks > 0);
    assert_eq!(
        reading.sum("vllm:omni_transfer_size_bytes_sum", &edge),
        bytes as f64
    );
    for part in ["size_bytes", "tx_s", "rx_s", "in_flight_s"] {
        let count = reading.sum(&format!("vllm:omni_transfer_{part}_count"), &edge);
        assert_eq!(count, f64::from(chunks), "{part}");
    }
    server.stop().await;
}

#[tokio::test]
async fn sessions_streams_and_calls_are_counted_to_their_ends() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    speak(&server, 2).await;
    let call = server.call().await;
    server
        .until("the session has begun", || server.app.sessions() == 1)
        .await;
    let reading = Reading::of(&server).await;
    assert_eq!(reading.sum("vllm:omni_sessions_active", &[]), 1.0);
    assert_eq!(reading.sum("vllm:omni_sessions_total", &[]), 3.0);
    drop(call);
    server
        .until("the session has ended", || server.app.sessions() == 0)
        .await;
    let synthesize = [("grpc_method", "Synthesize"), ("grpc_type", "server_stream")];
    let speak = [("grpc_method", "Speak"), ("grpc_type", "bidi_stream")];
    let mut reading = Reading::of(&server).await;
    // The transport notices that its caller is gone when it does.
    while reading.sum("grpc_server_handled_total", &speak) < 1.0 {
        tokio::task::yield_now().await;
        reading = Reading::of(&server).await;
    }
    assert_eq!(reading.sum("vllm:omni_sessions_active", &[]), 0.0);
    assert_eq!(reading.sum("vllm:omni_session_duration_s_count", &[]), 3.0);
    assert_eq!(reading.sum("vllm:omni_speech_stream_completed_total", &[]), 2.0);
    assert_eq!(reading.sum("vllm:omni_speech_stream_aborted_total", &[]), 0.0);
    assert_eq!(reading.sum("grpc_server_started_total", &synthesize), 2.0);
    assert_eq!(reading.sum("grpc_server_msg_received_total", &synthesize), 2.0);
    assert!(reading.sum("grpc_server_msg_sent_total", &synthesize) > 4.0);
    let well = [synthesize[0], ("grpc_code", "OK")];
    assert_eq!(reading.sum("grpc_server_handled_total", &well), 2.0);
    assert_eq!(
        reading.sum("grpc_server_handling_seconds_count", &synthesize),
        2.0
    );
    server.stop().await;
}

#[tokio::test]
async fn the_gaps_between_packets_are_one_less_than_the_packets() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    let synthesize = [("grpc_method", "Synthesize")];
    let gaps = reading.sum("vllm:omni_audio_chunk_gap_s_count", &[]);
    // Besides audio there are one `ready` and one `done`.
    let packets = reading.sum("grpc_server_msg_sent_total", &synthesize) - 2.0;
    assert_eq!(gaps, packets - 1.0);
    assert_eq!(reading.sum("vllm:omni_audio_playback_lead_s_count", &[]), gaps);
    server.stop().await;
}

#[tokio::test]
async fn a_cancelled_request_is_timed_once_until_no_stage_works_on_it() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    vanish(&server, &script).await;
    // The talker is still in its step.
    let held = Reading::of(&server).await;
    assert_eq!(held.sum("vllm:omni_cancel_latency_s_count", &[]), 0.0);
    script.talker.open();
    let mut reading = Reading::of(&server).await;
    while reading.sum("vllm:omni_cancel_latency_s_count", &[]) < 1.0 {
        tokio::task::yield_now().await;
        reading = Reading::of(&server).await;
    }
    server.idle(1).await;
    let after = Reading::of(&server).await;
    assert_eq!(after.sum("vllm:omni_cancel_latency_s_count", &[]), 1.0);
    let closed = [("reason", "closed")];
    assert_eq!(after.sum("vllm:omni_speech_stream_aborted_total", &closed), 1.0);
    server.stop().await;
}
