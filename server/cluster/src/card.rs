//! Card that a stage publishes by discovery, and the greeting that front ends and stages exchange when they connect.

use std::sync::Arc;

use dynamo_runtime::component::Instance;
use dynamo_runtime::discovery::{DiscoveryInstance, DiscoveryQuery, DiscoverySpec};
use omni_pipeline::connector::VERSION;
use serde::{Deserialize, Serialize};

/// The endpoint of every stage.
pub const ENDPOINT: &str = "generate";
/// The runtime compares these names and refuses different ones in one place. Stages of several models may be in one
/// cluster, for as long as one takes the place of another.
const DISPLAY_NAME: &str = "omni";

/// Properties that two processes must share to work together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name and digest of the model.
    pub model: String,
    /// Version of the program.
    pub version: String,
    /// The build of it, a hash of its sources. Parts that were before this field have none.
    #[serde(default)]
    pub build: String,
    /// Version of what passes between them.
    pub protocol: u32,
}

impl Identity {
    /// Identity of this program with a model.
    pub fn new(model: String) -> Self {
        Self {
            model,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: env!("OMNI_CLUSTER_BUILD").to_owned(),
            protocol: VERSION,
        }
    }

    /// Reason why this process does not work with `other`, if it does not.
    pub fn refuses(&self, other: &Self) -> Option<String> {
        let differ = |what: &str, ours: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
            format!("the other part has {what} {theirs}, expected {ours}")
        };
        if self.protocol != other.protocol {
            return Some(differ("version of the protocol", &self.protocol, &other.protocol));
        }
        if self.version != other.version {
            return Some(differ("version", &self.version, &other.version));
        }
        if self.build != other.build {
            return Some(differ("build", &self.build, &other.build));
        }
        (self.model != other.model).then(|| differ("the model", &self.model, &other.model))
    }

    /// Encoded as a greeting.
    pub fn greeting(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reason why this process does not work with the sender of `greeting`, if it does not.
    pub fn refuses_greeting(&self, greeting: &[u8]) -> Option<String> {
        match serde_json::from_slice(greeting) {
            Ok(other) => self.refuses(&other),
            Err(error) => Some(format!("the other part does not say what it is: {error}")),
        }
    }
}

/// A replica of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    display_name: String,
    /// Its number.
    pub replica: u32,
    /// Identity that front ends must share.
    pub identity: Identity,
    /// Number format of its computation. A sequence resumes only on an equal one.
    #[serde(default)]
    pub format: String,
    /// Address of the stage.
    pub instance: Instance,
}

impl Card {
    /// Card of a replica at `instance`.
    pub fn new(replica: u32, (identity, format): (Identity, String), instance: Instance) -> Self {
        Self {
            display_name: DISPLAY_NAME.to_owned(),
            replica,
            identity,
            format,
            instance,
        }
    }

    /// Its stage.
    pub fn stage(&self) -> &str {
        &self.instance.component
    }

    /// Encoded address for other parts; none if it cannot be encoded.
    pub fn address(&self) -> Option<Arc<[u8]>> {
        Some(serde_json::to_vec(&self.instance).ok()?.into())
    }

    /// Registration of the card.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn spec(&self) -> anyhow::Result<DiscoverySpec> {
        let Instance {
            namespace, component, ..
        } = self.instance.clone();
        DiscoverySpec::from_model(namespace, component, ENDPOINT.to_owned(), self)
    }

    /// Card of a discovered instance; `None` if it is something else.
    pub fn of(found: &DiscoveryInstance) -> Option<Self> {
        found.deserialize_model().ok()
    }
}

/// All cards of a cluster.
pub fn all(namespace: &str) -> DiscoveryQuery {
    DiscoveryQuery::NamespacedModels {
        namespace: namespace.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_another_model_or_version_is_refused_and_both_are_named() {
        let ours = Identity::new("voice (01)".to_owned());
        assert_eq!(ours.refuses_greeting(&ours.greeting()), None);
        let other = Identity::new("voice (02)".to_owned());
        let why = ours.refuses(&other).unwrap();
        assert!(why.contains("voice (01)") && why.contains("voice (02)"), "{why}");
        let newer = Identity {
            version: "9.9.9".to_owned(),
            ..ours.clone()
        };
        let why = ours.refuses(&newer).unwrap();
        assert!(
            why.contains("9.9.9") && why.contains(env!("CARGO_PKG_VERSION")),
            "{why}"
        );
        let built = Identity {
            build: "0123".to_owned(),
            ..ours.clone()
        };
        let why = ours.refuses(&built).unwrap();
        assert!(why.contains("build 0123") && why.contains(&ours.build), "{why}");
        // A part without a build hash was built from other sources.
        let mut before: serde_json::Value = serde_json::from_slice(&ours.greeting()).unwrap();
        before.as_object_mut().unwrap().remove("build");
        let why = ours.refuses_greeting(before.to_string().as_bytes()).unwrap();
        assert!(why.contains("build"), "{why}");
        assert!(
            ours.refuses_greeting(b"hello")
                .unwrap()
                .contains("does not say what it is")
        );
    }
}
