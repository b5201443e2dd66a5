//! YAML as a tree in which every value knows where it was written, and a reader that collects problems instead of stopping.
//!
//! Anchors and aliases are followed, because TorchServe's files are made of them; an alias has the place where it is used. Tags,
//! merge keys and several documents are refused. Nesting and the size of the tree are bounded.

use std::collections::BTreeMap;
use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

/// Deepest nesting.
const MAX_DEPTH: usize = 16;
/// Most values, those behind aliases counted each time.
const MAX_NODES: usize = 50_000;

/// A value and where it was written: line and column, both from 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl<T> At<T> {
    /// Another value at this place.
    pub(crate) fn with<U>(&self, value: U) -> At<U> {
        At {
            value,
            line: self.line,
            column: self.column,
        }
    }
}

/// A value with its place.
pub(crate) type Node = At<Value>;

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// A scalar. A quoted one is text and never a number.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Node>),
    Map(Vec<(At<String>, Node)>),
}

/// What is wrong at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// Reads the one document of `text`. An empty text is a null.
pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    let mut builder = Builder {
        parser: Parser::new_from_str(text),
        anchors: BTreeMap::new(),
        nodes: 0,
    };
    let mut document = None;
    loop {
        let (event, span) = builder.next()?;
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if document.is_some() => return Err(problem(span, "a second document, expected one")),
            event => document = Some(builder.node(event, span, 0)?),
        }
    }
    let null = Value::Scalar {
        text: String::new(),
        quoted: false,
    };
    Ok(document.unwrap_or(At {
        value: null,
        line: 1,
        column: 1,
    }))
}

struct Builder<'t> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: BTreeMap<usize, Value>,
    nodes: usize,
}

fn problem(span: Span, what: impl Into<String>) -> Problem {
    Problem {
        line: span.start.line(),
        column: span.start.col() + 1,
        what: what.into(),
    }
}

impl<'t> Builder<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            None => Ok((Event::StreamEnd, Span::default())),
            Some(Err(error)) => Err(problem(
                Span::empty(*error.marker()),
                format!("this is not YAML: {}", error.info()),
            )),
        }
    }

    fn count(&mut self, span: Span, nodes: usize) -> Result<(), Problem> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(problem(span, format!("more than {MAX_NODES} values")));
        }
        Ok(())
    }

    /// The node that begins with `event`.
    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Problem> {
        if depth == MAX_DEPTH {
            return Err(problem(
                span,
                format!("values are nested more than {MAX_DEPTH} deep"),
            ));
        }
        self.count(span, 1)?;
        let (value, anchor) = match event {
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return Err(problem(span, "tags have no meaning here"));
            }
            Event::Alias(anchor) => (self.alias(anchor, span)?, 0),
            Event::Scalar(text, style, anchor, _) => (
                Value::Scalar {
                    text: text.into_owned(),
                    quoted: style != ScalarStyle::Plain,
                },
                anchor,
            ),
            Event::SequenceStart(anchor, _) => (Value::List(self.list(depth)?), anchor),
            Event::MappingStart(anchor, _) => (Value::Map(self.map(depth)?), anchor),
            _ => return Err(problem(span, "expected a value")),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(At {
            value,
            line: span.start.line(),
            column: span.start.col() + 1,
        })
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<Value, Problem> {
        let Some(value) = self.anchors.get(&anchor).cloned() else {
            return Err(problem(span, "an alias inside the value that it stands for"));
        };
        self.count(span, size(&value))?;
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

    fn map(&mut self, depth: usize) -> Result<Vec<(At<String>, Node)>, Problem> {
        let mut entries: Vec<(At<String>, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let name = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(name, _, _, None) if name != "<<" => name.into_owned(),
                _ => return Err(problem(span, "expected a key that is a word")),
            };
            if entries.iter().any(|(known, _)| known.value == name) {
                return Err(problem(span, format!("key {name:?} is there twice")));
            }
            let key = At {
                value: name,
                line: span.start.line(),
                column: span.start.col() + 1,
            };
            let (event, span) = self.next()?;
            entries.push((key, self.node(event, span, depth + 1)?));
        }
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Scalar { .. } => 1,
        Value::List(items) => items.iter().map(|item| 1 + size(&item.value)).sum(),
        Value::Map(entries) => entries.iter().map(|(_, node)| 1 + size(&node.value)).sum(),
    }
}

/// Problems as they are found.
#[derive(Debug, Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    pub(crate) fn at<T>(&mut self, place: &At<T>, what: impl Into<String>) {
        self.0.push(Problem {
            line: place.line,
            column: place.column,
            what: what.into(),
        });
    }

    /// The entries of a map, of which only `keys` may be there.
    pub(crate) fn map<'n>(&mut self, node: &'n Node, what: &str, keys: &[&str]) -> Entries<'n> {
        match &node.value {
            Value::Map(entries) => {
                for (key, _) in entries {
                    if !keys.contains(&key.value.as_str()) {
                        self.at(
                            key,
                            format!(
                                "{what}: unknown key {:?}, expected one of {}",
                                key.value,
                                keys.join(", ")
                            ),
                        );
                    }
                }
                Entries(entries)
            }
            _ if is_null(node) => Entries(&[]),
            _ => {
                self.at(node, format!("{what}: {}, expected a map", shown(node)));
                Entries(&[])
            }
        }
    }

    /// The items of a list.
    pub(crate) fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.value {
            Value::List(items) => items,
            _ if is_null(node) => &[],
            _ => {
                self.at(node, format!("{what}: {}, expected a list", shown(node)));
                &[]
            }
        }
    }

    /// A word or a text.
    pub(crate) fn text(&mut self, node: &Node, what: &str) -> Option<At<String>> {
        match &node.value {
            Value::Scalar { text, .. } if !is_null(node) => Some(node.with(text.clone())),
            _ => {
                self.at(node, format!("{what}: {}, expected a text", shown(node)));
                None
            }
        }
    }

    /// A list of texts.
    pub(crate) fn texts(&mut self, node: &Node, what: &str) -> Vec<At<String>> {
        let items = self.list(node, what);
        items.iter().filter_map(|item| self.text(item, what)).collect()
    }

    /// A number, or anything else that is written as one word.
    pub(crate) fn parsed<T: std::str::FromStr>(
        &mut self,
        node: &Node,
        what: &str,
        expected: &str,
    ) -> Option<At<T>> {
        let parsed = match &node.value {
            Value::Scalar { text, quoted: false } => text.parse().ok(),
            _ => None,
        };
        if parsed.is_none() {
            self.at(node, format!("{what}: {}, expected {expected}", shown(node)));
        }
        parsed.map(|value| node.with(value))
    }

    /// What `find` gives for a key that has to be there.
    pub(crate) fn needed<'n, T>(
        &mut self,
        place: &At<T>,
        entries: Entries<'n>,
        what: &str,
        key: &str,
    ) -> Option<&'n Node> {
        let found = entries.get(key);
        if found.is_none() {
            self.at(place, format!("{what}: {key} is missing"));
        }
        found
    }
}

/// The entries of a map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entries<'n>(pub(crate) &'n [(At<String>, Node)]);

impl<'n> Entries<'n> {
    pub(crate) fn get(self, key: &str) -> Option<&'n Node> {
        let entry = self.0.iter().find(|(known, _)| known.value == key);
        entry.map(|(_, node)| node)
    }
}

/// Whether nothing is written there.
pub(crate) fn is_null(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
}

/// How a value reads in a message.
fn shown(node: &Node) -> String {
    match &node.value {
        Value::Scalar { quoted: false, text } if text.is_empty() => "nothing".to_owned(),
        Value::Scalar { text, .. } => format!("{text:?}"),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_has_the_value_of_its_anchor_and_the_place_of_its_use() {
        let node = parse("a: &x [1, two]\nb: *x\n").expect("YAML");
        let entries = Problems::default().map(&node, "it", &["a", "b"]);
        let alias = entries.get("b").expect("b");
        assert_eq!((alias.line, alias.column), (2, 4));
        assert_eq!(
            Problems::default()
                .texts(alias, "b")
                .iter()
                .map(|text| text.value.as_str())
                .collect::<Vec<_>>(),
            ["1", "two"]
        );
    }

    #[test]
    fn what_has_no_meaning_here_is_refused_with_its_place() {
        for (text, expected) in [
            ("a: *x\n", "1:4: this is not YAML"),
            ("a: !!int 1\n", "1:"),
            ("a: 1\na: 2\n", "2:1: key \"a\" is there twice"),
            ("a: 1\n---\nb: 1\n", "a second document"),
            ("a: [1\n", "this is not YAML"),
            ("b: {<<: 1}\n", "expected a key"),
        ] {
            let problem = parse(text).expect_err(text).to_string();
            assert!(problem.contains(expected), "{text:?}: {problem}");
        }
    }

    #[test]
    fn aliases_of_aliases_cannot_grow_without_bound() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let before = vec![format!("*a{}", level - 1); 10].join(", ");
            text += &format!("a{level}: &a{level} [{before}]\n");
        }
        let problem = parse(&text).expect_err("too large").to_string();
        assert!(problem.contains("more than 50000 values"), "{problem}");
    }

    #[test]
    fn nesting_is_bounded() {
        let problem = parse(&"[".repeat(50)).expect_err("too deep").to_string();
        assert!(
            problem.contains("deep") || problem.contains("not YAML"),
            "{problem}"
        );
    }
}
