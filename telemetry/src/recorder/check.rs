//! The catalogue check: what is recorded is what was declared, by name, kind, labels and values.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use metrics::Key;

use super::{Call, layer};
use crate::catalogue::{Family, FamilyKind};
use crate::drops::{DropReason, Drops};
use crate::schema::Schema;

/// Longest value of a label, in bytes.
pub(crate) const LONGEST_VALUE: usize = 256;

/// Refuses registrations that the catalogue does not know or that contradict it.
#[derive(Debug)]
pub struct Check<R> {
    schema: Arc<Schema>,
    drops: Arc<Drops>,
    inner: R,
}

impl<R> Check<R> {
    /// A check before `inner`.
    pub fn new(schema: Arc<Schema>, drops: Arc<Drops>, inner: R) -> Self {
        Self { schema, drops, inner }
    }

    fn admit<'a>(&self, key: &'a Key, call: Call) -> Option<Cow<'a, Key>> {
        match self.problem(key, call) {
            None => Some(Cow::Borrowed(key)),
            Some((reason, why)) => {
                self.drops.refuse(reason, key.name(), &why);
                None
            }
        }
    }

    fn problem(&self, key: &Key, call: Call) -> Option<(DropReason, String)> {
        let Some(family) = self.schema.find(key.name()) else {
            return Some((DropReason::UnknownMetric, "it is not in the catalogue".to_owned()));
        };
        if facade_call(family.kind) != call {
            let why = format!(
                "it is a {}, not what {call:?} is recorded for",
                family.kind.exposed()
            );
            return Some((DropReason::KindMismatch, why));
        }
        self.wrong_labels(&family, key)
            .or_else(|| wrong_value(&family, key))
    }

    fn wrong_labels(&self, family: &Family, key: &Key) -> Option<(DropReason, String)> {
        let given: BTreeSet<&str> = key.labels().map(|label| label.key()).collect();
        let supplied = self.schema.catalogue().supplied();
        let is_supplied = |label: &str| supplied.iter().any(|known| known.as_ref() == label);
        let fits = |declared: &[&str]| {
            given.iter().all(|label| declared.contains(label))
                && declared
                    .iter()
                    .all(|label| given.contains(label) || is_supplied(label))
        };
        let recorded: Vec<_> = family.labels.iter().map(AsRef::as_ref).collect();
        let right = given.len() == key.labels().len() && (fits(&recorded) || fits(&family.exposed_labels()));
        let why = || {
            format!(
                "labels {given:?}, the catalogue has {:?}",
                family.exposed_labels()
            )
        };
        (!right).then(|| (DropReason::LabelMismatch, why()))
    }
}

fn wrong_value(family: &Family, key: &Key) -> Option<(DropReason, String)> {
    let wrong = key.labels().find(|label| {
        let value = label.value();
        let closed = family.values.get(label.key());
        let unknown = closed.is_some_and(|values| !values.iter().any(|known| known.as_ref() == value));
        unknown || value.len() > LONGEST_VALUE || value.chars().any(char::is_control)
    })?;
    let allowed = family.values.get(wrong.key()).map(|values| values.join(", "));
    let expected =
        allowed.unwrap_or_else(|| format!("at most {LONGEST_VALUE} bytes without control characters"));
    let value: String = wrong.value().chars().take(40).collect();
    Some((
        DropReason::LabelValue,
        format!("{} is {value:?}, expected {expected}", wrong.key()),
    ))
}

/// The facade's registration of a family of that kind.
pub(crate) fn facade_call(kind: FamilyKind) -> Call {
    match kind {
        FamilyKind::Counter => Call::Counter,
        FamilyKind::FloatCounter | FamilyKind::Gauge => Call::Gauge,
        FamilyKind::Histogram | FamilyKind::Summary => Call::Histogram,
    }
}

layer!(Check);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{Probe, key, register, schema};

    fn refused(key: &Key, call: Call) -> Option<DropReason> {
        let probe = Probe::default();
        let drops = Arc::new(Drops::default());
        register(
            &Check::new(schema(), Arc::clone(&drops), probe.clone()),
            key,
            call,
        );
        let reason = DropReason::ALL
            .into_iter()
            .find(|reason| drops.total(*reason) > 0);
        assert_eq!(
            reason.is_none(),
            probe.seen().len() == 1,
            "either refused and counted, or passed on"
        );
        reason
    }

    #[test]
    fn what_the_catalogue_says_passes() {
        let good = key(
            "vllm:request_success_total",
            &[("engine", "0"), ("finished_reason", "stop")],
        );
        assert_eq!(refused(&good, Call::Counter), None);
        let expanded = key(
            "vllm:num_requests_running",
            &[("stage", "0"), ("replica", "1"), ("model_name", "m")],
        );
        assert_eq!(refused(&expanded, Call::Gauge), None);
        let real = key("process_cpu_seconds_total", &[]);
        assert_eq!(refused(&real, Call::Gauge), None);
    }

    #[test]
    fn what_contradicts_it_is_refused_by_cause() {
        let engine = ("engine", "0");
        let cases = [
            (key("vllm:nothing", &[]), Call::Gauge, DropReason::UnknownMetric),
            (
                key("vllm:num_requests_running", &[engine]),
                Call::Counter,
                DropReason::KindMismatch,
            ),
            (
                key("vllm:num_requests_running", &[]),
                Call::Gauge,
                DropReason::LabelMismatch,
            ),
            (
                key("vllm:num_requests_running", &[engine, ("more", "x")]),
                Call::Gauge,
                DropReason::LabelMismatch,
            ),
            (
                key("vllm:num_requests_running", &[engine, engine]),
                Call::Gauge,
                DropReason::LabelMismatch,
            ),
            (
                key(
                    "vllm:request_success_total",
                    &[engine, ("finished_reason", "done")],
                ),
                Call::Counter,
                DropReason::LabelValue,
            ),
            (
                key("vllm:num_requests_running", &[("engine", "0\n")]),
                Call::Gauge,
                DropReason::LabelValue,
            ),
        ];
        for (key, call, expected) in cases {
            assert_eq!(refused(&key, call), Some(expected), "{key}");
        }
    }
}
