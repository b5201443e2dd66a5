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
