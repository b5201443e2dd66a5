//! One element of SSML, and what its attributes say.

use core::time::Duration;

/// `<name attributes/>`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) name: &'a str,
    /// True for `</name>`.
    pub(super) closes: bool,
    attributes: Vec<(&'a str, &'a str)>,
}

impl<'a> Element<'a> {
    /// The element that a text from `<` to `>` is.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let inner = text.strip_prefix('<')?.strip_suffix('>')?;
        let (closes, inner) = match inner.strip_prefix('/') {
            Some(inner) => (true, inner),
            None => (false, inner.strip_suffix('/').unwrap_or(inner)),
        };
        let end = inner
            .find(|c: char| !c.is_ascii_alphanumeric() && c != ':' && c != '-')
            .unwrap_or(inner.len());
        let (name, mut rest) = inner.split_at(end);
        if name.is_empty() || !rest.starts_with(|c: char| c.is_whitespace()) && !rest.is_empty() {
            return None;
        }
        let mut attributes = Vec::new();
        while let Some((attribute, value, after)) = attribute(rest.trim_start())? {
            attributes.push((attribute, value));
            rest = after;
        }
        Some(Self {
            name,
            closes,
            attributes,
        })
    }

    /// The pause of a `break`; none if its attributes make no sense.
    pub(super) fn pause(&self) -> Option<Duration> {
        let said = |name: &str| {
            let mut attributes = self.attributes.iter();
            attributes
                .find(|(own, _)| own.eq_ignore_ascii_case(name))
                .map(|(_, value)| *value)
        };
        match (said("time"), said("strength")) {
            (Some(time), _) => duration(time),
            (None, Some(strength)) => self::strength(strength),
            (None, None) => self::strength("medium"),
        }
    }
}

/// `name="value"` at the beginning of `text`, and what follows it; no attribute at the end of the text. None outside: it is neither.
#[allow(
    clippy::type_complexity,
    reason = "both layers are taken apart where they come"
)]
fn attribute(text: &str) -> Option<Option<(&str, &str, &str)>> {
    if text.is_empty() {
        return Some(None);
    }
    let (name, rest) = text.split_once('=')?;
    let rest = rest.trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (value, after) = rest[1..].split_once(quote)?;
    Some(Some((name.trim_end(), value, after)))
}

/// `500ms` or `0.5s`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| plain && !number.is_empty())?;
    Duration::try_from_secs_f64(number * unit).ok()
}

/// Pauses for the names that SSML has for them.
fn strength(name: &str) -> Option<Duration> {
    let millis = match name.trim() {
        "none" => 0,
        "x-weak" => 150,
        "weak" => 300,
        "medium" => 500,
        "strong" => 800,
        "x-strong" => 1_200,
        _ => return None,
    };
    Some(Duration::from_millis(millis))
}

/// The character of an entity, without `&` and `;`.
pub(super) fn character(name: &str) -> Option<char> {
    let number = |digits: &str, radix| {
        u32::from_str_radix(digits, radix)
            .ok()
            .and_then(char::from_u32)
            .filter(|c| !c.is_control() || c.is_whitespace())
    };
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => match name.strip_prefix('#')? {
            hex if hex.starts_with(['x', 'X']) => number(&hex[1..], 16),
            digits => number(digits, 10),
        },
    }
}
