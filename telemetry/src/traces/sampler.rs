//! Samplers of requests: those of the OpenTelemetry specification, by its names.

use opentelemetry::Context;
use opentelemetry::trace::{SpanKind, TraceContextExt as _, TraceId};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, ShouldSample as _};

use super::context::TraceParent;

/// Decides once per request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceSampler {
    /// Share of the traces that begin here, 0 to 1.
    share: f64,
    /// Follows the caller's own decision to record.
    asks_parent: bool,
}

/// The reason why there is no such sampler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SamplerError {
    /// It is not one of the specification's.
    #[error("{0:?} is no sampler, expected one of {names}", names = TraceSampler::NAMES.join(", "))]
    Name(String),
    /// The share is none.
    #[error("{0:?} is no share of the traces, expected a number from 0 to 1")]
    Share(String),
}

impl Default for TraceSampler {
    /// `parentbased_always_on`.
    fn default() -> Self {
        Self {
            share: 1.0,
            asks_parent: true,
        }
    }
}

impl TraceSampler {
    /// Names that [`parse`](Self::parse) takes.
    pub const NAMES: [&str; 6] = [
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ];

    /// The sampler of that name, with that argument: the share for those that take one, all without it.
    ///
    /// # Errors
    /// A name that is not in [`NAMES`](Self::NAMES), or a share that is none.
    pub fn parse(name: &str, argument: Option<&str>) -> Result<Self, SamplerError> {
        let own = name.strip_prefix("parentbased_");
        let share = match own.unwrap_or(name) {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => share(argument.unwrap_or("1"))?,
            _ => return Err(SamplerError::Name(name.to_owned())),
        };
        Ok(Self {
            share,
            asks_parent: own.is_some(),
        })
    }

    /// Returns true if a request is traced. Servers with the same share agree on a trace.
    pub fn takes(&self, trace: TraceId, parent: Option<&TraceParent>) -> bool {
        let parent = parent.map(|parent| Context::new().with_remote_span_context(parent.remote()));
        let sampled = self
            .sampler()
            .should_sample(parent.as_ref(), trace, "", &SpanKind::Server, &[], &[]);
        sampled.decision == SamplingDecision::RecordAndSample
    }

    fn sampler(&self) -> Sampler {
        let own = Sampler::TraceIdRatioBased(self.share);
        if self.asks_parent {
            Sampler::ParentBased(Box::new(own))
        } else {
            own
        }
    }
}

fn share(text: &str) -> Result<f64, SamplerError> {
    let share = text.trim().parse::<f64>().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| SamplerError::Share(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::context::new_trace_id;
    use super::*;

    fn parent(flags: &str) -> TraceParent {
        let header = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        TraceParent::parse(&header).expect("a good header")
    }

    #[test]
    fn callers_decide_where_they_are_asked() {
        let yes = parent("01");
        let no = parent("00");
        let takes = |name: &str, parent: Option<&TraceParent>| {
            let sampler = TraceSampler::parse(name, None).expect("a sampler");
            sampler.takes(new_trace_id(), parent)
        };
        for (name, alone, with_yes, with_no) in [
            ("always_on", true, true, true),
            ("always_off", false, false, false),
            ("traceidratio", true, true, true),
            ("parentbased_always_on", true, true, false),
            ("parentbased_always_off", false, true, false),
            ("parentbased_traceidratio", true, true, false),
        ] {
            let decided = (takes(name, None), takes(name, Some(&yes)), takes(name, Some(&no)));
            assert_eq!(decided, (alone, with_yes, with_no), "{name}");
        }
        assert_eq!(
            TraceSampler::parse("parentbased_always_on", None),
            Ok(TraceSampler::default())
        );
    }

    #[test]
    fn a_share_of_the_traces_is_taken_and_the_same_one_by_all() {
        let quarter = TraceSampler::parse("traceidratio", Some("0.25")).expect("a sampler");
        let half = TraceSampler::parse("traceidratio", Some("0.5")).expect("a sampler");
        let ids: Vec<_> = (0..4_000).map(|_| new_trace_id()).collect();
        let taken: Vec<_> = ids.iter().filter(|id| quarter.takes(**id, None)).collect();
        assert!((800..1_200).contains(&taken.len()), "{} of 4000", taken.len());
        assert!(taken.iter().all(|id| half.takes(**id, None)));
    }

    #[test]
    fn what_is_no_sampler_is_named_with_those_there_are() {
        let error = TraceSampler::parse("sometimes", None)
            .expect_err("no sampler")
            .to_string();
        assert!(
            error.contains("sometimes") && error.contains("parentbased_traceidratio"),
            "{error}"
        );
        for bad in ["", "2", "-0.1", "NaN", "half"] {
            assert_eq!(
                TraceSampler::parse("traceidratio", Some(bad)),
                Err(SamplerError::Share(bad.to_owned()))
            );
        }
    }
}
