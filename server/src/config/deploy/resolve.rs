//! From a tree of what was written to a value for every setting, each with its origin.

use std::collections::HashMap;
use std::fmt;

use omni_engine::StageKind;
use omni_family::Device;
use omni_models::stage_meant;

use super::Given;
use super::problem::{Problem, nearest};
use super::schema::{Entry, Fallback, Of, Rule, entries, scope};
use super::value::Setup;
use super::yaml::{Key, Node, Place, Value, parse_value};

/// Most positions of a KV cache: what block ids and positions can count.
const MAX_POSITIONS: u64 = 1 << 31;

/// Where a value comes from.
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

/// Every setting with its value and origin, in the order of the table.
#[derive(Debug, Clone)]
pub(super) struct Resolved {
    entries: Vec<Entry>,
    values: HashMap<String, (Setup, Origin)>,
}

impl Resolved {
    /// Values for everything, given the command line. Settings that cannot be used keep their defaults and are reported.
    pub(super) fn new(tree: &Node, given: &Given<'_>) -> (Self, Vec<Problem>) {
        let entries = entries();
        let mut written = Written::default();
        written.collect(tree, "", &entries);
        let mut resolved = Self {
            entries: Vec::new(),
            values: HashMap::new(),
        };
        for entry in entries {
            let value = resolved.value(&entry, &mut written, given);
            resolved.values.insert(entry.path.clone(), value);
            resolved.entries.push(entry);
        }
        resolved.check(given, &mut written.problems);
        (resolved, written.problems)
    }

    fn value(&self, entry: &Entry, written: &mut Written<'_>, given: &Given<'_>) -> (Setup, Origin) {
        let setting = entry.setting;
        let computed = !matches!(setting.fallback, Fallback::Is(_));
        if let Some(node) = written.values.get(&entry.path).filter(|node| !node.is_null()) {
            match setting.kind.read(node, computed) {
                Ok(Setup::Auto) => {}
                Ok(value) => return (value, Origin::Written(node.place.clone())),
                Err(message) => {
                    let problem = Problem::new(node.place.clone(), &entry.path, message);
                    written.problems.push(problem);
                }
            }
        }
        let value = match setting.fallback {
            Fallback::Checkpoint | Fallback::Absent => Setup::Auto,
            Fallback::Derived(rule) => self.derived(rule, &entry.scope, given),
            Fallback::Is(text) => {
                let node = parse_value(&Place::flag(text), text).expect("the table's defaults are YAML");
                setting
                    .kind
                    .read(&node, false)
                    .expect("the table's defaults are allowed")
            }
        };
        (value, Origin::Default(setting.fallback))
    }

    fn derived(&self, rule: Rule, scope: &str, given: &Given<'_>) -> Setup {
        let times = |n: u64| n.saturating_mul(given.max_active as u64);
        match rule {
            Rule::TimesActive(n) => Setup::Count(times(n)),
            Rule::TimesActiveWithin { each, least, most } => Setup::Count(times(each).clamp(least, most)),
            Rule::AtLeastSeqs(n) => Setup::Count(n.max(self.count(scope, "max_num_seqs"))),
            Rule::Device => Setup::Devices(vec![given.device]),
            Rule::Format if self.is_on_gpus(scope) => Setup::Choice("bf16"),
            Rule::Format => Setup::Choice("f32"),
            Rule::ByDevice { gpu, .. } if self.is_on_gpus(scope) => Setup::Count(gpu),
            Rule::ByDevice { cpu, .. } => Setup::Count(cpu),
        }
    }

    /// Whether all of a stage's devices are GPUs.
    fn is_on_gpus(&self, scope: &str) -> bool {
        self.devices(scope).iter().all(|device| device.is_gpu())
    }

    pub(super) fn devices(&self, scope: &str) -> &[Device] {
        match self.get(scope, "devices") {
            Setup::Devices(devices) => devices,
            other => unreachable!("{scope}.devices is {other:?}"),
        }
    }

    /// All settings in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Entry, &Setup, &Origin)> {
        self.entries.iter().map(|entry| {
            let (value, origin) = &self.values[&entry.path];
            (entry, value, origin)
        })
    }

    /// The value of `scope.key`.
    ///
    /// # Panics
    /// If the table has no such setting, which no input can bring about.
    pub(super) fn get(&self, scope: &str, key: &str) -> &Setup {
        &self.values[&path(scope, key)].0
    }

    /// The value of `scope.key`, if the table has such a setting.
    pub(super) fn find(&self, scope: &str, key: &str) -> Option<&Setup> {
        self.values.get(&path(scope, key)).map(|(value, _)| value)
    }

    pub(super) fn count(&self, scope: &str, key: &str) -> u64 {
        match self.get(scope, key) {
            Setup::Count(n) => *n,
            other => unreachable!("{scope}.{key} is {other:?}, not a count"),
        }
    }

    /// What no single value can tell.
    fn check(&self, given: &Given<'_>, problems: &mut Vec<Problem>) {
        let stages = Of::Stages.stages();
        for stage in &stages {
            let scope = scope(stage.name);
            self.check_devices(&scope, given, problems);
            self.check_delays(&scope, problems);
        }
        for stage in Of::Kind(StageKind::Autoregressive).stages() {
            self.check_batch(&scope(stage.name), problems);
        }
        for stage in Of::Kind(StageKind::Autoregressive).stages() {
            self.check_cache(&scope(stage.name), problems);
        }
        for stage in Of::Answers.stages() {
            self.check_repetition(&scope(stage.name), problems);
        }
    }

    fn check_batch(&self, scope: &str, problems: &mut Vec<Problem>) {
        let keys = ["max_num_batched_tokens", "max_num_seqs"];
        let [tokens, seqs] = keys.map(|key| self.count(scope, key));
        // As the engine demands; with fewer tokens than decodes they take turns.
        if tokens < 2 && seqs > 1 {
            let message = format!("found {tokens}, expected at least 2 where max_num_seqs is {seqs}");
            self.report(scope, &keys, message, problems);
        }
    }

    fn check_cache(&self, scope: &str, problems: &mut Vec<Problem>) {
        let size = self.count(scope, "kv.block_size");
        let blocks = self.count(scope, "kv.blocks");
        if size.saturating_mul(blocks) > MAX_POSITIONS {
            let message = format!(
                "found {blocks} blocks of {size} positions, expected at most {MAX_POSITIONS} positions"
            );
            self.report(scope, &["kv.blocks", "kv.block_size"], message, problems);
        }
    }

    fn check_repetition(&self, scope: &str, problems: &mut Vec<Problem>) {
        let keys = ["repetition.min_pattern", "repetition.max_pattern"];
        let [shortest, longest] = keys.map(|key| self.count(scope, key));
        if shortest > longest {
            let message =
                format!("found {shortest}, expected at most repetition.max_pattern, which is {longest}");
            self.report(scope, &keys, message, problems);
        }
    }

    /// The kernels that read other formats than those stored are the processor's for f32.
    fn check_weights(&self, scope: &str, problems: &mut Vec<Problem>) {
        if let Some(Setup::Choice("bf16")) = self.find(scope, "products")
            && self.devices(scope).iter().any(|device| device.is_gpu())
        {
            let message = "found bf16, expected f32: GPUs compute in `dtype`".to_owned();
            self.report(scope, &["products", "devices"], message, problems);
        }
        let Some(Setup::Choice(weights)) = self.find(scope, "weights") else {
            return;
        };
        let (message, because) = match self.get(scope, "dtype") {
            _ if *weights == "auto" => return,
            _ if self.devices(scope).iter().any(|device| device.is_gpu()) => {
                let message = format!("found {weights}, expected auto: GPUs keep weights in `dtype`");
                (message, "devices")
            }
            Setup::Choice(dtype @ ("bf16" | "f16")) => {
                let message = format!("found {weights} with dtype {dtype}, expected dtype f32");
                (message, "dtype")
            }
            _ => return,
        };
        self.report(scope, &["weights", because], message, problems);
    }

    fn check_devices(&self, scope: &str, given: &Given<'_>, problems: &mut Vec<Problem>) {
        let replicas = self.count(scope, "replicas");
        let devices = self.devices(scope);
        if devices.len() != 1 && devices.len() as u64 != replicas {
            let message = format!(
                "found {} devices, expected 1 or one for each of {replicas} replicas",
                devices.len()
            );
            self.report(scope, &["devices", "replicas"], message, problems);
        }
        let mut seen = vec![given.device];
        for device in devices {
            if seen.contains(device) {
                continue;
            }
            seen.push(*device);
            if let Device::Cuda(number) = device
                && let Err(why) = (given.probe)(*number)
            {
                let message = format!("found {device}, which cannot be used: {why}");
                self.report(scope, &["devices"], message, problems);
            }
        }
        if devices.iter().any(|device| device.is_gpu())
            && let Setup::Choice("f16") = self.get(scope, "dtype")
        {
            let message = "found f16, expected f32 or bf16, in which GPUs compute".to_owned();
            self.report(scope, &["dtype", "devices"], message, problems);
        }
        self.check_weights(scope, problems);
    }

    fn check_delays(&self, scope: &str, problems: &mut Vec<Problem>) {
        let first = self.get(scope, "restart.first_delay");
        let longest = self.get(scope, "restart.max_delay");
        if let (Setup::Time(a), Setup::Time(b)) = (first, longest)
            && a > b
        {
            let message = format!("found {first}, expected at most restart.max_delay, which is {longest}");
            self.report(
                scope,
                &["restart.first_delay", "restart.max_delay"],
                message,
                problems,
            );
        }
    }

    /// Reports a problem of several settings at the first of them that was written.
    fn report(&self, scope: &str, keys: &[&str], message: String, problems: &mut Vec<Problem>) {
        let place = keys
            .iter()
            .find_map(|key| match &self.values[&path(scope, key)].1 {
                Origin::Written(place) => Some(place.clone()),
                Origin::Default(_) => None,
            });
        let place = place.unwrap_or_else(|| Place::flag("defaults"));
        problems.push(Problem::new(place, path(scope, keys[0]), message));
    }
}

fn path(scope: &str, key: &str) -> String {
    match scope {
        "" => key.to_owned(),
        scope => format!("{scope}.{key}"),
    }
}

/// What was written, by path.
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
                self.problems
                    .push(Problem::new(node.place.clone(), prefix, message));
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
        // What a word means counts before how it is written: a vocoder is no encoder.
        let by_meaning = stage_meant(&key.value).filter(|stage| known.contains(stage));
        let meant = by_meaning.or_else(|| nearest(&key.value, known.iter().copied()));
        let message = match meant {
            Some(meant) => format!(
                "there is no such key, did you mean {meant}? Known are: {}",
                known.join(", ")
            ),
            None => format!("there is no such key, known are: {}", known.join(", ")),
        };
        let problem = Problem::new(key.place.clone(), path(prefix, &key.value), message);
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
