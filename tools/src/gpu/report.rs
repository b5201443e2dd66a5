//! Markdown written line by line as results arrive, so that they survive a later hang.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writer of the report.
pub struct Report {
    out: Box<dyn Write>,
    /// The head of the table that is being written.
    head: Option<String>,
    /// `true` if a line has stood between its rows.
    parted: bool,
}

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
        Self {
            out: Box::new(out),
            head: None,
            parted: false,
        }
    }

    /// A line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.out, "{}", line.as_ref())?;
        self.out.flush()
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

    /// Writes a line at once, even within a table; the table is restarted behind it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn aside(&mut self, line: &str) -> io::Result<()> {
        self.parted = true;
        self.line(format!("\n{line}\n"))
    }

    /// The head of a table of words: names of its columns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn table(&mut self, columns: &[&str]) -> io::Result<()> {
        self.head(columns, &format!("|{}", "---|".repeat(columns.len())))
    }

    /// The head of a table of numbers, with as many columns of words first.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn figures(&mut self, words: usize, columns: &[&str]) -> io::Result<()> {
        let numbers = columns.len().saturating_sub(words);
        self.head(
            columns,
            &format!("|{}{}", "---|".repeat(words), "--:|".repeat(numbers)),
        )
    }

    fn head(&mut self, columns: &[&str], rule: &str) -> io::Result<()> {
        let head = format!("{}\n{rule}", cells(columns));
        self.parted = false;
        self.line(&head)?;
        self.head = Some(head);
        Ok(())
    }

    /// A row of a table.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn row(&mut self, cells: &[impl AsRef<str>]) -> io::Result<()> {
        if std::mem::take(&mut self.parted)
            && let Some(head) = self.head.clone()
        {
            self.line(head)?;
        }
        self.line(self::cells(cells))
    }
}

fn cells(cells: &[impl AsRef<str>]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| cell.as_ref().replace('|', "/")).collect();
    format!("| {} |", cells.join(" | "))
}

/// Formats a value with its significant digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failure_stands_between_two_tables_with_the_same_head() {
        let written = Shared::default();
        let mut report = Report::new(written.clone());
        report.figures(1, &["what", "ms"]).expect("written");
        report.row(&["a", "1"]).expect("written");
        report.aside("- Failed: b").expect("written");
        report.row(&["c", "3"]).expect("written");
        report.row(&["d", "4"]).expect("written");
        let text = String::from_utf8(written.0.lock().clone()).expect("text");
        let head = "| what | ms |\n|---|--:|\n";
        assert_eq!(
            text,
            format!("{head}| a | 1 |\n\n- Failed: b\n\n{head}| c | 3 |\n| d | 4 |\n")
        );
    }
}
