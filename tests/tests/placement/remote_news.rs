//! Engine events of another process reach callers' process, as if the engine were there.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{ArConfig, FinishReason, SeqId, Stamp, StepStats};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{EdgeReader, EdgeWriter, edge};
use omni_pipeline::item::Item;
use omni_pipeline::stage::{
    CancelFlag, Changes, EdgeSender as _, End, EngineEvent, EngineSink, Recv, ReplicaId, ReplicaStatus,
    SeqEnd, StageBody, StageHandle, StageProgress,
};
use omni_tests::{
    FakeScript, FakeSpeech, RemoteStage, restart_after, speech_job, speech_request, talker_stage,
};
use parking_lot::Mutex;

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time from a request's arrival to its hand-over.
const BEFORE: Duration = Duration::from_secs(5);

/// All events received.
#[derive(Debug, Clone, Default)]
struct Heard(Arc<Mutex<Vec<EngineEvent>>>);

impl EngineSink for Heard {
    fn on_event(&self, event: &EngineEvent) {
        self.0.lock().push(event.clone());
    }
}

impl Heard {
    fn all(&self) -> Vec<EngineEvent> {
        self.0.lock().clone()
    }

    fn taken(&self) -> usize {
        let events = self.all();
        events
            .iter()
            .filter(|event| matches!(event, EngineEvent::Taken(_)))
            .count()
    }

    fn ends(&self) -> Vec<SeqEnd> {
        let ends = self.all().into_iter().filter_map(|event| match event {
            EngineEvent::Finished(end) => Some(end),
            _ => None,
        });
        ends.collect()
    }

    async fn until(&self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let wait = async {
            while !wanted(self) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "waited too long until {what}: {:?}", self.all());
    }
}

fn talker(script: FakeScript, status: ReplicaStatus) -> (StageHandle, StageBody) {
    talker_stage(
        Arc::new(FakeSpeech::new(script)),
        (16, ArConfig::default()),
        status,
    )
}

async fn remote_talker(script: &FakeScript) -> (RemoteStage, Heard) {
    let heard = Heard::default();
    let script = script.clone();
    let listener = Arc::new(heard.clone());
    let remote = RemoteStage::observed_by(listener, move |status| talker(script.clone(), status)).await;
    (remote, heard)
}

struct Speech {
    tokens: Box<EdgeWriter>,
    frames: EdgeReader,
    cancel: CancelFlag,
}

impl Speech {
    /// Speech of some frames, for a request that arrived earlier.
    fn of(seq: u64, stage: &StageHandle, text: &str) -> Self {
        let wake = stage.wake();
        let (tokens_in, tokens) = edge(64, None, Some(wake.clone()));
        let (frames_in, frames) = edge(64, Some(wake.clone()), None);
        let mut speech = Self {
            tokens: Box::new(tokens_in),
            frames,
            cancel: CancelFlag::default(),
        };
        let progress = StageProgress::default();
        progress.arrive(Stamp(Clock::start().now().0 - BEFORE));
        let request = speech_request("bass", 5, 100);
        let mut job = speech_job(seq, request, tokens, frames_in);
        job.cancel = speech.cancel.clone();
        job.progress = progress;
        speech
            .tokens
            .put(Item::Text(text.chars().map(u32::from).collect()), 1)
            .unwrap();
        stage.submit(job).expect("it takes jobs");
        speech
    }

    async fn next(&mut self) -> Recv<Item> {
        tokio::time::timeout(PATIENCE, self.frames.next())
            .await
            .expect("an answer")
    }

    /// Reads to the end; the frames.
    async fn read(mut self) -> u32 {
        self.tokens.end(End::Stop);
        let mut frames = 0;
        loop {
            let wait = tokio::time::timeout(PATIENCE, self.frames.next());
            match wait.await.expect("an answer") {
                Recv::Item(_) => frames += 1,
                Recv::End(end) => {
                    assert_eq!(end, End::Stop);
                    return frames;
                }
                other => panic!("{other:?} after {frames} frames"),
            }
        }
    }
}

/// Totals of a speech, independent of its number of steps.
#[derive(Debug, PartialEq)]
struct Account {
    taken: usize,
    first_outputs: usize,
    further_outputs: usize,
    prompt_tokens: u32,
    outputs: u32,
    ends: Vec<(SeqId, FinishReason, u32, u32, Option<u32>)>,
    caches: usize,
}

fn account(events: &[EngineEvent]) -> Account {
    let count = |wanted: fn(&EngineEvent) -> bool| events.iter().filter(|event| wanted(event)).count();
    let sum = |part: fn(&StepStats) -> u32| {
        let steps = events.iter().filter_map(|event| match event {
            EngineEvent::Step { stats, .. } => Some(part(stats)),
            _ => None,
        });
        steps.sum()
    };
    let ends = events.iter().filter_map(|event| match event {
        EngineEvent::Finished(end) => {
            let record = end.record.expect("its engine tells it");
            assert!(end.latency >= BEFORE, "{end:?} counts from the edge");
            let prompt = record.prompt_tokens;
            let outputs = record.outputs;
            Some((end.seq, end.reason.clone(), prompt, outputs, end.max_outputs))
        }
        EngineEvent::FirstOutput { after } => {
            assert!(*after >= BEFORE, "{after:?} counts from the edge");
            None
        }
        _ => None,
    });
    Account {
        ends: ends.collect(),
        taken: count(|event| matches!(event, EngineEvent::Taken(_))),
        first_outputs: count(|event| matches!(event, EngineEvent::FirstOutput { .. })),
        further_outputs: count(|event| matches!(event, EngineEvent::NextOutput { .. })),
        prompt_tokens: sum(|step| step.prompt_tokens),
        outputs: sum(|step| step.outputs),
        caches: count(|event| matches!(event, EngineEvent::Cache(_))),
    }
}

#[tokio::test]
async fn an_engine_at_the_other_end_tells_what_one_here_tells() {
    let heard = Heard::default();
    let status = ReplicaStatus::new(
        "talker",
        ReplicaId(0),
        restart_after(PATIENCE),
        Changes::default(),
    )
    .observed_by(Arc::new(heard.clone()));
    let (stage, body) = talker(FakeScript::default(), status);
    let thread = std::thread::spawn(move || body.run());
    let frames = Speech::of(1, &stage, "a few words").read().await;
    drop(stage);
    thread.join().expect("it does not panic");
    let expected = account(&heard.all());
    assert_eq!((expected.taken, expected.outputs), (1, frames));

    let (remote, heard) = remote_talker(&FakeScript::default()).await;
    let mut speech = Speech::of(1, remote.handle(), "a few words");
    assert!(matches!(speech.next().await, Recv::Item(_)));
    let events = heard.all();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, EngineEvent::FirstOutput { .. })),
        "an output is in the figures by the time it arrives: {events:?}"
    );
    assert_eq!(speech.read().await + 1, frames);
    assert_eq!(account(&heard.all()), expected);
    let _ = remote.stop();
}

#[tokio::test]
async fn what_nobody_waits_for_is_told_too() {
    let script = FakeScript::default();
    let (remote, heard) = remote_talker(&script).await;
    let mut speech = Speech::of(1, remote.handle(), "some");
    // It waits for more text.
    for _ in 0..4 {
        assert!(matches!(speech.next().await, Recv::Item(_)));
    }
    speech.cancel.set();
    remote.handle().wake().notify();
    heard
        .until("the abort is told", |heard| !heard.ends().is_empty())
        .await;
    assert_eq!(heard.ends()[0].reason, FinishReason::Abort);
    heard
        .until("nothing is there any more", |heard| {
            heard.all().last() == Some(&EngineEvent::Idle)
        })
        .await;
    let _ = remote.stop();
    assert_eq!(heard.ends().len(), 1, "{:?}", heard.ends());
}

#[tokio::test]
async fn sequences_that_are_lost_with_a_process_end_once_each() {
    let script = FakeScript::default();
    let (remote, heard) = remote_talker(&script).await;
    script.talker.close();
    let mut given_up = Speech::of(1, remote.handle(), "given up");
    let mut failed = Speech::of(2, remote.handle(), "failed");
    script.talker.reached().await;
    script.talker.open();
    // Both are in the engine, and neither is at its end: more text may come.
    for speech in [&mut given_up, &mut failed] {
        for _ in 0..6 {
            assert!(matches!(speech.next().await, Recv::Item(_)));
        }
    }
    script.talker.close();
    // The engine is held in a step, and cannot report the cancelled sequence.
    failed.tokens.put(Item::Text(vec![u32::from('!')]), 1).unwrap();
    script.talker.reached().await;
    given_up.cancel.set();
    remote.handle().wake().notify();
    while !matches!(given_up.next().await, Recv::Gone) {}
    assert_eq!((heard.taken(), heard.ends().len()), (2, 0));
    remote.break_connection();
    while !matches!(failed.next().await, Recv::End(End::Lost { .. })) {}
    let mut ends: Vec<_> = heard
        .ends()
        .iter()
        .map(|end| (end.seq.0, end.reason.clone()))
        .collect();
    ends.sort_unstable_by_key(|(seq, _)| *seq);
    assert!(
        matches!(&ends[..], [(1, FinishReason::Abort), (2, FinishReason::Error(_))]),
        "{ends:?}"
    );
    assert!(heard.ends().iter().all(|end| end.latency >= BEFORE));
    script.talker.open();
    let _ = remote.stop();
    assert_eq!(heard.ends().len(), 2, "each once");
}
