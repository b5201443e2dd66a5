//! Usage and times of an answer.

use std::time::Duration;

use omni_engine::Stamp;
use omni_pipeline::stage::StageSnapshot;

use super::hearing::Recordings;
use super::record::{TokenIntervals, TurnTimings, TurnUsage};
use crate::protocol::Done;
use crate::record::StageFigures;

/// Figures of one answer while it runs.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) messages: usize,
    pub(super) characters: usize,
    pub(super) prompt_tokens: usize,
    pub(super) prompt_audio: usize,
    pub(super) reply_tokens: u32,
    pub(super) admitted: Option<Stamp>,
    pub(super) submitted: Option<Stamp>,
    pub(super) first_text: Option<Stamp>,
    pub(super) intervals: TokenIntervals,
    /// Progress in the stage that answers.
    pub(super) answer: StageReading,
    /// Progress in the stage that encodes recordings, if there are any.
    pub(super) encoder: StageReading,
    /// Recordings in the conversation.
    pub(super) recordings: Recordings,
}

/// Progress of a request in a stage.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct StageReading {
    /// Its name.
    pub(super) stage: &'static str,
    pub(super) snapshot: StageSnapshot,
}

impl StageReading {
    fn of(stage: Option<&'static str>) -> Self {
        Self {
            stage: stage.unwrap_or_default(),
            snapshot: StageSnapshot::default(),
        }
    }
}

impl Figures {
    /// Creates empty figures for those stages.
    pub(super) fn of(answers: Option<&'static str>, hears: Option<&'static str>) -> Self {
        Self {
            answer: StageReading::of(answers),
            encoder: StageReading::of(hears),
            ..Self::default()
        }
    }

    pub(super) fn timings(&self, began: Stamp, speech: Option<&Done>, now: Stamp) -> TurnTimings {
        let since = |at: Option<Stamp>| at.map(|at| at.since(began));
        let answer = self.answer.snapshot;
        let encoder = self.encoder.snapshot;
        let between = |from: Option<Stamp>, to: Option<Stamp>| Some(to?.since(from?));
        TurnTimings {
            submitted: since(self.submitted),
            admitted: since(self.admitted),
            queue: since(answer.started),
            prefill: between(answer.started, answer.first_output),
            first_token: since(answer.first_output),
            first_text: since(self.first_text),
            intervals: self.intervals,
            total: now.since(began),
            answer: StageFigures {
                stage: self.answer.stage,
                queue: between(self.submitted, answer.started),
                started: since(answer.started),
                busy: answer.busy,
                first_output: since(answer.first_output),
                last_output: since(answer.last_output),
                span: between(self.submitted, answer.last_output),
                starved: answer.starved,
                replica: answer.replica,
            },
            encoder: (encoder.outputs > 0).then(|| StageFigures {
                stage: self.encoder.stage,
                queue: between(self.admitted, encoder.started),
                started: since(encoder.started),
                busy: encoder.busy,
                first_output: since(encoder.first_output),
                last_output: since(encoder.last_output),
                span: between(self.admitted, encoder.last_output),
                starved: 0,
                replica: encoder.replica,
            }),
            real_time_factor: speech.map_or(0.0, |done| real_time_factor(done, answer.busy)),
            speech: speech.map(|done| done.timings.clone()),
        }
    }

    pub(super) fn usage(&self, speech: Option<&Done>) -> TurnUsage {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let spoken = speech.map(|done| done.usage).unwrap_or_default();
        TurnUsage {
            characters: count(self.characters),
            prompt_tokens: count(self.prompt_tokens),
            prompt_audio: count(self.prompt_audio),
            reply_tokens: self.reply_tokens,
            frames: spoken.frames,
            samples: spoken.samples,
            sample_rate: spoken.sample_rate,
            audio: spoken.audio,
            recordings: self.recordings.all,
            kept_recordings: self.recordings.kept,
        }
    }
}

fn real_time_factor(speech: &Done, thinking: Duration) -> f64 {
    let busy = thinking + speech.timings.busy();
    if speech.usage.audio.is_zero() {
        0.0
    } else {
        busy.as_secs_f64() / speech.usage.audio.as_secs_f64()
    }
}
