//! Formulas in LaTeX: simple ones are read, the others are left out with a warning. Amounts of money are none.

mod words;

use super::notation::{Edit, Judged};
use crate::list::listed;
use words::{ACCENTS, NAMES, PLAIN, SAID, SIGNS, SILENT};

/// Most characters of a formula in a line, and of one by itself: more would hold back a text that is spoken as it is written.
const LONGEST: usize = 200;
const LONGEST_DISPLAY: usize = 400;
/// Deepest groups within groups.
const DEEPEST: usize = 8;

/// Judges characters from a dollar sign on.
pub(super) fn dollar(held: &[char], context: &super::notation::Context, whole: bool) -> Judged {
    match held.get(1) {
        None => return Judged::Open(""),
        Some('$') => return display(held, whole),
        Some(c) if c.is_whitespace() || context.last.is_alphanumeric() => return Judged::Text,
        Some(_) => {}
    }
    let mut depth = 0_usize;
    let mut at = 1;
    while let Some(&c) = held.get(at) {
        match c {
            '\n' => return Judged::Text,
            '\\' => {
                at += 1 + held[at + 1..]
                    .iter()
                    .skip(1)
                    .take_while(|c| c.is_ascii_alphabetic())
                    .count();
            }
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '$' => {
                let next = held.get(at + 1);
                let content = &held[1..at];
                return match next {
                    _ if held[at - 1].is_whitespace() || !is_formula(content) => Judged::Text,
                    None if !whole => Judged::Open(""),
                    Some(next) if next.is_alphanumeric() => Judged::Text,
                    _ => read(content, 1),
                };
            }
            _ if depth == 0 && is_prose(held, at) => return Judged::Text,
            _ => {}
        }
        at += 1;
    }
    if whole || held.len() > LONGEST {
        Judged::Text
    } else {
        Judged::Open("")
    }
}

/// True if a word ends here that no formula has, or an amount of money.
fn is_prose(held: &[char], at: usize) -> bool {
    let c = held[at];
    let from = held[..at]
        .iter()
        .rposition(|c| !c.is_ascii_alphabetic())
        .map_or(0, |i| i + 1);
    let word: String = held[from..=at].iter().collect();
    let named = held[from.saturating_sub(1)] == '\\';
    if c.is_ascii_alphabetic() && word.len() > 2 && !named {
        return !SAID.iter().any(|(name, _)| name.starts_with(&word));
    }
    let amount = held[1..]
        .iter()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ','))
        .count();
    // A number, a mark or nothing, and a space: "$5 a day", "$5. I".
    let behind = 1 + amount;
    let marked = held[..behind].ends_with(&['.']) || held[..behind].ends_with(&[',']);
    let letters = c.is_ascii_alphabetic() && at == behind + 1;
    amount > 0 && held.get(behind) == Some(&' ') && at > behind && (marked || letters)
        || amount > 0 && at == behind && matches!(c, ';' | '?' | ':')
}

/// True if what stands between two dollar signs is mathematics.
fn is_formula(content: &[char]) -> bool {
    let any = |signs: &str| content.iter().any(|&c| signs.contains(c));
    let letters = content.iter().filter(|c| c.is_ascii_alphabetic()).count();
    let signed = content.len() - usize::from(content.first() == Some(&'-'));
    let digits = content
        .iter()
        .rev()
        .take(signed)
        .all(|c| c.is_ascii_digit() || *c == '.');
    let starts = content
        .first()
        .is_some_and(|c| c.is_ascii_alphabetic() || "\\(|-[{".contains(*c));
    // "2x", but no thousands or millions of dollars
    let factor = letters == 1
        && content.len() < 6
        && content.iter().all(char::is_ascii_alphanumeric)
        && content
            .last()
            .is_some_and(|c| c.is_ascii_lowercase() && !matches!(c, 'b' | 'k' | 'm'));
    !content.is_empty()
        && (digits
            || factor
            || any("\\^_=<>")
            || letters > 0 && (starts || any("+*/-("))
            || any("+*") && !any("$"))
}

/// A formula by itself: "$$...$$".
fn display(held: &[char], whole: bool) -> Judged {
    let end = held.windows(2).skip(2).position(|pair| pair == ['$', '$']);
    match end {
        _ if has_prose(held, end) => Judged::Text,
        Some(0) => Judged::Text,
        Some(end) => read(&held[2..end + 2], 2),
        None if whole || held.len() > LONGEST_DISPLAY || held.ends_with(&['\n', '\n']) => Judged::Text,
        None => Judged::Open(""),
    }
}

/// True if there is prose outside of braces before `end`, or so far.
fn has_prose(held: &[char], end: Option<usize>) -> bool {
    let mut depth = 0_usize;
    (2..end.map_or(held.len(), |end| end + 2)).any(|at| {
        match held[at] {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_prose(held, at)
    })
}

/// A formula in brackets with backslashes; other text in such is not marked up by its brackets.
pub(super) fn bracketed(held: &[char], whole: bool) -> Judged {
    let (close, longest) = if held[1] == '(' {
        (')', LONGEST)
    } else {
        (']', LONGEST_DISPLAY)
    };
    let escaped = Judged::Taken(vec![Edit::Skip(1), Edit::Text(1)]);
    if held.len() > 3 && held[held.len() - 2] == '\\' && matches!(held[held.len() - 1], '(' | '[') {
        return escaped;
    }
    let end = held.windows(2).skip(2).position(|pair| pair == ['\\', close]);
    match end {
        Some(end) if is_formula(&held[2..end + 2]) => read(&held[2..end + 2], 2),
        None if !whole
            && held.len() < longest
            && !held.ends_with(&['\n', '\n'])
            && !has_prose(held, None) =>
        {
            Judged::Open("")
        }
        _ => escaped,
    }
}

/// Reads a formula between signs of `delimiter` characters, or leaves it out.
fn read(content: &[char], delimiter: usize) -> Judged {
    let mut reader = Reader {
        text: content,
        edits: vec![Edit::Skip(delimiter)],
        joined: false,
    };
    let understood = reader.run(0, content.len(), 0).is_some();
    if !understood {
        let written: String = content.iter().take(40).collect();
        let chars = content.len() + 2 * delimiter;
        return Judged::Taken(vec![
            Edit::Skip(chars),
            Edit::Ignored(format!("formula {}", written.trim())),
        ]);
    }
    reader.edits.push(Edit::Skip(delimiter));
    Judged::Taken(reader.edits)
}

struct Reader<'a> {
    text: &'a [char],
    edits: Vec<Edit>,
    /// A word or a number ends here: the next one needs a space.
    joined: bool,
}

impl Reader<'_> {
    fn say(&mut self, words: &str, chars: usize) {
        if words.is_empty() {
            self.edits.push(Edit::Words(" ".to_owned(), chars));
            self.joined = false;
            return;
        }
        let space = if self.joined { " " } else { "" };
        self.edits.push(Edit::Words(format!("{space}{words}"), chars));
        self.joined = true;
    }

    fn skip(&mut self, chars: usize) {
        if chars > 0 {
            self.edits.push(Edit::Skip(chars));
        }
    }

    /// The group or the one thing from `at` on: where its inside is, and where it ends.
    fn argument(&self, at: usize, to: usize) -> Option<(usize, usize, usize)> {
        match self.text.get(at).filter(|_| at < to)? {
            '{' => {
                let mut depth = 0;
                for (i, c) in self.text[..to].iter().enumerate().skip(at) {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 1 => return Some((at + 1, i, i + 1)),
                        '}' => depth -= 1,
                        _ => {}
                    }
                }
                None
            }
            '\\' => {
                let name = self.text[at + 1..to]
                    .iter()
                    .take_while(|c| c.is_ascii_alphabetic())
                    .count();
                Some((at, at + 1 + name.max(1), at + 1 + name.max(1)))
            }
            _ => Some((at, at + 1, at + 1)),
        }
    }

    /// Says what a group says without its braces.
    fn group(&mut self, (from, to, end): (usize, usize, usize), at: usize, depth: usize) -> Option<()> {
        self.skip(from - at);
        self.run(from, to, depth + 1)?;
        self.skip(end - to);
        Some(())
    }

    /// Says everything from `at` to `to`. None if something has no reading.
    fn run(&mut self, mut at: usize, to: usize, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        while at < to {
            let c = self.text[at];
            at = match c {
                '\\' => self.command(at, to, depth)?,
                '{' => {
                    let group = self.argument(at, to)?;
                    self.group(group, at, depth)?;
                    group.2
                }
                '^' => self.power(at, to, depth)?,
                '_' => {
                    let group = self.argument(at + 1, to)?;
                    self.say("", 1);
                    self.group(group, at + 1, depth)?;
                    group.2
                }
                '\'' => {
                    self.say("prime", 1);
                    at + 1
                }
                '(' if at > 0
                    && (self.text[at - 1].is_ascii_alphabetic() || self.text[at - 1] == '\'')
                    && self.joined =>
                {
                    self.say("of", 1);
                    at + 1
                }
                '(' | ')' | '&' | '~' => {
                    self.say("", 1);
                    at + 1
                }
                '/' if !self.between_digits(at) => {
                    self.say("over", 1);
                    at + 1
                }
                c if c.is_alphabetic() => {
                    // Letters beside each other are factors.
                    self.say(&c.to_string(), 1);
                    at + 1
                }
                c if c.is_ascii_digit() || c == '.' || c == ',' && self.between_digits(at) => {
                    let digits = self.text[at..to]
                        .iter()
                        .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ','))
                        .count();
                    let trailing = self.text[at..at + digits]
                        .iter()
                        .rev()
                        .take_while(|c| !c.is_ascii_digit())
                        .count();
                    let digits = (digits - trailing).max(1);
                    let written: String = self.text[at..at + digits].iter().collect();
                    self.say(&written, digits);
                    at + digits
                }
                c => {
                    match SIGNS.iter().find(|(sign, _)| *sign == c) {
                        Some((_, words)) => self.say(words, 1),
                        None if c.is_whitespace() => self.say("", 1),
                        None if matches!(c, '+' | '=' | ',' | '/' | ':' | ';' | '.' | '?' | '%')
                            || !c.is_ascii() =>
                        {
                            self.edits.push(Edit::Text(1));
                            self.joined = matches!(c, '+' | '=');
                        }
                        None => return None,
                    }
                    at + 1
                }
            };
        }
        Some(())
    }

    fn between_digits(&self, at: usize) -> bool {
        at > 0
            && self.text[at - 1].is_ascii_digit()
            && self.text.get(at + 1).is_some_and(char::is_ascii_digit)
    }

    fn power(&mut self, at: usize, to: usize, depth: usize) -> Option<usize> {
        let group = self.argument(at + 1, to)?;
        let inside: String = self.text[group.0..group.1].iter().collect();
        let chars = group.2 - at;
        match inside.trim() {
            "2" => self.say("squared", chars),
            "3" => self.say("cubed", chars),
            "\\circ" => self.say("degrees", chars),
            "\\prime" => self.say("prime", chars),
            "T" | "\\top" => self.say("transposed", chars),
            "*" => self.say("star", chars),
            "+" => self.say("plus", chars),
            "-" => self.say("minus", chars),
            _ => {
                self.say("to the power of", 1);
                self.group(group, at + 1, depth)?;
            }
        }
        Some(group.2)
    }

    /// "_{a}^{b}" behind a sum or an integral.
    fn limits(&mut self, at: usize, to: usize, depth: usize) -> Option<usize> {
        let mut end = at;
        for (sign, word) in [('_', "from"), ('^', "to")] {
            if end < to && self.text[end] == sign {
                let group = self.argument(end + 1, to)?;
                self.say(word, 1);
                self.group(group, end + 1, depth)?;
                end = group.2;
            }
        }
        Some(end)
    }

    fn command(&mut self, at: usize, to: usize, depth: usize) -> Option<usize> {
        let letters = self.text[at + 1..to]
            .iter()
            .take_while(|c| c.is_ascii_alphabetic())
            .count();
        let end = (at + 1 + letters.max(1)).min(to);
        let name: String = self.text[at + 1..end].iter().collect();
        let chars = end - at;
        if name == " " || listed(SILENT, &name) {
            self.say("", chars);
            // The bracket of "\left." is none.
            let point = matches!(name.as_str(), "left" | "right") && self.text.get(end) == Some(&'.');
            self.skip(usize::from(point));
            return Some(end + usize::from(point));
        }
        if listed(PLAIN, &name) {
            let group = self.argument(end, to)?;
            self.skip(chars);
            if name.starts_with("text")
                || name.ends_with("box") && name != "boxed"
                || name == "operatorname"
                || name == "mathrm"
            {
                // Words, not letters.
                let written: String = self.text[group.0..group.1].iter().collect();
                if written.contains(['\\', '$', '{']) {
                    return None;
                }
                self.say(written.trim(), group.2 - end);
                return Some(group.2);
            }
            self.group(group, end, depth)?;
            return Some(group.2);
        }
        if let Some((_, word)) = ACCENTS.iter().find(|(accent, _)| *accent == name) {
            let group = self.argument(end, to)?;
            self.skip(chars);
            self.group(group, end, depth)?;
            if !word.is_empty() {
                // Said with the last sign of its group.
                let last = self.edits.pop();
                if let Some(Edit::Skip(n)) = last {
                    self.say(word, n);
                } else {
                    self.edits.extend(last);
                }
            }
            return Some(group.2);
        }
        match name.as_str() {
            "frac" | "dfrac" | "tfrac" | "cfrac" => return self.fraction(at, end, to, depth),
            "sqrt" => {
                let index = self.text.get(end) == Some(&'[');
                let close = self.text[end..to]
                    .iter()
                    .position(|&c| c == ']')
                    .map_or(end, |n| end + n + 1);
                let from = if index { close } else { end };
                let group = self.argument(from, to)?;
                let root: String = self.text[end..from]
                    .iter()
                    .filter(|c| c.is_alphanumeric())
                    .collect();
                match root.as_str() {
                    "" | "2" => self.say("the square root of", from - at),
                    "3" => self.say("the cube root of", from - at),
                    n => self.say(&format!("the {n}th root of"), from - at),
                }
                self.group(group, from, depth)?;
                return Some(group.2);
            }
            "binom" => {
                let top = self.argument(end, to)?;
                let bottom = self.argument(top.2, to)?;
                self.skip(chars);
                self.group(top, end, depth)?;
                self.edits
                    .push(Edit::Words(" choose ".to_owned(), bottom.0 - top.2));
                self.joined = false;
                self.run(bottom.0, bottom.1, depth + 1)?;
                self.skip(bottom.2 - bottom.1);
                return Some(bottom.2);
            }
            _ => {}
        }
        if let Ok(found) = SAID.binary_search_by_key(&name.as_str(), |(name, _)| name) {
            let words = SAID[found].1;
            self.say(words, chars);
            if name == "log" && self.text.get(end) == Some(&'_') {
                let base = self.argument(end + 1, to)?;
                self.say("base", 1);
                self.group(base, end + 1, depth)?;
                self.say("of", 0);
                return Some(base.2);
            }
            if !matches!(name.as_str(), "sum" | "prod" | "int" | "lim") {
                return Some(end);
            }
            let edits = self.edits.len();
            let end = self.limits(end, to, depth)?;
            for edit in self.edits[edits..].iter_mut().filter(|_| name == "lim") {
                if let Edit::Words(words, _) = edit {
                    *words = match words.trim() {
                        "from" => " as".to_owned(),
                        "to" => " approaches".to_owned(),
                        _ => continue,
                    };
                }
            }
            // Of what: it needs a sign to stand for.
            let space = self.text[end..to]
                .iter()
                .take_while(|c| c.is_whitespace())
                .count();
            if space > 0 {
                self.say("of", space);
            }
            return Some(end + space);
        }
        let lower = name.to_lowercase();
        let lower = lower.strip_prefix("var").unwrap_or(&lower);
        if listed(NAMES, lower) {
            self.say(lower, chars);
            return Some(end);
        }
        let arrow = lower.contains("arrow");
        if arrow {
            self.say("to", chars);
        }
        arrow.then_some(end)
    }

    fn fraction(&mut self, at: usize, end: usize, to: usize, depth: usize) -> Option<usize> {
        let top = self.argument(end, to)?;
        let bottom = self.argument(top.2, to)?;
        let digits = |(from, to, _): (usize, usize, usize)| {
            from < to && self.text[from..to].iter().all(char::is_ascii_digit)
        };
        if digits(top) && digits(bottom) {
            let over: String = self.text[top.0..top.1].iter().collect();
            let under: String = self.text[bottom.0..bottom.1].iter().collect();
            self.say(&format!("{over}/{under}"), bottom.2 - at);
            return Some(bottom.2);
        }
        self.skip(end - at);
        self.group(top, end, depth)?;
        if bottom.0 > top.2 {
            self.say("over", bottom.0 - top.2);
        } else {
            self.say("over", 0);
        }
        self.run(bottom.0, bottom.1, depth + 1)?;
        self.skip(bottom.2 - bottom.1);
        Some(bottom.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sorted() {
        assert!(SAID.is_sorted_by_key(|(name, _)| name));
    }
}
