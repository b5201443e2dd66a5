//! Marks for pauses in any text, and the elements and entities of SSML.

use core::time::Duration;

use super::LONGEST_PAUSE;
use super::element::{self, Element};
use crate::TextError;

/// Most characters of a mark in plain text.
const LONGEST_MARK: usize = 64;
/// Most characters of an element, a comment or a declaration of SSML.
pub(super) const LONGEST_ELEMENT: usize = 1024;
/// Most characters of an entity.
const LONGEST_ENTITY: usize = 12;

/// The meaning of the characters that wait.
pub(super) enum Verdict {
    /// It takes more characters to know.
    Open,
    /// The first of them is text.
    Text,
    Entity(char),
    Mark(Option<Duration>),
    /// The beginning of a document in SSML.
    Document,
}

/// White space, or the mark of the order of bytes.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// `[pause:500ms]`.
pub(super) fn bracket(held: &str, chars: usize) -> Verdict {
    const NAME: &str = "[pause:";
    let begins = held
        .chars()
        .zip(NAME.chars())
        .all(|(got, name)| got.eq_ignore_ascii_case(&name));
    match held.strip_suffix(']') {
        _ if !begins || chars > LONGEST_MARK => Verdict::Text,
        Some(mark) => mark
            .get(NAME.len()..)
            .and_then(element::duration)
            .map_or(Verdict::Text, |pause| {
                Verdict::Mark(Some(pause.min(LONGEST_PAUSE)))
            }),
        None => Verdict::Open,
    }
}

/// A character of SSML by its name or number.
pub(super) fn entity(held: &str, chars: usize) -> Verdict {
    match held.strip_suffix(';') {
        Some(name) => element::character(&name[1..]).map_or(Verdict::Text, Verdict::Entity),
        None if chars < LONGEST_ENTITY && names(&held[1..]) => Verdict::Open,
        None => Verdict::Text,
    }
}

fn names(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'#')
}

/// `<break .../>` in a text without other elements, or `</break>`.
pub(super) fn plain_element(held: &str, chars: usize) -> Verdict {
    let begins = |name: &str| {
        let mut both = held.chars().zip(name.chars());
        both.all(|(got, name)| got.eq_ignore_ascii_case(&name))
    };
    if !begins("<break") && !begins("</break") || chars > LONGEST_MARK {
        return Verdict::Text;
    }
    if !held.ends_with('>') {
        return Verdict::Open;
    }
    match Element::read(held) {
        Some(found) if found.name.eq_ignore_ascii_case("break") => {
            pause(&found).map_or(Verdict::Text, Verdict::Mark)
        }
        _ => Verdict::Text,
    }
}

/// The first thing of a text: the beginning of a document, or what [`plain_element`] finds. A document begins with `<speak`, after
/// declarations and comments; without it those are text.
pub(super) fn first_element(held: &str, chars: usize) -> Verdict {
    const NAME: &str = "<speak";
    let open = if chars < LONGEST_ELEMENT {
        Verdict::Open
    } else {
        Verdict::Text
    };
    let rest = match behind_prologue(held) {
        Prologue::Open => return open,
        Prologue::Other => return plain_element(held, chars),
        Prologue::Ended(rest) => rest,
    };
    let mut begins = rest.chars().zip(NAME.chars());
    let begins = begins.all(|(got, name)| got.eq_ignore_ascii_case(&name));
    let is_document = || Element::read(rest).is_some_and(|found| found.name.eq_ignore_ascii_case("speak"));
    match begins {
        true if !is_whole(rest) => open,
        true if is_document() => Verdict::Document,
        _ => plain_element(held, chars),
    }
}

/// The result of looking for the end of declarations and comments.
enum Prologue<'a> {
    Open,
    /// There are none that could stand before a document.
    Other,
    Ended(&'a str),
}

fn behind_prologue(held: &str) -> Prologue<'_> {
    let mut rest = held;
    loop {
        rest = rest.trim_start_matches(is_blank);
        let end = match rest {
            _ if rest.starts_with("<?") => "?>",
            _ if rest.starts_with("<!--") => "-->",
            _ if rest == "<" && held.len() > 1 || !rest.is_empty() && "<!--".starts_with(rest) => {
                return Prologue::Open;
            }
            _ if rest.is_empty() => return Prologue::Open,
            _ if rest.starts_with("<!") => return Prologue::Other,
            _ => return Prologue::Ended(rest),
        };
        match rest.split_once(end) {
            Some((_, behind)) => rest = behind,
            None => return Prologue::Open,
        }
    }
}

/// An element, a comment or a declaration of a document.
pub(super) fn element(held: &str, chars: usize) -> Result<Verdict, TextError> {
    let refused = |element: String| TextError::Markup { element };
    let beginning = || held.chars().take(40).collect();
    if !is_whole(held) {
        return if chars < LONGEST_ELEMENT {
            Ok(Verdict::Open)
        } else {
            Err(refused("an element that does not end".to_owned()))
        };
    }
    if held.starts_with("<?") || held.starts_with("<!--") {
        return Ok(Verdict::Mark(None));
    }
    let found = Element::read(held).ok_or_else(|| refused(beginning()))?;
    match found.name.to_ascii_lowercase().as_str() {
        "speak" | "p" | "s" => Ok(Verdict::Mark(None)),
        "break" => Ok(Verdict::Mark(pause(&found).ok_or_else(|| refused(beginning()))?)),
        name => Err(refused(format!("<{name}>"))),
    }
}

/// The pause that a `break` asks for; nothing if it is the end of one. None outside: its attributes make no sense.
#[allow(clippy::option_option, reason = "no pause and no sense are two things")]
fn pause(element: &Element<'_>) -> Option<Option<Duration>> {
    if element.closes {
        Some(None)
    } else {
        element.pause().map(|pause| Some(pause.min(LONGEST_PAUSE)))
    }
}

/// True if an element, a comment or a declaration has its end. A `>` within quotes or within a comment is none.
fn is_whole(held: &str) -> bool {
    if held.starts_with("<!--") {
        return held.len() >= 7 && held.ends_with("-->");
    }
    if held.starts_with("<?") {
        return held.ends_with("?>");
    }
    if !held.ends_with('>') {
        return false;
    }
    let mut quote = None;
    for c in held.chars() {
        match quote {
            None if matches!(c, '"' | '\'') => quote = Some(c),
            Some(open) if c == open => quote = None,
            _ => {}
        }
    }
    quote.is_none()
}
