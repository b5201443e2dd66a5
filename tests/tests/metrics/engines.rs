//! The families of the engines, stage by stage.

use omni_tests::{FakeScript, TestServer};

use crate::support::{Reading, speak};

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
    // It starts again when the talker is back, and nobody notices.
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    let talker = reading.stage("talker");
    let error = [("stage", talker.as_str()), ("finished_reason", "error")];
    assert_eq!(reading.sum("vllm:request_success_total", &error), 1.0);
    assert_eq!(reading.sum("vllm:omni_requests_success_total", &[]), 1.0);
    assert_eq!(reading.sum("vllm:omni_requests_failed_total", &[]), 0.0);
    server.stop().await;
}
