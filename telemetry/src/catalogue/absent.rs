//! Families that others have and that do not exist here.

/// Families that are absent for one reason.
#[derive(Debug, Clone)]
pub struct Absent {
    /// Why.
    pub reason: String,
    /// Their names.
    pub names: Vec<String>,
    /// What the names of further ones begin with.
    pub prefixes: Vec<String>,
}

impl Absent {
    /// Whether it speaks of the family `name`.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
            || self
                .prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.as_str()))
    }
}
