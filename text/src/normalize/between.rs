//! A dash between two things of a kind: from one to the other, or the one less the other.

use super::numeral::Numeral;
use super::rules::Rule;
use super::text::{Dash, Text};
use super::{measure, time};

/// Words beside which two numbers are the ends of a range, or two sides of a score.
#[rustfmt::skip]
static BEFORE: [&str; 62] = [
    "about", "age", "aged", "ages", "approximately", "around", "beat", "beats", "by", "chapter", "chapters", "days", "defeated", "draw",
    "drew", "every", "figures", "final", "for", "from", "games", "grades", "hours", "in", "items", "lead", "leading", "leads", "led", "levels",
    "lines", "lose", "lost", "minutes", "months", "numbers", "only", "open", "p", "page", "pages", "pp", "questions", "rooms", "rows",
    "score", "scored", "season", "sections", "seats", "steps", "the", "tied", "verses", "versions", "victory", "weeks", "win", "wins", "won",
    "years", "players",
];
/// Words before what is to be calculated.
static ASKED: [&str; 8] = [
    "calculate",
    "compute",
    "evaluate",
    "find",
    "is",
    "solve",
    "subtract",
    "what",
];
/// Words behind two numbers that are no things which are counted.
static NOT_COUNTED: [&str; 9] = [
    "and", "equals", "gives", "if", "is", "leaves", "makes", "or", "then",
];

/// Finds the word for the dash behind `at..end`, which `rule` read, and the dash.
pub(super) fn read<'a>(
    text: &Text<'a>,
    at: usize,
    end: usize,
    rule: Rule,
) -> Option<(&'static str, Dash<'a>)> {
    let dash = text.dash(end)?;
    let equals = |end: usize| text.is(text.past_space(end), "=");
    let to = || {
        if text
            .before(at)
            .is_some_and(|b| text.str(b).eq_ignore_ascii_case("between"))
        {
            Some(("and", dash))
        } else {
            Some(("to", dash))
        }
    };
    // "8 am - noon", "2019 - present"
    let open = text.is_any(
        dash.next,
        &["noon", "midnight", "midday", "present", "now", "today"],
    );
    let dated = Numeral::at(text, at).is_some_and(|n| measure::is_year(&n))
        || matches!(rule, Rule::Time | Rule::Date);
    // "No. 5 - No. 7", "FY2019 - FY2021"
    let named = text.lower(dash.next);
    let named = named.is_some() && named == text.word_before(at) && text.is_digits(at);
    if open && dated || named {
        return to();
    }
    if rule != Rule::Measure {
        let like = matches!(rule, Rule::Time | Rule::Date | Rule::Currency);
        let other = like.then(|| rule.read(text, dash.next)).flatten()?;
        return if equals(other.end) {
            Some(("minus", dash))
        } else {
            to()
        };
    }
    let first = Numeral::signed(text, at).filter(|n| n.end == end);
    let hour = first.as_ref().and_then(Numeral::small).is_some_and(|n| n < 25);
    if hour && time::read(text, dash.next).is_some() {
        return to();
    }
    let second = measure::read(text, dash.next)?;
    let plain = Numeral::at(text, dash.next).filter(|n| n.end == second.end);
    let behind = text.past_space(second.end);
    if equals(second.end) && dash.spaced {
        return Some(("minus", dash));
    }
    if dash.sign == "\u{2014}" || !dash.spaced && dash.sign == "-" || text.is_any(dash.next, &["-", "+"]) {
        return None;
    }
    let (Some(plain), Some(first)) = (plain, first) else {
        return to();
    };
    let before = text.word_before(at).unwrap_or_default();
    let asked = ASKED.contains(&before.as_str());
    if dash.sign != "-" || measure::is_year(&first) && measure::is_year(&plain) && !asked {
        return to();
    }
    // "in 2019 - 5 years ago", "lesson 3 - 10 words"
    if measure::is_year(&first) != measure::is_year(&plain) {
        return None;
    }
    let rises = first
        .small()
        .zip(plain.small())
        .is_some_and(|(first, second)| first < second);
    let counted = behind > second.end
        && text.lower(behind).is_some_and(|word| {
            word.len() > 2 && !text.is_capitalised(behind) && !NOT_COUNTED.contains(&word.as_str())
        });
    let name = |at: usize| text.is_capitalised(at) && text.str(at).len() > 1;
    let model =
        text.is_space(at.wrapping_sub(1)) && at > 1 && name(at - 2) && !ASKED.contains(&before.as_str());
    let sides = model && behind > second.end && name(behind);
    if BEFORE.contains(&before.as_str()) || rises && (counted || model) || sides {
        return to();
    }
    None
}
