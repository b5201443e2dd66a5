//! Properties of any text whatever.

use omni_text::{
    Buffering, CharRange, EndKind, FrontEnd, FrontEndOptions, Language, Normalizer, Piece, Segment,
    Segmenter, SegmenterOptions, TextError, Warning, explain,
};
use proptest::prelude::*;

const SPEAKABLE: &str = "abcdefghijklmnopqrstuvwxyz .,?!'-:;";
const MODES: [Buffering; 4] = [
    Buffering::Sentence,
    Buffering::Clause,
    Buffering::Eager,
    Buffering::Manual,
];

fn normalizer() -> Normalizer {
    Normalizer::new(Language::English, SPEAKABLE).unwrap()
}

fn front_end(buffering: Buffering) -> FrontEnd {
    FrontEnd::new(FrontEndOptions {
        buffering,
        normalizer: Some(normalizer()),
        ..FrontEndOptions::default()
    })
}

/// Text made of the things that rules look for, in any order.
fn texty() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        "[a-z]{1,9}",
        "[A-Z]{1,5}",
        "[0-9]{1,5}",
        "[A-Z][a-z]{1,6}",
        prop::sample::select(vec![
            " ",
            " ",
            " ",
            " ",
            ". ",
            ", ",
            "\n",
            "\r\n",
            "\n\n",
            ".",
            ",",
            ":",
            ";",
            "-",
            "--",
            "\u{2014}",
            "/",
            "@",
            "#",
            "$",
            "%",
            "(",
            ")",
            "\"",
            "'",
            "^",
            "*",
            "_",
            "+",
            "=",
            "<",
            ">",
            "&",
            "!",
            "?",
            "...",
            "\u{2026}",
            "Dr. ",
            "St. ",
            "e.g. ",
            "U.S. ",
            "p.m. ",
            "etc. ",
            "No. ",
            "Nov ",
            "Jan. ",
            "The ",
            "It ",
            "I ",
            "$3.50",
            "10:30",
            "1/2",
            "2026-11-20",
            "5 km",
            "20\u{b0}C",
            "\u{e9}",
            "e\u{301}",
            "\u{1f600}",
            "\u{4f60}",
            "\u{3002}",
            "\u{200d}",
            "x@y.com",
            "www.a.org/b",
            "XIV",
            "1st",
            "'s",
            "a.b",
            "~",
            "\u{3c0}",
            "\\",
            "[1]",
            "[a](b)",
            "$x_1$",
            "&amp;",
            "<br>",
            "<b>",
            "`",
            "\u{1b}[1m",
            "\u{b2}",
            "9 - 5",
            "$5 - 10 ",
            "10 am - 12 ",
            "Mon - Fri ",
            "1990\u{2014}1995",
            "-5 - +3 ",
            "5' 10\"",
            "5551234567",
            " feat. Ann ",
            " max. 5 ",
            "5 litres / day ",
            "In 5m ",
            "HK$5",
            "1 2 3 ",
            "the 5 the 6 ",
            "<!--",
            "\\(",
            "[33m",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(atom, 0..60).prop_map(|atoms| atoms.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![texty(), any::<String>(), "\\PC{0,200}"]
}

/// The text in the chunks that `sizes` say, in characters.
fn chunks<'a>(text: &'a str, sizes: &'a [usize]) -> impl Iterator<Item = String> + 'a {
    let mut chars = text.chars().peekable();
    let mut sizes = sizes.iter().cycle();
    std::iter::from_fn(move || {
        chars.peek()?;
        let size = (*sizes.next().unwrap_or(&1)).max(1);
        Some(chars.by_ref().take(size).collect())
    })
}

fn segments(buffering: Buffering, chunks: impl Iterator<Item = String>) -> Vec<Segment> {
    let mut segmenter = Segmenter::new(SegmenterOptions {
        buffering,
        max_chars: 60,
        ..SegmenterOptions::default()
    });
    let mut out: Vec<Segment> = chunks.flat_map(|chunk| segmenter.push(&chunk)).collect();
    out.extend(segmenter.finish());
    out
}

fn spoken(front_end: &mut FrontEnd, chunks: impl Iterator<Item = String>) -> Vec<Piece> {
    let mut out: Vec<Piece> = chunks.flat_map(|chunk| front_end.push(&chunk).unwrap()).collect();
    out.extend(front_end.finish().unwrap_or_default());
    out
}

fn slice(text: &str, range: CharRange) -> String {
    text.chars().skip(range.start).take(range.len()).collect()
}

/// As a session has it: in this mode, with words for an English voice or without.
fn options(buffering: Buffering, normalized: bool) -> FrontEndOptions {
    FrontEndOptions {
        buffering,
        normalizer: normalized.then(normalizer),
        ..FrontEndOptions::default()
    }
}

#[test]
fn a_text_is_explained_as_segments_and_words_with_their_places() {
    let text = "Dr. Lee paid $5 😀 on 2026-11-20. Really?";
    let explained = explain(options(Buffering::Sentence, true), text).unwrap();
    let spoken: Vec<&str> = explained
        .segments
        .iter()
        .map(|segment| segment.text.as_str())
        .collect();
    assert_eq!(
        spoken,
        [
            "doctor lee paid five dollars on november twentieth, twenty twenty-six.",
            "really?"
        ]
    );
    let words: Vec<(&str, String)> = explained.segments[0]
        .words
        .iter()
        .map(|word| (word.spoken.as_str(), slice(text, word.source)))
        .collect();
    let expected = [
        ("doctor", "Dr."),
        ("lee", "Lee"),
        ("paid", "paid"),
        ("five dollars", "$5"),
        ("on", "on"),
        ("november twentieth, twenty twenty-six", "2026-11-20"),
    ];
    assert_eq!(
        words,
        expected.map(|(spoken, written)| (spoken, written.to_owned()))
    );
    assert_eq!(explained.warnings.len(), 1);
    assert_eq!(explained.warnings[0].reason(), "CHARACTERS_SKIPPED");
    assert!(explained.warnings[0].to_string().contains("U+1F600"));
}

#[test]
fn a_text_for_a_model_that_reads_as_written_is_explained_as_written() {
    let explained = explain(options(Buffering::Sentence, false), "It's $5. 你好!").unwrap();
    let words: Vec<&str> = explained
        .segments
        .iter()
        .flat_map(|segment| segment.words.iter().map(|word| word.spoken.as_str()))
        .collect();
    assert_eq!(words, ["It's", "$5", "你", "好"]);
    assert!(explained.warnings.is_empty());
}

#[test]
fn a_text_without_anything_to_speak_is_explained_as_a_warning() {
    let explained = explain(options(Buffering::Sentence, true), "😀 ...").unwrap();
    assert!(explained.segments.is_empty());
    let reasons: Vec<&str> = explained.warnings.iter().map(Warning::reason).collect();
    assert_eq!(reasons, ["CHARACTERS_SKIPPED", "NOTHING_SPEAKABLE"]);
    assert!(explain(options(Buffering::Sentence, true), "<speak><audio/></speak>").is_err());
}

#[test]
fn eager_text_is_explained_as_what_goes_on_in_one_sentence() {
    let text = "The quick brown fox jumps over the lazy dog again.";
    for normalized in [false, true] {
        let explained = explain(options(Buffering::Eager, normalized), text).unwrap();
        let texts: Vec<&str> = explained
            .segments
            .iter()
            .map(|segment| segment.text.as_str())
            .collect();
        assert_eq!(texts.join(" ").to_lowercase(), text.to_lowercase());
        let open: Vec<bool> = explained.segments.iter().map(|segment| segment.open).collect();
        assert!(open.len() > 1 && open[..open.len() - 1].iter().all(|&open| open) && !open[open.len() - 1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn output_is_speakable_tidy_and_bounded(text in any_text()) {
        let Ok(out) = normalizer().normalize(&text) else { return Ok(()) };
        prop_assert!(out.text.chars().all(|c| SPEAKABLE.contains(c)), "{:?}", out.text);
        prop_assert!(!out.text.contains("  ") && !out.text.starts_with(' ') && !out.text.ends_with(' '), "{:?}", out.text);
        prop_assert!(out.text.starts_with(|c: char| c.is_ascii_lowercase()), "{:?}", out.text);
        prop_assert!(out.text.len() <= 32 * text.chars().count() + 32);
        let marks = [". .", ",,", "..", ",.", " ,", " .", " -", "- "];
        prop_assert!(marks.iter().all(|m| !out.text.contains(m)), "{:?}", out.text);
    }

    #[test]
    fn reading_twice_changes_nothing(text in any_text()) {
        let Ok(once) = normalizer().normalize(&text) else { return Ok(()) };
        // With a full stop behind it any word may be an abbreviation.
        let once = once.text.replace('.', ";");
        let twice = normalizer().normalize(&once).unwrap();
        prop_assert_eq!(once, twice.text);
    }

    #[test]
    fn spans_are_in_order_and_inside(text in any_text()) {
        let Ok(out) = normalizer().normalize(&text) else { return Ok(()) };
        let spoken = out.text.chars().count();
        let written = text.chars().count();
        for span in &out.spans {
            prop_assert!(!span.spoken.is_empty() && !span.source.is_empty());
            prop_assert!(span.spoken.end <= spoken && span.source.end <= written);
        }
        for pair in out.spans.windows(2) {
            prop_assert!(pair[0].spoken.end < pair[1].spoken.start);
            prop_assert!(pair[0].source.start <= pair[1].source.start);
        }
    }

    #[test]
    fn chunking_never_changes_segments(text in any_text(), sizes in prop::collection::vec(1usize..9, 1..6)) {
        for mode in MODES {
            let whole = segments(mode, std::iter::once(text.clone()));
            prop_assert_eq!(&whole, &segments(mode, chunks(&text, &sizes)), "{:?}", mode);
            prop_assert_eq!(&whole, &segments(mode, chunks(&text, &[1])), "{:?}", mode);
        }
    }

    #[test]
    fn segments_hold_every_visible_character_in_place(text in any_text()) {
        for mode in MODES {
            let segments = segments(mode, std::iter::once(text.clone()));
            let visible = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            let all: String = segments.iter().map(|s| s.text.as_str()).collect();
            prop_assert_eq!(visible(&all), visible(&text));
            for segment in &segments {
                prop_assert_eq!(&segment.text, &slice(&text, segment.source));
                prop_assert!(segment.text.chars().count() <= 60 || !segment.text.trim().contains(' '), "{:?}", segment);
            }
        }
    }

    #[test]
    fn pieces_are_short_terminated_and_the_same_for_any_chunking(
        text in any_text(),
        sizes in prop::collection::vec(1usize..9, 1..6),
    ) {
        for mode in MODES {
            let whole = spoken(&mut front_end(mode), std::iter::once(text.clone()));
            for piece in &whole {
                let length = piece.text.chars().count();
                prop_assert!((1..=200).contains(&length), "{} characters: {:?}", length, piece);
                prop_assert!(piece.open || piece.text.ends_with(['.', '?', '!']), "{:?}", piece);
                prop_assert!(piece.text.starts_with(|c: char| c.is_ascii_lowercase()));
                prop_assert!(piece.source.end <= text.chars().count());
                prop_assert!(piece.spans.iter().all(|span| span.spoken.end <= length));
            }
            prop_assert!(whole.windows(2).all(|p| p[0].source.end <= p[1].source.start.max(p[0].source.end)));
            prop_assert_eq!(&whole, &spoken(&mut front_end(mode), chunks(&text, &sizes)));
        }
    }

    #[test]
    fn what_is_explained_is_what_a_session_gets(text in any_text(), sizes in prop::collection::vec(1usize..9, 1..6)) {
        for mode in MODES {
            for normalized in [false, true] {
                let Ok(explained) = explain(options(mode, normalized), &text) else { continue };
                let mut session = FrontEnd::new(options(mode, normalized));
                let pieces = spoken(&mut session, chunks(&text, &sizes));
                prop_assert_eq!(pieces.len(), explained.segments.len());
                for (piece, segment) in pieces.iter().zip(&explained.segments) {
                    prop_assert_eq!((&piece.text, piece.source, piece.open), (&segment.text, segment.source, segment.open));
                    let words: String = piece.words().into_iter().map(|word| word.spoken).collect();
                    prop_assert_eq!(words.trim(), piece.text.trim());
                    prop_assert_eq!(piece.words().len(), segment.words.len());
                }
            }
        }
    }

    #[test]
    fn raw_pieces_are_the_text_itself(text in any_text()) {
        let mut raw = FrontEnd::new(FrontEndOptions { max_chars: 50, ..FrontEndOptions::default() });
        for piece in spoken(&mut raw, std::iter::once(text.clone())) {
            prop_assert_eq!(&piece.text, &slice(&text, piece.source));
            prop_assert!(piece.text.chars().count() <= 50);
        }
    }
}

#[test]
fn long_monotonous_text_is_read_and_cut_without_growing_buffers() {
    for unit in [
        "1", ".", "(", "-", "a", "1,", "a.", "A.", "@", "$", "/", "\"", " ", "\n", "a@", "1/", "1-", "x=",
        "1:", "http://", "😀", "\u{301}", "#a_", "12 ", "Dr. ", "--a",
    ] {
        let text = unit.repeat(100_000 / unit.len());
        let _ = normalizer().normalize(&text);
        for mode in [Buffering::Sentence, Buffering::Clause, Buffering::Eager] {
            let mut front_end = front_end(mode);
            for chunk in chunks(&text, &[4096]) {
                let pieces = front_end.push(&chunk).unwrap();
                assert!(front_end.buffered_bytes() <= 4 * 1024, "{unit:?} {mode:?}");
                assert!(
                    pieces.iter().all(|piece| piece.text.len() <= 200),
                    "{unit:?} {mode:?}"
                );
            }
            let _ = front_end.finish();
        }
    }
}

#[test]
fn manual_text_waits_and_is_bounded() {
    let mut manual = front_end(Buffering::Manual);
    assert!(manual.push("One. Two. Three").unwrap().is_empty());
    assert_eq!(manual.buffered_bytes(), 15);
    let texts: Vec<String> = manual
        .flush()
        .expect("no markup")
        .into_iter()
        .map(|piece| piece.text)
        .collect();
    assert_eq!(texts, ["one.", "two.", "three."]);
    let error = manual.push(&"a ".repeat(40_000)).unwrap_err();
    assert_eq!(
        error,
        TextError::BufferFull {
            buffered: 80_000,
            limit: 65_536
        }
    );
    assert_eq!(manual.buffered_bytes(), 0);
}

#[test]
fn nothing_speakable_is_an_error_that_says_what_was_there() {
    let mut front_end = front_end(Buffering::Sentence);
    front_end.push("😀 ... 你好").unwrap();
    let error = front_end.finish().unwrap_err().to_string();
    assert!(
        error.contains("nothing to speak") && error.contains("U+1F600") && error.contains("U+597D"),
        "{error}"
    );
    assert!(matches!(
        front_end.finish(),
        Err(TextError::NothingSpeakable { .. })
    ));
    front_end.push("ok").unwrap();
    assert_eq!(front_end.finish().unwrap()[0].text, "okay.");
}

#[test]
fn skipped_characters_are_reported_once() {
    let mut front_end = front_end(Buffering::Sentence);
    front_end.push("Hi 😀😀. There ").unwrap();
    let [Warning::CharactersSkipped(skipped)] = &front_end.take_warnings()[..] else {
        panic!("one warning");
    };
    assert_eq!(skipped.characters(), [('😀', 2)]);
    assert!(front_end.take_warnings().is_empty());
    front_end.push("😀. ").unwrap();
    assert_eq!(front_end.take_warnings().len(), 1);
}

#[test]
fn offsets_count_characters_of_the_utterance() {
    let mut front_end = front_end(Buffering::Sentence);
    let mut pieces = front_end.push("Çok 3 kg. ").unwrap();
    pieces.extend(front_end.push("It's $5. ").unwrap());
    pieces.extend(front_end.finish().unwrap());
    let found: Vec<(&str, CharRange, EndKind)> = pieces
        .iter()
        .map(|p| (p.text.as_str(), p.source, p.end))
        .collect();
    assert_eq!(
        found,
        [
            ("cok three kilograms.", CharRange::new(0, 9), EndKind::Sentence),
            ("it's five dollars.", CharRange::new(10, 18), EndKind::Sentence),
        ]
    );
    let span = pieces[1].spans[1];
    assert_eq!(
        (span.spoken, span.source),
        (CharRange::new(5, 17), CharRange::new(15, 17))
    );
    front_end.push("New").unwrap();
    assert_eq!(front_end.finish().unwrap()[0].source, CharRange::new(0, 3));
}

#[test]
fn long_sentences_are_cut_at_clauses_and_between_words() {
    let mut front_end = front_end(Buffering::Sentence);
    let text = "the first part of this sentence goes on for a good while, the second part follows it without a hurry and \
                with 12,345,678 reasons, the third one has its say too, and then it is over at last.";
    let mut pieces = front_end.push(&format!("{text} ")).unwrap();
    pieces.extend(front_end.finish().unwrap());
    assert_eq!(pieces.len(), 2);
    assert!(pieces.iter().all(|piece| piece.text.len() <= 200));
    assert_eq!(
        (pieces[0].end, pieces[1].end),
        (EndKind::Clause, EndKind::Sentence)
    );
    let digits = "9".repeat(150);
    let mut pieces = front_end.push(&digits).unwrap();
    pieces.extend(front_end.finish().unwrap());
    assert!(pieces.len() >= 4 && pieces.iter().all(|piece| piece.text.len() <= 200));
    assert!(pieces.iter().all(|piece| {
        piece
            .text
            .trim_end_matches('.')
            .split(' ')
            .all(|word| word == "nine")
    }));
}

#[test]
fn clearing_forgets_the_utterance() {
    let mut front_end = front_end(Buffering::Sentence);
    front_end.push("Said. Not said").unwrap();
    front_end.clear();
    assert_eq!(front_end.buffered_bytes(), 0);
    assert!(front_end.finish().is_err());
}

#[test]
fn a_poorer_alphabet_still_reads() {
    let poor = Normalizer::new(Language::English, "ABCDEFGHIJKLMNOPQRSTUVWXYZ .").unwrap();
    assert_eq!(
        poor.normalize("Well: it's twenty-one, isn't it?").unwrap().text,
        "WELL. ITS TWENTY ONE ISNT IT."
    );
    let error = Normalizer::new(Language::English, "abc ").unwrap_err();
    assert!(error.to_string().contains("defghijklmnopqrstuvwxyz"), "{error}");
}

#[test]
fn languages_are_found_by_tag() {
    for (tag, language) in [
        ("en", Some(Language::English)),
        ("en-US", Some(Language::English)),
        ("de", None),
        ("", None),
    ] {
        assert_eq!(Language::from_tag(tag), language, "{tag}");
    }
}
