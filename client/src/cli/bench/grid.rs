//! A table, for documents and for terminals.

use std::fmt::Write as _;

/// Rows of as many cells as there are titles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) titles: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// How figures are written to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Style {
    /// Aligned columns
    Text,
    /// Markdown, for documents
    Markdown,
}

impl Grid {
    pub(super) fn new(titles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            titles: titles.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn write(&self, style: Style) -> String {
        match style {
            Style::Text => self.text(),
            Style::Markdown => self.markdown(),
        }
    }

    fn markdown(&self) -> String {
        let mut text = format!(
            "| {} |\n|{}\n",
            self.titles.join(" | "),
            "--:|".repeat(self.titles.len())
        );
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }

    fn text(&self) -> String {
        let lines: Vec<&Vec<String>> = std::iter::once(&self.titles).chain(&self.rows).collect();
        let width = |column: usize| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.titles.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let cells: Vec<String> = line
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:>width$}"))
                .collect();
            let _ = writeln!(text, "{}", cells.join("  "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_cells_make_a_document_and_a_screen() {
        let mut grid = Grid::new(["n", "TTFA ms"]);
        grid.rows.push(vec!["16".into(), "7.5".into()]);
        assert_eq!(
            grid.write(Style::Markdown),
            "| n | TTFA ms |\n|--:|--:|\n| 16 | 7.5 |\n"
        );
        assert_eq!(grid.write(Style::Text), " n  TTFA ms\n16      7.5\n");
    }
}
