//! Words: abbreviations, dotted letters, Roman numerals, compounds, and all the rest as they are.

use super::rules::Reading;
use super::text::Text;
use super::{acronym, place, quantity, roman};
use crate::abbrev::{self, Ends, When};

/// Most letters of a dotted abbreviation.
const MAX_DOTTED: usize = 8;

/// Dotted letters that are said in other words.
#[rustfmt::skip]
static DOTTED: [(&str, &str); 6] = [
    ("eg", "for example"), ("ie", "that is"), ("aka", "also known as"), ("ca", "circa"), ("nb", "note well"),
    ("rip", "rest in peace"),
];
/// Degrees of universities.
#[rustfmt::skip]
static DEGREES: [(&str, &str, &str); 12] = [
    ("B", "Ed", "b ed"), ("B", "Eng", "b eng"), ("B", "Sc", "b s c"), ("D", "Phil", "d phil"), ("Ed", "D", "e d d"), ("M", "Ed", "m ed"),
    ("M", "Eng", "m eng"), ("M", "Phil", "m phil"), ("M", "Sc", "m s c"), ("Ph", "D", "p h d"), ("Pharm", "D", "pharm d"), ("Psy", "D", "psy d"),
];
/// Words written with a slash that are said in other words.
#[rustfmt::skip]
static SLASHED: [(&str, &str); 6] = [
    ("w/o", "without"), ("c/o", "care of"), ("n/a", "not applicable"), ("a/c", "air conditioning"), ("i/o", "i o"),
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
    // Also an ordinary word in capitals.
    if text.is(at, "WHO") && !text.shouted() && text.follows(at, "the by from at") {
        return Some(Reading::new("w h o", at + 1));
    }
    dotted(text, at)
        .or_else(|| by(text, at))
        .or_else(|| ampersand(text, at))
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
    let degree = DEGREES
        .iter()
        .find(|&&(first, second, _)| text.is(at, first) && text.is(at + 1, ".") && text.is(at + 2, second));
    if let Some(&(_, _, words)) = degree {
        let end = at + 3 + usize::from(text.is(at + 3, "."));
        return Some(Reading::new(words, end).may_stop(text.is(at + 3, ".")));
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

/// "8 in x 10 in", "8\" x 10\"", "2 x $50"
fn by(text: &Text<'_>, at: usize) -> Option<Reading> {
    if text.is(at, "x")
        && at > 1
        && text.is_digits(at - 2)
        && text.is_any(text.past_space(at + 1), &["$", "€", "£"])
    {
        return Some(Reading::new("times", at + 1));
    }
    let between = text.is(at, "x") && text.after_gap(at) && text.is_space(at + 1) && text.is_digits(at + 2);
    let measured = between
        && at > 2
        && (text.is_word(at - 2) || text.is_any(at - 2, &["\"", "'"]))
        && text.is_digits((at - 3).wrapping_sub(usize::from(text.is_space(at - 3))));
    measured.then(|| Reading::new("by", at + 1))
}

/// "AT&T", "Q&A", "PB&J": letters on both sides.
fn ampersand(text: &Text<'_>, at: usize) -> Option<Reading> {
    let letters = |i: usize, most: usize| {
        let word = text.str(i).trim_end_matches("'s");
        let word = if word.len() > 1 {
            word.trim_end_matches('s')
        } else {
            word
        };
        let capitals = text.is_word(i) && word.bytes().all(|b| b.is_ascii_uppercase());
        (capitals && (1..=most).contains(&word.len())).then_some(word)
    };
    let mut words = acronym::spaced(&letters(at, 3)?.to_ascii_lowercase());
    let mut end = at + 1;
    loop {
        let spaced = text.is_space(end) && text.is(end + 1, "&") && text.is_space(end + 2);
        let next = if spaced { end + 3 } else { end + 1 };
        if !spaced && !text.is(end, "&") {
            break;
        }
        let Some(word) = letters(next, if spaced { 1 } else { 3 }) else {
            break;
        };
        let ending = if word.len() < text.str(next).len() {
            "'s"
        } else {
            ""
        };
        words = format!(
            "{words} and {}{ending}",
            acronym::spaced(&word.to_ascii_lowercase())
        );
        end = next + 1;
    }
    (end > at + 1).then(|| Reading::new(words, end))
}

/// "meals/day", "w/o", "w/"
fn slashed(text: &Text<'_>, at: usize) -> Option<Reading> {
    let plural = text.str(at).len() > 3 && text.str(at).ends_with('s')
        || text.before(at).is_some_and(|before| text.is_digits(before));
    if plural && text.is_space(at.wrapping_sub(1)) {
        let (per, end) = quantity::per(text, at + 1, true);
        if end > at + 1 {
            let word = acronym::reading(text.str(at), text.shouted());
            return Some(Reading::new(format!("{word}{per}"), end));
        }
    }
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
        .is_some_and(|before| before + 2 == at && place::is_street_name(text, before));
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
    let next = text.past_space(end);
    let noun = at > 1 && text.is_one_of(at - 2, abbrev::ARTICLES);
    let named = next > end && text.is_capitalised(next) && !abbrev::starts_sentence(text.str(next)) && !noun;
    // "feat. Rihanna", "(ft. Drake)"; "Ft. Worth" is a fort.
    let guest = matches!(lower, "feat" | "ft")
        && named
        && (!text.is_capitalised(at) || text.is(at.wrapping_sub(1), "("));
    if guest && !text.before(at).is_some_and(|before| text.is_digits(before)) {
        return Some(Reading::new("featuring", end));
    }
    let applies = match row.when {
        // Not within a name such as "vs.example": a full stop that goes on is not one of an abbreviation.
        When::Always => !stop || !text.is_word(end),
        When::BeforeDigit => {
            let written = matches!(
                row.key,
                "apt" | "ste" | "ext" | "vol" | "fig" | "figs" | "chap" | "app" | "pp"
            );
            let written = written || lower == "ref" && text.is_capitalised(at);
            // "2nd ed."
            let counted = lower == "ed" && stop && at > 1 && place::is_suffix(text, at - 2);
            counted || (stop || written) && text.is_digits(next)
        }
        When::Inside => {
            // "Max" is a name, too.
            let name = text.is_capitalised(at) && at > 0 && matches!(lower, "max" | "min");
            let small = !text.str(next).is_empty() && !text.is_capitalised(next);
            stop && next > end && (text.is_digits(next) || !name && (small || named))
        }
        When::Capital => stop && text.is_gap(end) && (text.is_capitalised(at) || named),
    };
    applies.then(|| Reading::new(row.words, end).may_stop(stop && row.ends == Ends::Maybe))
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
