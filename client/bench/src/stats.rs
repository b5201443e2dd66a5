//! Statistics of plain numbers.

/// A value and where the true one is in 95 of 100 repetitions of the whole measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// True if all of it is on one side of `point`.
    #[cfg(test)]
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
