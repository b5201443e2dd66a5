//! Standard error: errors, warnings, notes and progress. Nothing here writes to standard output.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes longer shows its progress.
const SOON: Duration = Duration::from_secs(1);

/// Messages for the person at the terminal.
#[derive(Debug)]
pub(crate) struct Ui {
    quiet: bool,
    terminal: bool,
    color: bool,
    bar: ProgressBar,
}

#[derive(Clone, Copy)]
enum Color {
    Red = 31,
    Yellow = 33,
}

impl Ui {
    pub(crate) fn new(quiet: bool) -> Self {
        let terminal = io::stderr().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb");
        let color = terminal && !is_set("NO_COLOR");
        let bar = if terminal && !quiet && !is_set("CI") {
            spinner(color)
        } else {
            ProgressBar::hidden()
        };
        Self {
            quiet,
            terminal,
            color,
            bar,
        }
    }

    /// True if only results and errors may be written.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// True if standard error is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Shows progress, replacing the previous message.
    pub(crate) fn progress(&self, message: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(message());
            self.bar.enable_steady_tick(Duration::from_millis(80));
        }
    }

    /// Runs `work`, and shows progress if it takes longer than a second.
    pub(crate) async fn patiently<T>(
        &self,
        message: impl FnOnce() -> String,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(SOON) => self.progress(message),
        }
        let done = work.await;
        self.clear();
        done
    }

    /// Takes the progress away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Says something, unless asked to be quiet.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.line(text);
        }
    }

    pub(crate) fn warning(&self, text: &str) {
        if !self.quiet {
            self.line(&format!("{} {text}", self.paint(Color::Yellow, "warning:")));
        }
    }

    pub(crate) fn error(&self, text: &str) {
        self.line(&format!("{} {text}", self.paint(Color::Red, "error:")));
    }

    /// Asks something; the answer is typed behind it.
    pub(crate) fn ask(&self, question: &str) {
        self.bar.suspend(|| {
            let mut stderr = io::stderr().lock();
            // A standard error that is gone is no reason to fail.
            let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
        });
    }

    /// A standard error that is gone is no reason to fail.
    fn line(&self, text: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(io::stderr().lock(), "{text}");
        });
    }

    fn paint(&self, color: Color, text: &str) -> String {
        if self.color {
            format!("\x1b[1;{}m{text}\x1b[0m", color as u8)
        } else {
            text.to_owned()
        }
    }
}

fn spinner(color: bool) -> ProgressBar {
    let template = if color {
        "{spinner:.cyan} {msg}"
    } else {
        "{spinner} {msg}"
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}

/// By convention a variable counts when it is there and not empty.
fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}
