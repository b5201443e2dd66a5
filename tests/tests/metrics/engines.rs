//! The families of the engines, stage by stage.

use omni_pipeline::stage::ReplicaState;
use omni_proto::v1;
use omni_proto::v1::converse_request::Event as Request;
use omni_tests::{FakeScript, Reading, TestServer, audio_of, chat_config, speak};
use tonic::Code;

#[tokio::test]
async fn engines_count_sequences_tokens_and_intervals() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    speak(&server, 2).await;
    let reading = Reading::of(&server).await;
    let frames: u32 = server
        .records
        .all()
        .iter()
        .map(|record| record.usage.frames)
        .sum();
    for stage in ["talker", "code2wav"] {
        let id = reading.stage(stage);
        let at = [("stage", id.as_str()), ("replica", "0")];
        let sequences = reading.sum("vllm:request_success_total", &at);
        assert!(sequences >= 2.0, "{stage}: {sequences}");
        let stopped = [at[0], at[1], ("finished_reason", "stop")];
        assert_eq!(
            reading.sum("vllm:request_success_total", &stopped),
            sequences,
            "{stage}"
        );
        for name in [
            "vllm:time_to_first_token_seconds",
            "vllm:e2e_request_latency_seconds",
            "vllm:request_queue_time_seconds",
            "vllm:request_prefill_time_seconds",
            "vllm:request_decode_time_seconds",
            "vllm:request_inference_time_seconds",
            "vllm:request_time_per_output_token_seconds",
            "vllm:request_generation_tokens",
            "vllm:request_prompt_tokens",
            "vllm:request_num_preemptions",
            "vllm:request_params_n",
        ] {
            assert_eq!(
                reading.sum(&format!("{name}_count"), &at),
                sequences,
                "{stage} {name}"
            );
        }
        for name in [
            "vllm:generation_tokens_total",
            "vllm:request_generation_tokens_sum",
        ] {
            assert_eq!(reading.sum(name, &at), f64::from(frames), "{stage} {name}");
        }
        assert_eq!(reading.sum("vllm:num_requests_running", &at), 0.0, "{stage}");
        assert_eq!(reading.sum("vllm:num_requests_waiting", &at), 0.0, "{stage}");
        assert_eq!(reading.sum("vllm:kv_cache_usage_perc", &at), 0.0, "{stage}");
    }
    let talker = reading.stage("talker");
    let at = [("stage", talker.as_str())];
    let prompt = reading.sum("vllm:prompt_tokens_total", &at);
    assert!(prompt > 0.0);
    assert_eq!(reading.sum("vllm:prompt_tokens_by_source_total", &at), prompt);
    assert_eq!(reading.sum("vllm:request_prompt_tokens_sum", &at), prompt);
    assert_eq!(reading.sum("vllm:cache_config_info", &at), 1.0);
    server.stop().await;
}

#[tokio::test]
async fn token_buckets_end_at_the_longest_sequence_of_the_model() {
    let limits = [
        "--set",
        "stages.thinker.max_model_len=300",
        "--set",
        "stages.talker.max_model_len=150",
    ];
    let server = TestServer::fake(FakeScript::default(), &limits).await;
    let reading = Reading::of(&server).await;
    let expected = [
        "1.0", "2.0", "5.0", "10.0", "20.0", "50.0", "100.0", "200.0", "+Inf",
    ];
    for name in ["vllm:request_prompt_tokens", "vllm:request_generation_tokens"] {
        for stage in ["thinker", "talker"] {
            let id = reading.stage(stage);
            let bucket = format!("{name}_bucket");
            let at = [("stage", id.as_str())];
            let bounds: Vec<_> = reading
                .of_name(&bucket, &at)
                .map(|sample| sample.labels["le"].clone())
                .collect();
            assert_eq!(bounds, expected, "{name} of the {stage}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn replicas_have_series_of_their_own() {
    let server = TestServer::fake(FakeScript::default(), &["--set", "stages.talker.replicas=2"]).await;
    speak(&server, 4).await;
    let reading = Reading::of(&server).await;
    let talker = reading.stage("talker");
    for replica in ["0", "1"] {
        let at = [("stage", talker.as_str()), ("replica", replica)];
        assert!(
            reading.sum("vllm:request_success_total", &at) > 0.0,
            "replica {replica}"
        );
        assert_eq!(reading.sum("vllm:omni_replica_up", &at), 1.0);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_sequence_that_dies_with_its_replica_is_an_error_there_and_counted_once() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker_dies.light();
    // It starts again when the talker is back, and the caller notices nothing.
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    let talker = reading.stage("talker");
    let error = [("stage", talker.as_str()), ("finished_reason", "error")];
    assert_eq!(reading.sum("vllm:request_success_total", &error), 1.0);
    assert_eq!(reading.sum("vllm:omni_requests_success_total", &[]), 1.0);
    assert_eq!(reading.sum("vllm:omni_requests_failed_total", &[]), 0.0);
    server.stop().await;
}

#[tokio::test]
async fn a_replica_that_hangs_is_replaced_and_its_thread_is_counted_until_it_returns() {
    let script = FakeScript {
        talker_hangs_on: Some('#'),
        ..FakeScript::default()
    };
    script.hangs.close();
    let sets = ["step_timeout=1s", "restart.first_delay=1ms"];
    let sets = sets.map(|set| format!("stages.talker.{set}"));
    let args: Vec<_> = sets.iter().flat_map(|set| ["--set", set.as_str()]).collect();
    let server = TestServer::fake(
        script.clone(),
        &[&args[..], &["--set", "handover.attempts=0"]].concat(),
    )
    .await;
    let lost = audio_of(&mut server.speech(), v1::SpeechConfig::default(), "# hangs.").await;
    assert_eq!(lost.unwrap_err().code(), Code::Unavailable);
    server.idle(1).await;
    let pool = server.app.orchestrator().pool("talker").expect("it speaks");
    let ready = || pool.replicas()[0].state == ReplicaState::Ready;
    server.until("another thread has its place", ready).await;
    let reading = Reading::of(&server).await;
    let id = reading.stage("talker");
    let at = [("stage", id.as_str())];
    let error = [at[0], ("finished_reason", "error")];
    let read = |reading: &Reading| {
        [
            "vllm:omni_stage_stuck_threads",
            "vllm:omni_replica_up",
            "vllm:num_requests_running",
        ]
        .map(|name| reading.sum(name, &at))
    };
    assert_eq!(read(&reading), [1.0, 1.0, 0.0]);
    assert_eq!(reading.sum("vllm:request_success_total", &error), 1.0);

    script.hangs.open();
    server
        .until("the thread has returned", || pool.left_behind() == 0)
        .await;
    let reading = Reading::of(&server).await;
    assert_eq!(read(&reading), [0.0, 1.0, 0.0]);
    assert_eq!(
        reading.sum("vllm:request_success_total", &error),
        1.0,
        "what returns late is counted no more"
    );
    server.stop().await;
}

#[tokio::test]
async fn the_encoder_is_a_stage_where_the_model_hears_and_moves_no_other() {
    let ids = |reading: &Reading| ["thinker", "talker", "code2wav"].map(|stage| reading.stage(stage));
    let deaf = TestServer::fake(FakeScript::default(), &[]).await;
    let reading = Reading::of(&deaf).await;
    let mut encoders = reading.of_name("vllm:omni_stage_info", &[("stage_name", "encoder")]);
    assert!(encoders.next().is_none(), "it does not hear");
    let expected = ids(&reading);
    deaf.stop().await;

    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    chat.send(Request::InputAudio(v1::InputAudio {
        data: vec![1; 2_000].into(),
    }))
    .await;
    chat.send(Request::Commit(v1::CommitInput { respond: true }))
        .await;
    assert_eq!(chat.answer().await.text, "You said: [1000 samples]");
    drop(chat);
    server.chats_over(1).await;
    let reading = Reading::of(&server).await;
    assert_eq!(ids(&reading), expected);
    let id = reading.stage("encoder");
    let at = [
        ("stage", id.as_str()),
        ("replica", "0"),
        ("finished_reason", "stop"),
    ];
    assert_eq!(reading.sum("vllm:request_success_total", &at), 1.0);
    assert_eq!(reading.sum("vllm:omni_replica_up", &at[..2]), 1.0);
    assert_eq!(reading.sum("vllm:omni_stage_gen_time_s_count", &at[..1]), 1.0);
    server.stop().await;
}
