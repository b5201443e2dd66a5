//! Cuts silence off a live stream: at its beginning, at its end, and out of overlong pauses.
//!
//! In: the samples of one piece of speech in any chunking. Out: the same samples less silence, with short fades at
//! both ends. The result depends on the samples alone, never on how they were cut into chunks. Look-ahead is bounded:
//! at most four windows (20 ms) while waiting for speech to begin; afterwards one window (5 ms) plus the fade.
//!
//! A window of 5 ms is silent if its root mean square is below an absolute threshold. Speech begins where four windows
//! in a row are not (a lone click does not start it) and is then never cut again by a window that is not silent.

use std::collections::VecDeque;
use std::time::Duration;

use crate::level::Level;
use crate::silence::{SUSTAINED_WINDOWS, window_len};
use crate::units::{SampleRate, Samples};

/// Threshold of silence, and the lengths of it that stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrimSettings {
    /// Root mean square below which a window is silent, 1.0 at full scale.
    pub threshold: f32,
    /// Silence kept before speech begins.
    pub keep_leading: Duration,
    /// Silence kept at the most after speech ends.
    pub keep_trailing: Duration,
    /// The longest pause inside speech; longer ones are cut to this length. At least `keep_trailing`.
    pub max_pause: Duration,
    /// Length of the fades at both ends.
    pub fade: Duration,
}

impl Default for TrimSettings {
    /// Silence is below -50 dBFS; 20 ms stay before and 80 ms after speech, pauses last at most 1.2 s, fades 3 ms.
    fn default() -> Self {
        Self {
            threshold: 0.003_16,
            keep_leading: Duration::from_millis(20),
            keep_trailing: Duration::from_millis(80),
            max_pause: Duration::from_millis(1_200),
            fade: Duration::from_millis(3),
        }
    }
}

/// Result of a [`Trimmer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrimReport {
    /// Samples taken in.
    pub input: Samples,
    /// Samples given out.
    pub output: Samples,
    /// Silence cut off before speech; everything if there was no speech.
    pub leading: Samples,
    /// Silence cut off after speech.
    pub trailing: Samples,
    /// Silence cut out of overlong pauses.
    pub pauses: Samples,
}

/// The state of one piece of speech.
#[derive(Debug)]
pub struct Trimmer {
    limits: Limits,
    /// The window being filled.
    window: Vec<f32>,
    state: State,
    fader: Fader,
    report: TrimReport,
}

/// [`TrimSettings`] in samples.
#[derive(Debug, Clone, Copy)]
struct Limits {
    window: usize,
    threshold: f32,
    keep_leading: usize,
    keep_trailing: usize,
    /// Capacity for the part of a pause that is dropped should speech not come back.
    held_pause: usize,
}

#[derive(Debug)]
enum State {
    /// No speech yet: the silence to keep, then windows that may turn out to be its beginning.
    Before { quiet: VecDeque<f32>, maybe: Vec<f32> },
    /// Speech has begun. `silent` samples since it was last heard have been given out, `held` waits.
    Speaking {
        silent: usize,
        held: VecDeque<f32>,
        /// Samples of this pause that were dropped already.
        cut: usize,
    },
}

impl Trimmer {
    /// A new piece of speech at `rate`.
    pub fn new(rate: SampleRate, settings: TrimSettings) -> Self {
        let samples = |time| rate.samples(time).len();
        let keep_trailing = samples(settings.keep_trailing);
        let limits = Limits {
            window: window_len(rate),
            threshold: settings.threshold,
            keep_leading: samples(settings.keep_leading),
            keep_trailing,
            held_pause: samples(settings.max_pause).saturating_sub(keep_trailing),
        };
        Self {
            window: Vec::with_capacity(limits.window),
            state: State::Before {
                quiet: VecDeque::new(),
                maybe: Vec::new(),
            },
            fader: Fader::new(samples(settings.fade)),
            report: TrimReport::default(),
            limits,
        }
    }

    /// Adds samples; appends available output to `out`.
    pub fn push(&mut self, mut samples: &[f32], out: &mut Vec<f32>) {
        self.report.input += Samples::of(samples);
        let before = out.len();
        while !samples.is_empty() {
            let (now, later) = samples.split_at(samples.len().min(self.limits.window - self.window.len()));
            self.window.extend_from_slice(now);
            if self.window.len() == self.limits.window {
                self.close_window(out);
            }
            samples = later;
        }
        self.report.output += Samples::of(&out[before..]);
    }

    /// Ends the piece: the rest goes to `out`, faded, without surplus silence.
    pub fn finish(mut self, out: &mut Vec<f32>) -> TrimReport {
        let before = out.len();
        if !self.window.is_empty() {
            self.close_window(out);
        }
        match &mut self.state {
            // Too short to count as sustained, but all the speech there is.
            State::Before { maybe, .. } if !maybe.is_empty() => self.begin(out),
            State::Before { .. } => self.report.leading = self.report.input,
            State::Speaking { held, cut, .. } => self.report.trailing = Samples((held.len() + *cut) as u64),
        }
        if let State::Speaking { .. } = self.state {
            self.fader.finish(out);
        }
        self.report.output += Samples::of(&out[before..]);
        self.report
    }

    fn close_window(&mut self, out: &mut Vec<f32>) {
        let window = std::mem::take(&mut self.window);
        let voiced = Level::of(&window).rms() >= self.limits.threshold;
        match &mut self.state {
            State::Before { maybe, .. } if voiced => {
                maybe.extend_from_slice(&window);
                if maybe.len() >= SUSTAINED_WINDOWS * self.limits.window {
                    self.begin(out);
                }
            }
            State::Before { quiet, maybe } => {
                quiet.extend(maybe.drain(..).chain(window.iter().copied()));
                let surplus = quiet.len().saturating_sub(self.limits.keep_leading);
                quiet.drain(..surplus);
                self.report.leading += Samples(surplus as u64);
            }
            State::Speaking { .. } if voiced => self.resume(&window, out),
            State::Speaking { .. } => self.pause(&window, out),
        }
        self.window = window;
        self.window.clear();
    }

    fn begin(&mut self, out: &mut Vec<f32>) {
        let speaking = State::Speaking {
            silent: 0,
            held: VecDeque::new(),
            cut: 0,
        };
        if let State::Before { mut quiet, maybe } = std::mem::replace(&mut self.state, speaking) {
            self.fader.push(quiet.make_contiguous(), out);
            self.fader.push(&maybe, out);
        }
    }

    /// Ends a pause within speech: its samples, if held, come before the window.
    fn resume(&mut self, window: &[f32], out: &mut Vec<f32>) {
        if let State::Speaking { silent, held, cut } = &mut self.state {
            if *cut > 0 {
                self.fader.join(held.make_contiguous());
            }
            self.fader.push(held.make_contiguous(), out);
            held.clear();
            self.report.pauses += Samples(*cut as u64);
            (*silent, *cut) = (0, 0);
        }
        self.fader.push(window, out);
    }

    /// A silent window: the first of them are given out, the rest wait for speech to come back.
    fn pause(&mut self, window: &[f32], out: &mut Vec<f32>) {
        if let State::Speaking { silent, held, cut } = &mut self.state {
            let (now, later) = window.split_at(window.len().min(self.limits.keep_trailing - *silent));
            self.fader.push(now, out);
            *silent += now.len();
            held.extend(later);
            let surplus = held.len().saturating_sub(self.limits.held_pause);
            held.drain(..surplus);
            *cut += surplus;
        }
    }
}

/// Fades the first samples in and, by holding back as many, the last ones out.
#[derive(Debug)]
struct Fader {
    len: usize,
    seen: usize,
    held: VecDeque<f32>,
}

impl Fader {
    fn new(len: usize) -> Self {
        Self {
            len,
            seen: 0,
            held: VecDeque::with_capacity(len),
        }
    }

    fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        for &sample in samples {
            let gain = if self.seen < self.len {
                gain(self.seen, self.len)
            } else {
                1.0
            };
            self.seen += 1;
            self.held.push_back(sample * gain);
        }
        let ready = self.held.len().saturating_sub(self.len);
        out.extend(self.held.drain(..ready));
    }

    /// Ramps the beginning of `next` so that it continues at the last sample.
    fn join(&self, next: &mut [f32]) {
        if let (Some(&last), Some(&first)) = (self.held.back(), next.first()) {
            let step = last - first;
            for (i, sample) in next.iter_mut().take(self.len).enumerate() {
                *sample += step * (1.0 - gain(i, self.len));
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<f32>) {
        let len = self.held.len();
        out.extend(
            self.held
                .drain(..)
                .enumerate()
                .map(|(i, sample)| sample * gain(len - 1 - i, len)),
        );
    }
}

/// A raised-cosine fade: from nearly 0 at `i == 0` to nearly 1 at `i == len - 1`.
fn gain(i: usize, len: usize) -> f32 {
    let x = (i as f32 + 0.5) / len as f32;
    0.5 - 0.5 * (x * std::f32::consts::PI).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::click::worst_join;
    use crate::silence::{leading_silence, trailing_silence};
    use proptest::prelude::*;

    const MS: usize = 24;

    fn rate() -> SampleRate {
        SampleRate::new(24_000).unwrap()
    }

    fn tone(ms: usize) -> Vec<f32> {
        (0..ms * MS)
            .map(|i| 0.4 * (i as f32 * 300.0 * std::f32::consts::TAU / 24_000.0).sin())
            .collect()
    }

    fn hiss(ms: usize) -> Vec<f32> {
        (0..ms * MS)
            .map(|i| 0.000_5 * (((i * 7_919) % 13) as f32 - 6.0) / 6.0)
            .collect()
    }

    fn trim(samples: &[f32], chunk: usize) -> (Vec<f32>, TrimReport) {
        let mut trimmer = Trimmer::new(rate(), TrimSettings::default());
        let mut out = Vec::new();
        samples
            .chunks(chunk)
            .for_each(|chunk| trimmer.push(chunk, &mut out));
        let report = trimmer.finish(&mut out);
        (out, report)
    }

    #[test]
    fn silence_at_both_ends_is_cut_to_what_is_kept() {
        let (out, report) = trim(&[hiss(300), tone(500), hiss(700)].concat(), 1_920);
        assert_eq!(out.len(), (20 + 500 + 80) * MS);
        assert_eq!(report.leading, Samples((280 * MS) as u64));
        assert_eq!(report.trailing, Samples((620 * MS) as u64));
        assert_eq!(leading_silence(&out, rate()), Samples((20 * MS) as u64));
        assert_eq!(trailing_silence(&out, rate()), Samples((80 * MS) as u64));
    }

    #[test]
    fn speech_that_begins_at_once_loses_nothing() {
        let (out, report) = trim(&tone(500), 999);
        assert_eq!(out.len(), 500 * MS);
        assert_eq!(
            (report.leading, report.trailing, report.pauses),
            Default::default()
        );
    }

    #[test]
    fn the_inside_of_speech_is_untouched() {
        let speech = [tone(200), hiss(400), tone(200)].concat();
        let (out, _) = trim(&speech, 1_920);
        let fade = 3 * MS;
        assert_eq!(out[fade..out.len() - fade], speech[fade..speech.len() - fade]);
    }

    #[test]
    fn an_overlong_pause_is_cut_to_the_longest_without_a_click() {
        let (out, report) = trim(&[tone(200), hiss(5_000), tone(200)].concat(), 1_920);
        assert_eq!(out.len(), (200 + 1_200 + 200) * MS);
        assert_eq!(report.pauses, Samples((3_800 * MS) as u64));
        assert!(worst_join(&out, rate(), &[(200 + 80) * MS]).unwrap().score < 2.0);
    }

    #[test]
    fn silence_after_speech_is_trailing_however_long_it_is() {
        let (_, report) = trim(&[tone(200), hiss(5_000)].concat(), 1_920);
        assert_eq!(
            (report.trailing, report.pauses),
            (Samples((4_920 * MS) as u64), Samples::ZERO)
        );
    }

    #[test]
    fn both_ends_fade_from_and_to_nothing() {
        let (out, _) = trim(&[0.4; 4_800], 100);
        assert!(out[0].abs() < 0.001 && out[out.len() - 1].abs() < 0.001);
        assert!(out.windows(2).all(|pair| (pair[1] - pair[0]).abs() < 0.01));
    }

    #[test]
    fn a_click_before_speech_does_not_start_it() {
        let (out, _) = trim(&[hiss(100), tone(10), hiss(100), tone(300)].concat(), 480);
        assert_eq!(out.len(), (20 + 300) * MS);
    }

    #[test]
    fn a_word_shorter_than_twenty_milliseconds_is_kept() {
        let (out, _) = trim(&[hiss(100), tone(12)].concat(), 480);
        assert_eq!(out.len(), (20 + 12) * MS);
    }

    #[test]
    fn silence_alone_gives_nothing() {
        let (out, report) = trim(&hiss(2_000), 480);
        assert!(out.is_empty());
        assert_eq!((report.leading, report.output), (report.input, Samples::ZERO));
        assert_eq!(trim(&[], 1).1, TrimReport::default());
    }

    #[test]
    fn look_ahead_is_bounded_by_the_window_and_the_fade() {
        let mut trimmer = Trimmer::new(rate(), TrimSettings::default());
        let mut out = Vec::new();
        trimmer.push(&tone(20), &mut out);
        assert!(
            out.len() >= 17 * MS,
            "{} of 480 samples after 20 ms of speech",
            out.len()
        );
        trimmer.push(&tone(103), &mut out);
        assert!(out.len() >= (123 - 8) * MS);
    }

    fn pieces() -> impl Strategy<Value = Vec<f32>> {
        let piece = (0usize..4, 0usize..90).prop_map(|(kind, ms)| match kind {
            0 => hiss(ms * 20),
            1 => vec![0.0; ms],
            2 => tone(ms)[..(ms * MS).saturating_sub(ms % 7)].to_vec(),
            _ => tone(ms / 8),
        });
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_chunking(samples in pieces(), cuts in prop::collection::vec(1usize..4_000, 1..20)) {
            let (whole, report) = trim(&samples, samples.len().max(1));
            let mut trimmer = Trimmer::new(rate(), TrimSettings::default());
            let mut out = Vec::new();
            let mut rest = &samples[..];
            let mut sizes = cuts.iter().cycle();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
                trimmer.push(now, &mut out);
                rest = later;
            }
            prop_assert_eq!(trimmer.finish(&mut out), report);
            prop_assert_eq!(out, whole);
        }

        #[test]
        fn every_sample_is_accounted_for(samples in pieces()) {
            let (out, report) = trim(&samples, 480);
            prop_assert_eq!(Samples::of(&out), report.output);
            prop_assert_eq!(report.output + report.leading + report.trailing + report.pauses, report.input);
        }

        #[test]
        fn trailing_silence_never_exceeds_what_is_kept(samples in pieces(), quiet in 0usize..2_000) {
            let (out, _) = trim(&[samples, tone(100), hiss(quiet)].concat(), 480);
            // One window may be half speech, half silence.
            prop_assert!(trailing_silence(&out, rate()) <= Samples((85 * MS) as u64));
        }
    }
}
