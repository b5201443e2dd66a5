//! Marks in text that say how to speak: pauses, and the part of SSML that says nothing else.
//!
//! In: text in any chunking. Out: what is to be spoken, with the marks between. `[pause:500ms]` and `<break time="500ms"/>` are marks in
//! any text. A text whose first visible characters are `<speak` is SSML: its elements `speak`, `p`, `s` and `break` are marks, its
//! entities are characters, and any other element is an error. What only looks like a mark is text.
//!
//! Every decision is made by characters alone, so any chunking gives the parts of the whole text. At most [`LONGEST_MARK`] characters
//! wait for the end of a mark, and at most [`LONGEST_ELEMENT`] for the beginning of a document or the end of an element.

mod element;

use core::time::Duration;

use crate::TextError;
use element::Element;

/// Longest pause that a mark can ask for, and that marks beside each other add up to.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Most characters of a mark in plain text.
const LONGEST_MARK: usize = 64;
/// Most characters of an element, a comment or a declaration of SSML.
const LONGEST_ELEMENT: usize = 1024;
/// Most characters of an entity.
const LONGEST_ENTITY: usize = 12;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Characters as they were written.
    Text(String),
    /// A character that was written in `chars` characters.
    Entity(char, usize),
    /// `chars` characters that are not spoken. The sentence ends before them; `pause` is what they ask for, none for what is usual.
    Mark { chars: usize, pause: Option<Duration> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Syntax {
    /// Nothing visible came yet.
    #[default]
    Unknown,
    Plain,
    Ssml,
}

/// What the characters that wait turn out to be.
enum Verdict {
    /// It takes more characters to know.
    Open,
    /// The first of them is text.
    Text,
    Entity(char),
    Mark(Option<Duration>),
    /// The beginning of a document in SSML.
    Document,
}

/// Finds the marks of one text.
#[derive(Debug, Default)]
pub(crate) struct Markup {
    syntax: Syntax,
    /// What may become a mark.
    held: String,
}

impl Markup {
    /// Takes more text.
    ///
    /// # Errors
    /// [`TextError::Markup`] for SSML that cannot be followed.
    pub(crate) fn push(&mut self, text: &str) -> Result<Vec<Part>, TextError> {
        let mut parts = Parts::default();
        for c in text.chars() {
            self.accept(c, &mut parts)?;
        }
        Ok(parts.finish())
    }

    /// Takes what waits as it is: no more text comes that it could be a mark with.
    pub(crate) fn flush(&mut self) -> Vec<Part> {
        let mut parts = Parts::default();
        parts.text.push_str(&std::mem::take(&mut self.held));
        parts.finish()
    }

    /// Bytes that wait.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn accept(&mut self, c: char, parts: &mut Parts) -> Result<(), TextError> {
        if self.held.is_empty() && !self.opens(c) {
            if self.syntax == Syntax::Unknown && !is_blank(c) {
                self.syntax = Syntax::Plain;
            }
            parts.text.push(c);
            return Ok(());
        }
        self.held.push(c);
        let chars = self.held.chars().count();
        match self.verdict(chars)? {
            Verdict::Open => return Ok(()),
            Verdict::Entity(c) => parts.add(Part::Entity(c, chars)),
            Verdict::Mark(pause) => parts.add(Part::Mark { chars, pause }),
            Verdict::Document => {
                self.syntax = Syntax::Ssml;
                parts.add(Part::Mark { chars, pause: None });
            }
            Verdict::Text => return self.release(parts),
        }
        self.held.clear();
        Ok(())
    }

    /// The first character that waits is text; each of the others may begin a mark of its own.
    fn release(&mut self, parts: &mut Parts) -> Result<(), TextError> {
        let held = std::mem::take(&mut self.held);
        let mut chars = held.chars();
        parts.text.extend(chars.next());
        if self.syntax == Syntax::Unknown {
            self.syntax = Syntax::Plain;
        }
        chars.try_for_each(|c| self.accept(c, parts))
    }

    fn opens(&self, c: char) -> bool {
        match self.syntax {
            Syntax::Unknown | Syntax::Plain => matches!(c, '<' | '['),
            Syntax::Ssml => matches!(c, '<' | '[' | '&'),
        }
    }

    fn verdict(&self, chars: usize) -> Result<Verdict, TextError> {
        let held = &self.held;
        if held.starts_with('[') {
            return Ok(bracket(held, chars));
        }
        if held.starts_with('&') {
            return Ok(entity(held, chars));
        }
        match self.syntax {
            Syntax::Plain => Ok(plain_element(held, chars)),
            Syntax::Unknown => Ok(first_element(held, chars)),
            Syntax::Ssml => element(held, chars),
        }
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// `[pause:500ms]`.
fn bracket(held: &str, chars: usize) -> Verdict {
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
fn entity(held: &str, chars: usize) -> Verdict {
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
fn plain_element(held: &str, chars: usize) -> Verdict {
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
fn first_element(held: &str, chars: usize) -> Verdict {
    const NAME: &str = "<speak";
    let open = match chars < LONGEST_ELEMENT {
        true => Verdict::Open,
        false => Verdict::Text,
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

/// What comes of looking for the end of declarations and comments.
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
fn element(held: &str, chars: usize) -> Result<Verdict, TextError> {
    let refused = |element: String| TextError::Markup { element };
    let beginning = || held.chars().take(40).collect();
    if !is_whole(held) {
        return match chars < LONGEST_ELEMENT {
            true => Ok(Verdict::Open),
            false => Err(refused("an element that does not end".to_owned())),
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

/// What a `break` asks for; nothing if it is the end of one. None outside: its attributes make no sense.
#[allow(clippy::option_option, reason = "no pause and no sense are two things")]
fn pause(element: &Element<'_>) -> Option<Option<Duration>> {
    match element.closes {
        true => Some(None),
        false => element.pause().map(|pause| Some(pause.min(LONGEST_PAUSE))),
    }
}

/// Whether an element, a comment or a declaration has its end. A `>` within quotes or within a comment is none.
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

/// Parts in their order; text beside text is one.
#[derive(Debug, Default)]
struct Parts {
    done: Vec<Part>,
    text: String,
}

impl Parts {
    fn add(&mut self, part: Part) {
        self.close();
        self.done.push(part);
    }

    fn close(&mut self) {
        if !self.text.is_empty() {
            self.done.push(Part::Text(std::mem::take(&mut self.text)));
        }
    }

    fn finish(mut self) -> Vec<Part> {
        self.close();
        self.done
    }
}

#[cfg(test)]
mod tests;
