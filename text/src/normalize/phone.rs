//! Telephone numbers, read digit by digit with a pause between groups.

use super::identifier;
use super::rules::Reading;
use super::text::{Kind, Text};

const MAX_GROUPS: usize = 8;

/// Reads a telephone number.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    let plus = text.is(at, "+");
    let start = at + usize::from(plus);
    if !plus && !text.is_digits(start) && !text.is(start, "(") {
        return None;
    }
    let before = at.checked_sub(1).and_then(|before| text.kind(before));
    if matches!(before, Some(Kind::Word | Kind::Digits))
        || (at > 0 && text.is_any(at - 1, &["-", ".", "/", "$", ","]))
    {
        return None;
    }
    let (groups, end) = groups(text, start)?;
    let follows = matches!(text.kind(end), Some(Kind::Word | Kind::Digits));
    if follows || !is_number(plus, &groups) {
        return None;
    }
    let plus = if plus { "plus " } else { "" };
    let groups = identifier::in_groups(groups.iter().map(|group| group.digits));
    Some(Reading::new(format!("{plus}{groups}"), end))
}

struct Group<'a> {
    digits: &'a str,
    /// The sign before it: "-", ".", " " or "(".
    separator: &'a str,
}

/// The groups of digits from `start` on, and the token after them.
fn groups<'a>(text: &Text<'a>, start: usize) -> Option<(Vec<Group<'a>>, usize)> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut end = start;
    while groups.len() < MAX_GROUPS {
        let mut next = end;
        let mut separator = "";
        if !groups.is_empty() && (text.is_any(next, &["-", ".", "/"]) || text.is_space(next)) {
            separator = if text.is_space(next) { " " } else { text.str(next) };
            next += 1;
        }
        if text.is(next, "(") && text.is_digits(next + 1) && text.is(next + 2, ")") {
            groups.push(Group {
                digits: text.str(next + 1),
                separator: "(",
            });
            end = next + 3;
            continue;
        }
        let after_bracket = groups.last().is_some_and(|group| group.separator == "(");
        if !text.is_digits(next) || (!groups.is_empty() && separator.is_empty() && !after_bracket) {
            break;
        }
        let separator = if separator.is_empty() && after_bracket {
            " "
        } else {
            separator
        };
        groups.push(Group {
            digits: text.str(next),
            separator,
        });
        end = next + 1;
    }
    (!groups.is_empty()).then_some((groups, end))
}

fn is_number(plus: bool, groups: &[Group<'_>]) -> bool {
    let total: usize = groups.iter().map(|group| group.digits.len()).sum();
    if plus {
        return (7..=15).contains(&total) && (groups.len() > 1 || total >= 9);
    }
    let lengths: Vec<usize> = groups.iter().map(|group| group.digits.len()).collect();
    let uniform = groups[1..]
        .windows(2)
        .all(|pair| pair[0].separator == pair[1].separator);
    match lengths.as_slice() {
        [3, 3, 4] => uniform || groups[0].separator == "(",
        [1, 3, 3, 4] => groups[0].digits == "1",
        [3, 4] => groups[1].separator == "-",
        // "030/901820"; a date has shorter groups
        [3..=5, 5..=8] if groups[1].separator == "/" => groups[0].digits.starts_with('0'),
        _ if groups.iter().any(|group| group.separator == "/") => false,
        [_, _, ..] => {
            let longest = if groups[0].digits.starts_with("00") {
                15
            } else {
                12
            };
            groups[0].digits.starts_with('0') && uniform && (9..=longest).contains(&total)
        }
        _ => false,
    }
}
