//! What the table of settings is made of.

use super::{Of, Rule};
use crate::config::deploy::value::Kind;

/// The default of a setting.
#[derive(Debug, Clone, Copy)]
pub(in crate::config::deploy) enum Fallback {
    /// This, written as in a file.
    Is(&'static str),
    /// Computed from the command line and from settings further up in the table.
    Derived(Rule),
    /// Whatever the checkpoint says.
    Checkpoint,
    /// Nothing: another setting decides.
    Absent,
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub(in crate::config::deploy) struct Setting {
    /// Relative to its section, parts joined by dots.
    pub(in crate::config::deploy) key: &'static str,
    pub(in crate::config::deploy) kind: Kind,
    pub(in crate::config::deploy) fallback: Fallback,
    /// One sentence for people, Markdown.
    pub(in crate::config::deploy) help: &'static str,
}

/// Some settings that belong together.
#[derive(Debug, Clone, Copy)]
pub(in crate::config::deploy) struct Section {
    pub(in crate::config::deploy) title: &'static str,
    pub(in crate::config::deploy) of: Of,
    pub(in crate::config::deploy) settings: &'static [Setting],
}

pub(super) const fn setting(
    key: &'static str,
    kind: Kind,
    fallback: Fallback,
    help: &'static str,
) -> Setting {
    Setting {
        key,
        kind,
        fallback,
        help,
    }
}
