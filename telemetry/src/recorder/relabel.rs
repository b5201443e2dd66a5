//! The relabelling of engines: a flat index becomes `stage` and `replica`, in its place.
//!
//! A mapping is made before its instruments are. It can be made again with the same pair (a replica that left and came back keeps
//! its counters) and never with another one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::{Key, Label, SharedString};
use parking_lot::RwLock;

use super::{Call, layer};
use crate::catalogue::{ENGINE, REPLICA, STAGE};
use crate::drops::{DropReason, Drops};

/// Flat index of a replica over all stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineIndex(pub u32);

/// Why an index cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineMapError {
    /// It was not registered.
    #[error("engine {index} is not registered, there are {registered} engines")]
    Unknown {
        /// The index.
        index: u32,
        /// Engines that are registered.
        registered: usize,
    },
    /// It stands for another replica.
    #[error("engine {index} is stage {stage} replica {replica} already")]
    Taken {
        /// The index.
        index: u32,
        /// The stage it stands for.
        stage: String,
        /// The replica it stands for.
        replica: String,
    },
}

type Pair = (Arc<str>, Arc<str>);

/// Which replica each index stands for. Replicas may join at any time.
#[derive(Debug, Default)]
pub struct EngineMap(RwLock<BTreeMap<u32, Pair>>);

impl EngineMap {
    /// Lets `index` stand for a replica of a stage. Doing so again changes nothing.
    ///
    /// # Errors
    ///
    /// An index that stands for another replica.
    pub fn register(&self, index: EngineIndex, stage: u32, replica: u32) -> Result<(), EngineMapError> {
        let pair = (Arc::from(stage.to_string()), Arc::from(replica.to_string()));
        let mut map = self.0.write();
        let known = map.entry(index.0).or_insert_with(|| Pair::clone(&pair));
        if *known == pair {
            return Ok(());
        }
        Err(EngineMapError::Taken {
            index: index.0,
            stage: known.0.to_string(),
            replica: known.1.to_string(),
        })
    }

    /// The stage and the replica that `index` stands for.
    ///
    /// # Errors
    ///
    /// An index that was not registered.
    pub fn find(&self, index: EngineIndex) -> Result<(Arc<str>, Arc<str>), EngineMapError> {
        let map = self.0.read();
        map.get(&index.0).cloned().ok_or(EngineMapError::Unknown {
            index: index.0,
            registered: map.len(),
        })
    }
}

/// Replaces the label `engine` by `stage` and `replica`.
#[derive(Debug)]
pub struct Relabel<R> {
    engines: Arc<EngineMap>,
    drops: Arc<Drops>,
    inner: R,
}

impl<R> Relabel<R> {
    /// Relabels for `inner`.
    pub fn new(engines: Arc<EngineMap>, drops: Arc<Drops>, inner: R) -> Self {
        Self {
            engines,
            drops,
            inner,
        }
    }

    fn admit<'a>(&self, key: &'a Key, _: Call) -> Option<Cow<'a, Key>> {
        let Some(engine) = key.labels().find(|label| label.key() == ENGINE) else {
            return Some(Cow::Borrowed(key));
        };
        let pair = engine.value().parse().ok().map(EngineIndex);
        let Some((stage, replica)) = pair.and_then(|index| self.engines.find(index).ok()) else {
            let why = format!("engine {:?} is not registered", engine.value());
            self.drops.refuse(DropReason::UnknownEngine, key.name(), &why);
            return None;
        };
        let mut labels = Vec::with_capacity(key.labels().len() + 1);
        for label in key.labels() {
            if label.key() == ENGINE {
                labels.push(Label::new(STAGE, SharedString::from(Arc::clone(&stage))));
                labels.push(Label::new(REPLICA, SharedString::from(Arc::clone(&replica))));
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

    fn engines() -> Arc<EngineMap> {
        let engines = EngineMap::default();
        engines.register(EngineIndex(0), 0, 0).expect("a new index");
        engines.register(EngineIndex(5), 2, 1).expect("a new index");
        Arc::new(engines)
    }

    #[test]
    fn the_engine_is_replaced_in_its_place() {
        let probe = Probe::default();
        let layer = Relabel::new(engines(), Arc::default(), probe.clone());
        let cases = [
            (
                vec![("engine", "5")],
                "vllm:num_requests_running{stage=2,replica=1}",
            ),
            (
                vec![("a", "x"), ("engine", "5"), ("b", "y")],
                "vllm:num_requests_running{a=x,stage=2,replica=1,b=y}",
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
    fn an_unknown_engine_is_refused_and_counted() {
        let (probe, drops) = (Probe::default(), Arc::new(Drops::default()));
        let layer = Relabel::new(engines(), Arc::clone(&drops), probe.clone());
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

    #[test]
    fn a_replica_may_join_and_rejoin_but_an_index_is_never_bound_anew() {
        let engines = engines();
        assert!(engines.find(EngineIndex(6)).is_err());
        engines
            .register(EngineIndex(6), 2, 2)
            .expect("a replica that joins");
        engines.register(EngineIndex(6), 2, 2).expect("one that rejoins");
        let error = engines
            .register(EngineIndex(6), 1, 0)
            .expect_err("another replica");
        assert_eq!(error.to_string(), "engine 6 is stage 2 replica 2 already");
    }
}
