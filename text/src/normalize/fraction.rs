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
    // "2 3/4", "1-1/2"
    let next = text.past_space(n.end) + usize::from(text.is(n.end, "-"));
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
            None if inches(text, end) => Reading::new(format!("{words} inches"), end + 1),
            None => Reading::new(words, end),
        });
    }
    if let Some(reading) = idiom(text, n) {
        return Some(reading);
    }
    let (words, end) = named(text, n)?;
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

/// Words behind which the second number is how many there are: "step 1/3".
static OF: &str = "\
    attempt batch chapter chunk disc epoch episode file frame item iteration lap layer level page part phase \
    question round slide stage step task test track";

/// Two numbers that are said as such: "50/50", "24/7", "I give it 8/10.", "step 1/3", "a blood pressure of 120/80".
fn idiom(text: &Text<'_>, top: &Numeral) -> Option<Reading> {
    let (over, under, end) = parts(text, top)?;
    let below: usize = under.parse().ok()?;
    // "9/10 dentists", but "3/10 of them" and "3/10 mile"
    let behind = text.past_space(end);
    let part = text.is_one_of(behind, "of percent")
        || suffix(text, behind) > 0
        || text.lower(behind).is_some_and(|word| unit::is_name(&word))
        || quantity::unit_at(text, end).is_some();
    let rated = below == 10 && (2..11).contains(&over)
        || (over, below) == (5, 5)
        || over <= below && text.is_one_of(behind, "points stars");
    let shares = over + below == 100 && over % 5 == 0;
    let between = if over > below && text.near(top.end - 1, end, "bp pressure") {
        "over"
    } else if !part && over <= below && text.follows(top.end - 1, OF) {
        "of"
    } else if !part && rated {
        "out of"
    } else if over == below || shares || matches!((over, below), (24, 7) | (9, 11)) {
        ""
    } else {
        return None;
    };
    let words = [
        number::cardinal(&top.whole),
        between.to_owned(),
        number::cardinal(under),
    ];
    let words = words.join(" ").replace("  ", " ");
    let under = Numeral::at(text, top.end + 1).filter(|under| under.end == end)?;
    quantity::read(text, &under, &words).or_else(|| Some(Reading::new(words, end)))
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
        None if inches(text, end) => Reading::new(format!("{words} of an inch"), end + 1),
        None => Reading::new(words, end),
    }
}

/// True for the sign of inches: 1/8".
fn inches(text: &Text<'_>, at: usize) -> bool {
    text.is(at, "\"") && !text.is_word(at + 1) && !text.is_quoted(at, "\"")
}
