//! A manual page. Sections of its own are made of what stands behind the help of a command, which clap would put under EXTRA.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;

/// Set by those who build packages. Without it pages have no date: a program has the same pages on any day.
const EPOCH: &str = "SOURCE_DATE_EPOCH";
/// The last second that can be written as a date.
const LATEST: u64 = 253_402_300_799;

/// What stands at the foot of all pages of a program.
pub(super) struct Footer {
    /// Name and version of the program.
    source: String,
    /// Such as `2026-01-31`; empty without a date.
    date: String,
}

impl Footer {
    /// Of the program `command`.
    pub(super) fn of(command: &Command) -> Self {
        let version = command.get_version().unwrap_or_default();
        Self {
            source: format!("{} {version}", command.get_name()),
            date: date().unwrap_or_default(),
        }
    }
}

fn date() -> Option<String> {
    let seconds: u64 = std::env::var(EPOCH).ok()?.parse().ok()?;
    let moment = UNIX_EPOCH + Duration::from_secs(seconds.min(LATEST));
    let mut date = humantime::format_rfc3339_seconds(moment).to_string();
    date.truncate("2026-01-31".len());
    Some(date)
}

/// The page of one command.
pub(super) struct Page {
    man: Man,
    after_help: String,
}

impl Page {
    /// The page of a built command.
    pub(super) fn of(command: Command, footer: &Footer) -> Self {
        let after = command.get_after_long_help().or(command.get_after_help());
        let after_help = after.map(ToString::to_string).unwrap_or_default();
        let command = command
            .after_help(Resettable::Reset)
            .after_long_help(Resettable::Reset);
        let man = Man::new(command)
            .date(footer.date.as_str())
            .source(footer.source.as_str())
            .manual("Omni Manual");
        Self { man, after_help }
    }

    pub(super) fn file_name(&self) -> String {
        self.man.get_filename()
    }

    pub(super) fn written(&self) -> io::Result<Vec<u8>> {
        let mut page = Vec::new();
        self.man.render(&mut page)?;
        page.extend_from_slice(sections(&self.after_help).as_bytes());
        Ok(page)
    }
}

/// Name of a section in a manual.
fn section(heading: &str) -> String {
    match heading {
        "Exit codes" => "EXIT STATUS".to_owned(),
        heading => heading.to_uppercase(),
    }
}

/// Text with lines `Heading:` as roff: a section under every heading, NOTES for what comes before the first and behind a section's
/// end. Indented lines stay as they are.
fn sections(text: &str) -> String {
    let mut roff = String::new();
    let mut literal = false;
    let mut within = false;
    let mut blank = true;
    for line in text.lines() {
        let heading = line.strip_suffix(':').filter(|_| blank && !line.starts_with(' '));
        let starts_text = blank && heading.is_none() && !line.starts_with(' ') && !line.is_empty();
        if literal && (heading.is_some() || starts_text) {
            roff.push_str(".fi\n");
            literal = false;
        }
        if let Some(heading) = heading {
            roff.push_str(&format!(".SH \"{}\"\n.nf\n", section(heading)));
            (literal, within) = (true, true);
        } else if starts_text {
            roff.push_str(if within || roff.is_empty() {
                ".SH NOTES\n"
            } else {
                ".PP\n"
            });
            within = false;
            roff.push_str(&escaped(line));
        } else if line.is_empty() {
            roff.push_str(if literal { "\n" } else { "" });
        } else {
            roff.push_str(&escaped(line));
        }
        blank = line.is_empty();
    }
    if literal {
        roff.push_str(".fi\n");
    }
    roff
}

/// A line of text in which nothing is a request or an escape.
fn escaped(line: &str) -> String {
    let text = line
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq");
    let guard = if text.starts_with('.') { "\\&" } else { "" };
    format!("{guard}{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_sections_and_examples_stay_as_they_are() {
        let text = "Closed loop\nand more.\n\nExamples:\n  omni-client speak 'Hi.'\n  printf 'a\\n'\n\nExit codes:\n  0  done\n\nSet X.";
        assert_eq!(
            sections(text),
            ".SH NOTES\nClosed loop\nand more.\n.SH \"EXAMPLES\"\n.nf\n  omni\\-client speak \\(aqHi.\\(aq\n  printf \\(aqa\\en\\(aq\n\n\
             .fi\n.SH \"EXIT STATUS\"\n.nf\n  0  done\n\n.fi\n.SH NOTES\nSet X.\n"
        );
        assert_eq!(escaped(".end"), "\\&.end\n");
    }
}
