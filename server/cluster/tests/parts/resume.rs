//! Sentences that continue after the audio already heard when processes are killed.

use omni_proto::v1;
use omni_proto::v1::speak_request::Event as Asked;
use omni_proto::v1::speak_response::Event as Said;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::part::{Cluster, PATIENCE, Part};

/// Little may be ahead of the listener in a stage, so that much is left to say when a process is killed.
const SLOWLY: [&str; 4] = ["--max-buffered-audio", "200ms", "--set", "handover.wait=60s"];
const SENTENCE: &str =
    "The quick brown fox jumps over the lazy dog, and then it goes home to sleep under the old oak tree. ";
/// Much more than the buffers hold on the way to a client that does not read.
const SENTENCES: usize = 20;

/// One replica of each stage, and front ends that have them.
struct Parts {
    front: Part,
    talker: Part,
    vocoder: Part,
    cluster: Cluster,
    /// Replicas that were ever there.
    joined: usize,
}

impl Parts {
    fn new(args: &[&str]) -> Self {
        let cluster = Cluster::new();
        let [front, talker, vocoder] = cluster.speaking(&[&SLOWLY[..], args].concat());
        Self {
            front,
            talker,
            vocoder,
            cluster,
            joined: 2,
        }
    }

    /// Has another replica of each of these stages, and then kills those that were there, to which all is bound that
    /// was begun before.
    fn lose(&mut self, stages: &[&str]) {
        let fresh: Vec<Part> = stages
            .iter()
            .map(|stage| self.cluster.stage(stage, &[]))
            .collect();
        self.joined += fresh.len();
        self.front.says_times("replica ready", self.joined);
        let mut old = Vec::new();
        for (stage, fresh) in stages.iter().zip(fresh) {
            let place = match *stage {
                "talker" => &mut self.talker,
                _ => &mut self.vocoder,
            };
            old.push(std::mem::replace(place, fresh));
        }
        old.iter_mut().for_each(Part::kill);
    }

    /// Number of sentences that continued after audio of them had been heard.
    fn resumed(&self) -> usize {
        self.front.log().matches("sequence resumed after a loss").count()
    }
}

/// A stream of text that is spoken.
struct Call {
    texts: mpsc::Sender<v1::SpeakRequest>,
    responses: Streaming<v1::SpeakResponse>,
    audio: Vec<u8>,
    done: bool,
}

impl Call {
    async fn begin(front: &Part) -> Self {
        let (texts, asked) = mpsc::channel(64);
        let call = front.client().await.speak(ReceiverStream::new(asked)).await;
        let mut call = Self {
            texts,
            responses: call.expect("it is taken").into_inner(),
            audio: Vec::new(),
            done: false,
        };
        let sampling = v1::SamplingParams {
            seed: Some(3),
            ..Default::default()
        };
        let config = v1::SpeechConfig {
            sampling: Some(sampling),
            ..Default::default()
        };
        call.ask(Asked::Config(config)).await;
        call
    }

    async fn ask(&mut self, event: Asked) {
        let request = v1::SpeakRequest { event: Some(event) };
        self.texts.send(request).await.expect("it reads");
    }

    async fn say(&mut self, text: &str) {
        let chunk = v1::TextChunk {
            text: text.to_owned(),
            ..Default::default()
        };
        self.ask(Asked::Text(chunk)).await;
    }

    async fn finish(&mut self) {
        self.ask(Asked::Finish(v1::FinishUtterance::default())).await;
    }

    /// Reads until `bytes` bytes have arrived, or the end.
    async fn until(&mut self, bytes: usize) {
        while self.audio.len() < bytes && !self.done {
            let response = tokio::time::timeout(PATIENCE, self.responses.message()).await;
            let response = response
                .expect("an answer")
                .expect("no failure")
                .expect("it is not over");
            match response.event {
                Some(Said::Audio(chunk)) => self.audio.extend_from_slice(&chunk.data),
                Some(Said::Done(done)) => {
                    self.done = true;
                    let outcome = done.outcome.expect("how it ended");
                    assert_eq!(outcome.finish_reason(), v1::FinishReason::Stop, "{outcome:?}");
                }
                _ => {}
            }
        }
    }

    /// All that is said.
    async fn rest(mut self) -> Vec<u8> {
        self.until(usize::MAX).await;
        self.audio
    }
}

async fn whole(front: &Part, text: &str) -> Vec<u8> {
    let mut call = Call::begin(front).await;
    call.say(text).await;
    call.finish().await;
    call.rest().await
}

/// Loses replicas of `stages` at several places of a long text, one after the other.
async fn lost_again_and_again(stages: &[&str]) {
    let mut parts = Parts::new(&["--set", "handover.attempts=4"]);
    let text = SENTENCE.repeat(SENTENCES);
    let expected = whole(&parts.front, &text).await;
    let mut call = Call::begin(&parts.front).await;
    call.say(&text).await;
    call.finish().await;
    for tenths in [1, 3, 5] {
        call.until(expected.len() * tenths / 10).await;
        parts.lose(stages);
    }
    let heard = call.rest().await;
    assert!(heard == expected, "{} of {} bytes", heard.len(), expected.len());
    assert!(parts.resumed() > 0, "{}", parts.front.log());
}

#[tokio::test]
async fn sentences_go_on_when_talkers_are_killed() {
    lost_again_and_again(&["talker"]).await;
}

#[tokio::test]
async fn sentences_go_on_when_vocoders_are_killed() {
    lost_again_and_again(&["code2wav"]).await;
}

#[tokio::test]
async fn sentences_go_on_when_both_are_killed_at_once() {
    lost_again_and_again(&["talker", "code2wav"]).await;
}

#[tokio::test]
async fn text_that_is_still_being_written_is_spoken_on_after_a_loss() {
    let mut parts = Parts::new(&[]);
    let text = SENTENCE.repeat(3);
    let expected = whole(&parts.front, &text).await;
    for stages in [&["talker"][..], &["code2wav"], &["talker", "code2wav"]] {
        let mut call = Call::begin(&parts.front).await;
        let (begun, rest) = text.split_at(SENTENCE.len() + 40);
        call.say(begun).await;
        call.until(expected.len() / 5).await;
        parts.lose(stages);
        for piece in rest.as_bytes().chunks(7) {
            call.say(std::str::from_utf8(piece).expect("it is ASCII")).await;
        }
        call.finish().await;
        assert!(call.rest().await == expected, "{stages:?}");
    }
}

#[tokio::test]
async fn a_sentence_does_not_go_on_where_it_would_be_computed_in_other_numbers() {
    let cluster = Cluster::new();
    let slowly = ["--max-buffered-audio", "200ms", "--set", "handover.wait=500ms"];
    let [front, mut talker, _vocoder] = cluster.speaking(&slowly);
    let mut speech = front.speak(1, &SENTENCE.repeat(SENTENCES)).await;
    speech.begun().await;
    let _other = cluster.stage("talker", &["--set", "stages.talker.weights=int4"]);
    let warned = front.says("different number formats");
    assert!(warned.contains("int4") && warned.contains("auto"), "{warned}");
    front.says_times("replica ready", 3);
    talker.kill();
    let status = speech.rest().await.expect_err("no talker of that kind is left");
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    assert!(
        status.message().contains("talker") && status.message().contains("none computes in"),
        "{status:?}"
    );
    // A restarted sentence may be spoken by any replica.
    assert!(front.spoken(1, SENTENCE).await.len() > 10_000);
}
