//! Marks in text that say how to speak, and the notation of documents.
//!
//! In: text in any chunking. Out: what is to be spoken, with the marks between. `[pause:500ms]` and `<break time="500ms"/>` are marks in
//! any text. A text whose first visible characters are `<speak` is SSML: its elements `speak`, `p`, `s` and `break` are marks, its
//! entities are characters, and any other element is an error. For a voice that reads words, the notation of other documents is taken
//! out as well ([`notation`]). What only looks like a mark is text.
//!
//! Every decision is made by characters alone, so any chunking gives the parts of the whole text. A bounded number of characters waits
//! for the end of a mark.

mod element;
mod formula;
mod ignored;
mod mark;
mod notation;
mod tag;
mod terminal;

use core::time::Duration;

use crate::TextError;
use crate::positions::Positions;
pub use ignored::Ignored;
use mark::{Verdict, is_blank};
use notation::{Context, Edit, Judged};

/// Longest pause that a mark can ask for, and that marks beside each other add up to.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Most characters of a comment, and of a script or a style sheet; what follows is spoken again.
const LONGEST_COMMENT: usize = 1024;
const LONGEST_SCRIPT: usize = 65_536;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Characters as they were written.
    Text(String),
    /// A character that was written in `chars` characters.
    Entity(char, usize),
    /// So many characters that are not spoken.
    Skipped(usize),
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

/// Finds the marks of one text.
#[derive(Debug, Default)]
pub(crate) struct Markup {
    syntax: Syntax,
    /// Characters that may become a mark.
    held: Vec<char>,
    /// The characters that can decide what that is; any if there are none.
    deciding: &'static str,
    /// True if the notation of documents is taken out, too.
    reads: bool,
    context: Context,
    /// Everything up to this is left out, in small letters, and so many characters at most.
    hidden: Option<(String, usize)>,
    ignored: Ignored,
}

impl Markup {
    /// One without text. With `reads` the notation of documents is taken out of text that is no SSML.
    pub(crate) fn new(reads: bool) -> Self {
        Self {
            reads,
            ..Self::default()
        }
    }

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

    /// Takes what waits as what it is by itself: no more text comes that it could be a mark with.
    pub(crate) fn flush(&mut self) -> Vec<Part> {
        let mut parts = Parts::default();
        self.give_up_hidden();
        while !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            let mut again: Vec<char> = match self.syntax {
                Syntax::Unknown | Syntax::Plain if self.reads => {
                    self.apply(notation::judge(&held, &self.context, true), held, &mut parts)
                }
                _ => self.text(held, &mut parts),
            };
            again.reverse();
            // Nothing of this is SSML: it began no document before.
            let _ = self.take(again, &mut parts);
            self.give_up_hidden();
        }
        parts.finish()
    }

    /// Text that is hidden up to a mark which does not come is left out, and named.
    fn give_up_hidden(&mut self) {
        if let Some((end, _)) = self.hidden.take() {
            self.held.clear();
            self.ignored.add(format!("text without its {end}"));
        }
    }

    /// Notation that was left out since this was last called.
    pub(crate) fn take_ignored(&mut self) -> Ignored {
        std::mem::take(&mut self.ignored)
    }

    /// Bytes that wait.
    pub(crate) fn held_bytes(&self) -> usize {
        let hidden = self.hidden.as_ref().map_or(0, |(end, _)| end.len());
        self.held.iter().map(|c| c.len_utf8()).sum::<usize>() + hidden
    }

    fn accept(&mut self, c: char, parts: &mut Parts) -> Result<(), TextError> {
        if self.syntax != Syntax::Unknown && self.held.is_empty() && self.hidden.is_none() && !self.opens(c) {
            self.say(c, parts);
            return Ok(());
        }
        self.take(vec![c], parts)
    }

    /// Takes characters, the last one first; what turns out to be none of a mark is taken again.
    fn take(&mut self, mut again: Vec<char>, parts: &mut Parts) -> Result<(), TextError> {
        while let Some(c) = again.pop() {
            let rest = self.step(c, parts)?;
            again.extend(rest.into_iter().rev());
        }
        Ok(())
    }

    /// Takes one character; returns those that are to be taken again.
    fn step(&mut self, c: char, parts: &mut Parts) -> Result<Vec<char>, TextError> {
        if let Some((end, left)) = &mut self.hidden {
            *left -= 1;
            self.held.push(c.to_ascii_lowercase());
            parts.add(Part::Skipped(1));
            // What of the end came so far.
            while !self.held.iter().zip(end.chars()).all(|(&got, c)| got == c) {
                self.held.remove(0);
            }
            if self.held.len() == end.len() {
                self.hidden = None;
                self.held.clear();
            } else if *left == 0 {
                self.give_up_hidden();
            }
            return Ok(Vec::new());
        }
        if self.held.is_empty() && !self.opens(c) {
            if self.syntax == Syntax::Unknown && !is_blank(c) {
                self.syntax = Syntax::Plain;
            }
            self.say(c, parts);
            return Ok(Vec::new());
        }
        self.held.push(c);
        if !self.deciding.is_empty() && !self.deciding.contains(c) && !self.held.len().is_multiple_of(64) {
            return Ok(Vec::new());
        }
        let verdict = self.verdict()?;
        let chars = self.held.len();
        self.deciding = "";
        match verdict {
            Verdict::Open => return Ok(Vec::new()),
            Verdict::Entity(c) => {
                self.context.saw(c);
                parts.add(Part::Entity(c, chars));
            }
            Verdict::Mark(pause) => parts.add(Part::Mark { chars, pause }),
            Verdict::Document => {
                self.syntax = Syntax::Ssml;
                parts.add(Part::Mark { chars, pause: None });
            }
            Verdict::Text => {
                let held = std::mem::take(&mut self.held);
                return Ok(match self.syntax {
                    Syntax::Unknown | Syntax::Plain if self.reads => {
                        self.apply(notation::judge(&held, &self.context, false), held, parts)
                    }
                    _ => self.text(held, parts),
                });
            }
        }
        self.held.clear();
        Ok(Vec::new())
    }

    /// A character as it was written.
    fn say(&mut self, c: char, parts: &mut Parts) {
        self.context.saw(c);
        parts.text.push(c);
    }

    /// The first character that waited is text; each of the others may begin a mark of its own.
    fn text(&mut self, mut held: Vec<char>, parts: &mut Parts) -> Vec<char> {
        self.say(held.remove(0), parts);
        if self.syntax == Syntax::Unknown {
            self.syntax = Syntax::Plain;
        }
        held
    }

    /// Does what is to be done with the characters that waited; returns those that are to be taken again.
    fn apply(&mut self, judged: Judged, held: Vec<char>, parts: &mut Parts) -> Vec<char> {
        let edits = match judged {
            Judged::Open(deciding) => {
                self.deciding = deciding;
                self.held = held;
                return Vec::new();
            }
            Judged::Text => return self.text(held, parts),
            Judged::Taken(edits) => edits,
        };
        self.syntax = Syntax::Plain;
        let mut at = 0;
        for edit in edits {
            at += self.edit(edit, &held[at..], parts);
        }
        held[at..].to_vec()
    }

    /// Does one edit to the beginning of `held`; returns how many characters it took.
    fn edit(&mut self, edit: Edit, held: &[char], parts: &mut Parts) -> usize {
        match edit {
            Edit::Skip(chars) => {
                parts.add(Part::Skipped(chars));
                chars
            }
            Edit::Text(chars) => {
                held[..chars].iter().for_each(|&c| self.say(c, parts));
                chars
            }
            Edit::Inner(chars) => {
                let mut inner = Self {
                    syntax: Syntax::Plain,
                    context: self.context.clone(),
                    ..Self::new(true)
                };
                let text: String = held[..chars].iter().collect();
                // Only SSML is ever refused.
                let whole = inner.push(&text).unwrap_or_default();
                whole
                    .into_iter()
                    .chain(inner.flush())
                    .for_each(|part| parts.add(part));
                self.ignored.merge(inner.take_ignored());
                self.context = inner.context;
                chars
            }
            Edit::Words(words, chars) => {
                let mut written = chars;
                for c in words.chars() {
                    self.context.saw(c);
                    parts.add(Part::Entity(c, written));
                    written = 0;
                }
                chars
            }
            Edit::Break(chars) => {
                self.context.saw('\n');
                parts.add(Part::Mark { chars, pause: None });
                chars
            }
            Edit::Ignored(name) => {
                self.ignored.add(name);
                0
            }
            Edit::Code => {
                self.context.code = !self.context.code;
                0
            }
            Edit::Fence => {
                self.context.fence = !self.context.fence;
                0
            }
            Edit::Until(end) => {
                let most = if end == "-->" {
                    LONGEST_COMMENT
                } else {
                    LONGEST_SCRIPT
                };
                self.hidden = Some((end, most));
                0
            }
        }
    }

    fn opens(&self, c: char) -> bool {
        match self.syntax {
            Syntax::Ssml => matches!(c, '<' | '[' | '&'),
            Syntax::Unknown | Syntax::Plain => {
                matches!(c, '<' | '[') && !self.reads || self.reads && notation::opens(c, &self.context)
            }
        }
    }

    fn verdict(&self) -> Result<Verdict, TextError> {
        let chars = self.held.len();
        let held: String = match self.held[0] {
            '[' | '<' | '&' => self.held.iter().collect(),
            _ => return Ok(Verdict::Text),
        };
        if held.starts_with('[') {
            return Ok(mark::bracket(&held, chars));
        }
        if held.starts_with('&') {
            return Ok(match self.syntax {
                Syntax::Ssml => mark::entity(&held, chars),
                Syntax::Unknown | Syntax::Plain => Verdict::Text,
            });
        }
        match self.syntax {
            Syntax::Plain => Ok(mark::plain_element(&held, chars)),
            Syntax::Unknown => Ok(mark::first_element(&held, chars)),
            Syntax::Ssml => mark::element(&held, chars),
        }
    }
}

/// A whole text without its marks, and where its characters stood; a mark is an empty line. None if it is SSML that cannot be followed.
pub(crate) fn without_marks(text: &str) -> Option<(String, Positions)> {
    let mut markup = Markup::new(true);
    let mut parts = markup.push(text).ok()?;
    parts.extend(markup.flush());
    let mut plain = String::new();
    let mut positions = Positions::default();
    for part in parts {
        match part {
            Part::Text(text) => {
                positions.text(text.chars().count());
                plain.push_str(&text);
            }
            Part::Entity(c, chars) => {
                positions.entity(chars);
                plain.push(c);
            }
            Part::Skipped(chars) => positions.mark(chars),
            Part::Mark { chars, .. } => {
                positions.entity(chars);
                positions.entity(0);
                plain.push_str("\n\n");
            }
        }
    }
    Some((plain, positions))
}

/// Parts in their order; text beside text is one.
#[derive(Debug, Default)]
struct Parts {
    done: Vec<Part>,
    text: String,
}

impl Parts {
    fn add(&mut self, part: Part) {
        match part {
            Part::Text(text) => self.text.push_str(&text),
            Part::Skipped(0) => {}
            Part::Skipped(more)
                if self.text.is_empty() && matches!(self.done.last(), Some(Part::Skipped(_))) =>
            {
                if let Some(Part::Skipped(chars)) = self.done.last_mut() {
                    *chars += more;
                }
            }
            part => {
                self.close();
                self.done.push(part);
            }
        }
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
