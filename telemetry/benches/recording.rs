//! Costs of recording and of reading.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use omni_telemetry::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Three stages of four replicas, with traffic on every engine and edge.
fn server() -> (Telemetry, Vec<EngineInstruments>) {
    let options = TelemetryOptions {
        catalogue: CatalogueOptions {
            pending: true,
            ..CatalogueOptions::default()
        },
        model_name: Some("Qwen/Qwen3-Omni-30B-A3B-Instruct".to_owned()),
        ..TelemetryOptions::default()
    };
    let telemetry = Telemetry::new(&options).expect("good options");
    let replicas: Vec<_> = (0..12)
        .map(|index| Replica {
            stage: index / 4,
            replica: index % 4,
        })
        .collect();
    let mut engines = Vec::new();
    for replica in &replicas {
        let engine = telemetry.engine(*replica);
        request(&engine);
        engines.push(engine);
    }
    for from in &replicas {
        for to in replicas.iter().filter(|to| to.stage == from.stage + 1) {
            EdgeInstruments::new(telemetry.meter(), *from, *to).hop(&hop());
        }
    }
    for replica in &replicas[8..] {
        let audio = AudioInstruments::new(telemetry.meter(), *replica);
        audio.first_packet(ms(80));
    }
    for method in ["Speak", "Synthesize", "Converse", "Generate"] {
        GrpcInstruments::new(telemetry.meter(), CallKind::BidiStream, "omni.v1.Service", method).started();
    }
    let _ = SessionInstruments::new(telemetry.meter());
    collect_system(telemetry.exposition(), telemetry.meter());
    (telemetry, engines)
}

fn hop() -> HopRecord {
    HopRecord {
        size: 4096,
        tx: ms(1),
        in_flight: ms(2),
        rx: ms(1),
    }
}

/// One request of 20 tokens through one engine.
fn request(engine: &EngineInstruments) {
    let mut timeline = Timeline::default();
    timeline.queued(ms(0));
    timeline.scheduled(ms(1));
    for step in 0..20 {
        engine.iteration(&IterationRecord {
            prompt_tokens: if step == 0 { 100 } else { 0 },
            cached_tokens: 0,
            new_tokens: 1,
        });
        match timeline.output(ms(2 + step * 10), 1) {
            Output::First => engine.first_output(ms(3)),
            Output::Next(gap) => engine.next_output(gap),
        }
    }
    engine.finished(&FinishedRequest {
        reason: FinishReason::Stop,
        latency: ms(300),
        intervals: timeline.intervals(),
        prompt_tokens: 100,
        cached_tokens: 0,
        max_tokens: Some(100),
    });
}

fn held_handles(criterion: &mut Criterion) {
    let (telemetry, _engines) = server();
    let meter = telemetry.meter();
    let counter = meter.counter(families::GRPC_SERVER_MSG_SENT_TOTAL, ["unary", "s", "m"]);
    criterion.bench_function("held counter", |bencher| {
        bencher.iter(|| counter.increment(black_box(1)));
    });
    let gauge = meter.gauge(families::OMNI_NUM_REQUESTS_RUNNING, []);
    criterion.bench_function("held gauge", |bencher| bencher.iter(|| gauge.set(black_box(3.0))));
    let real = meter.float_counter(families::PROCESS_CPU_SECONDS_TOTAL, []);
    criterion.bench_function("held real counter", |bencher| {
        bencher.iter(|| real.add(black_box(0.5)));
    });
    let histogram = meter.histogram(families::INTER_TOKEN_LATENCY_SECONDS, ["0"]);
    criterion.bench_function("held histogram", |bencher| {
        bencher.iter(|| histogram.record(black_box(0.42)));
    });
}

fn requests(criterion: &mut Criterion) {
    let (_telemetry, engines) = server();
    criterion.bench_function("one engine's part in a request of 20 tokens", |bencher| {
        bencher.iter(|| request(black_box(&engines[0])));
    });
    let record = SchedulerRecord {
        running: 3,
        kv_usage: 0.5,
        ..SchedulerRecord::default()
    };
    criterion.bench_function("a step's scheduler record", |bencher| {
        bencher.iter(|| engines[0].stepped(black_box(&record)));
    });
}

fn reading(criterion: &mut Criterion) {
    let (telemetry, _engines) = server();
    let text = telemetry.exposition().render(&Selection::default());
    let name = format!(
        "render 3 stages x 4 replicas ({} lines, {} KiB)",
        text.lines().count(),
        text.len() / 1024
    );
    criterion.bench_function(&name, |bencher| {
        bencher.iter(|| telemetry.exposition().render(&Selection::default()));
    });
}

criterion_group!(benches, held_handles, requests, reading);
criterion_main!(benches);
