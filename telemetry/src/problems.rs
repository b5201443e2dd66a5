//! Typed reading of a YAML tree. A reader collects every problem, so that the user repairs a file once.

pub(crate) use omni_yaml::{Located, Node, Problem, Value};

/// Problems as they are found.
#[derive(Debug, Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    pub(crate) fn at<T>(&mut self, place: &Located<T>, what: impl Into<String>) {
        self.0.push(Problem {
            place: place.place.clone(),
            message: what.into(),
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
            _ if node.is_null() => Entries(&[]),
            _ => {
                self.at(node, format!("{what}: {}, expected a map", node.shown()));
                Entries(&[])
            }
        }
    }

    /// The items of a list.
    pub(crate) fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.value {
            Value::List(items) => items,
            _ if node.is_null() => &[],
            _ => {
                self.at(node, format!("{what}: {}, expected a list", node.shown()));
                &[]
            }
        }
    }

    /// A word or a text.
    pub(crate) fn text(&mut self, node: &Node, what: &str) -> Option<Located<String>> {
        match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => Some(node.with(text.clone())),
            _ => {
                self.at(node, format!("{what}: {}, expected a text", node.shown()));
                None
            }
        }
    }

    /// A list of texts.
    pub(crate) fn texts(&mut self, node: &Node, what: &str) -> Vec<Located<String>> {
        let items = self.list(node, what);
        items.iter().filter_map(|item| self.text(item, what)).collect()
    }

    /// A number, or anything else that is written as one word.
    pub(crate) fn parsed<T: std::str::FromStr>(
        &mut self,
        node: &Node,
        what: &str,
        expected: &str,
    ) -> Option<Located<T>> {
        let parsed = match &node.value {
            Value::Scalar { text, quoted: false } => text.parse().ok(),
            _ => None,
        };
        if parsed.is_none() {
            self.at(node, format!("{what}: {}, expected {expected}", node.shown()));
        }
        parsed.map(|value| node.with(value))
    }

    /// The value of a key that has to be there.
    pub(crate) fn needed<'n, T>(
        &mut self,
        place: &Located<T>,
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
pub(crate) struct Entries<'n>(pub(crate) &'n [(Located<String>, Node)]);

impl<'n> Entries<'n> {
    pub(crate) fn get(self, key: &str) -> Option<&'n Node> {
        let entry = self.0.iter().find(|(known, _)| known.value == key);
        entry.map(|(_, node)| node)
    }
}
