//! Comparison of a device's results with references, in figures.

use omni_models::testing::{deviation, farthest};

/// Findings of one case so far.
#[derive(Debug, Clone, Default)]
pub struct Judge {
    figures: Vec<String>,
    broken: bool,
}

impl Judge {
    /// Returns true if every check passed, and there was at least one.
    pub fn holds(&self) -> bool {
        !self.broken && !self.figures.is_empty()
    }

    /// All figures in words.
    pub fn figures(&self) -> String {
        self.figures.join("; ")
    }

    fn found(&mut self, holds: bool, figure: String) {
        self.broken |= !holds;
        self.figures.push(figure);
    }

    /// Two sequences of ids or codes must be equal, and not empty.
    pub fn same(&mut self, what: &str, got: &[u32], expected: &[u32]) {
        let equal = got.iter().zip(expected).filter(|(g, e)| g == e).count();
        let all = got.len().max(expected.len());
        self.found(equal == all && all > 0, format!("{what}: {equal} of {all} equal"));
    }

    /// Two sequences of numbers must be equal to the last bit, and not empty.
    pub fn same_bits(&mut self, what: &str, got: &[f32], expected: &[f32]) {
        let equal = |(g, e): &(&f32, &f32)| g.to_bits() == e.to_bits();
        let equal = got.iter().zip(expected).filter(equal).count();
        let all = got.len().max(expected.len());
        self.found(
            equal == all && all > 0,
            format!("{what}: {equal} of {all} equal to the last bit"),
        );
    }

    /// Requires every number to be within `bound` of the expected one.
    pub fn near(&mut self, what: &str, got: &[f32], expected: &[f32], bound: f32) {
        let off = farthest(got, expected);
        self.found(
            off <= bound && !expected.is_empty(),
            format!("{what}: off by {off:.1e}, bound {bound:.0e}"),
        );
    }

    /// The difference of two sequences must be less than `bound` times as large as what should be.
    pub fn like(&mut self, what: &str, got: &[f32], expected: &[f32], bound: f32) {
        let off = deviation(got, expected);
        self.found(
            off < bound && !expected.is_empty(),
            format!("{what}: relative error {off:.4}, bound {bound}"),
        );
    }

    /// A share must not be smaller than `bound`.
    pub fn share(&mut self, what: &str, part: usize, all: usize, bound: f64) {
        let share = part as f64 / all.max(1) as f64;
        self.found(
            share >= bound && all > 0,
            format!("{what}: {part} of {all} ({share:.3}), bound {bound}"),
        );
    }

    /// An explanation of a figure, on which the result of the case does not depend.
    pub fn note(&mut self, what: impl Into<String>) {
        self.figures.push(what.into());
    }

    /// Something must be so.
    pub fn must(&mut self, what: impl Into<String>, holds: bool) {
        self.found(holds, what.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(judge: impl FnOnce(&mut Judge)) -> bool {
        let mut found = Judge::default();
        judge(&mut found);
        found.holds()
    }

    #[test]
    fn what_is_as_it_should_be_holds() {
        assert!(judged(|j| j.same("codes", &[1, 2, 3], &[1, 2, 3])));
        assert!(judged(|j| j.same_bits("logits", &[0.5, -1.0], &[0.5, -1.0])));
        assert!(judged(|j| j.near("samples", &[0.5, 0.25], &[0.5, 0.2501], 1e-3)));
        assert!(judged(|j| j.like("logits", &[10.1, 0.0], &[10.0, 0.0], 0.02)));
        assert!(judged(|j| j.share("codes", 9, 10, 0.9)));
    }

    #[test]
    fn a_single_difference_is_found() {
        assert!(!judged(|j| j.same("codes", &[1, 2, 3], &[1, 2, 4])));
        assert!(!judged(|j| j.same("codes", &[1, 2, 3], &[1, 2])));
        let next = f32::from_bits(0.5_f32.to_bits() + 1);
        assert!(!judged(|j| j.same_bits("logits", &[0.5], &[next])));
        assert!(!judged(|j| j.same_bits("logits", &[0.0], &[-0.0])));
        assert!(!judged(|j| j.near("samples", &[0.5, 0.25], &[0.5, 0.252], 1e-3)));
        assert!(!judged(|j| j.near("samples", &[f32::NAN], &[0.5], 1e-3)));
        assert!(!judged(|j| j.like("logits", &[11.0, 0.0], &[10.0, 0.0], 0.02)));
        assert!(!judged(|j| j.share("codes", 8, 10, 0.9)));
        // One that is broken is not mended by what holds.
        assert!(!judged(|j| {
            j.must("no fallbacks", false);
            j.same("codes", &[1], &[1]);
        }));
    }

    #[test]
    fn nothing_compared_is_nothing_found() {
        assert!(!judged(|_| {}));
        assert!(!judged(|j| j.same("codes", &[], &[])));
        assert!(!judged(|j| j.same_bits("logits", &[], &[])));
        assert!(!judged(|j| j.near("samples", &[], &[], 1e-3)));
        assert!(!judged(|j| j.share("codes", 0, 0, 0.9)));
    }
}
