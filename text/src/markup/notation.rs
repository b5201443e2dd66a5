//! The notation of documents in text for a voice that reads words: Markdown, HTML, entities, citations and codes of terminals.
//!
//! Characters that may be notation wait in the caller and are judged here. What only looks like notation is text.

use super::element;
use super::{formula, tag, terminal};

/// Most signs of a fence.
const LONGEST_FENCE: usize = 64;
/// Most characters of what stands in brackets, and behind a fence.
const LONGEST_LABEL: usize = 300;
/// Most characters of a link with its address.
const LONGEST_LINK: usize = 2048;
/// Most characters of an entity, twice encoded.
const LONGEST_ENTITY: usize = 40;
/// Deepest brackets within brackets: an image in a link.
const DEEPEST: usize = 3;

/// A change to characters that waited, from the first on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// So many are not spoken.
    Skip(usize),
    /// So many are text, whatever they look like.
    Text(usize),
    /// So many are text with notation of its own.
    Inner(usize),
    /// So many are spoken as something else.
    Words(String, usize),
    /// So many are not spoken, and the sentence ends before them.
    Break(usize),
    /// Something was left out that is worth a warning.
    Ignored(String),
    /// Code begins or ends: its notation is not that of documents.
    Code,
    /// A block of code begins or ends.
    Fence,
    /// Everything up to this is left out.
    Until(String),
}

/// The meaning of characters that waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judged {
    /// It takes more characters to know; only these can decide, or any if there are none.
    Open(&'static str),
    /// The first of them is text.
    Text,
    Taken(Vec<Edit>),
}

/// The text before the characters that are judged.
#[derive(Debug, Clone)]
pub(super) struct Context {
    /// The character before.
    pub(super) last: char,
    /// The last word before, or its beginning.
    word: String,
    /// Nothing but white space came on this line.
    pub(super) line_start: bool,
    /// Within a block of code.
    pub(super) fence: bool,
    /// Within code in a line.
    pub(super) code: bool,
    /// Digits in brackets, as far as they came.
    index: String,
    /// Such were text on this line, so the next are, too: `press [1] or [2]`.
    indexed: bool,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            last: '\n',
            word: String::new(),
            line_start: true,
            fence: false,
            code: false,
            index: String::new(),
            indexed: false,
        }
    }
}

impl Context {
    /// A character of text came.
    pub(super) fn saw(&mut self, c: char) {
        let joins = |c: char| c.is_alphanumeric() || c == '_';
        if joins(c) {
            if !joins(self.last) {
                self.word.clear();
            }
            if self.word.len() < 24 {
                self.word.push(c);
            }
        }
        match c {
            '[' => self.index = "[".to_owned(),
            c if c.is_ascii_digit() && !self.index.is_empty() && self.index.len() < 4 => self.index.push(c),
            c => {
                self.indexed |= c == ']' && self.index.len() > 1;
                self.index.clear();
            }
        }
        if c == '\n' {
            self.indexed = false;
            self.line_start = true;
            self.code = false;
        } else if !c.is_whitespace() && !matches!(c, '>' | '-' | '*' | '+') {
            self.line_start = false;
        }
        self.last = c;
    }

    fn after_word(&self, words: &[&str]) -> bool {
        let last = self.word.trim_matches('_');
        words.iter().any(|word| last.eq_ignore_ascii_case(word))
    }
}

/// True if notation may begin with this character.
pub(super) fn opens(c: char, context: &Context) -> bool {
    match c {
        '\u{1b}' | '\u{9b}' | '\u{9d}' => true,
        '`' => !context.fence || context.line_start,
        '~' => context.line_start,
        _ if context.fence || context.code => false,
        '<' | '&' | '[' | '!' | '$' | '\\' | '【' | '^' => true,
        _ => is_superscript(c),
    }
}

/// Judges the characters in `held`; `whole` says that no more come.
pub(super) fn judge(held: &[char], context: &Context, whole: bool) -> Judged {
    let judged = match held[0] {
        '\u{1b}' | '\u{9b}' | '\u{9d}' => terminal::judge(held, whole),
        '`' | '~' => fence(held, context, whole),
        '<' => tag::judge(held, context, whole),
        '&' => entity(held, whole),
        '[' => bracket(held, context, whole),
        '!' => image(held, context, whole),
        '$' => formula::dollar(held, context, whole),
        '\\' => backslash(held, whole),
        '^' => terminal::written(held, whole),
        '【' => lenticular(held),
        _ => superscript(held, context, whole),
    };
    match judged {
        Judged::Open(_) if whole => Judged::Text,
        judged => judged,
    }
}

/// A fence of code at the beginning of a line with the name of its language, or the mark of code within a line.
fn fence(held: &[char], context: &Context, whole: bool) -> Judged {
    let run = held.iter().take_while(|&&c| c == held[0]).count();
    if run == held.len() && !whole {
        return if run > LONGEST_FENCE {
            Judged::Taken(vec![Edit::Skip(run)])
        } else {
            Judged::Open("")
        };
    }
    let is_fence = run >= 3 && context.line_start;
    if !is_fence && (held[0] == '~' || context.fence) {
        return Judged::Text;
    }
    if !is_fence {
        return Judged::Taken(vec![Edit::Skip(run), Edit::Code]);
    }
    let info = &held[run..];
    match info.iter().position(|&c| c == '\n' || c == '`') {
        Some(end) if info[end] == '\n' => Judged::Taken(vec![Edit::Skip(run + end), Edit::Fence]),
        Some(_) => Judged::Taken(vec![Edit::Skip(run), Edit::Code]),
        None if whole => Judged::Taken(vec![Edit::Skip(held.len()), Edit::Fence]),
        None if info.len() > LONGEST_LABEL => Judged::Taken(vec![Edit::Skip(run), Edit::Code]),
        None => Judged::Open("\n`"),
    }
}

/// A character by its name or number, encoded once or twice.
fn entity(held: &[char], whole: bool) -> Judged {
    let end = match name_end(held, 1) {
        Ok(end) => end,
        Err(judged) => return judged,
    };
    let name: String = held[1..end].iter().collect();
    let Some(c) = character(&name) else {
        return Judged::Text;
    };
    let once = Judged::Taken(vec![Edit::Words(c.to_string(), end + 1)]);
    let more = held.get(end + 1).copied();
    if c != '&' || more.is_none() && whole || more.is_some_and(|c| !c.is_ascii_alphanumeric() && c != '#') {
        return once;
    }
    match name_end(held, end + 1) {
        Ok(second) => {
            let name: String = held[end + 1..second].iter().collect();
            match character(&name) {
                Some(c) => Judged::Taken(vec![Edit::Words(c.to_string(), second + 1)]),
                None => once,
            }
        }
        Err(Judged::Open(until)) if !whole => Judged::Open(until),
        Err(_) => once,
    }
}

/// The place of the semicolon after a name, or the verdict without it.
fn name_end(held: &[char], from: usize) -> Result<usize, Judged> {
    let rest = held.get(from..).unwrap_or_default();
    match rest.iter().position(|c| !c.is_ascii_alphanumeric() && *c != '#') {
        Some(end) if rest[end] == ';' && end > 0 => Ok(from + end),
        Some(_) => Err(Judged::Text),
        None if held.len() > LONGEST_ENTITY => Err(Judged::Text),
        None => Err(Judged::Open("")),
    }
}

fn character(name: &str) -> Option<char> {
    // Numbers that browsers take as those of Windows' code page.
    let replaced = match name {
        "#128" => Some('€'),
        "#133" => Some('…'),
        "#145" | "#146" => Some('\''),
        "#147" | "#148" => Some('"'),
        "#149" => Some('•'),
        "#150" => Some('–'),
        "#151" => Some('—'),
        "#153" => Some('™'),
        _ => None,
    };
    if replaced.is_some() || name.starts_with('#') {
        return replaced.or_else(|| element::character(name));
    }
    let written = format!("&{name};");
    let decoded = html_escape::decode_html_entities(&written);
    (decoded != written).then(|| decoded.chars().next()).flatten()
}

/// A link, a reference, a citation or a footnote.
fn bracket(held: &[char], context: &Context, whole: bool) -> Judged {
    match terminal::lost(held, whole) {
        Judged::Text => {}
        judged => return judged,
    }
    let close = match closing(held, 0) {
        Ok(close) => close,
        Err(judged) => return judged,
    };
    let label = &held[1..close];
    let cited = is_citation(label, context);
    let behind = close + 1;
    let next = held.get(behind).copied();
    let said = if cited || is_note(label) {
        Edit::Skip(label.len())
    } else {
        Edit::Inner(label.len())
    };
    // "a[1] = 7" and "of items[a] + 1" are indices of code.
    if cited && context.last.is_alphanumeric() {
        match held[behind..] {
            [] | [_] if !whole => return Judged::Open(""),
            ['=', ..] | [' ', '=', ..] => return Judged::Text,
            ref rest if matches!(label, ['a'..='e']) && !goes_on(rest, context) => return Judged::Text,
            _ => {}
        }
    }
    // An index of code: "m[i][j]".
    let indexed = context.last.is_alphanumeric() && !cited;
    match next {
        None if !whole => Judged::Open(""),
        Some('(') if !indexed => match address(held, behind, whole) {
            Ok(end) => Judged::Taken(vec![Edit::Skip(1), said, Edit::Skip(end - close)]),
            Err(judged) => judged,
        },
        Some('[') if !cited && !indexed => match closing(held, behind) {
            Ok(end) if !held[behind..end].contains(&'\n') => {
                Judged::Taken(vec![Edit::Skip(1), said, Edit::Skip(end + 1 - close)])
            }
            Ok(_) => Judged::Text,
            Err(Judged::Open(until)) if !whole => Judged::Open(until),
            Err(_) => Judged::Text,
        },
        Some(':') if context.line_start => definition(held, behind + 1, is_note(label), whole),
        _ if cited || is_note(label) || is_box(label, context) => Judged::Taken(vec![Edit::Skip(behind)]),
        _ => Judged::Text,
    }
}

/// The place of the bracket that closes the one at `from`.
pub(super) fn closing(held: &[char], from: usize) -> Result<usize, Judged> {
    let mut depth = 0;
    let mut escaped = false;
    for (i, &c) in held.iter().enumerate().skip(from) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' if held[i - 1] == '\n' => return Err(Judged::Text),
            '[' if depth == DEEPEST => return Err(Judged::Text),
            '[' => depth += 1,
            ']' if depth == 1 => return Ok(i),
            ']' => depth -= 1,
            _ => {}
        }
    }
    if held.len() - from > LONGEST_LABEL {
        Err(Judged::Text)
    } else {
        Err(Judged::Open("[]\n\\"))
    }
}

/// The end of the address behind a label, one behind its bracket.
fn address(held: &[char], from: usize, whole: bool) -> Result<usize, Judged> {
    let mut depth = 0;
    let mut title = None;
    let mut pointed = false;
    let mut spaced = false;
    for (i, &c) in held.iter().enumerate().skip(from) {
        match c {
            _ if title == Some(c) => title = None,
            _ if title.is_some() => {}
            '>' if pointed => pointed = false,
            '<' if i == from + 1 => pointed = true,
            _ if pointed && c != '\n' => {}
            '"' | '\'' if spaced => title = Some(c),
            '(' => depth += 1,
            ')' if depth == 1 => return Ok(i + 1),
            ')' => depth -= 1,
            ' ' | '\t' => spaced = true,
            '\n' | '[' => return Err(Judged::Text),
            _ if spaced => return Err(Judged::Text),
            _ => {}
        }
    }
    if whole || held.len() > LONGEST_LINK {
        Err(Judged::Text)
    } else {
        Err(Judged::Open(if spaced { "" } else { ")(<>[ \t\n\"'" }))
    }
}

/// The address of a reference at the beginning of a line, or the mark of a footnote's text.
fn definition(held: &[char], from: usize, note: bool, whole: bool) -> Judged {
    if note {
        return Judged::Taken(vec![Edit::Skip(from)]);
    }
    let rest: String = held[from..].iter().take_while(|&&c| c != '\n').collect();
    let ended = whole || held.contains(&'\n');
    let words: Vec<&str> = rest.split_whitespace().collect();
    let is_address = words.first().is_some_and(|word| {
        word.contains("://") || word.starts_with(['/', '#', '<', '.']) || word.starts_with("mailto:")
    });
    match (ended, is_address) {
        (true, true) => Judged::Taken(vec![Edit::Skip(from + rest.chars().count())]),
        (false, _) if held.len() < LONGEST_LINK && (is_address || words.len() < 2) => {
            Judged::Open(if is_address { "\n" } else { "" })
        }
        _ => Judged::Text,
    }
}

/// An image: what it shows.
fn image(held: &[char], context: &Context, whole: bool) -> Judged {
    match held.get(1) {
        None => Judged::Open(""),
        Some('[') => match bracket(
            &held[1..],
            &Context {
                last: '!',
                ..context.clone()
            },
            whole,
        ) {
            Judged::Taken(mut edits) if edits.len() == 3 => {
                edits.insert(0, Edit::Skip(1));
                Judged::Taken(edits)
            }
            Judged::Taken(_) => Judged::Text,
            judged => judged,
        },
        _ => Judged::Text,
    }
}

/// Numbers of sources, such as "1", "1, 3-5", or "citation needed". The brackets of an interval or of code are none.
fn is_citation(label: &[char], context: &Context) -> bool {
    let text: String = label.iter().collect();
    let name = context.word.trim_matches('_');
    if name.contains('_') || context.after_word(&["arr", "args", "argv", "items", "nums"]) {
        return false;
    }
    // "above[a]"; code has other letters and names.
    let capitals = name.chars().skip(1).any(char::is_uppercase);
    let lettered = matches!(label, ['a'..='e'])
        && context.last.is_ascii_lowercase()
        && name.len() > 3
        && !capitals
        && !context.after_word(&[
            "array", "buffer", "cells", "columns", "data", "dict", "index", "keys", "list", "matrix",
            "nodes", "rows", "stack", "string", "table", "tuple", "values", "vector", "words",
        ]);
    if lettered || ["citation needed", "source?", "clarification needed"].contains(&text.trim()) {
        return true;
    }
    let inner = text.trim_matches(['[', ']']);
    let numbers = inner.split([',', ';', '-', '\u{2013}']).map(str::trim);
    let numbered = numbers
        .clone()
        .all(|n| (1..=3).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()) && !n.starts_with('0'));
    let code = context.last.is_ascii_lowercase() && context.word.len() == 1
        || matches!(context.last, ')' | '_' | '=' | '(');
    let interval = numbers.count() > 1
        && context.after_word(&[
            "in", "interval", "range", "between", "from", "array", "list", "vector", "is", "are", "was",
            "were", "to", "values", "scores",
        ])
        || context.after_word(&[
            "type", "enter", "dial", "hit", "say", "tap", "click", "select", "pick", "push", "press",
            "option", "options", "choice", "choose", "page", "item", "key", "number", "see", "array", "in",
            "exam",
        ]);
    let numbered = numbered && !(context.indexed && label.iter().all(char::is_ascii_digit));
    numbered && !context.line_start && !code && !interval
}

/// True if a sentence ends or goes on behind the letter of a note: `nations[a].`, but not `names[a] is`.
fn goes_on(rest: &[char], context: &Context) -> bool {
    match rest {
        [' ', c, ..] => c.is_lowercase() && !context.word.ends_with('s'),
        ['.' | '!' | '?', c, ..] => c.is_whitespace(),
        [c, ..] => c.is_whitespace() || matches!(c, ',' | ';' | '.' | '!' | '?'),
        [] => true,
    }
}

/// A footnote: "^1".
fn is_note(label: &[char]) -> bool {
    label.len() > 1 && label[0] == '^' && !label.contains(&' ')
}

/// The box of a list of tasks.
fn is_box(label: &[char], context: &Context) -> bool {
    matches!(label, [' '] | ['x'] | ['X']) && context.line_start
}

/// A character that is none of notation, or a formula.
fn backslash(held: &[char], whole: bool) -> Judged {
    match held.get(1) {
        None => Judged::Open(""),
        Some('(' | '[') => formula::bracketed(held, whole),
        Some('x' | 'u' | 'e' | '0') => terminal::written(held, whole),
        Some(c) if c.is_ascii_punctuation() && *c != '\\' => {
            Judged::Taken(vec![Edit::Skip(1), Edit::Text(1)])
        }
        Some(_) => Judged::Text,
    }
}

/// The source of an assistant's answer: "【4:0†source】".
fn lenticular(held: &[char]) -> Judged {
    match held.iter().position(|&c| c == '】') {
        Some(end) if held.contains(&'†') => Judged::Taken(vec![Edit::Skip(end + 1)]),
        None if held.len() < 64 => Judged::Open("】"),
        _ => Judged::Text,
    }
}

fn is_superscript(c: char) -> bool {
    matches!(c, '¹' | '²' | '³' | '⁰' | '⁴'..='⁹')
}

/// Raised numbers: those of sources behind a word or a mark, or powers.
fn superscript(held: &[char], context: &Context, whole: bool) -> Judged {
    let run = held
        .iter()
        .take_while(|&&c| is_superscript(c) || matches!(c, '⁻' | '˒' | '⁾' | '⁽'))
        .count();
    if run == held.len() && !whole {
        return if run > LONGEST_ENTITY {
            Judged::Taken(vec![Edit::Text(run)])
        } else {
            Judged::Open("")
        };
    }
    let behind_word =
        context.last.is_alphabetic() && context.word.chars().filter(|c| c.is_alphabetic()).count() > 3;
    let behind_mark = matches!(context.last, '.' | ',' | ';' | ':' | '!' | '?' | '"' | '”' | '’');
    // "length² × width", "speed² = ..."
    let operator = held[run..]
        .iter()
        .find(|c| **c != ' ')
        .is_some_and(|c| matches!(c, '=' | '+' | '×' | '*' | '/' | '−' | '·'));
    if (behind_word || behind_mark) && !operator && !context.line_start {
        Judged::Taken(vec![Edit::Skip(run)])
    } else {
        Judged::Taken(vec![Edit::Text(run)])
    }
}
