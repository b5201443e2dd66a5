//! Times of day: 10:30, 7:05 a.m., 3 pm, 14:00, 12:30:45; and ratios, which are written alike.

use super::number;
use super::rules::Reading;
use super::text::Text;

/// Reads a time or a ratio.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    if !text.is_digits(at) || (at > 0 && (text.is_word(at - 1) || text.is_any(at - 1, &[":", "."]))) {
        return None;
    }
    clock(text, at)
        .or_else(|| hour(text, at))
        .or_else(|| ratio(text, at))
}

fn below(text: &Text<'_>, at: usize, len: std::ops::RangeInclusive<usize>, limit: usize) -> Option<usize> {
    let digits = text.str(at);
    if !text.is_digits(at) || !len.contains(&digits.len()) {
        return None;
    }
    digits.parse().ok().filter(|&n| n < limit)
}

/// A time with minutes.
pub(super) fn clock(text: &Text<'_>, at: usize) -> Option<Reading> {
    let hours = below(text, at, 1..=2, 25)?;
    if !text.is(at + 1, ":") {
        return None;
    }
    let minutes = below(text, at + 2, 2..=2, 60)?;
    let mut end = at + 3;
    let mut seconds = None;
    if text.is(end, ":") && text.is_digits(end + 1) {
        seconds = Some(below(text, end + 1, 2..=2, 60)?);
        end += 2;
    }
    if text.is(end, ":") && text.is_digits(end + 1) {
        return None;
    }
    let half = half_of_day(text, end);
    let mut words = hour_and_minutes(hours, minutes, half.is_some());
    if let Some(seconds) = seconds {
        let unit = if seconds == 1 { "second" } else { "seconds" };
        words = format!("{words} and {} {unit}", number::below_hundred(seconds));
    }
    Some(with_half(words, end, half))
}

fn hour_and_minutes(hours: usize, minutes: usize, half: bool) -> String {
    let hour = number::below_hundred(hours);
    match minutes {
        0 if half => hour,
        0 if (1..=12).contains(&hours) => format!("{hour} o'clock"),
        0 => format!("{hour} hundred"),
        1..10 => format!("{hour} oh {}", number::below_hundred(minutes)),
        _ => format!("{hour} {}", number::below_hundred(minutes)),
    }
}

/// "3 pm"
fn hour(text: &Text<'_>, at: usize) -> Option<Reading> {
    let hours = below(text, at, 1..=2, 13)?;
    let half = half_of_day(text, at + 1)?;
    Some(with_half(number::below_hundred(hours), at + 1, Some(half)))
}

struct Half {
    words: &'static str,
    end: usize,
    may_stop: bool,
}

fn with_half(words: String, end: usize, half: Option<Half>) -> Reading {
    match half {
        Some(half) => Reading::new(format!("{words} {}", half.words), half.end).may_stop(half.may_stop),
        None => Reading::new(words, end),
    }
}

/// "am", "PM", "a.m." from `at` on.
fn half_of_day(text: &Text<'_>, at: usize) -> Option<Half> {
    let at = text.past_space(at);
    let lower = text.lower(at)?;
    match lower.as_str() {
        "am" => Some(Half {
            words: "a m",
            end: at + 1,
            may_stop: false,
        }),
        "pm" => Some(Half {
            words: "p m",
            end: at + 1,
            may_stop: false,
        }),
        "a" | "p" if text.is(at + 1, ".") && text.is_any(at + 2, &["m", "M"]) => {
            let stop = text.is(at + 3, ".");
            let words = if lower == "a" { "a m" } else { "p m" };
            Some(Half {
                words,
                end: at + 3 + usize::from(stop),
                may_stop: stop,
            })
        }
        _ => None,
    }
}

/// "16:9"
fn ratio(text: &Text<'_>, at: usize) -> Option<Reading> {
    let short = |i| text.is_digits(i) && text.str(i).len() <= 4;
    if !short(at) || !text.is(at + 1, ":") || !short(at + 2) || text.is(at + 3, ":") {
        return None;
    }
    let words = format!(
        "{} to {}",
        number::cardinal(text.str(at)),
        number::cardinal(text.str(at + 2))
    );
    Some(Reading::new(words, at + 3))
}
