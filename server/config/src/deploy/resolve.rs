//! Resolution of a parsed tree to a value for every setting, each with its origin.

use std::collections::HashMap;
use std::fmt;

use omni_family::Device;
use omni_models::stage_meant;
use omni_yaml::{Key, Node, Place, Problem, Value, parse_value};
use serde::de::DeserializeOwned;

use super::Given;
use super::problem::{flag, nearest, problem};
use super::settings::{Entry, Fallback, MOST, Rule, entries};
use super::value::Setup;

/// The source of a value.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// It was not set.
    Default(Fallback),
    /// It was written there.
    Written(Place),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(Fallback::Is(_) | Fallback::Absent) => f.write_str("default"),
            Self::Default(Fallback::Derived(rule)) => write!(f, "default: {}", rule.says()),
            Self::Default(Fallback::Checkpoint) => f.write_str("default: the checkpoint's own"),
            Self::Written(place) => f.write_str(&place.short()),
        }
    }
}

/// A setting with its value and origin.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) entry: Entry,
    pub(super) value: Setup,
    pub(super) origin: Origin,
}

/// Every setting, in the order of the table.
#[derive(Debug, Clone, Default)]
pub(super) struct Resolved {
    pub(super) rows: Vec<Row>,
}

impl Resolved {
    /// Values for everything, given the command line. Settings that cannot be used keep their defaults and are
    /// reported.
    pub(super) fn new(tree: &Node, given: &Given<'_>) -> (Self, Vec<Problem>) {
        let entries = entries();
        let mut written = Written::default();
        written.collect(tree, "", &entries);
        let mut resolved = Self::default();
        for entry in entries {
            let (value, origin) = resolved.value(&entry, &mut written, given);
            resolved.rows.push(Row { entry, value, origin });
        }
        (resolved, written.problems)
    }

    /// The settings of a scope as a struct of the table.
    pub(super) fn read<T: DeserializeOwned>(&self, scope: &str) -> T {
        let rows = self.rows.iter().filter(|row| row.entry.scope == scope);
        let values = rows.map(|row| (row.entry.setting.key.to_owned(), row.value.to_json()));
        serde_json::from_value(values.collect()).expect("the table allows what its structs hold")
    }

    /// The place where the setting was written, if it was.
    pub(super) fn place(&self, path: &str) -> Option<Place> {
        match &self.find(path)?.origin {
            Origin::Written(place) => Some(place.clone()),
            Origin::Default(_) => None,
        }
    }

    fn value(&self, entry: &Entry, written: &mut Written<'_>, given: &Given<'_>) -> (Setup, Origin) {
        let setting = entry.setting;
        let computed = !matches!(setting.fallback, Fallback::Is(_));
        if let Some(node) = written.values.get(&entry.path).filter(|node| !node.is_null()) {
            match setting.kind.read(node, computed) {
                Ok(Setup::Auto) => {}
                Ok(value) => return (value, Origin::Written(node.place.clone())),
                Err(message) => {
                    let problem = problem(&node.place, &entry.path, message);
                    written.problems.push(problem);
                }
            }
        }
        let value = match setting.fallback {
            Fallback::Checkpoint | Fallback::Absent => Setup::Auto,
            Fallback::Derived(rule) => self.derived(rule, &entry.scope, given),
            Fallback::Is(text) => {
                let node = parse_value(&flag(text), text).expect("the table's defaults are YAML");
                setting
                    .kind
                    .read(&node, false)
                    .expect("the table's defaults are allowed")
            }
        };
        (value, Origin::Default(setting.fallback))
    }

    fn derived(&self, rule: Rule, scope: &str, given: &Given<'_>) -> Setup {
        // Too many active utterances are refused by name elsewhere, beside every other problem.
        let times = |n: u64| n.saturating_mul(given.max_active as u64).min(MOST);
        match rule {
            Rule::TimesActive(n) => Setup::Count(times(n)),
            Rule::TimesActiveWithin { each, least, most } => Setup::Count(times(each).clamp(least, most)),
            Rule::AtLeastSeqs(n) => match self.find(&path(scope, "max_num_seqs")).map(|row| &row.value) {
                Some(Setup::Count(seqs)) => Setup::Count(n.max(*seqs)),
                _ => Setup::Count(n),
            },
            Rule::Device => Setup::Devices(vec![given.device]),
            Rule::Format if self.is_on_gpus(scope) => Setup::Choice("bf16"),
            Rule::Format => Setup::Choice("f32"),
            Rule::ByDevice { gpu, .. } if self.is_on_gpus(scope) => Setup::Count(gpu),
            Rule::ByDevice { cpu, .. } => Setup::Count(cpu),
        }
    }

    /// Returns true if all of a stage's devices are GPUs.
    fn is_on_gpus(&self, scope: &str) -> bool {
        let devices = self.find(&path(scope, "devices")).map(|row| &row.value);
        matches!(devices, Some(Setup::Devices(devices)) if devices.iter().copied().all(Device::is_gpu))
    }

    fn find(&self, path: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.entry.path == path)
    }
}

/// A key below a scope, which is empty at the top.
pub(super) fn path(scope: &str, key: &str) -> String {
    if scope.is_empty() {
        return key.to_owned();
    }
    format!("{scope}.{key}")
}

/// The values that were written, by path.
#[derive(Default)]
struct Written<'t> {
    values: HashMap<String, &'t Node>,
    problems: Vec<Problem>,
}

impl<'t> Written<'t> {
    fn collect(&mut self, node: &'t Node, prefix: &str, entries: &[Entry]) {
        let Value::Map(map) = &node.value else {
            if !node.is_null() {
                let known = below(prefix, entries);
                let message = format!(
                    "found {}, expected a map with: {}",
                    node.shown(),
                    known.join(", ")
                );
                self.problems.push(problem(&node.place, prefix, message));
            }
            return;
        };
        for (key, value) in map {
            let path = path(prefix, &key.value);
            if entries.iter().any(|entry| entry.path == path) {
                self.values.insert(path, value);
            } else if entries
                .iter()
                .any(|entry| entry.path.starts_with(&format!("{path}.")))
            {
                self.collect(value, &path, entries);
            } else {
                self.unknown(key, prefix, entries);
            }
        }
    }

    fn unknown(&mut self, key: &Key, prefix: &str, entries: &[Entry]) {
        let known = below(prefix, entries);
        // The meaning of a word counts before its letters: a vocoder is no encoder.
        let by_meaning = stage_meant(&key.value).filter(|stage| known.contains(stage));
        let meant = by_meaning.or_else(|| nearest(&key.value, known.iter().copied()));
        let message = match meant {
            Some(meant) => format!(
                "there is no such key, did you mean {meant}? Known are: {}",
                known.join(", ")
            ),
            None => format!("there is no such key, known are: {}", known.join(", ")),
        };
        let problem = problem(&key.place, &path(prefix, &key.value), message);
        self.problems.push(problem);
    }
}

/// The keys directly below a path, in order.
fn below<'e>(prefix: &str, entries: &'e [Entry]) -> Vec<&'e str> {
    let mut keys = Vec::new();
    for entry in entries {
        let rest = match prefix {
            "" => Some(entry.path.as_str()),
            prefix => entry
                .path
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix('.')),
        };
        let key = rest.and_then(|rest| rest.split('.').next());
        if let Some(key) = key
            && !keys.contains(&key)
        {
            keys.push(key);
        }
    }
    keys
}
