//! Marks in text that say how to speak: pauses, and the part of SSML that says nothing else.
//!
//! In: text in any chunking. Out: what is to be spoken, with the marks between. `[pause:500ms]` and `<break time="500ms"/>` are marks in
//! any text. A text whose first visible characters are `<speak` is SSML: its elements `speak`, `p`, `s` and `break` are marks, its
//! entities are characters, and any other element is an error. What only looks like a mark is text.
//!
//! Every decision is made by characters alone, so any chunking gives the parts of the whole text. At most [`LONGEST_MARK`] characters
//! wait for the end of a mark.

mod element;

use std::time::Duration;

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
    /// `chars` characters that are not spoken. The sentence ends before them, and `pause` follows, zero for none.
    Mark { chars: usize, pause: Duration },
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
    Mark(Duration),
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
                let pause = Duration::ZERO;
                parts.add(Part::Mark { chars, pause });
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
            Syntax::Unknown => first_element(held, chars),
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
            .map_or(Verdict::Text, |pause| Verdict::Mark(pause.min(LONGEST_PAUSE))),
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

/// `<break .../>` in a text without other elements.
fn plain_element(held: &str, chars: usize) -> Verdict {
    const NAME: &str = "<break";
    let begins = held
        .chars()
        .zip(NAME.chars())
        .all(|(got, name)| got.eq_ignore_ascii_case(&name));
    if !begins || chars > LONGEST_MARK {
        return Verdict::Text;
    }
    if !held.ends_with('>') {
        return Verdict::Open;
    }
    match Element::read(held) {
        Some(found) if found.name.eq_ignore_ascii_case("break") => found
            .pause()
            .map_or(Verdict::Text, |pause| Verdict::Mark(pause.min(LONGEST_PAUSE))),
        _ => Verdict::Text,
    }
}

/// The first thing of a text: the beginning of a document, or what [`plain_element`] finds.
fn first_element(held: &str, chars: usize) -> Result<Verdict, TextError> {
    const NAME: &str = "<speak";
    let prologue = held.starts_with("<?") || held.starts_with("<!");
    if !is_whole(held) {
        let begins = held
            .chars()
            .zip(NAME.chars())
            .all(|(got, name)| got.eq_ignore_ascii_case(&name));
        let may = prologue || begins;
        return match may && chars < LONGEST_ELEMENT {
            true => Ok(Verdict::Open),
            false => Ok(plain_element(held, chars)),
        };
    }
    if prologue {
        return Ok(Verdict::Mark(Duration::ZERO));
    }
    match Element::read(held) {
        Some(found) if found.name.eq_ignore_ascii_case("speak") => Ok(Verdict::Document),
        _ => Ok(plain_element(held, chars)),
    }
}

/// An element, a comment or a declaration of a document.
fn element(held: &str, chars: usize) -> Result<Verdict, TextError> {
    if !is_whole(held) {
        return match chars < LONGEST_ELEMENT {
            true => Ok(Verdict::Open),
            false => Err(TextError::Markup {
                element: "an element that does not end".to_owned(),
            }),
        };
    }
    if held.starts_with("<?") || held.starts_with("<!") {
        return Ok(Verdict::Mark(Duration::ZERO));
    }
    let refused = |element: String| TextError::Markup { element };
    let found = Element::read(held).ok_or_else(|| refused(held.chars().take(40).collect()))?;
    match found.name.to_ascii_lowercase().as_str() {
        "speak" | "p" | "s" => Ok(Verdict::Mark(Duration::ZERO)),
        "break" if found.closes => Ok(Verdict::Mark(Duration::ZERO)),
        "break" => match found.pause() {
            Some(pause) => Ok(Verdict::Mark(pause.min(LONGEST_PAUSE))),
            None => Err(refused(held.chars().take(40).collect())),
        },
        name => Err(refused(format!("<{name}>"))),
    }
}

/// Whether an element, a comment or a declaration has its end. A `>` within quotes or within a comment is none.
fn is_whole(held: &str) -> bool {
    if held.starts_with("<!--") {
        return held.len() >= 7 && held.ends_with("-->");
    }
    if !held.ends_with('>') || "<!--".starts_with(held) {
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
