//! Reads what a number counts: percent, degrees, feet and inches, units and their powers, and "per".

use super::numeral::Numeral;
use super::rules::Reading;
use super::text::{Kind, Text};
use super::unit::{self, Near, Unit};
use super::{acronym, place};
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
    // "a 12-oz can", but "12-pt font" and "21-st"
    let sign = text.str(n.end + 1);
    let joined = text.is(n.end, "-") && !text.is(n.end + 2, "-") && sign.len() > 1;
    let unit = (joined && !matches!(sign, "kt" | "pt" | "st" | "us")).then(|| unit_of(text, n.end + 1, true));
    if let Some((unit, end)) = unit.flatten() {
        return Some(Reading::new(format!("{words} {}", unit.one), end));
    }
    let (unit, end) = unit_at(text, n.end)?;
    let name = counted(n, &unit.one, &unit.many);
    let (per, end) = per(text, end, false);
    Some(Reading::new(format!("{words} {name}{per}"), end))
}

/// "20°C", "45°", "40°26'46\"N"
fn degrees(text: &Text<'_>, n: &Numeral, words: &str, sign: usize) -> Reading {
    let mut words = format!("{words} {}", counted(n, "degree", "degrees"));
    let mut end = sign + 1;
    for (sign, one, many) in [("'", "minute", "minutes"), ("\"", "second", "seconds")] {
        if let Some(part) = Numeral::at(text, end).filter(|part| text.is(part.end, sign)) {
            words = format!("{words} {} {}", part.words(), counted(&part, one, many));
            end = part.end + 1;
        }
    }
    let scale_at = text.past_space(end);
    let scale = match text.str(scale_at) {
        "C" => " celsius",
        "F" => " fahrenheit",
        "K" => " kelvin",
        "N" => " north",
        "S" => " south",
        "E" => " east",
        "W" => " west",
        _ => return Reading::new(words, end),
    };
    Reading::new(format!("{words}{scale}"), scale_at + 1)
}

/// `one` where the number says one.
fn counted<'a>(n: &Numeral, one: &'a str, many: &'a str) -> &'a str {
    if n.is_one() { one } else { many }
}

/// 6'2", 5' 10", 6'4, 27", 5' before another; 5'30" is a time.
fn feet_and_inches(text: &Text<'_>, n: &Numeral, words: &str) -> Option<Reading> {
    if text.is(n.end, "\"") && !text.is_word(n.end + 1) && !text.is_quoted(n.end, "\"") {
        return Some(Reading::new(
            format!("{words} {}", counted(n, "inch", "inches")),
            n.end + 1,
        ));
    }
    if !text.is(n.end, "'") || text.is_word(n.end + 1) {
        return None;
    }
    let feet = format!("{words} {}", counted(n, "foot", "feet"));
    let next = text.past_space(n.end + 1);
    if let Some(second) = Numeral::at(text, next) {
        let short = second.small().is_some_and(|value| value < 12);
        let marked = text.is(second.end, "\"");
        if marked && !short && second.small().is_some_and(|value| value < 60) {
            let minutes = counted(n, "minute", "minutes");
            let words = format!("{words} {minutes} {} seconds", second.words());
            return Some(Reading::new(words, second.end + 1));
        }
        if marked && second.whole.len() < 3 || short && next == n.end + 1 && !text.is_word(second.end) {
            let words = format!("{feet} {} {}", second.words(), counted(&second, "inch", "inches"));
            return Some(Reading::new(words, second.end + usize::from(marked)));
        }
    }
    (!text.is_quoted(n.end, "'")).then(|| Reading::new(feet, n.end + 1))
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
    let &(ref found, near) = unit::find(written)?;
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
        && (next > end
            && (text.is_capitalised(next) && !abbrev::starts_sentence(text.str(next))
                || text.is_digits(next) && text.is_word(next + 1))
            || at > 0 && place::is_road(text, at - 1));
    // "a 5 b 6 c 7"
    let listed = !touching
        && written.len() == 1
        && !counts
        && text.after_gap(at.wrapping_sub(1))
        && text.before(at.wrapping_sub(1)).is_some_and(|before| {
            text.is_word(before) && text.str(before).len() == 1 && !text.is_any(before, &["a", "A", "x", "X"])
        });
    if !may_stand
        || listed
        || directed
        || text.is_digits(end)
        || text.is(end, "'")
        || (text.is_any(end, &["-", "@", "_"]) && text.is_word(end + 1))
    {
        return None;
    }
    let stop = abbreviated && abbrev::is_dotted_unit(written);
    Some((NamedUnit::new(found, power), end + usize::from(stop)))
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
    // "N·m"
    if text.is(at, "N") && text.is_space(at + 1) && text.is(at + 2, "m") && !text.is(at + 3, "'") {
        return Some((NamedUnit::called("newton meter", "newton meters"), at + 3));
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

/// Things that are counted by, behind a slash, with the units.
static PER: &str = "\
    barrel bottle box call capita case class customer day dose employee game head hour household item line liter litre \
    meal mile minute month night page patient person piece pound quarter request seat second serving session share \
    shift student unit user visit week year";
/// Words behind a unit of one letter or a short word, which could be an article or a preposition.
static MEASURED: &str = "\
    above and at below breaker by charger circuit current deep diameter for from fuse high is long max maximum of on or \
    outside over per rain round snow tall thick to today tomorrow wide x";
/// Words behind inches that leave no doubt.
static INCHES_BEHIND: &str = "deep diameter high long of per rain round snow square tall thick wide x";
/// Words and signs before a number of inches.
static INCHES_BEFORE: &str = "\
    about above accumulation approximately around at average below by exactly feet ft height is least length \
    measures most nearly of over rain rainfall roughly size snow snowfall to under was width";

/// True if a letter or a short word behind a number can only be a unit.
fn is_sure(text: &Text<'_>, at: usize, end: usize, written: &str, touching: bool) -> bool {
    let next = text.past_space(end);
    let ends = text.is_gap(end) && !text.is_space(end) || text.kind(end) == Some(Kind::Symbol);
    let measured = next > end && text.is_one_of(next, MEASURED);
    let decimal = at > 1 && text.is(at - 2, ".");
    let digits = text.str(at.wrapping_sub(1)).len() > 1 || decimal;
    match written {
        "in" => {
            let first = at.wrapping_sub(if decimal { 3 } else { 1 });
            let before = first == 0
                || text.is_any(first.wrapping_sub(1), &["-", "\u{2013}", "/", "~"])
                || text
                    .before(first)
                    .is_some_and(|before| text.is_any(before, &[":", "=", "x", ","]))
                || text.follows(first, INCHES_BEFORE);
            // "a 3 in pipe"
            let article =
                text.follows(first, "a an") && text.is_word(next) && !text.is_one_of(next, "a an the");
            if article {
                return true;
            }
            let sure = decimal || before;
            touching
                || text.follows(first, "ft feet foot") && !text.is_one_of(next, "a an the")
                || text.is_one_of(next, INCHES_BEHIND)
                || sure && (ends || measured)
        }
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

/// "/h" or "/kg/day" after a unit or an amount: what it is counted by, and the token after it. With blanks around the slash, and behind
/// what is `loose`, only units and what is often counted by are that.
pub(super) fn per(text: &Text<'_>, at: usize, loose: bool) -> (String, usize) {
    let mut words = String::new();
    let mut end = at;
    loop {
        let slash = text.past_space(end);
        let from = if slash > end {
            text.past_space(slash + 1)
        } else {
            slash + 1
        };
        if !text.is(slash, "/") || (slash > end) != (from > slash + 1) {
            break;
        }
        let sure = slash > end || loose || end > at;
        let Some((word, behind)) = counter(text, from, sure) else {
            break;
        };
        if text.is(behind, "/") && counter(text, behind + 1, true).is_none() {
            break;
        }
        words = format!("{words} per {word}");
        end = behind;
    }
    (words, end)
}

/// The unit or thing at `at` by which something is counted, and the token after it.
fn counter(text: &Text<'_>, at: usize, sure: bool) -> Option<(String, usize)> {
    if let Some(product) = product(text, at) {
        return Some(product);
    }
    if let Some(n) = Numeral::at(text, at) {
        let (unit, end) = unit_of(text, n.end, true).filter(|_| !sure)?;
        return Some((
            format!("{} {}", n.words(), counted(&n, &unit.one, &unit.many)),
            end,
        ));
    }
    if let Some((unit, end)) = unit_of(text, at, true) {
        return Some((unit.one, end));
    }
    let known = text.is_one_of(at, PER);
    (text.is_word(at) && (known || !sure)).then(|| (acronym::reading(text.str(at), text.shouted()), at + 1))
}

/// "(h ft²)": units that are multiplied.
fn product(text: &Text<'_>, at: usize) -> Option<(String, usize)> {
    if !text.is(at, "(") {
        return None;
    }
    let mut words = Vec::new();
    let mut at = at + 1;
    while !text.is(at, ")") {
        let (unit, end) = unit_of(text, at, true)?;
        words.push(unit.one);
        at = text.past_space(end + usize::from(text.is(end, "*")));
    }
    (!words.is_empty()).then(|| (words.join(" "), at + 1))
}
