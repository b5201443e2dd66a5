//! Numbers by what they are: ordinals, decades, versions, powers, large amounts, dimensions, ranges, years.

use super::numeral::Numeral;
use super::rules::Reading;
use super::text::{Kind, Text};
use super::{date, fraction, number, place, quantity, time, unit};
use crate::list::listed;

/// Reads a number.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    if text.is(at, "^") {
        return power(text, at);
    }
    if let Some(reading) = version(text, at) {
        return Some(reading);
    }
    if at > 0 && text.is_word(at - 1) {
        return in_name(text, at);
    }
    let n = Numeral::signed(text, at)?;
    ordinal(text, &n)
        .or_else(|| decade(text, at, &n))
        .or_else(|| fraction::read(text, &n))
        .or_else(|| ratio(text, &n))
        .or_else(|| scientific(text, &n))
        .or_else(|| emergency(text, at, &n))
        .or_else(|| scaled(text, at, &n))
        .or_else(|| dimensions(text, &n))
        .or_else(|| decimal_comma(text, &n))
        .or_else(|| range(text, at, &n))
        .or_else(|| {
            if is_named(text, at, &n) {
                return None;
            }
            quantity::read(text, &n, &n.words())
        })
        .or_else(|| year(text, at, &n))
        .or_else(|| Some(Reading::new(n.words(), n.end)))
}

/// "Seat 12 F", "gate 5 A"
fn is_named(text: &Text<'_>, at: usize, n: &Numeral) -> bool {
    text.is_space(n.end)
        && text.str(n.end + 1).len() == 1
        && text.is_capitalised(n.end + 1)
        && text.word_before(at).is_some_and(|word| place::is_place(&word))
}

/// "x^2"
fn power(text: &Text<'_>, at: usize) -> Option<Reading> {
    if text.after_gap(at) {
        return None;
    }
    let negative = text.is(at + 1, "-") && text.is_digits(at + 2);
    let n = Numeral::at(text, at + 1 + usize::from(negative))?;
    let words = match n.whole.as_str() {
        "2" if n.is_whole() && !negative => "squared".to_owned(),
        "3" if n.is_whole() && !negative => "cubed".to_owned(),
        _ => format!(
            "to the power of {}{}",
            if negative { "minus " } else { "" },
            n.words()
        ),
    };
    Some(Reading::new(words, n.end))
}

/// "v1.2.3" and "1.2.3"
fn version(text: &Text<'_>, at: usize) -> Option<Reading> {
    let named = text.is_any(at, &["v", "V"]) && text.is_digits(at + 1);
    let mut end = at + usize::from(named);
    if !text.is_digits(end) || (!named && at > 0 && matches!(text.kind(at - 1), Some(Kind::Word))) {
        return None;
    }
    let mut parts = vec![part(text.str(end))];
    end += 1;
    while text.is(end, ".") && text.is_digits(end + 1) {
        parts.push(part(text.str(end + 1)));
        end += 2;
    }
    if !named && parts.len() < 3 {
        return None;
    }
    let grouped = !named && Numeral::at(text, at).is_some_and(|n| n.grouped && n.end >= end);
    if grouped {
        return None;
    }
    let words = parts.join(" point ");
    Some(Reading::new(
        if named { format!("version {words}") } else { words },
        end,
    ))
}

fn part(digits: &str) -> String {
    if digits.len() > 1 && digits.starts_with('0') {
        number::spelled(digits)
    } else {
        number::cardinal(digits)
    }
}

/// Digits that are part of a name: "MP3", "H264".
fn in_name(text: &Text<'_>, at: usize) -> Option<Reading> {
    if !text.is_digits(at) {
        return None;
    }
    let digits = text.str(at);
    if digits.len() > 4 {
        return Some(Reading::new(number::spelled(digits), at + 1));
    }
    let n = Numeral::at(text, at)?;
    // "FY2019"
    if is_year(&n) && text.is_any(at - 1, &["FY", "CY", "AY"]) {
        return Some(Reading::new(number::year(&n.whole), n.end));
    }
    Some(Reading::new(n.words(), n.end))
}

/// "21st"
fn ordinal(text: &Text<'_>, n: &Numeral) -> Option<Reading> {
    if !n.is_whole() || !text.is_word(n.end) || !date::is_ordinal_suffix(text.str(n.end)) {
        return None;
    }
    Some(Reading::new(number::ordinal(&n.whole), n.end + 1))
}

/// "1990s", "90's", "the 80s"
fn decade(text: &Text<'_>, at: usize, n: &Numeral) -> Option<Reading> {
    if !n.is_whole() || n.grouped || n.negative || !n.whole.ends_with('0') {
        return None;
    }
    let apostrophe = text.is(n.end, "'");
    let end = n.end + usize::from(apostrophe);
    if !text.is(end, "s") {
        return None;
    }
    let before = text.before(at);
    let named = before.is_some_and(|b| {
        let word = text.str(b).to_ascii_lowercase();
        matches!(
            word.as_str(),
            "the" | "early" | "late" | "mid" | "'" | "-" | "your" | "my" | "his" | "her" | "their"
        )
    });
    let words = match n.whole.len() {
        4 if n.whole.starts_with(['1', '2']) => number::year(&n.whole),
        2 if named || apostrophe => number::cardinal(&n.whole),
        _ => return None,
    };
    Some(Reading::new(number::plural(&words), end + 1))
}

/// "1.33:1", "4.5/5"
fn ratio(text: &Text<'_>, n: &Numeral) -> Option<Reading> {
    let between = match text.str(n.end) {
        ":" => "to",
        "/" => "out of",
        _ => return None,
    };
    let second = Numeral::at(text, n.end + 1).filter(|second| !text.is_any(second.end, &["/", ":"]))?;
    let decimal = n.fraction.is_some()
        && (between == "to" || second.fraction.as_deref().is_none_or(|digits| digits == "0"));
    decimal.then(|| Reading::new(format!("{} {between} {}", n.words(), second.words()), second.end))
}

/// "911", "call 112"
fn emergency(text: &Text<'_>, at: usize, n: &Numeral) -> Option<Reading> {
    let known = listed("000 110 112 119 211 311 511 811 988 999", &n.whole)
        && (text.follows(at, "call dial ring") || text.near(at, n.end, "emergency"));
    let called = n.is_whole() && !n.negative && (n.whole == "911" || known) && n.end == at + 1;
    let counted = text
        .lower(text.past_space(n.end))
        .is_some_and(|word| is_plural(&word));
    (called && !text.is_word(n.end) && !(known && counted))
        .then(|| Reading::new(number::spelled(&n.whole), n.end))
}

/// "1e-6", "3.0 x 10^8 m/s"
fn scientific(text: &Text<'_>, n: &Numeral) -> Option<Reading> {
    let sign = text.past_space(n.end);
    let ten = text.past_space(sign + 1);
    if text.is_any(sign, &["x", "×", "*"]) && text.is(ten, "10") && text.is(ten + 1, "^") {
        let negative = text.is(ten + 2, "-");
        let exponent = Numeral::at(text, ten + 2 + usize::from(negative)).filter(Numeral::is_whole)?;
        let minus = if negative { "minus " } else { "" };
        let words = format!(
            "{} times ten to the power of {minus}{}",
            n.words(),
            exponent.words()
        );
        let many = Numeral {
            whole: "10".to_owned(),
            ..exponent
        };
        return Some(quantity::read(text, &many, &words).unwrap_or_else(|| Reading::new(words, many.end)));
    }
    if !text.is_any(n.end, &["e", "E"]) {
        return None;
    }
    let sign = usize::from(text.is_any(n.end + 1, &["-", "+"]));
    let exponent = Numeral::at(text, n.end + 1 + sign).filter(|e| e.is_whole() && e.whole.len() <= 3)?;
    let minus = if text.is(n.end + 1, "-") { "minus " } else { "" };
    let words = format!(
        "{} times ten to the power of {minus}{}",
        n.words(),
        number::cardinal(&exponent.whole)
    );
    let many = Numeral {
        whole: "10".to_owned(),
        ..exponent
    };
    // "1E2F" is a number of a program.
    let unit = text
        .is_space(many.end)
        .then(|| quantity::read(text, &many, &words));
    unit.flatten().or_else(|| Some(Reading::new(words, many.end)))
}

/// True if the number is the second of a name: "i7-13700K", "DDR5-6000", but no end of a range such as "B101-110".
pub(super) fn in_model(text: &Text<'_>, at: usize) -> bool {
    let joined = at > 2 && text.is(at - 1, "-") && text.is_digits(at - 2) && text.is_word(at - 3);
    let first = text.str(at.wrapping_sub(2));
    let second = text.str(at);
    joined && second.len() > 2 && (first.len() != second.len() || first >= second)
}

/// "10k", "5M", "7B": a letter for a large number directly after it.
fn scaled(text: &Text<'_>, at: usize, n: &Numeral) -> Option<Reading> {
    if text.word_before(at).is_some_and(|word| place::is_place(&word)) || in_model(text, at) {
        return None;
    }
    let scale = match text.str(n.end) {
        "k" => "thousand",
        "K" if !matches!(n.whole.as_str(), "4" | "8" | "2") => "thousand",
        "M" | "mn" => "million",
        // Not in the number of a house: "221B Baker Street".
        "B" if !text.is_capitalised(text.past_space(n.end + 1)) => "billion",
        "bn" => "billion",
        "T" => "trillion",
        _ => return None,
    };
    (!text.is_digits(n.end + 1)).then(|| Reading::new(format!("{} {scale}", n.words()), n.end + 1))
}

/// "1920x1080", "3 x 4 m", "2x"
fn dimensions(text: &Text<'_>, n: &Numeral) -> Option<Reading> {
    let sign = text.past_space(n.end);
    if !text.is_any(sign, &["x", "X", "×"]) {
        return None;
    }
    let next = text.past_space(sign + 1);
    if let Some(second) = Numeral::at(text, next).filter(|_| (next > sign + 1) == (sign > n.end)) {
        let mut said = vec![n.words(), second.words()];
        let mut last = second;
        // "20 x 30 x 5 cm"
        while text.is(text.past_space(last.end), text.str(sign))
            && let Some(more) = Numeral::at(text, text.past_space(text.past_space(last.end) + 1))
        {
            said.push(more.words());
            last = more;
        }
        // "9×13-inch", "1920×1080", but "3 x 5 = 15" and "2 x 500 mg"
        let unit = text.past_space(last.end + usize::from(text.is(last.end, "-")));
        let length = unit::is_length(text.str(unit)) || text.is_any(unit, &["\"", "'", "px"]);
        let size = sign == n.end && n.whole.len() > 2 && last.whole.len() > 2;
        let size = size || text.lower(unit).is_some_and(|word| unit::is_name(&word));
        let product = text.is(unit, "=")
            || quantity::unit_at(text, last.end).is_some() && !length
            || text.is(sign, "×") && !size;
        let between = if product && !length { " times " } else { " by " };
        let words = said.join(between);
        return quantity::read(text, &last, &words).or_else(|| Some(Reading::new(words, last.end)));
    }
    // "3x - 5"
    let operators = ["+", "-", "=", "^", "*", "/", "<", ">"];
    let sum = text
        .before(n.end - 1)
        .is_some_and(|before| text.is_any(before, &["=", "+", "*"]));
    let algebra = sum || text.is_any(text.past_space(sign + 1), &operators);
    (sign == n.end && text.is_any(sign, &["x", "×"]) && !text.is_word(sign + 1) && !algebra).then(|| {
        Reading::new(
            format!("{} {}", n.words(), if n.is_one() { "time" } else { "times" }),
            sign + 1,
        )
    })
}

/// "3,5 kg": a comma before a unit is that of a decimal.
fn decimal_comma(text: &Text<'_>, n: &Numeral) -> Option<Reading> {
    let decimals = text.str(n.end + 1);
    if !n.is_whole() || n.grouped || !text.is(n.end, ",") || !text.is_digits(n.end + 1) || decimals.len() > 2
    {
        return None;
    }
    let n = Numeral {
        fraction: Some(decimals.to_owned()),
        end: n.end + 2,
        ..n.clone()
    };
    quantity::read(text, &n, &n.words())
}

/// "10-20 km", "1990–1995"
fn range(text: &Text<'_>, at: usize, n: &Numeral) -> Option<Reading> {
    if !text.is_any(n.end, &["-", "\u{2013}"]) {
        return None;
    }
    if at > 1 && text.is(at - 1, "-") && text.is_word(at - 2) {
        return None;
    }
    let second = Numeral::at(text, n.end + 1)?;
    if text.is_any(second.end, &["-", "/", ":"]) && text.is_digits(second.end + 1) {
        return None;
    }
    let between = text
        .before(at)
        .is_some_and(|before| text.str(before).eq_ignore_ascii_case("between"));
    let to = if between { "and" } else { "to" };
    // "7-9 am"
    if let Some(time) = time::read(text, n.end + 1).filter(|time| time.end > second.end) {
        let words = format!("{} {to} {}", n.words(), time.words);
        return Some(Reading { words, ..time });
    }
    // "a 50-50 chance"
    if text.slice(at, second.end) == "50-50" {
        return Some(Reading::new("fifty-fifty", second.end));
    }
    let years = is_year(n) && (is_year(&second) || (second.whole.len() == 2 && second.is_whole()));
    let words = match (years, second.whole.len()) {
        (true, 2) => format!(
            "{} {to} {}",
            number::year(&n.whole),
            number::short_year(&second.whole)
        ),
        (true, _) => format!("{} {to} {}", number::year(&n.whole), number::year(&second.whole)),
        _ => format!("{} {to} {}", n.words(), second.words()),
    };
    Some(quantity::read(text, &second, &words).unwrap_or_else(|| Reading::new(words, second.end)))
}

pub(super) fn is_year(n: &Numeral) -> bool {
    n.is_whole()
        && !n.grouped
        && !n.negative
        && n.whole.len() == 4
        && n.small().is_some_and(|value| (1100..2100).contains(&value))
}

/// Four digits that no word around them makes an amount.
fn year(text: &Text<'_>, at: usize, n: &Numeral) -> Option<Reading> {
    // "flight UA 2417"
    let flight = n.whole.len() == 4
        && n.end == at + 1
        && at > 1
        && text.str(at - 2).len() == 2
        && text.is_capitalised(at - 2)
        && text.near(at, at + 1, "flight flights");
    if flight {
        return Some(Reading::new(number::year(&n.whole), n.end));
    }
    let before = text.before(at).and_then(|b| text.lower(b)).unwrap_or_default();
    let next = text.past_space(n.end);
    let counted = next > n.end && text.lower(next).is_some_and(|word| is_plural(&word));
    // "in 1066"
    let early = matches!(before.as_str(), "in" | "year")
        && !counted
        && n.whole.len() == 4
        && n.small().is_some_and(|value| (1010..1100).contains(&value));
    if !(is_year(n) || early)
        || text.is_word(n.end)
        || (at > 0
            && text.kind(at - 1) == Some(Kind::Symbol)
            && !text.is_any(at - 1, &["(", "'", "\"", "-", "/", "\u{2013}", "\u{2014}"]))
    {
        return None;
    }
    let dated = listed(
        "after before by circa during from in of since through until year",
        &before,
    );
    (dated || !counted).then(|| Reading::new(number::year(&n.whole), n.end))
}

/// True if a lower-case word names more than one thing.
pub(super) fn is_plural(word: &str) -> bool {
    word == "people"
        || (word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.contains('\''))
            && !matches!(word, "this" | "does" | "always" | "perhaps" | "thus" | "also")
}
