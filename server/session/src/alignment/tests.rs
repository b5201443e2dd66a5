use omni_audio::Speed;

use super::*;

const RATE: u32 = 16_000;

fn rate(hz: u32) -> SampleRate {
    SampleRate::new(hz).unwrap()
}

fn alignment() -> Alignment {
    alignment_at(RATE, 1.0)
}

fn alignment_at(hz: u32, speed: f32) -> Alignment {
    let timeline = Timeline::new(rate(RATE), rate(hz), Speed::new(speed).unwrap());
    Alignment::new(rate(RATE), timeline)
}

/// A voice for words of `a`, which is loud and dull, and `s`, which is soft and bright; every letter as long as is usual.
fn voice(spoken: &str) -> Vec<f32> {
    let mut out = Vec::new();
    let letters = spoken.chars().filter(|c| matches!(c, 'a' | 's'));
    for (letter, sound) in letters.zip(sounds(spoken)) {
        let (loud, hz) = match letter {
            'a' => (0.4, 1_100.0_f32),
            _ => (0.08, 3_500.0),
        };
        let samples = rate(RATE).samples(sound.length).len();
        let tone = |n: usize| loud * (std::f32::consts::TAU * hz * n as f32 / RATE as f32).sin();
        out.extend((0..samples).map(tone));
    }
    out
}

fn silence(ms: usize) -> Vec<f32> {
    vec![0.0; ms * RATE as usize / 1_000]
}

/// The words of a text from a character on.
fn words(text: &str, from: usize) -> Vec<Word> {
    let mut at = from;
    let words = text.split_inclusive(' ').map(|word| {
        let start = at;
        at += word.chars().count();
        Word {
            source: start..start + word.trim_end_matches([' ', ',', '.']).chars().count(),
            spoken: word.to_owned(),
        }
    });
    words.collect()
}

const ONE: &str = "sasa assa, saas. ";
const TWO: &str = "asas sasas.";

/// Two sentences, as far as their audio has come; the second is not over. Where each word ends, in samples that were made.
fn two(mut alignment: Alignment) -> (Alignment, Vec<Samples>) {
    alignment.write(&format!("{ONE}{TWO}"));
    let mut ends = Vec::new();
    let mut at = 0;
    for (text, from) in [(ONE, 0), (TWO, ONE.len())] {
        alignment.begin(&words(text, from), from + text.trim_end().len());
        alignment.close();
        for word in text.split_inclusive(' ') {
            let mut audio = voice(word);
            ends.push(Samples((at + audio.len()) as u64));
            if word.contains([',', '.']) {
                audio.extend(silence(150));
            }
            at += audio.len();
            audio.chunks(700).for_each(|part| alignment.audio(part));
        }
        if from == 0 {
            alignment.complete(true);
        }
    }
    (alignment, ends)
}

fn heard(alignment: &Alignment, played: Samples) -> String {
    alignment.split(played).0.to_owned()
}

/// Half a letter.
const NEAR: u64 = 30 * RATE as u64 / 1_000;

#[test]
fn a_word_is_heard_when_its_last_sound_was() {
    let (alignment, ends) = two(alignment());
    let text = format!("{ONE}{TWO}");
    let said = [
        "sasa",
        "sasa assa,",
        "sasa assa, saas.",
        "sasa assa, saas. asas",
        text.as_str(),
    ];
    for (end, said) in ends.iter().zip(said) {
        assert_eq!(heard(&alignment, Samples(end.0 + NEAR)), said);
        assert_ne!(heard(&alignment, Samples(end.0 - NEAR)), said);
    }
    assert_eq!(heard(&alignment, Samples::ZERO), "");
}

#[test]
fn a_sequence_that_is_over_was_heard_to_its_last_word() {
    let (mut alignment, _) = two(alignment());
    alignment.complete(true);
    assert_eq!(heard(&alignment, Samples(u64::MAX)), format!("{ONE}{TWO}"));
    assert_eq!(alignment.split(Samples(u64::MAX)).1, "");
}

#[test]
fn words_that_a_sequence_did_not_come_to_are_not_heard() {
    let mut alignment = alignment();
    alignment.write(ONE);
    alignment.begin(&words(ONE, 0), ONE.len());
    alignment.audio(&voice("sasa"));
    alignment.audio(&voice("as"));
    alignment.complete(false);
    assert_eq!(heard(&alignment, Samples(u64::MAX)), "sasa");
    assert_eq!(alignment.split(Samples(u64::MAX)).1, " assa, saas. ");
}

#[test]
fn at_another_rate_and_speed_the_same_is_heard_at_the_same_share() {
    let (alignment, ends) = two(alignment_at(48_000, 2.0));
    for (end, said) in ends.iter().zip(["sasa", "sasa assa,"]) {
        // Three times the samples in half the time.
        assert_eq!(heard(&alignment, Samples((end.0 + NEAR) * 3 / 2)), said);
    }
}

#[test]
fn what_is_heard_never_shrinks_with_more_samples() {
    let (alignment, ends) = two(alignment());
    let last = ends.last().expect("words").0 + 2 * NEAR;
    let lengths: Vec<_> = (0..last)
        .step_by(160)
        .map(|at| heard(&alignment, Samples(at)).len())
        .collect();
    assert!(lengths.is_sorted());
}

#[test]
fn words_are_told_with_the_audio_that_they_end_in_and_are_the_text() {
    for step in [160, 800, 5_000, 1_000_000] {
        let mut alignment = alignment();
        alignment.write(&format!("{ONE}{TWO} ***\n"));
        let mut told = Vec::new();
        let mut made = 0;
        let mut sent = 0;
        for (text, from) in [(ONE, 0), (TWO, ONE.len())] {
            alignment.begin(&words(text, from), from + text.trim_end().len());
            alignment.close();
            let audio = [voice(text), silence(80)].concat();
            for part in audio.chunks(step) {
                alignment.audio(part);
                made += part.len() as u64;
                // What is encoded is a little behind what was made.
                let until = made - 40;
                let words = alignment.tell(Samples(until));
                let late = words
                    .iter()
                    .all(|word| word.samples.end > Samples(sent) && word.samples.end <= Samples(until));
                assert!(late, "{words:?} told between {sent} and {until}");
                told.extend(words);
                sent = until;
            }
            alignment.complete(true);
        }
        told.extend(alignment.tell_rest(Samples(made), true));
        let texts: String = told.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, format!("{ONE}{TWO} ***"));
        assert!(
            told.is_sorted_by(
                |a, b| a.characters.end == b.characters.start && a.samples.end <= b.samples.start
            )
        );
        assert_eq!(told.last().expect("words").samples, Samples(made)..Samples(made));
        // The heard text follows from the same positions.
        let played = told[1].samples.end;
        assert_eq!(heard(&alignment, played), "sasa assa,");
    }
}

#[test]
fn a_sequence_without_sound_is_heard_with_what_came_before_it() {
    let mut alignment = alignment();
    alignment.write("sas sas");
    alignment.begin(&words("sas ", 0), 3);
    alignment.complete(true);
    alignment.begin(&words("sas", 4), 7);
    alignment.audio(&voice("sas"));
    assert_eq!(heard(&alignment, Samples::ZERO), "sas");
    alignment.complete(true);
    assert_eq!(heard(&alignment, Samples(u64::MAX)), "sas sas");
}

#[test]
fn text_that_is_not_spoken_belongs_to_the_word_behind_it() {
    let mut alignment = alignment();
    let text = "*** \u{201c}as\u{201d} \u{2192} sa/as ";
    alignment.write(text);
    let word = |source: Range<usize>, spoken: &str| Word {
        source,
        spoken: spoken.to_owned(),
    };
    alignment.begin(&[word(5..7, "as "), word(11..13, "sa "), word(14..16, "as")], 16);
    alignment.audio(&voice("assaas"));
    alignment.complete(true);
    let told = alignment.tell_rest(Samples(100_000), true);
    let texts: Vec<_> = told.iter().map(|word| word.text.as_str()).collect();
    assert_eq!(texts, ["*** \u{201c}as\u{201d}", " \u{2192} sa/", "as"]);
}

#[test]
fn of_text_without_spaces_and_of_halves_of_words_whole_words_are_heard() {
    let heard = |ends: &[usize]| Heard(ends.iter().map(|end| (*end, Samples(*end as u64))).collect());
    let each = heard(&[1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(each.words("one two", Samples(5)), 4);
    assert_eq!(each.words("one two", Samples(3)), 3);
    assert_eq!(each.words("one two", Samples(7)), 7);
    assert_eq!(each.words("你好世界", Samples(2)), "你好".len());
    assert_eq!(each.words("", Samples(9)), 0);
}

/// Voiced syllables of given lengths in milliseconds: a soft onset, then a loud vowel.
fn syllables(lengths: &[usize]) -> Vec<f32> {
    let syllable = |ms: &usize| {
        let samples = ms * RATE as usize / 1_000;
        let onset = 60 * RATE as usize / 1_000;
        let sound = move |n: usize| {
            let (loud, hz) = if n < onset {
                (0.04, 2_600.0_f32)
            } else {
                (0.3, 900.0)
            };
            loud * (std::f32::consts::TAU * hz * n as f32 / RATE as f32).sin()
        };
        (0..samples).map(sound)
    };
    lengths.iter().flat_map(syllable).collect()
}

/// Nothing is known of how these characters sound but that each is a syllable, and that marks are pauses.
#[test]
fn characters_of_chinese_are_heard_within_half_a_syllable_of_their_sound() {
    const CLAUSES: [(&str, &[usize]); 3] = [
        ("今天天气很好，", &[210, 180, 240, 260, 190, 270]),
        ("我们去公园吧，", &[170, 200, 260, 220, 250, 230]),
        ("好不好？", &[280, 160, 300]),
    ];
    let mut alignment = alignment();
    let text: String = CLAUSES.iter().map(|(text, _)| *text).collect();
    alignment.write(&text);
    let spoken: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    for (at, c) in spoken.iter().enumerate().filter(|(_, c)| is_syllable(**c)) {
        let mark = spoken.get(at + 1).filter(|c| is_pause(**c));
        words.push(Word {
            source: at..at + 1,
            spoken: std::iter::once(c).chain(mark).collect(),
        });
    }
    alignment.begin(&words, spoken.len());
    alignment.close();
    let mut audio = Vec::new();
    let mut begins = Vec::new();
    for (_, lengths) in CLAUSES {
        for length in lengths {
            begins.push(audio.len() as u64);
            audio.extend(syllables(&[*length]));
        }
        audio.extend(silence(320));
    }
    audio.chunks(1_920).for_each(|part| alignment.audio(part));
    alignment.complete(true);
    let told = alignment.tell_rest(Samples(audio.len() as u64), true);
    assert_eq!(told.len(), begins.len());
    let apart = told
        .iter()
        .zip(&begins)
        .map(|(word, begin)| word.samples.start.0.abs_diff(*begin));
    let most = apart.max().unwrap_or_default() * 1_000 / u64::from(RATE);
    assert!(most < 110, "{most} ms: {told:?}, {begins:?}");
}
