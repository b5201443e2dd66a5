//! An answer on its way.

use std::time::Duration;

use omni_client::{Audio, Finish, Meter, Outcome};

use super::record::{Cancel, Chunk};
use super::report::Served;

/// What was heard so far. Times count from the moment the request was sent.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// What speaks, if the server has said it.
    pub(super) served: Option<Served>,
    /// When the token was sent that completed the first sentence, if the text is streamed.
    pub(super) sentence: Option<Duration>,
    pub(super) first_text: Option<Duration>,
    pub(super) last_text: Option<Duration>,
    pub(super) meter: Option<Meter>,
    pub(super) chunks: Vec<Chunk>,
    /// When it is to be cancelled.
    pub(super) cancel_after: Option<Duration>,
    /// When the cancel was sent.
    pub(super) cancelled: Option<Duration>,
    pub(super) done: Option<Outcome>,
    /// When that came.
    pub(super) done_at: Option<Duration>,
}

impl Heard {
    pub(super) fn text(&mut self, at: Duration) {
        self.first_text.get_or_insert(at);
        self.last_text = Some(at);
    }

    pub(super) fn audio(&mut self, at: Duration, audio: &Audio) {
        let plays = audio.rate.duration(audio.samples());
        self.chunks.push(Chunk(at.as_secs_f64(), plays.as_secs_f64()));
        self.meter
            .get_or_insert_with(|| Meter::new(audio.rate))
            .audio(at, audio);
    }

    pub(super) fn done(&mut self, at: Duration, outcome: Outcome) {
        self.done = Some(outcome);
        self.done_at = Some(at);
    }

    pub(super) fn was_cancelled(&self) -> bool {
        self.cancelled.is_some()
    }

    /// What became of the cancel, if one was planned.
    pub(super) fn cancel(&self) -> Option<Cancel> {
        let after = self.cancel_after?;
        let interrupted = matches!(&self.done, Some(done) if done.finish == Finish::Interrupted);
        let took = |(sent, done): (Duration, Duration)| done.saturating_sub(sent).as_secs_f64();
        Some(Cancel {
            after_seconds: after.as_secs_f64(),
            latency_seconds: self.cancelled.zip(self.done_at).filter(|_| interrupted).map(took),
        })
    }
}
