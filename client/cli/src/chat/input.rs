//! Lines of a person at a terminal, with editing and history, or of a script.
//!
//! Lines are read on a thread of their own, one when it is asked for. That thread is never joined: nothing can wake it
//! from a read, and it ends with the program.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, thread};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Behavior, Config, Editor};
use tokio::sync::mpsc;

use super::editing::Editing;
use crate::failure::Failure;

const PROMPT: &str = "> ";
/// Lines that are kept for later sessions, most.
const MOST_LINES: usize = 1_000;
/// Longest line of a script in bytes.
const MAX_LINE: usize = 1 << 20;

/// A line, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C at an empty prompt.
    Interrupt,
    /// Ctrl-C has taken away what was typed.
    Cleared,
    End,
}

/// The near end of the thread that reads.
#[derive(Debug)]
pub(super) struct Input {
    ask: mpsc::Sender<()>,
    lines: mpsc::Receiver<io::Result<Line>>,
    /// A requested line has not come yet.
    asked: bool,
    interactive: bool,
    _screen: Option<Screen>,
}

impl Input {
    /// Opens standard input, of any kind. `kept` returns the file of earlier sessions' lines where lines are edited.
    pub(super) fn open(kept: impl FnOnce() -> Option<PathBuf>) -> Result<Self, Failure> {
        let interactive = io::stdin().is_terminal();
        let mut screen = None;
        let source = if interactive && can_edit() {
            let reading = Arc::new(AtomicBool::new(false));
            screen = Screen::of(&reading);
            let history = kept();
            let editor = Box::new(editor(history.as_deref())?);
            Source::Editor(Edited {
                editor,
                reading,
                history,
            })
        } else {
            Source::Plain(Plain {
                prompt: interactive,
                number: 0,
            })
        };
        let (ask, asked) = mpsc::channel(1);
        let (lines, receiver) = mpsc::channel(1);
        thread::spawn(move || read_lines(source, asked, &lines));
        Ok(Self {
            ask,
            lines: receiver,
            asked: false,
            interactive,
            _screen: screen,
        })
    }

    /// True if a person types.
    pub(super) fn interactive(&self) -> bool {
        self.interactive
    }

    /// The next line. May be dropped and called again without losing it.
    pub(super) async fn next(&mut self) -> Result<Line, Failure> {
        if !self.asked {
            self.asked = true;
            // If the thread has ended, so have the lines.
            let _ = self.ask.send(()).await;
        }
        let line = self.lines.recv().await;
        self.asked = false;
        line.unwrap_or(Ok(Line::End))
            .map_err(|error| Failure::io("cannot read standard input", error))
    }
}

/// Returns true if lines can be edited: this needs a terminal that can move its cursor, and access to it past a
/// standard output that is something else.
fn can_edit() -> bool {
    let capable = env::var("TERM").is_ok_and(|term| !["dumb", "cons25", "emacs"].contains(&term.as_str()));
    capable && (io::stdout().is_terminal() || OpenOptions::new().write(true).open("/dev/tty").is_ok())
}

type LineEditor = Editor<Editing, FileHistory>;

fn editor(history: Option<&Path>) -> Result<LineEditor, Failure> {
    let behavior = if io::stdout().is_terminal() {
        Behavior::Stdio
    } else {
        Behavior::PreferTerm
    };
    let unusable = |error| Failure::io("cannot use the terminal", from_readline(error));
    let config = Config::builder()
        .auto_add_history(true)
        .behavior(behavior)
        .max_history_size(MOST_LINES)
        .map_err(unusable)?
        .build();
    let mut editor = Editor::with_config(config).map_err(unusable)?;
    if let Some(file) = history {
        // A file that is no text has no lines for this session.
        let _ = editor.load_history(file);
    }
    editor.set_helper(Some(Editing::default()));
    Ok(editor)
}

fn read_lines(mut source: Source, mut asked: mpsc::Receiver<()>, lines: &mpsc::Sender<io::Result<Line>>) {
    while asked.blocking_recv().is_some() {
        let line = source.read();
        let over = matches!(line, Ok(Line::End) | Err(_));
        if lines.blocking_send(line).is_err() || over {
            return;
        }
    }
}

enum Source {
    Editor(Edited),
    Plain(Plain),
}

/// Lines with editing.
struct Edited {
    editor: Box<LineEditor>,
    /// Set while it reads.
    reading: Arc<AtomicBool>,
    history: Option<PathBuf>,
}

impl Edited {
    fn read(&mut self) -> io::Result<Line> {
        self.reading.store(true, Ordering::SeqCst);
        let line = self.editor.readline(PROMPT);
        self.reading.store(false, Ordering::SeqCst);
        let typed = self.editor.helper().is_some_and(Editing::has_text);
        match line {
            Ok(line) => {
                if let Some(file) = &self.history {
                    // A disk that is full must not end a conversation.
                    let _ = self.editor.append_history(file);
                }
                Ok(Line::Text(line))
            }
            Err(ReadlineError::Interrupted) if typed => Ok(Line::Cleared),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupt),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(from_readline(error)),
        }
    }
}

impl Source {
    fn read(&mut self) -> io::Result<Line> {
        match self {
            Self::Editor(edited) => edited.read(),
            Self::Plain(plain) => plain.read(io::stdin().lock()),
        }
    }
}

fn from_readline(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

/// Lines as they are.
struct Plain {
    /// A person types, without line editing.
    prompt: bool,
    number: u64,
}

impl Plain {
    fn read(&mut self, input: impl io::BufRead) -> io::Result<Line> {
        if self.prompt {
            let mut stderr = io::stderr().lock();
            // A standard error that is gone is no reason to fail.
            let _ = write!(stderr, "{PROMPT}").and_then(|()| stderr.flush());
        }
        self.number += 1;
        let mut line = Vec::new();
        input.take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        let wrong = |what| {
            let message = format!("line {} {what}", self.number);
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        };
        match String::from_utf8(line) {
            Ok(line) if line.is_empty() => Ok(Line::End),
            Ok(line) if line.len() > MAX_LINE => wrong("is longer than a megabyte"),
            Ok(line) => Ok(Line::Text(line)),
            Err(_) => wrong("is not UTF-8 text"),
        }
    }
}

/// Restores the terminal, if the program ends while its editor reads.
#[derive(Debug)]
struct Screen {
    original: Termios,
    reading: Arc<AtomicBool>,
}

impl Screen {
    fn of(reading: &Arc<AtomicBool>) -> Option<Self> {
        Some(Self {
            original: tcgetattr(io::stdin()).ok()?,
            reading: reading.clone(),
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.reading.load(Ordering::SeqCst) {
            // Nothing more can be done if this fails. The bytes end bracketed paste, which the editor began.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.original);
            let _ = io::stderr().write_all(b"\x1b[?2004l\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Plain {
        Plain {
            prompt: false,
            number: 0,
        }
    }

    #[test]
    fn a_script_is_read_line_by_line_and_its_last_line_needs_no_end() {
        let mut script = "One.\r\nTwo née €.\n\nThree.".as_bytes();
        let mut plain = plain();
        let mut lines = Vec::new();
        while let Line::Text(line) = plain.read(&mut script).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, ["One.\r\n", "Two née €.\n", "\n", "Three."]);
    }

    #[test]
    fn lines_that_cannot_be_said_are_named() {
        let mut plain = plain();
        assert!(plain.read(&b"good\n"[..]).is_ok());
        let error = plain.read(&b"\xFF\n"[..]).unwrap_err();
        assert_eq!(error.to_string(), "line 2 is not UTF-8 text");
        let long = vec![b'x'; MAX_LINE + 10];
        let error = plain.read(&long[..]).unwrap_err();
        assert_eq!(error.to_string(), "line 3 is longer than a megabyte");
    }
}
