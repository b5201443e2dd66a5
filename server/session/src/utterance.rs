//! One utterance from its first text to its `done`.
//!
//! It gathers text into pieces, speaks them one after the other when its turn comes, and is closed exactly once:
//! closing consumes it and returns both the `done` event and the record.

mod audio_out;
mod close;
mod text_in;

use std::sync::Arc;
use std::time::Duration;

use omni_audio::{Samples, Speed};
use omni_core::error::ServeError;
use omni_core::id::{UtteranceId, random_seed, random_u64};
use omni_core::orchestrator::{Model, Orchestrator};
use omni_engine::Stamp;
use omni_family::SpeechInfo;
use omni_pipeline::orchestrator::SegmentSpec;
use omni_pipeline::request::{ContextRow, SpeechHead, SpeechRequest};
use omni_pipeline::stage::{CancelTimer, ReplicaId};
use omni_pipeline::trace::TraceHandle;
use omni_telemetry::TraceContext;

use super::alignment::{Alignment, Heard};
use super::delivery_stats::DeliveryStats;
use super::limits::SessionLimits;
use super::outbox::Outbox;
use super::output::Output;
use super::pipeline::{Progress, UtterancePipeline};
use super::post_processing::{Note, PostProcessing};
use super::protocol::{AudioOut, Event, EventBody, Warning};
use super::record::{Outcome, Packet};
use super::settings::Settings;
use super::text::{Piece, Position, TextFront};
use super::track::Sequences;

/// Step between the seeds of an utterance's sequences (the golden ratio in 64 bits): distinct for all of them.
const SEED_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Speech that takes longer than this plus [`LONGEST_CHARACTER`] per character has failed: people need 0.07 s for one
/// of English, 0.25 s for one of Chinese.
const LONGEST_START: Duration = Duration::from_secs(5);
const LONGEST_CHARACTER: Duration = Duration::from_millis(500);

/// The state of one utterance.
#[derive(Debug)]
pub(super) struct Utterance {
    id: UtteranceId,
    settings: Arc<Settings>,
    info: Arc<SpeechInfo>,
    seed: u64,
    text: TextFront,
    /// `true` if the caller sends no more text.
    finished: bool,
    /// `true` if a limit was reached: further text is dropped.
    cut: bool,
    received: usize,
    characters: u32,
    text_tokens: u32,
    pipeline: UtterancePipeline,
    post_processing: PostProcessing,
    /// `true` once there is audio.
    begun: bool,
    stats: DeliveryStats,
    /// Samples heard, if the cancel requested the heard text.
    asked: Option<Samples>,
    /// Heard part of its text, and the rest, if that was requested.
    told: Option<(String, String)>,
    /// Warnings.
    warnings: Vec<Warning>,
    /// Held by every stage that works on it.
    request: Arc<CancelTimer>,
    /// Trace context, if it is traced, and the sequences for its spans.
    trace: Option<(Arc<TraceContext>, Sequences)>,
    /// Turns that it answers, if it is the model's own text.
    context: Option<Arc<[ContextRow]>>,
    /// `true` if its text comes from the model: a gap is never the caller's.
    own_text: bool,
    /// The replica that writes it.
    writer: Option<ReplicaId>,
    sequences: u64,
    started: bool,
    /// `true` while the last audio is being made.
    finishing: bool,
    /// `true` once the last audio is in the outbox.
    complete: bool,
    outcome: Outcome,
    error: Option<ServeError>,
    last_text: Stamp,
    /// Time of the pipeline's last output.
    last_spoken: Stamp,
    /// Longest pause of the caller within a sentence.
    max_text_pause: Duration,
}

impl Utterance {
    pub(super) fn new(
        id: UtteranceId,
        settings: Arc<Settings>,
        orchestrator: Orchestrator,
        model: &Model,
        limits: &SessionLimits,
        now: Stamp,
    ) -> Self {
        let info = Arc::clone(&model.info);
        let rate = info.sample_rate;
        let mut delivery = settings.delivery;
        if info.own_speed {
            delivery.rendering.speed = Speed::default();
        }
        let delivery = &delivery;
        // Streams in one file need different serials, for any seeds.
        let output = Output::new(rate, delivery, limits.max_audio, random_u64() as u32);
        let alignment = Alignment::new(rate, output.timeline(rate, delivery));
        Self {
            id,
            seed: settings.seed.unwrap_or_else(random_seed),
            text: TextFront::new(
                &info,
                Arc::clone(&model.encode),
                settings.buffering,
                limits.max_buffered_text_bytes,
            ),
            finished: false,
            cut: false,
            received: 0,
            characters: 0,
            text_tokens: 0,
            pipeline: UtterancePipeline::new(orchestrator),
            stats: DeliveryStats::new(delivery.format.rate(), model.pipeline.speech(), now)
                .whole(delivery.whole),
            post_processing: PostProcessing::new(
                model.compute.clone(),
                output,
                alignment,
                settings.alignment,
            ),
            begun: false,
            asked: None,
            told: None,
            warnings: Vec::new(),
            request: model.pipeline.request(),
            trace: None,
            context: None,
            own_text: false,
            writer: None,
            sequences: 0,
            started: false,
            finishing: false,
            complete: false,
            outcome: Outcome::Stop,
            error: None,
            last_text: now,
            last_spoken: now,
            max_text_pause: limits.max_text_pause,
            settings,
            info,
        }
    }

    /// Speaks the text of an answer, under a permit that is held for both, as a part of `request`.
    pub(super) fn for_answer(mut self, request: Arc<CancelTimer>) -> Self {
        self.request = request;
        self.own_text = true;
        self.stats.answers();
        self.pipeline.lend();
        self
    }

    /// Protocol without a cancel: the heard text is never requested.
    pub(super) fn uncut(mut self) -> Self {
        self.post_processing.unasked();
        self
    }

    /// Marks its text as the whole request of its caller.
    pub(super) fn whole(mut self) -> Self {
        self.text.set_whole();
        self
    }

    /// Sets its trace, if there is one.
    pub(super) fn traced(mut self, trace: Option<Arc<TraceContext>>) -> Self {
        self.trace = trace.map(|context| (context, Sequences::default()));
        self
    }

    /// Sets the replica that writes its text; before its first text.
    pub(super) fn written_by(&mut self, writer: Option<ReplicaId>) {
        self.writer = writer;
    }

    /// Sets the turns that it answers; before its first text.
    pub(super) fn set_context(&mut self, context: Arc<[ContextRow]>) {
        self.context = Some(context);
    }

    pub(super) fn id(&self) -> &UtteranceId {
        &self.id
    }

    /// Returns true if the caller may still send text for it; after a failure or at a limit that is dropped.
    pub(super) fn is_open(&self) -> bool {
        !self.finished
    }

    /// Returns true if text for it is spoken, and not dropped.
    pub(super) fn takes_text(&self) -> bool {
        !self.cut && !self.is_over()
    }

    /// Returns true if a flush would do anything.
    pub(super) fn has_to_flush(&self) -> bool {
        self.takes_text() && (self.text.is_gathering() || self.pipeline.is_open())
    }

    /// Returns true if it waits for a permit or for the stages, and not for its caller.
    pub(super) fn is_busy(&self) -> bool {
        self.pipeline.is_busy()
    }

    /// Returns true if all of its text has arrived.
    fn has_all_text(&self) -> bool {
        self.finished || self.cut
    }

    /// Bytes of text that wait to be spoken, or to be aligned. Most of it waits for both.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.text.waiting_bytes().max(self.post_processing.noted_bytes())
    }

    /// Time at which gathered text is spoken without a flush.
    pub(super) fn flush_due(&self) -> Option<Stamp> {
        let delay = self.settings.max_buffer_delay?;
        (self.is_open() && self.takes_text() && self.text.is_gathering()).then(|| self.last_text + delay)
    }

    /// Time at which a sequence that waits for the rest of its sentence is ended without it, to free its place. It is
    /// not ended while there is still audio to hear.
    pub(super) fn pause_due(&self) -> Option<Stamp> {
        (self.takes_text() && !self.finished && self.pipeline.is_open())
            .then(|| self.last_text.max(self.last_spoken) + self.max_text_pause)
    }

    /// Ends the open sequence at its last word.
    pub(super) fn pause(&mut self, now: Stamp) {
        // If its end cannot be passed on yet, that is retried in due time and not at once.
        self.last_spoken = now;
        self.text.end_sequence();
    }

    /// Cancels it; if `played` is set, the caller is told the heard text.
    pub(super) fn cancel(&mut self, played: Option<Samples>) {
        self.finished = true;
        if !self.is_over() {
            self.asked = played.map(|played| played.min(self.sent()));
            self.request.give_up();
            self.stop(Outcome::Interrupted);
        }
    }

    /// Fails it. The first error counts.
    pub(super) fn fail(&mut self, error: impl Into<ServeError>) {
        if !self.is_over() {
            self.error = Some(error.into());
            self.stop(Outcome::Error);
        }
    }

    /// Returns true if its end is decided.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.outcome, Outcome::Interrupted | Outcome::Error)
    }

    fn stop(&mut self, outcome: Outcome) {
        self.outcome = outcome;
        self.text.clear();
        for ended in self.pipeline.abort() {
            self.account(&ended);
        }
    }

    /// Does everything that is possible now; returns true when only closing is left.
    pub(super) fn advance(&mut self, out: &mut Outbox, now: Stamp) -> bool {
        if !self.started {
            self.started = true;
            self.emit(out, EventBody::Started);
        }
        for (reason, message) in self.text.take_warnings() {
            self.warn(out, reason, message);
        }
        if !self.is_over()
            && let Err(error) = self.speak(now)
        {
            self.fail(error);
        }
        if self.is_over() {
            out.drop_audio();
            // A job in progress is not interrupted.
            if self.post_processing.is_working() {
                return false;
            }
            if let Some(played) = self.asked.take() {
                self.told = self.post_processing.split(played);
            }
            return true;
        }
        if self.has_all_text() && self.pipeline.is_idle() && self.text.peek().is_none() {
            self.finish_audio();
        }
        self.complete && out.is_empty()
    }

    /// Starts sequences as far as possible, and feeds the open one.
    fn speak(&mut self, now: Stamp) -> Result<(), ServeError> {
        while let Some(piece) = self.text.peek() {
            let position = piece.position;
            if let Some(segment) = self.pipeline.open_segment() {
                if !position.continues() {
                    // The open sequence has its longest length.
                    segment.push(Vec::new(), true)?;
                    self.post_processing.note(Note::Close);
                } else if segment.has_room()
                    && let Some(piece) = self.text.next_piece()
                {
                    self.text_tokens += piece.tokens.len() as u32;
                    self.post_processing
                        .note(Note::Extend(piece.words, piece.source_end));
                    if piece.ends {
                        self.post_processing.note(Note::Close);
                    }
                    segment.push(piece.tokens, piece.ends)?;
                } else {
                    break;
                }
            } else if piece.tokens.is_empty() || position == Position::Only {
                // Drops the rest of a sequence that the model has ended by itself. A reply in tokens is one
                // sequence, as for the reference: tokens that were still to come are not spoken, early or late.
                self.text.next_piece();
            } else if self.pipeline.can_start()
                && self.has_place(now)
                && let Some(piece) = self.text.next_piece()
            {
                self.start(piece, now)?;
            } else {
                break;
            }
        }
        if self.text.peek().is_none() {
            if self.has_all_text()
                && let Some(segment) = self.pipeline.open_segment()
            {
                segment.push(Vec::new(), true)?;
                self.post_processing.note(Note::Close);
            }
            if self.pipeline.is_idle() {
                self.pipeline.release();
            }
        }
        Ok(())
    }

    /// Returns true if it may start sequences; requests a permit if not.
    fn has_place(&mut self, now: Stamp) -> bool {
        self.stats.ready(now);
        self.pipeline.has_permit()
    }

    fn start(&mut self, piece: Piece, now: Stamp) -> Result<(), ServeError> {
        let left = self.frames_left();
        if left == 0 {
            self.cut_short();
            return Ok(());
        }
        let request = SpeechRequest {
            head: SpeechHead {
                voice: self.settings.voice.clone(),
                voice_prompt: self.settings.voice_prompt.clone(),
                language: self.settings.language.clone(),
                instructions: self.settings.instructions.clone(),
                speed: self.own_speed(),
                sampling: self.settings.sampling,
                seed: self.seed.wrapping_add(self.sequences.wrapping_mul(SEED_STEP)),
                max_outputs: self.frame_limit(&piece).min(left),
            },
            context: self.context.clone(),
            generated: self.own_text,
            ..SpeechRequest::default()
        };
        self.sequences += 1;
        self.text_tokens += piece.tokens.len() as u32;
        // The text comes by the edge, or with the request.
        let (tokens, whole_text) = if self.settings.non_streaming && piece.ends {
            (Vec::new(), Some(piece.tokens.into()))
        } else {
            (piece.tokens, None)
        };
        let spec = SegmentSpec {
            request: SpeechRequest {
                whole_text,
                ..request
            },
            open: !piece.ends,
            tokens,
            // The first waited since it could be spoken (in an answer since the request for it); a later one could
            // not have come earlier.
            arrived: match self.sequences {
                1 => self.stats.speakable().unwrap_or(now),
                _ => now,
            },
            recording: None,
            writer: self.writer,
            request_held: Arc::clone(&self.request),
            trace: self
                .trace
                .as_ref()
                .map(|(context, _)| TraceHandle::new(Arc::clone(context))),
        };
        self.stats.handed_over(now);
        self.post_processing
            .note(Note::Begin(piece.words, piece.source_end));
        if piece.ends {
            self.post_processing.note(Note::Close);
        }
        self.pipeline.start(spec, piece.pause, now)
    }

    /// Frames that the caller still allows.
    fn frames_left(&self) -> u32 {
        let made = self.stats.frames() + self.pipeline.frames();
        self.settings.max_frames.unwrap_or(u32::MAX).saturating_sub(made)
    }

    /// Speed at which the model is to speak: that of the request, if it does this by itself.
    fn own_speed(&self) -> f32 {
        if self.info.own_speed {
            self.settings.delivery.rendering.speed.factor()
        } else {
            1.0
        }
    }

    /// Most frames that a sequence may take. A model that fails does not find the end by itself.
    fn frame_limit(&self, piece: &Piece) -> u32 {
        if !piece.ends {
            return self.info.max_frames;
        }
        let longest = LONGEST_START + LONGEST_CHARACTER * u32::try_from(piece.chars).unwrap_or(u32::MAX);
        let longest = longest.as_secs_f64() / f64::from(self.own_speed());
        let frames = longest / self.info.frame_duration().as_secs_f64();
        self.info.max_frames.min(frames as u32)
    }

    /// Handles a limit: the running sequences are the last.
    fn cut_short(&mut self) {
        self.outcome = Outcome::Length;
        self.cut = true;
        self.text.clear();
    }

    /// Waits for the result of a job, or else for the pipeline's next event. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Progress {
        match self.post_processing.done().await {
            Some(done) => Progress::Worked(Box::new(done)),
            None => self.pipeline.next().await,
        }
    }

    fn emit(&self, out: &mut Outbox, body: EventBody) {
        out.push(Event {
            utterance: Some(self.id.clone()),
            body,
        });
    }

    /// The message may name characters of the text, which no log has.
    fn warn(&mut self, out: &mut Outbox, reason: &'static str, message: String) {
        tracing::info!(utterance = %self.id, reason, "utterance warning");
        self.warnings.push(Warning {
            reason,
            message: message.clone(),
        });
        self.emit(out, EventBody::Warning { reason, message });
    }

    /// Word times of its text.
    pub(super) fn heard(&self) -> Heard {
        self.post_processing.heard()
    }

    /// Samples passed to the transport.
    pub(super) fn sent(&self) -> Samples {
        self.stats.sent_samples()
    }

    /// Outcome so far, and the error.
    pub(super) fn outcome(&self) -> (Outcome, Option<&ServeError>) {
        (self.outcome, self.error.as_ref())
    }

    /// Longest lead of its audio over its listener.
    pub(super) fn max_lead(&self) -> Option<Duration> {
        self.settings.delivery.max_lead
    }

    /// Records that audio was passed to the transport. Returns the record of every packet but the first.
    pub(super) fn handed_over(&mut self, audio: &AudioOut, now: Stamp) -> Option<Packet> {
        let (gap, lead) = self.stats.sent(now, audio.samples, audio.joined)?;
        let replica = self.pipeline.last_replica().or(self.stats.last_replica());
        Some(Packet { replica, gap, lead })
    }
}
