//! Fractions: 1/2, 2 3/4, 50/50.

use super::numeral::Numeral;
use super::rules::Reading;
use super::text::Text;
use super::{number, quantity, unit};

/// "1/2", "2 3/4"
pub(super) fn read(text: &Text<'_>, n: &Numeral) -> Option<Reading> {
    if !n.is_whole() {
        return None;
    }
    let next = text.past_space(n.end);
    if next > n.end && text.is_digits(next) && text.is(next + 1, "/") {
        let part = Numeral::at(text, next)?;
        let (words, end) = named(text, &part)?;
        let words = if words.starts_with("one ") {
            words.replacen("one ", "a ", 1)
        } else {
            words
        };
        let words = format!("{} and {words}", n.words());
        return Some(match quantity::unit_at(text, end) {
            Some((unit, end)) => Reading::new(format!("{words} {}", unit.many), end),
            None => Reading::new(words, end),
        });
    }
    let (words, end) = idiom(text, n).or_else(|| named(text, n))?;
    let sign = if n.negative { "minus " } else { "" };
    Some(with_unit(text, &format!("{sign}{words}"), end))
}

/// The numerator and the denominator, and the token after them.
fn parts<'a>(text: &Text<'a>, top: &Numeral) -> Option<(usize, &'a str, usize)> {
    let whole = text.is(top.end, "/") && text.is_digits(top.end + 1) && !text.is(top.end + 2, "/");
    whole
        .then(|| Some((top.small()?, text.str(top.end + 1), top.end + 2)))
        .flatten()
}

/// Two numbers that are said as such: "50/50", "24/7", "I give it 8/10."
fn idiom(text: &Text<'_>, top: &Numeral) -> Option<(String, usize)> {
    let (over, under, end) = parts(text, top)?;
    // "9/10 dentists", but "3/10 of them" and "3/10 mile"
    let behind = text.past_space(end);
    let part = text.is_one_of(behind, "of percent")
        || suffix(text, behind) > 0
        || text.lower(behind).is_some_and(|word| unit::is_name(&word))
        || quantity::unit_at(text, end).is_some();
    if under == "10" && (2..11).contains(&over) && !part {
        return Some((format!("{} out of ten", number::cardinal(&top.whole)), end));
    }
    let equal = top.whole == under;
    if equal || matches!((over, under), (24, "7") | (9, "11")) {
        return Some((
            format!("{} {}", number::cardinal(&top.whole), number::cardinal(under)),
            end,
        ));
    }
    None
}

/// The letters of an ordinal behind a denominator: "3/10ths".
fn suffix(text: &Text<'_>, at: usize) -> usize {
    usize::from(text.is_one_of(at, "nd nds rd rds th ths"))
}

/// The words of a numerator and its denominator, and the token after them.
fn named(text: &Text<'_>, top: &Numeral) -> Option<(String, usize)> {
    let (over, under, end) = parts(text, top)?;
    let below: usize = if under.len() > 4 {
        return None;
    } else {
        under.parse().ok()?
    };
    // Others are as often dates, scores or pages.
    let usual = over == 1 || below <= 12 || matches!(below, 16 | 20 | 32 | 50 | 64 | 100 | 128 | 256 | 1000);
    if below < 2 || over >= below || over == 0 || under.starts_with('0') || !usual {
        return None;
    }
    let name = match below {
        2 => "half".to_owned(),
        4 => "quarter".to_owned(),
        _ => number::ordinal(under),
    };
    let name = match over {
        1 => name,
        _ if below == 2 => "halves".to_owned(),
        _ => format!("{name}s"),
    };
    let words = format!("{} {name}", number::cardinal(&top.whole));
    Some((words, end + suffix(text, end)))
}

/// "3/4 km" is a part of one.
fn with_unit(text: &Text<'_>, words: &str, end: usize) -> Reading {
    match quantity::unit_at(text, end) {
        Some((unit, end)) => {
            let an = unit.one.starts_with(['a', 'e', 'i', 'o', 'u']) || unit.one.starts_with("hour");
            Reading::new(
                format!("{words} of {} {}", if an { "an" } else { "a" }, unit.one),
                end,
            )
        }
        None => Reading::new(words, end),
    }
}
