//! Unknown fields of clients: they are named, so that a misspelt or unsupported one is noticed.

use std::fmt;

use omni_core::error::excerpt;
use omni_json::repaired;
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_ignored::Path;

use super::lean::IsSet;

/// Most fields that are named.
const MOST: usize = 16;

/// Parses a value from JSON, with the names of unknown fields that are set: null, empty lists and empty objects do
/// not count. A field is named by its path with points, without the indices of list entries.
///
/// # Errors
/// As for [`omni_json::read`].
pub(super) fn read<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<(T, Vec<String>)> {
    let json = repaired(json);
    let mut json_reader = serde_json::Deserializer::from_slice(&json);
    let mut paths: Vec<String> = Vec::new();
    let value = serde_ignored::deserialize(&mut json_reader, |path| {
        let path = written(&path);
        if paths.len() < MOST && !paths.contains(&path) {
            paths.push(path);
        }
    })?;
    json_reader.end()?;
    if !paths.is_empty() {
        let mut set = Vec::new();
        let look = Look {
            at: String::new(),
            paths: &paths,
            set: &mut set,
        };
        look.deserialize(&mut serde_json::Deserializer::from_slice(&json))?;
        paths.retain(|path| set.contains(path));
    }
    Ok((value, paths.iter().map(|path| shown(path)).collect()))
}

/// Field, by its path, for which a `T` cannot be parsed, if it is one field's fault.
pub(super) fn field_at_fault<T: DeserializeOwned>(json: &[u8]) -> Option<String> {
    let json = repaired(json);
    let read: Result<T, _> =
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(&json));
    let error = read.err()?;
    let path = shown(&error.path().to_string());
    if path != "." {
        return Some(path);
    }
    let message = error.inner().to_string();
    let missing = message.strip_prefix("missing field `")?;
    missing.split_once('`').map(|(name, _)| name.to_owned())
}

/// Returns true if a field is this one, or within it.
pub(super) fn is_within(name: &str, outer: &str) -> bool {
    let rest = name.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A name in the form for headers and logs: a caller chose it.
fn shown(path: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && c != ',';
    excerpt(&path.replace(|c| !plain(c), "?")).replace('…', "...")
}

fn written(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Map { parent, key } => below(&written(parent), key),
        Path::Seq { parent, .. }
        | Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => written(parent),
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Finds the paths whose values are set.
struct Look<'a> {
    at: String,
    paths: &'a [String],
    set: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.paths.contains(&self.at) {
            if IsSet::deserialize(deserializer)?.0 {
                self.set.push(self.at);
            }
            return Ok(());
        }
        let leads = |path: &String| {
            let rest = path.strip_prefix(&self.at);
            rest.is_some_and(|rest| self.at.is_empty() || rest.starts_with('.'))
        };
        if self.paths.iter().any(leads) {
            deserializer.deserialize_any(self)
        } else {
            IgnoredAny::deserialize(deserializer).map(|_| ())
        }
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Look { at, paths, set } = self;
        loop {
            let at = at.clone();
            let set = &mut *set;
            if list.next_element_seed(Look { at, paths, set })?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let Look { at, paths, set } = self;
        while let Some(key) = object.next_key::<String>()? {
            let at = below(&at, &key);
            let set = &mut *set;
            object.next_value_seed(Look { at, paths, set })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lean::{BoundedVec, TextOr};

    #[derive(Debug, Deserialize)]
    struct Body {
        #[expect(dead_code, reason = "it is only read")]
        name: Option<String>,
        #[expect(dead_code, reason = "it is only read")]
        inner: Option<TextOr<Inner>>,
        #[expect(dead_code, reason = "it is only read")]
        list: Option<BoundedVec<Inner, 9>>,
        #[serde(default)]
        #[expect(dead_code, reason = "it is only read")]
        any: IsSet,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[expect(dead_code, reason = "it is only read")]
        one: Option<u8>,
    }

    #[test]
    fn fields_without_a_place_are_named_where_they_ask_for_something() {
        for (json, names) in [
            (r#"{"name": "a", "any": {"b": [{"c": 1}]}}"#, &[][..]),
            (r#"{"sample_rate": 8000, "name": null}"#, &["sample_rate"]),
            (
                r#"{"a": null, "b": [], "c": {}, "d": false, "e": "", "f": [null]}"#,
                &["d", "e", "f"],
            ),
            (
                r#"{"inner": {"one": 1, "two": 2}, "list": [{"three": 3}, {"three": null, "four": 4}]}"#,
                &["inner.two", "list.three", "list.four"],
            ),
            (
                r#"{"inner": "text", "list": null, "other": {"deep": 1}}"#,
                &["other"],
            ),
            ("\u{FEFF}{\"a,b\\n\": 1, \"\\ud83d\": 2}", &["a?b?", "?"]),
        ] {
            let (_, found) = read::<Body>(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(found, names, "{json}");
        }
    }

    #[test]
    fn names_are_bounded_in_number_and_length() {
        let many: Vec<_> = (0..100)
            .map(|n| format!("\"{n}{}\": 1", "x".repeat(100)))
            .collect();
        let (_, found) = read::<Body>(format!("{{{}}}", many.join(",")).as_bytes()).expect("a body");
        assert_eq!(found.len(), MOST);
        assert!(
            found.iter().all(|name| name.len() < 70 && name.is_ascii()),
            "{found:?}"
        );
    }

    #[test]
    fn the_field_at_fault_is_known_by_its_path() {
        for (json, field) in [
            (r#"{"name": 1}"#, Some("name")),
            (r#"{"inner": {"one": "x"}}"#, Some("inner.one")),
            (r#"{"list": [{}, {"one": -1}]}"#, Some("list[1].one")),
            ("[]", None),
            ("{}", None),
        ] {
            assert_eq!(
                field_at_fault::<Body>(json.as_bytes()).as_deref(),
                field,
                "{json}"
            );
        }
        assert_eq!(field_at_fault::<Named>(b"{}").as_deref(), Some("id"));
    }

    #[derive(Debug, Deserialize)]
    struct Named {
        #[expect(dead_code, reason = "it is only read")]
        id: String,
    }

    #[test]
    fn what_is_behind_the_value_is_refused() {
        assert!(read::<Body>(b"{} {}").is_err());
        assert!(read::<Body>(b"[]").is_err());
    }
}
