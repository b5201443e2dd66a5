//! The relabelling of engines: `engine="2/1"` becomes `stage="2"` and `replica="1"`, in its place.

use std::borrow::Cow;
use std::sync::Arc;

use metrics::{Key, Label};

use super::{Call, layer};
use crate::catalogue::{ENGINE, REPLICA, STAGE};
use crate::drops::{DropReason, Drops};

/// Replaces the label `engine` by `stage` and `replica`.
#[derive(Debug)]
pub struct Relabel<R> {
    drops: Arc<Drops>,
    inner: R,
}

impl<R> Relabel<R> {
    /// Relabels for `inner`.
    pub fn new(drops: Arc<Drops>, inner: R) -> Self {
        Self { drops, inner }
    }

    fn admit<'a>(&self, key: &'a Key, _: Call) -> Option<Cow<'a, Key>> {
        let Some(engine) = key.labels().find(|label| label.key() == ENGINE) else {
            return Some(Cow::Borrowed(key));
        };
        let Some((stage, replica)) = engine.value().split_once('/') else {
            let why = format!("engine {:?} is no stage and replica", engine.value());
            self.drops.refuse(DropReason::UnknownEngine, key.name(), &why);
            return None;
        };
        let mut labels = Vec::with_capacity(key.labels().len() + 1);
        for label in key.labels() {
            if label.key() == ENGINE {
                labels.push(Label::new(STAGE, stage.to_owned()));
                labels.push(Label::new(REPLICA, replica.to_owned()));
            } else {
                labels.push(label.clone());
            }
        }
        Some(Cow::Owned(Key::from_parts(key.name().to_owned(), labels)))
    }
}

layer!(Relabel);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{Probe, key, register};

    #[test]
    fn the_engine_is_replaced_in_its_place() {
        let probe = Probe::default();
        let layer = Relabel::new(Arc::default(), probe.clone());
        let cases = [
            (
                vec![("engine", "2/1")],
                "vllm:num_requests_running{stage=2,replica=1}",
            ),
            (
                vec![("a", "x"), ("engine", "2/none"), ("b", "y")],
                "vllm:num_requests_running{a=x,stage=2,replica=none,b=y}",
            ),
            (vec![("a", "x")], "vllm:num_requests_running{a=x}"),
            (
                vec![("stage", "2"), ("replica", "1")],
                "vllm:num_requests_running{stage=2,replica=1}",
            ),
        ];
        for (labels, expected) in cases {
            register(&layer, &key("vllm:num_requests_running", &labels), Call::Gauge);
            assert_eq!(probe.seen().last().map(String::as_str), Some(expected));
        }
    }

    #[test]
    fn an_engine_that_names_no_replica_is_refused_and_counted() {
        let probe = Probe::default();
        let drops = Arc::new(Drops::default());
        let layer = Relabel::new(Arc::clone(&drops), probe.clone());
        for engine in ["1", "first", ""] {
            register(
                &layer,
                &key("vllm:num_requests_running", &[("engine", engine)]),
                Call::Gauge,
            );
        }
        assert!(probe.seen().is_empty());
        assert_eq!(drops.total(DropReason::UnknownEngine), 3);
    }
}
