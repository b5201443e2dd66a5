//! Identifiers, which are no amounts but rows of characters: cards, codes, numbers of books and accounts, addresses of machines, hashes, and formulas
//! of chemistry. Said one by one, with pauses between groups.

use super::rules::Reading;
use super::text::{Kind, Text};
use super::{measure, number, quantity};
use crate::list::listed;

/// Words behind which any digits are a code.
static CODES: &str = "\
    badge code id imei isbn issn otp passcode password pin plate postcode registration sku serial ssn vin zip \
    passport licence license ean upc iban";
/// Words behind which digits are a code if "number" or a sign of it stands between.
static NUMBERED: &str = "\
    account acct booking card case claim confirmation customer extension flight invoice member membership order \
    phone policy product reference ref request reservation routing shipment tax ticket tracking";
/// Words near which seven digits are a telephone number.
static PHONES: &str =
    "call calling cell contact dial fax hotline mobile phone ring sms tel telephone text whatsapp";
/// Words and signs between such a word and its digits.
static BETWEEN: &str = "# . : = code ending id in is no num number was key";

/// Words whose value is an amount, however many digits it has.
static AMOUNTS: &str = "\
    amount amounted amounts answer average balance budget capacity capital capped cost costs count counter cuts \
    decreased difference distance dropped earnings equals exceeded exceeds fell grew increased length limit limited \
    loss losses max maximum memory min minimum net output peak population price product profit profits result revenue \
    revenues rises rose sales score size speed sum total totaled totals turnover value valued views volume weight worth";
/// Words between such a word and its digits.
static LINKS: &str = "\
    a all an are at be by currently exactly from in is just memory now of only reached reaches size some stands still \
    stood the to total up value was were";

/// Symbols of the elements.
static ELEMENTS: &str = "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd \
                         Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra \
                         Ac Th Pa U Np Pu Am";
/// Tokens before digits among which the word is that says what they are.
const FAR: usize = 20;
/// Elements of two letters of which a formula with no other is one.
static ALONE: &str = "Br Cl Fe Hg Li Si";

/// Reads an identifier that begins here.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    let word = text.str(at);
    if !matches!(text.kind(at), Some(Kind::Word | Kind::Digits)) && word != "#" && word != ":" {
        return None;
    }
    // "Enter 4471#."
    if text.is_digits(at)
        && text.is(at + 1, "#")
        && !matches!(text.kind(at + 2), Some(Kind::Word | Kind::Digits))
    {
        return Some(Reading::new(
            format!("{}, pound", in_groups([text.str(at)])),
            at + 2,
        ));
    }
    let (chunk, end) = chunk(text, at)?;
    // Ordinary words and small numbers are none, and are most of a text.
    let ordinary = all(chunk, |b| b.is_ascii_lowercase()) || chunk.len() < 3 && is_digits(chunk);
    if ordinary || chunk.len() > 128 {
        return None;
    }
    grouped_number(text, at)
        .or_else(|| toll_free(chunk, end))
        .or_else(|| hexadecimal(text, at, chunk, end))
        .or_else(|| account(text, at))
        .or_else(|| book(text, at, chunk, end))
        .or_else(|| formula(chunk, end))
        .or_else(|| code(text, at, chunk, end))
        .or_else(|| serial(chunk, end))
}

/// Characters up to the next white space, without marks at their end, and the token after them.
fn chunk<'a>(text: &Text<'a>, at: usize) -> Option<(&'a str, usize)> {
    let mut end = text.chunk_end(at)?;
    while end > at + 1 && !matches!(text.kind(end - 1), Some(Kind::Word | Kind::Digits)) {
        end -= 1;
    }
    let chunk = text.slice(at, end);
    match chunk.strip_suffix("'s") {
        Some(_) => None,
        None => Some((chunk, end)),
    }
}

/// Letters and digits by their names.
pub(super) fn spelled(code: &str) -> String {
    let names: Vec<String> = code
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| {
            if c.is_ascii_digit() {
                number::spelled(&c.to_string())
            } else {
                c.to_ascii_lowercase().to_string()
            }
        })
        .collect();
    names.join(" ")
}

/// Groups of a code with pauses between; long ones are cut into groups of three or four.
pub(super) fn in_groups<'a>(groups: impl IntoIterator<Item = &'a str>) -> String {
    let mut said: Vec<String> = Vec::new();
    for group in groups {
        let size = match group.len() {
            0 => continue,
            1..=5 => 5,
            6 | 7 | 9..=11 => 3,
            _ => 4,
        };
        let chars: Vec<char> = group.chars().collect();
        // "18005551234"
        let mut from = usize::from(group.len() == 11 && group.starts_with('1') && is_digits(group));
        said.extend((from > 0).then(|| number::spelled("1")));
        while from < chars.len() {
            let rest = chars.len() - from;
            // No single one is left over.
            let take = if rest <= size + 1 { rest } else { size };
            said.push(spelled(&chars[from..from + take].iter().collect::<String>()));
            from += take;
        }
    }
    said.join(", ")
}

fn all(text: &str, is: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(is)
}

fn is_hex(text: &str) -> bool {
    all(text, |b| b.is_ascii_hexdigit())
}

fn is_digits(text: &str) -> bool {
    all(text, |b| b.is_ascii_digit())
}

/// Cards, with spaces or hyphens or without; long numbers of other things.
fn grouped_number(text: &Text<'_>, at: usize) -> Option<Reading> {
    if !text.is_digits(at) {
        return None;
    }
    let separator = if text.is_space(at + 1) { " " } else { "-" };
    let mut groups = vec![text.str(at)];
    let mut end = at + 1;
    while groups.len() < 6 && text.is(end, separator) && text.is_digits(end + 1) {
        groups.push(text.str(end + 1));
        end += 2;
    }
    let goes_on = matches!(text.kind(end), Some(Kind::Word | Kind::Digits))
        || (text.is(end, ".") && text.is_digits(end + 1));
    let free = !goes_on;
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let known = match lengths.as_slice() {
        [4, 4, 4, 4] | [4, 6, 5] | [4, 4, 4, 4, 3] => true,
        [3, 2, 4] => separator == "-",
        // "Text STOP to 55555."
        [5..=6] => text.follows(at, "to") && text.near(at, end, "text sms") && !is_count(text, at, end),
        [7..=8] => text.near(at, end, PHONES) && !is_count(text, at, end),
        [9..=24] => !groups[0].ends_with("000") && !is_count(text, at, end),
        _ => false,
    };
    (known && free).then(|| Reading::new(in_groups(groups), end))
}

/// True if digits without grouping are an amount all the same: of things, in a sum, or about so many.
fn is_count(text: &Text<'_>, at: usize, end: usize) -> bool {
    let signs = ["=", "+", "*", "/", "×", "<", ">", "~", "^", "≈"];
    let behind = text.past_space(end);
    text.before(at).is_some_and(|before| text.is_any(before, &signs))
        || text.is_any(behind, &signs)
        || text.follows(
            at,
            "about almost approximately around nearly over population than",
        )
        || text.lower(behind).is_some_and(|word| measure::is_plural(&word))
        || quantity::unit_at(text, end).is_some()
        || is_amount(text, at)
}

/// True if a word before the digits says that they are an amount: "the total was", "the population of France is".
fn is_amount(text: &Text<'_>, at: usize) -> bool {
    let mut linked = true;
    let before = (at.saturating_sub(FAR)..at).rev();
    for i in before.take_while(|&i| !text.is_any(i, &[".", "!", "?", ";", ","])) {
        let Some(word) = text.lower(i) else { continue };
        let owned = text.past_space(i + 1);
        let owns = text.is_one_of(owned, "of in for");
        let counted = text
            .lower(text.past_space(owned + 1))
            .is_some_and(|word| measure::is_plural(&word));
        let named = listed(AMOUNTS, &word) && !text.is_any(i, &["Max", "Min"]);
        if named && (linked || owns) || word == "number" && owns && counted {
            return true;
        }
        linked &= listed(LINKS, &word);
    }
    false
}

/// "1-800-FLOWERS"
fn toll_free(chunk: &str, end: usize) -> Option<Reading> {
    let rest = chunk.strip_prefix("1-").unwrap_or(chunk);
    let (area, words) = rest.split_once('-')?;
    let known = matches!(
        area,
        "800" | "822" | "833" | "844" | "855" | "866" | "877" | "888" | "900"
    );
    let letters = words.bytes().filter(u8::is_ascii_uppercase).count();
    let written = all(words, |b| {
        b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-'
    });
    if !known || !written || letters < 2 {
        return None;
    }
    let one = if rest.len() < chunk.len() { "one, " } else { "" };
    let said: Vec<String> = words
        .split('-')
        .map(|word| {
            if word.bytes().any(|b| b"AEIOUY".contains(&b)) && !word.bytes().any(|b| b.is_ascii_digit()) {
                word.to_ascii_lowercase()
            } else {
                spelled(word)
            }
        })
        .collect();
    Some(Reading::new(
        format!("{one}{}, {}", number::spelled(area), said.join(" ")),
        end,
    ))
}

/// Colours, numbers of programs, addresses of machines, UUIDs and hashes.
fn hexadecimal(text: &Text<'_>, at: usize, chunk: &str, end: usize) -> Option<Reading> {
    let letters = chunk.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = chunk.bytes().filter(u8::is_ascii_digit).count();
    if let Some(colour) = chunk.strip_prefix('#') {
        let sure = colour.len() == 6 && letters > 0 && digits > 0
            || text.word_before(at).is_some_and(|word| word.starts_with("colo"));
        let known = matches!(colour.len(), 3 | 6 | 8) && is_hex(colour) && sure;
        return known.then(|| Reading::new(format!("hash {}", in_groups([colour])), end));
    }
    if let Some(hex) = chunk.strip_prefix("0x").filter(|hex| is_hex(hex)) {
        return Some(Reading::new(format!("zero x {}", in_groups([hex])), end));
    }
    let parts: Vec<&str> = chunk.split(['-', ':']).collect();
    let hex = parts.iter().all(|part| is_hex(part));
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let whole = match lengths.as_slice() {
        [8, 4, 4, 4, 12] => hex,
        [2, 2, 2, 2, 2, 2] => hex && (letters > 0 || chunk.contains(':')),
        [7..=64] => {
            let small = !chunk.bytes().any(|b| b.is_ascii_uppercase());
            let exponent = letters == 1 && chunk.contains('e');
            hex && small && letters > 0 && digits > 0 && !exponent
        }
        _ => false,
    };
    if whole {
        return Some(Reading::new(in_groups(parts), end));
    }
    // Version 6 of the Internet's addresses.
    let groups = chunk.split(':');
    let colons = chunk.matches(':').count();
    let short = groups
        .clone()
        .all(|group| group.len() <= 4 && (group.is_empty() || is_hex(group)));
    if short && digits > 0 && (chunk.matches("::").count() == 1 && colons <= 7 || colons == 7) {
        let said: Vec<String> = groups.map(spelled).collect();
        let said = said.join(" colon ");
        return Some(Reading::new(
            said.split_whitespace().collect::<Vec<_>>().join(" "),
            end,
        ));
    }
    None
}

/// "DE89 3704 0044 0532 0130 00"
fn account(text: &Text<'_>, at: usize) -> Option<Reading> {
    let mut groups = Vec::new();
    let mut from = at;
    while groups.len() < 9 {
        let mut end = from;
        while matches!(text.kind(end), Some(Kind::Word | Kind::Digits)) {
            end += 1;
        }
        let group = text.slice(from, end);
        let fits = all(group, |b| b.is_ascii_uppercase() || b.is_ascii_digit());
        if !fits || group.len() > 34 {
            break;
        }
        groups.push((group, end));
        if group.len() < 4 || !text.is_space(end) {
            break;
        }
        from = end + 1;
    }
    let first = groups.first()?.0;
    let named = first.len() >= 4 && all(&first[..2], |b| b.is_ascii_uppercase()) && is_digits(&first[2..4]);
    let total: usize = groups.iter().map(|(group, _)| group.len()).sum();
    let even = groups.len() == 1
        || groups[..groups.len() - 1]
            .iter()
            .all(|(group, _)| group.len() == 4);
    let digits: usize = groups
        .iter()
        .map(|(group, _)| group.bytes().filter(u8::is_ascii_digit).count())
        .sum();
    (named && even && (15..=34).contains(&total) && digits >= 9).then(|| {
        Reading::new(
            in_groups(groups.iter().map(|(group, _)| *group)),
            groups[groups.len() - 1].1,
        )
    })
}

/// "978-3-16-148410-0"
fn book(text: &Text<'_>, at: usize, chunk: &str, end: usize) -> Option<Reading> {
    let named = text
        .word_before(at)
        .is_some_and(|word| matches!(word.as_str(), "isbn" | "issn" | "ean"));
    let digits = chunk.bytes().filter(u8::is_ascii_digit).count();
    let plain = all(chunk, |b| {
        b.is_ascii_digit() || b == b'-' || b == b'X' || b == b'x'
    }) && is_digits(&chunk[..1]);
    let numbered = (chunk.starts_with("978") || chunk.starts_with("979")) && digits == 13;
    (plain && chunk.contains('-') && (named && digits >= 7 || numbered))
        .then(|| Reading::new(in_groups(chunk.split('-')), end))
}

/// A code or number of something that the words before it name.
fn code(text: &Text<'_>, at: usize, chunk: &str, end: usize) -> Option<Reading> {
    let bare = chunk.strip_prefix('#').unwrap_or(chunk);
    let plain = all(bare, |b| {
        b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-'
    });
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    let letters = bare.bytes().filter(u8::is_ascii_uppercase).count();
    let enough = if letters == 0 {
        digits >= 4 && digits == bare.len() || digits >= 5
    } else {
        digits > 0 && bare.len() >= 4
    };
    if !plain || !enough || bare.len() > 40 || bare.starts_with('-') {
        return None;
    }
    let mut between = usize::from(bare.len() < chunk.len());
    let mut before = at;
    // "The code was 1500 lines long."
    let next = text.past_space(end);
    let mut verb = !text.after_gap(at);
    let named = loop {
        before = text.before(before)?;
        let word = text.str(before).to_ascii_lowercase();
        if listed(CODES, &word) {
            break true;
        }
        if listed(NUMBERED, &word) {
            break between > 0 || digits >= 6 && !bare.ends_with("000");
        }
        let ending = word == "in" && text.follows(before, "ending ends");
        if ending && !text.is_one_of(text.before(before)?, "letters words") {
            break true;
        }
        let ends = word == "in";
        verb |= matches!(word.as_str(), "is" | "was" | "=");
        if between > 4 || ends || !listed(BETWEEN, &word) {
            return None;
        }
        between += usize::from(!matches!(word.as_str(), "is" | "was" | ":" | "="));
    };
    let counted = letters == 0
        && digits < 6
        && text.lower(next).is_some_and(|word| measure::is_plural(&word))
        && (verb || !text.is_one_of(next, "expires works opens unlocks gives gets means lets starts"));
    if !named || counted {
        return None;
    }
    let number = if bare.len() < chunk.len() { "number " } else { "" };
    let mut groups: Vec<&str> = bare.split('-').collect();
    let mut end = end;
    // "AB12 CDE"
    let next = text.str(end + 1);
    if letters > 0
        && text.is_space(end)
        && all(next, |b| b.is_ascii_uppercase() || b.is_ascii_digit())
        && next.len() <= 4
        && next.len() > 1
        && text.is_word(end + 1)
    {
        groups.push(next);
        end += 2;
    }
    Some(Reading::new(format!("{number}{}", in_groups(groups)), end))
}

/// "SN-4829-AX", "1Z999AA10123456784": capitals and digits that change often.
fn serial(chunk: &str, end: usize) -> Option<Reading> {
    if !all(chunk, |b| {
        b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-'
    }) {
        return None;
    }
    let kinds: Vec<u8> = chunk
        .bytes()
        .filter(|&b| b != b'-')
        .map(|b| u8::from(b.is_ascii_digit()))
        .collect();
    let runs = 1 + kinds.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let longest = chunk
        .split(|c: char| !c.is_ascii_uppercase())
        .map(str::len)
        .max()?;
    let digits = kinds.iter().filter(|&&digit| digit == 1).count();
    (runs >= 3 && kinds.len() >= 6 && longest <= 3 && digits >= 3 && digits < kinds.len())
        .then(|| Reading::new(in_groups(chunk.split('-')), end))
}

/// "H2O", "NaCl", "Ca(OH)2": elements and how many.
fn formula(chunk: &str, end: usize) -> Option<Reading> {
    let mut said: Vec<String> = Vec::new();
    let mut elements = 0;
    let mut long = 0;
    let mut counts = 0;
    let mut rest = chunk;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '(' | ')' => 1,
            '1'..='9' => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                if elements == 0 || digits > 2 {
                    return None;
                }
                counts += 1;
                said.push(number::cardinal(&rest[..digits]));
                digits
            }
            'A'..='Z' => {
                let len = 1 + usize::from(rest[1..].starts_with(|c: char| c.is_ascii_lowercase()));
                if !listed(ELEMENTS, &rest[..len]) {
                    return None;
                }
                elements += 1;
                long += usize::from(len == 2);
                said.push(spelled(&rest[..len]));
                len
            }
            _ => return None,
        };
        rest = &rest[len..];
    }
    let one = elements == 1 && (long == 0 || chunk.get(..2).is_some_and(|symbol| listed(ALONE, symbol)));
    let counted = counts > 0 && (elements > 1 || one);
    let mixed = elements > 1 && long > 0 && chunk != "NaN";
    (chunk.len() <= 24 && (counted || mixed)).then(|| Reading::new(said.join(" "), end))
}
