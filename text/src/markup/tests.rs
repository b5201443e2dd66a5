use proptest::prelude::*;

use super::mark::LONGEST_ELEMENT;
use super::*;

fn mark(chars: usize, millis: u64) -> Part {
    Part::Mark {
        chars,
        pause: Some(Duration::from_millis(millis)),
    }
}

/// A mark that asks for no pause of its own.
fn boundary(chars: usize) -> Part {
    Part::Mark { chars, pause: None }
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

/// The parts of a text that comes whole.
fn parts(whole: &str) -> Result<Vec<Part>, TextError> {
    let mut markup = Markup::default();
    let mut parts = markup.push(whole)?;
    parts.extend(markup.flush());
    Ok(joined(parts))
}

/// Text beside text is one.
fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::new();
    for part in parts {
        match (out.last_mut(), part) {
            (Some(Part::Text(before)), Part::Text(more)) => before.push_str(&more),
            (_, part) => out.push(part),
        }
    }
    out
}

#[test]
fn pauses_are_marks_in_any_text() {
    for (written, millis) in [
        ("[pause:500ms]", 500),
        ("[pause:1.5s]", 1_500),
        ("[Pause: 2s]", 2_000),
        ("[pause:99s]", 10_000),
        ("<break time=\"250ms\"/>", 250),
        ("<break time='1s' />", 1_000),
        ("<BREAK strength=\"strong\">", 800),
        ("<break/>", 500),
        ("[pause:0s]", 0),
        ("<break strength=\"none\"/>", 0),
    ] {
        let found = parts(&format!("One.{written}Two.")).unwrap();
        let expected = [text("One."), mark(written.chars().count(), millis), text("Two.")];
        assert_eq!(found, expected, "{written}");
    }
}

#[test]
fn the_long_form_of_a_break_is_one_mark_and_its_end() {
    let found = parts("One.<break time=\"1s\"></break>Two.").unwrap();
    assert_eq!(found, [text("One."), mark(17, 1_000), boundary(8), text("Two.")]);
}

#[test]
fn what_only_looks_like_a_mark_is_text() {
    for written in [
        "[pause]",
        "[pause:]",
        "[pause:soon]",
        "[pause:-1s]",
        "[pause:1e9s]",
        "a[0] < b",
        "<breakfast>",
        "<break time=\"soon\"/>",
        "<b>bold</b>",
        "[",
        "<",
        "<br",
        "R&amp;D",
        "[pause:500ms",
        "speak <speak> here",
        "2 <3",
    ] {
        assert_eq!(parts(written).unwrap(), [text(written)], "{written}");
    }
}

#[test]
fn a_mark_may_stand_right_behind_what_is_none() {
    assert_eq!(
        parts("[[pause:1s]<<break/>").unwrap(),
        [text("["), mark(10, 1_000), text("<"), mark(8, 500)]
    );
}

#[test]
fn a_document_is_what_it_says_without_its_elements() {
    let document = "\u{feff} <?xml version=\"1.0\"?><!-- a > b --><speak version='1.1'><p><s>R&amp;D</s></p><break time=\"1s\"/>two</speak>";
    let spoken: String = parts(document)
        .unwrap()
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Entity(c, 5) => c.to_string(),
            Part::Entity(..) => "?".to_owned(),
            Part::Skipped(_) => String::new(),
            Part::Mark { pause: None, .. } => String::new(),
            Part::Mark {
                pause: Some(pause), ..
            } => format!("|{}|", pause.as_millis()),
        })
        .collect();
    assert_eq!(spoken, "\u{feff} R&D|1000|two");
}

#[test]
fn other_elements_of_a_document_are_named_and_refused() {
    for (document, named) in [
        ("<speak><prosody rate=\"slow\">a</prosody></speak>", "<prosody>"),
        ("<speak><say-as interpret-as=\"date\">", "<say-as>"),
        ("<speak>a < b > c</speak>", "< b >"),
        (
            "<speak><!DOCTYPE x [ <!ENTITY y> ]></speak>",
            "<!DOCTYPE x [ <!ENTITY y>",
        ),
        ("<speak><break time=\"soon\"/>", "<break time=\"soon\"/>"),
    ] {
        let error = parts(document).unwrap_err();
        assert_eq!(
            error,
            TextError::Markup {
                element: named.to_owned()
            },
            "{document}"
        );
    }
    let endless = format!("<speak><{}", "a".repeat(LONGEST_ELEMENT));
    assert!(matches!(parts(&endless), Err(TextError::Markup { .. })));
}

#[test]
fn entities_are_characters_in_documents_only() {
    assert_eq!(
        parts("<speak>&lt;&#233;&#xE9;&nbsp;&</speak>").unwrap(),
        [
            boundary(7),
            Part::Entity('<', 4),
            Part::Entity('é', 6),
            Part::Entity('é', 6),
            text("&nbsp;&"),
            boundary(8),
        ]
    );
}

/// The words of a whole text for a voice that reads words; `|` is where a sentence ends.
fn said(written: &str) -> String {
    let mut markup = Markup::new(true);
    let mut parts = markup.push(written).unwrap();
    parts.extend(markup.flush());
    spoken(&parts)
}

fn spoken(parts: &[Part]) -> String {
    let said = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Entity(c, _) => c.to_string(),
        Part::Skipped(_) => String::new(),
        Part::Mark { .. } => "|".to_owned(),
    };
    parts.iter().map(said).collect()
}

#[test]
fn what_only_looks_like_notation_is_text() {
    for written in [
        "a < b",
        "<3",
        "x<y and y>z",
        "if a<b and c>d",
        "Vec<String>",
        "a <- b",
        "$5 and $10",
        "$5-$10",
        "$20, or 30$ more",
        "US$5 and US$6",
        "$HOME/bin:$PATH",
        "m[i][j]",
        "a[0]",
        "x[1]",
        "in the range [1, 5]",
        "[sic]",
        "(see [below])",
        "R&D",
        "AT&T; and",
        "&unknown;",
        "wait!",
        "wait![",
        "C:\\Users",
        "[a](b c)",
        "[",
        "5 & 6",
        "$",
        "$$",
        "km\u{b2} and 10\u{2076}",
        "[1999] was",
        "[note]: bring it",
    ] {
        assert_eq!(said(written), written);
    }
}

#[test]
fn bounded_text_waits_for_the_end_of_notation() {
    for unit in [
        "[", "[a", "![", "$a", "$", "$$", "<a ", "<", "<a", "\\", "\\(", "&", "&a", "&amp;", "`", "```",
        "\u{1b}", "\u{1b}]", "\u{b2}", "[a](b", "[a](", "<a b=\"", "<!--", "【", "a[1]", "[[[", "<script>",
        "\\x1b[", "~~~", "[1]: ",
    ] {
        let mut markup = Markup::new(true);
        for _ in 0..20_000 / unit.len() {
            markup.push(unit).unwrap();
            assert!(markup.held_bytes() <= 8 * 1024, "{unit:?}");
        }
        markup.flush();
    }
}

#[test]
fn notation_without_its_end_holds_back_a_bounded_text_and_is_named() {
    let letters = |count: usize| "x ".repeat(count / 2);
    for (begins, longest) in [("$a", 256), ("\\(a", 256), ("\\[a", 512), ("$$a", 512)] {
        let mut markup = Markup::new(true);
        let parts = markup.push(&format!("{begins}{}", letters(longest))).unwrap();
        assert!(
            markup.held_bytes() < longest && !spoken(&parts).is_empty(),
            "{begins}"
        );
        let mut markup = Markup::new(true);
        markup.push(&format!("{begins} begins nothing here")).unwrap();
        assert!(markup.held_bytes() < 8, "{begins}");
    }
    let mut markup = Markup::new(true);
    let parts = markup.push(&format!("a <!-- {}rest", letters(1_100))).unwrap();
    assert!(spoken(&parts).starts_with("a  x ") && spoken(&parts).ends_with("rest"));
    assert_eq!(markup.take_ignored().names(), ["text without its -->"]);
}

#[test]
fn what_is_left_out_is_told_once() {
    let mut markup = Markup::new(true);
    markup.push("<foo>a</foo> <foo>b $\\begin{x}$").unwrap();
    markup.flush();
    let ignored = markup.take_ignored();
    assert_eq!(ignored.total(), 4);
    assert_eq!(ignored.names(), ["<foo>", "</foo>", "formula \\begin{x}"]);
    assert!(markup.take_ignored().is_empty());
}

proptest! {
    #[test]
    fn notation_does_not_depend_on_the_chunking_and_every_character_has_its_place(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "[a](b)", "![", "[1]", "[", "](", ")", "]", "$x_1$", "$", "$5", "\\frac{a}{b}", "\\(", "\\)", "&amp;", "&amp;#39;", "&", ";", "<b>", "<br>",
                "<foo x='1'>", "<", ">", "</", "<!--", "-->", "<script>", "</script>", "`", "```", "\n", "\n\n", "\u{1b}[31m", "\u{1b}]8;;x\u{7}",
                "\u{1b}", "\u{b2}", "word", " ", ".", "é", "[^1]: ", "[ref]: http://x", "【1†a】", "\\*", "[33m", "[39m ", "[5mg", "x[a] i", "<sup>2</sup>", "5", "[pause:1s]", "<break/>",
            ]),
            0..16,
        ),
        sizes in prop::collection::vec(1usize..9, 1..6),
    ) {
        let whole: String = pieces.concat();
        let chars: Vec<char> = whole.chars().collect();
        let mut markup = Markup::new(true);
        let mut found = Vec::new();
        let mut from = 0;
        for size in sizes.iter().cycle() {
            let to = (from + size).min(chars.len());
            let chunk: String = chars[from..to].iter().collect();
            found.extend(markup.push(&chunk).unwrap());
            from = to;
            if from == chars.len() { break; }
        }
        found.extend(markup.flush());
        let mut at_once = Markup::new(true);
        let mut expected = at_once.push(&whole).unwrap();
        expected.extend(at_once.flush());
        prop_assert_eq!(spoken(&found), spoken(&expected));
        prop_assert_eq!(markup.take_ignored(), at_once.take_ignored());
        let count: usize = found.iter().map(|part| match part {
            Part::Text(text) => text.chars().count(),
            Part::Entity(_, chars) | Part::Mark { chars, .. } | Part::Skipped(chars) => *chars,
        }).sum();
        prop_assert_eq!(count, chars.len());
    }
}

proptest! {
    #[test]
    fn parts_do_not_depend_on_the_chunking_and_count_every_character(
        pieces in prop::collection::vec(
            prop_oneof![
                Just("[pause:1s]"), Just("<break/>"), Just("["), Just("<"), Just("&amp;"), Just("<speak>"), Just("</speak>"), Just("<p>"),
                Just("a b"), Just("é."), Just(" "), Just("<!-- x -->"), Just("pause:2s]"), Just("<b")
            ],
            0..12,
        ),
        cuts in prop::collection::vec(0usize..40, 0..8),
    ) {
        let whole: String = pieces.concat();
        let chars: Vec<char> = whole.chars().collect();
        let mut markup = Markup::default();
        let mut found = Vec::new();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(chars.len())).collect();
        cuts.sort_unstable();
        cuts.push(chars.len());
        let mut from = 0;
        let mut failed = false;
        for to in cuts {
            let chunk: String = chars[from..to].iter().collect();
            from = to;
            match markup.push(&chunk) {
                Ok(parts) => found.extend(parts),
                Err(_) => { failed = true; break; }
            }
        }
        let expected = parts(&whole);
        prop_assert_eq!(failed, expected.is_err());
        if let Ok(expected) = expected {
            found.extend(markup.flush());
            let found = joined(found);
            prop_assert_eq!(&found, &expected);
            let count: usize = found.iter().map(|part| match part {
                Part::Text(text) => text.chars().count(),
                Part::Entity(_, chars) | Part::Mark { chars, .. } | Part::Skipped(chars) => *chars,
            }).sum();
            prop_assert_eq!(count, chars.len());
        }
    }
}
