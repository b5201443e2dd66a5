//! Sequences that resume elsewhere after the process of a stage was lost.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use omni_engine::{ArConfig, ChunkConfig, StageNode, Stamp};
use omni_models::{CODE2WAV, QWEN3_OMNI, TALKER};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{LinkError, Peer, RemoteParts, called, remote_stage};
use omni_pipeline::orchestrator::{
    Pipeline, PipelineParts, PipelineStage, Segment, SegmentSpec, SpeechOutput,
};
use omni_pipeline::settings::{Handover, Routing};
use omni_pipeline::stage::{
    Changes, End, IgnoreEngines, MakeReplica, PoolParts, ReplicaId, ReplicaState, ReplicaStatus, StagePool,
    TurnTimeouts,
};
use omni_tests::{
    Chunks, FAKE_SAMPLES_PER_FRAME, FakeScript, FakeSpeech, SETTINGS, code2wav_stage, restart,
    speech_request, stage_names, talker_stage,
};
use parking_lot::Mutex;

use super::remote_stages::{PATIENCE, bits};

/// Frames that may be ahead of the reader on either edge: little, so that much is left when a process is lost.
const AHEAD: u32 = 4;
/// Most frames that are on their way between the talker and the reader besides: where the edges of the other side end,
/// and in the vocoder.
const ON_THEIR_WAY: usize = 128;

/// Many more frames than that. Of `~` there is no sound at all.
fn text() -> String {
    "It says some~thing, and goes on with ~~ the same words. ".repeat(6)
}

/// Two replicas of each stage, each at the other end of a socket. The scripts are those of their lives, in order; the
/// last one lasts.
struct Machine {
    pipeline: Arc<Pipeline>,
    lines: Lines,
}

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

/// Serves a replica of `stage` until the other side hangs up.
fn serve(stage: &'static str, script: FakeScript, socket: UnixStream) -> Result<(), LinkError> {
    let mut session = called(socket, stage_names(), Clock::start())?;
    session.answer()?;
    let changes = Changes::default();
    let status =
        ReplicaStatus::new(stage, ReplicaId(0), restart(), changes.clone()).observed_by(session.listener());
    let model = Arc::new(FakeSpeech::new(script));
    let (handle, body) = match stage {
        TALKER => talker_stage(model, (16, ArConfig::default()), status.clone()),
        _ => {
            let config = ChunkConfig::new(Duration::from_millis(40));
            code2wav_stage(model, (16, config), PATIENCE, status.clone())
        }
    };
    let thread = std::thread::spawn(move || body.run());
    let timeouts = TurnTimeouts {
        step: PATIENCE,
        load: PATIENCE,
    };
    let served = session.serve(handle, status, &changes, timeouts);
    thread.join().expect("the stage does not panic");
    served
}

fn replicas(stage: &'static str, scripts: Vec<FakeScript>, lines: Lines) -> MakeReplica {
    Box::new(move |status| {
        let id = status.id();
        let lines = Arc::clone(&lines);
        let scripts = scripts.clone();
        let mut lives = 0;
        let transport = move || {
            let (here, there) = UnixStream::pair()?;
            lines.lock().insert((stage, id), there.try_clone()?);
            let script = scripts[lives.min(scripts.len() - 1)].clone();
            lives += 1;
            let host = std::thread::spawn(move || serve(stage, script, there));
            Ok((here, Box::new(Host(host)) as _))
        };
        let parts = RemoteParts {
            transport: Box::new(transport),
            settings: SETTINGS.to_vec(),
            stages: stage_names(),
            mailbox: 16,
            load_timeout: PATIENCE,
            silence_timeout: PATIENCE,
        };
        remote_stage(parts, status, Clock::start())
    })
}

impl Machine {
    async fn start(scripts: Vec<FakeScript>, replicas_each: u32, attempts: u32) -> Self {
        let lines = Lines::default();
        let changes = Changes::default();
        let graph = QWEN3_OMNI.speech_only();
        let stage = |node: &StageNode| {
            let parts = PoolParts {
                stage: node.name,
                make: replicas(node.name, scripts.clone(), Arc::clone(&lines)),
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
                pool: StagePool::new(parts, replicas_each).expect("it starts"),
                capacity: AHEAD,
            }
        };
        let parts = PipelineParts {
            stages: graph.stages.iter().map(stage).collect(),
            graph,
            text_batches: 4,
            samples_per_frame: FAKE_SAMPLES_PER_FRAME,
            changes,
            handover: Handover {
                attempts,
                wait: PATIENCE,
            },
            edge_sink: Arc::new(Chunks::default()),
            let_go: Arc::new(|_| {}),
            clock: Clock::start(),
        };
        let pipeline = Pipeline::new(parts).expect("the graph can be run");
        let machine = Self { pipeline, lines };
        machine.until_ready().await;
        machine
    }

    async fn until_ready(&self) {
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

    fn speak(&self, text: &str, open: bool) -> Speech {
        let spec = SegmentSpec {
            request: speech_request("alto", 5, 1_000),
            recording: None,
            tokens: text.chars().map(u32::from).collect(),
            open,
            writer: None,
            arrived: Stamp::default(),
            request_held: self.pipeline.request(),
            trace: None,
        };
        let segment = self.pipeline.speak(spec, &mut None).expect("it is taken");
        Speech {
            segment,
            samples: Vec::new(),
            frames: 0,
        }
    }

    /// Breaks the connections to the replicas of `stages` that work on `speech`, as the end of their processes does.
    fn lose(&self, stages: &[&'static str], speech: &Speech) {
        for (stage, reading) in speech.segment.progress() {
            if stages.contains(&stage) {
                let id = reading.replica.expect("it is bound");
                let lines = self.lines.lock();
                lines[&(stage, id)].shutdown(Shutdown::Both).expect("it is there");
            }
        }
    }

    /// Speech without a disturbance.
    async fn whole(&self, text: &str) -> Speech {
        let mut speech = self.speak(text, false);
        assert_eq!(speech.until(usize::MAX).await, Some(End::Stop));
        speech
    }
}

struct Speech {
    segment: Segment,
    samples: Vec<f32>,
    frames: u32,
}

impl Speech {
    /// Reads until `samples` samples have arrived; returns the end, if that comes first.
    async fn until(&mut self, samples: usize) -> Option<End> {
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

/// Frames that sequences brought, of those that brought any.
fn brought(script: &FakeScript) -> Vec<usize> {
    script
        .prior
        .all()
        .into_iter()
        .filter(|count| *count > 0)
        .collect()
}

#[tokio::test]
async fn whichever_process_is_lost_and_whenever_the_rest_is_what_it_would_have_been() {
    let script = FakeScript::default();
    let machine = Machine::start(vec![script.clone()], 2, 1).await;
    let expected = machine.whole(&text()).await;
    let frames = expected.samples.len() / FAKE_SAMPLES_PER_FRAME as usize;
    for stages in [&[TALKER][..], &[CODE2WAV], &[TALKER, CODE2WAV]] {
        for heard in [0, 1, 5, 60, frames / 2, frames - 1, frames] {
            machine.until_ready().await;
            let before = brought(&script).len();
            let mut speech = machine.speak(&text(), false);
            assert_eq!(speech.until(heard * FAKE_SAMPLES_PER_FRAME as usize).await, None);
            let given = speech.samples.len() / FAKE_SAMPLES_PER_FRAME as usize;
            machine.lose(stages, &speech);
            let what = format!("{stages:?} behind {heard}");
            assert_eq!(speech.until(usize::MAX).await, Some(End::Stop), "{what}");
            assert!(bits(&speech.samples) == bits(&expected.samples), "{what}");
            assert_eq!(speech.frames, expected.frames, "{what}");
            let made: Vec<u32> = speech.segment.progress().iter().map(|(_, r)| r.outputs).collect();
            assert_eq!(made, [expected.frames; 2], "{what}: all frames are told of");
            // Audio in flight was delivered, so the loss may have come too late to change anything.
            let again = brought(&script).split_off(before);
            assert!(again.iter().all(|brought| *brought >= given), "{what}: {again:?}");
            assert!(
                given == 0 || given + ON_THEIR_WAY >= frames || again.len() == 1,
                "{what}: {again:?}"
            );
        }
    }
    machine.pipeline.stop();
}

#[tokio::test]
async fn what_goes_on_is_lost_again_as_often_as_it_may_be_and_not_once_more() {
    let script = FakeScript::default();
    let machine = Machine::start(vec![script.clone()], 2, 2).await;
    let expected = machine.whole(&text()).await;
    let each = FAKE_SAMPLES_PER_FRAME as usize;
    for losses in 1..=3 {
        machine.until_ready().await;
        let mut speech = machine.speak(&text(), false);
        for loss in 1..=losses {
            assert_eq!(speech.until(8 * loss * each).await, None);
            let before = brought(&script).len();
            machine.lose(&[if loss == 2 { TALKER } else { CODE2WAV }], &speech);
            // Audio in flight arrives first: the next loss must hit the attempt that follows.
            while loss < losses && brought(&script).len() == before {
                assert_eq!(speech.until(speech.samples.len() + 1).await, None);
            }
        }
        let end = speech.until(usize::MAX).await.expect("it ends");
        if losses <= 2 {
            assert_eq!(end, End::Stop);
            assert!(
                bits(&speech.samples) == bits(&expected.samples),
                "{losses} losses"
            );
        } else {
            assert!(matches!(end, End::Failed { stage: CODE2WAV, .. }), "{end:?}");
            let heard = speech.samples.len();
            assert!(
                bits(&speech.samples) == bits(&expected.samples[..heard]),
                "what was heard is right"
            );
        }
    }
    machine.pipeline.stop();
}

#[tokio::test]
async fn text_that_comes_after_a_loss_is_spoken_behind_what_was_heard() {
    let script = FakeScript::default();
    let machine = Machine::start(vec![script.clone()], 2, 1).await;
    let expected = machine.whole(&text()).await;
    let text = text();
    let (begun, rest) = text.split_at(200);
    let (next, last) = rest.split_at(7);
    let tokens = |text: &str| text.chars().map(u32::from).collect::<Vec<u32>>();
    for stages in [&[TALKER][..], &[CODE2WAV], &[TALKER, CODE2WAV]] {
        machine.until_ready().await;
        let mut speech = machine.speak(begun, true);
        // Everything speakable of the text so far: `~` has no sound.
        let said = begun.chars().filter(|spoken| *spoken != '~').count();
        assert_eq!(speech.until(said * FAKE_SAMPLES_PER_FRAME as usize).await, None);
        machine.lose(stages, &speech);
        assert!(speech.segment.is_open());
        speech.segment.push(tokens(next), false).unwrap();
        let more = speech.samples.len() + 1;
        assert_eq!(speech.until(more).await, None);
        speech.segment.push(tokens(last), true).unwrap();
        assert_eq!(speech.until(usize::MAX).await, Some(End::Stop));
        assert!(bits(&speech.samples) == bits(&expected.samples), "{stages:?}");
    }
    machine.pipeline.stop();
}

#[tokio::test]
async fn a_second_run_that_ends_before_what_was_heard_is_a_failure_and_no_end() {
    let said = FakeScript::default();
    // Only completely heard frames are not made again, and most of these are silent: the second run meets one that
    // the first had passed long before.
    let ends = FakeScript {
        talker_ends_on: Some('~'),
        ..FakeScript::default()
    };
    let machine = Machine::start(vec![said, ends], 1, 1).await;
    let mut speech = machine.speak(&"a~~~".repeat(100), false);
    assert_eq!(speech.until(3 * FAKE_SAMPLES_PER_FRAME as usize).await, None);
    machine.lose(&[TALKER, CODE2WAV], &speech);
    let end = speech.until(usize::MAX).await.expect("it ends");
    assert!(
        matches!(&end, End::Failed { stage: CODE2WAV, message } if message.contains("before the end of what was heard")),
        "{end:?}"
    );
    machine.pipeline.stop();
}
