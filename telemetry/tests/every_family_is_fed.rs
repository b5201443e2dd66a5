//! Nothing is declared that is never fed: one of every event feeds every family.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use omni_telemetry::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Telemetry with everything on that can be on.
fn telemetry() -> Telemetry {
    let options = TelemetryOptions {
        catalogue: CatalogueOptions {
            enable: vec!["torchserve".to_owned()],
            pending: true,
            ..CatalogueOptions::default()
        },
        model_name: Some("tiny".to_owned()),
        hostname: "here".to_owned(),
        ..TelemetryOptions::default()
    };
    Telemetry::new(&options).expect("good options")
}

const TALKER: Replica = Replica { stage: 0, replica: 0 };
const VOCODER: Replica = Replica { stage: 1, replica: 0 };

fn feed_pipeline(meter: &Meter) {
    let info = |replica, name: &str, kind| StageInfo {
        replica,
        name: name.to_owned(),
        kind,
        device: "cpu".to_owned(),
    };
    let stages = [
        info(TALKER, "talker", StageKind::Llm),
        info(VOCODER, "code2wav", StageKind::Generation),
    ];
    let pipeline = PipelineInstruments::new(meter, "0.1.0", &stages);
    pipeline.in_flight(1, 2);
    pipeline.stage_waiting(TALKER, 1);
    pipeline.replica_takes_work(TALKER, true);
    pipeline.stage_stuck(TALKER.stage, 1);
    pipeline.cancelled(ms(3));
    let share = |replica, kind| StageRecord {
        replica,
        kind,
        generation: Some(ms(100)),
        tokens_in: 5,
        tokens_out: 7,
    };
    let mut record = RequestRecord {
        id: "r".to_owned(),
        outcome: RequestOutcome::Stop,
        latency: ms(200),
        queue_wait: Some(Duration::ZERO),
        text_wait: Some(ms(40)),
        stages: vec![
            share(TALKER, StageKind::Llm),
            share(VOCODER, StageKind::Generation),
        ],
    };
    pipeline.finished(&record);
    record.outcome = RequestOutcome::Failed(FailureReason::StageError);
    pipeline.finished(&record);
    let session = SessionInstruments::new(meter);
    session.opened();
    session.opened();
    session.closed(ms(500));
    session.rejected(RejectionReason::Requests);
    session.stream_completed();
    session.stream_aborted(StreamAbort::Cancelled);
    session.silent(Silence::Model);
}

fn feed_audio(meter: &Meter) {
    let audio = AudioInstruments::new(meter, VOCODER);
    audio.first_packet(ms(80));
    audio.next_chunk(ms(70), ms(10));
    let record = AudioRecord {
        frames: 24_000,
        sample_rate: 24_000,
        generation: ms(250),
        worst_underrun: Some(ms(30)),
        level: Some(0.1),
        complete: true,
    };
    audio.finished(&record);
    audio.finished(&AudioRecord {
        frames: 0,
        worst_underrun: None,
        ..record
    });
    let edge = EdgeInstruments::new(meter, TALKER, VOCODER);
    edge.hop(&HopRecord {
        size: 128,
        tx: ms(1),
        in_flight: ms(2),
        rx: ms(3),
    });
}

fn feed_engine(telemetry: &Telemetry) {
    let engine = telemetry.engine(TALKER);
    engine.initialised(&CacheConfig {
        block_size: 16,
        dtype: "float32".to_owned(),
        prefix_caching: true,
        blocks: 100,
        bytes: 1 << 20,
        max_model_len: 400,
    });
    let record = SchedulerRecord {
        running: 1,
        waiting_for_capacity: 2,
        deferred: 3,
        kv_usage: 0.5,
        prefix_requests: 1,
        prefix_queries: 10,
        prefix_hits: 5,
    };
    engine.stepped(&record);
    let mut timeline = Timeline::default();
    timeline.queued(ms(0));
    timeline.scheduled(ms(10));
    engine.iteration(&IterationRecord {
        prompt_tokens: 8,
        cached_tokens: 4,
        new_tokens: 1,
    });
    timeline.output(ms(20), 1);
    engine.first_output(ms(30));
    timeline.preempted();
    engine.preempted();
    if let Output::Next(gap) = timeline.output(ms(40), 1) {
        engine.next_output(gap);
    }
    engine.starved();
    engine.finished(&FinishedRequest {
        reason: FinishReason::Stop,
        latency: ms(60),
        intervals: timeline.intervals(),
        prompt_tokens: 8,
        cached_tokens: 4,
        max_tokens: Some(100),
    });
}

struct OneGpu;

impl GpuReader for OneGpu {
    fn read(&self) -> Vec<GpuReading> {
        vec![GpuReading {
            busy: Some(0.5),
            memory_busy: Some(0.25),
            memory: Some((1, 2)),
            power: Some(100.0),
            temperature: Some(40.0),
        }]
    }
}

fn feed_rest(telemetry: &Telemetry) {
    let meter = telemetry.meter();
    let call = GrpcInstruments::new(meter, CallKind::BidiStream, "omni.v1.SpeechService", "Speak");
    call.started();
    call.received();
    call.sent();
    call.handled(GrpcCode(0), ms(100));
    let torchserve = TorchServeInstruments::new(meter, "tiny", "default");
    torchserve.worker_loaded("W-0", ms(900));
    torchserve.arrived();
    let request = TorchServeRequest {
        total: ms(100),
        queue: ms(10),
        prediction: ms(80),
        handler: ms(70),
    };
    torchserve.took("r", &request);
    HttpInstruments::new(meter).answered(&HttpExchange {
        handler: "/v1/audio/speech",
        method: "POST",
        works: true,
        status: 200,
        request_bytes: 60,
        response_bytes: 4_000,
        took: ms(90),
    });
    let own = OneProcess {
        cpu: 1.5,
        resident: 4096.0,
        started: 1e9,
    };
    OwnProcessInstruments::new(meter, TALKER).is(Some((7, own)));
    HearingInstruments::new(meter, TALKER).looked_for(2, 1);
    let exposition = telemetry.exposition();
    collect_system(exposition, meter);
    exposition.collect_from(Arc::new(GpuCollector::new(meter, OneGpu)));
    ExporterInstruments::new(meter).scraped();
    ExporterInstruments::new(meter).pushes_every(ms(15_000));
    drop(Arc::new(ConnectionInstruments::new(meter, Listener::Callers)).open());
    ComputingInstruments::new(meter, "cuda:0").until_now(&ComputingStats {
        launches: 1,
        graph_launches: 2,
        graphs: 3,
        replays: 4,
        fallbacks: 5,
    });
    CertificateInstrument::new(meter).expires(SystemTime::now());
    ProtocolInstruments::new(meter, Protocol::Wyoming).ended(RequestResult::Ok);
    feed_voices(&VoiceInstruments::new(meter));
    TraceInstruments::new(meter).exported(1);
}

fn feed_voices(voices: &VoiceInstruments) {
    voices.encoding_began();
    voices.looked_up(true);
    voices.evicted();
    voices.encoded(VoiceKind::InContext, ms(900));
    voices.encoding_ended();
    voices.created(VoiceMaterial::Recording, VoiceCreation::Kept);
    voices.kept(|_| 1, 4_096);
    voices.requested(VoiceProvenance::Kept, VoiceKind::InContext);
    voices.deleted(VoiceDeletion::Deleted);
}

/// The lines of samples in `text`.
fn samples(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

fn fed() -> Telemetry {
    let telemetry = telemetry();
    feed_pipeline(telemetry.meter());
    feed_audio(telemetry.meter());
    feed_engine(&telemetry);
    feed_rest(&telemetry);
    telemetry
}

#[test]
fn every_declared_family_has_a_series_and_every_histogram_a_sample() {
    let telemetry = fed();
    let text = telemetry.exposition().render(&Selection::default());
    let mut missing = Vec::new();
    for family in telemetry.schema().served() {
        let name = match family.kind {
            FamilyKind::Histogram | FamilyKind::Summary => format!("{}_count", family.name),
            _ => family.name.to_string(),
        };
        let mut own = samples(&text).filter(|line| {
            line.strip_prefix(name.as_str())
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        let fed = match family.kind {
            FamilyKind::Histogram | FamilyKind::Summary => own.any(|line| !line.ends_with(" 0.0")),
            _ => own.next().is_some(),
        };
        if !fed {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "never fed: {missing:?}");
}

#[test]
fn nothing_is_refused_on_the_way() {
    let telemetry = fed();
    let refused: Vec<_> = DropReason::ALL
        .into_iter()
        .filter(|reason| telemetry.drops().total(*reason) > 0)
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn no_series_is_there_twice_and_every_sample_has_the_labels_of_its_family() {
    let telemetry = fed();
    let text = telemetry.exposition().render(&Selection::default());
    let mut seen = std::collections::BTreeSet::new();
    for line in samples(&text) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        assert!(seen.insert(series.to_owned()), "{series} is there twice");
        value.parse::<f64>().expect("a number");
        assert!(!series.contains("engine="), "{series}");
    }
    for family in telemetry.schema().served() {
        for label in family.exposed_labels() {
            let missing = samples(&text)
                .filter(|line| line.starts_with(&format!("{}{{", family.name)))
                .find(|line| !line.contains(&format!("{label}=\"")));
            assert_eq!(missing, None, "{label}");
        }
    }
}

#[test]
fn closed_sets_of_values_exist_at_zero_before_traffic() {
    let telemetry = telemetry();
    let engine = telemetry.engine(TALKER);
    let pipeline = PipelineInstruments::new(telemetry.meter(), "0.1.0", &[]);
    let audio = AudioInstruments::new(telemetry.meter(), VOCODER);
    let text = telemetry.exposition().render(&Selection::default());
    for expected in [
        "vllm:request_success_total{finished_reason=\"repetition\",model_name=\"tiny\",replica=\"0\",stage=\"0\"} 0.0",
        "vllm:num_requests_waiting_by_reason{model_name=\"tiny\",reason=\"deferred\",replica=\"0\",stage=\"0\"} 0.0",
        "vllm:prompt_tokens_by_source_total{model_name=\"tiny\",replica=\"0\",source=\"external_kv_transfer\",stage=\"0\"} 0.0",
        "vllm:omni_requests_failed_total{model_name=\"tiny\",reason=\"client_disconnect\"} 0.0",
        "vllm:omni_audio_continuity_ok_total{model_name=\"tiny\",replica=\"0\",stage=\"1\",threshold_ms=\"100\"} 0.0",
        "vllm:engine_sleep_state{model_name=\"tiny\",replica=\"0\",sleep_state=\"awake\",stage=\"0\"} 1.0",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    drop((engine, pipeline, audio));
}
