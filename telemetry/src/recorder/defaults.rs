//! Default labels: what every series of a server has in common, where its family declares the label.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use metrics::{Key, Label};

use super::{Call, layer};
use crate::schema::Schema;

/// The name the model is served by. It is known when the model is loaded, and so are the components that record it.
pub(crate) const MODEL_NAME: &str = "model_name";

/// Adds the labels that the catalogue leaves to the recorder, and brings all into the declared order.
#[derive(Debug)]
pub struct DefaultLabels<R> {
    values: BTreeMap<Arc<str>, String>,
    model_name: Arc<OnceLock<String>>,
    schema: Arc<Schema>,
    inner: R,
}

impl<R> DefaultLabels<R> {
    /// Supplies `values` to `inner`, and `model_name` as soon as it is known.
    pub fn new(
        values: BTreeMap<Arc<str>, String>,
        model_name: Arc<OnceLock<String>>,
        schema: Arc<Schema>,
        inner: R,
    ) -> Self {
        Self {
            values,
            model_name,
            schema,
            inner,
        }
    }

    fn admit<'a>(&self, key: &'a Key, _: Call) -> Option<Cow<'a, Key>> {
        let Some(family) = self.schema.find(key.name()) else {
            return Some(Cow::Borrowed(key));
        };
        let find = |name: &str| {
            let given = key.labels().find(|label| label.key() == name).cloned();
            given.unwrap_or_else(|| {
                // The check left out nothing but supplied labels; one without a value is empty rather than missing.
                let value = match name {
                    MODEL_NAME => self.model_name.get(),
                    _ => self.values.get(name),
                };
                let value = value.cloned().unwrap_or_default();
                Label::new(name.to_owned(), value)
            })
        };
        let labels: Vec<_> = family.exposed_labels().into_iter().map(find).collect();
        Some(Cow::Owned(Key::from_parts(key.name().to_owned(), labels)))
    }
}

layer!(DefaultLabels);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{Probe, key, register, schema};

    fn seen(name: &str, labels: &[(&'static str, &'static str)]) -> String {
        let probe = Probe::default();
        let layer = DefaultLabels::new(
            BTreeMap::new(),
            Arc::new(OnceLock::from("tiny".to_owned())),
            schema(),
            probe.clone(),
        );
        register(&layer, &key(name, labels), Call::Gauge);
        probe.seen().concat()
    }

    #[test]
    fn a_declared_label_is_supplied_and_the_order_is_the_declared_one() {
        let running = "vllm:num_requests_running";
        assert_eq!(
            seen(running, &[("replica", "1"), ("stage", "0")]),
            "vllm:num_requests_running{model_name=tiny,stage=0,replica=1}"
        );
        assert_eq!(seen("process_open_fds", &[]), "process_open_fds");
    }

    #[test]
    fn a_given_value_wins() {
        let labels = [("stage", "0"), ("replica", "1"), ("model_name", "other")];
        let expected = "vllm:num_requests_running{model_name=other,stage=0,replica=1}";
        assert_eq!(seen("vllm:num_requests_running", &labels), expected);
    }
}
