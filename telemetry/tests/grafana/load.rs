//! A server's day in small: requests, audio, hops and engines as a server would tell them, told to the instruments.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use omni_telemetry::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn at(stage: u32, replica: u32) -> Replica {
    Replica { stage, replica }
}

/// The name the model is served by.
pub(crate) const MODEL: &str = "tiny";

/// Replicas of a thinker, a talker and a vocoder.
const REPLICAS: [(Replica, &str, StageKind); 5] = [
    (at(0, 0), "thinker", StageKind::Llm),
    (at(1, 0), "talker", StageKind::Llm),
    (at(1, 1), "talker", StageKind::Llm),
    (at(2, 0), "code2wav", StageKind::Generation),
    (at(2, 1), "code2wav", StageKind::Generation),
];

/// Something that goes wrong with every call, or again and again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Incident {
    Outage,
    Overload,
    Silence,
    CrashLoop,
}

/// Everything that a server holds to record with.
pub(crate) struct Load {
    telemetry: Telemetry,
    pipeline: PipelineInstruments,
    sessions: SessionInstruments,
    engines: Vec<EngineInstruments>,
    audio: Vec<AudioInstruments>,
    edges: Vec<EdgeInstruments>,
    call: GrpcInstruments,
    http: HttpInstruments,
    process: OnceLock<OwnProcessInstruments>,
    /// True if something goes wrong now and then.
    trouble: AtomicBool,
}

impl Load {
    /// A server with everything on, before its first request.
    pub(crate) fn new() -> Self {
        let options = TelemetryOptions {
            catalogue: CatalogueOptions {
                pending: true,
                max_model_len: Some(4096),
                ..CatalogueOptions::default()
            },
            model_name: Some(MODEL.to_owned()),
            hostname: "here".to_owned(),
            ..TelemetryOptions::default()
        };
        let telemetry = Telemetry::new(&options).expect("good options");
        let meter = telemetry.meter();
        let stages = REPLICAS.map(|(replica, name, kind)| StageInfo {
            replica,
            name: name.to_owned(),
            kind,
            device: "cpu".to_owned(),
        });
        let hops = [
            (at(0, 0), at(1, 0)),
            (at(0, 0), at(1, 1)),
            (at(1, 0), at(2, 0)),
            (at(1, 1), at(2, 1)),
        ];
        let engine = |index| {
            let replica = REPLICAS[index as usize].0;
            telemetry.engine(replica)
        };
        let engines: Vec<_> = (0..REPLICAS.len() as u32).map(engine).collect();
        engines.iter().for_each(|engine| engine.initialised(&cache()));
        collect_system(telemetry.exposition(), meter);
        TraceInstruments::new(meter).exported(1);
        Self {
            pipeline: PipelineInstruments::new(meter, "0.1.0", &stages),
            sessions: SessionInstruments::new(meter),
            engines,
            audio: [at(2, 0), at(2, 1)]
                .map(|replica| AudioInstruments::new(meter, replica))
                .into(),
            edges: hops
                .map(|(from, to)| EdgeInstruments::new(meter, from, to))
                .into(),
            call: GrpcInstruments::new(meter, CallKind::BidiStream, "omni.v1.SpeechService", "Speak"),
            http: HttpInstruments::new(meter),
            process: OnceLock::new(),
            trouble: AtomicBool::new(false),
            telemetry,
        }
    }

    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// From now on every twentieth request is cancelled and every fiftieth fails, and callers set limits.
    pub(crate) fn get_into_trouble(&self) {
        self.trouble.store(true, Ordering::Relaxed);
    }

    /// A moment of an incident.
    pub(crate) fn suffer(&self, incident: Incident) {
        match incident {
            Incident::Outage => self.pipeline.failed(FailureReason::StageError),
            Incident::Overload => self.sessions.rejected(RejectionReason::Requests),
            Incident::Silence => self.sessions.silent(Silence::Model),
            Incident::CrashLoop => self.pipeline.replica_died(at(2, 1), 1),
        }
    }

    /// One more request. Times vary.
    pub(crate) fn request(&self, number: u64) {
        let varied = number * 7919 % 100;
        let trouble = self.trouble.load(Ordering::Relaxed);
        let failed = match number {
            _ if !trouble => None,
            _ if number % 50 == 49 => Some(FailureReason::StageError),
            _ if number % 20 == 19 => Some(FailureReason::ClientAbort),
            _ => None,
        };
        let pair = usize::from(number % 2 == 1);
        self.sessions.opened();
        self.call.started();
        self.call.received();
        self.pipeline.in_flight(3, varied % 2);
        for (replica, ..) in REPLICAS {
            self.pipeline.stage_waiting(replica, varied % 3);
            self.pipeline.replica_takes_work(replica, true);
            self.pipeline.stage_stuck(replica.stage, 0);
        }
        self.engine(0, varied, failed);
        self.engine(1 + pair, varied, failed);
        self.engine(3 + pair, varied, failed);
        self.edges.iter().for_each(|edge| edge.hop(&hop(varied)));
        self.listener(pair, varied, failed);
        self.ended(pair, number, varied, failed);
    }

    fn engine(&self, index: usize, varied: u64, failed: Option<FailureReason>) {
        let engine = &self.engines[index];
        engine.stepped(&SchedulerRecord {
            running: 2,
            waiting_for_capacity: varied % 2,
            deferred: varied % 3,
            kv_usage: varied as f64 / 200.0,
            prefix_requests: 1,
            prefix_queries: 64,
            prefix_hits: 32,
        });
        let mut timeline = Timeline::default();
        timeline.queued(ms(0));
        timeline.scheduled(ms(varied));
        engine.iteration(&outputs(64));
        timeline.output(ms(varied + 20), 1);
        engine.first_output(ms(varied + 30));
        for token in 1..10 {
            engine.iteration(&outputs(0));
            if let Output::Next(gap) = timeline.output(ms(varied + 20 + token * 30), 1) {
                engine.next_output(gap);
            }
        }
        engine.finished(&FinishedRequest {
            reason: if failed.is_some() {
                FinishReason::Abort
            } else {
                FinishReason::Stop
            },
            latency: ms(varied + 400),
            intervals: timeline.intervals(),
            prompt_tokens: 64,
            cached_tokens: 32,
            max_tokens: self.trouble.load(Ordering::Relaxed).then_some(256),
        });
    }

    fn listener(&self, pair: usize, varied: u64, failed: Option<FailureReason>) {
        let audio = &self.audio[pair];
        audio.first_packet(ms(100 + 5 * varied));
        for chunk in 1..5 {
            audio.next_chunk(ms(80 * chunk), ms(20 * chunk));
        }
        audio.finished(&AudioRecord {
            frames: 48_000,
            sample_rate: 24_000,
            generation: ms(600 + 5 * varied),
            worst_underrun: Some(ms(if varied > 97 { 150 } else { varied / 4 })),
            level: Some(0.1),
            complete: failed.is_none(),
        });
    }

    fn ended(&self, pair: usize, number: u64, varied: u64, failed: Option<FailureReason>) {
        let share = |index: usize| StageRecord {
            replica: REPLICAS[index].0,
            kind: REPLICAS[index].2,
            generation: Some(ms(200 + varied)),
            tokens_in: 64,
            tokens_out: 10,
        };
        self.pipeline.finished(&RequestRecord {
            id: number.to_string(),
            outcome: failed.map_or(RequestOutcome::Stop, RequestOutcome::Failed),
            latency: ms(500 + 10 * varied),
            queue_wait: Some(ms(varied)),
            text_wait: Some(ms(3 * varied)),
            stages: vec![share(0), share(1 + pair), share(3 + pair)],
        });
        if failed == Some(FailureReason::ClientAbort) {
            self.pipeline.cancelled(ms(varied));
        }
        match failed {
            None => self.sessions.stream_completed(),
            Some(_) => self.sessions.stream_aborted(StreamAbort::Cancelled),
        }
        self.call.sent();
        self.http.answered(&HttpExchange {
            handler: "/v1/audio/speech",
            method: "POST",
            works: true,
            status: 200,
            request_bytes: 80,
            response_bytes: 0,
            took: ms(300 + varied),
        });
        // While all is well every replica is a thread.
        if self.trouble.load(Ordering::Relaxed) {
            let now = OneProcess {
                cpu: number as f64,
                resident: 1e8,
                started: 1e9,
            };
            let process = || OwnProcessInstruments::new(self.telemetry.meter(), at(1, 0));
            self.process.get_or_init(process).is(Some((7, now)));
        }
        self.call.handled(GrpcCode(0), ms(700 + varied));
        self.sessions.closed(ms(900));
    }
}

fn cache() -> CacheConfig {
    CacheConfig {
        block_size: 16,
        dtype: "float32".to_owned(),
        prefix_caching: true,
        blocks: 1024,
        bytes: 1 << 24,
        max_model_len: 4096,
    }
}

fn hop(varied: u64) -> HopRecord {
    HopRecord {
        size: 4000 + 10 * varied,
        tx: Duration::from_micros(200 + varied),
        in_flight: Duration::from_micros(900 + 10 * varied),
        rx: Duration::from_micros(300 + varied),
    }
}

/// A device, for a machine that has none.
pub(crate) struct Gpu;

impl GpuReader for Gpu {
    fn read(&self) -> Vec<GpuReading> {
        vec![GpuReading {
            busy: Some(0.5),
            memory_busy: Some(0.25),
            memory: Some((20 << 30, 80 << 30)),
            power: Some(300.0),
            temperature: Some(60.0),
        }]
    }
}

/// One new token, behind a prompt of so many if it is the first.
fn outputs(prompt_tokens: u64) -> IterationRecord {
    IterationRecord {
        prompt_tokens,
        cached_tokens: prompt_tokens / 2,
        new_tokens: 1,
    }
}
