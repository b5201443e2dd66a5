//! Typed access to a JSON object that notes every missing or mistyped field instead of stopping at the first.

use std::cell::RefCell;

use serde_json::Value;

use crate::checkpoint::Problem;

/// Most of anything that is not said to be fewer.
pub(crate) const WIDEST: usize = 1 << 24;

fn whole(v: &Value) -> Option<usize> {
    v.as_u64().and_then(|n| usize::try_from(n).ok())
}

/// One object of a configuration file, with the path that leads to it.
pub(crate) struct Fields<'a> {
    file: &'a str,
    path: String,
    object: &'a Value,
    problems: &'a RefCell<Vec<Problem>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn root(file: &'a str, object: &'a Value, problems: &'a RefCell<Vec<Problem>>) -> Self {
        Self {
            file,
            path: String::new(),
            object,
            problems,
        }
    }

    /// Notes a problem with a field.
    pub(crate) fn wrong(&self, field: &str, reason: impl Into<String>) {
        let file = self.file.to_owned();
        let field = format!("{}{field}", self.path);
        self.problems.borrow_mut().push(Problem::Config {
            file,
            field,
            reason: reason.into(),
        });
    }

    /// The object in `field`; if there is none the problem is noted once and the rest reads as absent.
    pub(crate) fn section(&self, field: &str) -> Self {
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

    /// Returns true if one of `names` is present and not null.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
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

    /// A width, a vocabulary or the like: a whole number from 1 to [`WIDEST`].
    pub(crate) fn count(&self, names: &[&str]) -> usize {
        self.count_to(names, WIDEST)
    }

    /// A whole number from 1 to `most`.
    pub(crate) fn count_to(&self, names: &[&str], most: usize) -> usize {
        let read = |v: &Value| whole(v).filter(|&n| n > 0 && n <= most);
        self.get(names, &format!("a whole number from 1 to {most}"), read)
            .unwrap_or(1)
    }

    /// A whole number up to `most`, 0 too; `default` if the field is absent.
    pub(crate) fn count_or(&self, names: &[&str], default: usize, most: usize) -> usize {
        if !self.has(names) {
            return default;
        }
        let read = |v: &Value| whole(v).filter(|&n| n <= most);
        self.get(names, &format!("a whole number up to {most}"), read)
            .unwrap_or(default)
    }

    /// A token id below `limit`.
    pub(crate) fn id(&self, name: &str, limit: usize) -> u32 {
        let read = |v: &Value| {
            v.as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .filter(|&n| (n as usize) < limit)
        };
        self.get(&[name], &format!("an id below {limit}"), read)
            .unwrap_or(0)
    }

    /// A positive number, also as the f32 that the networks compute with.
    pub(crate) fn number(&self, names: &[&str]) -> f32 {
        #[expect(clippy::cast_possible_truncation, reason = "checked after the cast")]
        let read = |v: &Value| v.as_f64().map(|n| n as f32).filter(|n| n.is_normal() && *n > 0.0);
        self.get(names, "a positive number of single precision", read)
            .unwrap_or(1.0)
    }

    pub(crate) fn flag_or(&self, name: &str, default: bool) -> bool {
        if !self.has(&[name]) {
            return default;
        }
        self.get(&[name], "true or false", Value::as_bool)
            .unwrap_or(default)
    }

    /// A list of at most `longest` whole numbers from `least` to 2^20.
    pub(crate) fn counts(&self, name: &str, least: usize, longest: usize) -> Vec<usize> {
        let number = |v: &Value| whole(v).filter(|&n| n >= least && n <= 1 << 20);
        let list = |v: &'a Value| v.as_array().filter(|list| list.len() <= longest);
        let read = |v: &'a Value| list(v)?.iter().map(number).collect();
        let what = format!(
            "a list of at most {longest} whole numbers from {least} to {}",
            1 << 20
        );
        self.get(&[name], &what, read).unwrap_or_default()
    }

    /// As [`Fields::counts`] of the first of a list of lists, all of which must be equal.
    pub(crate) fn first_counts(&self, name: &str, longest: usize) -> Vec<usize> {
        let number = |v: &Value| whole(v).filter(|&n| n > 0 && n <= 1 << 20);
        let read = |v: &'a Value| {
            let lists = v
                .as_array()
                .filter(|lists| lists.iter().all(|list| lists.first() == Some(list)))?;
            let first = lists.first()?.as_array().filter(|list| list.len() <= longest)?;
            first.iter().map(number).collect()
        };
        let what = format!("a list of equal lists of at most {longest} whole numbers");
        self.get(&[name], &what, read).unwrap_or_default()
    }

    /// As [`Fields::counts`], empty if absent.
    pub(crate) fn counts_or_none(&self, name: &str, longest: usize) -> Vec<usize> {
        if self.has(&[name]) {
            self.counts(name, 0, longest)
        } else {
            Vec::new()
        }
    }

    /// The string in a field, if present.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.find(&[name]).and_then(Value::as_str)
    }

    /// The list of strings in a field, if present.
    pub(crate) fn texts(&self, name: &str) -> Vec<&'a str> {
        self.find(&[name])
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// Names and ids in a field, none if it is absent.
    pub(crate) fn ids_or_none(&self, name: &str, limit: usize) -> Vec<(String, u32)> {
        if self.has(&[name]) {
            self.ids(name, limit)
        } else {
            Vec::new()
        }
    }

    /// Names and values of the object in a field, none if it is absent.
    pub(crate) fn entries(&self, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        let object = self.find(&[name]).and_then(Value::as_object);
        object.into_iter().flatten()
    }

    /// Names and ids in a field.
    pub(crate) fn ids(&self, name: &str, limit: usize) -> Vec<(String, u32)> {
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
