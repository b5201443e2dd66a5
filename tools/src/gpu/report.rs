//! Markdown that is written as it becomes known: what was found is there, even if the next thing never returns.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Where the report goes.
pub struct Report(Box<dyn Write>);

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Report")
    }
}

impl Report {
    /// Into a file, or to standard output.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        Ok(match path {
            Some(path) => Self::new(File::create(path)?),
            None => Self::new(io::stdout()),
        })
    }

    /// Into anything.
    pub fn new(out: impl Write + 'static) -> Self {
        Self(Box::new(out))
    }

    /// A line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.0, "{}", line.as_ref())?;
        self.0.flush()
    }

    /// A paragraph.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn paragraph(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.line(text)?;
        self.line("")
    }

    /// A heading of this level, with a blank line on both sides.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn heading(&mut self, level: usize, text: &str) -> io::Result<()> {
        self.line(format!("\n{} {text}\n", "#".repeat(level)))
    }

    /// The head of a table of words: names of its columns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn table(&mut self, columns: &[&str]) -> io::Result<()> {
        self.row(columns)?;
        self.line(format!("|{}", "---|".repeat(columns.len())))
    }

    /// The head of a table of numbers, with as many columns of words first.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn figures(&mut self, words: usize, columns: &[&str]) -> io::Result<()> {
        self.row(columns)?;
        let numbers = columns.len().saturating_sub(words);
        self.line(format!("|{}{}", "---|".repeat(words), "--:|".repeat(numbers)))
    }

    /// A row of a table.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn row(&mut self, cells: &[impl AsRef<str>]) -> io::Result<()> {
        let cells: Vec<_> = cells.iter().map(|cell| cell.as_ref().replace('|', "/")).collect();
        self.line(format!("| {} |", cells.join(" | ")))
    }
}

/// So much, with as many digits as tell something.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
