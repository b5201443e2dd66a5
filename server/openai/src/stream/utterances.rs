//! The events of a session as frames, one utterance after the other.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use omni_audio::Samples;
use omni_json::{PieceJoiner, TextPiece};
use omni_session::{AudioOut, Done, Event, EventBody, FIELD_IGNORED, Outcome, Ready};
use omni_telemetry::RequestResult;
use serde_json::Value;

use super::messages::{Delivery, audio_done, audio_start, error, session_done};
use crate::notes::renamed;
use crate::sound::AudioFormat;
use crate::speech::{MAX_WHOLE, NAMES, named};

/// A frame, or the end of an utterance.
#[derive(Debug)]
pub(super) enum Frame {
    Text(Value),
    /// Audio, with its playing time.
    Audio(Bytes, Duration),
    /// An utterance has ended; nothing is sent.
    Over(RequestResult),
}

/// Utterances of a session, from their first text to their end.
#[derive(Debug)]
pub(super) struct Utterances {
    /// Texts of utterances that have not ended, as far as they have come; `None` for one that was ended before it
    /// began, which no session knows.
    texts: VecDeque<Option<String>>,
    max_text: usize,
    /// `true` while the last of them is being written.
    writing: bool,
    /// `true` if that has ended all the same: more of its text is dropped.
    dropped: bool,
    /// Deliveries of settings that are not in force yet.
    configs: VecDeque<Delivery>,
    delivery: Delivery,
    joiner: PieceJoiner,
    rate: u32,
    ignored: Vec<String>,
    /// Number of the utterance being spoken.
    index: u64,
    begun: bool,
    spoken: Spoken,
}

/// Part of the utterance in progress that was sent.
#[derive(Debug, Default)]
struct Spoken {
    started: bool,
    bytes: u64,
    samples: u64,
    /// Audio of an utterance that is sent as a whole.
    gathered: Vec<u8>,
    /// Its playing time.
    time: Duration,
    warnings: Vec<String>,
}

impl Utterances {
    /// Creates the state for texts of at most `max_text` bytes.
    pub(super) fn new(max_text: usize) -> Self {
        Self {
            texts: VecDeque::new(),
            max_text,
            writing: false,
            dropped: false,
            configs: VecDeque::new(),
            delivery: Delivery {
                sound: AudioFormat::Wav,
                streamed: false,
                unknown: Vec::new(),
            },
            joiner: PieceJoiner::default(),
            rate: 0,
            ignored: Vec::new(),
            index: 0,
            begun: false,
            spoken: Spoken::default(),
        }
    }

    /// Number of utterances that have not ended.
    pub(super) fn open(&self) -> usize {
        self.texts.len()
    }

    /// Returns true if there is text whose utterance has no end yet.
    pub(super) fn is_writing(&self) -> bool {
        self.writing
    }

    /// Sets the delivery of the utterances that follow.
    pub(super) fn configured(&mut self, delivery: Delivery) {
        self.configs.push_back(delivery);
    }

    /// Adds text and returns its complete characters. Half a character at its end waits for the other half.
    pub(super) fn text(&mut self, piece: TextPiece) -> String {
        let text = self.joiner.push(piece);
        self.write(&text);
        text
    }

    fn write(&mut self, text: &str) {
        if !std::mem::replace(&mut self.writing, true) {
            self.dropped = false;
            self.texts.push_back(Some(String::new()));
        }
        let last = self.texts.back_mut().filter(|_| !self.dropped);
        if let Some(Some(last)) = last
            && last.len() + text.len() <= self.max_text
        {
            last.push_str(text);
        }
    }

    /// Ends the utterance's text: returns the rest of it, and `None` if there was no utterance.
    pub(super) fn finish(&mut self) -> Option<String> {
        let rest: String = self.joiner.finish().into_iter().collect();
        if !rest.is_empty() {
            self.write(&rest);
        }
        if std::mem::take(&mut self.writing) {
            return Some(rest);
        }
        self.texts.push_back(None);
        None
    }

    /// Frames of the next utterances that were ended before they began.
    pub(super) fn empty(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while self.texts.pop_front_if(|text| text.is_none()).is_some() {
            self.begin();
            frames.push(Frame::Text(session_done(self.index, 0, &[], &self.ignored)));
            frames.push(Frame::Over(RequestResult::Ok));
        }
        frames
    }

    fn begin(&mut self) {
        self.index += u64::from(std::mem::replace(&mut self.begun, true));
        self.spoken = Spoken::default();
    }

    /// The frames of an event.
    pub(super) fn frames(&mut self, event: Event) -> Vec<Frame> {
        match event.body {
            EventBody::Ready(ready) => self.ready(&ready),
            EventBody::Started => self.begin(),
            // Its field is named by the settings in force.
            EventBody::Warning {
                reason: FIELD_IGNORED,
                ..
            } => {}
            EventBody::Warning { reason, .. } => self.spoken.warnings.push(reason.to_owned()),
            EventBody::Alignment(_) => {}
            EventBody::Audio(audio) => return self.audio(audio),
            EventBody::Done(done) => return self.done(&done),
        }
        Vec::new()
    }

    fn ready(&mut self, ready: &Ready) {
        if let Some(delivery) = self.configs.pop_front() {
            self.delivery = delivery;
        }
        self.rate = ready.settings.delivery.format.rate().hz();
        self.ignored = self.delivery.unknown.clone();
        self.ignored.extend(renamed(&ready.settings.ignored, &NAMES));
    }

    fn audio(&mut self, audio: AudioOut) -> Vec<Frame> {
        let mut frames = Vec::new();
        if !std::mem::replace(&mut self.spoken.started, true) {
            let text = self.texts.front().and_then(Option::as_deref).unwrap_or_default();
            let start = audio_start(self.index, text, self.delivery.sound.name(), self.rate);
            frames.push(Frame::Text(start));
        }
        let spoken = &mut self.spoken;
        spoken.bytes += audio.data.len() as u64;
        spoken.samples += audio.samples.0;
        // Audio beyond that size continues as a stream.
        let whole = !self.delivery.streamed && spoken.bytes <= MAX_WHOLE as u64;
        if whole {
            spoken.gathered.extend_from_slice(&audio.data);
            spoken.time += audio.time;
            return frames;
        }
        if !spoken.gathered.is_empty() {
            let gathered = std::mem::take(&mut spoken.gathered);
            frames.push(Frame::Audio(gathered.into(), std::mem::take(&mut spoken.time)));
        }
        frames.push(Frame::Audio(audio.data, audio.time));
        frames
    }

    fn done(&mut self, done: &Done) -> Vec<Frame> {
        self.texts.pop_front();
        self.dropped = self.writing && self.texts.is_empty();
        let mut spoken = std::mem::take(&mut self.spoken);
        let mut frames = Vec::new();
        let failure = done.error.as_ref().filter(|_| done.outcome == Outcome::Error);
        if let Some(failure) = failure {
            frames.push(Frame::Text(error(&named(failure), Some(self.index))));
        }
        if !spoken.gathered.is_empty() && failure.is_none() {
            let sound = self.delivery.sound;
            sound.finish(&mut spoken.gathered, Samples(spoken.samples));
            frames.push(Frame::Audio(spoken.gathered.into(), spoken.time));
        }
        if spoken.started {
            frames.push(Frame::Text(audio_done(
                self.index,
                spoken.bytes,
                failure.is_some(),
            )));
        }
        let sentences = u64::from(spoken.started);
        frames.push(Frame::Text(session_done(
            self.index,
            sentences,
            &spoken.warnings,
            &self.ignored,
        )));
        frames.push(Frame::Over(match failure {
            Some(_) => RequestResult::Error,
            None => RequestResult::Ok,
        }));
        frames
    }
}
