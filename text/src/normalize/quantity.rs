//! What a number counts: percent, degrees, feet and inches, units and their powers, and "per".

use super::acronym;
use super::numeral::Numeral;
use super::rules::Reading;
use super::text::Text;
use super::unit::{self, Unit};
use crate::abbrev;

/// `words` with the percent sign, degrees or unit that stands after `n`.
pub(super) fn read(text: &Text<'_>, n: &Numeral, words: &str) -> Option<Reading> {
    let sign = text.past_space(n.end);
    if text.is(sign, "%") {
        return Some(Reading::new(format!("{words} percent"), sign + 1));
    }
    if text.is(sign, "°") {
        return Some(degrees(text, n, words, sign));
    }
    if let Some(reading) = feet_and_inches(text, n, words) {
        return Some(reading);
    }
    let (unit, end) = unit_at(text, n.end)?;
    let name = if n.is_one() { unit.one } else { unit.many };
    let (per, end) = per(text, end);
    Some(Reading::new(format!("{words} {name}{per}"), end))
}

fn degrees(text: &Text<'_>, n: &Numeral, words: &str, sign: usize) -> Reading {
    let name = if n.is_one() { "degree" } else { "degrees" };
    let scale_at = text.past_space(sign + 1);
    let scale = match text.str(scale_at) {
        "C" => " celsius",
        "F" => " fahrenheit",
        "K" => " kelvin",
        "N" => " north",
        "S" => " south",
        "E" => " east",
        "W" => " west",
        _ => return Reading::new(format!("{words} {name}"), sign + 1),
    };
    Reading::new(format!("{words} {name}{scale}"), scale_at + 1)
}

/// 6'2" and 27"
fn feet_and_inches(text: &Text<'_>, n: &Numeral, words: &str) -> Option<Reading> {
    if !text.is(n.end, "'") {
        return None;
    }
    let inches = Numeral::at(text, n.end + 1)?;
    if !text.is(inches.end, "\"") {
        return None;
    }
    let (foot, inch) = (
        if n.is_one() { "foot" } else { "feet" },
        if inches.is_one() { "inch" } else { "inches" },
    );
    Some(Reading::new(
        format!("{words} {foot} {} {inch}", inches.words()),
        inches.end + 1,
    ))
}

/// The unit from `at` on, with its power, and the token after it.
pub(super) fn unit_at(text: &Text<'_>, at: usize) -> Option<(NamedUnit, usize)> {
    let start = text.past_space(at);
    let touching = start == at;
    // "sq ft", "cubic" and so on in letters.
    let square = text.is(start, "sq");
    let mut sign = start;
    if square {
        sign = text.past_space(start + 1 + usize::from(text.is(start + 1, ".")));
    }
    let micro = text.is(sign, "µ");
    let written = text.slice(sign, sign + 1 + usize::from(micro));
    let abbreviated = text.is(sign + 1, ".") && text.is_space(sign + 2) && !text.is_capitalised(sign + 3);
    let found = unit::find(written, touching || (abbreviated && written == "in"))?;
    let mut end = sign + 1 + usize::from(micro);
    if text.is_digits(end)
        || text.is(end, "'")
        || (text.is_any(end, &["-", "@", "_"]) && text.is_word(end + 1))
    {
        return None;
    }
    let power = if square {
        "square "
    } else {
        power_of(text, written, &mut end)
    };
    let stop = abbreviated && abbrev::is_dotted_unit(written);
    Some((NamedUnit::new(&found, power), end + usize::from(stop)))
}

fn power_of(text: &Text<'_>, written: &str, end: &mut usize) -> &'static str {
    let name = match text.str(*end + 1) {
        "2" => "square ",
        "3" => "cubic ",
        _ => return "",
    };
    if !text.is(*end, "^") || !unit::is_length(written) {
        return "";
    }
    *end += 2;
    name
}

#[derive(Debug)]
pub(super) struct NamedUnit {
    pub(super) one: String,
    pub(super) many: String,
}

impl NamedUnit {
    fn new(unit: &Unit, power: &str) -> Self {
        Self {
            one: format!("{power}{}", unit.one),
            many: format!("{power}{}", unit.many),
        }
    }
}

/// "/h" after a unit or an amount: what it is counted by, and the token after it.
pub(super) fn per(text: &Text<'_>, at: usize) -> (String, usize) {
    if !text.is(at, "/") || !text.is_word(at + 1) || text.is(at + 2, "/") {
        return (String::new(), at);
    }
    match unit_at(text, at + 1) {
        Some((unit, end)) => (format!(" per {}", unit.one), end),
        None => (
            format!(" per {}", acronym::reading(text.str(at + 1), text.shouted())),
            at + 2,
        ),
    }
}
