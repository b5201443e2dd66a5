//! The tree of a configuration: [`omni_yaml`]'s, with places that say in which file or flag a value was written.

use std::fmt;
use std::sync::Arc;

use omni_yaml::{Aliases, Located, Mark, SyntaxError};

/// A value and its place.
pub(super) type Node = omni_yaml::Node<Place>;
/// A value as written.
pub(super) type Value = omni_yaml::Value<Place>;
/// A key of a map.
pub(super) type Key = Located<String, Place>;
/// What is wrong with a text, and where.
pub(super) type Malformed = SyntaxError<Place>;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The file as the user named it, or the text of a `--set`.
    source: Arc<str>,
    /// None for a `--set`.
    at: Option<Mark>,
}

impl Place {
    /// Somewhere in a file.
    pub(super) fn file(source: &Arc<str>, at: Mark) -> Self {
        Self {
            source: Arc::clone(source),
            at: Some(at),
        }
    }

    /// A `--set`.
    pub(super) fn flag(text: &str) -> Self {
        Self {
            source: format!("--set {text}").into(),
            at: None,
        }
    }

    /// `file:line`, or the `--set`: enough to find the origin of a value.
    pub(super) fn short(&self) -> String {
        match self.at {
            Some(at) => format!("{}:{}", self.source, at.line),
            None => self.source.to_string(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{}:{at}", self.source),
            None => f.write_str(&self.source),
        }
    }
}

/// Reads the one document of a file; an empty file is an empty map.
pub(super) fn parse_file(source: &Arc<str>, text: &str) -> Result<Node, Malformed> {
    let document = omni_yaml::parse(text, Aliases::Refuse, |mark| Place::file(source, mark))?;
    Ok(document.unwrap_or_else(|| Node {
        value: Value::Map(Vec::new()),
        place: Place::file(source, Mark::START),
    }))
}

/// Reads one value, as in `--set key=value`; an empty text is null.
pub(super) fn parse_value(place: &Place, text: &str) -> Result<Node, Malformed> {
    let document = omni_yaml::parse(text, Aliases::Refuse, |_| place.clone())?;
    Ok(document.unwrap_or_else(|| Node {
        value: Value::null(),
        place: place.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_file_has_the_file_in_its_place() {
        let node = parse_file(&"f.yaml".into(), "a: 1\nb: [x, \"2\"]\n").unwrap();
        let Value::Map(entries) = &node.value else {
            panic!("{node:?}")
        };
        let [(key, _), (_, list)] = entries.as_slice() else {
            panic!("{entries:?}")
        };
        assert_eq!(key.place.to_string(), "f.yaml:1:1");
        assert_eq!(list.place.short(), "f.yaml:2");
        let Value::List(items) = &list.value else {
            panic!("{list:?}")
        };
        assert_eq!(items[1].place.to_string(), "f.yaml:2:8");
        assert_eq!(items[1].shown(), "\"2\"");
    }

    #[test]
    fn aliases_are_refused() {
        let error = parse_file(&"f.yaml".into(), "a: &x 1\nb: *x\n").unwrap_err();
        assert!(error.to_string().starts_with("f.yaml:2:4: aliases"), "{error}");
    }

    #[test]
    fn an_empty_file_is_an_empty_map() {
        let node = parse_file(&"f.yaml".into(), "# nothing\n").unwrap();
        assert_eq!(node.value, Value::Map(Vec::new()));
    }

    #[test]
    fn a_flag_value_is_yaml_too() {
        let place = Place::flag("a=[1, 2]");
        let node = parse_value(&place, "[1, 2]").unwrap();
        assert!(matches!(node.value, Value::List(items) if items.len() == 2));
        assert!(parse_value(&place, "").unwrap().is_null());
    }
}
