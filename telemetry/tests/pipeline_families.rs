//! Requests and audio are counted once, whatever becomes of them.

use std::time::Duration;

use omni_telemetry::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn replica(replica: u32) -> Replica {
    Replica { stage: 1, replica }
}

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

fn value(telemetry: &Telemetry, name: &str, label: &str) -> f64 {
    let text = telemetry.exposition().render(&Selection::of([name.to_owned()]));
    let line = text
        .lines()
        .find(|line| line.starts_with(name) && line.contains(label))
        .unwrap_or_else(|| panic!("{name} with {label} in\n{text}"));
    line.rsplit_once(' ')
        .expect("a value")
        .1
        .parse()
        .expect("a number")
}

fn info(id: u32) -> StageInfo {
    StageInfo {
        replica: replica(id),
        name: "code2wav".to_owned(),
        kind: StageKind::Generation,
        device: "cpu".to_owned(),
    }
}

#[test]
fn a_failure_counts_as_abort_and_leaves_latency_alone() {
    let telemetry = telemetry();
    let pipeline = PipelineInstruments::new(telemetry.meter(), "1", &[info(0)]);
    pipeline.finished(&RequestRecord {
        id: String::new(),
        outcome: RequestOutcome::Failed(FailureReason::ClientDisconnect),
        latency: ms(10),
        queue_wait: None,
        text_wait: None,
        stages: Vec::new(),
    });
    let success = |reason: &str| value(&telemetry, "vllm:omni_requests_success_total", reason);
    assert_eq!((success("\"abort\""), success("\"stop\"")), (1.0, 0.0));
    assert_eq!(
        value(&telemetry, "vllm:omni_requests_failed_total", "client_disconnect"),
        1.0
    );
    assert_eq!(
        value(&telemetry, "vllm:omni_e2e_request_latency_s_count", ""),
        0.0
    );
    assert_eq!(value(&telemetry, "vllm:omni_request_queue_wait_s_count", ""), 0.0);
}

#[test]
fn an_answer_that_went_in_circles_is_neither_at_a_limit_nor_a_failure() {
    let telemetry = telemetry();
    let pipeline = PipelineInstruments::new(telemetry.meter(), "1", &[info(0)]);
    pipeline.finished(&RequestRecord {
        id: String::new(),
        outcome: RequestOutcome::Repetition,
        latency: ms(10),
        queue_wait: Some(ms(1)),
        text_wait: Some(ms(0)),
        stages: Vec::new(),
    });
    for (reason, expected) in [
        ("repetition", 1.0),
        ("length", 0.0),
        ("stop", 0.0),
        ("abort", 0.0),
    ] {
        let label = format!("finished_reason=\"{reason}\"");
        let counted = value(&telemetry, "vllm:omni_requests_success_total", &label);
        assert_eq!(counted, expected, "{reason}");
    }
    assert_eq!(
        value(&telemetry, "vllm:omni_e2e_request_latency_s_count", ""),
        1.0
    );
}

#[test]
fn a_stage_waits_as_much_as_its_live_replicas_together() {
    let telemetry = telemetry();
    let pipeline = PipelineInstruments::new(telemetry.meter(), "1", &[info(0), info(1)]);
    let waiting = || value(&telemetry, "vllm:omni_stage_waiting_requests", "stage=\"1\"");
    pipeline.stage_waiting(replica(0), 3);
    pipeline.stage_waiting(replica(1), 4);
    assert_eq!(waiting(), 7.0);
    pipeline.replica_left(replica(0));
    assert_eq!(waiting(), 4.0);
    pipeline.stage_waiting(replica(1), 0);
    assert_eq!(waiting(), 0.0);
}

fn audio(frames: u64, underrun: Option<u64>, complete: bool) -> AudioRecord {
    AudioRecord {
        frames,
        sample_rate: 24_000,
        generation: ms(500),
        worst_underrun: underrun.map(ms),
        level: Some(0.1),
        complete,
    }
}

#[test]
fn thresholds_of_continuity_are_inclusive() {
    let telemetry = telemetry();
    let instruments = AudioInstruments::new(telemetry.meter(), replica(0));
    for underrun in [0, 50, 51, 100, 101, 200, 201] {
        instruments.finished(&audio(24_000, Some(underrun), true));
    }
    let ok = |threshold: &str| value(&telemetry, "vllm:omni_audio_continuity_ok_total", threshold);
    assert_eq!(ok("\"100\""), 4.0);
    assert_eq!(value(&telemetry, "vllm:omni_audio_underrun_s_count", ""), 7.0);
}

#[test]
fn rtf_is_generation_over_playing_time() {
    let telemetry = telemetry();
    let instruments = AudioInstruments::new(telemetry.meter(), replica(0));
    instruments.finished(&audio(48_000, Some(0), true));
    assert_eq!(value(&telemetry, "vllm:omni_audio_rtf_sum", ""), 0.25);
    assert_eq!(value(&telemetry, "vllm:omni_audio_duration_s_sum", ""), 2.0);
    assert_eq!(value(&telemetry, "vllm:omni_audio_frames_total", ""), 48_000.0);
}

#[test]
fn a_request_that_was_cut_off_has_no_rtf() {
    let telemetry = telemetry();
    let instruments = AudioInstruments::new(telemetry.meter(), replica(0));
    instruments.finished(&audio(24_000, Some(0), false));
    assert_eq!(value(&telemetry, "vllm:omni_audio_rtf_count", ""), 0.0);
    assert_eq!(value(&telemetry, "vllm:omni_audio_duration_s_count", ""), 1.0);
}

#[test]
fn silence_is_told_for_a_request_that_ended_well_and_not_for_one_that_was_aborted() {
    let telemetry = telemetry();
    let instruments = AudioInstruments::new(telemetry.meter(), replica(0));
    instruments.finished(&audio(0, None, false));
    instruments.finished(&audio(0, None, true));
    assert_eq!(
        value(
            &telemetry,
            "vllm:omni_audio_skipped_requests_total",
            "no_audio_data"
        ),
        1.0
    );
    assert_eq!(value(&telemetry, "vllm:omni_audio_rtf_count", ""), 0.0);
}

#[test]
fn an_aborted_request_is_counted_with_the_audio_it_got() {
    let telemetry = telemetry();
    let instruments = AudioInstruments::new(telemetry.meter(), replica(0));
    instruments.finished(&audio(12_000, Some(0), false));
    assert_eq!(value(&telemetry, "vllm:omni_audio_duration_s_sum", ""), 0.5);
}

#[test]
fn a_server_that_is_off_has_nothing_but_its_process() {
    let options = TelemetryOptions {
        off: true,
        ..TelemetryOptions::default()
    };
    let telemetry = Telemetry::new(&options).expect("good options");
    let instruments = AudioInstruments::new(telemetry.meter(), replica(0));
    instruments.finished(&audio(12_000, Some(0), true));
    let text = telemetry.exposition().render(&Selection::default());
    let families = text.lines().filter(|line| line.starts_with("# TYPE"));
    assert!(families.clone().count() > 0, "{text}");
    assert!(
        families.clone().all(|line| line.starts_with("# TYPE process_")),
        "{text}"
    );
    assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
}

#[test]
fn two_servers_in_one_process_count_for_themselves() {
    let one = telemetry();
    let two = telemetry();
    SessionInstruments::new(one.meter()).opened();
    let _idle = SessionInstruments::new(two.meter());
    let active = |telemetry| value(telemetry, "vllm:omni_sessions_active", "");
    assert_eq!((active(&one), active(&two)), (1.0, 0.0));
}

#[test]
fn the_newer_prefix_renames_what_the_instruments_feed() {
    let options = TelemetryOptions {
        catalogue: CatalogueOptions {
            prefix: Prefix::VllmOmniNewer,
            ..CatalogueOptions::default()
        },
        ..TelemetryOptions::default()
    };
    let telemetry = Telemetry::new(&options).expect("good options");
    SessionInstruments::new(telemetry.meter()).opened();
    assert_eq!(value(&telemetry, "vllm_omni:sessions_active", ""), 1.0);
    assert_eq!(telemetry.exposition().series("vllm:omni_sessions_active"), 0);
}

#[test]
fn grpc_codes_are_named_and_strange_ones_are_unknown() {
    let telemetry = telemetry();
    let call = GrpcInstruments::new(telemetry.meter(), CallKind::Unary, "s", "m");
    call.handled(GrpcCode(8), ms(1));
    call.handled(GrpcCode(99), ms(1));
    let handled = |code: &str| value(&telemetry, "grpc_server_handled_total", code);
    assert_eq!(
        (
            handled("\"OK\""),
            handled("\"ResourceExhausted\""),
            handled("\"Unknown\"")
        ),
        (0.0, 1.0, 1.0)
    );
}
