//! Speech of an answer: an utterance whose text is still being generated.

use std::sync::Arc;
use std::time::Duration;

use omni_audio::Samples;
use omni_core::error::{ErrorKind, ServeError};
use omni_core::id::{MessageId, SessionId, UtteranceId};
use omni_core::orchestrator::{Orchestrator, TextEncoder};
use omni_engine::Stamp;
use omni_family::Voicing;
use omni_pipeline::orchestrator::StageError;
use omni_pipeline::request::ContextRow;
use omni_pipeline::stage::{CancelTimer, ReplicaId};
use omni_telemetry::TraceContext;

use super::outbox::Outbox;
use super::protocol::ChatEventBody;
use super::writing::DecodedText;
use crate::alignment::Heard;
use crate::limits::SessionLimits;
use crate::outbox::Outbox as Events;
use crate::pacer::PlayoutPacer;
use crate::pipeline::Progress;
use crate::protocol::{AudioOut, Done, EventBody};
use crate::record::{Outcome, Packet};
use crate::settings::Settings;
use crate::track::Sequences;
use crate::utterance::Utterance;

/// Divisor: the part of the context of speech that the user's turns may take. The rest is for the answer.
const SHARE: usize = 2;

/// The spoken side of an answer.
#[derive(derive_more::Debug)]
// Never prints the text itself.
#[debug("Voice {{ utterance: {:?}, .. }}", self.utterance)]
pub(super) struct Voice {
    utterance: Utterance,
    pacer: PlayoutPacer,
    events: Events,
    voicing: Voicing,
    speech_context: bool,
    /// Opening of the answer, until the model has got it.
    opening: Vec<u32>,
    /// Tokens that the model has not got yet, and text whose tokens it has not.
    held: Vec<u32>,
    unspoken: String,
    encode: TextEncoder,
    /// Turns of the user, while the embeddings of their audio are awaited.
    awaiting: Option<Vec<ContextRow>>,
    max_rows: usize,
    /// `true` if the text cannot be spoken, or not from here on; it is written all the same.
    mute: bool,
}

/// End of the speech.
#[derive(Debug)]
pub(super) enum VoiceEnd {
    /// With the text.
    Stop,
    /// At a limit.
    Length,
    /// It failed.
    Failed(ServeError),
}

/// Word times kept after the speech, to tell the heard part of the text.
#[derive(Debug)]
pub(super) struct HeardText {
    heard: Heard,
    sent: Samples,
}

impl HeardText {
    /// Bytes of `text` that a listener has heard after output samples up to `played`: whole words.
    pub(super) fn heard(&self, text: &str, played: Option<Samples>) -> usize {
        self.heard.words(text, played.unwrap_or(self.sent).min(self.sent))
    }
}

impl Voice {
    /// # Errors
    /// If the model does not converse.
    pub(super) fn new(
        id: &MessageId,
        settings: &Settings,
        seed: u64,
        orchestrator: &Orchestrator,
        limits: &SessionLimits,
        request: Arc<CancelTimer>,
        now: Stamp,
    ) -> Result<Self, ServeError> {
        let model = orchestrator.model()?;
        let chat = orchestrator.chat()?;
        let settings = Arc::new(Settings {
            seed: settings.seed.or(Some(seed)),
            ..settings.clone()
        });
        let id = UtteranceId::from(id.as_str());
        let utterance = Utterance::new(id, settings, orchestrator.clone(), model, limits, now);
        Ok(Self {
            utterance: utterance.for_answer(request),
            pacer: PlayoutPacer::default(),
            events: Events::default(),
            voicing: chat.info.voicing,
            speech_context: chat.info.speech_context,
            opening: Vec::new(),
            held: Vec::new(),
            encode: Arc::clone(&model.encode),
            unspoken: String::new(),
            awaiting: None,
            max_rows: model.info.max_context as usize / SHARE,
            mute: false,
        })
    }

    /// Sets its trace, if there is one.
    pub(super) fn traced(mut self, trace: Option<Arc<TraceContext>>) -> Self {
        self.utterance = self.utterance.traced(trace);
        self
    }

    /// Sets the turns that it answers, and the opening of the answer; returns true if embeddings of the user's audio
    /// are needed first.
    pub(super) fn begin(&mut self, mut turns: Vec<Vec<ContextRow>>, opening: Vec<u32>) -> bool {
        self.opening = opening;
        if !self.speech_context {
            return false;
        }
        let mut rows: usize = turns.iter().map(Vec::len).sum();
        let mut first = 0;
        while rows > self.max_rows && first < turns.len() {
            rows -= turns[first].len();
            first += 1;
        }
        let rows: Vec<_> = turns.drain(first..).flatten().collect();
        if rows.iter().any(|row| matches!(row, ContextRow::Awaited(_))) {
            self.awaiting = Some(rows);
            return true;
        }
        self.utterance.set_context(rows.into());
        false
    }

    /// Sets the replica that writes the answer.
    pub(super) fn written_by(&mut self, writer: Option<ReplicaId>) {
        self.utterance.written_by(writer);
    }

    /// Sets the hidden states of the user's audio, which `stage` gives with the first token of the answer.
    ///
    /// # Errors
    /// If there are fewer than requested.
    pub(super) fn hear_user(&mut self, heard: &[Arc<[f32]>], stage: &'static str) -> Result<(), ServeError> {
        let Some(rows) = self.awaiting.take() else {
            return Ok(());
        };
        let resolved = rows.into_iter().map(|row| match row {
            ContextRow::Awaited(nth) => heard.get(nth as usize).cloned().map(ContextRow::Hidden),
            row => Some(row),
        });
        let resolved: Option<Vec<_>> = resolved.collect();
        let resolved = resolved.ok_or_else(|| StageError::Failed {
            stage,
            message: format!(
                "it gave {} rows of what it heard, fewer than there are",
                heard.len()
            ),
        })?;
        self.utterance.set_context(resolved.into());
        Ok(())
    }

    /// Adds text of the answer.
    pub(super) fn push(&mut self, written: &DecodedText, now: Stamp) {
        match self.voicing {
            Voicing::Words if written.text.is_empty() => {}
            // The tokens of an answer bound its length.
            Voicing::Words => self.utterance.push(&written.text, usize::MAX, now),
            Voicing::Tokens => {
                self.held.extend(&written.tokens);
                self.unspoken.push_str(&written.text);
                // Speech without any text has no utterance.
                if !self.unspoken.is_empty() {
                    self.push_tokens();
                }
            }
        }
    }

    fn push_tokens(&mut self) {
        if !self.held.is_empty() {
            let mut tokens = std::mem::take(&mut self.opening);
            tokens.append(&mut self.held);
            let text = std::mem::take(&mut self.unspoken);
            self.utterance.push_tokens(tokens, &text);
        }
    }

    /// Encodes the text before a stop string that began within a token, which is not spoken.
    fn encode_rest(&mut self) {
        match (self.encode)(&self.unspoken) {
            Ok(tokens) => self.held = tokens,
            Err(error) => self.utterance.fail(StageError::Failed {
                stage: "prompt",
                message: error.to_string(),
            }),
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self, now: Stamp) {
        // Without a first token there are no hidden states, and nothing is spoken.
        self.awaiting = None;
        if !self.unspoken.is_empty() {
            if self.held.is_empty() {
                self.encode_rest();
            }
            self.push_tokens();
        }
        self.utterance.finish(now);
    }

    /// Cancels the speech: the listener is gone, or wants no more.
    pub(super) fn cancel(&mut self) {
        self.utterance.cancel(None);
    }

    /// Waits for its next event.
    pub(super) async fn next(&mut self) -> Progress {
        self.utterance.next().await
    }

    /// Handles its event.
    pub(super) fn take(&mut self, progress: Progress, now: Stamp) {
        self.utterance.take(progress, &mut self.events, now);
    }

    /// Does everything that is possible now; returns its end once all its audio is in the outbox.
    pub(super) fn advance(&mut self, id: &MessageId, out: &mut Outbox, now: Stamp) -> Option<VoiceEnd> {
        if self.mute {
            self.pass_on(id, out);
            return self.utterance.end_audio().then_some(VoiceEnd::Stop);
        }
        if self.awaiting.is_some() {
            return None;
        }
        // Audio from before the failure is still sent.
        self.pass_on(id, out);
        loop {
            let over = self.utterance.advance(&mut self.events, now);
            let moved = self.pass_on(id, out);
            if over {
                return self.end(id, out);
            }
            if !moved {
                return None;
            }
        }
    }

    fn pass_on(&mut self, id: &MessageId, out: &mut Outbox) -> bool {
        let mut moved = false;
        while let Some(event) = self.events.pop() {
            moved = true;
            match event.body {
                EventBody::Audio(audio) => out.push(Some(id), ChatEventBody::Audio(audio)),
                EventBody::Warning { reason, message } => {
                    out.push(Some(id), ChatEventBody::Warning { reason, message });
                }
                EventBody::Ready(_) | EventBody::Started | EventBody::Alignment(_) | EventBody::Done(_) => {}
            }
        }
        moved
    }

    fn end(&mut self, id: &MessageId, out: &mut Outbox) -> Option<VoiceEnd> {
        Some(match self.utterance.outcome() {
            (Outcome::Length, _) => VoiceEnd::Length,
            // A model may write text that no voice can say; its answer has not failed.
            (_, Some(error)) if error.kind() == ErrorKind::Unspeakable => {
                let reason = error.reason();
                let message = format!("the answer is not spoken: {error}");
                out.push(Some(id), ChatEventBody::Warning { reason, message });
                self.mute = true;
                return self.utterance.end_audio().then_some(VoiceEnd::Stop);
            }
            (_, Some(error)) => VoiceEnd::Failed(error.clone()),
            (_, None) => VoiceEnd::Stop,
        })
    }

    /// Time at which more audio of it may be passed to the transport, if that is after `now`.
    pub(super) fn due(&self, time: Duration, now: Stamp) -> Option<Stamp> {
        self.pacer.due(self.utterance.max_lead(), time, now)
    }

    /// Records that audio was passed to the transport.
    pub(super) fn handed_over(&mut self, audio: &AudioOut, now: Stamp) -> Option<Packet> {
        self.pacer.sent(audio.time, now);
        self.utterance.handed_over(audio, now)
    }

    /// Word times of its audio; none if there was nothing to hear.
    pub(super) fn echo(&self) -> Option<HeardText> {
        let sounded = !self.mute || self.utterance.has_sounded();
        sounded.then(|| HeardText {
            heard: self.utterance.heard(),
            sent: self.utterance.sent(),
        })
    }

    /// Closes it; returns its figures, and its sequences if it is traced.
    pub(super) fn close(self, session: SessionId, now: Stamp) -> (Done, Option<Sequences>) {
        let (done, _, track) = self.utterance.close(session, None, now);
        (done, track.map(|track| track.sequences))
    }
}
