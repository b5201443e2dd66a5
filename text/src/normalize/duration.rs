//! Durations: 1h 30m, 2d4h, 0:05:00, PT1H30M, 5m beside a word that makes it minutes.

use super::number;
use super::numeral::Numeral;
use super::rules::Reading;
use super::text::{Kind, Text};

/// Units from the longest on: how they are written, and their name.
#[rustfmt::skip]
static UNITS: [(&[&str], &str); 8] = [
    (&["y", "yr", "yrs"], "year"), (&["mo", "mos"], "month"), (&["w", "wk", "wks"], "week"), (&["d", "day", "days"], "day"),
    (&["h", "hr", "hrs", "hour", "hours"], "hour"), (&["m", "min", "mins", "minute", "minutes"], "minute"),
    (&["s", "sec", "secs", "second", "seconds"], "second"), (&["ms"], "millisecond"),
];
const HOUR: usize = 4;
const MINUTE: usize = 5;
const SECOND: usize = 6;

/// Words near which "5m" is five minutes.
static NEAR: &str = "\
    ago alarm break countdown delay duration elapsed eta interval lasted meeting nap paused remaining reminder sleep \
    sleeping snooze snoozed started starts timeout timer timers uptime wait waited waiting";
/// Words near which "5:00" is five minutes.
static NEAR_CLOCK: &str = "countdown duration elapsed lasted remaining timer";
/// Words directly before "5m" that make it five minutes.
static BEFORE: &str = "after another every for in lasts last next past takes took within";
/// Words directly behind "5m" that make it five meters.
static BEHIND_LENGTHS: &str = "above ahead apart away below deep from high in long of tall walk wide";

/// Reads a duration.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    if at > 0 && matches!(text.kind(at - 1), Some(Kind::Word | Kind::Digits)) {
        return None;
    }
    if text.is_word(at) {
        return iso(text, at);
    }
    if !text.is_digits(at) || at > 0 && text.is_any(at - 1, &[":", ".", ",", "/", "$", "€", "£"]) {
        return None;
    }
    clock(text, at).or_else(|| in_a_row(text, at))
}

fn part(digits: &str, unit: usize) -> String {
    let name = UNITS[unit].1;
    let plural = if digits.trim_start_matches('0') == "1" {
        ""
    } else {
        "s"
    };
    format!("{} {name}{plural}", number::cardinal(digits))
}

/// The unit written at `at`.
fn unit(text: &Text<'_>, at: usize) -> Option<usize> {
    UNITS.iter().position(|(written, _)| text.is_any(at, written))
}

/// "1h 30m", "1h30", or "5m" near a word that says what it is.
fn in_a_row(text: &Text<'_>, at: usize) -> Option<Reading> {
    let mut parts: Vec<String> = Vec::new();
    let mut units: Vec<usize> = Vec::new();
    let mut at_part = at;
    let mut end = at;
    while let Some(n) = Numeral::at(text, at_part) {
        if units.last() == Some(&HOUR)
            && at_part == end
            && n.is_whole()
            && n.whole.len() == 2
            && !text.is_word(n.end)
            && !text.is(n.end, "%")
        {
            parts.push(part(&n.whole, MINUTE));
            units.push(MINUTE);
            end = n.end;
            break;
        }
        let sign = text.past_space(n.end);
        let Some(unit) = unit(text, sign) else { break };
        let falls = units.last().is_none_or(|&last| last < unit);
        let written = text.str(sign).len() > 3;
        if !falls || (written && sign == n.end) || text.is_any(sign + 1, &["/", "^", "²", "'", "@"]) {
            break;
        }
        let name = UNITS[unit].1;
        let plural = if n.is_one() { "" } else { "s" };
        parts.push(format!("{} {name}{plural}", n.words()));
        units.push(unit);
        end = sign + 1;
        at_part = if text.is(end, ",") && text.is_space(end + 1) {
            end + 2
        } else {
            text.past_space(end)
        };
    }
    let more = matches!(text.kind(end), Some(Kind::Word | Kind::Digits));
    if units.is_empty() || more {
        return None;
    }
    let single = units.len() == 1;
    if single && !(units[0] == MINUTE && text.is(end - 1, "m") && near(text, at, end)) {
        return None;
    }
    // "5 m 30" of a length has no other unit of time.
    let timed = units
        .iter()
        .any(|&unit| matches!(unit, HOUR | MINUTE | SECOND) || unit < HOUR);
    timed.then(|| Reading::new(parts.join(" "), end))
}

/// True if a word beside the tokens says that they are a time.
fn near(text: &Text<'_>, at: usize, end: usize) -> bool {
    let length = text.is_one_of(text.past_space(end), BEHIND_LENGTHS);
    let far = text.str(at).len() > 2;
    let timed = text.is_one_of(text.past_space(end), "early late later left read");
    !length && !far && (timed || text.follows(at, BEFORE) || text.near(at, end, NEAR))
}

/// "0:05:00", "1:30:00"; "12:30:45" is a time of day unless a word says otherwise, and so is "5:00".
fn clock(text: &Text<'_>, at: usize) -> Option<Reading> {
    let two = |i: usize| text.is_digits(i) && text.str(i).len() == 2 && text.str(i) < "60";
    if !text.is(at + 1, ":") || !two(at + 2) {
        return None;
    }
    let seconds = text.is(at + 3, ":") && two(at + 4);
    let end = if seconds { at + 5 } else { at + 3 };
    let half = text
        .lower(text.past_space(end))
        .is_some_and(|word| matches!(word.as_str(), "am" | "pm" | "a" | "p"));
    if half || text.is(end, ":") || matches!(text.kind(end), Some(Kind::Word | Kind::Digits)) {
        return None;
    }
    let first = text.str(at);
    let named = text.near(at, end, NEAR_CLOCK);
    let parts: Vec<(&str, usize)> = match (seconds, first) {
        (true, _) if first.len() == 1 || first == "00" || named => {
            vec![
                (first, HOUR),
                (text.str(at + 2), MINUTE),
                (text.str(at + 4), SECOND),
            ]
        }
        (false, "0") => vec![(text.str(at + 2), SECOND)],
        (false, _) if named && text.word_before(at).is_none_or(|word| word != "at") => {
            vec![(first, MINUTE), (text.str(at + 2), SECOND)]
        }
        _ => return None,
    };
    let said: Vec<String> = parts
        .iter()
        .filter(|(digits, _)| !digits.trim_start_matches('0').is_empty())
        .map(|&(digits, unit)| part(digits, unit))
        .collect();
    if said.is_empty() {
        Some(Reading::new("zero seconds", end))
    } else {
        Some(Reading::new(said.join(" "), end))
    }
}

/// "PT1H30M", "P1DT2H"
fn iso(text: &Text<'_>, at: usize) -> Option<Reading> {
    let end = (at..at + 16).find(|&i| !matches!(text.kind(i), Some(Kind::Word | Kind::Digits)))?;
    let mut rest = text.slice(at, end).strip_prefix('P')?;
    let mut said = Vec::new();
    let mut timed = false;
    while !rest.is_empty() {
        if let Some(more) = rest.strip_prefix('T').filter(|_| !timed) {
            timed = true;
            rest = more;
            continue;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let unit = match rest.get(digits..digits + 1)? {
            "Y" if !timed => 0,
            "M" if !timed => 1,
            "W" if !timed => 2,
            "D" if !timed => 3,
            "H" if timed => HOUR,
            "M" if timed => MINUTE,
            "S" if timed => SECOND,
            _ => return None,
        };
        if digits == 0 {
            return None;
        }
        said.push(part(&rest[..digits], unit));
        rest = &rest[digits + 1..];
    }
    (!said.is_empty() && (timed || said.len() > 1)).then(|| Reading::new(said.join(" "), end))
}
