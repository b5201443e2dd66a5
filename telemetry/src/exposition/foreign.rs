//! Families of a library that keeps a registry of its own: they come as Prometheus' text, and stand behind ours on the
//! same page.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::render::{Format, Selection};

/// Source of a library's metrics, in Prometheus' text format 0.0.4.
pub type ForeignText = std::sync::Arc<dyn Fn() -> String + Send + Sync>;

/// Suffixes that a sample's name may have behind its family's.
const SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// A family as received.
#[derive(Debug, Default)]
struct Block<'a> {
    name: &'a str,
    help: Option<&'a str>,
    kind: Option<&'a str>,
    samples: Vec<&'a str>,
}

impl<'a> Block<'a> {
    fn named(name: &'a str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Returns true if a sample of that name is its own.
    fn has(&self, sample: &str) -> bool {
        sample
            .strip_prefix(self.name)
            .is_some_and(|suffix| suffix.is_empty() || (self.is_distribution() && SUFFIXES.contains(&suffix)))
    }

    fn is_distribution(&self) -> bool {
        matches!(self.kind, Some("histogram" | "summary"))
    }

    fn is_wanted(&self, selection: &Selection) -> bool {
        let parts = SUFFIXES
            .iter()
            .filter(|_| self.is_distribution())
            .any(|suffix| selection.wants(&format!("{}{suffix}", self.name)));
        parts || selection.wants(self.name)
    }
}

fn name_of(sample: &str) -> &str {
    sample.split(['{', ' ']).next().unwrap_or_default()
}

/// Families in `text`, merged, in order. Samples outside any family form one without a kind.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.splitn(4, ' ');
        let (head, name) = match (words.next(), words.next(), words.next()) {
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name)) => (Some(what), name),
            (Some("#"), ..) => continue,
            _ => (None, name_of(line)),
        };
        let goes_on = blocks.last().is_some_and(|last| match head {
            Some(_) => last.name == name,
            None => last.has(name),
        });
        if !goes_on {
            blocks.push(Block::named(name));
        }
        let Some(block) = blocks.last_mut() else {
            continue;
        };
        match head {
            Some("HELP") => block.help = Some(words.next().unwrap_or_default()),
            Some(_) => block.kind = words.next(),
            None => block.samples.push(line),
        }
    }
    blocks
}

/// Appends the families in `text` that `selection` wants, in the syntax of `format`. Those that are `known` are left
/// out: a family is on a page once.
pub(super) fn append(
    out: &mut String,
    text: &str,
    (selection, format): (&Selection, Format),
    known: impl Fn(&str) -> bool,
) {
    let mut seen = BTreeSet::new();
    for block in blocks(text) {
        let (name, kind) = block.shown(format);
        let is_ours = known(block.name) || known(name);
        if block.is_wanted(selection) && !is_ours && seen.insert(name) {
            block.write(out, (name, kind), format);
        }
    }
}

impl<'a> Block<'a> {
    /// Its name and its kind on a page of that format.
    fn shown(&self, format: Format) -> (&'a str, &'a str) {
        let name = self.name;
        let kind = self.kind.unwrap_or("untyped");
        match (format, kind, name.strip_suffix("_total")) {
            (Format::OpenMetrics, "counter", Some(base)) => (base, kind),
            (Format::OpenMetrics, "counter" | "untyped", _) => (name, "unknown"),
            _ => (name, kind),
        }
    }

    fn write(&self, out: &mut String, (name, kind): (&str, &str), format: Format) {
        let help = self.help.map(|help| match format {
            Format::Text => help.to_owned(),
            Format::OpenMetrics => help.replace('"', "\\\""),
        });
        // To write to a text does not fail.
        if let Some(help) = help {
            let _ = writeln!(out, "# HELP {name} {help}");
        }
        let _ = writeln!(out, "# TYPE {name} {kind}");
        for sample in &self.samples {
            match format {
                Format::Text => out.push_str(sample),
                Format::OpenMetrics => write_sample(out, sample),
            }
            out.push('\n');
        }
    }
}

/// With its bound, if any, as a float.
fn write_sample(out: &mut String, sample: &str) {
    const BOUND: &str = "le=\"";
    let bound = sample.match_indices(BOUND).find(|(at, _)| {
        let before = sample[..*at].chars().next_back();
        matches!(before, Some('{' | ','))
    });
    let whole = bound.and_then(|(at, _)| {
        let begin = at + BOUND.len();
        let end = begin + sample[begin..].find('"')?;
        let digits = &sample[begin..end];
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_whole.then_some(end)
    });
    match whole {
        Some(end) => out.extend([&sample[..end], ".0", &sample[end..]]),
        None => out.push_str(sample),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP lib_sent_total Bytes \"sent\"
# TYPE lib_sent_total counter
lib_sent_total 12
# HELP lib_wait_seconds Time
# TYPE lib_wait_seconds histogram
lib_wait_seconds_bucket{stage=\"a\",le=\"0.5\"} 1
lib_wait_seconds_bucket{stage=\"a\",le=\"1\"} 2
lib_wait_seconds_bucket{stage=\"a\",le=\"+Inf\"} 2
lib_wait_seconds_sum{stage=\"a\"} 0.75
lib_wait_seconds_count{stage=\"a\"} 2
# TYPE lib_errors counter
lib_errors 0
lib_bare 1

# TYPE ours gauge
ours 7
";

    fn page(selection: &[&str], format: Format) -> String {
        let mut out = String::new();
        let selection = Selection::of(selection.iter().map(|name| (*name).to_owned()));
        append(&mut out, TEXT, (&selection, format), |name| name == "ours");
        out
    }

    #[test]
    fn families_of_others_stand_as_they_came_but_for_those_that_are_ours() {
        let (others, _) = TEXT.split_once("\n\n").expect("two parts");
        let expected = others.replace("lib_bare 1", "# TYPE lib_bare untyped\nlib_bare 1");
        assert_eq!(page(&[], Format::Text), expected + "\n");
    }

    #[test]
    fn a_reader_gets_the_families_that_it_names_and_those_whose_series_it_names() {
        assert_eq!(
            page(&["lib_errors"], Format::Text),
            "# TYPE lib_errors counter\nlib_errors 0\n"
        );
        let whole = page(&["lib_wait_seconds"], Format::Text);
        assert_eq!(whole.lines().count(), 7, "{whole}");
        assert_eq!(page(&["lib_wait_seconds_count"], Format::Text), whole);
        assert_eq!(page(&["lib_wait"], Format::Text), "");
    }

    #[test]
    fn a_family_is_on_a_page_once_by_the_name_that_it_has_there() {
        let text = "# TYPE lib_sent_total counter\nlib_sent_total 1\n# TYPE lib_sent gauge\nlib_sent 2\n";
        let page = |format, known: &str| {
            let mut out = String::new();
            append(&mut out, text, (&Selection::default(), format), |name| {
                name == known
            });
            out
        };
        assert_eq!(page(Format::Text, ""), text);
        let counter = "# TYPE lib_sent counter\nlib_sent_total 1\n";
        assert_eq!(page(Format::OpenMetrics, ""), counter);
        assert_eq!(page(Format::OpenMetrics, "lib_sent"), "");
    }

    #[test]
    fn in_openmetrics_a_counter_loses_its_suffix_or_its_kind_and_bounds_are_real_numbers() {
        let open = page(&[], Format::OpenMetrics);
        let head = "# HELP lib_sent Bytes \\\"sent\\\"\n# TYPE lib_sent counter\nlib_sent_total 12\n";
        assert!(open.starts_with(head), "{open}");
        assert!(open.contains("{stage=\"a\",le=\"1.0\"} 2\n"), "{open}");
        assert!(open.contains("{stage=\"a\",le=\"0.5\"} 1\n"), "{open}");
        assert!(
            open.contains("# TYPE lib_errors unknown\nlib_errors 0\n"),
            "{open}"
        );
        assert!(open.contains("# TYPE lib_bare unknown\nlib_bare 1\n"), "{open}");
    }
}
