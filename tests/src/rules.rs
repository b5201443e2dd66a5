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

/// The audio of one utterance or answer so far.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) samples: u64,
    pub(crate) last: bool,
}

impl Played {
    /// Chunks are contiguous, never empty, hold whole samples, and nothing follows the last.
    pub(crate) fn chunk(&mut self, format: v1::AudioFormat, audio: &v1::AudioChunk) {
        assert!(!self.last, "audio after the last audio");
        check_chunk(format, audio, self.samples);
        self.samples += u64::from(audio.sample_count);
        self.last = audio.last;
    }

    /// Where all audio was sent, its end was marked.
    pub(crate) fn is_whole(&self) {
        assert_eq!(self.last, self.samples > 0, "the last audio says so");
    }
}

/// What an outcome says agrees with itself and with what was played, at `rate` samples a second.
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
