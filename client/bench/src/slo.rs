//! Latency bounds that a request has to keep to count towards goodput.

use std::fmt;

use super::record::Record;

/// A figure of a request that can be bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bounded {
    FirstAudio,
    FirstSound,
    FirstText,
    PerToken,
    RealTimeFactor,
    WorstGap,
}

/// Their names as they are typed.
const NAMES: [(&str, Bounded); 6] = [
    ("ttfa", Bounded::FirstAudio),
    ("first-sound", Bounded::FirstSound),
    ("ttft", Bounded::FirstText),
    ("tpot", Bounded::PerToken),
    ("rtf", Bounded::RealTimeFactor),
    ("gap", Bounded::WorstGap),
];
/// Names that are taken, too.
const FORMER: [(&str, Bounded); 2] = [("audible", Bounded::FirstSound), ("underrun", Bounded::WorstGap)];

impl Bounded {
    fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, this)| *this == self)
            .map_or("", |(name, _)| name)
    }

    fn of(self, record: &Record) -> Option<f64> {
        match self {
            Self::FirstAudio => record.time_to_first_audio_seconds,
            Self::FirstSound => record.time_to_first_audible_seconds,
            Self::FirstText => record.time_to_first_text_seconds,
            Self::PerToken => record.time_per_token(),
            Self::RealTimeFactor => record.real_time_factor,
            Self::WorstGap => record.worst_underrun_seconds,
        }
    }
}

/// One bound: seconds, or a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    what: Bounded,
    most: f64,
}

/// All bounds, as in `ttfa=300ms,rtf=0.9`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slo(Vec<Bound>);

impl Slo {
    /// Reads `name=bound,...`; times are read by `time`.
    ///
    /// # Errors
    /// The expected form, if a bound has another name or its value is none.
    pub fn parse(
        given: &str,
        time: impl Fn(&str) -> Result<std::time::Duration, String>,
    ) -> Result<Self, String> {
        let bound = |part: &str| {
            let (name, value) = part.split_once('=').ok_or_else(expected)?;
            let known = NAMES
                .iter()
                .chain(&FORMER)
                .find(|(known, _)| *known == name.trim());
            let what = known.map(|(_, what)| *what).ok_or_else(expected)?;
            let most = match what {
                Bounded::RealTimeFactor => value
                    .trim()
                    .parse()
                    .ok()
                    .filter(|&most: &f64| most > 0.0 && most.is_finite()),
                _ => time(value.trim()).ok().map(|most| most.as_secs_f64()),
            };
            most.map(|most| Bound { what, most }).ok_or_else(expected)
        };
        given.split(',').map(bound).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bounds(&self) -> &[Bound] {
        &self.0
    }

    /// The bound of the time to first audio, in seconds.
    pub(crate) fn first_audio(&self) -> Option<f64> {
        self.0
            .iter()
            .find(|bound| bound.what == Bounded::FirstAudio)
            .map(|bound| bound.most)
    }

    /// Returns true if a request that counts meets every bound. A request without the measured value does not meet
    /// its bound.
    pub(crate) fn met(&self, record: &Record) -> bool {
        record.counts()
            && self
                .0
                .iter()
                .all(|bound| bound.of(record).is_some_and(|value| value <= bound.most))
    }
}

impl Bound {
    pub(crate) fn of(&self, record: &Record) -> Option<f64> {
        self.what.of(record)
    }

    pub(crate) fn most(&self) -> f64 {
        self.most
    }

    /// `value` as this bound's figure is written.
    pub(crate) fn written(&self, value: f64) -> String {
        match self.what {
            Bounded::RealTimeFactor => format!("{value:.3}"),
            _ => format!("{:.1} ms", value * 1e3),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.what.name()
    }
}

fn expected() -> String {
    let names = NAMES.map(|(name, _)| name).join(", ");
    format!("expected bounds such as ttfa=300ms,rtf=0.9 of {names}")
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds: Vec<String> = self
            .0
            .iter()
            .map(|bound| format!("{} <= {}", bound.name(), bound.written(bound.most)))
            .collect();
        f.write_str(&bounds.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn slo(given: &str) -> Result<Slo, String> {
        Slo::parse(given, |time| {
            let number = time.strip_suffix("ms").ok_or("ms")?;
            number
                .parse()
                .map(Duration::from_millis)
                .map_err(|_| "number".to_owned())
        })
    }

    #[test]
    fn every_bound_must_be_kept_and_its_edge_is_kept() {
        let slo = slo("ttfa=300ms, rtf=0.9").unwrap();
        assert_eq!(slo.to_string(), "ttfa <= 300.0 ms, rtf <= 0.900");
        let good = Record {
            time_to_first_audio_seconds: Some(0.3),
            real_time_factor: Some(0.9),
            ..Record::default()
        };
        assert!(slo.met(&good));
        for bad in [
            Record {
                time_to_first_audio_seconds: Some(0.301),
                ..good.clone()
            },
            Record {
                real_time_factor: Some(1.0),
                ..good.clone()
            },
            Record {
                real_time_factor: None,
                ..good.clone()
            },
            Record {
                failure: Some("broken".into()),
                ..good.clone()
            },
            Record {
                cancel: Some(super::super::record::Cancel::default()),
                ..good
            },
        ] {
            assert!(!slo.met(&bad), "{bad:?}");
        }
    }

    #[test]
    fn former_names_are_taken_and_told_by_the_present_ones() {
        let slo = slo("audible=500ms,underrun=100ms").unwrap();
        assert_eq!(slo.to_string(), "first-sound <= 500.0 ms, gap <= 100.0 ms");
    }

    #[test]
    fn what_is_no_bound_is_refused_with_the_names_there_are() {
        for given in [
            "", "ttfa", "ttfa=", "ttfa=3", "speed=1", "rtf=0", "rtf=fast", "rtf=1,,",
        ] {
            let error = slo(given).unwrap_err();
            assert!(
                error.contains("ttfa, first-sound, ttft, tpot, rtf, gap"),
                "{given}: {error}"
            );
        }
    }
}
