//! Completion and state of the prompt's editor: the commands, for Tab, and `has_text`.

use std::cell::Cell;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::command::COMMANDS;

/// Helper of the editor. The editor asks it for a hint after every change of the line; it has none, and records the
/// line.
#[derive(Debug, Default)]
pub(super) struct Editing {
    has_text: Cell<bool>,
}

impl Editing {
    /// Returns true if the line that was read last had text when its reading ended.
    pub(super) fn has_text(&self) -> bool {
        self.has_text.get()
    }
}

impl Hinter for Editing {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.has_text.set(!line.trim().is_empty());
        None
    }
}

impl Completer for Editing {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, completions(&line[..at])))
    }
}

impl Highlighter for Editing {}
impl Validator for Editing {}
impl Helper for Editing {}

/// The commands that begin as `typed` does.
fn completions(typed: &str) -> Vec<String> {
    let command = |name: &&&str| typed.starts_with('/') && name.starts_with(typed);
    COMMANDS
        .iter()
        .filter(command)
        .map(|name| format!("{name} "))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_completes_commands_and_nothing_else() {
        assert_eq!(completions("/v"), ["/voice "]);
        assert_eq!(completions("/s"), ["/system ", "/save "]);
        assert!(completions("/voice x").is_empty());
        assert!(completions("").is_empty() && completions("voice").is_empty());
    }
}
