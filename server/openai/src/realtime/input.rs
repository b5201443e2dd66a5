//! The user's voice: audio that is appended, and the detection of speech in it.
//!
//! In: bytes in the format of the session. Out: changes, one after the other, and recordings. Positions are counted
//! from the first sample of the session, so that a client can find them in its audio.

use std::time::Duration;

use omni_audio::{Decoder, Resampler, SampleRate, Samples, SpeechChange, SpeechDetector, SpeechThresholds};
use omni_core::error::seconds;
use omni_family::{Hearing, Part};
use omni_pipeline::request::Clip;

use super::formats::AudioFormat;
use super::turn_detection::ServerVad;
use crate::error::ApiError;

/// Shortest recording that is committed.
const SHORTEST: Duration = Duration::from_millis(100);
/// Longest recording for a model without audio input: nothing of it is kept.
const UNHEARD: Duration = Duration::from_secs(15 * 60);
/// Audio processed in one step, and steps made at once: other sessions need the thread, too.
const STEP_MS: usize = 100;
const STEPS: usize = 10;

/// Change in the user's speech; times in milliseconds from the first sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputChange {
    /// Speech began. The recording begins here.
    Started { at_ms: u64 },
    /// Speech has ended, or has reached the longest recording.
    Stopped { at_ms: u64 },
}

/// The input buffer.
#[derive(Debug)]
pub(super) struct InputBuffer {
    rate: SampleRate,
    hearing: Option<Hearing>,
    format: AudioFormat,
    /// None before the first bytes in a format.
    decoder: Option<Decoder>,
    /// Bytes of one message, as they came.
    waiting: Vec<u8>,
    looked: usize,
    /// Samples that may become a recording; none for a model without audio input.
    samples: Vec<f32>,
    /// Position of the first of them.
    begins: u64,
    /// Position of the end of the processed audio.
    ends: u64,
    /// `true` during speech. Settings may change meanwhile.
    speaking: bool,
    detection: Option<Detection>,
}

#[derive(Debug)]
struct Detection {
    settings: ServerVad,
    detector: SpeechDetector,
    /// Position of its first sample.
    offset: u64,
    /// Position of the end of its processed audio: earlier audio is caught up on.
    heard: u64,
}

impl Detection {
    fn new(settings: ServerVad, offset: u64) -> Self {
        Self {
            settings,
            detector: SpeechDetector::new(thresholds(settings)),
            offset,
            heard: offset,
        }
    }

    fn push(&mut self, samples: &[f32], end: u64) {
        self.detector.push(samples);
        self.heard = end;
    }
}

fn thresholds(settings: ServerVad) -> SpeechThresholds {
    SpeechThresholds {
        activation: settings.threshold,
        silence: settings.silence,
    }
}

impl InputBuffer {
    /// Creates the buffer for a model with this audio input.
    pub(super) fn new(
        rate: SampleRate,
        hearing: Option<Hearing>,
        format: AudioFormat,
        turns: Option<ServerVad>,
    ) -> Self {
        Self {
            rate,
            hearing,
            format,
            decoder: None,
            waiting: Vec::new(),
            looked: 0,
            samples: Vec::new(),
            begins: 0,
            ends: 0,
            speaking: false,
            detection: turns.map(|turns| Detection::new(turns, 0)),
        }
    }

    /// Sets the settings of further audio. Earlier audio stays, and speech in progress goes on.
    pub(super) fn configure(&mut self, format: AudioFormat, turns: Option<ServerVad>) {
        if self.format != format {
            self.format = format;
            self.decoder = None;
        }
        match (&mut self.detection, turns) {
            (_, None) => self.detection = None,
            (Some(detection), Some(turns)) => {
                detection.settings = turns;
                detection.detector.set_thresholds(thresholds(turns));
            }
            (none, Some(turns)) if self.speaking => {
                let detection = none.insert(Detection::new(turns, self.ends));
                detection.detector.resume();
            }
            (none, Some(turns)) => {
                let kept = self.samples.len() as u64;
                *none = Some(Detection::new(turns, self.ends - kept));
            }
        }
    }

    /// Longest recording, in samples.
    fn longest(&self) -> u64 {
        let longest = self.hearing.map_or(UNHEARD, |hearing| hearing.max_audio);
        self.rate.samples(longest).0
    }

    fn millis(&self, position: u64) -> u64 {
        let time = self.rate.duration(Samples(position));
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds audio, which [`advance`](Self::advance) processes.
    ///
    /// # Errors
    /// If it is not audio of the format, or more than there is room for.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        let sample = self.format.sample_bytes();
        if !bytes.len().is_multiple_of(sample) {
            let problem = format!(
                "audio has {} bytes; expected whole samples of {sample} bytes",
                bytes.len()
            );
            return Err(ApiError::invalid(Some("audio"), problem));
        }
        // With turn detection a recording that is too long is ended.
        let length = self.rate.duration(Samples(self.ends - self.begins)) + self.format.playing(bytes.len());
        let longest = self.rate.duration(Samples(self.longest()));
        if self.detection.is_none() && length > longest {
            let limit = seconds(&longest);
            let problem = format!(
                "audio: the buffer would have more than {limit}, which is the limit: commit or clear it first"
            );
            return Err(ApiError::coded("input_audio_buffer_full", Some("audio"), problem));
        }
        self.waiting.drain(..self.looked);
        self.looked = 0;
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns true if there is audio that was not processed yet.
    pub(super) fn is_waiting(&self) -> bool {
        let detection = self.detection.as_ref();
        self.looked < self.waiting.len() || detection.is_some_and(|detection| detection.heard < self.ends)
    }

    /// Processes the next second of audio, or less up to a change in it.
    pub(super) fn advance(&mut self) -> Option<InputChange> {
        for _ in 0..STEPS {
            if let Some(change) = self.change() {
                return Some(change);
            }
            if !self.is_waiting() {
                return None;
            }
            self.look();
        }
        self.change()
    }

    /// Processes the next piece.
    fn look(&mut self) {
        if let Some(detection) = self
            .detection
            .as_mut()
            .filter(|detection| detection.heard < self.ends)
        {
            let from = self.samples.len() - (self.ends - detection.heard) as usize;
            let to = (from + STEP_MS * self.rate.hz() as usize / 1_000).min(self.samples.len());
            let end = self.begins + to as u64;
            return detection.push(&self.samples[from..to], end);
        }
        let bytes = STEP_MS * self.format.hz() as usize / 1_000 * self.format.sample_bytes();
        let end = (self.looked + bytes).min(self.waiting.len());
        let mut piece = Vec::with_capacity(STEP_MS * self.rate.hz() as usize / 1_000);
        if self.decoder.is_none() {
            let format = self.format.input();
            self.decoder = format.and_then(|format| Decoder::new(format, self.rate, Samples(u64::MAX)).ok());
        }
        if let Some(decoder) = &mut self.decoder {
            // Whole samples of these formats are always decoded.
            let _ = decoder.push(&self.waiting[self.looked..end], &mut piece);
        }
        self.looked = end;
        self.ends += piece.len() as u64;
        if let Some(detection) = &mut self.detection {
            detection.push(&piece, self.ends);
        }
        if self.hearing.is_some() {
            self.samples.append(&mut piece);
        }
    }

    fn change(&mut self) -> Option<InputChange> {
        let longest = self.longest();
        let detection = self.detection.as_mut()?;
        match detection.detector.change() {
            Some(SpeechChange::Started(Samples(at))) => {
                self.speaking = true;
                let prefix = self.rate.samples(detection.settings.prefix).0;
                let begin = (detection.offset + at).saturating_sub(prefix);
                self.forget(begin.max(self.begins));
                let at_ms = self.millis(self.begins);
                Some(InputChange::Started { at_ms })
            }
            Some(SpeechChange::Stopped(_)) => self.stopped(),
            None if self.speaking && self.ends - self.begins >= longest => {
                detection.detector.restart();
                self.stopped()
            }
            None if !self.speaking => {
                let kept = self.rate.samples(detection.settings.prefix).0 + SpeechDetector::latency().0;
                let begin = detection.heard.saturating_sub(kept);
                self.forget(begin.max(self.begins));
                None
            }
            None => None,
        }
    }

    fn stopped(&mut self) -> Option<InputChange> {
        self.speaking = false;
        let at_ms = self.millis(self.ends);
        Some(InputChange::Stopped { at_ms })
    }

    /// Drops the audio before `position`.
    fn forget(&mut self, position: u64) {
        let dropped = usize::try_from(position - self.begins).unwrap_or(usize::MAX);
        // Steps are small most often, so that the rest is moved seldom enough.
        self.samples.drain(..dropped.min(self.samples.len()));
        self.begins = position;
    }

    /// Takes the recording: the model's part of it, if it takes audio.
    ///
    /// # Errors
    /// If there is none, or one that is too short.
    pub(super) fn commit(&mut self) -> Result<Option<Part>, ApiError> {
        let shortest = self
            .hearing
            .map_or(SHORTEST, |hearing| hearing.min_audio.max(SHORTEST));
        let got = self.rate.duration(Samples(self.ends - self.begins));
        let silent = self.detection.is_some() && !self.speaking;
        if got < shortest || silent {
            let got = if silent { Duration::ZERO } else { got };
            let problem = format!(
                "the input audio buffer has {} ms of speech; expected at least {} ms",
                got.as_millis(),
                shortest.as_millis()
            );
            return Err(ApiError::coded("input_audio_buffer_commit_empty", None, problem));
        }
        Ok(self.take())
    }

    /// Takes the recording whose end was detected.
    pub(super) fn take(&mut self) -> Option<Part> {
        let samples = std::mem::take(&mut self.samples);
        self.restart();
        let hearing = self.hearing?;
        let mut heard = Vec::new();
        if hearing.sample_rate == self.rate {
            heard = samples;
        } else {
            let mut resampler = Resampler::new(self.rate, hearing.sample_rate);
            resampler.push(&samples, &mut heard);
            resampler.finish(&mut heard);
        }
        heard.truncate(hearing.sample_rate.samples(hearing.max_audio).len());
        Some(Part::Audio(Clip::new(heard)))
    }

    /// Drops audio since the last recording.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.looked = 0;
        self.restart();
    }

    /// Begins the next recording here.
    fn restart(&mut self) {
        self.samples.clear();
        self.begins = self.ends;
        self.speaking = false;
        if let Some(detection) = &mut self.detection {
            detection.detector.restart();
            // The detection does not count samples that it was not given.
            detection.offset += self.ends - detection.heard;
            detection.heard = self.ends;
        }
    }
}
