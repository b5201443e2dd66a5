//! The end of an answer: its results for the caller, the log and the conversation.

use omni_audio::Samples;
use omni_core::error::{ErrorKind, ServeError};
use omni_core::id::SessionId;
use omni_engine::Stamp;

use super::Turn;
use crate::chat::protocol::{ResponseDone, Said};
use crate::chat::record::TurnRecord;
use crate::chat::voice::{HeardText, Voice};
use crate::record::{EndedRequest, Outcome};
use crate::track::{Sequences, Track};

/// Result of an answer that has ended.
#[derive(Debug)]
pub(in crate::chat) struct Closed {
    pub(in crate::chat) done: ResponseDone,
    pub(in crate::chat) record: EndedRequest,
    pub(in crate::chat) track: Option<Track>,
    pub(in crate::chat) last: Last,
}

/// A finished answer, for a late cut.
#[derive(Debug)]
pub(in crate::chat) struct Last {
    /// Message that the conversation keeps of it.
    pub(in crate::chat) said: Said,
    /// `true` if it was to be heard.
    pub(in crate::chat) is_spoken: bool,
    /// Its whole text.
    text: String,
    echo: Option<HeardText>,
}

impl Last {
    /// Cuts it to the part that was heard; it never grows again.
    pub(in crate::chat) fn cut(&mut self, played: Samples) {
        if let Some(echo) = &self.echo {
            let heard = self.text[..echo.heard(&self.text, Some(played))].trim_end();
            self.said.text.truncate(heard.len());
        }
    }
}

impl Turn {
    fn track(&mut self, sequences: Sequences, now: Stamp) -> Option<Track> {
        let figures = &self.figures;
        self.trace.take().map(|context| Track {
            context,
            began: self.began,
            ended: now,
            asked: Some(self.began),
            admitted: figures.admitted,
            submitted: figures.submitted,
            sampling: self.settings.sampling,
            max_outputs: Some(self.settings.max_tokens),
            answer: Some((figures.answer.stage, self.seq, figures.answer.snapshot)),
            sequences,
        })
    }

    /// Ends it. With `aborted` the session ends under it and there will be no `response_done`.
    pub(in crate::chat) fn close(
        mut self,
        session: SessionId,
        aborted: Option<ServeError>,
        now: Stamp,
    ) -> Closed {
        if aborted
            .as_ref()
            .is_some_and(|error| matches!(error.kind(), ErrorKind::CallerGone | ErrorKind::DeadlineExceeded))
        {
            self.request.give_up();
        }
        self.stop_thinking();
        let (outcome, error) = match aborted {
            Some(error) => (Outcome::Aborted, Some(error)),
            None => (self.outcome, self.error.take()),
        };
        let kept = match outcome {
            Outcome::Stop | Outcome::Length | Outcome::Repetition => self.text.as_str(),
            Outcome::Interrupted => self.text[..self.kept.unwrap_or(0)].trim_end(),
            Outcome::Error | Outcome::Aborted => "",
        };
        let said = Said {
            id: self.id.clone(),
            text: kept.to_owned(),
        };
        let is_spoken = self.voice.is_some();
        let echo = self.voice.as_ref().and_then(Voice::echo);
        let closed = self.voice.take().map(|voice| voice.close(session, now));
        let (speech, sequences) = closed.unzip();
        let track = self.track(sequences.flatten().unwrap_or_default(), now);
        let timings = self.figures.timings(self.began, speech.as_ref(), now);
        let usage = self.figures.usage(speech.as_ref());
        let warnings = speech.map(|speech| speech.warnings).unwrap_or_default();
        let done = ResponseDone {
            outcome,
            usage,
            timings: timings.clone(),
            seed: self.seed,
            error: error.clone(),
            said,
            warnings,
        };
        let record = TurnRecord {
            session,
            response: self.id,
            modalities: self.modalities,
            voice: self.settings.speech.voice.clone(),
            messages: self.figures.messages,
            outcome,
            error,
            usage,
            timings,
            seed: self.seed,
        };
        let last = Last {
            said: done.said.clone(),
            is_spoken,
            text: self.text,
            echo,
        };
        Closed {
            done,
            record: EndedRequest::Turn(Box::new(record)),
            track,
            last,
        }
    }
}
