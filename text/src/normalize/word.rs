//! Words: abbreviations, dotted letters, Roman numerals, compounds, and all the rest as they are.

use super::rules::Reading;
use super::text::Text;
use super::{acronym, roman};
use crate::abbrev::{self, Abbreviation, Ends, When};

/// Most letters of a dotted abbreviation.
const MAX_DOTTED: usize = 8;

/// Dotted letters that are said in other words.
static DOTTED: [(&str, &str); 6] = [
    ("eg", "for example"),
    ("ie", "that is"),
    ("aka", "also known as"),
    ("ca", "circa"),
    ("nb", "note well"),
    ("rip", "rest in peace"),
];
/// Words written with a slash that are said in other words.
static SLASHED: [(&str, &str); 6] = [
    ("w/o", "without"),
    ("c/o", "care of"),
    ("n/a", "not applicable"),
    ("a/c", "air conditioning"),
    ("i/o", "i o"),
    ("b/c", "because"),
];
/// Names that end in signs.
static SIGNED: [(&str, &str, usize, &str); 4] = [
    ("c", "++", 3, "c plus plus"),
    ("g", "++", 3, "g plus plus"),
    ("c", "#", 2, "c sharp"),
    ("f", "#", 2, "f sharp"),
];

/// Reads a word, and what belongs to it.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    let lower = text.lower(at)?;
    dotted(text, at)
        .or_else(|| slashed(text, at))
        .or_else(|| signed(text, at, &lower))
        .or_else(|| saint(text, at, &lower))
        .or_else(|| abbreviation(text, at, &lower))
        .or_else(|| roman::read(text, at))
        .or_else(|| initial(text, at))
        .or_else(|| Some(compound(text, at)))
}

/// "e.g.", "U.S.", "p.m.", "Ph.D."
fn dotted(text: &Text<'_>, at: usize) -> Option<Reading> {
    if text.str(at) == "Ph" && text.is(at + 1, ".") && text.is(at + 2, "D") {
        let end = at + 3 + usize::from(text.is(at + 3, "."));
        return Some(Reading::new("p h d", end).may_stop(text.is(at + 3, ".")));
    }
    let mut letters = String::new();
    let mut end = at;
    while text.is_word(end) && text.str(end).len() == 1 && letters.len() < MAX_DOTTED {
        letters.push_str(text.str(end));
        end += 1;
        if !text.is(end, ".") {
            break;
        }
        end += 1;
    }
    let closed = text.is(end - usize::from(end > at), ".");
    if letters.len() < 2 || (!closed && text.is_digits(end)) {
        return None;
    }
    let lower = letters.to_ascii_lowercase();
    let said = DOTTED
        .iter()
        .find(|&&(written, _)| written == lower && letters == lower);
    let words = said.map_or_else(|| acronym::spaced(&lower), |&(_, said)| said.to_owned());
    Some(Reading::new(words, end).may_stop(closed && said.is_none()))
}

fn slashed(text: &Text<'_>, at: usize) -> Option<Reading> {
    if !text.is(at + 1, "/") {
        return None;
    }
    let written = text.slice(at, at + 3).to_ascii_lowercase();
    if let Some(&(_, said)) = SLASHED.iter().find(|&&(w, _)| w == written) {
        return Some(Reading::new(said, at + 3));
    }
    (text.is(at, "w") && text.is_gap(at + 2)).then(|| Reading::new("with", at + 2))
}

fn signed(text: &Text<'_>, at: usize, lower: &str) -> Option<Reading> {
    let found = SIGNED
        .iter()
        .find(|&&(word, sign, len, _)| word == lower && text.slice(at + 1, at + len) == sign)?;
    Some(Reading::new(found.3, at + found.2))
}

/// "St." and "Dr.": before a name or after one.
fn saint(text: &Text<'_>, at: usize, lower: &str) -> Option<Reading> {
    if !matches!(lower, "st" | "dr") || !text.is_capitalised(at) {
        return None;
    }
    let stop = text.is(at + 1, ".");
    let end = at + 1 + usize::from(stop);
    let before_name = text.is_space(end) && text.is_capitalised(end + 1);
    let after_name = text
        .before(at)
        .is_some_and(|before| before + 2 == at && text.is_capitalised(before));
    let words = match (lower, after_name, before_name) {
        ("st", true, _) if stop || !before_name => "street",
        ("st", _, true) => "saint",
        ("dr", true, false) => "drive",
        ("dr", ..) => "doctor",
        _ => return None,
    };
    Some(Reading::new(words, end).may_stop(stop && matches!(words, "street" | "drive")))
}

fn abbreviation(text: &Text<'_>, at: usize, lower: &str) -> Option<Reading> {
    let row = abbrev::find(lower)?;
    let stop = text.is(at + 1, ".");
    let end = at + 1 + usize::from(stop);
    if !applies(row, text, at, end) {
        return None;
    }
    Some(Reading::new(row.words, end).may_stop(stop && row.ends == Ends::Maybe))
}

fn applies(row: &Abbreviation, text: &Text<'_>, at: usize, end: usize) -> bool {
    let stop = end > at + 1;
    match row.when {
        // Not within a name such as "vs.example": a full stop that goes on is not one of an abbreviation.
        When::Always => !stop || !text.is_word(end),
        When::BeforeDigit => stop && text.is_digits(text.past_space(end)),
        When::Capital => stop && text.is_capitalised(at) && text.is_gap(end),
    }
}

/// The "J." of a name.
fn initial(text: &Text<'_>, at: usize) -> Option<Reading> {
    let letter =
        text.is_capitalised(at) && text.str(at).len() == 1 && text.str(at) != "I" && text.is(at + 1, ".");
    let named = text.is_space(at + 2) && text.is_capitalised(at + 3);
    (letter && named && !abbrev::starts_sentence(text.str(at + 3)))
        .then(|| Reading::new(text.str(at).to_ascii_lowercase(), at + 2))
}

/// A word, or several with hyphens between them. Hyphens stay where every part is a plain word.
fn compound(text: &Text<'_>, at: usize) -> Reading {
    let mut parts = vec![acronym::reading(text.str(at), text.shouted())];
    let mut end = at + 1;
    while text.is(end, "-") && text.is_word(end + 1) {
        parts.push(acronym::reading(text.str(end + 1), text.shouted()));
        end += 2;
    }
    let plain = parts.iter().all(|part| !part.contains(' '));
    Reading::new(parts.join(if plain { "-" } else { " " }), end)
}
