//! Decides from the characters around a place whether a sentence or a clause ends there.

use super::EndKind;
use crate::abbrev::{self, Ends, When};
use crate::list::listed;
use unicode_normalization::char::is_combining_mark;

/// Characters looked back at: no abbreviation or initial is longer.
const LOOK_BACK: usize = 24;
/// Lines at least this long are taken as wrapped text, whose line breaks mean nothing.
const WRAPPED_LINE: usize = 45;

/// The meaning of the end of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    No,
    Certain(EndKind),
    Depends(Ending),
}

/// An end that depends on the next visible character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// A sentence end before a capital, an opening quote or a letter without case ("etc. The").
    IfCapital,
    /// A sentence end before an opening quote or a word that begins sentences ("U.S. The", but "U.S. Senate").
    IfStarter,
    /// A sentence end unless a small letter follows (`"Go!" he said`).
    UnlessSmall,
    /// A sentence end unless a digit follows ("No. 5").
    UnlessDigit,
    /// The place for an early cut unless the next word belongs to the number before it; with `true` only before a word that never does,
    /// because the number may be a year.
    Early(bool),
    /// A clause end unless a digit follows ("Nov 20, 2026").
    ClauseUnlessDigit,
}

/// The longest word that begins sentences is shorter.
const LONGEST_STARTER: usize = 12;

impl Ending {
    /// True if the whole word that starts with `next` decides, not only its first character.
    pub(super) fn wants_word(self, next: char) -> bool {
        match self {
            Self::IfStarter => next.is_uppercase(),
            Self::Early(_) => next.is_lowercase(),
            _ => false,
        }
    }

    pub(super) fn resolve(self, next: char) -> Option<EndKind> {
        let capital =
            next.is_uppercase() || is_open_quote(next) || (next.is_alphabetic() && !next.is_lowercase());
        match self {
            Self::Early(_) => None,
            Self::IfStarter => (capital && !next.is_uppercase()).then_some(EndKind::Sentence),
            Self::IfCapital => capital.then_some(EndKind::Sentence),
            Self::UnlessSmall => (!next.is_lowercase()).then_some(EndKind::Sentence),
            Self::UnlessDigit => (!next.is_numeric()).then_some(EndKind::Sentence),
            Self::ClauseUnlessDigit => (!next.is_numeric()).then_some(EndKind::Clause),
        }
    }
}

/// The decision of the word so far, if `next` ends it, about an end that waited for it; `None` while it may go on.
pub(super) fn word_decides(ending: Ending, word: &[char], next: Option<char>) -> Option<Option<EndKind>> {
    if word.len() > LONGEST_STARTER {
        return Some((ending == Ending::Early(false)).then_some(EndKind::Forced));
    }
    if next.is_some_and(|c| c.is_alphanumeric() || is_combining_mark(c)) {
        return None;
    }
    let word: String = word.iter().collect();
    Some(match ending {
        Ending::Early(year) => {
            let free = abbrev::is_free(&word) || !year && word.len() > 3 && !abbrev::goes_with_number(&word);
            let free = free && next.is_some_and(is_space);
            free.then_some(EndKind::Forced)
        }
        _ => abbrev::starts_sentence(&word).then_some(EndKind::Sentence),
    })
}

/// White space of any kind, line breaks included.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace()
}

/// A line break. A carriage return is white space: the line feed after it counts.
pub(super) fn is_newline(c: char) -> bool {
    matches!(c, '\n' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_open_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '‘' | '«' | '「' | '『')
}

fn is_opener(c: char) -> bool {
    "\"'([{“‘«¿¡「『（《〈【*_".contains(c)
}

fn is_closer(c: char) -> bool {
    "\"')]}”’»」』）》〉】*_".contains(c)
}

/// Full stops that are no other sign, so that no space need follow: of Chinese and Japanese, of Indic scripts, Arabic and Urdu, Armenian,
/// Ethiopic, Burmese and Khmer.
fn is_full_stop(c: char) -> bool {
    matches!(
        c,
        '。' | '！' | '？' | '｡' | '।' | '॥' | '؟' | '۔' | '։' | '።' | '፧' | '။' | '។' | '៕'
    )
}

fn is_wide_comma(c: char) -> bool {
    matches!(c, '，' | '、' | '；' | '：' | '､' | '،' | '؛')
}

fn is_dash(c: char) -> bool {
    matches!(c, '—' | '–' | '―')
}

/// Scripts written without spaces, where a line may break anywhere.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x2e80..=0x9fff | 0xac00..=0xd7af
        | 0xf900..=0xfaff | 0xff66..=0xff9f | 0x20000..=0x3ffff)
}

/// True if a cut between these two neighbours is as harmless as at a space.
pub(super) fn breakable(before: char, after: char) -> bool {
    is_unspaced(before)
        && is_unspaced(after)
        && !joins(after)
        && !is_full_stop(after)
        && !is_wide_comma(after)
}

/// True if the character belongs to the one before it.
fn joins(c: char) -> bool {
    is_combining_mark(c)
        || matches!(u32::from(c), 0x200d | 0xfe00..=0xfe0f | 0x1f3fb..=0x1f3ff | 0xe0020..=0xe007f)
}

/// The largest place up to `limit` that does not tear a combining sequence apart, if one is near.
pub(super) fn hard_cut(buf: &[char], limit: usize) -> usize {
    let near = limit.saturating_sub(LOOK_BACK).max(1);
    (near..=limit)
        .rev()
        .find(|&at| !joins(buf[at]) && buf[at - 1] != '\u{200d}')
        .unwrap_or(limit)
}

/// The last token of the text and whether it is also the first.
fn last_token(buf: &[char]) -> (&[char], bool) {
    let from = buf.len().saturating_sub(LOOK_BACK);
    match buf[from..].iter().rposition(|&c| is_space(c)) {
        Some(at) => (&buf[from + at + 1..], false),
        None => (&buf[from..], from == 0),
    }
}

/// Judges the token that ends the text, now that white space follows it.
pub(super) fn token_end(buf: &[char]) -> Verdict {
    let (token, first) = last_token(buf);
    let counted = buf.len() > token.len() + 1 && buf[buf.len() - token.len() - 2].is_numeric()
        || matches!(letters(token_before(buf, token)).as_str(), "cu" | "fl" | "sq");
    let closers = token.iter().rev().take_while(|&&c| is_closer(c)).count();
    let bare = &token[..token.len() - closers];
    let Some(&last) = bare.last() else {
        return Verdict::No;
    };
    match last {
        '.' if is_dotted_unit(&bare[..bare.len() - 1], counted) => Verdict::Depends(Ending::IfStarter),
        '.' if is_street(buf, token, &bare[..bare.len() - 1]) => Verdict::Depends(Ending::IfStarter),
        '.' => full_stop(&bare[..bare.len() - 1], first, closers > 0, || {
            token_before(buf, token)
        }),
        '…' => Verdict::Depends(Ending::IfCapital),
        '!' | '?' if closers > 0 => Verdict::Depends(Ending::UnlessSmall),
        '!' | '?' => Verdict::Certain(EndKind::Sentence),
        c if is_full_stop(c) => Verdict::Certain(EndKind::Sentence),
        ',' if is_dated(buf, token, &bare[..bare.len() - 1]) => Verdict::Depends(Ending::ClauseUnlessDigit),
        ',' | ';' | ':' => Verdict::Certain(EndKind::Clause),
        c if is_wide_comma(c) => Verdict::Certain(EndKind::Clause),
        c if is_dash(c) => Verdict::Certain(EndKind::Clause),
        '-' if bare == ['-'] || bare.ends_with(&['-', '-']) => Verdict::Certain(EndKind::Clause),
        _ => Verdict::No,
    }
}

/// The token before the last one.
fn token_before<'a>(buf: &'a [char], token: &[char]) -> &'a [char] {
    let rest = &buf[..buf.len() - token.len()];
    let spaces = rest.iter().rev().take_while(|&&c| is_space(c)).count();
    last_token(&rest[..rest.len() - spaces]).0
}

/// The letters of a token in small letters.
fn letters(token: &[char]) -> String {
    let letters = token.iter().filter(|c| c.is_alphabetic());
    letters.flat_map(|c| c.to_lowercase()).collect()
}

/// "Dr." behind the name of a street: behind a capital that does not begin the text.
fn is_street(buf: &[char], token: &[char], word: &[char]) -> bool {
    let name = token_before(buf, token);
    let inside = buf.len() > token.len() + name.len() + 1;
    word == ['D', 'r']
        && inside
        && name.first().is_some_and(|c| c.is_uppercase())
        && name.last() != Some(&'.')
}

/// A day behind its month, or a month, before a comma: a year may follow.
fn is_dated(buf: &[char], token: &[char], word: &[char]) -> bool {
    let day = word.first().is_some_and(|c| c.is_numeric()) && word.len() < 5;
    let is_month = |token: &[char]| abbrev::month(&letters(token)).is_some();
    day && is_month(token_before(buf, token)) || is_month(word)
}

/// Judges a full stop after `word`.
fn full_stop<'a>(word: &[char], first: bool, closed: bool, before: impl Fn() -> &'a [char]) -> Verdict {
    let sure = if closed {
        Verdict::Depends(Ending::UnlessSmall)
    } else {
        Verdict::Certain(EndKind::Sentence)
    };
    if word.last() == Some(&'.') {
        return Verdict::Depends(Ending::IfCapital);
    }
    if first && is_list_marker(word) {
        return Verdict::No;
    }
    let start = word
        .iter()
        .rposition(|&c| is_opener(c) || is_dash(c))
        .map_or(0, |at| at + 1);
    let word = &word[start..];
    match word {
        [c] if c.is_uppercase() => return Verdict::Depends(Ending::IfStarter),
        [_, '.', ..] if is_dotted(word) => {
            let never = matches!(
                word,
                ['e', '.', 'g'] | ['i', '.', 'e'] | ['E', '.', 'g'] | ['I', '.', 'e']
            );
            return if never {
                Verdict::No
            } else {
                Verdict::Depends(Ending::IfStarter)
            };
        }
        _ => {}
    }
    let capital = word.first().is_some_and(|c| c.is_uppercase());
    let lower: String = word.iter().flat_map(|c| c.to_lowercase()).collect();
    match abbrev::find(&lower) {
        Some(_) if lower == "no" || lower.len() == 1 => Verdict::Depends(Ending::UnlessDigit),
        Some(a) if a.when == When::BeforeDigit => Verdict::Depends(Ending::IfStarter),
        Some(a) if a.when == When::Inside || a.when == When::Capital && !capital => {
            let before: String = before().iter().flat_map(|c| c.to_lowercase()).collect();
            let noun = listed(abbrev::ARTICLES, &before.replace('\u{2019}', "'"));
            Verdict::Depends(if noun {
                Ending::IfCapital
            } else {
                Ending::IfStarter
            })
        }
        // "2nd ed."
        Some(_) if lower == "ed" && before().first().is_some_and(|c| c.is_numeric()) => {
            Verdict::Depends(Ending::IfStarter)
        }
        Some(a) if a.ends == Ends::Never => Verdict::No,
        Some(_) if lower == "etc" => Verdict::Depends(Ending::IfCapital),
        Some(_) => Verdict::Depends(Ending::IfStarter),
        None if lower == "al" => Verdict::Depends(Ending::IfCapital),
        None if lower == "st" && capital => Verdict::Depends(Ending::IfStarter),
        None if capital && lower.len() < 5 && is_short_calendar(&lower) => {
            Verdict::Depends(Ending::IfStarter)
        }
        // "Ph.D", "M.Sc"
        None if word.contains(&'.')
            && word
                .split(|&c| c == '.')
                .all(|part| (1..=3).contains(&part.len()) && part.iter().all(|c| c.is_alphabetic())) =>
        {
            Verdict::Depends(Ending::IfStarter)
        }
        None => sure,
    }
}

/// A unit after a number, in the same token or the one before: "5 ft", "5ft".
fn is_dotted_unit(word: &[char], counted: bool) -> bool {
    let letters = word
        .iter()
        .position(|c| !c.is_ascii_digit())
        .unwrap_or(word.len());
    // "a 12-oz. can"
    let unit = word[letters..].strip_prefix(&['-']).unwrap_or(&word[letters..]);
    (counted || letters > 0) && unit.len() <= 4 && abbrev::is_dotted_unit(&unit.iter().collect::<String>())
}

fn is_short_calendar(word: &str) -> bool {
    word != "may" && (abbrev::month(word).is_some() || abbrev::weekday(word).is_some())
}

/// Letters with full stops between them: "U.S", "p.m".
fn is_dotted(word: &[char]) -> bool {
    word.len() % 2 == 1
        && word
            .iter()
            .enumerate()
            .all(|(i, c)| if i % 2 == 0 { c.is_alphabetic() } else { *c == '.' })
}

/// The number, letter or short Roman numeral of a list item.
fn is_list_marker(word: &[char]) -> bool {
    match word {
        [] => false,
        [c] => c.is_alphanumeric() && *c != 'I',
        _ if word.len() <= 3 && word.iter().all(char::is_ascii_digit) => true,
        _ => word.len() <= 5 && word.iter().all(|c| matches!(c, 'i' | 'v' | 'x')),
    }
}

/// Judges the last characters now that `next` follows without white space.
pub(super) fn inside(buf: &[char], next: char) -> Verdict {
    let Some(&last) = buf.last() else {
        return Verdict::No;
    };
    if is_closer(next) || is_full_stop(next) || is_wide_comma(next) {
        return Verdict::No;
    }
    if last == '—' && !is_dash(next) {
        // "1990—1995"
        let range = next.is_numeric() && buf.len() > 1 && buf[buf.len() - 2].is_numeric();
        return if range {
            Verdict::No
        } else {
            Verdict::Certain(EndKind::Clause)
        };
    }
    if last == '-' && next.is_alphabetic() && buf.len() > 2 && buf[buf.len() - 2] == '-' {
        let before = buf[buf.len() - 3];
        return if before.is_alphabetic() {
            Verdict::Certain(EndKind::Clause)
        } else {
            Verdict::No
        };
    }
    let from = buf.len().saturating_sub(LOOK_BACK);
    let mut before = buf[from..].iter().rev().skip_while(|&&c| is_closer(c));
    match before.next() {
        Some(&c) if is_full_stop(c) => Verdict::Certain(EndKind::Sentence),
        // Narrow marks between letters of scripts without spaces.
        Some('!' | '?') if is_unspaced(next) => Verdict::Certain(EndKind::Sentence),
        // A number or a time in wide digits or signs.
        Some(&c)
            if is_wide_comma(c) && next.is_numeric() && before.next().is_some_and(|c| c.is_numeric()) =>
        {
            Verdict::No
        }
        Some(&c) if is_wide_comma(c) => Verdict::Certain(EndKind::Clause),
        _ => Verdict::No,
    }
}

/// True if a single line break ends a sentence: before a list item always, and after a short line unless the next one
/// goes on in small letters.
pub(super) fn line_ends(before: &[char], line_len: usize, next: char) -> bool {
    if matches!(next, '•' | '*' | '-' | '–' | '#' | '>' | '·' | '‣' | '▪' | '+') {
        return true;
    }
    let goes_on = next.is_lowercase() || matches!(before.last(), Some(',' | ';' | '-' | '—' | '('));
    line_len < WRAPPED_LINE && !goes_on
}

/// True if the words on both sides of a space can be torn apart: not numbers and their units, titles and their names.
pub(super) fn strong_space(before: &[char], next: char) -> bool {
    let Some(&last) = before.last() else { return false };
    if last.is_numeric() || next.is_numeric() || matches!(last, '$' | '€' | '£' | '#' | '(' | '[') {
        return false;
    }
    let (token, _) = last_token(before);
    let word: String = token
        .iter()
        .filter(|&&c| c != '.')
        .flat_map(|c| c.to_lowercase())
        .collect();
    let short = token.last() == Some(&'.') || word.len() <= 3;
    !(short && (abbrev::find(&word).is_some() || abbrev::month(&word).is_some() || word == "st"))
}

/// Longest row of numbers that waits for its end.
const LONGEST_NUMBERS: usize = 40;

/// An end if eager text may be cut at a space beside a number: neither side changes how the other is read.
pub(super) fn early_space(before: &[char], next: char) -> Verdict {
    let certain = |free: bool| {
        if free {
            Verdict::Certain(EndKind::Forced)
        } else {
            Verdict::No
        }
    };
    let (token, _) = last_token(before);
    let word: Vec<char> = token
        .iter()
        .copied()
        .filter(|&c| !matches!(c, ',' | ';' | ':' | '.'))
        .collect();
    let Some(&first) = word.first() else {
        return Verdict::No;
    };
    let lettered = first.is_alphabetic() && word.len() > 1;
    let named = lettered && word.len() > 2 && word.iter().any(|c| c.is_ascii_lowercase());
    let numeric = first.is_numeric();
    let counts = word.iter().any(|c| c.is_numeric());
    // A row of numbers and short words ends somewhere.
    if before.len() >= 2 * LONGEST_NUMBERS && next.is_alphabetic() && !counts {
        return certain(true);
    }
    // "$5 $6"
    if is_money(next) {
        return certain(counts && is_money(first));
    }
    if next.is_numeric() {
        let free =
            named && word.iter().all(|c| c.is_alphabetic()) && !abbrev::goes_before_number(&letters(&word));
        return certain(free || numeric && is_row(before));
    }
    if !counts || named || !next.is_lowercase() {
        // "A1 B2"
        return certain(counts && lettered && next.is_alphabetic());
    }
    // A year is one or an amount, by what follows.
    let year = word.len() == 4;
    if numeric || is_money(first) {
        Verdict::Depends(Ending::Early(year))
    } else {
        Verdict::No
    }
}

fn is_money(c: char) -> bool {
    matches!(c, '$' | '€' | '£' | '¥' | '₹')
}

/// True if small numbers are counted: "1 2 3", but no groups of a longer number, such as "+33 6 12 34".
fn is_row(before: &[char]) -> bool {
    let of_number = |c: &&char| is_space(**c) || c.is_numeric() || "+()-./,".contains(**c);
    let length = before.iter().rev().take_while(of_number).count();
    let run = &before[before.len() - length..];
    let small = |token: &[char]| {
        let digits = token.strip_suffix(&[',']).unwrap_or(token);
        (1..=2).contains(&digits.len()) && digits[0] != '0' && digits.iter().all(char::is_ascii_digit)
    };
    let tokens = || {
        run.split(|&c| is_space(c))
            .filter(|token| token.iter().any(|c| c.is_numeric()))
    };
    let count = tokens().count();
    let whole = length == before.len();
    length >= LONGEST_NUMBERS || (count > 2 || count == 2 && whole) && tokens().all(small)
}

/// The kind of end where the caller ends the text.
pub(super) fn end_of_text(buf: &[char]) -> EndKind {
    let last = buf
        .iter()
        .rev()
        .find(|&&c| !is_space(c) && !is_closer(c))
        .copied()
        .unwrap_or(' ');
    match last {
        '.' | '!' | '?' | '…' => EndKind::Sentence,
        c if is_full_stop(c) => EndKind::Sentence,
        ',' | ';' | ':' => EndKind::Clause,
        c if is_wide_comma(c) || is_dash(c) => EndKind::Clause,
        _ => EndKind::Flush,
    }
}
