//! Parses a line: a message, or a command.

use std::path::PathBuf;

/// The names of all commands.
pub(super) const COMMANDS: [&str; 6] = ["/system", "/voice", "/save", "/clear", "/help", "/quit"];

/// Text of `/help`.
pub(super) const HELP: &str = "\
/system TEXT   how the model shall behave; without TEXT: show it
/voice NAME    speak with another voice; without NAME: show it
/save FILE     write the conversation: JSON if FILE ends in .json, else text
/clear         begin a new conversation
/help          show this
/quit          leave, as Ctrl-D does
//...          say something that begins with a slash
Ctrl-C stops an answer. At the prompt it clears the line, and on an empty line,
pressed twice, it leaves. Lines typed while an answer comes are said after it.
Tab completes a command.";

/// A parsed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    Nothing,
    Say(String),
    /// `None`: show it.
    System(Option<String>),
    /// `None`: show it.
    Voice(Option<String>),
    Save(PathBuf),
    Clear,
    Help,
    Quit,
    /// The problem.
    Wrong(String),
}

impl Meaning {
    pub(super) fn of(line: &str) -> Self {
        let line = line.trim();
        let Some(command) = line.strip_prefix('/') else {
            return match line {
                "" => Self::Nothing,
                line => Self::Say(line.to_owned()),
            };
        };
        if command.starts_with('/') {
            return Self::Say(command.to_owned());
        }
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        let argument = (!rest.is_empty()).then(|| rest.to_owned());
        match (name, argument) {
            ("system", text) => Self::System(text),
            ("voice", name) => Self::Voice(name),
            ("save", Some(file)) => Self::Save(file.into()),
            ("save", None) => Self::Wrong("/save needs the name of a file".into()),
            ("clear", None) => Self::Clear,
            ("help" | "?", None) => Self::Help,
            ("quit" | "exit", None) => Self::Quit,
            ("clear" | "help" | "?" | "quit" | "exit", Some(_)) => {
                Self::Wrong(format!("/{name} takes nothing behind it"))
            }
            _ => Self::Wrong(format!(
                "there is no /{name}; /help lists what there is, and // says a text that begins with a slash"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_terminal_of_eighty_columns() {
        for line in HELP.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn every_command_is_understood_and_explained() {
        for name in COMMANDS {
            assert!(HELP.contains(name), "{name}");
            let argument = if ["/system", "/voice", "/save"].contains(&name) {
                " x"
            } else {
                ""
            };
            let meaning = Meaning::of(&format!("{name}{argument}"));
            assert!(
                !matches!(meaning, Meaning::Wrong(_) | Meaning::Say(_)),
                "{name}: {meaning:?}"
            );
        }
    }

    #[test]
    fn lines_are_said_and_slashes_obeyed() {
        let say = |text: &str| Meaning::Say(text.into());
        for (line, meaning) in [
            ("  ", Meaning::Nothing),
            (" Hello there. ", say("Hello there.")),
            ("1/2", say("1/2")),
            ("//etc is a folder", say("/etc is a folder")),
            ("/system  Be brief. ", Meaning::System(Some("Be brief.".into()))),
            ("/voice", Meaning::Voice(None)),
            ("/save a b.json", Meaning::Save("a b.json".into())),
            ("/exit", Meaning::Quit),
        ] {
            assert_eq!(Meaning::of(line), meaning, "{line}");
        }
        for line in ["/", "/sing", "/save", "/quit now", "/etc/passwd"] {
            assert!(matches!(Meaning::of(line), Meaning::Wrong(_)), "{line}");
        }
    }
}
