//! The one record of an answer: for its `response_done`, for the log, for metrics and traces.

use std::time::Duration;

use omni_audio::{SampleRate, Samples};
use omni_core::error::ServeError;
use omni_core::id::{MessageId, SessionId};
use omni_engine::Stamp;

use super::settings::Modalities;
use crate::record::{Outcome, StageFigures, Timings};

/// Usage of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnUsage {
    /// Characters of the conversation that was answered.
    pub characters: u32,
    /// Text tokens of it, as the model read it.
    pub prompt_tokens: u32,
    /// Rows of audio in it.
    pub prompt_audio: u32,
    /// Tokens of the answer.
    pub reply_tokens: u32,
    /// Codec frames that were made of them.
    pub frames: u32,
    /// Audio passed to the transport.
    pub samples: Samples,
    /// Its rate; none where nothing was to be spoken.
    pub sample_rate: Option<SampleRate>,
    /// Its playing time.
    pub audio: Duration,
    /// Recordings in the conversation.
    pub recordings: u32,
    /// Of these, those whose embedding had been kept.
    pub kept_recordings: u32,
}

/// Times between the tokens of an answer, as they came from the model: a slow reader stretches them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TokenIntervals {
    /// Number of intervals.
    pub count: u32,
    /// Sum.
    pub sum: Duration,
    /// The longest.
    pub longest: Duration,
    last: Option<Stamp>,
}

impl TokenIntervals {
    /// Mean.
    pub fn mean(&self) -> Option<Duration> {
        (self.count > 0).then(|| self.sum / self.count)
    }

    /// Records a token.
    pub(super) fn token(&mut self, now: Stamp) {
        if let Some(last) = self.last.replace(now) {
            let interval = now.since(last);
            self.count += 1;
            self.sum += interval;
            self.longest = self.longest.max(interval);
        }
    }
}

/// Times of an answer. Intervals begin at the request for it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnTimings {
    /// To its submission to the stage that answers.
    pub submitted: Option<Duration>,
    /// To its permit.
    pub admitted: Option<Duration>,
    /// To the first step of that stage.
    pub queue: Option<Duration>,
    /// From that step to the first token.
    pub prefill: Option<Duration>,
    /// To the first token.
    pub first_token: Option<Duration>,
    /// To the first text passed to the transport.
    pub first_text: Option<Duration>,
    /// Between tokens.
    pub intervals: TokenIntervals,
    /// To the end.
    pub total: Duration,
    /// Busy time of all stages over playing time; 0 without audio.
    pub real_time_factor: f64,
    /// Times of the stage that answers.
    pub answer: StageFigures,
    /// Times of the stage that encodes recordings; absent if no recording was encoded for it.
    pub encoder: Option<StageFigures>,
    /// Times of its speech; absent if it was text only.
    pub speech: Option<Timings>,
}

/// Everything worth keeping about one answer. Contains no text.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// Its session.
    pub session: SessionId,
    /// Its id.
    pub response: MessageId,
    /// Its forms.
    pub modalities: Modalities,
    /// Requested voice.
    pub voice: String,
    /// Messages that were answered, after trimming.
    pub messages: usize,
    /// Outcome.
    pub outcome: Outcome,
    /// Error, for [`Outcome::Error`] and [`Outcome::Aborted`].
    pub error: Option<ServeError>,
    /// Usage.
    pub usage: TurnUsage,
    /// Times.
    pub timings: TurnTimings,
    /// Seed that was used.
    pub seed: u64,
}
