//! The values that a setting may have, and reading one from a file's text.

use std::fmt;
use std::time::Duration;

use omni_family::Device;
use omni_yaml::{Node, Value};
use serde_json::{Value as Json, json};

use crate::time::{parse_duration, written};

/// Longest name, in bytes.
const NAME: usize = 128;
/// Longest path of a folder, in bytes.
const FOLDER: usize = 4_096;
/// The word for no folder.
const MEMORY: &str = "memory";
/// Longest time that can be set: a day.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The values that a setting may have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A whole number.
    Count { min: u64, max: u64 },
    /// A number; more than `above` where that is given.
    Real { above: Option<f64>, min: f64, max: f64 },
    /// A number, or 0 to turn the feature off.
    RealOrZero { min: f64, max: f64 },
    /// A duration of at least `min_ms` milliseconds.
    Time { min_ms: u64 },
    /// An amount of memory.
    Bytes,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// A list of at most `len` positive numbers, each at most `max`.
    Counts { max: u64, len: usize },
    /// A list of devices, or one.
    Devices,
    /// A list of names, at most `len`, which may be empty.
    Names { len: usize },
    /// A folder, or the word `memory` for none.
    Folder,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setup {
    Count(u64),
    Real(f64),
    Time(Duration),
    Bytes(u64),
    Choice(&'static str),
    Counts(Vec<u32>),
    Devices(Vec<Device>),
    Names(Vec<String>),
    Folder(String),
    /// Switched off, by 0.
    Off,
    /// Decided elsewhere: the checkpoint's own.
    Auto,
}

impl Setup {
    /// As read by the settings structs.
    pub(super) fn to_json(&self) -> Json {
        match self {
            Self::Count(n) | Self::Bytes(n) => json!(n),
            Self::Real(x) => json!(x),
            Self::Time(time) => json!([time.as_secs(), time.subsec_nanos()]),
            Self::Choice("true") => json!(true),
            Self::Choice("false") => json!(false),
            Self::Choice(word) => json!(word),
            Self::Counts(counts) => json!(counts),
            Self::Devices(devices) => devices.iter().map(Device::to_string).collect(),
            Self::Names(names) => json!(names),
            Self::Folder(path) if path == MEMORY => Json::Null,
            Self::Folder(path) => json!(path),
            Self::Off | Self::Auto => Json::Null,
        }
    }
}

impl fmt::Display for Setup {
    /// As it would be written in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Real(x) => write!(f, "{x}"),
            Self::Time(time) => f.write_str(&written(*time)),
            Self::Bytes(bytes) => f.write_str(&amount(*bytes)),
            Self::Choice(word) => f.write_str(word),
            Self::Counts(counts) => write!(f, "{counts:?}"),
            Self::Devices(devices) => {
                let names: Vec<_> = devices.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", names.join(", "))
            }
            Self::Names(names) => write!(f, "[{}]", names.join(", ")),
            Self::Folder(path) => write!(f, "{}", Json::from(path.as_str())),
            Self::Off => f.write_str("0"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl fmt::Display for Kind {
    /// The allowed values, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Real {
                above: Some(above),
                max,
                ..
            } => write!(f, "a number above {above} and at most {max}"),
            Self::Real {
                above: None,
                min,
                max,
            } => write!(f, "a number from {min} to {max}"),
            Self::RealOrZero { min, max } => write!(f, "a number from {min} to {max}, or 0"),
            Self::Time { min_ms } => {
                let min = written(Duration::from_millis(*min_ms));
                let max = written(MAX_TIME);
                write!(f, "a time from {min} to {max}, like 500ms, 10s or 5m")
            }
            Self::Bytes => f.write_str("an amount from 1KiB to 1024GiB, like 64MiB"),
            Self::Choice([only]) => f.write_str(only),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Counts { max, len } => write!(f, "a list of 1 to {len} whole numbers from 1 to {max}"),
            Self::Devices => f.write_str("cpu or cuda:N, or a list of one device per replica"),
            Self::Folder => f.write_str("a folder, or memory"),
            Self::Names { len } => write!(
                f,
                "a list of at most {len} names of 1 to {NAME} letters, digits and -_.:/@*?"
            ),
        }
    }
}

impl Kind {
    /// Reads a value; the error has the problem and the accepted values. `auto` is accepted where the default is
    /// computed.
    pub(super) fn read(&self, node: &Node, auto: bool) -> Result<Setup, String> {
        let or_auto = if auto { ", or auto" } else { "" };
        match &node.value {
            Value::Scalar { text, quoted: false } if auto && text == "auto" => Ok(Setup::Auto),
            _ => self
                .value(node)
                .map_err(|found| format!("found {found}, expected {self}{or_auto}")),
        }
    }

    /// The value, or a description of the invalid one.
    fn value(&self, node: &Node) -> Result<Setup, String> {
        let shown = || node.shown();
        match self {
            Self::Count { min, max } => count(node, *min, *max).map(Setup::Count).ok_or_else(shown),
            Self::Real { above, min, max } => {
                let good = |x: &f64| x >= min && x <= max && above.is_none_or(|above| *x > above);
                real(node).filter(good).map(Setup::Real).ok_or_else(shown)
            }
            Self::RealOrZero { min, max } => match real(node) {
                Some(0.0) => Ok(Setup::Off),
                x => x
                    .filter(|x| (*min..=*max).contains(x))
                    .map(Setup::Real)
                    .ok_or_else(shown),
            },
            Self::Time { min_ms } => {
                let least = Duration::from_millis(*min_ms);
                let time = word(node).and_then(|text| parse_duration(text).ok());
                time.filter(|time| (least..=MAX_TIME).contains(time))
                    .map(Setup::Time)
                    .ok_or_else(shown)
            }
            Self::Bytes => word(node).and_then(bytes).map(Setup::Bytes).ok_or_else(shown),
            Self::Choice(words) => {
                let known = word(node).and_then(|text| words.iter().find(|word| **word == text));
                known.map(|word| Setup::Choice(word)).ok_or_else(shown)
            }
            Self::Counts { max, len } => counts(node, *max, *len).map(Setup::Counts),
            Self::Devices => devices(node).map(Setup::Devices),
            Self::Names { len } => names(node, *len).map(Setup::Names),
            Self::Folder => folder(node).ok_or_else(shown),
        }
    }
}

/// Units of memory, largest first.
const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// The shortest way to write an amount of whole KiB.
fn amount(bytes: u64) -> String {
    let unit = UNITS.into_iter().find(|(_, size)| bytes.is_multiple_of(*size));
    unit.map_or_else(
        || bytes.to_string(),
        |(unit, size)| format!("{}{unit}", bytes / size),
    )
}

fn bytes(text: &str) -> Option<u64> {
    let (number, size) = UNITS
        .into_iter()
        .find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)))?;
    let number: u64 = number.trim_end().parse().ok()?;
    number
        .checked_mul(size)
        .filter(|bytes| (1 << 10..=1 << 40).contains(bytes))
}

/// A number that is not quoted.
fn real(node: &Node) -> Option<f64> {
    plain(node).and_then(|text| text.parse().ok())
}

/// The text of a scalar that is not quoted.
fn plain(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, quoted: false } => Some(text),
        _ => None,
    }
}

/// The text of a scalar.
fn word(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

fn count(node: &Node, min: u64, max: u64) -> Option<u64> {
    // `_` separates digits in YAML 1.1 and in Rust; `+` and the like are not how people write counts.
    let digits = plain(node)?.replace('_', "");
    let count = digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())??;
    (min..=max).contains(&count).then_some(count)
}

fn counts(node: &Node, max: u64, len: usize) -> Result<Vec<u32>, String> {
    let Value::List(items) = &node.value else {
        return Err(node.shown());
    };
    if items.is_empty() || items.len() > len {
        return Err(format!("a list of {}", items.len()));
    }
    let read = |item: &Node| {
        let count = count(item, 1, max).and_then(|count| u32::try_from(count).ok());
        count.ok_or_else(|| format!("{} in the list", item.shown()))
    };
    items.iter().map(read).collect()
}

fn devices(node: &Node) -> Result<Vec<Device>, String> {
    match &node.value {
        Value::List(items) if items.is_empty() => Err("an empty list".to_owned()),
        Value::List(items) => items.iter().map(device).collect(),
        _ => Ok(vec![device(node)?]),
    }
}

fn names(node: &Node, len: usize) -> Result<Vec<String>, String> {
    let Value::List(items) = &node.value else {
        return Err(node.shown());
    };
    if items.len() > len {
        return Err(format!("a list of {}", items.len()));
    }
    let good = |text: &&str| {
        (1..=NAME).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/@*?".contains(&byte))
    };
    let name = |item: &Node| {
        let name = word(item).filter(good).map(str::to_owned);
        name.ok_or_else(|| format!("{} in the list", item.shown()))
    };
    items.iter().map(name).collect()
}

fn folder(node: &Node) -> Option<Setup> {
    let path = word(node)?;
    let good = (1..=FOLDER).contains(&path.len()) && !path.contains(char::is_control);
    good.then(|| Setup::Folder(path.to_owned()))
}

fn device(node: &Node) -> Result<Device, String> {
    word(node).and_then(Device::parse).ok_or_else(|| node.shown())
}

#[cfg(test)]
mod tests {
    use omni_yaml::parse_value;

    use super::super::problem::flag;
    use super::*;

    fn read(kind: Kind, text: &str) -> Result<Setup, String> {
        kind.read(&parse_value(&flag("x"), text).unwrap(), false)
    }

    #[test]
    fn what_is_printed_reads_as_the_same_value() {
        for (kind, text) in [
            (Kind::Count { min: 0, max: 1 << 20 }, "1024"),
            (
                Kind::Real {
                    above: None,
                    min: 0.0,
                    max: 10.0,
                },
                "0.9",
            ),
            (
                Kind::Real {
                    above: None,
                    min: 0.0,
                    max: 10.0,
                },
                "1",
            ),
            (
                Kind::RealOrZero {
                    min: -40.0,
                    max: -10.0,
                },
                "-19.5",
            ),
            (
                Kind::RealOrZero {
                    min: -40.0,
                    max: -10.0,
                },
                "0",
            ),
            (Kind::Time { min_ms: 1 }, "1500ms"),
            (Kind::Time { min_ms: 1 }, "90s"),
            (Kind::Time { min_ms: 1 }, "10m"),
            (Kind::Time { min_ms: 1 }, "2h"),
            (Kind::Bytes, "3MiB"),
            (Kind::Bytes, "1536KiB"),
            (Kind::Choice(&["a", "b"]), "b"),
            (Kind::Counts { max: 9, len: 4 }, "[1, 2, 9]"),
            (Kind::Devices, "[cpu, cuda:1]"),
            (Kind::Names { len: 2 }, "[tts-1, org/model:7b]"),
            (Kind::Names { len: 2 }, "[]"),
            (Kind::Folder, "\"/var/lib/my voices\""),
        ] {
            let value = read(kind, text).unwrap();
            assert_eq!(value.to_string(), text);
            assert_eq!(read(kind, &value.to_string()), Ok(value));
        }
        assert_eq!(read(Kind::Devices, "cpu").unwrap().to_string(), "[cpu]");
    }

    #[test]
    fn a_wrong_value_is_shown_with_what_is_allowed() {
        let count = Kind::Count { min: 1, max: 64 };
        for (kind, text, expected) in [
            (count, "0", "found 0, expected a whole number from 1 to 64"),
            (count, "\"2\"", "found \"2\", expected a whole number"),
            (count, "1.5", "found 1.5"),
            (count, "-1", "found -1"),
            (count, "[1]", "found a list"),
            (
                Kind::RealOrZero {
                    min: -40.0,
                    max: -10.0,
                },
                "-5",
                "found -5, expected a number from -40 to -10, or 0",
            ),
            (
                Kind::Real {
                    above: Some(0.0),
                    min: 0.0,
                    max: 1.0,
                },
                "0",
                "found 0, expected a number above 0",
            ),
            (
                Kind::Real {
                    above: None,
                    min: 0.0,
                    max: 1.0,
                },
                ".nan",
                "found .nan",
            ),
            (
                Kind::Real {
                    above: None,
                    min: 0.0,
                    max: 1.0,
                },
                "nan",
                "found nan",
            ),
            (
                Kind::Time { min_ms: 1 },
                "10",
                "found 10, expected a time from 1ms to 24h",
            ),
            (Kind::Time { min_ms: 1 }, "48h", "found 48h"),
            (Kind::Bytes, "64", "found 64, expected an amount from 1KiB"),
            (Kind::Bytes, "2000GiB", "found 2000GiB"),
            (Kind::Choice(&["a", "b"]), "c", "found c, expected one of a, b"),
            (Kind::Counts { max: 9, len: 2 }, "[]", "found a list of 0"),
            (Kind::Counts { max: 9, len: 2 }, "[1, 10]", "found 10 in the list"),
            (Kind::Devices, "cuda:x", "found cuda:x, expected cpu or cuda:N"),
            (
                Kind::Names { len: 2 },
                "tts-1",
                "found tts-1, expected a list of at most 2 names",
            ),
            (Kind::Names { len: 2 }, "[a, b, c]", "found a list of 3"),
            (Kind::Names { len: 2 }, "[a, 'b c']", "in the list"),
            (Kind::Devices, "[cpu, tpu]", "found tpu, expected cpu"),
        ] {
            let message = read(kind, text).unwrap_err();
            assert!(message.contains(expected), "{text:?} gives {message:?}");
        }
    }
}
