use super::*;

fn cut(buffering: Buffering, text: &str) -> Vec<String> {
    let mut segmenter = Segmenter::new(SegmenterOptions {
        buffering,
        ..SegmenterOptions::default()
    });
    let mut out = segmenter.push(text);
    out.extend(segmenter.finish());
    out.into_iter().map(|segment| segment.text).collect()
}

#[test]
fn sentences_end_where_people_end_them() {
    for (text, expected) in [
        ("One. Two! Three? Four", &["One.", "Two!", "Three?", "Four"][..]),
        (
            "Dr. Smith met Mr. Jones. They spoke.",
            &["Dr. Smith met Mr. Jones.", "They spoke."],
        ),
        ("Pi is 3.14 or so. Fine.", &["Pi is 3.14 or so.", "Fine."]),
        (
            "He lives in the U.S. The house is red.",
            &["He lives in the U.S.", "The house is red."],
        ),
        (
            "The U.S. army came at 5 p.m. sharp.",
            &["The U.S. army came at 5 p.m. sharp."],
        ),
        (
            "Apples, pears, etc. are fruit, e.g. sweet ones.",
            &["Apples, pears, etc. are fruit, e.g. sweet ones."],
        ),
        (
            "\"Go!\" he said. \"Now.\" She went.",
            &["\"Go!\" he said.", "\"Now.\"", "She went."],
        ),
        (
            "Well... maybe. Well... No.",
            &["Well... maybe.", "Well...", "No."],
        ),
        (
            "See No. 5 there. No. I will not.",
            &["See No. 5 there.", "No.", "I will not."],
        ),
        ("1. Buy milk. 2. Go", &["1. Buy milk.", "2. Go"]),
        (
            "Visit example.com/a.b?c=d. Thanks.",
            &["Visit example.com/a.b?c=d.", "Thanks."],
        ),
        (
            "J. K. Rowling wrote it. (Really.) Yes.",
            &["J. K. Rowling wrote it.", "(Really.)", "Yes."],
        ),
        (
            "Heading\n\nText goes on\nhere. End",
            &["Heading", "Text goes on\nhere.", "End"],
        ),
        ("List:\r\n- one\r\n- two\r\n", &["List:", "- one", "- two"]),
        ("你好。今天天气很好！再见", &["你好。", "今天天气很好！", "再见"]),
    ] {
        assert_eq!(cut(Buffering::Sentence, text), expected, "{text}");
    }
}

#[test]
fn sentences_of_other_scripts_end_at_their_own_marks() {
    for (text, expected) in [
        (
            "“你好！”他说。《红楼梦》好看吗？好看",
            &["“你好！”", "他说。", "《红楼梦》好看吗？", "好看"][..],
        ),
        ("好!今天去吗?去", &["好!", "今天去吗?", "去"]),
        ("Qwen3好！GPT也好。", &["Qwen3好！", "GPT也好。"]),
        (
            "「行くよ。」と言った。はい｡",
            &["「行くよ。」", "と言った。", "はい｡"],
        ),
        (
            "안녕하세요. 반갑습니다! 네?",
            &["안녕하세요.", "반갑습니다!", "네?"],
        ),
        (
            "مرحبا، كيف حالك؟ أنا بخير. شكرا",
            &["مرحبا، كيف حالك؟", "أنا بخير.", "شكرا"],
        ),
        (
            "آپ کیسے ہیں؟ میں ٹھیک ہوں۔ شکریہ",
            &["آپ کیسے ہیں؟", "میں ٹھیک ہوں۔", "شکریہ"],
        ),
        ("आप कैसे हैं? मैं ठीक हूँ। धन्यवाद॥", &["आप कैसे हैं?", "मैं ठीक हूँ।", "धन्यवाद॥"]),
        ("আমি ভালো আছি।তুমি?", &["আমি ভালো আছি।", "তুমি?"]),
        ("Բարև։ Ինչպե՞ս ես։", &["Բարև։", "Ինչպե՞ս ես։"]),
    ] {
        assert_eq!(cut(Buffering::Sentence, text), expected, "{text}");
        // Wherever the text is cut when it comes.
        let mut segmenter = Segmenter::new(SegmenterOptions::default());
        let mut out: Vec<_> = text
            .chars()
            .flat_map(|c| segmenter.push(&c.to_string()))
            .collect();
        out.extend(segmenter.finish());
        let out: Vec<_> = out.into_iter().map(|segment| segment.text).collect();
        assert_eq!(out, expected, "{text}");
    }
}

#[test]
fn clauses_of_other_scripts_end_at_their_own_commas_but_not_in_numbers() {
    let options = SegmenterOptions {
        buffering: Buffering::Clause,
        min_clause_chars: 3,
        ..SegmenterOptions::default()
    };
    for (text, expected) in [
        (
            "今天下雨，我不去；你呢：去吗",
            &["今天下雨，", "我不去；", "你呢：", "去吗"][..],
        ),
        ("共１，０００元、在12：30见", &["共１，０００元、", "在12：30见"]),
        ("雨が降った、だから行かない", &["雨が降った、", "だから行かない"]),
        ("نعم، أعرف؛ شكرا", &["نعم،", "أعرف؛", "شكرا"]),
    ] {
        let mut segmenter = Segmenter::new(options);
        let mut out = segmenter.push(text);
        out.extend(segmenter.finish());
        let out: Vec<_> = out.into_iter().map(|segment| segment.text).collect();
        assert_eq!(out, expected, "{text}");
    }
}

#[test]
fn a_name_after_a_dotted_abbreviation_does_not_start_a_sentence() {
    for (text, expected) in [
        (
            "The U.S. Senate met. It did.",
            &["The U.S. Senate met.", "It did."][..],
        ),
        (
            "Come at 5 p.m. Friday. We wait.",
            &["Come at 5 p.m. Friday.", "We wait."],
        ),
        ("Come at 5 p.m. It's late.", &["Come at 5 p.m.", "It's late."]),
        ("Take plan B. Then go.", &["Take plan B.", "Then go."]),
        ("We met at Apple Inc. The", &["We met at Apple Inc.", "The"]),
        (
            "He lives on Elm St. He does.",
            &["He lives on Elm St.", "He does."],
        ),
        ("He is 6 ft. tall. Yes.", &["He is 6 ft. tall.", "Yes."]),
        ("He is 6ft. He is.", &["He is 6ft.", "He is."]),
        ("Come in. it is open", &["Come in.", "it is open"]),
        ("He lives in St. Louis. OK.", &["He lives in St. Louis.", "OK."]),
    ] {
        assert_eq!(cut(Buffering::Sentence, text), expected, "{text}");
    }
}

#[test]
fn clauses_end_at_commas_and_dashes_but_not_in_dates_and_numbers() {
    for (text, expected) in [
        (
            "When the sun had set, we all went home; nobody stayed.",
            &["When the sun had set,", "we all went home;", "nobody stayed."][..],
        ),
        (
            "On Friday November 20, 2026, it rained.",
            &["On Friday November 20, 2026,", "it rained."],
        ),
        (
            "It was 1,000 dollars or so, I think.",
            &["It was 1,000 dollars or so,", "I think."],
        ),
        (
            "Well, so it is with them \u{2014} all of them.",
            &["Well, so it is with them \u{2014}", "all of them."],
        ),
        (
            "A long first part\u{2014}then the rest.",
            &["A long first part\u{2014}", "then the rest."],
        ),
        ("Yes, no.", &["Yes, no."]),
    ] {
        assert_eq!(cut(Buffering::Clause, text), expected, "{text}");
    }
}

#[test]
fn eager_text_starts_with_a_few_words_and_goes_on_with_more() {
    let words = cut(
        Buffering::Eager,
        "The quick brown fox jumps over the lazy dog and runs away into the dark wood. Then it sleeps.",
    );
    assert_eq!(
        words,
        [
            "The quick brown",
            "fox jumps over the lazy",
            "dog and runs away into the dark wood.",
            "Then it sleeps."
        ]
    );
}

#[test]
fn a_sentence_is_out_as_soon_as_it_is_certain() {
    let mut segmenter = Segmenter::new(SegmenterOptions::default());
    assert!(segmenter.push("Pi is 3.").is_empty());
    assert!(segmenter.push("14.").is_empty());
    assert_eq!(segmenter.push(" ")[0].text, "Pi is 3.14.");
    assert!(segmenter.push("In the U.S.").is_empty());
    assert!(segmenter.push(" The").is_empty());
    assert_eq!(segmenter.push(" ")[0].text, "In the U.S.");
    let rest = segmenter.flush();
    assert_eq!(
        (rest[0].text.as_str(), rest[0].end, rest[0].source),
        ("The", EndKind::Flush, CharRange::new(24, 27))
    );
    assert!(segmenter.finish().is_empty());
}

#[test]
fn ends_say_what_pause_belongs_there() {
    let mut segmenter = Segmenter::new(SegmenterOptions {
        max_chars: 20,
        ..SegmenterOptions::default()
    });
    let mut out = segmenter.push("Title\n\nA sentence. One part, another part that is long");
    out.extend(segmenter.finish());
    let ends: Vec<(&str, EndKind)> = out.iter().map(|s| (s.text.as_str(), s.end)).collect();
    assert_eq!(
        ends,
        [
            ("Title", EndKind::Paragraph),
            ("A sentence.", EndKind::Sentence),
            ("One part,", EndKind::Clause),
            ("another part that", EndKind::Forced),
            ("is long", EndKind::Flush),
        ]
    );
}

#[test]
fn numbers_units_titles_and_names_stay_together_in_long_text() {
    let text = "she had walked about with them for some 12 km when Dr. Smith came by on Nov 20, 2026 and gave her $5 more";
    let mut segmenter = Segmenter::new(SegmenterOptions {
        max_chars: 50,
        ..SegmenterOptions::default()
    });
    let mut out = segmenter.push(text);
    out.extend(segmenter.finish());
    for torn in ["12", "Dr.", "Nov", "20,", "$5"] {
        assert!(
            out.iter().all(|segment| !segment.text.ends_with(torn)),
            "{torn}: {out:?}"
        );
    }
}

#[test]
fn an_unbroken_token_is_cut_only_at_its_own_limit_and_never_inside_a_character_sequence() {
    let options = SegmenterOptions {
        max_chars: 10,
        max_token_chars: 40,
        ..SegmenterOptions::default()
    };
    let mut segmenter = Segmenter::new(options);
    let mut out = segmenter.push(&format!("see https://example.com/{} end", "ab".repeat(8)));
    out.extend(segmenter.push(&"e\u{301}".repeat(50)));
    out.extend(segmenter.finish());
    assert!(
        out.iter()
            .any(|s| s.text == format!("https://example.com/{}", "ab".repeat(8))),
        "{out:?}"
    );
    assert!(
        out.iter()
            .all(|s| s.source.len() <= 40 && !s.text.starts_with('\u{301}')),
        "{out:?}"
    );
}

#[test]
fn no_sentence_ends_at_an_abbreviation() {
    for text in [
        "Smith et al. get the same result.",
        "The max. of both is ten.",
        "Take max. 5 tablets.",
        "It costs approx. ten euros.",
        "The avg. temp. of the min. and the max. is low.",
        "See No. 5 and nos. 6 to 8.",
        "Cats vs. The Dogs is on.",
        "She has a Ph.D. in physics and an M.Sc. in maths.",
        "He was born c. 1850 or ca. 1851.",
        "In Jan. we ski, in Feb. we rest.",
        "Prices (incl. tax, excl. fees) vary.",
        "See Fig. 3, Sec. 2, Vol. 1, Ch. 4 and pp. 3 to 5.",
        "Drink 5 fl. oz. of it.",
        "My prof. said so, the gen. agreed.",
        "Go to Ft. Worth and Mt. Hood.",
        "Call Pres. Lincoln or Gov. Brown.",
        "The new single feat. Rihanna is out.",
        "He sang ft. Bruno Mars, incl. Uptown and max. Volume.",
        "Ask prof. Smith or lt. Vance.",
        "The 2nd ed. Appeared in May.",
    ] {
        assert_eq!(cut(Buffering::Sentence, text), [text]);
    }
    for (text, expected) in [
        (
            "Set it to the max. Then go.",
            &["Set it to the max.", "Then go."][..],
        ),
        ("That's a feat. Bob cheered.", &["That's a feat.", "Bob cheered."]),
        (
            "So say Smith et al. The rest is known.",
            &["So say Smith et al.", "The rest is known."],
        ),
        (
            "Dr. Smith lives on Oak Dr. He is old.",
            &["Dr. Smith lives on Oak Dr.", "He is old."],
        ),
        (
            "It opened in Jan. It closed in May.",
            &["It opened in Jan.", "It closed in May."],
        ),
        (
            "She has a Ph.D. She is kind.",
            &["She has a Ph.D.", "She is kind."],
        ),
        ("Ask Dr. He for help.", &["Ask Dr. He for help."]),
        ("I ate a fig. It was ripe.", &["I ate a fig.", "It was ripe."]),
    ] {
        assert_eq!(cut(Buffering::Sentence, text), expected);
    }
}

/// The characters that are out of an eager text after each of its words.
fn out_by_word(text: &str) -> Vec<usize> {
    let mut segmenter = Segmenter::new(SegmenterOptions {
        buffering: Buffering::Eager,
        ..SegmenterOptions::default()
    });
    let mut out = 0;
    let words = text.split_inclusive(' ');
    words
        .map(|word| {
            out += segmenter
                .push(word)
                .iter()
                .map(|segment| segment.source.len())
                .sum::<usize>();
            out
        })
        .collect()
}

#[test]
fn eager_text_with_numbers_is_out_as_soon_as_ordinary_words_are() {
    for text in [
        "number 1 number 2 number 3 number 4 ",
        "word0 word1 word2 word3 word4 word5 word6 word7 ",
        "apples 6 pears 7 plums 8 cherries 9 ",
        "step 1 mix step 2 bake step 3 eat ",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ",
        "the 5 the 6 the 7 the 8 ",
        "$5 $6 $7 $8 $9 ",
        "1 2 3 4 5 6 7 8 9 ",
        "A1 B2 C3 D4 E5 F6 ",
        "we won 3 but lost 4 so far ",
    ] {
        let out = out_by_word(text);
        let first = out.iter().position(|&out| out > 0);
        assert!(first.is_some_and(|first| first < 7), "{text}: {out:?}");
    }
}

#[test]
fn eager_text_keeps_numbers_beside_what_they_are_read_by() {
    for (text, torn) in [
        ("It is about 5 kilometers from here to there.", "5"),
        ("We were born in 1984 people say, in a town.", "in"),
        ("My code is 4829 13 and nothing else now.", "is"),
        ("The whole thing costs 5 million dollars or so.", "5"),
        ("I live at a place on page 5 of the book.", "page"),
        ("Tel.Nr. 12 34 567", "34"),
        ("06 12 34 56 78", "56"),
        ("Call +33 6 12 34 56 78", "34"),
        ("Call our office in Paris at this number: (0)1 44 55 66 77", "55"),
    ] {
        let segments = cut(Buffering::Eager, text);
        assert!(
            segments
                .iter()
                .all(|segment| !segment.ends_with(&format!(" {torn}"))),
            "{segments:?}"
        );
    }
}
