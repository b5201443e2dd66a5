//! The form of the table of settings.

use super::{Of, Rule};
use crate::deploy::value::Kind;

/// The default of a setting.
#[derive(Debug, Clone, Copy)]
pub(in crate::deploy) enum Fallback {
    /// This, written as in a file.
    Is(&'static str),
    /// Computed from the command line and from settings further up in the table.
    Derived(Rule),
    /// The checkpoint's own value.
    Checkpoint,
    /// Nothing: another setting decides.
    Absent,
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub(in crate::deploy) struct Setting {
    /// Relative to its section, parts joined by dots.
    pub(in crate::deploy) key: &'static str,
    pub(in crate::deploy) kind: Kind,
    pub(in crate::deploy) fallback: Fallback,
    /// A few sentences for people, Markdown.
    pub(in crate::deploy) help: &'static str,
}

/// Settings that belong together: a title, the stages that have them, and the rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::deploy) struct Section(
    pub(in crate::deploy) &'static str,
    pub(in crate::deploy) Of,
    pub(in crate::deploy) &'static [Setting],
);

/// A row. The last of `names` is the key: the name of the field, or the one it has in files.
pub(super) const fn setting(
    names: &[&'static str],
    kind: Kind,
    fallback: Fallback,
    help: &'static str,
) -> Setting {
    Setting {
        key: names[names.len() - 1],
        kind,
        fallback,
        help,
    }
}

/// Declares structs of settings: `name as "key in files": type = default, allowed values;`. They are read by serde, and
/// each has its part of the table as `SETTINGS`. A part with `@flatten` has its settings beside those of the struct,
/// one with `@skip` none.
macro_rules! settings {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(@$serde:ident $part_visibility:vis $part:ident: $part_type:ty,)*
            $(
                $(#[doc = $help:literal])+
                $(#[serde($($how:tt)+)])?
                $field:ident $(as $key:literal)?: $type:ty = $fallback:expr, $kind:expr;
            )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        pub struct $name {
            $(
                /// A part with settings of its own.
                #[serde($serde)]
                $part_visibility $part: $part_type,
            )*
            $(
                $(#[doc = $help])+
                $(#[serde($($how)+)])?
                $(#[serde(rename = $key)])?
                pub $field: $type,
            )*
        }

        impl $name {
            pub(super) const SETTINGS: &'static [Setting] = &[
                $(setting(&[stringify!($field), $($key)?], $kind, $fallback, concat!($($help),+))),*
            ];
        }
    )*};
}

pub(super) use settings;
