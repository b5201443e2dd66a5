//! Reads of a PromQL expression: its selectors, the function around each, and every label that it groups or matches by.
//!
//! Not a parser: it knows words, brackets and strings, and takes for granted that Prometheus accepts the expression,
//! which others check. Grafana's variables may stand inside strings and instead of durations.

use std::collections::BTreeSet;

/// One `name{label="value"}[range]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    /// The series' name.
    pub(crate) name: String,
    /// Label and value of every matcher; of a regular expression every alternative.
    pub(crate) matchers: Vec<(String, String)>,
    /// The function or aggregation it is the argument of.
    pub(crate) function: Option<String>,
    /// True if it has a range.
    pub(crate) ranged: bool,
}

/// All that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Expression {
    /// In the order they are written.
    pub(crate) selectors: Vec<Selector>,
    /// Labels of `by`, `on`, `group_left` and so on.
    pub(crate) labels: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

const LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];

/// Reads an expression.
///
/// # Errors
/// Brackets or quotes that do not match, and matchers that are none.
pub(crate) fn read(expression: &str) -> Result<Expression, String> {
    let tokens = tokens(expression)?;
    let mut found = Expression::default();
    // What the open brackets belong to.
    let mut around: Vec<Option<String>> = Vec::new();
    // The last word that a bracket would belong to.
    let mut caller: Option<String> = None;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            Token::Sign('(') => around.push(caller.take()),
            Token::Sign(')') => {
                around
                    .pop()
                    .ok_or_else(|| format!("a bracket too many in {expression:?}"))?;
            }
            Token::Word(word) if LISTS.contains(&word.as_str()) => {
                at = list(&tokens, at, &mut found.labels)?;
            }
            Token::Word(word) if OPERATORS.contains(&word.as_str()) => caller = None,
            Token::Word(word) if word.starts_with(|first: char| first.is_ascii_digit()) => {}
            Token::Word(word) if is_called(&tokens, at) => caller = Some(word.clone()),
            Token::Word(word) => {
                let (selector, next) = selector(word, &tokens, at, around.last().cloned().flatten())?;
                found.selectors.push(selector);
                at = next;
            }
            Token::Text(_) | Token::Sign(_) => {}
        }
    }
    if around.is_empty() {
        Ok(found)
    } else {
        Err(format!("a bracket is not closed in {expression:?}"))
    }
}

/// Returns true if the word before `at` is a function or an aggregation: a bracket follows, or a list of labels and
/// then a bracket.
fn is_called(tokens: &[Token], at: usize) -> bool {
    match tokens.get(at) {
        Some(Token::Sign('(')) => true,
        Some(Token::Word(word)) => LISTS[..2].contains(&word.as_str()),
        _ => false,
    }
}

/// Takes the labels in the brackets at `at`, if there are brackets.
fn list(tokens: &[Token], mut at: usize, labels: &mut BTreeSet<String>) -> Result<usize, String> {
    if tokens.get(at) != Some(&Token::Sign('(')) {
        return Ok(at);
    }
    loop {
        at += 1;
        match tokens.get(at) {
            Some(Token::Word(label)) => {
                labels.insert(label.clone());
            }
            Some(Token::Sign(',')) => {}
            Some(Token::Sign(')')) => return Ok(at + 1),
            other => return Err(format!("a list of labels with {other:?} in it")),
        }
    }
}

/// The selector of that name, whose matchers and range begin at `at`; and where it ends.
fn selector(
    name: &str,
    tokens: &[Token],
    mut at: usize,
    function: Option<String>,
) -> Result<(Selector, usize), String> {
    let mut matchers = Vec::new();
    if tokens.get(at) == Some(&Token::Sign('{')) {
        at += 1;
        while tokens.get(at) != Some(&Token::Sign('}')) {
            let Some(Token::Word(label)) = tokens.get(at) else {
                return Err(format!("{:?} is no label to match {name} by", tokens.get(at)));
            };
            at += 1;
            while matches!(tokens.get(at), Some(Token::Sign('=' | '!' | '~'))) {
                at += 1;
            }
            let Some(Token::Text(value)) = tokens.get(at) else {
                return Err(format!("{label} of {name} is matched with {:?}", tokens.get(at)));
            };
            matchers.extend(value.split('|').map(|value| (label.clone(), value.to_owned())));
            at += 1;
            if tokens.get(at) == Some(&Token::Sign(',')) {
                at += 1;
            }
        }
        at += 1;
    }
    let ranged = tokens.get(at) == Some(&Token::Sign('['));
    if ranged {
        let end = tokens[at..].iter().position(|token| *token == Token::Sign(']'));
        at += end.ok_or_else(|| format!("the range of {name} does not end"))? + 1;
    }
    let name = name.to_owned();
    let selector = Selector {
        name,
        matchers,
        function,
        ranged,
    };
    Ok((selector, at))
}

fn tokens(expression: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first == '"' || first == '\'' {
            let end = rest[1..].find(first);
            let end = end.ok_or_else(|| format!("a quote is not closed in {expression:?}"))?;
            tokens.push(Token::Text(rest[1..=end].to_owned()));
            rest = &rest[end + 2..];
        } else if is_word(first) {
            let end = rest.find(|next| !is_word(next)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Sign(first));
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(tokens)
}

/// Letters of names, numbers and Grafana's variables.
fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | ':' | '.' | '$')
}
