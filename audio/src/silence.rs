//! Beginning and end of speech in finished audio.
//!
//! The definition (shared with vLLM-Omni's benchmark, so that *audible* time to first audio can be compared): audio is
//! cut into windows of 5 ms from its start; speech begins at the first window from which the root mean square stays at
//! or above 5 % of the peak of the whole for 20 ms (four windows). The end of speech is the same rule read backwards.
//!
//! The threshold is relative to the peak of *all* the audio, which a live stream does not know yet; for cutting
//! silence off a live stream see [`crate::Trimmer`], which uses an absolute one. [`LeadingSilence`] measures a stream
//! chunk by chunk without keeping its samples.

use std::time::Duration;

use crate::level::Level;
use crate::units::{SampleRate, Samples};

/// One window.
pub(crate) const WINDOW: Duration = Duration::from_millis(5);
/// Windows in a row that make speech (20 ms).
pub(crate) const SUSTAINED_WINDOWS: usize = 4;
/// Share of the peak that a window must reach.
const SHARE_OF_PEAK: f32 = 0.05;

/// Samples in one window.
pub(crate) fn window_len(rate: SampleRate) -> usize {
    rate.samples(WINDOW).len()
}

/// Measures the silence at the head of an utterance that arrives in chunks. Keeps one level per 5 ms, not the samples.
#[derive(Debug, Clone)]
pub struct LeadingSilence {
    window: usize,
    /// Levels of the finished windows.
    rms: Vec<f32>,
    open: Level,
    open_len: usize,
    peak: f32,
    total: Samples,
}

impl LeadingSilence {
    /// Nothing heard yet, at `rate`.
    pub fn new(rate: SampleRate) -> Self {
        Self {
            window: window_len(rate),
            rms: Vec::new(),
            open: Level::default(),
            open_len: 0,
            peak: 0.0,
            total: Samples::ZERO,
        }
    }

    /// The next samples of the utterance.
    pub fn add(&mut self, mut samples: &[f32]) {
        self.total += Samples::of(samples);
        while !samples.is_empty() {
            let (now, later) = samples.split_at(samples.len().min(self.window - self.open_len));
            self.open.add(now);
            self.open_len += now.len();
            if self.open_len == self.window {
                self.close_window();
            }
            samples = later;
        }
    }

    fn close_window(&mut self) {
        self.peak = self.peak.max(self.open.peak());
        self.rms.push(self.open.rms());
        self.open = Level::default();
        self.open_len = 0;
    }

    /// The silence before speech begins, a whole number of windows; everything if speech never begins.
    pub fn leading(&self) -> Samples {
        let threshold = self.threshold();
        match self
            .rms
            .windows(SUSTAINED_WINDOWS)
            .position(|run| run.iter().all(|&rms| rms >= threshold))
        {
            Some(first) => Samples((first * self.window) as u64),
            None => self.total,
        }
    }

    /// The silence after speech ends (the last, incomplete window included); everything if speech never begins.
    pub fn trailing(&self) -> Samples {
        let threshold = self.threshold();
        match self
            .rms
            .windows(SUSTAINED_WINDOWS)
            .rposition(|run| run.iter().all(|&rms| rms >= threshold))
        {
            Some(first) => self.total - Samples(((first + SUSTAINED_WINDOWS) * self.window) as u64),
            None => self.total,
        }
    }

    /// Threshold of speech: 5 % of the peak; infinite for digital silence, which contains none.
    fn threshold(&self) -> f32 {
        let peak = self.peak.max(self.open.peak());
        if peak > 0.0 {
            SHARE_OF_PEAK * peak
        } else {
            f32::INFINITY
        }
    }
}

fn measured(samples: &[f32], rate: SampleRate) -> LeadingSilence {
    let mut silence = LeadingSilence::new(rate);
    silence.add(samples);
    silence
}

/// The silence at the head of a whole utterance; all of it if there is no speech.
pub fn leading_silence(samples: &[f32], rate: SampleRate) -> Samples {
    measured(samples, rate).leading()
}

/// The silence at the end of a whole utterance; all of it if there is no speech.
pub fn trailing_silence(samples: &[f32], rate: SampleRate) -> Samples {
    measured(samples, rate).trailing()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HZ: u32 = 24_000;
    const WINDOW: usize = 120;

    fn rate() -> SampleRate {
        SampleRate::new(HZ).unwrap()
    }

    fn tone(len: usize, amplitude: f32) -> Vec<f32> {
        (0..len)
            .map(|i| if i % 2 == 0 { amplitude } else { -amplitude })
            .collect()
    }

    #[test]
    fn silence_around_a_tone_is_measured_at_both_ends() {
        let samples = [
            vec![0.0; 10 * WINDOW],
            tone(40 * WINDOW, 0.5),
            vec![0.0; 7 * WINDOW + 11],
        ]
        .concat();
        assert_eq!(leading_silence(&samples, rate()), Samples(10 * 120));
        assert_eq!(trailing_silence(&samples, rate()), Samples(7 * 120 + 11));
    }

    #[test]
    fn quiet_noise_under_five_percent_of_the_peak_is_silence() {
        let samples = [tone(8 * WINDOW, 0.024), tone(40 * WINDOW, 0.5)].concat();
        assert_eq!(leading_silence(&samples, rate()), Samples(8 * 120));
        let samples = [tone(8 * WINDOW, 0.026), tone(40 * WINDOW, 0.5)].concat();
        assert_eq!(leading_silence(&samples, rate()), Samples(0));
    }

    #[test]
    fn a_click_shorter_than_twenty_milliseconds_is_not_speech() {
        let samples = [
            vec![0.0; 600],
            tone(3 * WINDOW, 0.9),
            vec![0.0; 600],
            tone(4 * WINDOW, 0.9),
        ]
        .concat();
        assert_eq!(leading_silence(&samples, rate()), Samples(600 + 360 + 600));
    }

    #[test]
    fn audio_without_speech_is_all_silence() {
        for samples in [vec![], vec![0.0; 999], tone(3 * WINDOW, 0.9)] {
            assert_eq!(leading_silence(&samples, rate()), Samples::of(&samples));
            assert_eq!(trailing_silence(&samples, rate()), Samples::of(&samples));
        }
    }

    proptest! {
        #[test]
        fn measuring_in_chunks_equals_measuring_the_whole(
            samples in prop::collection::vec(-1.0f32..1.0, 0..2_000),
            quiet in 0usize..2_000,
            size in 1usize..500,
        ) {
            let samples = [vec![0.001; quiet], samples].concat();
            let mut chunked = LeadingSilence::new(rate());
            samples.chunks(size).for_each(|chunk| chunked.add(chunk));
            prop_assert_eq!(chunked.leading(), leading_silence(&samples, rate()));
            prop_assert_eq!(chunked.trailing(), trailing_silence(&samples, rate()));
        }
    }
}
