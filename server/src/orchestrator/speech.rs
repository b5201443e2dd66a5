//! One attempt at a sequence: its jobs in every stage, the edges between them, and its cancellation.

use std::sync::Arc;

use omni_engine::SeqId;
use tokio::sync::oneshot;

use super::attempt::{CancelGuard, Ended, given, meter};
use super::pipeline::{Binding, Pipeline};
use super::segment::SegmentSpec;
use crate::connector::{EdgeMeter, EdgeReader, EdgeWriter, Hop, Payload, Place, metered_edge};
use crate::stage::{
    AudioPiece, CancelFlag, Code2WavJob, EdgeSender as _, End, JobRefused, Notifier, StageProgress, TalkerJob,
};

/// A sequence in the stages. Dropping it cancels it in all of them.
pub(super) struct SpeechAttempt {
    pub(super) seq: SeqId,
    pub(super) tokens: Option<Box<EdgeWriter<Vec<u32>>>>,
    pub(super) audio: EdgeReader<AudioPiece>,
    /// Taken when the talker is done.
    pub(super) talker_done: Option<oneshot::Receiver<()>>,
    pub(super) talker: StageProgress,
    pub(super) code2wav: StageProgress,
    _cancel: CancelGuard,
    /// Counts as work in flight.
    binding: Binding,
}

/// What a sequence of speech gave.
#[derive(Debug, PartialEq)]
pub enum SpeechOutput {
    /// The talker is done: its place is free, the vocoder works on.
    TalkerDone,
    /// Audio.
    Audio(AudioPiece),
}

impl SpeechAttempt {
    /// Hands the sequence `seq` to the replicas of `binding`, beginning with `tokens`; more follow if it is `open`.
    pub(super) fn new(
        pipeline: &Pipeline,
        binding: Binding,
        seq: SeqId,
        spec: &SegmentSpec,
        open: bool,
    ) -> Result<Self, JobRefused> {
        let (talker_notifier, code2wav_notifier) =
            (binding.talker().wake().clone(), binding.code2wav().wake().clone());
        let cancel = CancelFlag::default();
        let guard = CancelGuard {
            flag: cancel.clone(),
            notifiers: vec![talker_notifier.clone(), code2wav_notifier.clone()],
        };
        let replicas = (Some(binding.talker().id()), Some(binding.code2wav().id()));
        let [session, talker_at, code2wav_at] = [
            ("session", None),
            (binding.talker().stage(), replicas.0),
            (binding.code2wav().stage(), replicas.1),
        ]
        .map(|(stage, replica)| Place { stage, replica });
        let meter = |from, to| meter(pipeline, Hop { seq, from, to }, spec.trace.clone());

        let limits = pipeline.edges;
        // An answer's text passes the session on its way, which shows it to its reader.
        let writer = pipeline.chat.as_ref().ok().map(|chat| chat.thinker.stage());
        let source = writer.zip(spec.thinker).map_or(session, |(stage, id)| Place {
            stage,
            replica: Some(id),
        });
        let (notifiers, to_talker) = ((None, Some(talker_notifier.clone())), meter(source, talker_at));
        let (tokens_in, tokens_out) = edge(limits.token_batches, notifiers, to_talker);
        let (notifiers, to_code2wav) = (
            (Some(talker_notifier), Some(code2wav_notifier.clone())),
            meter(talker_at, code2wav_at),
        );
        let (frames_in, frames_out) = edge(limits.frames, notifiers, to_code2wav);
        let (notifiers, to_session) = ((Some(code2wav_notifier), None), meter(code2wav_at, session));
        let (audio_in, audio_out) = edge(pipeline.audio_capacity(), notifiers, to_session);
        let (finished, talker_done) = oneshot::channel();
        let (talker, code2wav) = (StageProgress::new(replicas.0), StageProgress::new(replicas.1));
        for progress in [&talker, &code2wav] {
            progress.arrive(spec.arrived);
            progress.hold(Arc::clone(&spec.request_held));
        }

        let prompt = spec.request.voice_prompt.as_ref();
        let decode = Code2WavJob {
            seq,
            lead: prompt.map(|prompt| prompt.lead()).unwrap_or_default(),
            frames: Box::new(frames_out),
            audio: Box::new(audio_in),
            cancel: cancel.clone(),
            progress: code2wav.clone(),
        };
        let speak = TalkerJob {
            seq,
            request: spec.request.clone(),
            tokens: Box::new(tokens_out),
            max_frames: spec.max_frames,
            frames: Box::new(frames_in),
            cancel,
            progress: talker.clone(),
            finished,
        };
        // The reader first, so that frames find it open.
        binding.code2wav().submit(decode)?;
        binding.talker().submit(speak)?;
        Ok(Self {
            seq,
            tokens: text(tokens_in, &spec.tokens, open),
            audio: audio_out,
            talker_done: Some(talker_done),
            talker,
            code2wav,
            _cancel: guard,
            binding,
        })
    }

    /// Whether the talker has not died under it.
    pub(super) fn talker_lives(&self) -> bool {
        self.binding.talker().is_alive()
    }

    /// Waits for what comes next; the error is how the attempt ended. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<SpeechOutput, Ended> {
        let last = self.binding.code2wav().stage();
        if let Some(done) = &mut self.talker_done {
            tokio::select! {
                biased;
                _ = done => {
                    self.talker_done = None;
                    // One that has died is not done; what became of its frames, the audio's end will tell.
                    if self.talker_lives() {
                        return Ok(SpeechOutput::TalkerDone);
                    }
                }
                taken = self.audio.next() => return given(last, taken).map(SpeechOutput::Audio),
                lost = self.binding.lost(true) => return Err(Ended::unresponsive(lost)),
            }
        }
        tokio::select! {
            biased;
            taken = self.audio.next() => given(last, taken).map(SpeechOutput::Audio),
            lost = self.binding.lost(false) => Err(Ended::unresponsive(lost)),
        }
    }
}

/// Puts the beginning of the text on its edge. The rest may take any time: it is a caller's, or an answer's, whose own session
/// watches the thinker and knows when it is a reader that holds it up.
fn text(mut edge: EdgeWriter<Vec<u32>>, tokens: &[u32], open: bool) -> Option<Box<EdgeWriter<Vec<u32>>>> {
    edge.set_idle(true);
    edge.put(tokens.to_vec(), 1);
    let edge = Box::new(edge);
    match open {
        true => Some(edge),
        false => {
            edge.end(End::Stop);
            None
        }
    }
}

fn edge<T: Send + Payload>(
    capacity: u32,
    (writer, reader): (Option<Notifier>, Option<Notifier>),
    meter: EdgeMeter,
) -> (EdgeWriter<T>, EdgeReader<T>) {
    metered_edge(capacity, writer, reader, meter)
}
