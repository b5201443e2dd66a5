//! The record of notation that was left out. Bounded: a text of a million tags makes a short warning.

use core::fmt;

/// Distinct names in one record; the rest are only counted.
const MAX_NAMED: usize = 8;

/// Notation that is not spoken, such as unknown tags or a formula, each named once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignored {
    named: Vec<String>,
    total: usize,
}

impl Ignored {
    /// True if nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Number of pieces of notation that were left out.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The first distinct ones, in order of appearance.
    pub fn names(&self) -> &[String] {
        &self.named
    }

    pub(crate) fn add(&mut self, name: String) {
        self.total += 1;
        if self.named.len() < MAX_NAMED && !self.named.contains(&name) {
            self.named.push(name);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        let total = self.total + other.total;
        other.named.into_iter().for_each(|name| self.add(name));
        self.total = total;
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.total > self.named.len() {
            " and others"
        } else {
            ""
        };
        write!(
            f,
            "left out markup that is not spoken: {}{more}",
            self.named.join(", ")
        )
    }
}
