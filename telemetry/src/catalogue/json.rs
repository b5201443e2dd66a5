//! The catalogue as JSON: for `GET /metrics/catalogue` and for `metrics list`.

use serde_json::{Value, json};

use super::{Catalogue, Family};

impl Catalogue {
    /// The served families and the absent ones.
    pub fn to_json(&self) -> Value {
        let families = self.families.iter().filter(|family| self.serves(family));
        let absent = self.absent.iter().map(
            |absent| json!({"reason": absent.reason, "names": absent.names, "prefixes": absent.prefixes}),
        );
        let deprecated = self.deprecated.iter().map(|name| {
            json!({
                "name": name.name,
                "family": name.family,
                "since": name.since.to_string(),
                "hidden": name.hidden.to_string(),
            })
        });
        json!({
            "families": families.map(|family| family.to_json()).collect::<Vec<_>>(),
            "absent": absent.collect::<Vec<_>>(),
            "deprecated": deprecated.collect::<Vec<_>>(),
        })
    }
}

impl Family {
    /// The declaration, with the labels as exposed.
    pub fn to_json(&self) -> Value {
        let mut value = json!({
            "name": self.name,
            "type": self.kind.exposed(),
            "unit": self.unit,
            "help": self.help,
            "labels": self.exposed_labels(),
            "group": self.group,
            "max_series": self.series,
            "sinks": {"prometheus": self.sinks.prometheus, "log": self.sinks.log},
        });
        if let Some(buckets) = &self.buckets {
            value["buckets"] = json!(buckets.bounds);
        }
        if !self.values.is_empty() {
            value["values"] = json!(self.values);
        }
        value
    }
}
