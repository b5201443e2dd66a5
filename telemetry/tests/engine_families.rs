//! The engine's families behave as vLLM's do.

use std::time::Duration;

use omni_telemetry::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const REPLICA: Replica = Replica { stage: 2, replica: 1 };

fn telemetry() -> Telemetry {
    let options = TelemetryOptions {
        catalogue: CatalogueOptions {
            pending: true,
            ..CatalogueOptions::default()
        },
        ..TelemetryOptions::default()
    };
    Telemetry::new(&options).expect("good options")
}

/// The value of the only series of `name` that contains `label`.
fn value(telemetry: &Telemetry, name: &str, label: &str) -> f64 {
    let text = telemetry.exposition().render(&Selection::of([name.to_owned()]));
    let mut lines = text
        .lines()
        .filter(|line| line.starts_with(name) && line.contains(label) && !line.contains("_bucket"));
    let line = lines
        .next()
        .unwrap_or_else(|| panic!("{name} with {label} in\n{text}"));
    line.rsplit_once(' ')
        .expect("a value")
        .1
        .parse()
        .expect("a number")
}

/// `tokens` outputs of one request with a prompt of `prompt`, one per 10 ms.
fn request(engine: &EngineInstruments, prompt: u64, tokens: u64) {
    let mut timeline = Timeline::default();
    timeline.queued(ms(0));
    timeline.scheduled(ms(5));
    for index in 0..tokens {
        engine.iteration(&IterationRecord {
            prompt_tokens: if index == 0 { prompt } else { 0 },
            cached_tokens: 0,
            new_tokens: 1,
        });
        match timeline.output(ms(10 * (index + 1)), 1) {
            Output::First => engine.first_output(ms(20)),
            Output::Next(gap) => engine.next_output(gap),
        }
    }
    engine.finished(&FinishedRequest {
        reason: FinishReason::Length,
        latency: ms(10 * tokens + 10),
        intervals: timeline.intervals(),
        prompt_tokens: prompt,
        cached_tokens: 0,
        max_tokens: Some(tokens),
    });
}

#[test]
fn the_counts_of_sequential_requests_are_vllms() {
    let telemetry = telemetry();
    let engine = telemetry.engine(REPLICA);
    let n = 10;
    let p = 6;
    let m = 10;
    for _ in 0..n {
        request(&engine, p, m);
    }
    let expected = [
        ("vllm:time_to_first_token_seconds_count", n),
        ("vllm:inter_token_latency_seconds_count", n * (m - 1)),
        ("vllm:e2e_request_latency_seconds_count", n),
        ("vllm:request_queue_time_seconds_count", n),
        ("vllm:request_inference_time_seconds_count", n),
        ("vllm:request_prefill_time_seconds_count", n),
        ("vllm:request_decode_time_seconds_count", n),
        ("vllm:request_time_per_output_token_seconds_count", n),
        ("vllm:request_num_preemptions_count", n),
        ("vllm:request_prompt_tokens_sum", n * p),
        ("vllm:request_prompt_tokens_count", n),
        ("vllm:request_generation_tokens_sum", n * m),
        ("vllm:request_params_n_count", n),
        ("vllm:request_params_max_tokens_sum", n * m),
        ("vllm:iteration_tokens_total_sum", n * (p + m)),
        ("vllm:iteration_tokens_total_count", n * m),
        ("vllm:prompt_tokens_total", n * p),
        ("vllm:generation_tokens_total", n * m),
    ];
    for (name, expected) in expected {
        assert_eq!(value(&telemetry, name, "stage=\"2\""), expected as f64, "{name}");
    }
    assert_eq!(
        value(
            &telemetry,
            "vllm:request_success_total",
            "finished_reason=\"length\""
        ),
        n as f64
    );
}

#[test]
fn sources_of_prompt_tokens_add_up_and_one_token_is_always_computed() {
    let telemetry = telemetry();
    let engine = telemetry.engine(REPLICA);
    let prompt = |cached_tokens| IterationRecord {
        prompt_tokens: 1000,
        cached_tokens,
        new_tokens: 1,
    };
    engine.iteration(&prompt(1000));
    let source = |source: &str| value(&telemetry, "vllm:prompt_tokens_by_source_total", source);
    assert_eq!((source("local_cache_hit"), source("local_compute")), (999.0, 1.0));
    engine.iteration(&prompt(400));
    assert_eq!(
        (source("local_cache_hit"), source("local_compute")),
        (1399.0, 601.0)
    );
    assert_eq!(value(&telemetry, "vllm:prompt_tokens_total", "stage"), 2000.0);
    assert_eq!(
        value(&telemetry, "vllm:prompt_tokens_cached_total", "stage"),
        1399.0
    );
}

fn scheduler(running: u64, queries: u64) -> SchedulerRecord {
    SchedulerRecord {
        running,
        waiting_for_capacity: 2,
        deferred: 3,
        kv_usage: 0.25,
        prefix_requests: 1,
        prefix_queries: queries,
        prefix_hits: queries / 2,
    }
}

#[test]
fn a_reader_sees_the_latest_step_and_no_delta_is_lost_however_fast_steps_come() {
    let telemetry = telemetry();
    let engine = telemetry.engine(REPLICA);
    for step in 0..100 {
        engine.stepped(&scheduler(step, 4));
    }
    let read = |name: &str| value(&telemetry, name, "stage=\"2\"");
    assert_eq!(read("vllm:num_requests_running"), 99.0);
    assert_eq!(read("vllm:num_requests_waiting"), 5.0);
    assert_eq!(read("vllm:kv_cache_usage_perc"), 0.25);
    assert_eq!(read("vllm:prefix_cache_queries_total"), 400.0);
    assert_eq!(read("vllm:prefix_cache_hits_total"), 200.0);
    let by_tier = value(
        &telemetry,
        "vllm:prompt_tokens_cached_by_source_total",
        "source=\"device\"",
    );
    assert_eq!(by_tier, 200.0);
    engine.stepped(&SchedulerRecord::default());
    assert_eq!(read("vllm:num_requests_running"), 0.0);
}

#[test]
fn a_replica_that_comes_back_takes_up_its_series() {
    let telemetry = telemetry();
    for _ in 0..2 {
        let engine = telemetry.engine(REPLICA);
        engine.preempted();
    }
    assert_eq!(
        value(&telemetry, "vllm:num_preemptions_total", "stage=\"2\""),
        2.0
    );
}

#[test]
fn the_cache_is_told_with_its_size_in_tokens_and_its_concurrency() {
    let telemetry = telemetry();
    let engine = telemetry.engine(REPLICA);
    engine.initialised(&CacheConfig {
        block_size: 16,
        dtype: "float32".to_owned(),
        prefix_caching: false,
        blocks: 100,
        bytes: 4096,
        max_model_len: 640,
    });
    let labels =
        "kv_cache_max_concurrency=\"2.50\",kv_cache_memory_bytes=\"4096\",kv_cache_size_tokens=\"1600\"";
    assert_eq!(value(&telemetry, "vllm:cache_config_info", labels), 1.0);
}

#[test]
fn a_replica_that_was_forgotten_and_comes_back_has_series_that_are_read() {
    let telemetry = telemetry();
    for _ in 0..2 {
        let engine = telemetry.engine(REPLICA);
        engine.preempted();
        assert_eq!(
            value(&telemetry, "vllm:num_preemptions_total", "stage=\"2\""),
            1.0
        );
        telemetry.forget_replica(REPLICA);
        let text = telemetry.exposition().render(&Selection::default());
        assert!(!text.contains("replica=\"1\",stage=\"2\""), "{text}");
    }
}

#[test]
fn a_worker_that_was_forgotten_has_no_series_and_the_others_keep_theirs() {
    let telemetry = Telemetry::new(&TelemetryOptions {
        catalogue: CatalogueOptions {
            enable: vec!["torchserve".to_owned()],
            ..CatalogueOptions::default()
        },
        ..TelemetryOptions::default()
    })
    .expect("good options");
    let torchserve = TorchServeInstruments::new(telemetry.meter(), "tiny", "default");
    for worker in ["talker-1", "talker-10"] {
        torchserve.worker_loaded(worker, ms(900));
    }
    telemetry.forget_worker("talker-1");
    assert_eq!(value(&telemetry, "WorkerLoadTime", "talker-10"), 900.0);
    assert_eq!(telemetry.exposition().series("WorkerLoadTime"), 1);
}

#[test]
fn replicas_may_come_and_go_for_ever() {
    let telemetry = telemetry();
    for replica in 0..5_000 {
        let replica = Replica { stage: 2, replica };
        let engine = telemetry.engine(replica);
        engine.lost(FinishReason::Error, ms(1));
        telemetry.forget_replica(replica);
    }
    request(
        &telemetry.engine(Replica {
            stage: 2,
            replica: 5_000,
        }),
        6,
        10,
    );
    let ended = "finished_reason=\"length\"";
    assert_eq!(value(&telemetry, "vllm:request_success_total", ended), 1.0);
}
