//! The rules that `Speak` and `Converse` share.

use std::time::Duration;

use omni_proto::v1;

use crate::chunk::check_chunk;
use crate::wire::Ending;

/// Responses are numbered from 1 without gaps.
pub(crate) fn numbered(index: usize, seq: u64) {
    assert_eq!(seq, index as u64 + 1, "seq counts from 1 without gaps");
}

/// A stream that ended well has left nothing `open`.
pub(crate) fn closed(ending: &Ending, open: Option<&impl std::fmt::Debug>) {
    if *ending == Ending::Ok {
        assert!(open.is_none(), "the stream ended well with {open:?} still open");
    }
}

pub(crate) fn warning(warning: &v1::Warning) {
    assert!(
        !warning.reason.is_empty() && !warning.message.is_empty(),
        "{warning:?} is empty"
    );
}

/// Audio of one utterance or answer so far.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) samples: u64,
    pub(crate) last: bool,
}

impl Played {
    /// Chunks are contiguous, never empty, hold whole samples and have the requested length, and nothing follows the
    /// last.
    pub(crate) fn chunk(&mut self, output: &v1::AudioDelivery, audio: &v1::AudioChunk) {
        assert!(!self.last, "audio after the last audio");
        check_chunk(output, audio, self.samples);
        self.samples += u64::from(audio.sample_count);
        self.last = audio.last;
    }

    /// Checks that the end was marked, once all audio was sent.
    pub(crate) fn is_whole(&self) {
        assert_eq!(self.last, self.samples > 0, "the last audio says so");
    }
}

/// Words of one utterance reported so far.
#[derive(Debug, Default)]
pub(crate) struct Words {
    characters: u32,
    until: u64,
}

impl Words {
    /// Words are in order of text and audio, and each is reported before the audio that ends it, even one without a
    /// sound.
    pub(crate) fn alignment(&mut self, alignment: &v1::Alignment, played: &Played) {
        assert!(!alignment.spans.is_empty(), "an alignment tells something");
        for span in &alignment.spans {
            assert_eq!(
                span.char_start, self.characters,
                "words follow one another: {span:?}"
            );
            let characters = span.text.chars().count() as u32;
            assert!(
                characters > 0 && !span.text.trim().is_empty(),
                "{span:?} says nothing"
            );
            assert_eq!(
                span.char_end,
                span.char_start + characters,
                "{span:?} is its text"
            );
            assert!(
                self.until <= span.start_sample && span.start_sample <= span.end_sample,
                "{span:?} begins before {}",
                self.until
            );
            assert!(
                span.end_sample > played.samples || played.samples == 0,
                "{span:?} comes after its audio, of which {} samples came",
                played.samples
            );
            (self.characters, self.until) = (span.char_end, span.end_sample);
        }
    }

    /// No word is reported beyond the text or the audio.
    pub(crate) fn are_of(&self, outcome: &v1::Outcome, played: &Played) {
        let characters = outcome.usage.map_or(0, |usage| usage.input_characters);
        assert!(self.characters <= characters, "more words than were said");
        let whole = outcome.finish_reason() == v1::FinishReason::Stop;
        assert!(!whole || self.until <= played.samples, "words beyond the audio");
    }

    pub(crate) fn none(&self) {
        assert_eq!(self.characters, 0, "words that were not asked for");
    }
}

/// Checks that an outcome agrees with itself and with the audio played, at `rate` samples a second.
pub(crate) fn outcome(outcome: &v1::Outcome, played: &Played, rate: u32) {
    let reason = outcome.finish_reason();
    assert_ne!(reason, v1::FinishReason::Unspecified, "done has a reason");
    assert_eq!(
        outcome.error.is_some(),
        reason == v1::FinishReason::Error,
        "an error if and only if it failed: {outcome:?}"
    );
    assert!(outcome.seed.is_some(), "the seed is reported");
    let duration = |d: Option<omni_proto::Duration>| d.and_then(|d| Duration::try_from(d).ok());
    let usage = outcome.usage.expect("done has usage");
    let audio = duration(usage.output_audio_duration).unwrap_or_default();
    let samples = played.samples;
    assert!(
        (audio.as_secs_f64() - samples as f64 / f64::from(rate)).abs() < 1e-6,
        "{audio:?} are reported, {samples} samples came"
    );
    let timings = outcome.timings.as_ref().expect("done has timings");
    assert_eq!(
        timings.time_to_first_audio.is_some(),
        samples > 0,
        "first audio if and only if there was any"
    );
    let total = duration(timings.total).expect("a total");
    assert!(duration(timings.time_to_first_text).unwrap_or_default() <= total);
    assert!(duration(timings.time_to_first_audio).unwrap_or_default() <= total);
    assert!(timings.real_time_factor.is_finite() && timings.real_time_factor >= 0.0);
}
