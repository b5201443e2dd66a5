//! The recorder: layers around the sinks, assembled in one expression.
//!
//! In: registrations through the `metrics` facade. Out: handles of the sinks. All layers work at registration, so a
//! held handle costs what its sink costs. Outermost first: [`Gate`] (is the group served), [`Check`] (is it what the
//! catalogue says), [`Relabel`] (engine to stage and replica), [`DefaultLabels`], [`Cardinality`], [`Fanout`]. A
//! recorder is injected, never global: two servers live in one process.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use metrics::Recorder;

use crate::drops::Drops;
use crate::schema::Schema;

mod cardinality;
mod check;
mod defaults;
mod fanout;
mod gate;
mod relabel;
#[cfg(test)]
pub(crate) mod tests;

pub use cardinality::{Cardinality, KnownSeries};
pub use check::Check;
pub(crate) use check::LONGEST_VALUE;
pub use defaults::DefaultLabels;
pub(crate) use defaults::MODEL_NAME;
pub use fanout::{Fanout, Sink};
pub use gate::Gate;
pub use relabel::Relabel;

/// A recorder that can be shared.
pub type SharedRecorder = Arc<dyn Recorder + Send + Sync>;

/// Data that the layers look up at every registration.
#[derive(Debug)]
pub struct RecorderContext {
    /// The families.
    pub schema: Arc<Schema>,
    /// The label sets that there are.
    pub known: Arc<KnownSeries>,
    /// Values of the labels that the recorder supplies.
    pub supplied: BTreeMap<Arc<str>, String>,
    /// The name the model is served by, when it is known.
    pub model_name: Arc<OnceLock<String>>,
    /// Counts what the layers refuse.
    pub drops: Arc<Drops>,
    /// True if anything is recorded.
    pub enabled: bool,
}

/// The whole stack around `sinks`.
pub fn stack(context: &RecorderContext, sinks: Vec<Sink>) -> SharedRecorder {
    let schema = || Arc::clone(&context.schema);
    let drops = || Arc::clone(&context.drops);
    Arc::new(Gate::new(
        context.enabled,
        schema(),
        Check::new(
            schema(),
            drops(),
            Relabel::new(
                drops(),
                DefaultLabels::new(
                    context.supplied.clone(),
                    Arc::clone(&context.model_name),
                    schema(),
                    Cardinality::new(
                        schema(),
                        drops(),
                        Arc::clone(&context.known),
                        Fanout::new(schema(), sinks),
                    ),
                ),
            ),
        ),
    ))
}

/// Implements `Recorder` for a layer whose method `admit` gives the key to pass on, or `None` to refuse.
macro_rules! layer {
    ($name:ident) => {
        impl<R: metrics::Recorder> metrics::Recorder for $name<R> {
            fn describe_counter(
                &self,
                key: metrics::KeyName,
                unit: Option<metrics::Unit>,
                help: metrics::SharedString,
            ) {
                self.inner.describe_counter(key, unit, help);
            }

            fn describe_gauge(
                &self,
                key: metrics::KeyName,
                unit: Option<metrics::Unit>,
                help: metrics::SharedString,
            ) {
                self.inner.describe_gauge(key, unit, help);
            }

            fn describe_histogram(
                &self,
                key: metrics::KeyName,
                unit: Option<metrics::Unit>,
                help: metrics::SharedString,
            ) {
                self.inner.describe_histogram(key, unit, help);
            }

            fn register_counter(
                &self,
                key: &metrics::Key,
                metadata: &metrics::Metadata<'_>,
            ) -> metrics::Counter {
                match self.admit(key, $crate::recorder::Call::Counter) {
                    Some(key) => self.inner.register_counter(&key, metadata),
                    None => metrics::Counter::noop(),
                }
            }

            fn register_gauge(&self, key: &metrics::Key, metadata: &metrics::Metadata<'_>) -> metrics::Gauge {
                match self.admit(key, $crate::recorder::Call::Gauge) {
                    Some(key) => self.inner.register_gauge(&key, metadata),
                    None => metrics::Gauge::noop(),
                }
            }

            fn register_histogram(
                &self,
                key: &metrics::Key,
                metadata: &metrics::Metadata<'_>,
            ) -> metrics::Histogram {
                match self.admit(key, $crate::recorder::Call::Histogram) {
                    Some(key) => self.inner.register_histogram(&key, metadata),
                    None => metrics::Histogram::noop(),
                }
            }
        }
    };
}
pub(crate) use layer;

/// The kind of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Counter,
    Gauge,
    Histogram,
}
