//! A dash between two things of a kind: from one to the other, or the one less the other.

use super::numeral::Numeral;
use super::rules::Rule;
use super::text::{Dash, Text};
use super::{measure, time};
use crate::abbrev;
use crate::list::listed;

/// Words beside which two numbers are the ends of a range, or two sides of a score.
static BEFORE: &str = "of \
    about age aged ages approximately around beat beats by chapter chapters days defeated draw drew every figures \
    final for from games grades hours in items lead leading leads led levels lines lose lost minutes months numbers \
    only open p page pages pp questions rooms rows score scored season sections seats steps the tied verses versions \
    victory weeks win wins won years players work works working hours";
/// Words before what is to be calculated.
static ASKED: &str = "calculate compute evaluate find is solve subtract what";
/// Words behind two numbers that are no things which are counted.
static NOT_COUNTED: &str = "and equals gives if is leaves makes or then";

/// Words behind a time and a number that are no things which are counted: "10 am - 12 daily".
static BEHIND_TIMES: &str = "and at daily every for in noon on only or weekdays weekends";
/// Words for an open end: "8 am - noon", "2019 - present".
static OPEN: &str = "midday midnight noon now present today";

/// Finds the word for the dash behind `at..end`, which `rule` read, and the dash.
pub(super) fn read<'a>(
    text: &Text<'a>,
    at: usize,
    end: usize,
    rule: Rule,
) -> Option<(&'static str, Dash<'a>)> {
    let dash = text.dash(end)?;
    let to = if text
        .before(at)
        .is_some_and(|b| text.str(b).eq_ignore_ascii_case("between"))
    {
        Some(("and", dash))
    } else {
        Some(("to", dash))
    };
    let minus = Some(("minus", dash));
    // "x^2 - 3"
    if text.is(at, "^") && dash.sign == "-" && text.is_word(at - 1) {
        return minus;
    }
    let equals = |end: usize| text.is(text.past_space(end), "=");
    let timed = matches!(rule, Rule::Time | Rule::Date);
    let first = Numeral::signed(text, at).filter(|n| n.end == end);
    let dated = first.as_ref().is_some_and(measure::is_year) || timed;
    // "No. 5 - No. 7", "FY2019 - FY2021"
    let named = text.lower(dash.next);
    let number = text.past_space(dash.next + 1 + usize::from(text.is(dash.next + 1, ".")));
    let named =
        named.is_some() && named == text.word_before(at) && text.is_digits(at) && text.is_digits(number);
    if text.is_one_of(dash.next, OPEN) && dated || named {
        return to;
    }
    let plain = Numeral::signed(text, dash.next);
    if rule != Rule::Measure {
        let like = timed || rule == Rule::Currency;
        if let Some(other) = like.then(|| rule.read(text, dash.next)).flatten() {
            return if equals(other.end) { minus } else { to };
        }
        // "10 am - 12"
        let hour = plain.filter(|n| rule == Rule::Time && n.small().is_some_and(|value| value < 25))?;
        let behind = text.past_space(hour.end);
        let free =
            !text.is_word(behind) || text.is_capitalised(behind) || text.is_one_of(behind, BEHIND_TIMES);
        return to
            .filter(|_| free && measure::read(text, dash.next).is_some_and(|read| read.end == hour.end));
    }
    let hour = first.as_ref().and_then(Numeral::small).is_some_and(|n| n < 25);
    if hour && time::read(text, dash.next).is_some() {
        return to;
    }
    let second = measure::read(text, dash.next)?;
    let plain = plain.filter(|n| n.end == second.end);
    let values = first
        .as_ref()
        .and_then(Numeral::value)
        .zip(plain.as_ref().and_then(Numeral::value));
    let rises = values.is_some_and(|(first, second)| first < second);
    if equals(second.end) && dash.spaced {
        return minus;
    }
    let signed = |at: usize| text.is_any(at, &["-", "+"]);
    // "5 - -3" is a difference, "-5 - +3" a range.
    if signed(dash.next) && !(signed(at) || text.is(dash.next, "+")) || !dash.spaced && dash.sign == "-" {
        return None;
    }
    if dash.sign == "\u{2014}" && (dash.spaced || !rises) {
        return None;
    }
    let (Some(plain), Some(first)) = (plain, first) else {
        return to;
    };
    let before = text.word_before(at).unwrap_or_default();
    let sum = text
        .before(at)
        .is_some_and(|b| text.is_any(b, &["=", "+", "*", "/", "×"]));
    let asked = listed(ASKED, &before) || sum;
    let years = measure::is_year(&first) && measure::is_year(&plain);
    if dash.sign != "-" || years && !asked || signed(dash.next) {
        return to;
    }
    // "in 2019 - 5 years ago", "lesson 3 - 10 words"
    if measure::is_year(&first) != measure::is_year(&plain) {
        return None;
    }
    let behind = text.past_space(second.end);
    let counted = behind > second.end
        && text.lower(behind).is_some_and(|word| {
            word.len() > 2 && !text.is_capitalised(behind) && !listed(NOT_COUNTED, &word)
        });
    let hours = values.is_some_and(|(first, second)| first < 13.0 && second < 13.0);
    let weekday = abbrev::weekday(&before).is_some();
    let name = |at: usize| text.is_capitalised(at) && text.str(at).len() > 1;
    let sides = at > 1 && name(at - 2) && behind > second.end && name(behind);
    let range = listed(BEFORE, &before) || weekday || (rises || hours && counted || sides) && !asked;
    to.filter(|_| range)
}
