//! Families that others have and that do not exist here.

use serde::Deserialize;

/// Families that are absent for one reason.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// The reason.
    pub reason: String,
    /// Their names.
    #[serde(default)]
    pub names: Vec<String>,
    /// Prefixes of the names of further ones.
    #[serde(default)]
    pub prefixes: Vec<String>,
}

impl Absent {
    /// Returns true if the family `name` is one of them.
    pub fn covers(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
            || self
                .prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.as_str()))
    }
}
