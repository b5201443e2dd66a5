//! Statistics of plain numbers.

use super::random::Random;

/// Resamples of the bootstrap.
const RESAMPLES: usize = 1_000;

/// A value and where the true one is in 95 of 100 repetitions of the whole measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// True if all of it is on one side of `point`.
    pub(crate) fn excludes(&self, point: f64) -> bool {
        self.low > point || self.high < point
    }
}

/// The smallest value that at least this share of all values does not exceed (nearest rank); `None` of nothing.
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut values = values.to_vec();
    let rank = rank(values.len(), share)?;
    Some(*values.select_nth_unstable_by(rank, f64::total_cmp).1)
}

/// [`percentile`] of values in order.
pub(crate) fn nth(sorted: &[f64], share: f64) -> Option<f64> {
    sorted.get(rank(sorted.len(), share)?).copied()
}

/// The position of that value among `count` in order.
fn rank(count: usize, share: f64) -> Option<usize> {
    // Shares such as 0.07 are a little more in binary than they look, which must not make it the next one.
    let rank = (share * count as f64 - 1e-9).ceil() as usize;
    Some(rank.clamp(1, count.max(1)) - 1).filter(|_| count > 0)
}

pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Mean of a few repetitions with its 95 % interval by Student's distribution; `None` of fewer than two.
pub(crate) fn of_trials(values: &[f64]) -> Option<Interval> {
    let value = mean(values).filter(|_| values.len() > 1)?;
    let error = (variance(values)? / values.len() as f64).sqrt();
    let half = student(values.len() as f64 - 1.0) * error;
    Some(Interval {
        value,
        low: value - half,
        high: value + half,
    })
}

/// Ratio of the means of repeated measurements (`after` over `before`), by Welch's interval of the logarithms; `None`
/// unless both were repeated and are above zero.
pub(crate) fn ratio_of_trials(before: &[f64], after: &[f64]) -> Option<Interval> {
    if before.iter().chain(after).any(|&value| value <= 0.0) {
        return None;
    }
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
    let before = logs(before);
    let after = logs(after);
    let parts = [
        variance(&before)? / before.len() as f64,
        variance(&after)? / after.len() as f64,
    ];
    let both = parts[0] + parts[1];
    let freedom = both * both
        / (parts[0] * parts[0] / (before.len() as f64 - 1.0)
            + parts[1] * parts[1] / (after.len() as f64 - 1.0));
    let half = if both > 0.0 {
        student(freedom) * both.sqrt()
    } else {
        0.0
    };
    let log = mean(&after)? - mean(&before)?;
    Some(Interval {
        value: log.exp(),
        low: (log - half).exp(),
        high: (log + half).exp(),
    })
}

/// Value of `figure` for two measurements, with the 95 % interval of resampling both: the trials of each, and then
/// the values of each trial drawn (percentile bootstrap in two stages; Davison and Hinkley, "Bootstrap Methods and
/// their Application", 1997, 3.8). The same values give the same interval. `None` without values, or if they have no
/// figure.
pub(crate) fn bootstrap(
    before: &[Vec<f64>],
    after: &[Vec<f64>],
    figure: impl Fn(&[f64], &[f64]) -> Option<f64>,
) -> Option<Interval> {
    let value = figure(&before.concat(), &after.concat())?;
    let mut random = Random::new(0);
    let drawn: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| figure(&again(&mut random, before), &again(&mut random, after)))
        .collect();
    Some(Interval {
        value,
        low: percentile(&drawn, 0.025)?,
        high: percentile(&drawn, 0.975)?,
    })
}

/// As many trials as there are, drawn from them, with as many values each as it has, drawn from those.
fn again(random: &mut Random, trials: &[Vec<f64>]) -> Vec<f64> {
    let mut drawn = Vec::new();
    for _ in trials {
        let trial = &trials[random.below(trials.len())];
        drawn.extend(trial.iter().map(|_| trial[random.below(trial.len())]));
    }
    drawn
}

/// Unbiased; `None` of fewer than two.
fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some(squares / (values.len() as f64 - 1.0))
}

/// The 97.5 % point of Student's distribution, of the next smaller number of degrees of freedom in the table.
fn student(freedom: f64) -> f64 {
    const TABLE: [(f64, f64); 20] = [
        (1.0, 12.706),
        (2.0, 4.303),
        (3.0, 3.182),
        (4.0, 2.776),
        (5.0, 2.571),
        (6.0, 2.447),
        (7.0, 2.365),
        (8.0, 2.306),
        (9.0, 2.262),
        (10.0, 2.228),
        (12.0, 2.179),
        (14.0, 2.145),
        (16.0, 2.120),
        (18.0, 2.101),
        (20.0, 2.086),
        (25.0, 2.060),
        (30.0, 2.042),
        (40.0, 2.021),
        (60.0, 2.000),
        (120.0, 1.980),
    ];
    let known = TABLE.iter().rev().find(|(degrees, _)| *degrees <= freedom);
    known.map_or(TABLE[0].1, |(_, point)| *point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (share, expected) in [(0.0, 1.0), (0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(percentile(&values, share), Some(expected), "{share}");
        }
        assert_eq!(percentile(&[7.0], 0.5), Some(7.0));
        assert_eq!(percentile(&[1.0, 2.0], 0.5), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn trials_have_the_interval_of_the_textbook() {
        // Mean 2, standard deviation 1, so an error of 1/sqrt(3) and 4.303 times that to both sides.
        let interval = of_trials(&[1.0, 2.0, 3.0]).unwrap();
        assert!(close(interval.value, 2.0) && close(interval.low, -0.4843) && close(interval.high, 4.4843));
        assert_eq!(of_trials(&[1.0]), None);
    }

    #[test]
    fn ratios_of_trials_have_an_interval_that_grows_with_their_spread() {
        let same = ratio_of_trials(&[2.0, 2.0], &[3.0, 3.0]).unwrap();
        assert!(close(same.value, 1.5) && close(same.low, 1.5) && close(same.high, 1.5));
        // ln: 0, 1 | 1, 2. Variances 0.5, error of the difference sqrt(0.5), two degrees of freedom.
        let e = std::f64::consts::E;
        let wide = ratio_of_trials(&[1.0, e], &[e, e * e]).unwrap();
        let half = 4.303 * 0.5_f64.sqrt();
        assert!(close(wide.value, e), "{wide:?}");
        assert!(
            (wide.high.ln() - (1.0 + half)).abs() < 1e-6 && !wide.excludes(1.0),
            "{wide:?}"
        );
        assert_eq!(ratio_of_trials(&[1.0], &[2.0, 2.0]), None);
        assert_eq!(ratio_of_trials(&[0.0, 1.0], &[2.0, 2.0]), None);
    }

    #[test]
    fn drawing_anew_finds_a_difference_that_is_there_and_none_that_is_not() {
        let before: Vec<f64> = (0..100).map(|i| 100.0 + f64::from(i % 10)).collect();
        let after = vec![before.iter().map(|value| value * 1.5).collect::<Vec<_>>()];
        let before = vec![before];
        let slower = bootstrap(&before, &after, ratio).unwrap();
        assert!(
            close(slower.value, 1.5) && slower.low > 1.4 && slower.high < 1.6,
            "{slower:?}"
        );
        assert!(!bootstrap(&before, &before, ratio).unwrap().excludes(1.0));
        assert_eq!(
            bootstrap(&before, &after, ratio),
            Some(slower),
            "the same every time"
        );
        assert_eq!(bootstrap(&[vec![]], &after, ratio), None);
        assert_eq!(bootstrap(&[], &after, ratio), None);
    }

    #[test]
    fn trials_that_differ_from_each_other_make_the_interval_wide() {
        let trial = |center: f64| (0..100).map(|i| center + f64::from(i % 10)).collect::<Vec<_>>();
        let before = [100.0, 150.0, 100.0].map(trial);
        let after = [110.0, 110.0, 160.0].map(trial);
        assert!(!bootstrap(&before, &after, ratio).unwrap().excludes(1.0));
        // Pooled into one trial, the same values would show a difference.
        let pooled = |trials: &[Vec<f64>; 3]| vec![trials.concat()];
        assert!(
            bootstrap(&pooled(&before), &pooled(&after), ratio)
                .unwrap()
                .excludes(1.0)
        );
    }

    fn ratio(before: &[f64], after: &[f64]) -> Option<f64> {
        Some(percentile(after, 0.5)? / percentile(before, 0.5)?)
    }
}
