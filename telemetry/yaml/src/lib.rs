//! YAML as a tree in which every value has the place where it was written.
//!
//! In: the text of one document. Out: a [`Node`], or the first [`Problem`]. The reader refuses what configuration files
//! do not need: tags, merge keys, several documents, duplicate keys and keys that are not scalars. It bounds the
//! nesting and the number of values, so that a small text with aliases of aliases cannot fill the memory.
//!
//! A [`Place`] is line and column of a file, or a source as a whole, such as a flag. Problems of any kind are told with
//! it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

/// Deepest nesting.
const MAX_DEPTH: usize = 16;
/// Most values in one document. A value behind an alias counts at every use.
const MAX_NODES: usize = 50_000;

/// Line and column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    line: usize,
    column: usize,
}

impl Mark {
    /// The first character of a text.
    const START: Self = Self { line: 1, column: 1 };
}

impl From<Span> for Mark {
    fn from(span: Span) -> Self {
        Self {
            line: span.start.line(),
            column: span.start.col() + 1,
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A place where something is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    source: Arc<str>,
    mark: Option<Mark>,
}

impl Place {
    /// A source as a whole: a file as the user named it, or the text of a flag.
    pub fn of(source: &str) -> Self {
        Self {
            source: source.into(),
            mark: None,
        }
    }

    fn at(&self, mark: Mark) -> Self {
        Self {
            source: Arc::clone(&self.source),
            mark: Some(mark),
        }
    }

    /// The line within the source.
    pub fn line(&self) -> Option<usize> {
        self.mark.map(|mark| mark.line)
    }

    /// Without the column: enough to find the origin of a value.
    pub fn short(&self) -> String {
        match self.line() {
            Some(line) => format!("{}:{line}", self.source),
            None => self.source.to_string(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mark {
            Some(mark) => write!(f, "{}:{mark}", self.source),
            None => f.write_str(&self.source),
        }
    }
}

/// A value and the place where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// The place.
    pub place: Place,
}

impl<T> Located<T> {
    /// Another value at the same place.
    pub fn with<U>(&self, value: U) -> Located<U> {
        Located {
            value,
            place: self.place.clone(),
        }
    }
}

/// A value of the tree.
pub type Node = Located<Value>;
/// A key of a mapping.
pub type Key = Located<String>;

impl Node {
    /// Returns true if nothing, `~` or `null` is written there, without quotes.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// The value as it reads in a message.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Scalar { text, quoted: true } => format!("{text:?}"),
            Value::Scalar { text, .. } if text.is_empty() => "nothing".to_owned(),
            Value::Scalar { text, .. } => text.clone(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A scalar.
    Scalar {
        /// Without quotes, with escapes replaced.
        text: String,
        /// A quoted scalar is text and never a number.
        quoted: bool,
    },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file. No key is there twice.
    Map(Vec<(Key, Node)>),
}

impl Value {
    /// The value of an empty text.
    pub fn null() -> Self {
        Self::Scalar {
            text: String::new(),
            quoted: false,
        }
    }

    /// Values below this one.
    fn count(&self) -> usize {
        match self {
            Self::Scalar { .. } => 0,
            Self::List(items) => items.iter().map(|item| 1 + item.value.count()).sum(),
            Self::Map(entries) => entries.iter().map(|(_, node)| 1 + node.value.count()).sum(),
        }
    }
}

/// Treatment of references of a document to its own values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aliases {
    /// An alias has the value of its anchor, and the place where the alias is.
    Follow,
    /// An alias is an error.
    Refuse,
}

/// A problem at a place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The place.
    pub place: Place,
    /// The problem, and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for Problem {}

/// Reads the one document of a file that the user calls `name`. A text without a document is a null.
///
/// # Errors
/// The first thing that is not YAML, or that this reader refuses.
pub fn parse(name: &str, text: &str, aliases: Aliases) -> Result<Node, Problem> {
    read(&Place::of(name), text, aliases, true)
}

/// Reads a value that is written at `place`, as in `--set key=value`. An empty text is a null.
///
/// # Errors
/// As for [`parse`].
pub fn parse_value(place: &Place, text: &str) -> Result<Node, Problem> {
    read(place, text, Aliases::Refuse, false)
}

fn read(place: &Place, text: &str, aliases: Aliases, marked: bool) -> Result<Node, Problem> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        aliases,
        anchors: BTreeMap::new(),
        nodes: 0,
        place,
        marked,
    };
    let mut document = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if document.is_some() => {
                return Err(reader.error(span, "there is a second document, expected one"));
            }
            event => document = Some(reader.node(event, span, 0)?),
        }
    }
    Ok(document.unwrap_or_else(|| Node {
        value: Value::null(),
        place: reader.at(Mark::START),
    }))
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    aliases: Aliases,
    anchors: BTreeMap<usize, Value>,
    nodes: usize,
    place: &'t Place,
    marked: bool,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            None => Ok((Event::StreamEnd, Span::default())),
            Some(Err(error)) => {
                let message = format!("this is not YAML: {}", error.info());
                Err(self.error(Span::empty(*error.marker()), message))
            }
        }
    }

    fn at(&self, mark: Mark) -> Place {
        if self.marked {
            self.place.at(mark)
        } else {
            self.place.clone()
        }
    }

    fn error(&self, span: Span, message: impl Into<String>) -> Problem {
        Problem {
            place: self.at(span.into()),
            message: message.into(),
        }
    }

    fn count(&mut self, span: Span, nodes: usize) -> Result<(), Problem> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(self.error(span, format!("more than {MAX_NODES} values")));
        }
        Ok(())
    }

    /// The node that begins with `event`.
    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Problem> {
        if depth == MAX_DEPTH {
            return Err(self.error(span, format!("values are nested more than {MAX_DEPTH} deep")));
        }
        self.count(span, 1)?;
        let (value, anchor) = match event {
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return Err(self.error(span, "tags have no meaning here, write the value alone"));
            }
            Event::Alias(anchor) => (self.alias(anchor, span)?, 0),
            Event::Scalar(text, style, anchor, _) => {
                let quoted = style != ScalarStyle::Plain;
                let text = text.into_owned();
                (Value::Scalar { text, quoted }, anchor)
            }
            Event::SequenceStart(anchor, _) => (Value::List(self.list(depth)?), anchor),
            Event::MappingStart(anchor, _) => (Value::Map(self.map(depth)?), anchor),
            _ => return Err(self.error(span, "expected a value")),
        };
        if anchor > 0 && self.aliases == Aliases::Follow {
            self.anchors.insert(anchor, value.clone());
        }
        let place = self.at(span.into());
        Ok(Located { value, place })
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<Value, Problem> {
        if self.aliases == Aliases::Refuse {
            return Err(self.error(span, "aliases are not supported, write the value itself"));
        }
        let Some(value) = self.anchors.get(&anchor).cloned() else {
            return Err(self.error(span, "an alias inside the value that it stands for"));
        };
        self.count(span, value.count())?;
        Ok(value)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Problem> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Key, Node)>, Problem> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let value = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(name, _, _, None) if name != "<<" => name.into_owned(),
                _ => return Err(self.error(span, "expected a key that is a word")),
            };
            if let Some((first, _)) = entries.iter().find(|(known, _)| known.value == value) {
                let message = format!("key {value:?} is there already, at {}", first.place);
                return Err(self.error(span, message));
            }
            let place = self.at(span.into());
            let key = Located { value, place };
            let (event, span) = self.next()?;
            entries.push((key, self.node(event, span, depth + 1)?));
        }
    }
}

#[cfg(test)]
mod tests;
