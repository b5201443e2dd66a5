//! Hints: settings that cannot be followed. The rest of an event is followed all the same, and its answer names them.

use crate::error::ApiError;

/// Settings that echo the server's own, or that are read elsewhere.
const SILENT: [&str; 6] = [
    "client_secret",
    "conversation",
    "expires_at",
    "id",
    "input",
    "object",
];

/// Fields of one event that are ignored, by their paths.
#[derive(Debug)]
pub(super) struct Hints {
    strict: bool,
    names: Vec<String>,
}

impl Hints {
    /// Creates an empty list. A `strict` server refuses the first hint.
    pub(super) fn new(strict: bool) -> Self {
        let names = Vec::new();
        Self { strict, names }
    }

    /// Adds a field that has no effect, or another than requested.
    ///
    /// # Errors
    /// If the server is strict.
    pub(super) fn ignore(&mut self, field: &str, got: &str, expected: &str) -> Result<(), ApiError> {
        if self.strict {
            let problem = format!("unsupported {field} '{got}'; expected {expected}");
            return Err(ApiError::invalid(Some(field), problem));
        }
        self.names.push(field.to_owned());
        Ok(())
    }

    /// Adds unknown fields.
    ///
    /// # Errors
    /// If the server is strict.
    pub(super) fn unknown(&mut self, fields: Vec<String>) -> Result<(), ApiError> {
        match fields.first() {
            Some(field) if self.strict => {
                let problem = format!("unknown field '{field}'; a strict server ignores none");
                Err(ApiError::coded("unknown_field", Some(field), problem))
            }
            _ => {
                self.names.extend(fields);
                Ok(())
            }
        }
    }

    /// All of them.
    pub(super) fn names(self) -> Vec<String> {
        if !self.names.is_empty() {
            tracing::info!(fields = self.names.join(", "), "hints ignored");
        }
        self.names
    }
}

/// Fields that are settings, under the name `root`.
pub(super) fn settings(mut fields: Vec<String>, root: &str) -> Vec<String> {
    fields.retain(|field| {
        let setting = field.strip_prefix(root).and_then(|rest| rest.strip_prefix('.'));
        let first = setting.and_then(|setting| setting.split('.').next());
        first.is_some_and(|first| !SILENT.contains(&first))
    });
    fields
}
