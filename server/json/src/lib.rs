//! JSON as callers write it: with a byte order mark, and with halves of characters.
//!
//! Programs that cut text by UTF-16 units write an emoji as two escapes, `\ud83d` and `\ude00`, and sometimes send the first in one
//! message and the second in the next. A half alone is no character: [`read`] puts U+FFFD in its place. A [`TextPiece`] keeps the halves
//! at its ends, so that a [`PieceJoiner`] can join them with those of the pieces beside it.

// Part of a program, and no library for others: items are documented where their names do not say enough.
#![allow(missing_docs)]

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xEF\xBB\xBF";
/// Bytes of an escape: a backslash, `u` and four digits.
const ESCAPE: usize = 6;
/// U+FFFD as an escape, as long as what it replaces.
const REPLACEMENT: &[u8; ESCAPE] = b"\\ufffd";

/// Reads a value. A half of a character without its other half is U+FFFD.
///
/// # Errors
/// If the bytes are no JSON, or none of a `T`.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(&repaired(json))
}

/// Reads a value in which a [`TextPiece`] keeps halves of characters at its ends. Elsewhere a half is U+FFFD.
///
/// # Errors
/// As for [`read`].
pub fn read_pieces<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json.strip_prefix(MARK).unwrap_or(json)).or_else(|_| read(json))
}

/// The problem with JSON that is none of the expected type, in the words of JSON: serde names types of this program.
pub fn problem(error: &serde_json::Error) -> String {
    let problem = error.to_string();
    match problem.rsplit_once("expected struct ") {
        Some((before, named)) => {
            let rest = named.trim_start_matches(|letter: char| letter.is_alphanumeric());
            format!("{before}expected an object{rest}")
        }
        None => problem,
    }
}

/// The same JSON without a byte order mark, and with U+FFFD for every escape of half a character.
pub fn repaired(json: &[u8]) -> Cow<'_, [u8]> {
    let json = json.strip_prefix(MARK).unwrap_or(json);
    let mut repaired = Cow::Borrowed(json);
    let mut at = 0;
    while let Some(found) = json[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        at += match half(json, at) {
            // An escape of another kind, a backslash among them.
            None => 2,
            Some(unit) if is_first(unit) && half(json, at + ESCAPE).is_some_and(is_second) => 2 * ESCAPE,
            Some(_) => {
                repaired.to_mut()[at..at + ESCAPE].copy_from_slice(REPLACEMENT);
                ESCAPE
            }
        };
        if at >= json.len() {
            break;
        }
    }
    repaired
}

/// The same of JSON that is text already.
pub fn repaired_text(json: &str) -> Cow<'_, str> {
    match repaired(json.as_bytes()) {
        Cow::Borrowed(_) => Cow::Borrowed(json.trim_start_matches('\u{FEFF}')),
        // Escapes are exchanged for escapes: it stays text.
        Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
    }
}

/// The half of a character that the escape at this place stands for, if it stands for one.
fn half(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    (is_first(unit) || is_second(unit)).then_some(unit)
}

fn is_first(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

fn is_second(unit: u16) -> bool {
    (0xDC00..0xE000).contains(&unit)
}

/// A text that may begin with the second half of a character, and end with the first half of another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextPiece {
    second: Option<u16>,
    text: String,
    first: Option<u16>,
}

impl TextPiece {
    /// Its text alone, halves as U+FFFD.
    pub fn whole(self) -> String {
        let mut joiner = PieceJoiner::default();
        let mut text = joiner.push(self);
        text.extend(joiner.finish());
        text
    }

    /// From units of UTF-8 in which a half has three bytes of its own, as `serde_json` gives escapes to who asks for bytes.
    fn decoded(mut bytes: &[u8]) -> Option<Self> {
        let mut piece = Self::default();
        loop {
            let valid = match std::str::from_utf8(bytes) {
                Ok(rest) => {
                    piece.say(rest);
                    return Some(piece);
                }
                Err(error) => error.valid_up_to(),
            };
            let (text, rest) = bytes.split_at(valid);
            piece.say(std::str::from_utf8(text).ok()?);
            let [0xED, high @ 0xA0..=0xBF, low @ 0x80..=0xBF, ..] = rest else {
                return None;
            };
            let unit = 0xD000 | u16::from(high & 0x3F) << 6 | u16::from(low & 0x3F);
            piece.half(unit);
            bytes = &rest[3..];
        }
    }

    /// More of its text. A first half before it has no second one.
    fn say(&mut self, text: &str) {
        if !text.is_empty() {
            let lost = self.first.take().map(|_| char::REPLACEMENT_CHARACTER);
            self.text.extend(lost);
            self.text.push_str(text);
        }
    }

    fn half(&mut self, unit: u16) {
        let alone = self.text.is_empty() && self.first.is_none() && self.second.is_none();
        match self.first.take() {
            Some(first) => match joined(first, unit) {
                Some(character) => self.text.push(character),
                None => {
                    self.text.push(char::REPLACEMENT_CHARACTER);
                    self.half(unit);
                }
            },
            None if is_first(unit) => self.first = Some(unit),
            None if alone => self.second = Some(unit),
            None => self.text.push(char::REPLACEMENT_CHARACTER),
        }
    }
}

impl From<&str> for TextPiece {
    fn from(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

impl<'de> Deserialize<'de> for TextPiece {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Piece;
        impl Visitor<'_> for Piece {
            type Value = TextPiece;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextPiece, E> {
                Ok(text.into())
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<TextPiece, E> {
                let invalid = || E::invalid_value(Unexpected::Other("bytes that are no UTF-8"), &self);
                TextPiece::decoded(bytes).ok_or_else(invalid)
            }
        }
        deserializer.deserialize_bytes(Piece)
    }
}

/// Joins the pieces of one text.
#[derive(Debug, Default)]
pub struct PieceJoiner {
    /// The half at the end of the last piece.
    first: Option<u16>,
}

impl PieceJoiner {
    /// The text that is complete with this piece. A half at its end waits for the next.
    pub fn push(&mut self, piece: TextPiece) -> String {
        let TextPiece { second, text, first } = piece;
        if second.is_none() && text.is_empty() && first.is_none() {
            return text;
        }
        let waited = self.first.take();
        let begin = match (waited, second) {
            (Some(waited), Some(second)) => joined(waited, second),
            (Some(_), None) | (None, Some(_)) => Some(char::REPLACEMENT_CHARACTER),
            (None, None) => None,
        };
        self.first = first;
        match begin {
            Some(begin) => format!("{begin}{text}"),
            None => text,
        }
    }

    /// The text ends: gives what stands for a half that waited.
    pub fn finish(&mut self) -> Option<char> {
        self.first.take().map(|_| char::REPLACEMENT_CHARACTER)
    }
}

fn joined(first: u16, second: u16) -> Option<char> {
    char::decode_utf16([first, second]).next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        read::<String>(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"))
    }

    #[test]
    fn a_problem_names_no_type_of_this_program() {
        #[derive(Debug, Deserialize)]
        struct Format {
            #[serde(rename = "type")]
            _kind: String,
        }
        let error = read::<Format>(br#" "expected struct Text""#).expect_err("no object");
        let expected = r#"invalid type: string "expected struct Text", expected an object at line 1"#;
        assert!(problem(&error).starts_with(expected), "{}", problem(&error));
        let error = read::<Format>(b"{}").expect_err("no type");
        assert_eq!(problem(&error), error.to_string());
    }

    #[test]
    fn half_a_character_without_its_other_half_is_the_replacement_character() {
        for (json, expected) in [
            (r#""Great job \ud83d""#, "Great job \u{FFFD}"),
            (r#""\ude00 job""#, "\u{FFFD} job"),
            (r#""\uD83D\uDE00""#, "\u{1F600}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{FFFD}\u{1F600}"),
            (r#""\ude00\ud83d""#, "\u{FFFD}\u{FFFD}"),
            (r#""a\ud83d\nb""#, "a\u{FFFD}\nb"),
            (r#""\ud83d\\ude00""#, "\u{FFFD}\\ude00"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\\\ud83d""#, "\\\u{FFFD}"),
            (r#""\u00e4 \/ \"""#, "ä / \""),
            ("\u{FEFF}\"a\"", "a"),
        ] {
            assert_eq!(text(json), expected, "{json}");
        }
    }

    #[test]
    fn keys_are_repaired_as_values_are_and_what_needs_no_repair_is_not_copied() {
        assert_eq!(
            &*repaired(br#"{"\ud83d": ["\ud83d"]}"#),
            br#"{"\ufffd": ["\ufffd"]}"#
        );
        for json in [
            &br#"{"a": "\ud83d\ude00 \\"}"#[..],
            b"",
            b"\\",
            b"\"\\u12",
            b"\"\\ud83",
        ] {
            assert!(matches!(repaired(json), Cow::Borrowed(same) if same == json));
        }
    }

    fn spoken(pieces: &[&str]) -> String {
        let mut joiner = PieceJoiner::default();
        let mut text: String = pieces
            .iter()
            .map(|json| joiner.push(read_pieces(json.as_bytes()).expect("a piece")))
            .collect();
        text.extend(joiner.finish());
        text
    }

    #[test]
    fn halves_in_consecutive_pieces_are_one_character() {
        for (pieces, expected) in [
            (&[r#""a\ud83d""#, r#""\ude00b""#][..], "a\u{1F600}b"),
            (&[r#""a\ud83d""#, r#""""#, r#""\ude00b""#], "a\u{1F600}b"),
            (
                &[r#""\ud83d""#, r#""\ude00\ud83d""#, r#""\ude01""#],
                "\u{1F600}\u{1F601}",
            ),
            (&[r#""a\ud83d""#, r#""b""#], "a\u{FFFD}b"),
            (&[r#""a\ud83d""#], "a\u{FFFD}"),
            (&[r#""\ude00a""#], "\u{FFFD}a"),
            (
                &[r#""\ud83d""#, r#""\ud83d""#, r#""\ude00""#],
                "\u{FFFD}\u{1F600}",
            ),
            (&[r#""a\ude00b\ud83dc""#], "a\u{FFFD}b\u{FFFD}c"),
            (&[r#""\ude00\ude00""#], "\u{FFFD}\u{FFFD}"),
            (&["\"\u{1F600}\"", r#""\ud83d\ude00""#], "\u{1F600}\u{1F600}"),
        ] {
            assert_eq!(spoken(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_piece_alone_has_no_halves() {
        let piece: TextPiece = read_pieces(br#""\ude00a\ud83d""#).expect("a piece");
        assert_eq!(piece.whole(), "\u{FFFD}a\u{FFFD}");
        for json in [&b"1"[..], b"[97]", b"null", b"\"\xFF\"", b"\"\xED\xA0\""] {
            assert!(read_pieces::<TextPiece>(json).is_err());
        }
    }
}
