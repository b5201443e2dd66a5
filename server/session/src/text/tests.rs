use std::sync::Arc;

use omni_audio::{SampleRate, SamplesPerFrame};

use super::*;

fn info() -> SpeechInfo {
    let rate = SampleRate::new(16_000).unwrap();
    let frame = SamplesPerFrame(640.try_into().unwrap());
    SpeechInfo {
        max_frames: 100,
        max_context: 200,
        max_characters: 60,
        ..SpeechInfo::new("m", rate, frame)
    }
}

/// Tokens are characters.
fn front(buffering: Buffering) -> TextFront {
    TextFront::new(
        &info(),
        Arc::new(|text| Ok(text.chars().map(u32::from).collect())),
        buffering,
        1000,
    )
}

fn text(piece: &Piece) -> String {
    piece
        .tokens
        .iter()
        .filter_map(|&token| char::from_u32(token))
        .collect()
}

#[test]
fn eager_text_goes_on_in_one_sequence_as_if_it_had_been_whole() {
    let sentence = "the quick brown fox jumps over the lazy dog again.";
    let mut eager = front(Buffering::Eager);
    for c in sentence.chars() {
        eager.push(&c.to_string()).unwrap();
    }
    eager.finish().unwrap();
    let pieces: Vec<_> = eager.pieces.iter().collect();
    assert!(pieces.len() > 1, "{pieces:?}");
    assert!(!pieces[0].position.continues() && pieces[1..].iter().all(|piece| piece.position.continues()));
    assert!(pieces[..pieces.len() - 1].iter().all(|piece| !piece.ends) && pieces[pieces.len() - 1].ends);
    assert_eq!(pieces.into_iter().map(text).collect::<String>(), sentence);
}

/// Eager text whose words are all on their way, and none is left in the buffer.
fn under_way() -> TextFront {
    let mut eager = front(Buffering::Eager);
    eager.push("the quick brown fox jumps over ").unwrap();
    assert!(eager.pieces.back().is_some_and(|piece| !piece.ends));
    while eager.next_piece().is_some() {}
    eager
}

#[test]
fn a_flush_ends_the_open_sequence_even_if_nothing_speakable_is_left() {
    for rest in ["", " ", " \n"] {
        let mut eager = under_way();
        eager.push(rest).unwrap();
        eager.flush().unwrap();
        let last = eager.pieces.back().expect("an end");
        assert!(last.position.continues() && last.ends, "{rest:?}: {last:?}");
        eager.push("and then the dog went home. ").unwrap();
        let pieces: Vec<_> = eager
            .pieces
            .iter()
            .skip_while(|piece| piece.position.continues())
            .collect();
        assert!(!pieces[0].tokens.is_empty() && !pieces[0].pause.is_zero());
    }
}

#[test]
fn a_sequence_that_is_ended_keeps_the_word_that_is_not_complete() {
    let mut eager = front(Buffering::Eager);
    eager.push("the quick brown fox jumps over the la").unwrap();
    eager.end_sequence();
    assert!(
        eager
            .pieces
            .back()
            .is_some_and(|piece| piece.ends && piece.tokens.is_empty())
    );
    eager.push("zy dog.").unwrap();
    eager.finish().unwrap();
    let rest: String = eager
        .pieces
        .iter()
        .skip_while(|piece| !piece.ends)
        .map(text)
        .collect();
    assert!(rest.ends_with("lazy dog.") && !rest.contains("quick"), "{rest:?}");
}

#[test]
fn a_sequence_never_outgrows_the_model() {
    let mut eager = front(Buffering::Eager);
    eager.push(&"word ".repeat(60)).unwrap();
    eager.finish().unwrap();
    let mut length = 0;
    for piece in &eager.pieces {
        length = piece.tokens.len() + if piece.position.continues() { length } else { 0 };
        assert!(length <= 60, "{piece:?}");
    }
}

#[test]
fn nothing_at_all_is_fine_and_nothing_but_white_space_too() {
    assert_eq!(front(Buffering::Sentence).finish(), Ok(()));
    let mut blank = front(Buffering::Sentence);
    blank.push(" \n ").unwrap();
    assert_eq!(blank.finish(), Ok(()));
    assert!(!blank.spoke());
}

#[test]
fn ssml_that_is_not_followed_is_refused_by_name_however_it_is_cut() {
    let mut front = front(Buffering::Sentence);
    front.push("<spe").unwrap();
    let refused = front
        .push("ak>hello <prosody rate='slow'>you</prosody></speak>")
        .unwrap_err();
    assert_eq!(refused.reason(), "MARKUP_NOT_SUPPORTED");
    assert!(refused.message().contains("<prosody>"), "{}", refused.message());
}

#[test]
fn a_mark_asks_for_its_own_pause_in_every_buffering() {
    for buffering in [
        Buffering::Sentence,
        Buffering::Clause,
        Buffering::Eager,
        Buffering::Manual,
    ] {
        let mut front = front(buffering);
        front.push("one two [pause:7").unwrap();
        front.push("50ms] three four.").unwrap();
        front.finish().unwrap();
        let pieces: Vec<_> = front.pieces.drain(..).collect();
        let at = pieces
            .iter()
            .position(|piece| piece.pause == Duration::from_millis(750));
        let at = at.unwrap_or_else(|| panic!("{buffering:?}: {pieces:?}"));
        assert!(
            !pieces[at].position.continues() && pieces[at - 1].ends,
            "{buffering:?}: {pieces:?}"
        );
        let before: String = pieces[..at].iter().map(text).collect();
        assert!(
            before.contains("two") && !before.contains("pause"),
            "{buffering:?}: {before}"
        );
        assert_eq!(
            pieces.last().unwrap().source_end,
            "one two [pause:750ms] three four.".len()
        );
    }
}

#[test]
fn sentences_are_separate_sequences_with_a_pause_between() {
    let mut front = front(Buffering::Sentence);
    front.push("One is here. Two is there.").unwrap();
    front.finish().unwrap();
    let one = front.next_piece().unwrap();
    let two = front.next_piece().unwrap();
    assert_eq!(
        (text(&one).as_str(), text(&two).as_str()),
        ("One is here.", "Two is there.")
    );
    assert!(one.pause.is_zero() && !two.pause.is_zero());
    assert!(one.ends && !two.position.continues());
}

/// Inputs of a session's tokenizer for a text in these pieces, and the explanation before.
fn given_and_told(buffering: Buffering, text: &str, piece: usize) -> (Vec<String>, Vec<String>) {
    let normalizer = omni_text::Normalizer::new(
        omni_text::Language::English,
        "abcdefghijklmnopqrstuvwxyz .,?!'-:;",
    );
    let info = SpeechInfo {
        normalizer: Some(normalizer.expect("an alphabet")),
        ..info()
    };
    let given = Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = Arc::clone(&given);
    let encode = Arc::new(move |text: &str| {
        keep.lock().expect("nothing panics").push(text.to_owned());
        Ok(text.chars().map(u32::from).collect())
    });
    let mut front = TextFront::new(&info, encode, buffering, 1000);
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(piece) {
        front
            .push(&piece.iter().collect::<String>())
            .expect("it is taken");
    }
    front.finish().expect("it ends");
    let told = explain(&info, buffering, text).expect("it is explained").segments;
    let told = told
        .into_iter()
        .map(|segment| segment.text.trim().to_owned())
        .collect();
    let given = given
        .lock()
        .expect("nothing panics")
        .iter()
        .map(|text| text.trim().to_owned())
        .collect();
    (given, told)
}

#[test]
fn what_is_told_of_a_text_is_what_its_tokenizer_is_given_however_the_text_comes() {
    for text in [
        "Dr. Smith paid $3.50 on 5/6. Thanks, and good bye!",
        "Meet me at 9:30 a.m. [pause:500ms] Bring 4 apples; 2 pears, too.",
        "A text without an end",
        "One.\n\nTwo, three - and \u{4F60}\u{597D} four.",
        "\u{1F600}",
    ] {
        for buffering in [
            Buffering::Sentence,
            Buffering::Clause,
            Buffering::Eager,
            Buffering::Manual,
        ] {
            for piece in [1, 7, 1000] {
                let (given, told) = given_and_told(buffering, text, piece);
                assert_eq!(given, told, "{text:?} {buffering:?} in pieces of {piece}");
            }
        }
    }
}
