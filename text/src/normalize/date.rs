//! Calendar dates: 2026-11-20, 11/20/2026, Nov 20, 2026, 20 November 2026, and short names of months and weekdays.

use super::rules::Reading;
use super::text::Text;
use super::{number, time, unit};
use crate::abbrev;

/// A day and a month, and perhaps a year.
#[derive(Debug, Clone, Copy)]
struct Date<'a> {
    month: usize,
    day: usize,
    year: Option<&'a str>,
}

impl Date<'_> {
    /// "november twentieth, twenty twenty-six"; nothing if there is no such day.
    fn words(&self) -> Option<String> {
        let month = self.month.checked_sub(1).and_then(|i| abbrev::MONTHS.get(i))?.1;
        if !(1..=31).contains(&self.day) {
            return None;
        }
        let day = number::ordinal(&self.day.to_string());
        Some(match self.year {
            Some(year) => format!("{month} {day}, {}", year_words(year)),
            None => format!("{month} {day}"),
        })
    }
}

fn year_words(digits: &str) -> String {
    match digits.len() {
        4 => number::year(digits),
        _ => number::short_year(digits),
    }
}

/// Reads a date.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    if text.is_digits(at) {
        if at > 0 && text.is_word(at - 1) {
            return None;
        }
        return iso(text, at)
            .or_else(|| year_and_month(text, at))
            .or_else(|| with_slashes(text, at))
            .or_else(|| without_year(text, at))
            .or_else(|| day_first(text, at));
    }
    if !text.is_word(at) {
        return None;
    }
    month_first(text, at)
        .or_else(|| names_in_a_row(text, at))
        .or_else(|| short_name(text, at))
}

fn small(text: &Text<'_>, at: usize) -> Option<usize> {
    let digits = text.str(at);
    if text.is_digits(at) && digits.len() <= 2 {
        digits.parse().ok()
    } else {
        None
    }
}

fn year<'a>(text: &Text<'a>, at: usize) -> Option<&'a str> {
    let digits = text.str(at);
    (text.is_digits(at) && digits.len() == 4 && digits.starts_with(['1', '2'])).then_some(digits)
}

fn iso(text: &Text<'_>, at: usize) -> Option<Reading> {
    let year = year(text, at)?;
    let sign = text.str(at + 1);
    if !matches!(sign, "-" | "/") || text.str(at + 3) != sign || text.is(at + 5, sign) {
        return None;
    }
    let date = Date {
        month: small(text, at + 2)?,
        day: small(text, at + 4)?,
        year: Some(year),
    };
    let words = date.words()?;
    let joined = text.is_any(at + 5, &["T", "t"]);
    if (joined || text.is_space(at + 5))
        && let Some(clock) = time::clock(text, at + 6)
    {
        // Parts of a second say nothing to a listener.
        let parts = text.is(clock.end, ".") && text.is_digits(clock.end + 1);
        let (zone, end) = zone(text, clock.end + if parts { 2 } else { 0 });
        return Some(Reading::new(format!("{words}, {}{zone}", clock.words), end));
    }
    Some(Reading::new(words, at + 5))
}

/// The distance of a time stamp from UTC, and the token after that.
fn zone(text: &Text<'_>, at: usize) -> (String, usize) {
    if text.is_any(at, &["Z", "z"]) && !text.is_digits(at + 1) {
        return (" u t c".to_owned(), at + 1);
    }
    let name = match text.str(at) {
        "+" => "plus",
        "-" | "\u{2013}" => "minus",
        _ => return (String::new(), at),
    };
    let digits = text.str(at + 1);
    let (hours, minutes, end) = match digits.len() {
        2 if text.is(at + 2, ":") && text.str(at + 3).len() == 2 => (digits, text.str(at + 3), at + 4),
        2 => (digits, "00", at + 2),
        4 => (&digits[..2], &digits[2..], at + 2),
        _ => return (String::new(), at),
    };
    if !text.is_digits(at + 1) {
        return (String::new(), at);
    }
    let minutes = match minutes {
        "00" => String::new(),
        minutes => format!(" {}", number::cardinal(minutes)),
    };
    match hours {
        "00" if minutes.is_empty() => (" u t c".to_owned(), end),
        hours => (format!(" u t c {name} {}{minutes}", number::cardinal(hours)), end),
    }
}

/// "2020-12" and "12/2020"; "2020-21" and "the 2011-12 season" are two years.
fn year_and_month(text: &Text<'_>, at: usize) -> Option<Reading> {
    let dashed = year(text, at).filter(|_| text.is(at + 1, "-"));
    let (year, month) = match dashed {
        Some(year) => (year, text.str(at + 2)),
        None => (year(text, at + 2).filter(|_| text.is(at + 1, "/"))?, text.str(at)),
    };
    let before = text.word_before(at).unwrap_or_default();
    let since = matches!(
        before.as_str(),
        "in" | "since" | "by" | "until" | "expires" | "from"
    );
    let two = month.len() == 2 || dashed.is_none() && month.len() == 1 && since;
    let number: usize = month.parse().ok().filter(|n| two && (1..=12).contains(n))?;
    let behind = text.lower(text.past_space(at + 3)).unwrap_or_default();
    let years = matches!(
        behind.as_str(),
        "season" | "seasons" | "school" | "academic" | "fiscal" | "financial" | "campaign" | "winter"
    );
    let more = text.is_any(at + 3, &["-", "/"]) && text.is_digits(at + 4)
        || matches!(
            text.kind(at + 3),
            Some(super::text::Kind::Word | super::text::Kind::Digits)
        )
        || at > 0 && text.is_any(at - 1, &["-", "/", "$"]);
    (!years && !more).then(|| {
        Reading::new(
            format!("{} {}", abbrev::MONTHS[number - 1].1, number::year(year)),
            at + 3,
        )
    })
}

fn with_slashes(text: &Text<'_>, at: usize) -> Option<Reading> {
    let sign = text.str(at + 1);
    if !matches!(sign, "/" | ".") || text.str(at + 3) != sign || !text.is_digits(at + 4) {
        return None;
    }
    if text.is_any(at + 5, &["/", "."]) && text.is_digits(at + 6) {
        return None;
    }
    let first = small(text, at)?;
    let second = small(text, at + 2)?;
    let year = match text.str(at + 4) {
        digits if digits.len() == 2 && sign == "/" => digits,
        _ => year(text, at + 4)?,
    };
    // Full stops are how days are written where the day comes first.
    let swapped = sign == "." || first > 12;
    let (month, day) = if swapped { (second, first) } else { (first, second) };
    Some(Reading::new(
        Date {
            month,
            day,
            year: Some(year),
        }
        .words()?,
        at + 5,
    ))
}

/// "on 11/20": only after a word that makes it a date and not a fraction.
fn without_year(text: &Text<'_>, at: usize) -> Option<Reading> {
    if !text.is(at + 1, "/") {
        return None;
    }
    // "Monday, 3/4"
    let comma = text.before(at).filter(|&before| text.is(before, ","));
    let name = text
        .before(comma.unwrap_or(at))
        .filter(|&name| text.is_capitalised(name));
    let weekday = name
        .and_then(|name| text.lower(name))
        .is_some_and(|word| abbrev::weekday(&word).is_some());
    let on = weekday || text.follows(at, "arrives delivered due ends expires on starting starts");
    // "12/24 - 12/26", but "1/2 - 3/4 cup"
    let day = |at: usize| small(text, at).is_some() && text.is(at + 1, "/") && small(text, at + 2).is_some();
    let late = |at: usize| small(text, at + 2).is_some_and(|day| day > 12 && !matches!(day, 16 | 32));
    let pair = |first: usize, last: usize| day(first) && day(last) && (late(first) || late(last));
    let ranged = at > 5 && text.is_any(at - 2, &["-", "\u{2013}"]) && pair(at - 6, at)
        || text
            .dash(at + 3)
            .is_some_and(|dash| dash.spaced && pair(at, dash.next));
    if !(on || ranged)
        || text.slice(at, at + 3) == "9/11"
        || text.is(at + 3, "/")
        || text.is(text.past_space(at + 3), "of")
        || text
            .lower(text.past_space(at + 3))
            .is_some_and(|word| unit::is_name(&word))
    {
        return None;
    }
    let date = Date {
        month: small(text, at)?,
        day: small(text, at + 2)?,
        year: None,
    };
    Some(Reading::new(date.words()?, at + 3))
}

/// The month a word names where a number beside it makes it one: capitalised if it is also an ordinary word.
fn month(text: &Text<'_>, at: usize) -> Option<usize> {
    let lower = text.lower(at)?;
    let month = abbrev::month(&lower)?;
    let ordinary = matches!(
        lower.as_str(),
        "may" | "march" | "mar" | "jan" | "dec" | "sep" | "oct"
    );
    (!ordinary || text.is_capitalised(at)).then_some(month)
}

/// A day of the month, with or without its ordinal ending, and the token after it.
fn day(text: &Text<'_>, at: usize) -> Option<(usize, usize)> {
    let day = small(text, at)?;
    let suffix = text.is_word(at + 1) && is_ordinal_suffix(text.str(at + 1));
    let end = at + 1 + usize::from(suffix);
    let more = text.is_word(end)
        || (text.is_any(end, &[":", "/", "%"]) || text.is(end, ".") && text.is_digits(end + 1));
    ((1..=31).contains(&day) && !more).then_some((day, end))
}

/// True if letters after digits make them an ordinal.
pub(super) fn is_ordinal_suffix(word: &str) -> bool {
    ["st", "nd", "rd", "th"]
        .iter()
        .any(|suffix| word.eq_ignore_ascii_case(suffix))
}

/// "Nov 20, 2026", "November 20th", "Nov. 20-25", "Nov 2026"
fn month_first(text: &Text<'_>, at: usize) -> Option<Reading> {
    let month = month(text, at)?;
    let after = at + 1 + usize::from(text.is(at + 1, "."));
    let number = text.past_space(after);
    if let Some(year) = year(text, number) {
        let words = format!("{} {}", abbrev::MONTHS[month - 1].1, number::year(year));
        return Some(Reading::new(words, number + 1));
    }
    let (first, end) = day(text, number)?;
    let range = text.dash(end).and_then(|dash| day(text, dash.next));
    let end = range.map_or(end, |(_, end)| end);
    let year_at = text.past_space(end + usize::from(text.is(end, ",")));
    let year = if year_at > end { year(text, year_at) } else { None };
    let mut words = Date {
        month,
        day: first,
        year: None,
    }
    .words()?;
    if let Some((last, _)) = range {
        words = format!("{words} to {}", number::ordinal(&last.to_string()));
    }
    Some(match year {
        Some(year) => Reading::new(format!("{words}, {}", number::year(year)), year_at + 1),
        None => Reading::new(words, end),
    })
}

/// "20 November 2026", "20th of Nov."
fn day_first(text: &Text<'_>, at: usize) -> Option<Reading> {
    let (first, end) = day(text, at)?;
    let last = text.dash(end).and_then(|dash| day(text, dash.next));
    let (day, end) = last.unwrap_or((first, end));
    let mut month_at = text.past_space(end);
    if text.is(month_at, "of") {
        month_at = text.past_space(month_at + 1);
    }
    if month_at == end {
        return None;
    }
    let month = month(text, month_at)?;
    let stop = text.is(month_at + 1, ".") && text.str(month_at).len() <= 4;
    let end = month_at + 1 + usize::from(stop);
    let article = text
        .before(at)
        .is_some_and(|before| text.str(before).eq_ignore_ascii_case("the"));
    let the = if article { "" } else { "the " };
    let ordinal = |day: usize| number::ordinal(&day.to_string());
    let days = match last {
        Some(_) => format!("{the}{} to the {}", ordinal(first), ordinal(day)),
        None => format!("{the}{}", ordinal(day)),
    };
    let words = format!("{days} of {}", abbrev::MONTHS[month - 1].1);
    let year_at = text.past_space(end + usize::from(text.is(end, ",")));
    Some(match year(text, year_at) {
        Some(year) if year_at > end => Reading::new(format!("{words} {}", number::year(year)), year_at + 1),
        _ => Reading::new(words, end).may_stop(stop),
    })
}

/// "Mon-Fri", "January - March", "Q1-Q3", "A\u{2013}Z"
fn names_in_a_row(text: &Text<'_>, at: usize) -> Option<Reading> {
    let (kind, first, end) = name(text, at)?;
    let dash = text.dash(end)?;
    let (other, second, end) = name(text, dash.next)?;
    // A hyphen joins letters as well; only the whole alphabet is a range then.
    let letters = first < second && (dash.sign != "-" || (first.as_str(), second.as_str()) == ("a", "z"));
    let alike = kind == other && (kind != Name::Letter || letters);
    alike.then(|| Reading::new(format!("{first} to {second}"), end))
}

/// Something of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Weekday,
    Month,
    Quarter,
    Letter,
}

/// The name at `at` in words, and the token after it.
fn name(text: &Text<'_>, at: usize) -> Option<(Name, String, usize)> {
    let lower = text.lower(at)?;
    if text.is_any(at, &["Q", "H"]) && text.is_digits(at + 1) && text.str(at + 1).len() == 1 {
        let number = number::cardinal(text.str(at + 1));
        return Some((Name::Quarter, format!("{lower} {number}"), at + 2));
    }
    let capital = text.is_capitalised(at);
    if !text.is_digits(at + 1) && lower.len() == 1 && (capital || matches!(lower.as_str(), "a" | "z")) {
        return Some((Name::Letter, lower, at + 1));
    }
    if !capital {
        return None;
    }
    let end = at + 1 + usize::from(text.is(at + 1, ".") && lower.len() < 6);
    if let Some(day) = abbrev::weekday(&lower) {
        return Some((Name::Weekday, day.to_owned(), end));
    }
    let month = abbrev::month(&lower)?;
    let number = text.past_space(end);
    let dated = text.is_digits(number) && text.str(number).len() < 3;
    (!dated).then(|| (Name::Month, abbrev::MONTHS[month - 1].1.to_owned(), end))
}

/// "Jan." and "Mon," by themselves.
fn short_name(text: &Text<'_>, at: usize) -> Option<Reading> {
    if !text.is_capitalised(at) || text.str(at).len() > 5 {
        return None;
    }
    let lower = text.lower(at)?;
    let stop = text.is(at + 1, ".");
    let end = at + 1 + usize::from(stop);
    let next = text.past_space(end + usize::from(text.is(end, ",")));
    let dated = next > end
        && (text.is_digits(next)
            || month(text, next).is_some()
            || text.is_any(next, &["&", "and"])
                && text
                    .lower(text.past_space(next + 1))
                    .is_some_and(|day| abbrev::weekday(&day).is_some())
            || text.is_one_of(next, "closed off open only morning afternoon evening night"));
    if let Some(weekday) = abbrev::weekday(&lower)
        && ((stop
            && (lower != "sun"
                || text
                    .before(at)
                    .is_some_and(|b| text.is_any(b, &["&", "and", "-"]))))
            || dated)
    {
        return Some(Reading::new(weekday, end).may_stop(stop));
    }
    let month = abbrev::month(&lower)?;
    let (short, long) = abbrev::MONTHS[month - 1];
    (stop && short != long && lower != long).then(|| Reading::new(long, end).may_stop(true))
}
