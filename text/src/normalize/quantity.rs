//! What a number counts: percent, degrees, feet and inches, units and their powers, and "per".

use super::acronym;
use super::numeral::Numeral;
use super::rules::Reading;
use super::text::{Kind, Text};
use super::unit::{self, Near, Unit};
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
    let foot = if n.is_one() { "foot" } else { "feet" };
    let inch = if inches.is_one() { "inch" } else { "inches" };
    Some(Reading::new(
        format!("{words} {foot} {} {inch}", inches.words()),
        inches.end + 1,
    ))
}

/// The unit from `at` on, with its power, and the token after it.
pub(super) fn unit_at(text: &Text<'_>, at: usize) -> Option<(NamedUnit, usize)> {
    unit_of(text, at, false)
}

/// As [`unit_at`]; what comes behind "per" stands alone, and what it is the unit of is no number.
fn unit_of(text: &Text<'_>, at: usize, counts: bool) -> Option<(NamedUnit, usize)> {
    let start = text.past_space(at);
    let touching = start == at;
    if let Some(named) = in_words(text, start) {
        return Some(named);
    }
    // "sq ft", "cubic" and so on in letters.
    let square = text.is(start, "sq");
    let mut sign = start;
    if square {
        sign = text.past_space(start + 1 + usize::from(text.is(start + 1, ".")));
    }
    let prefixed = text.is(sign, "µ") || text.is(sign + 1, "Ω") && text.is_word(sign);
    let written = text.slice(sign, sign + 1 + usize::from(prefixed));
    let abbreviated = text.is(sign + 1, ".") && text.is_space(sign + 2) && !text.is_capitalised(sign + 3);
    let (found, near) = unit::find(written)?;
    let mut end = sign + 1 + usize::from(prefixed);
    let may_stand = counts
        || match near {
            Near::Any => true,
            Near::Touching => touching || abbreviated,
            Near::Apart => !touching,
            Near::Sure => is_sure(text, at, end, written, touching) || abbreviated && written == "in",
            Near::Per => text.is(end, "/"),
        };
    let power = if square {
        "square "
    } else {
        power_of(text, written, &mut end)
    };
    // The direction of a street: "123 N. Main St.", "45 W 25th St".
    let next = text.past_space(end + usize::from(text.is(end, ".")));
    let directed = !touching
        && matches!(written, "N" | "E" | "S" | "W")
        && next > end
        && (text.is_capitalised(next) && !abbrev::starts_sentence(text.str(next))
            || text.is_digits(next) && text.is_word(next + 1));
    if !may_stand
        || directed
        || text.is_digits(end)
        || text.is(end, "'")
        || (text.is_any(end, &["-", "@", "_"]) && text.is_word(end + 1))
    {
        return None;
    }
    let stop = abbreviated && abbrev::is_dotted_unit(written);
    Some((NamedUnit::new(&found, power), end + usize::from(stop)))
}

/// Units of several words.
fn in_words(text: &Text<'_>, at: usize) -> Option<(NamedUnit, usize)> {
    let ounce = text.is(at, "fl");
    if ounce {
        let oz = text.past_space(at + 1 + usize::from(text.is(at + 1, ".")));
        let stop = text.is(oz + 1, ".") && !text.is_capitalised(text.past_space(oz + 2));
        return text.is(oz, "oz").then(|| {
            (
                NamedUnit::called("fluid ounce", "fluid ounces"),
                oz + 1 + usize::from(stop),
            )
        });
    }
    // "inH2O"
    let water = text.is_any(at, &["inH", "mmH", "cmH"]) && text.is(at + 1, "2") && text.is(at + 2, "O");
    water.then(|| {
        let (one, many) = match text.str(at) {
            "inH" => ("inch of water", "inches of water"),
            "mmH" => ("millimeter of water", "millimeters of water"),
            _ => ("centimeter of water", "centimeters of water"),
        };
        (NamedUnit::called(one, many), at + 3)
    })
}

/// Words behind inches and amps, which could be a preposition and an article.
static MEASURED: [&str; 35] = [
    "above", "and", "at", "below", "breaker", "by", "charger", "circuit", "current", "deep", "diameter",
    "for", "from", "fuse", "high", "is", "long", "max", "maximum", "of", "on", "or", "outside", "over",
    "per", "rain", "round", "snow", "tall", "thick", "to", "today", "tomorrow", "wide", "x",
];

/// True if a letter or a short word behind a number can only be a unit.
fn is_sure(text: &Text<'_>, at: usize, end: usize, written: &str, touching: bool) -> bool {
    let next = text.past_space(end);
    let ends = text.is_gap(end) && !text.is_space(end) || text.kind(end) == Some(Kind::Symbol);
    let measured = next > end
        && text
            .lower(next)
            .is_some_and(|word| MEASURED.contains(&word.as_str()));
    let digits = text.str(at.wrapping_sub(1)).len() > 1 || at > 1 && text.is(at - 2, ".");
    match written {
        "in" => touching || ends || measured,
        // Also the names of models and grades: "iPhone 5C".
        "C" | "F" => {
            digits && (ends || measured || next > end && !text.is_capitalised(next) && text.is_word(next))
        }
        "K" => !touching && (ends || measured),
        "S" => ends && text.is(end, "/") || touching && digits && ends,
        _ => ends || measured || touching && !text.is_capitalised(next),
    }
}

fn power_of(text: &Text<'_>, written: &str, end: &mut usize) -> &'static str {
    let raised = text.is(*end, "^");
    let digit = text.str(*end + usize::from(raised));
    let name = match (digit, unit::is_length(written), written) {
        ("2", true, _) => "square ",
        ("3", true, _) => "cubic ",
        ("2", _, "s") => " squared",
        _ => return "",
    };
    let behind = *end + 1 + usize::from(raised);
    if text.is_word(behind) {
        return "";
    }
    *end = behind;
    name
}

#[derive(Debug)]
pub(super) struct NamedUnit {
    pub(super) one: String,
    pub(super) many: String,
}

impl NamedUnit {
    fn new(unit: &Unit, power: &str) -> Self {
        match power.strip_prefix(' ') {
            Some(_) => Self::called(&format!("{}{power}", unit.one), &format!("{}{power}", unit.many)),
            None => Self::called(&format!("{power}{}", unit.one), &format!("{power}{}", unit.many)),
        }
    }

    fn called(one: &str, many: &str) -> Self {
        Self {
            one: one.to_owned(),
            many: many.to_owned(),
        }
    }
}

/// "/h" after a unit or an amount: what it is counted by, and the token after it.
pub(super) fn per(text: &Text<'_>, at: usize) -> (String, usize) {
    if !text.is(at, "/") || text.is(at + 2, "/") {
        return (String::new(), at);
    }
    if let Some(product) = product(text, at + 1) {
        return product;
    }
    if let Some(n) = Numeral::at(text, at + 1)
        && let Some((unit, end)) = unit_of(text, n.end, true)
    {
        let name = if n.is_one() { unit.one } else { unit.many };
        return (format!(" per {} {name}", n.words()), end);
    }
    if !text.is_word(at + 1) && !text.is(at + 1, "µ") {
        return (String::new(), at);
    }
    match unit_of(text, at + 1, true) {
        Some((unit, end)) => (format!(" per {}", unit.one), end),
        None => (
            format!(" per {}", acronym::reading(text.str(at + 1), text.shouted())),
            at + 2,
        ),
    }
}

/// "(h ft²)": units that are multiplied.
fn product(text: &Text<'_>, at: usize) -> Option<(String, usize)> {
    if !text.is(at, "(") {
        return None;
    }
    let mut words = String::from(" per");
    let mut at = at + 1;
    while !text.is(at, ")") {
        let (unit, end) = unit_of(text, at, true)?;
        words = format!("{words} {}", unit.one);
        at = text.past_space(end + usize::from(text.is(end, "*")));
    }
    (words.len() > 4).then_some((words, at + 1))
}
