//! Addresses of houses: units, streets, directions, states and postal codes.

use super::number;
use super::rules::Reading;
use super::text::{Kind, Text};
use super::{date, identifier};
use crate::abbrev;
use crate::list::listed;

/// States and provinces by their letters, sorted.
#[rustfmt::skip]
static STATES: [(&str, &str); 65] = [
    ("AB", "alberta"), ("AK", "alaska"), ("AL", "alabama"), ("AR", "arkansas"), ("AZ", "arizona"), ("BC", "british columbia"),
    ("CA", "california"), ("CO", "colorado"), ("CT", "connecticut"), ("DC", "d c"), ("DE", "delaware"), ("FL", "florida"),
    ("GA", "georgia"), ("GU", "guam"), ("HI", "hawaii"), ("IA", "iowa"), ("ID", "idaho"), ("IL", "illinois"), ("IN", "indiana"),
    ("KS", "kansas"), ("KY", "kentucky"), ("LA", "louisiana"), ("MA", "massachusetts"), ("MB", "manitoba"), ("MD", "maryland"),
    ("ME", "maine"), ("MI", "michigan"), ("MN", "minnesota"), ("MO", "missouri"), ("MS", "mississippi"), ("MT", "montana"),
    ("NB", "new brunswick"), ("NC", "north carolina"), ("ND", "north dakota"), ("NE", "nebraska"), ("NH", "new hampshire"),
    ("NJ", "new jersey"), ("NL", "newfoundland"), ("NM", "new mexico"), ("NS", "nova scotia"), ("NV", "nevada"), ("NY", "new york"),
    ("OH", "ohio"), ("OK", "oklahoma"), ("ON", "ontario"), ("OR", "oregon"), ("PA", "pennsylvania"), ("PE", "prince edward island"),
    ("PR", "puerto rico"), ("QC", "quebec"), ("RI", "rhode island"), ("SC", "south carolina"), ("SD", "south dakota"),
    ("SK", "saskatchewan"), ("TN", "tennessee"), ("TX", "texas"), ("UT", "utah"), ("VA", "virginia"), ("VI", "virgin islands"),
    ("VT", "vermont"), ("WA", "washington"), ("WI", "wisconsin"), ("WV", "west virginia"), ("WY", "wyoming"), ("YT", "yukon"),
];
#[rustfmt::skip]
static DIRECTIONS: [(&str, &str); 16] = [
    ("E", "east"), ("N", "north"), ("NE", "northeast"), ("NW", "northwest"), ("S", "south"), ("SE", "southeast"),
    ("SW", "southwest"), ("W", "west"), ("NNE", "north northeast"), ("ENE", "east northeast"), ("ESE", "east southeast"),
    ("SSE", "south southeast"), ("SSW", "south southwest"), ("WSW", "west southwest"), ("WNW", "west northwest"),
    ("NNW", "north northwest"),
];
/// Kinds of streets, as they are written behind a name. "St." and "Dr." are also something else.
#[rustfmt::skip]
static STREETS: [(&str, &str); 24] = [
    ("aly", "alley"), ("ave", "avenue"), ("av", "avenue"), ("blvd", "boulevard"), ("cir", "circle"), ("cres", "crescent"), ("ct", "court"),
    ("dr", "drive"), ("expy", "expressway"), ("fwy", "freeway"), ("hwy", "highway"), ("ln", "lane"), ("pkwy", "parkway"), ("pl", "place"),
    ("plz", "plaza"), ("rd", "road"), ("sq", "square"), ("st", "street"), ("ter", "terrace"), ("terr", "terrace"), ("trl", "trail"),
    ("wy", "way"), ("xing", "crossing"), ("tpke", "turnpike"),
];
/// Streets that are written out.
static STREET_WORDS: &str = "avenue boulevard court drive highway lane parkway place road square street way";
/// Words before a number with a letter that is a name and no amount: "room 204B".
static PLACES: &str = "\
    apartment appendix apt bay block box building bldg bus class dock door entrance exhibit exit figure fig flat \
    flight form gate grade group hall house item level line locker lot model no number page part phase pier platform \
    question rm room route row rule schedule seat section stall ste step suite table terminal title track type unit \
    ward type version";

/// True if a number with a letter behind this is a name.
pub(super) fn is_place(word: &str) -> bool {
    listed(PLACES, word)
}

/// Reads a part of an address.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    if text.is_digits(at) {
        return unit(text, at);
    }
    if !text.is_capitalised(at) || text.shouted() {
        return None;
    }
    postcode(text, at)
        .or_else(|| state(text, at))
        .or_else(|| direction(text, at))
        .or_else(|| street(text, at))
}

/// "4B" behind "Apt." or before a name.
fn unit(text: &Text<'_>, at: usize) -> Option<Reading> {
    if at > 4 && text.str(at).len() == 5 && text.slice(at - 5, at) == "D.C. " {
        let (code, end) = zip_code(text, at);
        return Some(Reading::new(code, end));
    }
    if at > 0 && (text.is_word(at - 1) || text.is_any(at - 1, &["$", "€", "£", ".", ",", "-"])) {
        return None;
    }
    if let Some(reading) = house(text, at).or_else(|| foreign_code(text, at)) {
        return Some(reading);
    }
    let letter = text.str(at + 1);
    let single = letter.len() == 1 && text.is_capitalised(at + 1) && !text.is_digits(at + 2);
    let place = text.is(at.wrapping_sub(1), "#") || text.word_before(at).is_some_and(|word| is_place(&word));
    let named = text.is_space(at + 2) && text.is_capitalised(at + 3) && text.str(at + 3).len() > 1;
    let amount = matches!(letter, "C" | "F" | "K" | "V" | "W" | "G" | "D" | "M" | "T" | "X") && !place;
    if !single || !(place || named) || amount || text.str(at).len() > 4 {
        return None;
    }
    let n = number::cardinal(text.str(at));
    Some(Reading::new(
        format!("{n} {}", letter.to_ascii_lowercase()),
        at + 2,
    ))
}

/// "2200 S. Lamar Blvd.": the number of a house in pairs of digits.
fn house(text: &Text<'_>, at: usize) -> Option<Reading> {
    let digits = text.str(at);
    if digits.len() != 4 || digits.ends_with("000") || digits.starts_with('0') || !text.is_space(at + 1) {
        return None;
    }
    let mut next = at + 2;
    for _ in 0..4 {
        let ordinal = text.is_digits(next) && is_suffix(text, next + 1);
        if !ordinal && !text.is_capitalised(next) {
            return None;
        }
        next += if ordinal { 2 } else { 1 };
        let street = text.lower(next - 1).is_some_and(|word| is_street(&word));
        if street && next > at + 3 {
            return Some(Reading::new(number::year(digits), at + 1));
        }
        next = text.past_space(next + usize::from(text.is(next, ".")));
    }
    None
}

/// "75001 Paris" behind a street.
fn foreign_code(text: &Text<'_>, at: usize) -> Option<Reading> {
    let house = |at: usize| text.is_digits(at) && at > 1 && text.is_capitalised(at - 2);
    let behind_street = at > 2
        && text.is_space(at - 1)
        && text.is(at - 2, ",")
        && (text.is_capitalised(at - 3) || house(at - 3));
    let city = at + 2;
    let ends =
        text.kind(city + 1).is_none_or(|kind| kind == Kind::Break) || text.is_any(city + 1, &[",", "."]);
    let named = text.is_space(at + 1) && text.is_capitalised(city) && text.str(city).len() > 3 && ends;
    (text.str(at).len() == 5 && behind_street && named)
        .then(|| Reading::new(number::spelled(text.str(at)), at + 1))
}

/// "SW1A 1AA", "K1A 0B1"
fn postcode(text: &Text<'_>, at: usize) -> Option<Reading> {
    let is_letters = |i: usize, n: std::ops::RangeInclusive<usize>| {
        text.is_word(i)
            && n.contains(&text.str(i).len())
            && text.str(i).bytes().all(|b| b.is_ascii_uppercase())
    };
    let is_digits =
        |i: usize, n: std::ops::RangeInclusive<usize>| text.is_digits(i) && n.contains(&text.str(i).len());
    if at > 0 && !text.after_gap(at) && text.is_digits(at - 1)
        || !is_letters(at, 1..=2)
        || !is_digits(at + 1, 1..=2)
    {
        return None;
    }
    let outward = at + 2 + usize::from(is_letters(at + 2, 1..=1));
    if !text.is_space(outward) || !is_digits(outward + 1, 1..=1) {
        return None;
    }
    let inward = outward + 1;
    let british = is_letters(inward + 1, 2..=2) && !text.is_digits(inward + 2);
    let canadian = is_letters(inward + 1, 1..=1) && is_digits(inward + 2, 1..=1) && outward == at + 3;
    let end = match (british, canadian) {
        (true, _) => inward + 2,
        (_, true) => inward + 3,
        _ => return None,
    };
    let spell = identifier::spelled;
    Some(Reading::new(
        format!(
            "{}, {}",
            spell(text.slice(at, outward)),
            spell(text.slice(inward, end))
        ),
        end,
    ))
}

/// "IL 62704", or "Springfield, IL"
fn state(text: &Text<'_>, at: usize) -> Option<Reading> {
    let found = STATES
        .binary_search_by_key(&text.str(at), |(letters, _)| letters)
        .ok()?;
    let name = STATES[found].1;
    // Words in capitals as often as states: "Yes, OK."
    let word = matches!(
        text.str(at),
        "HI" | "IN" | "LA" | "MA" | "ME" | "OH" | "OK" | "ON" | "OR" | "PA"
    );
    let doctor = text.is(at, "MD") && (at.saturating_sub(16)..at).any(|i| text.is_one_of(i, "dr phd doctor"));
    let coded = postcode(text, text.past_space(at + 1)).is_some();
    if doctor || word && !coded && !in_a_place(text, at) {
        return None;
    }
    let zip = text.past_space(at + 1);
    if zip > at + 1 && text.is_digits(zip) && text.str(zip).len() == 5 && !text.is_word(zip + 1) {
        let (code, end) = zip_code(text, zip);
        return Some(Reading::new(format!("{name} {code}"), end));
    }
    let behind_city = at > 2 && text.is_space(at - 1) && text.is(at - 2, ",") && text.is_capitalised(at - 3);
    let ends =
        text.is_gap(at + 1) && !text.is_space(at + 1) || text.is_any(at + 1, &[".", ",", ")", ";", "!", "?"]);
    let coded = zip > at + 1 && postcode(text, zip).is_some();
    let goes_on = zip > at + 1 && text.is_word(zip) && !text.is_capitalised(zip);
    (behind_city && (ends || goes_on) || coded && at > 0).then(|| Reading::new(name, at + 1))
}

/// True if the name before the comma before this follows a word or a comma that goes before places: "in Portland, OR".
fn in_a_place(text: &Text<'_>, at: usize) -> bool {
    let Some(mut before) = at.checked_sub(3).filter(|_| text.is(at - 2, ",")) else {
        return false;
    };
    for _ in 0..3 {
        if !text.is_capitalised(before) {
            break;
        }
        let Some(next) = text.before(before) else {
            return false;
        };
        before = next;
    }
    text.is_any(
        before,
        &[
            ",", "in", "from", "to", "near", "of", "at", "around", "outside", "In", "From", "To", "Near",
            "At",
        ],
    )
}

/// The digits of a ZIP code, with its four more.
fn zip_code(text: &Text<'_>, at: usize) -> (String, usize) {
    let first = number::spelled(text.str(at));
    let more = text.is(at + 1, "-") && text.is_digits(at + 2) && text.str(at + 2).len() == 4;
    if more {
        (format!("{first}, {}", number::spelled(text.str(at + 2))), at + 3)
    } else {
        (first, at + 1)
    }
}

/// "N." in "123 N. Main St." and "NW" in "Penn Ave NW"
fn direction(text: &Text<'_>, at: usize) -> Option<Reading> {
    let &(_, name) = DIRECTIONS.iter().find(|(letters, _)| text.is(at, letters))?;
    let stop = text.is(at + 1, ".");
    let end = at + 1 + usize::from(stop);
    let next = end + 1;
    let ordinal = text.is_space(end) && text.is_digits(next) && is_suffix(text, next + 1);
    if ordinal
        && text
            .lower(text.past_space(next + 2))
            .is_some_and(|word| is_street(&word))
        || is_wind(text, at)
    {
        return Some(Reading::new(name, end));
    }
    let before = text.before(at)?;
    if is_road(text, before) && text.is_space(at - 1) {
        return Some(Reading::new(name, end).may_stop(stop));
    }
    let numbered = text.is_digits(before) && before + 2 == at && text.is_space(end);
    let named = text.is_capitalised(next) || ordinal;
    let word = if text.is(before, ".") {
        before.checked_sub(1)?
    } else {
        before
    };
    let street = text.lower(word).is_some_and(|word| is_street(&word)) && text.is_capitalised(word);
    (numbered && named || street && text.is_space(at - 1))
        .then(|| Reading::new(name, end).may_stop(stop && street))
}

/// "Wind: 12 mph NW"
fn is_wind(text: &Text<'_>, at: usize) -> bool {
    text.after_gap(at)
        && (text.str(at).len() > 1 || text.follows(at, "mph kph knots kn from the"))
        && text.near(at, at + 1, "breeze gusts wind winds")
}

/// True if the number is that of a road: "I-80", "Route 66".
pub(super) fn is_road(text: &Text<'_>, number: usize) -> bool {
    let joined = number > 1 && text.is(number - 1, "-") && text.is_any(number - 2, &["I", "US", "SR"]);
    text.is_digits(number) && (joined || text.follows(number, "highway hwy interstate route rte"))
}

pub(super) fn is_suffix(text: &Text<'_>, at: usize) -> bool {
    text.is_word(at) && date::is_ordinal_suffix(text.str(at))
}

fn is_street(word: &str) -> bool {
    STREETS.iter().any(|(written, _)| *written == word) || listed(STREET_WORDS, word)
}

/// "Ave" behind a name or an ordinal.
fn street(text: &Text<'_>, at: usize) -> Option<Reading> {
    let lower = text.lower(at)?;
    let &(_, name) = STREETS.iter().find(|(written, _)| *written == lower)?;
    let stop = text.is(at + 1, ".");
    let end = at + 1 + usize::from(stop);
    let before = text.before(at).filter(|before| before + 2 == at)?;
    let ordinal = is_suffix(text, before) && text.is_digits(before.checked_sub(1)?);
    let numbered = house_number(text, before);
    let next = end + usize::from(text.is_space(end));
    let before_name = next > end && text.is_capitalised(next) && !is_part(text, next);
    let starts = abbrev::starts_sentence(text.str(next));
    let named = text.is_capitalised(before) && !(before_name && !starts && !numbered);
    let clear = match lower.as_str() {
        // Also "doctor" and "saint"; without its full stop, before a name, they are these.
        "dr" => named && (numbered || stop && (!before_name || starts && is_name(text, before))),
        "st" => return None,
        _ => ordinal || named,
    };
    (clear || ordinal).then(|| Reading::new(name, end).may_stop(stop))
}

/// True if what follows a street belongs to its address: a direction or a unit.
fn is_part(text: &Text<'_>, at: usize) -> bool {
    DIRECTIONS.iter().any(|(letters, _)| text.is(at, letters))
        || text.lower(at).is_some_and(|word| is_place(&word))
}

/// True if a capital is that of a name and not of the sentence.
fn is_name(text: &Text<'_>, at: usize) -> bool {
    text.before(at)
        .is_some_and(|before| text.kind(before) == Some(Kind::Word))
}

/// True if a number stands before the name of the street that ends at `at`.
fn house_number(text: &Text<'_>, at: usize) -> bool {
    let mut at = at;
    for _ in 0..4 {
        let Some(before) = text.before(at) else {
            return false;
        };
        if text.is_digits(before) {
            return !text.is_any(before.wrapping_sub(1), &["$", "€", "£"]);
        }
        if !text.is_capitalised(before) && !text.is(before, ".") {
            return false;
        }
        at = before;
    }
    false
}

/// True if a street may be named so: "Main St.", "25th St".
pub(super) fn is_street_name(text: &Text<'_>, at: usize) -> bool {
    text.is_capitalised(at) || is_suffix(text, at) && at > 0 && text.is_digits(at - 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn states_are_sorted() {
        assert!(super::STATES.is_sorted_by_key(|(letters, _)| letters));
    }
}
