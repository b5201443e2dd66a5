//! Names of families that have another name now.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

/// A release of the server. Missing numbers are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Release([u16; 3]);

impl Release {
    /// The release that is written `text`: one to three numbers with dots between them.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = [0; 3];
        let mut parts = text.split('.');
        for number in &mut numbers {
            let Some(part) = parts.next() else { break };
            *number = part.parse().ok()?;
        }
        (parts.next().is_none() && !text.is_empty()).then_some(Self(numbers))
    }

    /// This one.
    pub fn current() -> Self {
        Self::parse(env!("CARGO_PKG_VERSION")).unwrap_or(Self([0; 3]))
    }
}

impl TryFrom<String> for Release {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("release {text:?}, expected one like 1.2.3"))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Another name of a family.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deprecated {
    /// The name.
    pub name: Arc<str>,
    /// The family's own.
    pub family: Arc<str>,
    /// The release that deprecated it.
    pub since: Release,
    /// The release that hides it.
    pub hidden: Release,
}

impl Deprecated {
    /// Returns true if release `now` shows it to an operator who requests names hidden since release `asked`.
    pub fn is_shown(&self, now: Release, asked: Option<Release>) -> bool {
        now < self.hidden || asked.is_some_and(|asked| asked <= self.hidden)
    }

    /// First words of its HELP.
    pub fn notice(&self) -> String {
        format!(
            "DEPRECATED since {}, hidden from {} on: use {}.",
            self.since, self.hidden, self.family
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        Release::parse(text).expect("a release")
    }

    #[test]
    fn releases_are_numbers_with_dots() {
        assert_eq!(release("1.2"), release("1.2.0"));
        assert!(release("0.10") > release("0.9.9"));
        for wrong in ["", "1.2.3.4", "v1", "1..2"] {
            assert_eq!(Release::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_old_name_is_shown_until_a_release_hides_it_and_after_that_on_request() {
        let old = Deprecated {
            name: Arc::from("vllm:old"),
            family: Arc::from("vllm:new"),
            since: release("0.1"),
            hidden: release("0.3"),
        };
        assert!(old.is_shown(release("0.2.9"), None));
        assert!(!old.is_shown(release("0.3"), None));
        assert!(old.is_shown(release("0.4"), Some(release("0.3"))));
        // A name hidden before the requested release stays hidden.
        assert!(!old.is_shown(release("0.5"), Some(release("0.4"))));
    }
}
