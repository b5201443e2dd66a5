//! Codec frames that go from stage to stage past the process that asked for them, and what becomes of them when a
//! link, or a stage, is lost.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use omni_engine::{ArConfig, ChunkConfig, StageNode, Stamp};
use omni_models::{CODE2WAV, QWEN3_OMNI, TALKER};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{
    Connected, EdgeRecord, EventRouter, LinkCounts, Peer, PeerParts, Peers, RemoteParts, SharedReplica,
    called, remote_stage,
};
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

/// Units that may be ahead of the reader at the front end: little, so that much is left when something is lost.
const AHEAD: u32 = 4;
/// Most frames that are between the talker and the reader besides: on the edges of both stages, on the link, and in
/// the vocoder.
const ON_THEIR_WAY: u32 = 128;

/// Many more frames than that.
fn text() -> String {
    "It says something, and goes on with the same words. ".repeat(8)
}

/// A stage that others connect to.
struct Process {
    stage: &'static str,
    shared: SharedReplica,
    peers: Peers,
    /// Its connections, of front ends and of links in both directions.
    lines: Arc<Mutex<Vec<UnixStream>>>,
    /// Links that the talkers made.
    links: Arc<Mutex<Vec<UnixStream>>>,
}

/// Those that can be reached.
type Processes = Arc<Mutex<HashMap<Vec<u8>, Arc<Process>>>>;

fn address(stage: &str, id: ReplicaId) -> Vec<u8> {
    format!("{stage}-{id}").into_bytes()
}

/// A connection that is left to itself.
struct Left;

impl Peer for Left {
    fn end(self: Box<Self>, _patience: Duration) -> String {
        "it was left to itself".to_owned()
    }
}

/// Connects to the process at `address`.
fn connect(processes: &Processes, address: &[u8]) -> io::Result<Connected> {
    let process = processes.lock().get(address).cloned();
    let process = process.ok_or_else(|| io::Error::other("there is none"))?;
    let (here, there) = UnixStream::pair()?;
    process.lines.lock().push(there.try_clone()?);
    std::thread::spawn(move || {
        let mut session = called(there, stage_names(), Clock::start())?;
        assert_eq!(session.stage, process.stage);
        session.answer()?;
        match session.sender {
            Some(_) => session.serve_link(&process.shared),
            None => session.serve_shared(&process.shared.reaching(process.peers.clone())),
        }
    });
    Ok((here, Box::new(Left)))
}

impl Process {
    fn start(
        stage: &'static str,
        script: &FakeScript,
        processes: &Processes,
        reach: &Arc<AtomicBool>,
    ) -> Self {
        let changes = Changes::default();
        let router = EventRouter::default();
        let status = ReplicaStatus::new(stage, ReplicaId(0), restart(), changes.clone())
            .observed_by(Arc::new(router.clone()));
        let model = Arc::new(FakeSpeech::new(script.clone()));
        let (handle, body) = match stage {
            TALKER => talker_stage(model, (16, ArConfig::default()), status.clone()),
            _ => {
                let config = ChunkConfig::new(Duration::from_millis(40));
                code2wav_stage(model, (16, config), PATIENCE, status.clone())
            }
        };
        std::thread::spawn(move || body.run());
        let timeouts = TurnTimeouts {
            step: PATIENCE,
            load: PATIENCE,
        };
        let links = Arc::<Mutex<Vec<UnixStream>>>::default();
        let processes = Arc::clone(processes);
        let reach = Arc::clone(reach);
        let made = Arc::clone(&links);
        let dial = move |address: &[u8]| {
            if !reach.load(Ordering::SeqCst) {
                return Err(io::Error::other("the network says no"));
            }
            let connected = connect(&processes, address)?;
            made.lock().push(connected.0.try_clone()?);
            Ok(connected)
        };
        let peers = Peers::new(PeerParts {
            stage,
            dial: Arc::new(dial),
            greeting: SETTINGS.to_vec(),
            idle: PATIENCE,
            clock: Clock::start(),
        });
        Self {
            stage,
            shared: SharedReplica::new(handle, (status, router), changes, (timeouts, Clock::start())),
            peers,
            lines: Arc::default(),
            links,
        }
    }

    /// Ends it, and all its connections at once.
    fn kill(&self) {
        for line in self.lines.lock().iter().chain(self.links.lock().iter()) {
            let _ = line.shutdown(Shutdown::Both);
        }
        self.shared.stop();
    }
}

/// A front end, and two replicas of each stage.
struct Cluster {
    pipeline: Arc<Pipeline>,
    processes: Processes,
    /// `true` if stages reach each other.
    reach: Arc<AtomicBool>,
    chunks: Chunks,
    /// Silence after which a process is given up.
    silence: Duration,
}

impl Cluster {
    async fn start(script: &FakeScript, replicas_each: u32) -> Self {
        Self::that_waits(PATIENCE, script, replicas_each).await
    }

    /// Gives up processes that have said nothing for `silence`.
    async fn that_waits(silence: Duration, script: &FakeScript, replicas_each: u32) -> Self {
        let processes = Processes::default();
        let changes = Changes::default();
        let reach = Arc::new(AtomicBool::new(true));
        let chunks = Chunks::default();
        let graph = QWEN3_OMNI.speech_only();
        let stage = |node: &StageNode| {
            let parts = PoolParts {
                stage: node.name,
                make: Box::new(|_| unreachable!("replicas join")),
                start: Arc::new(|_, body| std::thread::Builder::new().spawn(|| body.run()).map(drop)),
                devices: vec!["cpu".to_owned()],
                formats: vec!["f32".to_owned()],
                routing: Routing::RoundRobin,
                restart: restart(),
                steps: None,
                joined: true,
                changes: changes.clone(),
                listen: Arc::new(|_, _| Arc::new(IgnoreEngines)),
            };
            PipelineStage {
                pool: StagePool::new(parts, 0).expect("it starts"),
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
                attempts: 2,
                wait: PATIENCE,
            },
            edge_sink: Arc::new(chunks.clone()),
            let_go: Arc::new(|_| {}),
            clock: Clock::start(),
        };
        let cluster = Self {
            pipeline: Pipeline::new(parts).expect("the graph can be run"),
            processes,
            reach,
            chunks,
            silence,
        };
        for id in 0..replicas_each {
            for stage in [TALKER, CODE2WAV] {
                cluster.join(stage, ReplicaId(id), script);
            }
        }
        cluster.until_ready(2 * replicas_each as usize).await;
        cluster
    }

    fn join(&self, stage: &'static str, id: ReplicaId, script: &FakeScript) {
        let address = address(stage, id);
        let process = Process::start(stage, script, &self.processes, &self.reach);
        self.processes.lock().insert(address.clone(), Arc::new(process));
        let processes = Arc::clone(&self.processes);
        let there = address.clone();
        let silence_timeout = self.silence;
        let make: MakeReplica = Box::new(move |status| {
            let processes = Arc::clone(&processes);
            let there = there.clone();
            let parts = RemoteParts {
                transport: Box::new(move || connect(&processes, &there)),
                settings: SETTINGS.to_vec(),
                stages: stage_names(),
                mailbox: 16,
                load_timeout: PATIENCE,
                silence_timeout,
            };
            remote_stage(parts, status, Clock::start())
        });
        let pool = self.pipeline.pool(stage).expect("there is such a stage");
        pool.join(id, ("f32", Some(address.into())), make)
            .expect("it joins");
    }

    async fn until_ready(&self, count: usize) {
        let ready = || {
            let views = self.pipeline.pools().flat_map(StagePool::replicas);
            views.filter(|view| view.state == ReplicaState::Ready).count() == count
        };
        until("replicas are ready", ready).await;
    }

    fn speak(&self, text: &str) -> Speech {
        let spec = SegmentSpec {
            request: speech_request("alto", 5, 1_000),
            recording: None,
            tokens: text.chars().map(u32::from).collect(),
            open: false,
            writer: None,
            arrived: Stamp::default(),
            request_held: self.pipeline.request(),
            trace: None,
        };
        Speech {
            segment: self.pipeline.speak(spec, &mut None).expect("it is taken"),
            samples: Vec::new(),
        }
    }

    /// All that is said.
    async fn spoken(&self, text: &str) -> Vec<u32> {
        let mut speech = self.speak(text);
        assert_eq!(speech.until(usize::MAX).await, Some(End::Stop));
        bits(&speech.samples)
    }

    /// Speech with frames that go by a link.
    async fn linked(&self) -> Vec<u32> {
        let mut speech = self.begun(1).await;
        assert_eq!(speech.until(usize::MAX).await, Some(End::Stop));
        bits(&speech.samples)
    }

    /// A sequence with at least `heard` frames heard, whose frames go by a link. Sequences before it have links made.
    async fn begun(&self, heard: usize) -> Speech {
        for _ in 0..20 {
            let before = self.counts();
            let mut speech = self.speak(&text());
            assert_eq!(speech.until(heard * FAKE_SAMPLES_PER_FRAME as usize).await, None);
            let after = self.counts();
            if after.linked > before.linked {
                return speech;
            }
            assert!(after.relayed > before.relayed);
            until("the link is made", || {
                self.counts().links > before.links || self.counts().links == 4
            })
            .await;
        }
        panic!("there are only {:?}", self.counts());
    }

    /// At least `count` records of edges from the talker to code2wav.
    async fn records(&self, count: usize) -> Vec<EdgeRecord> {
        let records = || {
            let (_, mut records) = self.chunks.all();
            records.retain(|record| (record.hop.from.stage, record.hop.to.stage) == (TALKER, CODE2WAV));
            records
        };
        until("edges are closed", || records().len() >= count).await;
        records()
    }

    /// Link counters of all talkers.
    fn counts(&self) -> LinkCounts {
        let processes = self.processes.lock();
        let counts = processes.values().map(|process| process.peers.counts());
        counts.fold(LinkCounts::default(), |all, one| LinkCounts {
            links: all.links + one.links,
            linked: all.linked + one.linked,
            relayed: all.relayed + one.relayed,
        })
    }

    /// Breaks all links of a talker.
    fn break_links(talker: &Process) {
        for link in talker.links.lock().iter() {
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    /// The process that works on `speech`.
    fn process(&self, stage: &str, speech: &Speech) -> (Vec<u8>, Arc<Process>) {
        let progress = speech.segment.progress();
        let (_, reading) = progress.iter().find(|(name, _)| *name == stage).expect("a stage");
        let address = address(stage, reading.replica.expect("it is bound"));
        let process = Arc::clone(&self.processes.lock()[&address]);
        (address, process)
    }

    /// Kills the processes of `stages` that work on `speech`.
    fn kill(&self, stages: &[&'static str], speech: &Speech) {
        for stage in stages {
            let (address, process) = self.process(stage, speech);
            self.processes.lock().remove(&address);
            process.kill();
        }
    }
}

struct Speech {
    segment: Segment,
    samples: Vec<f32>,
}

impl Speech {
    /// Reads until `samples` samples have arrived; returns the end, if that comes first.
    async fn until(&mut self, samples: usize) -> Option<End> {
        while self.samples.len() < samples {
            let output = tokio::time::timeout(PATIENCE, self.segment.next()).await;
            match output.expect("it goes on") {
                SpeechOutput::Audio(piece) => self.samples.extend(piece.samples),
                SpeechOutput::TextDone => {}
                SpeechOutput::End(end) => return Some(end),
            }
        }
        None
    }
}

impl Speech {
    /// Listens to its end, with something else to do every few milliseconds.
    async fn interrupted(&mut self) -> End {
        let listened = async {
            loop {
                match tokio::time::timeout(Duration::from_millis(5), self.until(usize::MAX)).await {
                    Ok(Some(end)) => return end,
                    Ok(None) => unreachable!("it does not have as many samples"),
                    Err(_) => {}
                }
            }
        };
        let ended = tokio::time::timeout(PATIENCE, listened).await;
        ended.expect("it goes on")
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    let met = tokio::time::timeout(PATIENCE, met).await;
    assert!(met.is_ok(), "waited too long until {what}");
}

#[tokio::test]
async fn frames_go_to_the_next_stage_and_the_front_end_is_told_how_they_went() {
    let cluster = Cluster::start(&FakeScript::default(), 1).await;
    let expected = cluster.linked().await;
    let before = cluster.counts();
    assert!(before.relayed >= 1, "the first did not wait for the link");
    let records = cluster
        .records((before.linked + before.relayed) as usize)
        .await
        .len();
    assert!(cluster.spoken(&text()).await == expected);
    let after = cluster.counts();
    assert_eq!((after.linked, after.relayed), (before.linked + 1, before.relayed));
    let record = cluster.records(records + 1).await.swap_remove(records);
    let frames = (expected.len() / FAKE_SAMPLES_PER_FRAME as usize) as u64;
    // Two codes each, with field overhead, and the rest of a message.
    assert!(record.bytes > 4 * frames && record.chunks > 16, "{record:?}");
    assert!(
        record.first < record.last && record.tx > Duration::ZERO,
        "{record:?}"
    );
    cluster.pipeline.stop();
}

#[tokio::test]
async fn a_process_that_is_killed_loses_nothing_that_was_heard() {
    for stages in [&[TALKER][..], &[CODE2WAV], &[TALKER, CODE2WAV]] {
        let script = FakeScript::default();
        let cluster = Cluster::start(&script, 2).await;
        let expected = cluster.linked().await;
        let frames = expected.len() / FAKE_SAMPLES_PER_FRAME as usize;
        for (nth, heard) in [1, 60, frames / 2].into_iter().enumerate() {
            let mut speech = cluster.begun(heard).await;
            cluster.kill(stages, &speech);
            let ended = speech.until(usize::MAX).await;
            assert_eq!(ended, Some(End::Stop), "{stages:?} after {heard}");
            assert!(bits(&speech.samples) == expected, "{stages:?} after {heard}");
            for stage in stages {
                cluster.join(stage, ReplicaId(10 + nth as u32), &script);
            }
            cluster.until_ready(4).await;
        }
        cluster.pipeline.stop();
    }
}

#[tokio::test]
async fn a_link_that_breaks_between_stages_that_live_loses_nothing_and_frames_go_by_the_front_end_then() {
    let cluster = Cluster::start(&FakeScript::default(), 1).await;
    let expected = cluster.linked().await;
    let before = cluster.counts();
    let mut speech = cluster.begun(20).await;
    cluster.reach.store(false, Ordering::SeqCst);
    let (_, talker) = cluster.process(TALKER, &speech);
    Cluster::break_links(&talker);
    assert_eq!(speech.interrupted().await, End::Stop);
    assert!(bits(&speech.samples) == expected);
    let after = cluster.counts();
    assert_eq!(after.links, 0);
    // The second attempt was not to go by a link: one end of it may not know yet that it has broken.
    assert_eq!((after.linked, after.relayed), (before.linked + 1, before.relayed));
    until("what was severed has left the talker", || {
        talker.shared.stats().running == 0
    })
    .await;
    assert!(cluster.spoken(&text()).await == expected);
    cluster.pipeline.stop();
}

#[tokio::test]
async fn while_a_caller_does_not_listen_no_stage_is_given_up_for_a_link_that_broke() {
    // Six heartbeats.
    let silence = Duration::from_secs(3);
    let cluster = Cluster::that_waits(silence, &FakeScript::default(), 1).await;
    let expected = cluster.linked().await;
    let mut speech = cluster.begun(20).await;
    let (_, talker) = cluster.process(TALKER, &speech);
    Cluster::break_links(&talker);
    tokio::time::sleep(silence + Duration::from_secs(3)).await;
    for view in cluster.pipeline.pools().flat_map(StagePool::replicas) {
        assert_eq!((view.state, view.last_error), (ReplicaState::Ready, None));
    }
    assert_eq!(speech.until(usize::MAX).await, Some(End::Stop));
    assert!(bits(&speech.samples) == expected);
    cluster.pipeline.stop();
}

#[tokio::test]
async fn stages_that_cannot_reach_each_other_speak_by_the_front_end() {
    let cluster = Cluster::start(&FakeScript::default(), 1).await;
    let expected = cluster.linked().await;
    let apart = Cluster::start(&FakeScript::default(), 1).await;
    apart.reach.store(false, Ordering::SeqCst);
    for said in 1..=3 {
        assert!(apart.spoken(&text()).await == expected);
        let counts = apart.counts();
        assert_eq!((counts.links, counts.linked, counts.relayed), (0, 0, said));
    }
    assert!(apart.records(3).await.iter().all(|record| record.bytes > 0));
    cluster.pipeline.stop();
    apart.pipeline.stop();
}

#[tokio::test]
async fn a_listener_who_does_not_listen_pauses_the_talker_and_no_other_sequence() {
    let cluster = Cluster::start(&FakeScript::default(), 1).await;
    let expected = cluster.linked().await;
    let mut paused = cluster.begun(1).await;
    for _ in 0..3 {
        assert!(cluster.spoken(&text()).await == expected);
        let made = paused.segment.first().outputs;
        assert!(
            made <= ON_THEIR_WAY,
            "{made} frames were made for a listener who took one"
        );
    }
    assert_eq!(paused.until(usize::MAX).await, Some(End::Stop));
    assert!(bits(&paused.samples) == expected);
    cluster.pipeline.stop();
}

#[tokio::test]
async fn what_is_given_up_ends_in_both_stages() {
    let cluster = Cluster::start(&FakeScript::default(), 1).await;
    let expected = cluster.linked().await;
    let given_up = cluster.begun(1).await;
    let processes = [TALKER, CODE2WAV].map(|stage| cluster.process(stage, &given_up).1);
    drop(given_up);
    until("nothing runs", || {
        processes
            .iter()
            .all(|process| process.shared.stats().running == 0)
    })
    .await;
    assert!(cluster.spoken(&text()).await == expected);
    assert_eq!(cluster.counts().links, 1, "the link is for all sequences");
    cluster.pipeline.stop();
}
