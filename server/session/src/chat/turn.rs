//! One answer from the request for it to its `response_done`.
//!
//! It waits for its permit, has its prompt built, and then passes the model's text on, to the reader and to the
//! voice. It is closed exactly once: closing consumes it and returns the end, the record, and the state needed to cut
//! it afterwards.

mod close;
mod prepare;
mod waits;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::BoxFuture;
use omni_audio::Samples;
use omni_core::error::{InvalidField, ServeError};
use omni_core::id::MessageId;
use omni_core::orchestrator::Orchestrator;
use omni_engine::{CacheSalt, SeqId, Stamp};
use omni_pipeline::item::ReplyToken;
use omni_pipeline::orchestrator::{Reply, ReplyOutput, ReplySpec, UtterancePermit};
use omni_pipeline::request::TextRequest;
use omni_pipeline::stage::{CancelTimer, End};
use omni_pipeline::trace::TraceHandle;
use omni_telemetry::TraceContext;
use omni_text::EmptyStop;

use super::cut::PROMPT_TRIMMED;
use super::figures::Figures;
use super::fit::Room;
use super::history::Conversation;
use super::outbox::Outbox;
use super::protocol::ChatEventBody;
use super::settings::{ChatSettings, Modalities};
use super::voice::{Voice, VoiceEnd};
use super::writing::{Aloud, DecodedText, Writing};
use crate::limits::SessionLimits;
use crate::pipeline::Progress;
use crate::protocol::AudioOut;
use crate::record::{Outcome, Packet};

pub(super) use close::Last;
use prepare::{Preparation, Prepared};

/// Question to the model, with its settings.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: MessageId,
    pub(super) settings: Arc<ChatSettings>,
    pub(super) modalities: Modalities,
    pub(super) conversation: Conversation,
    pub(super) seed: u64,
    /// Keeps its cache entries apart from those of others.
    pub(super) salt: CacheSalt,
    /// Trace context, if it is traced.
    pub(super) trace: Option<Arc<TraceContext>>,
}

/// The state of one answer.
#[derive(derive_more::Debug)]
// Never prints the text itself.
#[debug("Turn {{ id: {:?}, phase: {:?}, .. }}", self.id, self.phase)]
pub(super) struct Turn {
    id: MessageId,
    settings: Arc<ChatSettings>,
    modalities: Modalities,
    seed: u64,
    salt: CacheSalt,
    orchestrator: Orchestrator,
    /// Held by every stage that works on it.
    request: Arc<CancelTimer>,
    trace: Option<Arc<TraceContext>>,
    /// Sequence by which the stage that answers knows it.
    seq: Option<SeqId>,
    began: Stamp,
    phase: Phase,
    /// Set when it has its permit.
    placed: Arc<AtomicBool>,
    /// Held to the end: the voice works under it, too.
    permit: Option<UtterancePermit>,
    writing: Writing,
    /// Part of it that is spoken, if that is not all.
    aloud: Option<Aloud>,
    voice: Option<Voice>,
    started: bool,
    /// All text so far.
    text: String,
    /// Bytes of it that were passed to the transport.
    sent: usize,
    /// Bytes of it that an interruption leaves.
    kept: Option<usize>,
    forgotten: usize,
    /// Start of the wait for the next token, after the first, and the number of idle times of the stage until then.
    waits: Option<(Stamp, u32)>,
    /// Longest such wait.
    max_wait: Duration,
    outcome: Outcome,
    error: Option<ServeError>,
    figures: Figures,
}

/// Progress of the text.
enum Phase {
    /// The permit is pending, and the prompt is built.
    Preparing(BoxFuture<'static, Result<Prepared, ServeError>>),
    /// The stage that answers works.
    Thinking(Box<Reply>),
    /// All tokens have come.
    Over,
}

impl fmt::Debug for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preparing(_) => "Preparing",
            Self::Thinking(_) => "Thinking",
            Self::Over => "Over",
        })
    }
}

/// Event of an answer.
#[derive(Debug)]
pub(super) enum TurnEvent {
    Prepared(Box<Result<Prepared, ServeError>>),
    Thought(ReplyOutput),
    Spoken(Progress),
}

impl Turn {
    /// Begins to answer.
    ///
    /// # Errors
    /// If the model does not converse.
    pub(super) fn new(
        question: Question,
        orchestrator: &Orchestrator,
        limits: &SessionLimits,
        clock: omni_pipeline::clock::Clock,
        now: Stamp,
    ) -> Result<Self, ServeError> {
        let model = orchestrator.model()?;
        let chat = orchestrator.chat()?;
        let request = model.pipeline.request();
        let Question {
            id,
            settings,
            modalities,
            conversation,
            seed,
            salt,
            trace,
        } = question;
        let voice = if modalities.audio {
            Some(
                Voice::new(
                    &id,
                    &settings.speech,
                    seed,
                    orchestrator,
                    limits,
                    Arc::clone(&request),
                    now,
                )?
                .traced(trace.clone()),
            )
        } else {
            None
        };
        let empty = |error: EmptyStop| InvalidField::new("config.stop", error.to_string());
        let writing = Writing::new((chat.detokenizer)(), &settings.stop).map_err(empty)?;
        let aloud = if voice.is_some() && conversation.offers_tools() {
            Some(Aloud::new((chat.detokenizer)(), &settings.stop).map_err(empty)?)
        } else {
            None
        };
        let room = Room {
            context: chat.info.max_context,
            max_tokens: settings.max_tokens,
            hearing: chat.info.hearing,
            strict: model.info.terms.strict,
        };
        let placed = Arc::new(AtomicBool::new(false));
        let preparing = Preparation {
            orchestrator: orchestrator.clone(),
            prompt: Arc::clone(&chat.prompt),
            conversation,
            room,
            request: Arc::clone(&request),
            placed: Arc::clone(&placed),
            clock,
            asked: now,
        };
        Ok(Self {
            id,
            modalities,
            seed,
            salt: if chat.shared_prefixes {
                CacheSalt::default()
            } else {
                salt
            },
            orchestrator: orchestrator.clone(),
            request,
            trace,
            seq: None,
            began: now,
            phase: Phase::Preparing(Box::pin(preparing.run())),
            placed,
            permit: None,
            writing,
            aloud,
            voice,
            started: false,
            text: String::new(),
            sent: 0,
            kept: None,
            forgotten: 0,
            waits: None,
            max_wait: chat.stall,
            outcome: Outcome::Stop,
            error: None,
            figures: Figures::of(model.pipeline.answers(), model.pipeline.hears()),
            settings,
        })
    }

    pub(super) fn id(&self) -> &MessageId {
        &self.id
    }

    /// Takes the number of messages that did not fit into the context.
    pub(super) fn take_forgotten(&mut self) -> usize {
        std::mem::take(&mut self.forgotten)
    }

    /// Returns true if it is to be heard.
    pub(super) fn is_spoken(&self) -> bool {
        self.voice.is_some()
    }

    /// Waits for its next event; for text and for audio only where they are taken. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, text: bool, audio: bool) -> TurnEvent {
        let phase = &mut self.phase;
        let words = async {
            match phase {
                Phase::Preparing(preparing) => TurnEvent::Prepared(Box::new(preparing.await)),
                Phase::Thinking(reply) if text => TurnEvent::Thought(reply.next().await),
                Phase::Thinking(_) | Phase::Over => std::future::pending().await,
            }
        };
        match &mut self.voice {
            Some(voice) if audio => tokio::select! {
                biased;
                spoken = voice.next() => TurnEvent::Spoken(spoken),
                event = words => event,
            },
            _ => words.await,
        }
    }

    /// Handles its event.
    pub(super) fn take(&mut self, event: TurnEvent, out: &mut Outbox, now: Stamp) {
        match event {
            TurnEvent::Prepared(prepared) => {
                if let Err(error) = prepared.and_then(|prepared| self.start(prepared, out, now)) {
                    self.fail(error);
                }
            }
            TurnEvent::Thought(ReplyOutput::Token(token)) => self.token(&token, out, now),
            TurnEvent::Thought(ReplyOutput::End(end)) => self.thought(end, out, now),
            TurnEvent::Spoken(spoken) => {
                if let Some(voice) = &mut self.voice {
                    voice.take(spoken, now);
                }
            }
        }
    }

    fn start(&mut self, prepared: Prepared, out: &mut Outbox, now: Stamp) -> Result<(), ServeError> {
        let Prepared {
            permit,
            admitted,
            encoder,
            recordings,
            fitted,
        } = prepared;
        self.permit = Some(permit);
        let figures = &mut self.figures;
        figures.admitted = Some(admitted);
        figures.submitted = Some(now);
        figures.encoder.snapshot = encoder;
        figures.recordings = recordings;
        (figures.messages, figures.characters) = (fitted.messages, fitted.characters);
        figures.prompt_tokens = fitted.prompt.text_tokens();
        figures.prompt_audio = fitted.prompt.audio_rows();
        self.forgotten = fitted.forgotten;
        if self.forgotten > 0 {
            let message = format!(
                "the model does not take all of the conversation: its oldest {} messages are forgotten",
                self.forgotten
            );
            self.warn(out, "HISTORY_TRIMMED", message);
        }
        if fitted.cut > 0 {
            let message = format!(
                "the model does not take all of the instructions and the last turn: {} characters of their middle are left out",
                fitted.cut
            );
            tracing::info!(characters = fitted.cut, "prompt trimmed");
            self.warn(out, PROMPT_TRIMMED, message);
        }
        let info = &self.orchestrator.chat()?.info;
        let context = info.max_context as usize;
        let room = u32::try_from(context - fitted.prompt.positions().min(context)).unwrap_or(u32::MAX);
        let sampling = self.settings.sampling.or(info.default_sampling);
        let prompt = fitted.prompt;
        let awaits = match &mut self.voice {
            Some(voice) => voice.begin(prompt.context, prompt.opening),
            None => false,
        };
        let spec = ReplySpec {
            request: TextRequest {
                prompt: prompt.pieces,
                sampling,
                seed: self.seed,
                export_hidden: awaits,
                salt: self.salt,
                max_outputs: self.settings.max_tokens.min(room).max(1),
            },
            arrived: self.began,
            request_held: Arc::clone(&self.request),
            trace: self.trace.clone().map(TraceHandle::new),
        };
        let reply = self.orchestrator.answer(spec)?;
        if let Some(voice) = &mut self.voice {
            voice.written_by(reply.progress().replica);
        }
        self.phase = Phase::Thinking(Box::new(reply));
        Ok(())
    }

    fn token(&mut self, token: &ReplyToken, out: &mut Outbox, now: Stamp) {
        self.figures.reply_tokens += 1;
        self.waits = None;
        self.figures.intervals.token(now);
        if let Some(voice) = &mut self.voice
            && let Err(error) = voice.hear_user(&token.hidden, self.figures.answer.stage)
        {
            return self.fail(error);
        }
        let written = self.writing.push(token.id);
        let aloud = self.aloud.as_mut().map(|aloud| aloud.push(token.id));
        let stopped = written.stopped;
        self.write(written, aloud.as_ref(), out, now);
        if stopped {
            self.finish(now);
        }
    }

    /// Handles the end of the stage that answers.
    fn thought(&mut self, end: End, out: &mut Outbox, now: Stamp) {
        let written = self.writing.finish();
        let aloud = self.aloud.as_mut().map(match end {
            End::Stop => Aloud::finish,
            _ => Aloud::cut,
        });
        self.write(written, aloud.as_ref(), out, now);
        self.finish(now);
        match end {
            End::Length => self.outcome = Outcome::Length,
            End::Repetition => self.outcome = Outcome::Repetition,
            end => {
                if let Some(error) = ServeError::of_end(end, "message") {
                    self.fail(error);
                }
            }
        }
    }

    /// Passes text on; to the voice only the part `aloud`, if that is set.
    fn write(&mut self, written: DecodedText, aloud: Option<&DecodedText>, out: &mut Outbox, now: Stamp) {
        if let Some(voice) = &mut self.voice {
            voice.push(aloud.unwrap_or(&written), now);
        }
        if written.text.is_empty() {
            return;
        }
        self.text.push_str(&written.text);
        if self.modalities.text {
            out.push(Some(&self.id), ChatEventBody::Text(written.text));
        }
    }

    /// Ends the text. The stage that answers is stopped if it has not ended.
    fn finish(&mut self, now: Stamp) {
        self.stop_thinking();
        if let Some(voice) = &mut self.voice {
            voice.finish(now);
        }
    }

    fn stop_thinking(&mut self) {
        if let Phase::Thinking(reply) = std::mem::replace(&mut self.phase, Phase::Over) {
            self.figures.answer.snapshot = reply.progress();
            self.seq = reply.seq();
        }
    }

    /// Fails the answer. The first error counts.
    pub(super) fn fail(&mut self, error: impl Into<ServeError>) {
        if !self.is_over() {
            self.error = Some(error.into());
            self.stop(Outcome::Error);
        }
    }

    /// Interrupts the answer: the caller has heard samples up to `played`.
    pub(super) fn interrupt(&mut self, played: Option<Samples>) {
        if !self.is_over() {
            let echo = self.voice.as_ref().and_then(Voice::echo);
            self.kept = Some(echo.map_or(self.sent, |echo| echo.heard(&self.text, played)));
            self.request.give_up();
            self.stop(Outcome::Interrupted);
        }
    }

    fn stop(&mut self, outcome: Outcome) {
        self.outcome = outcome;
        self.stop_thinking();
        if let Some(voice) = &mut self.voice {
            voice.cancel();
        }
    }

    /// Returns true if its end is decided.
    fn is_over(&self) -> bool {
        matches!(self.outcome, Outcome::Interrupted | Outcome::Error)
    }

    /// Does everything that is possible now; returns true when only closing is left.
    pub(super) fn advance(&mut self, out: &mut Outbox, now: Stamp) -> bool {
        if !self.started {
            self.started = true;
            out.push(Some(&self.id), ChatEventBody::Started);
        }
        let over = self.is_over();
        let spoken = match &mut self.voice {
            Some(voice) if !over => voice.advance(&self.id, out, now),
            _ => Some(VoiceEnd::Stop),
        };
        let is_spoken = spoken.is_some();
        match spoken {
            Some(VoiceEnd::Length) => {
                // Further text would not be heard.
                self.stop_thinking();
                self.outcome = Outcome::Length;
            }
            Some(VoiceEnd::Failed(error)) => self.fail(error),
            Some(VoiceEnd::Stop) | None => {}
        }
        if self.is_over() {
            out.drop_content();
            return true;
        }
        matches!(self.phase, Phase::Over) && is_spoken && !out.has_content()
    }

    fn warn(&self, out: &mut Outbox, reason: &'static str, message: String) {
        out.push(Some(&self.id), ChatEventBody::Warning { reason, message });
    }

    /// Records that text was passed to the transport.
    pub(super) fn text_sent(&mut self, bytes: usize, now: Stamp) {
        self.sent += bytes;
        self.figures.first_text.get_or_insert(now);
    }

    /// Time at which more audio of it may be passed to the transport, if that is after `now`.
    pub(super) fn due(&self, time: Duration, now: Stamp) -> Option<Stamp> {
        self.voice.as_ref()?.due(time, now)
    }

    /// Records that audio was passed to the transport. Returns the record of every packet but the first.
    pub(super) fn audio_sent(&mut self, audio: &AudioOut, now: Stamp) -> Option<Packet> {
        self.voice.as_mut()?.handed_over(audio, now)
    }
}
