//! Follows speech whose sounds are known through its audio: which of them is heard when.
//!
//! What is expected is laid out on a grid of 10 ms, every sound as long as is usual for it. In every 10 ms of audio the speaker is
//! at one place of the grid; from there to the next 10 ms he stays, goes on by a place, or by two or three where he is quicker
//! than usual. Of all ways through the grid the most likely is kept (Viterbi, 1967; as forced alignment does it with a trained
//! recogniser), judged by two things that any audio tells: how loud it is beside the loudest so far, and how bright. A vowel is
//! loud and dull, an s is soft and bright, a pause is neither.
//!
//! In: sounds in the order of the text, and samples of one channel, in any chunking; sounds may be added while audio comes. Out:
//! when places that were marked between sounds are passed. What is known of a moment may still change while audio comes, mostly
//! in the next few 10 ms.

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::{SampleRate, Samples};

/// Width of the grid.
const STEP: Duration = Duration::from_millis(10);
/// Places that are considered at a time, and how many of them lie behind the most likely one.
const WINDOW: usize = 256;
const BEHIND: usize = 96;
/// Ways from one moment to the next: places to go on by, and what each is worth. Quick speech is less likely than usual speech.
const WAYS: [f32; 4] = [-1.0, 0.0, -1.0, -2.0];
/// What it is worth to stay within a pause, which takes any time.
const LINGER: f32 = -0.1;
/// How much what is heard counts against how usual the tempo is.
const EVIDENCE: f32 = 1.5;
/// Beyond three deviations one thing is as unlikely as another.
const WORST: f32 = 9.0;
/// Levels, in dB beside the loudest, below which everything is as silent.
const SILENT: f32 = -45.0;
/// The loudest so far is at least so loud, in dBFS.
const LOUD: f32 = -30.0;
/// Below this, in Hz, everything is as dull.
const DULL: f32 = 100.0;
/// Moments that are kept: a minute. Half of it is decided when it is over.
const KEPT: usize = 6_000;

/// How a sound differs from others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timbre {
    /// Root mean square in dB beside the loudest 10 ms so far, 0 to -45.
    pub level: f32,
    /// Its standard deviation.
    pub level_spread: f32,
    /// Natural logarithm of the frequency in Hz, of a tone as bright.
    pub brightness: f32,
    /// Its standard deviation.
    pub brightness_spread: f32,
}

/// A sound that is to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// What it is like.
    pub timbre: Timbre,
    /// How long it is, usually.
    pub length: Duration,
    /// Whether it may as well be longer: a pause.
    pub lingers: bool,
}

/// Follows one stretch of speech.
#[derive(Debug, Clone)]
pub struct Follower {
    ear: Ear,
    sounds: Vec<Expected>,
    /// For every place, which sound is there.
    grid: Vec<u32>,
    /// Places before which something was marked, ascending.
    marks: Vec<usize>,
    /// When the first of them were passed, decided.
    decided: Vec<usize>,
    /// The first place that is considered, and how likely it is to be there, there or further on.
    first: usize,
    scores: Vec<f32>,
    rows: VecDeque<Row>,
    /// Moments before the first row.
    before: usize,
}

/// One moment: how each place that was considered was reached.
#[derive(Debug, Clone)]
struct Row {
    first: u32,
    /// Two bits for each place.
    ways: [u8; WINDOW / 4],
}

impl Row {
    fn way(&self, place: usize) -> usize {
        let at = place - self.first as usize;
        usize::from(self.ways[at / 4] >> (at % 4 * 2) & 3)
    }

    fn set(&mut self, at: usize, way: usize) {
        self.ways[at / 4] |= (way as u8) << (at % 4 * 2);
    }
}

impl Follower {
    /// Speech at `rate` of which nothing is expected yet.
    #[must_use]
    pub fn new(rate: SampleRate) -> Self {
        Self {
            ear: Ear::new(rate),
            sounds: Vec::new(),
            grid: Vec::new(),
            marks: Vec::new(),
            decided: Vec::new(),
            first: 0,
            scores: Vec::new(),
            rows: VecDeque::new(),
            before: 0,
        }
    }

    /// This comes next. A sound takes at least one place of the grid.
    pub fn expect(&mut self, sound: Expected) {
        let places = (sound.length.as_secs_f64() / STEP.as_secs_f64()).round().max(1.0) as usize;
        let sound_at = self.sounds.len() as u32;
        self.sounds.push(sound);
        self.grid.extend(std::iter::repeat_n(sound_at, places));
    }

    /// Marks the place between what was expected so far and what will be.
    pub fn mark(&mut self) {
        self.marks.push(self.grid.len());
    }

    /// The next samples.
    pub fn push(&mut self, samples: &[f32]) {
        let mut heard = Vec::new();
        self.ear.push(samples, &mut heard);
        for moment in heard {
            self.hear(moment);
        }
    }

    /// When the marks from the `from`th on are passed, counted from the first sample. Those that are not passed yet are absent; if
    /// the speech is `over`, it has come to the last mark with its last sample.
    #[must_use]
    pub fn passed(&self, from: usize, over: bool) -> Vec<Option<Samples>> {
        let moments = self.moments(from, over);
        let time = |moment: usize| Samples((moment * self.ear.step) as u64).min(self.ear.taken);
        let end = over.then_some(self.ear.taken);
        moments
            .into_iter()
            .map(|moment| moment.map(time).or(end))
            .collect()
    }

    fn moments(&self, from: usize, over: bool) -> Vec<Option<usize>> {
        let mut moments: Vec<Option<usize>> = self.decided.iter().skip(from).copied().map(Some).collect();
        let from = from.max(self.decided.len());
        let open = self.marks.get(from..).unwrap_or_default();
        let Some(mut place) = self.place(over) else {
            moments.extend(open.iter().map(|_| None));
            return moments;
        };
        let mut passed = vec![None; open.len()];
        let mut left = open.partition_point(|&mark| mark <= place);
        for (moment, row) in self.rows.iter().enumerate().rev() {
            let came_from = place.saturating_sub(row.way(place));
            while left > 0 && open[left - 1] > came_from {
                left -= 1;
                passed[left] = Some(self.before + moment);
            }
            if left == 0 {
                break;
            }
            place = came_from;
        }
        // What is marked before the first sound is passed at once.
        passed[..left].fill(Some(self.before));
        moments.extend(passed);
        moments
    }

    /// Where it is, if it is anywhere.
    fn place(&self, over: bool) -> Option<usize> {
        let last = self.grid.len().checked_sub(1)?;
        let reached = |place: usize| {
            let score = place.checked_sub(self.first).and_then(|at| self.scores.get(at));
            score.is_some_and(|score| *score > f32::NEG_INFINITY)
        };
        if over && reached(last) {
            return Some(last);
        }
        let best = (0..self.scores.len()).max_by(|a, b| self.scores[*a].total_cmp(&self.scores[*b]))?;
        Some(self.first + best)
    }

    fn hear(&mut self, moment: Moment) {
        if self.grid.is_empty() {
            self.before += 1;
            return;
        }
        let first = match self.place(false) {
            Some(place) => place.saturating_sub(BEHIND).max(self.first),
            None => 0,
        };
        let end = (first + WINDOW).min(self.grid.len());
        let mut row = Row {
            first: first as u32,
            ways: [0; WINDOW / 4],
        };
        let mut scores = Vec::with_capacity(end - first);
        let mut likely = (u32::MAX, 0.0);
        for place in first..end {
            let sound = self.grid[place];
            if likely.0 != sound {
                likely = (sound, moment.likelihood(&self.sounds[sound as usize].timbre));
            }
            let (way, score) = self.reach(place);
            row.set(place - first, way);
            scores.push(score + likely.1);
        }
        (self.first, self.scores) = (first, scores);
        self.rows.push_back(row);
        if self.rows.len() > KEPT {
            self.decide();
        }
    }

    /// The best way to a place, from where it can have been, and what it is worth.
    fn reach(&self, place: usize) -> (usize, f32) {
        if self.rows.is_empty() {
            let score = if place == 0 { 0.0 } else { f32::NEG_INFINITY };
            return (0, score);
        }
        let mut best = (0, f32::NEG_INFINITY);
        for (way, worth) in WAYS.into_iter().enumerate() {
            let from = place
                .checked_sub(way)
                .and_then(|from| from.checked_sub(self.first));
            let Some(score) = from.and_then(|at| self.scores.get(at)) else {
                continue;
            };
            let worth = match way {
                0 if self.sounds[self.grid[place] as usize].lingers => LINGER,
                _ => worth,
            };
            if score + worth > best.1 {
                best = (way, score + worth);
            }
        }
        best
    }

    /// Decides the older half of what is kept.
    fn decide(&mut self) {
        let old = self.before + KEPT / 2;
        let passed = self.moments(self.decided.len(), false);
        self.decided.extend(
            passed
                .into_iter()
                .map_while(|moment| moment.filter(|moment| *moment < old)),
        );
        self.rows.drain(..KEPT / 2);
        self.before = old;
    }
}

/// What is heard in 10 ms.
#[derive(Debug, Clone, Copy)]
struct Moment {
    level: f32,
    brightness: f32,
}

impl Moment {
    /// Logarithm of how likely it is in a sound, weighed against the tempo.
    fn likelihood(self, timbre: &Timbre) -> f32 {
        let part = |heard: f32, usual: f32, spread: f32| {
            let off = (heard - usual) / spread;
            -0.5 * (off * off).min(WORST) - spread.ln()
        };
        let level = part(self.level, timbre.level, timbre.level_spread);
        let brightness = part(self.brightness, timbre.brightness, timbre.brightness_spread);
        EVIDENCE * (level + brightness)
    }
}

/// Listens.
#[derive(Debug, Clone)]
struct Ear {
    rate: SampleRate,
    /// Samples of one moment.
    step: usize,
    taken: Samples,
    /// Of the moment that is not complete: its samples, their energy and that of their differences.
    count: usize,
    energy: f64,
    change: f64,
    last: f32,
    loudest: f32,
}

impl Ear {
    fn new(rate: SampleRate) -> Self {
        Self {
            rate,
            step: rate.samples(STEP).len(),
            taken: Samples::ZERO,
            count: 0,
            energy: 0.0,
            change: 0.0,
            last: 0.0,
            loudest: LOUD,
        }
    }

    fn push(&mut self, samples: &[f32], out: &mut Vec<Moment>) {
        self.taken += Samples::of(samples);
        for &sample in samples {
            self.energy += f64::from(sample * sample);
            let change = sample - self.last;
            self.change += f64::from(change * change);
            self.last = sample;
            self.count += 1;
            if self.count == self.step {
                out.push(self.moment());
            }
        }
    }

    fn moment(&mut self) -> Moment {
        let level = (10.0 * (self.energy / self.step as f64 + 1e-9).log10()) as f32;
        self.loudest = self.loudest.max(level);
        // A tone of f Hz changes from sample to sample by 2 sin(pi f / rate) of its own strength.
        let change = (self.change / (self.energy + 1e-6)).clamp(0.0, 4.0).sqrt() / 2.0;
        let hz = f64::from(self.rate.hz()) / std::f64::consts::PI * change.asin();
        (self.count, self.energy, self.change) = (0, 0.0, 0.0);
        Moment {
            level: (level - self.loudest).max(SILENT),
            brightness: (hz as f32).max(DULL).ln(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: usize = 16;

    fn rate() -> SampleRate {
        SampleRate::new(16_000).unwrap()
    }

    /// A hum, a hiss and a pause.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Sound {
        Hum,
        Hiss,
        Pause,
    }

    impl Sound {
        fn expected(self, ms: u64) -> Expected {
            let (level, hz) = match self {
                Self::Hum => (-3.0, 300.0_f32),
                Self::Hiss => (-15.0, 4_000.0),
                Self::Pause => (-40.0, 400.0),
            };
            Expected {
                timbre: Timbre {
                    level,
                    level_spread: 6.0,
                    brightness: hz.ln(),
                    brightness_spread: 0.6,
                },
                length: Duration::from_millis(ms),
                lingers: self == Self::Pause,
            }
        }

        fn samples(self, ms: usize) -> Vec<f32> {
            let (loud, hz) = match self {
                Self::Hum => (0.4, 300.0),
                Self::Hiss => (0.08, 4_000.0),
                Self::Pause => (0.0, 0.0),
            };
            let sample = |n: usize| loud * (std::f32::consts::TAU * hz * n as f32 / 16_000.0).sin();
            (0..ms * MS).map(sample).collect()
        }
    }

    use Sound::{Hiss, Hum, Pause};

    const WORDS: [&[(Sound, u64)]; 4] = [
        &[(Hum, 120), (Hiss, 80)],
        &[(Hum, 60), (Hiss, 90), (Hum, 90)],
        &[(Hiss, 150), (Hum, 110), (Pause, 100)],
        &[(Hiss, 70), (Hum, 150)],
    ];

    /// Expects the words, and speaks them with every sound as long as `tempo` makes it; gives where each word really ends.
    fn speech(tempo: impl Fn(u64) -> usize) -> (Follower, Vec<f32>, Vec<usize>) {
        let mut follower = Follower::new(rate());
        let (mut samples, mut ends) = (Vec::new(), Vec::new());
        for word in WORDS {
            for &(sound, ms) in word {
                follower.expect(sound.expected(ms));
                samples.extend(sound.samples(tempo(ms)));
            }
            follower.mark();
            ends.push(samples.len());
        }
        (follower, samples, ends)
    }

    fn near(passed: &[Option<Samples>], ends: &[usize]) {
        assert_eq!(passed.len(), ends.len());
        for (passed, end) in passed.iter().zip(ends) {
            let off = passed.expect("it was passed").0.abs_diff(*end as u64) as usize;
            assert!(off <= 40 * MS, "{passed:?} instead of {end}: {} ms off", off / MS);
        }
    }

    #[test]
    fn words_are_found_where_they_are_said() {
        let (mut follower, samples, ends) = speech(|ms| ms as usize);
        follower.push(&samples);
        near(&follower.passed(0, true), &ends);
    }

    #[test]
    fn slower_and_quicker_speech_is_followed() {
        for percent in [60, 75, 130, 170] {
            let (mut follower, samples, ends) = speech(|ms| ms as usize * percent / 100);
            follower.push(&samples);
            near(&follower.passed(0, true), &ends);
        }
    }

    #[test]
    fn a_pause_takes_any_time() {
        let (mut follower, samples, ends) = speech(|ms| if ms == 100 { 900 } else { ms as usize });
        follower.push(&samples);
        near(&follower.passed(0, true), &ends);
    }

    #[test]
    fn what_is_not_heard_yet_is_not_passed() {
        let (mut follower, samples, ends) = speech(|ms| ms as usize);
        assert_eq!(follower.passed(0, false), [None; 4]);
        follower.push(&samples[..ends[1] + 40 * MS]);
        let passed = follower.passed(0, false);
        near(&passed[..2], &ends[..2]);
        assert_eq!(passed[2..], [None; 2]);
        assert_eq!(follower.passed(2, false), [None; 2]);
    }

    #[test]
    fn speech_that_is_over_has_passed_everything() {
        let (mut follower, samples, _) = speech(|ms| ms as usize);
        follower.push(&samples[..50 * MS]);
        let passed = follower.passed(0, true);
        assert!(
            passed
                .iter()
                .all(|at| at.is_some_and(|at| at <= Samples(50 * MS as u64)))
        );
        assert!(passed.is_sorted());
    }

    #[test]
    fn marks_are_passed_in_order_also_where_nothing_is_as_expected() {
        let (mut follower, _, _) = speech(|ms| ms as usize);
        follower.push(&[Pause.samples(300), Hiss.samples(2_000)].concat());
        let passed = follower.passed(0, false);
        assert!(passed.iter().flatten().is_sorted());
        assert!(follower.passed(0, true).is_sorted());
    }

    #[test]
    fn sounds_may_become_known_while_audio_comes() {
        let mut follower = Follower::new(rate());
        for _ in 0..2 {
            for &(sound, ms) in WORDS[0] {
                follower.expect(sound.expected(ms));
            }
            follower.mark();
            for &(sound, ms) in WORDS[0] {
                follower.push(&sound.samples(ms as usize));
            }
        }
        near(&follower.passed(0, true), &[200 * MS, 400 * MS]);
    }

    #[test]
    fn without_anything_expected_nothing_is_passed() {
        let mut follower = Follower::new(rate());
        follower.push(&Hum.samples(500));
        assert!(follower.passed(0, true).is_empty());
        follower.mark();
        assert_eq!(follower.passed(0, false), [None]);
    }

    #[test]
    fn hours_take_no_more_memory_than_a_minute_and_lose_no_mark() {
        let mut follower = Follower::new(rate());
        let (hum, hiss) = (Hum.samples(500), Hiss.samples(500));
        for _ in 0..150 {
            follower.expect(Hum.expected(500));
            follower.mark();
            follower.expect(Hiss.expected(500));
            follower.mark();
            follower.push(&hum);
            follower.push(&hiss);
        }
        assert!(follower.rows.len() <= KEPT);
        let ends: Vec<_> = (1..=300).map(|n| n * 500 * MS).collect();
        near(&follower.passed(0, true), &ends);
        near(&follower.passed(290, true), &ends[290..]);
    }

    proptest! {
        #[test]
        fn how_the_samples_were_cut_changes_nothing(cuts in prop::collection::vec(1usize..3_000, 1..20)) {
            let (mut whole, samples, _) = speech(|ms| ms as usize);
            let mut cut = whole.clone();
            whole.push(&samples);
            let (mut rest, mut sizes) = (&samples[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
                cut.push(now);
                rest = later;
            }
            prop_assert_eq!(whole.passed(0, true), cut.passed(0, true));
            prop_assert_eq!(whole.passed(0, false), cut.passed(0, false));
        }
    }
}
