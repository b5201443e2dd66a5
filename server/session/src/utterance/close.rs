//! The end of an utterance: its results for the caller and the log.

use omni_core::error::{ErrorKind, ServeError};
use omni_core::id::SessionId;
use omni_engine::Stamp;

use super::Utterance;
use crate::protocol::Done;
use crate::record::{EndedRequest, Outcome, Usage, UtteranceRecord};
use crate::track::Track;

impl Utterance {
    /// Ends it. With `aborted` the session ends under it and there will be no `done` event.
    pub(crate) fn close(
        mut self,
        session: SessionId,
        aborted: Option<ServeError>,
        now: Stamp,
    ) -> (Done, EndedRequest, Option<Track>) {
        if aborted
            .as_ref()
            .is_some_and(|error| matches!(error.kind(), ErrorKind::CallerGone | ErrorKind::DeadlineExceeded))
        {
            self.request.give_up();
        }
        for ended in self.pipeline.abort() {
            self.account(&ended);
        }
        let (outcome, error) = match aborted {
            Some(error) => (Outcome::Aborted, Some(error)),
            None => (self.outcome, self.error),
        };
        let samples = self.stats.sent_samples();
        let rate = self.settings.delivery.format.rate();
        let usage = Usage {
            characters: self.characters,
            text_tokens: self.text_tokens,
            frames: self.stats.frames(),
            samples,
            sample_rate: Some(rate),
            audio: rate.duration(samples),
        };
        let timings = self.stats.timings(now);
        let done = Done {
            outcome,
            usage,
            timings: timings.clone(),
            seed: self.seed,
            error: error.clone(),
            heard: self.told.take(),
            warnings: std::mem::take(&mut self.warnings),
        };
        let track = self.trace.take().map(|(context, sequences)| {
            let (asked, submitted) = self.stats.waited();
            Track {
                context,
                began: self.stats.began(),
                ended: now,
                asked,
                admitted: None,
                submitted,
                sampling: self.settings.sampling,
                max_outputs: self.settings.max_frames,
                answer: None,
                sequences,
            }
        });
        let record = UtteranceRecord {
            session,
            utterance: self.id,
            voice: self.settings.voice.clone(),
            outcome,
            error,
            usage,
            timings,
            seed: self.seed,
        };
        (done, EndedRequest::Utterance(Box::new(record)), track)
    }
}
