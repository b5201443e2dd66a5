use super::*;

fn rate() -> SampleRate {
    SampleRate::new(1_000).unwrap()
}

/// Words that each begin and end at a millisecond.
fn words(words: &[(&str, u64, u64)]) -> Vec<TimedText> {
    let word = |(text, from, to): &(&str, u64, u64)| TimedText {
        text: (*text).to_owned(),
        characters: 0..text.len(),
        samples: Samples(*from)..Samples(*to),
    };
    words.iter().map(word).collect()
}

/// Text of the cues of utterances of two seconds each.
fn subtitled(form: Form, utterances: &[Vec<TimedText>]) -> String {
    let mut cues = Cues::new(form);
    let mut written = String::new();
    for utterance in utterances {
        written.push_str(&cues.words(utterance, rate()));
        cues.audio(Duration::from_secs(2));
        written.push_str(&cues.end());
    }
    written
}

/// The texts of cues.
fn texts(utterance: &[(&str, u64, u64)]) -> Vec<String> {
    let written = subtitled(Form::SubRip, &[words(utterance)]);
    let cues = written.split("\n\n").filter(|cue| !cue.is_empty());
    cues.map(|cue| cue.splitn(3, '\n').last().unwrap().replace('\n', " "))
        .collect()
}

#[test]
fn sentences_are_cues_and_utterances_follow_one_another() {
    let first = words(&[
        ("Hello,", 20, 400),
        (" there.", 400, 900),
        (" Bye.", 1_100, 1_400),
    ]);
    let second = words(&[("Again", 0, 3_661_005)]);
    let expected = "1\n00:00:00,020 --> 00:00:00,900\nHello, there.\n\n\
                    2\n00:00:01,100 --> 00:00:01,400\nBye.\n\n\
                    3\n00:00:02,000 --> 01:01:03,005\nAgain\n\n";
    assert_eq!(subtitled(Form::SubRip, &[first, second]), expected);
}

#[test]
fn a_web_page_shows_text_as_it_is() {
    let text = words(&[("a<b", 0, 100), (" &", 100, 200)]);
    assert_eq!(
        subtitled(Form::WebVtt, &[text]),
        "00:00:00.000 --> 00:00:00.200\na&lt;b &amp;\n\n"
    );
}

#[test]
fn programs_get_every_word_as_it_is() {
    let text = words(&[("a", 0, 100), (" b.", 100, 250), (" #", 250, 250)]);
    assert_eq!(
        subtitled(Form::JsonLines, &[text]),
        "{\"end\":0.1,\"start\":0.0,\"text\":\"a\"}\n{\"end\":0.25,\"start\":0.1,\"text\":\" b.\"}\n\
         {\"end\":0.25,\"start\":0.25,\"text\":\" #\"}\n"
    );
}

#[test]
fn long_sentences_are_cut_at_pauses_and_where_they_fill_two_lines() {
    let mut long: Vec<_> = (0..40).map(|n| (" words", n * 100, n * 100 + 90)).collect();
    long.push((" late", 9_000, 9_100));
    let cues = subtitled(Form::SubRip, &[words(&long)]);
    let texts: Vec<&str> = cues.split("\n\n").filter(|cue| !cue.is_empty()).collect();
    assert!(
        texts.len() > 3 && texts.last().is_some_and(|cue| cue.ends_with("\nlate")),
        "{cues}"
    );
    for cue in &texts {
        assert!(cue.lines().skip(2).all(|line| line.len() <= LINE), "{cue}");
        assert!(cue.lines().count() <= 4, "{cue}");
    }
}

#[test]
fn an_abbreviation_ends_no_cue() {
    let said = [
        ("Dr.", 30, 440),
        (" Smith", 440, 760),
        (" paid", 760, 990),
        (" $5.20", 1_020, 3_030),
        (" at", 3_030, 3_180),
        (" 3 p.m.", 3_180, 3_560),
        (" on", 3_560, 3_800),
        (" Monday.", 3_960, 4_500),
        (" He", 4_715, 4_845),
        (" left", 4_845, 5_435),
        (" the", 5_435, 5_485),
        (" U.S.", 5_485, 5_715),
        (" office", 5_715, 6_105),
        (" of", 6_105, 6_305),
        (" St.", 6_305, 6_675),
        (" Paul.", 6_675, 7_087),
    ];
    let expected = [
        "Dr. Smith paid $5.20 at 3 p.m. on Monday.",
        "He left the U.S. office of St. Paul.",
    ];
    assert_eq!(texts(&said), expected);
}

#[test]
fn a_sentence_ends_a_cue_behind_quotes_and_brackets_too() {
    for end in [
        "four.\"",
        "four.\u{201d}",
        "four!)",
        "four?\u{bb}",
        "\u{56db}\u{3002}\u{300d}",
    ] {
        let said = [(end, 0, 500), (" Then", 660, 900)];
        assert_eq!(texts(&said), [end, "Then"], "{end}");
    }
    // Without a pause a sentence that is worth reading ends one as well.
    assert_eq!(texts(&[("Four.", 0, 1_000), (" Then", 1_000, 1_300)]).len(), 2);
    assert_eq!(texts(&[("Four.", 0, 400), (" Then", 400, 1_300)]).len(), 1);
    assert_eq!(
        texts(&[("Four\u{2026}", 0, 1_000), (" then", 1_000, 1_300)]).len(),
        1
    );
}

#[test]
fn text_without_sound_is_shown_with_what_has_one() {
    let text = words(&[("***", 0, 0), (" Hi.", 0, 300), (" ###", 300, 300)]);
    let cues = subtitled(Form::SubRip, &[text]);
    assert_eq!(cues, "1\n00:00:00,000 --> 00:00:00,300\n*** Hi. ###\n\n");
    // It ends no pause, and a sentence that has ended stays so.
    let said = [("Hi.", 0, 300), (" --", 900, 900), (" There", 1_100, 1_300)];
    assert_eq!(texts(&said), ["Hi. --", "There"]);
    // A line of its own belongs to what follows.
    let said = [("Hi.", 0, 300), ("\n##", 300, 300), (" Head", 310, 600)];
    assert_eq!(texts(&said), ["Hi.", "## Head"]);
}

#[test]
fn much_text_without_sound_makes_no_cue_that_nobody_can_read() {
    let table = [(" |---", 300, 300); 100];
    let said = [&[("Hi", 0, 300)][..], &table, &[(" there.", 310, 600)], &table].concat();
    let cues = texts(&said);
    assert!(
        cues.len() == 2 && cues[0].starts_with("Hi |---") && cues[1].contains("--- there. |---"),
        "{cues:?}"
    );
    assert!(cues.iter().all(|cue| cue.chars().count() <= CUE), "{cues:?}");
}

#[test]
fn the_ending_names_the_format() {
    assert!(matches!(Form::of(Path::new("a.SRT")), Ok(Form::SubRip)));
    assert!(matches!(Form::of(Path::new("a.vtt")), Ok(Form::WebVtt)));
    assert!(matches!(Form::of(Path::new("-")), Ok(Form::WebVtt)));
    assert!(matches!(Form::of(Path::new("a.txt")), Err(Failure::Usage(_))));
}
