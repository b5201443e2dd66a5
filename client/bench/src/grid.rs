//! A table, for documents and for terminals.

use std::fmt::Write as _;

/// Columns of a text table; a wider one wraps.
const SCREEN: usize = 100;

/// Rows of as many cells as there are titles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) titles: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Style of printed tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Aligned columns, at most 100 characters wide
    Text,
    /// Markdown, for documents
    Markdown,
}

impl Grid {
    pub(crate) fn new(titles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            titles: titles.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn write(&self, style: Style) -> String {
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

    /// Columns side by side as far as they fit, the others below, each group after the first column, which names the
    /// rows.
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
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut room = 0;
        for column in 1..widths.len() {
            let taken = widths[column] + GAP.len();
            match parts.last_mut().filter(|_| taken <= room) {
                Some(part) => part.push(column),
                None => {
                    parts.push(vec![0, column]);
                    room = SCREEN.saturating_sub(widths[0]);
                }
            }
            room = room.saturating_sub(taken);
        }
        if parts.is_empty() {
            parts.push((0..widths.len()).collect());
        }
        let line = |part: &[usize], line: &[String]| {
            let cells: Vec<String> = part
                .iter()
                .map(|&column| format!("{:>width$}", line[column], width = widths[column]))
                .collect();
            format!("{}\n", cells.join(GAP))
        };
        let blocks: Vec<String> = parts
            .iter()
            .map(|part| lines.iter().map(|cells| line(part, cells)).collect())
            .collect();
        blocks.join("\n")
    }
}

/// Between two columns of text.
const GAP: &str = "  ";

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

    #[test]
    fn what_does_not_fit_on_a_screen_goes_on_below() {
        let mut grid = Grid::new(
            ["streams".to_owned()]
                .into_iter()
                .chain((1..=5).map(|i| format!("figure {i}"))),
        );
        let cell = |i: u32| format!("{i:>3}.0 / 100.0 / 1000.0 / 10000.0");
        grid.rows
            .push([16.to_string()].into_iter().chain((1..=5).map(cell)).collect());
        let text = grid.write(Style::Text);
        assert!(text.lines().all(|line| line.chars().count() <= SCREEN), "{text}");
        assert_eq!(
            text.matches("streams").count(),
            text.split("\n\n").count(),
            "{text}"
        );
        for i in 1..=5 {
            assert!(
                text.contains(&format!("figure {i}")) && text.contains(&cell(i)),
                "{text}"
            );
        }
    }
}
