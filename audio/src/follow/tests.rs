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
    let mut samples = Vec::new();
    let mut ends = Vec::new();
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
    let hum = Hum.samples(500);
    let hiss = Hiss.samples(500);
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
        let mut rest = &samples[..];
        let mut sizes = cuts.iter().cycle();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            cut.push(now);
            rest = later;
        }
        prop_assert_eq!(whole.passed(0, true), cut.passed(0, true));
        prop_assert_eq!(whole.passed(0, false), cut.passed(0, false));
    }
}

#[test]
fn speech_that_is_over_has_passed_every_mark_at_a_time_of_its_own_however_slowly_it_was_followed() {
    let mut follower = Follower::new(rate());
    // Much more is expected than fits the window, and spoken three times as fast.
    let mut samples = Vec::new();
    let mut ends = Vec::new();
    for round in 0..30 {
        let word = WORDS[round % WORDS.len()];
        for &(sound, ms) in word {
            follower.expect(sound.expected(3 * ms / 2));
            samples.extend(sound.samples((ms as usize).div_ceil(2)));
        }
        follower.mark();
        ends.push(samples.len());
    }
    // Leading noise keeps the follower back.
    let noise: Vec<f32> = Sound::Hum
        .samples(40)
        .into_iter()
        .chain(Sound::Hiss.samples(40))
        .cycle()
        .take(300 * MS)
        .collect();
    follower.push(&[noise, samples].concat());
    let passed = follower.passed(0, true);
    let passed: Vec<u64> = passed
        .iter()
        .map(|passed| passed.expect("it is over").0)
        .collect();
    assert!(passed.is_sorted_by(|a, b| a < b), "{passed:?}");
}
