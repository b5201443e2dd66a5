//! Values to positions, and where the marks of an axis go.

/// Most parts of an axis.
const MARKS: f64 = 7.0;

/// Positions from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    Linear {
        from: f64,
        to: f64,
    },
    /// Both above zero.
    Log {
        from: f64,
        to: f64,
    },
}

impl Scale {
    /// `to` must be above `from`.
    pub(super) fn linear(from: f64, to: f64) -> Self {
        Self::Linear { from, to }
    }

    /// `from` must be above zero and `to` above `from`.
    pub(super) fn log(from: f64, to: f64) -> Self {
        Self::Log { from, to }
    }

    /// From zero to the first round number that is not below `top`.
    pub(super) fn up_to(top: f64) -> Self {
        let step = round_step(top / MARKS);
        Self::linear(0.0, (top / step).ceil() * step)
    }

    /// Position of `value`; values beyond an end are at it.
    pub(super) fn position(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { from, to } => (value - from) / (to - from),
            Self::Log { from, to } => (value.max(from) / from).ln() / (to / from).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Round values that are worth a mark.
    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear { from, to } => {
                let step = round_step((to - from) / MARKS);
                let first = (from / step - 1e-9).ceil() as i64;
                let last = (to / step + 1e-9).floor() as i64;
                (first..=last).map(|tick| tick as f64 * step).collect()
            }
            Self::Log { from, to } => {
                let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
                let within = |value: &f64| (from * 0.999..=to * 1.001).contains(value);
                let ticks = |factors: &[f64]| -> Vec<f64> {
                    let of = |decade| factors.iter().map(move |factor| factor * 10f64.powi(decade));
                    decades.clone().flat_map(of).filter(within).collect()
                };
                [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]]
                    .into_iter()
                    .map(ticks)
                    .find(|ticks| ticks.len() <= 9)
                    .unwrap_or_else(|| ticks(&[1.0]))
            }
        }
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// One side of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) title: String,
    /// Tick positions with their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// With marks at round values.
    pub(super) fn new(scale: Scale, title: String) -> Self {
        // Rounded, so that the binary error of summed steps does not show.
        let written = |tick: f64| (tick, format!("{}", (tick * 1e6).round() / 1e6));
        Self {
            ticks: scale.ticks().into_iter().map(written).collect(),
            scale,
            title,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(scale: Scale) -> Vec<String> {
        Axis::new(scale, String::new())
            .ticks
            .into_iter()
            .map(|(_, text)| text)
            .collect()
    }

    #[test]
    fn marks_are_round_numbers_within_the_range() {
        assert_eq!(
            written(Scale::linear(0.0, 100.0)),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            written(Scale::linear(90.0, 100.0)),
            ["90", "92", "94", "96", "98", "100"]
        );
        assert_eq!(
            written(Scale::linear(0.0, 0.3)),
            ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]
        );
        assert_eq!(written(Scale::log(7.0, 130.0)), ["10", "20", "50", "100"]);
        assert_eq!(written(Scale::log(0.5, 2_000.0)).len(), 7);
        assert_eq!(Scale::up_to(87.0), Scale::linear(0.0, 100.0));
        assert_eq!(Scale::up_to(1_091.0), Scale::linear(0.0, 1_200.0));
        assert_eq!(Scale::up_to(1.0), Scale::linear(0.0, 1.0));
    }

    #[test]
    fn positions_run_from_end_to_end() {
        let linear = Scale::linear(10.0, 30.0);
        assert_eq!(
            [10.0, 15.0, 30.0, 99.0].map(|value| linear.position(value)),
            [0.0, 0.25, 1.0, 1.0]
        );
        let log = Scale::log(1.0, 100.0);
        assert!((log.position(10.0) - 0.5).abs() < 1e-12);
        assert_eq!(
            [0.0, 1.0, 100.0].map(|value| log.position(value)),
            [0.0, 0.0, 1.0]
        );
    }
}
