//! Addresses and code: web and mail addresses, IP addresses, mentions, hashtags, file paths, flags, identifiers. In these
//! every sign is said.

use super::rules::Reading;
use super::text::{Kind, Text};
use super::{acronym, number, symbol};
use crate::list::listed;

/// Last labels of host names that make an address of a bare name.
static DOMAINS: &str = "\
    com org net edu gov mil info biz io ai co dev app uk de fr eu ch nl jp cn ru br ca au es se pl kr nz tv xyz \
    cloud online site tech blog example local";
/// Last labels that are said as a word.
static SAID: &str = "io co me app";

/// An address: its start, its end and the part of it that is said.
struct Chunk<'t, 'a> {
    text: &'t Text<'a>,
    from: usize,
    /// Without punctuation of the sentence at its end.
    end: usize,
}

impl<'t, 'a> Chunk<'t, 'a> {
    fn at(text: &'t Text<'a>, from: usize) -> Option<Self> {
        let mut end = text.chunk_end(from)?;
        while end > from
            && text.is_any(
                end - 1,
                &[
                    ".", ",", ";", ":", "!", "?", "(", ")", "]", "}", ">", "\"", "'", "`", "*",
                ],
            )
        {
            end -= 1;
        }
        (end > from).then_some(Self { text, from, end })
    }

    fn find(&self, from: usize, sign: &str) -> Option<usize> {
        (from..self.end).find(|&i| self.text.is(i, sign))
    }

    fn count(&self, sign: &str) -> usize {
        (self.from..self.end).filter(|&i| self.text.is(i, sign)).count()
    }

    fn reading(&self, from: usize) -> Reading {
        let mut end = self.end;
        if end > from + 1 && self.text.is(end - 1, "/") && self.text.is_word(end - 2) {
            end -= 1;
        }
        Reading::new(spell(self.text, from, end), self.end)
    }
}

/// Reads a web, mail or IP address, a mention or a hashtag.
pub(super) fn address(text: &Text<'_>, at: usize) -> Option<Reading> {
    match text.str(at) {
        "@" if text.is_word(at + 1) => return handle(text, at, "at"),
        "#" if text.is_word(at + 1) => return handle(text, at, "hashtag"),
        _ if !matches!(text.kind(at), Some(Kind::Word | Kind::Digits)) => return None,
        _ => {}
    }
    let chunk = Chunk::at(text, at)?;
    ip(&chunk).or_else(|| mail(&chunk)).or_else(|| web(&chunk))
}

fn handle(text: &Text<'_>, at: usize, name: &str) -> Option<Reading> {
    let mut end = at + 1;
    while matches!(text.kind(end), Some(Kind::Word | Kind::Digits))
        || (text.is(end, "_") && !text.is_gap(end + 1))
    {
        end += 1;
    }
    Some(Reading::new(
        format!("{name} {}", words(text, at + 1, end, Signs::Quiet)),
        end,
    ))
}

/// "192.168.0.1", with a port or a mask
fn ip(chunk: &Chunk<'_, '_>) -> Option<Reading> {
    let text = chunk.text;
    let at = chunk.from;
    let byte = |i: usize| text.is_digits(i) && text.str(i).len() <= 3 && text.str(i).parse::<u8>().is_ok();
    if !(0..4).all(|i| byte(at + 2 * i)) || !(0..3).all(|i| text.is(at + 2 * i + 1, ".")) {
        return None;
    }
    let mut parts: Vec<String> = (0..4).map(|i| digits(text.str(at + 2 * i))).collect();
    let mut end = at + 7;
    if text.is_any(end, &[":", "/"]) && text.is_digits(end + 1) {
        let name = if text.is(end, ":") { "colon" } else { "slash" };
        parts[3] = format!("{} {name} {}", parts[3], digits(text.str(end + 1)));
        end += 2;
    }
    (end >= chunk.end).then(|| Reading::new(parts.join(" dot "), end))
}

/// "first.last@example.com", with or without "mailto:"
fn mail(chunk: &Chunk<'_, '_>) -> Option<Reading> {
    let text = chunk.text;
    let from = chunk.from
        + if text.is(chunk.from, "mailto") && text.is(chunk.from + 1, ":") {
            2
        } else {
            0
        };
    let at = chunk
        .find(from, "@")
        .filter(|&at| at > from && chunk.count("@") == 1)?;
    let local = (from..at).all(|i| is_name(text, i) || text.is_any(i, &[".", "_", "-", "+", "%"]));
    let host_end = host_end(chunk, at + 1)?;
    (local && host_end == chunk.end).then(|| chunk.reading(from))
}

/// `https://www.example.com/path`, `example.com`. The scheme is not said if it is that of the web.
fn web(chunk: &Chunk<'_, '_>) -> Option<Reading> {
    let text = chunk.text;
    let from = chunk.from;
    if text.is_word(from) && text.is(from + 1, ":") && text.is(from + 2, "/") && text.is(from + 3, "/") {
        let host = from + 4;
        if host >= chunk.end {
            return None;
        }
        let web = matches!(text.str(from).to_ascii_lowercase().as_str(), "http" | "https");
        return Some(chunk.reading(if web { host } else { from }));
    }
    if text.str(from).eq_ignore_ascii_case("www") && text.is(from + 1, ".") && from + 2 < chunk.end {
        return Some(chunk.reading(from));
    }
    if text.is(from, "localhost") && text.is(from + 1, ":") && text.is_digits(from + 2) {
        return Some(chunk.reading(from));
    }
    let end = host_end(chunk, from)?;
    let last = text.str(end - 1).to_ascii_lowercase();
    let known = listed(DOMAINS, &last);
    let goes_on = end == chunk.end || text.is_any(end, &["/", ":", "?", "#"]);
    (known && goes_on && !text.is_capitalised(end - 1)).then(|| chunk.reading(from))
}

/// The end of a host name of at least two labels.
fn host_end(chunk: &Chunk<'_, '_>, from: usize) -> Option<usize> {
    let text = chunk.text;
    let mut end = from;
    while end < chunk.end && (is_name(text, end) || (text.is_any(end, &["-", "."]) && is_name(text, end + 1)))
    {
        end += 1;
    }
    let dots = (from..end).any(|i| text.is(i, "."));
    (dots && end > from && is_name(text, from) && text.is_word(end - 1)).then_some(end)
}

fn is_name(text: &Text<'_>, at: usize) -> bool {
    matches!(text.kind(at), Some(Kind::Word | Kind::Digits))
}

/// Reads a flag, a file path, an identifier or a file name.
pub(super) fn code(text: &Text<'_>, at: usize) -> Option<Reading> {
    let chunk = Chunk::at(text, at)?;
    if is_flag(&chunk) || is_path(&chunk) || is_assignment(&chunk) {
        return Some(Reading::new(spell(text, at, chunk.end), chunk.end));
    }
    if is_identifier(&chunk) {
        return Some(Reading::new(words(text, at, chunk.end, Signs::Quiet), chunk.end));
    }
    None
}

/// "--flag", "-v"
fn is_flag(chunk: &Chunk<'_, '_>) -> bool {
    let text = chunk.text;
    let at = chunk.from;
    if !text.is(at, "-") {
        return false;
    }
    let long = text.is(at + 1, "-") && text.is_word(at + 2);
    let name = text.str(at + 1);
    let letters = name.len() == 1 || name.len() < 4 && !listed("ed er est es ing ic ish ism ist ly", name);
    let short = text.is_word(at + 1) && letters && (at + 2 == chunk.end || text.is(at + 2, "="));
    long || short
}

/// "/usr/bin", "./run", "~/notes.txt", "C:\Users", "src/main.rs"
fn is_path(chunk: &Chunk<'_, '_>) -> bool {
    let text = chunk.text;
    let at = chunk.from;
    let start = text.slice(at, at + 3);
    let rooted = ["/", "./", "~/", "../"]
        .iter()
        .any(|root| start.starts_with(root))
        && (at..chunk.end).any(|i| is_name(text, i));
    let drive = text.str(at).len() == 1 && text.is_word(at) && text.is(at + 1, ":") && text.is(at + 2, "\\");
    let slashes = chunk.count("/");
    let file =
        chunk.end - at >= 3 && text.is(chunk.end - 2, ".") && text.is_word(chunk.end - 1) && text.is_word(at);
    rooted || drive || (text.is_word(at) && slashes >= 1 && (file || slashes >= 3))
}

/// "key=value"
fn is_assignment(chunk: &Chunk<'_, '_>) -> bool {
    let text = chunk.text;
    text.is_word(chunk.from)
        && (chunk.from + 1..chunk.end.saturating_sub(1)).any(|i| text.is(i, "=") && !text.is(i + 1, "="))
        && chunk.count("_") + chunk.count("-") > 0
}

/// "snake_case", "path::name"
fn is_identifier(chunk: &Chunk<'_, '_>) -> bool {
    let text = chunk.text;
    let signs = chunk.count("_") + chunk.count(":");
    let only = (chunk.from..chunk.end).all(|i| is_name(text, i) || text.is(i, "_") || text.is(i, ":"));
    let pairs = chunk.find(chunk.from, ":").is_none_or(|i| text.is(i + 1, ":"));
    only && pairs && signs > 0 && (chunk.from..chunk.end).any(|i| text.is_word(i))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signs {
    Said,
    Quiet,
}

fn spell(text: &Text<'_>, from: usize, end: usize) -> String {
    words(text, from, end, Signs::Said)
}

fn words(text: &Text<'_>, from: usize, end: usize, signs: Signs) -> String {
    let mut words: Vec<String> = Vec::new();
    for i in from..end {
        match text.kind(i) {
            Some(Kind::Word) => words.push(label(text, i)),
            Some(Kind::Digits) => words.push(digits(text.str(i))),
            Some(Kind::Symbol) if signs == Signs::Said => {
                let name = text.str(i).chars().next().and_then(symbol::spelled);
                words.extend(name.map(str::to_owned));
            }
            _ => {}
        }
    }
    words.join(" ")
}

/// A word in an address: two letters at its end are letters unless they are said as a word.
fn label(text: &Text<'_>, at: usize) -> String {
    let word = text.str(at);
    let lower = word.to_ascii_lowercase();
    let after_dot = at > 0 && text.is(at - 1, ".");
    if after_dot && lower.len() == 2 && !listed(SAID, &lower) && listed(DOMAINS, &lower) {
        return acronym::spaced(&lower);
    }
    acronym::reading(word, false)
}

/// Digits in an address: short numbers and years as such, all others one by one.
fn digits(digits: &str) -> String {
    match digits.len() {
        1 | 2 if digits == "0" || !digits.starts_with('0') => number::cardinal(digits),
        4 if digits.starts_with("19") || digits.starts_with("20") => number::year(digits),
        _ => number::spelled(digits),
    }
}
