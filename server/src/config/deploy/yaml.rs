//! YAML as a tree in which every value knows where it was written.
//!
//! In: the text of a file, or of one value. Out: [`Node`]s. What a configuration does not need is refused rather than guessed
//! at: tags, aliases, several documents, keys that are not plain words. Nesting is bounded.

use std::fmt;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// Deepest nesting of a configuration.
const MAX_DEPTH: usize = 16;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The file as the user named it, or the text of a `--set`.
    source: Arc<str>,
    /// Line and column, both from 1; none for a `--set`.
    at: Option<(usize, usize)>,
}

impl Place {
    /// Somewhere in a file.
    pub(super) fn file(source: &Arc<str>, line: usize, column: usize) -> Self {
        Self {
            source: Arc::clone(source),
            at: Some((line, column)),
        }
    }

    /// A `--set`.
    pub(super) fn flag(text: &str) -> Self {
        Self {
            source: format!("--set {text}").into(),
            at: None,
        }
    }

    /// `file:line`, or the `--set`: enough to find the origin of a value.
    pub(super) fn short(&self) -> String {
        match self.at {
            Some((line, _)) => format!("{}:{line}", self.source),
            None => self.source.to_string(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.source),
            None => f.write_str(&self.source),
        }
    }
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A scalar; a quoted one is text and never a number.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) place: Place,
}

impl Node {
    /// Whether it takes back what a base file says.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// How it reads in a message.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Value::Scalar { text, quoted: true } => format!("{text:?}"),
            Value::Scalar { text, .. } if text.is_empty() => "nothing".to_owned(),
            Value::Scalar { text, .. } => text.clone(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Malformed {
    pub(super) place: Place,
    pub(super) message: String,
}

/// Reads the one document of a file; an empty file is an empty map.
pub(super) fn parse_file(source: &Arc<str>, text: &str) -> Result<Node, Malformed> {
    let place = |span: Span| Place::file(source, span.start.line(), span.start.col() + 1);
    let top = Place::file(source, 1, 1);
    Ok(parse(text, &place)?.unwrap_or(Node {
        place: top,
        value: Value::Map(Vec::new()),
    }))
}

/// Reads one value, as in `--set key=value`; an empty text is null.
pub(super) fn parse_value(place: &Place, text: &str) -> Result<Node, Malformed> {
    let null = Value::Scalar {
        text: String::new(),
        quoted: false,
    };
    Ok(parse(text, &|_| place.clone())?.unwrap_or(Node {
        place: place.clone(),
        value: null,
    }))
}

fn parse(text: &str, place: &dyn Fn(Span) -> Place) -> Result<Option<Node>, Malformed> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        place,
    };
    let mut document = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(document),
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if document.is_some() => {
                return Err(reader.malformed(span, "there is a second document, expected one"));
            }
            event => document = Some(reader.node(event, span, 0)?),
        }
    }
}

struct Reader<'t, 'p> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    place: &'p dyn Fn(Span) -> Place,
}

impl<'t> Reader<'t, '_> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Malformed> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            None => Ok((Event::StreamEnd, Span::default())),
            Some(Err(error)) => Err(Malformed {
                place: (self.place)(Span::empty(*error.marker())),
                message: format!("this is not YAML: {}", error.info()),
            }),
        }
    }

    fn malformed(&self, span: Span, message: &str) -> Malformed {
        Malformed {
            place: (self.place)(span),
            message: message.to_owned(),
        }
    }

    /// The node that begins with `event`.
    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Malformed> {
        if depth == MAX_DEPTH {
            return Err(self.malformed(span, &format!("values are nested more than {MAX_DEPTH} deep")));
        }
        let value = match event {
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return Err(self.malformed(span, "tags have no meaning here, write the value alone"));
            }
            Event::Alias(_) => {
                return Err(self.malformed(span, "aliases are not supported, write the value itself"));
            }
            Event::Scalar(text, style, ..) => Value::Scalar {
                text: text.into_owned(),
                quoted: style != ScalarStyle::Plain,
            },
            Event::SequenceStart(..) => Value::List(self.list(depth)?),
            Event::MappingStart(..) => Value::Map(self.map(depth)?),
            _ => return Err(self.malformed(span, "expected a value")),
        };
        let place = (self.place)(span);
        Ok(Node { place, value })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Malformed> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::SequenceEnd => return Ok(items),
                event => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Key, Node)>, Malformed> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let name = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(name, _, _, None) if name != "<<" => name.into_owned(),
                _ => return Err(self.malformed(span, "expected a key that is a word")),
            };
            let key = Key {
                name,
                place: (self.place)(span),
            };
            if let Some((first, _)) = entries.iter().find(|(known, _)| known.name == key.name) {
                let message = format!("key {:?} is there already, at {}", key.name, first.place);
                return Err(self.malformed(span, &message));
            }
            let (event, span) = self.next()?;
            entries.push((key, self.node(event, span, depth + 1)?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Node, String> {
        parse_file(&"f.yaml".into(), text).map_err(|wrong| format!("{}: {}", wrong.place, wrong.message))
    }

    fn entries(node: &Node) -> &[(Key, Node)] {
        match &node.value {
            Value::Map(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_value_knows_its_line_and_column() {
        let node = parse("# a comment\na: 1\nb:\n  c: [x, \"2\"]\n").unwrap();
        let (a, one) = &entries(&node)[0];
        assert_eq!(
            (a.place.to_string().as_str(), one.place.to_string().as_str()),
            ("f.yaml:2:1", "f.yaml:2:4")
        );
        let (_, b) = &entries(&node)[1];
        let (_, list) = &entries(b)[0];
        let Value::List(items) = &list.value else {
            panic!("{list:?}")
        };
        assert_eq!(items[1].place.to_string(), "f.yaml:4:10");
        assert_eq!(items[1].shown(), "\"2\"");
    }

    #[test]
    fn what_a_configuration_does_not_need_is_refused_with_its_place() {
        for (text, expected) in [
            (
                "a: 1\na: 2\n",
                "f.yaml:2:1: key \"a\" is there already, at f.yaml:1:1",
            ),
            ("a: !int 1\n", "f.yaml:1:4: tags"),
            ("a: &x 1\nb: *x\n", "f.yaml:2:4: aliases"),
            ("a: 1\n---\nb: 1\n", "f.yaml:3:1: there is a second document"),
            ("a: [1\n", "this is not YAML"),
            ("? [a]\n: 1\n", "expected a key"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(expected), "{text:?} gives {message:?}");
        }
        let deep = "[".repeat(40) + &"]".repeat(40);
        assert!(parse(&deep).unwrap_err().contains("nested"));
    }

    #[test]
    fn an_empty_file_is_an_empty_map() {
        assert_eq!(entries(&parse("# nothing\n").unwrap()).len(), 0);
    }

    #[test]
    fn a_flag_value_is_yaml_too() {
        let place = Place::flag("a=[1, 2]");
        let node = parse_value(&place, "[1, 2]").unwrap();
        assert!(matches!(node.value, Value::List(items) if items.len() == 2));
        assert!(parse_value(&place, "").unwrap().is_null());
    }
}
