//! Measures one utterance as it is received: what a listener at this end of the wire would notice.
//!
//! Arrival times come in from outside, counted from the moment the first text was sent; nothing here reads a clock.

use std::time::Duration;

use omni_audio::{Continuity, ContinuityReport, LeadingSilence, SampleRate, Samples};

use crate::audio::Audio;

/// The time between two pieces of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkGap {
    /// From the arrival of one piece to the next.
    pub waited: Duration,
    /// Playing time of the earlier piece.
    pub covered: Duration,
}

/// A running measurement.
///
/// ```
/// use std::time::Duration;
///
/// use omni_client::{Audio, Meter, SampleRate, Samples};
///
/// let rate = SampleRate::new(16_000)?;
/// let mut meter = Meter::new(rate);
/// // Two pieces that play 50 ms each; the second comes 80 ms after the first.
/// for (at, start) in [(120, 0), (200, 800)] {
///     let pcm = vec![1; 1_600].into();
///     let audio = Audio { rate, start: Samples(start), pcm, last: false };
///     meter.audio(Duration::from_millis(at), &audio);
/// }
/// let measured = meter.finish();
/// assert_eq!(measured.first_audio, Some(Duration::from_millis(120)));
/// assert_eq!(measured.real_time_factor, Some(2.0));
/// assert_eq!(measured.continuity.worst(), Duration::from_millis(30));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Meter {
    rate: SampleRate,
    first: Option<Duration>,
    last: Duration,
    last_chunk: Duration,
    continuity: Continuity,
    silence: LeadingSilence,
    gaps: Vec<ChunkGap>,
    scratch: Vec<f32>,
}

impl Meter {
    /// For audio at `rate`.
    pub fn new(rate: SampleRate) -> Self {
        Self {
            rate,
            first: None,
            last: Duration::ZERO,
            last_chunk: Duration::ZERO,
            continuity: Continuity::new(rate),
            silence: LeadingSilence::new(rate),
            gaps: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// `audio` arrived `at` after the first text was sent.
    pub fn audio(&mut self, at: Duration, audio: &Audio) {
        if self.first.is_some() {
            self.gaps.push(ChunkGap {
                waited: at.saturating_sub(self.last),
                covered: self.last_chunk,
            });
        }
        self.first.get_or_insert(at);
        self.last = at;
        self.last_chunk = self.rate.duration(audio.samples());
        self.continuity.chunk(at, audio.samples());
        self.scratch.clear();
        self.scratch.extend(audio.floats());
        self.silence.add(&self.scratch);
    }

    /// Playing time so far.
    pub fn audio_so_far(&self) -> Duration {
        self.rate.duration(self.continuity.report().audio)
    }

    /// Time until the first audio.
    pub fn first_audio(&self) -> Option<Duration> {
        self.first
    }

    /// The measurement.
    pub fn finish(self) -> Measured {
        let continuity = self.continuity.report();
        let audio = self.rate.duration(continuity.audio);
        let leading_silence = self.rate.duration(self.silence.leading());
        Measured {
            rate: self.rate,
            samples: continuity.audio,
            audio,
            first_audio: self.first,
            audible_first_audio: self.first.map(|first| first + leading_silence),
            real_time_factor: (!audio.is_zero()).then(|| self.last.div_duration_f64(audio)),
            continuity,
            gaps: self.gaps,
        }
    }
}

/// Measurements of one utterance. Absent values: there was no audio.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Sample rate of the audio.
    pub rate: SampleRate,
    /// Samples received.
    pub samples: Samples,
    /// Their playing time.
    pub audio: Duration,
    /// From the first text sent to the first audio received.
    pub first_audio: Option<Duration>,
    /// The same, plus the silence at the head of the audio.
    pub audible_first_audio: Option<Duration>,
    /// From the first text sent to the last audio received, over the playing time.
    pub real_time_factor: Option<f64>,
    /// Continuity for a player without a buffer.
    pub continuity: ContinuityReport,
    /// Between consecutive pieces.
    pub gaps: Vec<ChunkGap>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audio(start: u64, samples: &[i16]) -> Audio {
        let pcm: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        Audio {
            rate: rate(),
            start: Samples(start),
            pcm: pcm.into(),
            last: false,
        }
    }

    fn rate() -> SampleRate {
        SampleRate::new(24_000).unwrap()
    }

    #[test]
    fn an_utterance_is_measured_from_its_first_text() {
        let mut meter = Meter::new(rate());
        meter.audio(Duration::from_millis(200), &audio(0, &[0; 2_400]));
        meter.audio(Duration::from_millis(350), &audio(2_400, &[9_000; 2_400]));
        let measured = meter.finish();
        assert_eq!(measured.audio, Duration::from_millis(200));
        assert_eq!(measured.first_audio, Some(Duration::from_millis(200)));
        assert_eq!(measured.audible_first_audio, Some(Duration::from_millis(300)));
        assert_eq!(measured.real_time_factor, Some(1.75));
        assert_eq!(measured.continuity.worst(), Duration::from_millis(50));
        let gap = ChunkGap {
            waited: Duration::from_millis(150),
            covered: Duration::from_millis(100),
        };
        assert_eq!(measured.gaps, [gap]);
    }

    #[test]
    fn without_audio_nothing_is_claimed() {
        let measured = Meter::new(rate()).finish();
        assert_eq!((measured.first_audio, measured.real_time_factor), (None, None));
        assert!(measured.continuity.ok(Duration::ZERO));
    }
}
