//! A pipeline of a scripted voice, whose stages are threads, or each at the other end of a socket.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use omni_engine::{StageNode, Stamp};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{IgnoreEdges, LinkError, Peer, RemoteParts, StageNames, called, remote_stage};
use omni_pipeline::orchestrator::{
    Pipeline, PipelineParts, PipelineStage, Segment, SegmentSpec, SpeechOutput,
};
use omni_pipeline::request::{SpeechHead, SpeechRequest};
use omni_pipeline::settings::{Handover, Restart, Routing};
use omni_pipeline::stage::{
    Changes, End, IgnoreEngines, MakeReplica, PoolParts, ReplicaId, ReplicaState, ReplicaStatus, StagePool,
    TurnTimeouts,
};
use parking_lot::Mutex;

use super::voice::{ACOUSTIC, PER_FRAME, SEED, Script, VOCODER, VOICE};

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Frames that may be ahead of the reader on either edge: few, so that much is left when a process is lost.
pub(crate) const AHEAD: u32 = 4;

/// Place of the stages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Placement {
    Threads,
    Processes,
}

pub(crate) struct Machine {
    pub(crate) pipeline: Arc<Pipeline>,
    lines: Lines,
}

/// Sockets to the stages that are in processes.
type Lines = Arc<Mutex<HashMap<(&'static str, ReplicaId), UnixStream>>>;

struct Host(JoinHandle<Result<(), LinkError>>);

impl Peer for Host {
    fn end(self: Box<Self>, _patience: Duration) -> String {
        match self.0.join() {
            Ok(ended) => format!("it ended with {ended:?}"),
            Err(_) => "it panicked".to_owned(),
        }
    }
}

fn stage_names() -> StageNames {
    [ACOUSTIC, VOCODER].into()
}

fn restart() -> Restart {
    let delay = Duration::from_millis(1);
    Restart {
        first_delay: delay,
        max_delay: delay,
        healthy_after: delay,
    }
}

/// Serves a replica of `stage` until the other side hangs up.
fn serve(stage: &'static str, script: Script, socket: UnixStream) -> Result<(), LinkError> {
    let mut session = called(socket, stage_names(), Clock::start())?;
    session.answer()?;
    let changes = Changes::default();
    let status = ReplicaStatus::new(stage, ReplicaId(0), restart(), changes.clone());
    let status = status.observed_by(session.listener());
    let (handle, body) = script.launch(stage, status.clone());
    let thread = std::thread::spawn(move || body.run());
    let timeouts = TurnTimeouts {
        step: PATIENCE,
        load: PATIENCE,
    };
    let served = session.serve(handle, status, &changes, timeouts);
    thread.join().expect("the stage does not panic");
    served
}

fn remote(stage: &'static str, script: Script, lines: Lines) -> MakeReplica {
    Box::new(move |status| {
        let id = status.id();
        let lines = Arc::clone(&lines);
        let script = script.clone();
        let transport = move || {
            let (here, there) = UnixStream::pair()?;
            lines.lock().insert((stage, id), there.try_clone()?);
            let script = script.clone();
            let host = std::thread::spawn(move || serve(stage, script, there));
            Ok((here, Box::new(Host(host)) as _))
        };
        let parts = RemoteParts {
            transport: Box::new(transport),
            settings: b"as usual".to_vec(),
            stages: stage_names(),
            mailbox: 16,
            load_timeout: PATIENCE,
            silence_timeout: PATIENCE,
        };
        remote_stage(parts, status, Clock::start())
    })
}

pub(crate) fn tokens(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

impl Machine {
    pub(crate) async fn start(script: Script, placement: Placement, replicas: u32) -> Self {
        let machine = Self::build(&script, placement, replicas);
        machine.until_ready().await;
        machine
    }

    /// One whose stages may still be loading.
    pub(crate) fn build(script: &Script, placement: Placement, replicas: u32) -> Self {
        let lines = Lines::default();
        let changes = Changes::default();
        let graph = script.graph();
        let stage = |node: &StageNode| {
            let name = node.name;
            let script = script.clone();
            let make: MakeReplica = match placement {
                Placement::Threads => Box::new(move |status| script.clone().launch(name, status)),
                Placement::Processes => remote(name, script, Arc::clone(&lines)),
            };
            let parts = PoolParts {
                stage: name,
                make,
                start: Arc::new(|_, body| std::thread::Builder::new().spawn(|| body.run()).map(drop)),
                devices: vec!["cpu".to_owned()],
                formats: vec!["f32".to_owned()],
                routing: Routing::RoundRobin,
                restart: restart(),
                steps: None,
                joined: false,
                changes: changes.clone(),
                listen: Arc::new(|_, _| Arc::new(IgnoreEngines)),
            };
            PipelineStage {
                pool: StagePool::new(parts, replicas).expect("it starts"),
                capacity: AHEAD,
            }
        };
        let parts = PipelineParts {
            stages: graph.stages.iter().map(stage).collect(),
            graph,
            text_batches: 4,
            samples_per_frame: PER_FRAME as u32,
            changes,
            handover: Handover {
                attempts: 2,
                wait: PATIENCE,
            },
            edge_sink: Arc::new(IgnoreEdges),
            let_go: Arc::new(|_| {}),
            clock: Clock::start(),
        };
        let pipeline = Pipeline::new(parts).expect("the graph can be run");
        Self { pipeline, lines }
    }

    pub(crate) async fn until_ready(&self) {
        let mut changes = self.pipeline.changes().follow();
        let all = || {
            let mut views = self.pipeline.pools().flat_map(StagePool::replicas);
            views.all(|view| view.state == ReplicaState::Ready)
        };
        let ready = async {
            while !all() {
                changes.changed().await.expect("it lives as long as we");
            }
        };
        tokio::time::timeout(PATIENCE, ready)
            .await
            .expect("all are ready");
    }

    pub(crate) fn spec(&self, text: &str, open: bool) -> SegmentSpec {
        let head = SpeechHead {
            voice: VOICE.to_owned(),
            seed: SEED,
            ..SpeechHead::default()
        };
        SegmentSpec {
            request: SpeechRequest {
                head,
                ..SpeechRequest::default()
            },
            recording: None,
            tokens: tokens(text),
            open,
            writer: None,
            arrived: Stamp::default(),
            request_held: self.pipeline.request(),
            trace: None,
        }
    }

    pub(crate) fn begin(&self, spec: SegmentSpec) -> Speech {
        Speech {
            segment: self.pipeline.speak(spec, &mut None).expect("it is taken"),
            samples: Vec::new(),
            frames: 0,
        }
    }

    pub(crate) fn speak(&self, text: &str, open: bool) -> Speech {
        self.begin(self.spec(text, open))
    }

    /// Speech without a disturbance.
    pub(crate) async fn whole(&self, text: &str) -> Speech {
        let mut speech = self.speak(text, false);
        assert_eq!(speech.until(usize::MAX).await, Some(End::Stop));
        speech
    }

    /// Breaks the connections to the replicas of `stages` that work on `speech`, as the end of their processes does.
    pub(crate) fn lose(&self, stages: &[&'static str], speech: &Speech) {
        for (stage, reading) in speech.segment.progress() {
            if stages.contains(&stage) {
                let id = reading.replica.expect("it is bound");
                let lines = self.lines.lock();
                lines[&(stage, id)].shutdown(Shutdown::Both).expect("it is there");
            }
        }
    }
}

pub(crate) struct Speech {
    pub(crate) segment: Segment,
    pub(crate) samples: Vec<f32>,
    pub(crate) frames: u32,
}

impl Speech {
    /// Reads until `samples` samples have arrived; returns the end, if that comes first.
    pub(crate) async fn until(&mut self, samples: usize) -> Option<End> {
        while self.samples.len() < samples {
            let output = tokio::time::timeout(PATIENCE, self.segment.next()).await;
            match output.expect("it goes on") {
                SpeechOutput::Audio(piece) => {
                    self.samples.extend(piece.samples);
                    self.frames += piece.frames;
                }
                SpeechOutput::TextDone => {}
                SpeechOutput::End(end) => return Some(end),
            }
        }
        None
    }
}
