//! Typed access to a JSON object that notes every missing or mistyped field instead of stopping at the first.

use std::cell::RefCell;

use serde_json::Value;

use crate::checkpoint::Problem;

/// One object of a configuration file, with the path that leads to it.
pub(super) struct Fields<'a> {
    file: &'a str,
    path: String,
    object: &'a Value,
    problems: &'a RefCell<Vec<Problem>>,
}

impl<'a> Fields<'a> {
    pub(super) fn root(file: &'a str, object: &'a Value, problems: &'a RefCell<Vec<Problem>>) -> Self {
        Self {
            file,
            path: String::new(),
            object,
            problems,
        }
    }

    /// Notes a problem with a field.
    pub(super) fn wrong(&self, field: &str, reason: impl Into<String>) {
        let (file, field) = (self.file.to_owned(), format!("{}{field}", self.path));
        self.problems.borrow_mut().push(Problem::Config {
            file,
            field,
            reason: reason.into(),
        });
    }

    /// The object in `field`; if there is none the problem is noted once and the rest reads as absent.
    pub(super) fn section(&self, field: &str) -> Self {
        let object = self.object.get(field).filter(|v| v.is_object());
        if object.is_none() && !self.object.is_null() {
            self.wrong(field, "an object is expected here");
        }
        let path = format!("{}{field}.", self.path);
        Self {
            file: self.file,
            path,
            object: object.unwrap_or(&Value::Null),
            problems: self.problems,
        }
    }

    /// The first of `names` that is there and not null. Names may lead into nested objects with dots.
    fn find(&self, names: &[&str]) -> Option<&'a Value> {
        let lookup = |name: &str| name.split('.').try_fold(self.object, |v, part| v.get(part));
        names
            .iter()
            .find_map(|name| lookup(name))
            .filter(|v| !v.is_null())
    }

    /// Whether one of `names` is there and not null.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.find(&[name]).is_some())
    }

    fn get<T>(&self, names: &[&str], what: &str, read: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
        let found = names.iter().find_map(|name| self.find(&[name]));
        let value = found.and_then(read);
        // An absent section has been reported as such; its fields would only repeat that.
        if value.is_none() && !self.object.is_null() {
            let seen = found.map_or_else(|| "nothing".into(), Value::to_string);
            self.wrong(
                &names.join(" or "),
                format!("{what} is expected here, found {seen}"),
            );
        }
        value
    }

    /// A whole number of at least 1.
    pub(super) fn count(&self, names: &[&str]) -> usize {
        let read = |v: &Value| v.as_u64().filter(|&n| n > 0 && n <= u64::from(u32::MAX));
        self.get(names, "a whole number of at least 1", read)
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(1)
    }

    /// As [`Fields::count`], `default` if the field is absent; 0 is allowed.
    pub(super) fn count_or(&self, names: &[&str], default: usize) -> usize {
        if !self.has(names) {
            return default;
        }
        let read = |v: &Value| v.as_u64().filter(|&n| n <= u64::from(u32::MAX));
        self.get(names, "a whole number", read)
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(default)
    }

    /// A token id below `limit`.
    pub(super) fn id(&self, name: &str, limit: usize) -> u32 {
        let read = |v: &Value| {
            v.as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .filter(|&n| (n as usize) < limit)
        };
        self.get(&[name], &format!("an id below {limit}"), read)
            .unwrap_or(0)
    }

    /// A positive number.
    pub(super) fn number(&self, names: &[&str]) -> f32 {
        #[expect(clippy::cast_possible_truncation, reason = "the networks compute in f32")]
        let read = |v: &Value| v.as_f64().filter(|n| n.is_finite() && *n > 0.0).map(|n| n as f32);
        self.get(names, "a positive number", read).unwrap_or(1.0)
    }

    pub(super) fn flag_or(&self, name: &str, default: bool) -> bool {
        if !self.has(&[name]) {
            return default;
        }
        self.get(&[name], "true or false", Value::as_bool)
            .unwrap_or(default)
    }

    /// A list of whole numbers of at least `least`.
    pub(super) fn counts(&self, name: &str, least: usize) -> Vec<usize> {
        let number = |v: &Value| {
            v.as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .filter(|&n| n >= least && n < 1 << 20)
        };
        let read = |v: &'a Value| v.as_array()?.iter().map(number).collect();
        self.get(
            &[name],
            &format!("a list of whole numbers of at least {least}"),
            read,
        )
        .unwrap_or_default()
    }

    /// As [`Fields::counts`], empty if absent.
    pub(super) fn counts_or_none(&self, name: &str) -> Vec<usize> {
        if self.has(&[name]) {
            self.counts(name, 0)
        } else {
            Vec::new()
        }
    }

    /// The string in a field, if it is there.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.find(&[name]).and_then(Value::as_str)
    }

    /// The list of strings in a field, if it is there.
    pub(super) fn texts(&self, name: &str) -> Vec<&'a str> {
        self.find(&[name])
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// Names and ids in a field.
    pub(super) fn ids(&self, name: &str, limit: usize) -> Vec<(String, u32)> {
        let id = |v: &Value| {
            v.as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .filter(|&n| (n as usize) < limit)
        };
        let read = |v: &'a Value| {
            v.as_object()?
                .iter()
                .map(|(k, v)| Some((k.clone(), id(v)?)))
                .collect()
        };
        self.get(&[name], &format!("names with ids below {limit}"), read)
            .unwrap_or_default()
    }
}
