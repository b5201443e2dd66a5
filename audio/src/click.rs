//! Finds clicks where pieces of audio were put together. For tests and evaluations, not for the audio path.
//!
//! A click is a bend that the signal around it does not have. The bend at a sample is its second difference `|x[i-1] -
//! 2 x[i] + x[i+1]|`; a join is scored by its largest bend relative to the largest bend within 20 ms on either side. A
//! seamless join scores around 1 or below; a click scores well above 2.

use std::time::Duration;

use crate::units::SampleRate;

/// Length of the signal around a join that is compared.
const NEIGHBOURHOOD: Duration = Duration::from_millis(20);
/// Samples on either side of a join that belong to the join itself.
const REACH: usize = 2;
/// Bends below this are inaudible (about two steps of 16-bit PCM) and never a click, however quiet the surroundings.
const FLOOR: f32 = 2.0 / 32_768.0;

/// The worst of several joins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Join {
    /// Index of the first sample after the join.
    pub at: usize,
    /// Bend at the join relative to the bends around it.
    pub score: f32,
}

/// The most click-like of the joins at `joins` (each the index of the first sample after the join; 0 and the end are no
/// joins). `None` without any join inside.
pub fn worst_join(samples: &[f32], rate: SampleRate, joins: &[usize]) -> Option<Join> {
    let reach = rate.samples(NEIGHBOURHOOD).len();
    joins
        .iter()
        .filter(|&&at| at > 0 && at < samples.len())
        .map(|&at| Join {
            at,
            score: score(samples, at, reach),
        })
        .max_by(|a, b| a.score.total_cmp(&b.score))
}

fn score(samples: &[f32], at: usize, reach: usize) -> f32 {
    let join = largest_bend(samples, at.saturating_sub(REACH), at + REACH);
    let before = largest_bend(samples, at.saturating_sub(reach), at.saturating_sub(REACH));
    let after = largest_bend(samples, at + REACH, at + reach);
    join / before.max(after).max(FLOOR)
}

/// The largest second difference centred on `from..to`.
fn largest_bend(samples: &[f32], from: usize, to: usize) -> f32 {
    let bends = (from.max(1)..to.min(samples.len().saturating_sub(1)))
        .map(|i| (samples[i - 1] - 2.0 * samples[i] + samples[i + 1]).abs());
    bends.fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate() -> SampleRate {
        SampleRate::new(24_000).unwrap()
    }

    fn sine(len: usize, offset: usize) -> Vec<f32> {
        let step = 220.0 * std::f32::consts::TAU / 24_000.0;
        (0..len)
            .map(|i| 0.5 * ((i + offset) as f32 * step).sin())
            .collect()
    }

    #[test]
    fn a_cut_that_continues_is_no_click() {
        let whole = [sine(1_000, 0), sine(1_000, 1_000)].concat();
        assert!(worst_join(&whole, rate(), &[1_000]).unwrap().score <= 1.2);
    }

    #[test]
    fn a_jump_in_phase_is_a_click_and_is_found_among_good_joins() {
        let whole = [sine(1_000, 0), sine(1_000, 1_000), sine(1_000, 2_050)].concat();
        let worst = worst_join(&whole, rate(), &[1_000, 2_000]).unwrap();
        assert_eq!(worst.at, 2_000);
        assert!(worst.score > 3.0, "{worst:?}");
    }

    #[test]
    fn tiny_steps_in_silence_are_not_clicks() {
        let whole = [vec![0.0; 500], vec![1.0 / 32_768.0; 500]].concat();
        assert!(worst_join(&whole, rate(), &[500]).unwrap().score < 1.0);
    }

    #[test]
    fn the_ends_are_not_joins() {
        assert_eq!(worst_join(&sine(100, 0), rate(), &[0, 100, 200]), None);
        assert_eq!(worst_join(&[], rate(), &[0]), None);
    }
}
