//! Recognising markup that this server does not interpret, so that callers can refuse it instead of reading it aloud.

/// Whether the text is a Speech Synthesis Markup Language document: it begins with a `<speak>` element, after an
/// optional byte order mark, white space, XML declaration and comments.
#[must_use]
pub fn looks_like_ssml(text: &str) -> bool {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while let Some(inner) = rest.strip_prefix("<?").or_else(|| rest.strip_prefix("<!")) {
        let Some(end) = inner.find('>') else { return false };
        rest = inner[end + 1..].trim_start();
    }
    let Some(tag) = rest.strip_prefix('<') else {
        return false;
    };
    let name_end = tag
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(tag.len());
    tag[..name_end].eq_ignore_ascii_case("speak")
        && tag[name_end..].starts_with(|c: char| c == '>' || c == '/' || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::looks_like_ssml;

    #[test]
    fn recognises_documents_only() {
        for yes in [
            "<speak>hi</speak>",
            "  <SPEAK version='1.1'>",
            "<?xml version=\"1.0\"?>\n<!-- a --><speak>",
            "\u{feff}<speak/>",
        ] {
            assert!(looks_like_ssml(yes), "{yes}");
        }
        for no in [
            "",
            "speak",
            "a < speak",
            "<speaker>",
            "<speak",
            "<b>hi</b>",
            "write <speak> here",
            "<?xml",
            "<",
        ] {
            assert!(!looks_like_ssml(no), "{no}");
        }
    }
}
