//! Follows speech whose sounds are known through its audio: which of them is heard when.
//!
//! What is expected is laid out on a grid of 10 ms, every sound as long as is usual for it. In every 10 ms of audio
//! the speaker is at one place of the grid; from there to the next 10 ms he stays, goes on by a place, or by two or
//! three where he is quicker than usual. Of all ways through the grid the most likely is kept (Viterbi, 1967; as
//! forced alignment does it with a trained recogniser), judged by two things that any audio tells: how loud it is
//! beside the loudest so far, and how bright. A vowel is loud and dull, an s is soft and bright, a pause is neither.
//!
//! In: sounds in the order of the text, and samples of one channel, in any chunking; sounds may be added while audio
//! comes. Out: when places that were marked between sounds are passed. What is known of a moment may still change
//! while audio comes, mostly in the next few 10 ms.

mod ending;
mod features;

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::{SampleRate, Samples};
use features::{Extractor, Moment};

/// Width of the grid.
const STEP: Duration = Duration::from_millis(10);
/// Places considered at a time, and how many of them precede the most likely one.
const WINDOW: usize = 256;
const BEHIND: usize = 96;
/// Scores of a step by the number of places it advances. Fast speech is less likely than usual speech.
const WAYS: [f32; 4] = [-1.0, 0.0, -1.0, -2.0];
/// Score for each step within a pause, which takes any time.
const LINGER: f32 = -0.1;
/// Moments kept: a minute. When full, the older half is decided.
const KEPT: usize = 6_000;

/// Spectral character of a sound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timbre {
    /// Root mean square in dB relative to the loudest 10 ms so far, 0 to -45.
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
    /// Character of the sound.
    pub timbre: Timbre,
    /// Usual length.
    pub length: Duration,
    /// `true` if it may as well be longer: a pause.
    pub lingers: bool,
}

/// Follows one stretch of speech.
#[derive(Debug, Clone)]
pub struct Follower {
    extractor: Extractor,
    sounds: Vec<Expected>,
    /// Sound at each place.
    grid: Vec<u32>,
    /// Places before which something was marked, ascending.
    marks: Vec<usize>,
    /// Moments at which the first of them were passed, decided.
    decided: Vec<usize>,
    /// The first place that is considered, and how likely it is to be there, there or further on.
    first: usize,
    scores: Vec<f32>,
    rows: VecDeque<Row>,
    /// Features of each of them.
    heard: VecDeque<Moment>,
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
    pub fn new(rate: SampleRate) -> Self {
        Self {
            extractor: Extractor::new(rate),
            sounds: Vec::new(),
            grid: Vec::new(),
            marks: Vec::new(),
            decided: Vec::new(),
            first: 0,
            scores: Vec::new(),
            rows: VecDeque::new(),
            heard: VecDeque::new(),
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

    /// Marks the place between the sounds expected so far and the next ones.
    pub fn mark(&mut self) {
        self.marks.push(self.grid.len());
    }

    /// The next samples.
    pub fn push(&mut self, samples: &[f32]) {
        let mut heard = Vec::new();
        self.extractor.push(samples, &mut heard);
        for moment in heard {
            self.hear(moment);
        }
    }

    /// Times at which the marks from the `from`th on are passed, counted from the first sample. Those that are not
    /// passed yet are absent; if the speech is `over`, it has come to the last mark with its last sample.
    pub fn passed(&self, from: usize, over: bool) -> Vec<Option<Samples>> {
        let moments = self.moments(from, over);
        let time = |moment: usize| Samples((moment * self.extractor.step) as u64).min(self.extractor.taken);
        let end = over.then_some(self.extractor.taken);
        moments
            .into_iter()
            .map(|moment| moment.map(time).or(end))
            .collect()
    }

    fn moments(&self, from: usize, over: bool) -> Vec<Option<usize>> {
        let mut moments: Vec<Option<usize>> = self.decided.iter().skip(from).copied().map(Some).collect();
        let from = from.max(self.decided.len());
        let open = self.marks.get(from..).unwrap_or_default();
        if over && !self.has_reached_end() {
            moments.extend(self.ended(from).into_iter().map(Some));
            return moments;
        }
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
        // Marks before the first sound are passed at once.
        passed[..left].fill(Some(self.before));
        moments.extend(passed);
        moments
    }

    /// True if the last place is among those where it may be.
    fn has_reached_end(&self) -> bool {
        let last = self.grid.len().wrapping_sub(1);
        let score = last.checked_sub(self.first).and_then(|at| self.scores.get(at));
        score.is_some_and(|score| *score > f32::NEG_INFINITY)
    }

    /// Most likely place, if there is one.
    fn place(&self, over: bool) -> Option<usize> {
        let last = self.grid.len().checked_sub(1)?;
        if over && self.has_reached_end() {
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
        self.heard.push_back(moment);
        if self.rows.len() > KEPT {
            self.decide();
        }
    }

    /// Best way to a place, from its possible predecessors, with its score.
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

    /// Decides the older half of the window.
    fn decide(&mut self) {
        let old = self.before + KEPT / 2;
        let passed = self.moments(self.decided.len(), false);
        self.decided.extend(
            passed
                .into_iter()
                .map_while(|moment| moment.filter(|moment| *moment < old)),
        );
        self.rows.drain(..KEPT / 2);
        self.heard.drain(..KEPT / 2);
        self.before = old;
    }
}

#[cfg(test)]
mod tests;
