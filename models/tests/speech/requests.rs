//! Requests that cannot be served, and calls that cannot be made.

use omni_engine::{
    BlockId, ChunkModel, CodecFrame, ModelError, Sampled, SeqId, SeqStep, Sequences, StepExecutor,
};
use omni_models::{DType, Kernels, Sampling, UserRow};

use crate::support::{greedy, kv, load, open, request, step, tokens};

#[test]
fn unknown_voices_are_told_the_known_ones() {
    let mut talker = load(Kernels::Auto, DType::F32).talker(kv()).expect("a talker");
    let error = talker
        .open(SeqId(1), request(Vec::new(), "nobody", 3))
        .expect_err("no such voice");
    let expected =
        "request rejected by the model: unknown voice \"nobody\", expected one of: aiden, chelsie, ethan";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn bad_requests_name_what_is_wrong() {
    let mut talker = load(Kernels::Auto, DType::F32).talker(kv()).expect("a talker");
    let good = || request(Vec::new(), "ethan", 3);
    let cases = [
        (
            omni_models::TalkerRequest {
                talker: Sampling {
                    top_p: 1.5,
                    ..greedy()
                },
                ..good()
            },
            "talker sampling: top_p",
        ),
        (
            omni_models::TalkerRequest {
                predictor: Sampling {
                    temperature: f32::NAN,
                    ..greedy()
                },
                ..good()
            },
            "predictor sampling: temperature",
        ),
        (
            omni_models::TalkerRequest {
                predictor: greedy(),
                ..good()
            },
            "predictor sampling: repetition_penalty is 1.05",
        ),
        (
            request(tokens(&[1, 320]), "ethan", 3),
            "row 1 of the user turn is token 320",
        ),
        (
            request(vec![UserRow::Hidden(vec![0.0; 47])], "ethan", 3),
            "row 0 of the user turn has 47 numbers, expected 48",
        ),
        (
            request(tokens(&[7; 1595]), "ethan", 3),
            "the prompt has 1604 positions, at most 1599 fit",
        ),
    ];
    for (request, expected) in cases {
        match talker.open(SeqId(1), request) {
            Err(ModelError::Rejected(reason)) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("expected a rejection ({expected}), found {other:?}"),
        }
    }
}

#[test]
fn a_text_token_that_does_not_exist_fails_its_own_sequence_only() {
    let mut talker = load(Kernels::Auto, DType::F32).talker(kv()).expect("a talker");
    let mut good = open(&mut talker, 1, request(Vec::new(), "ethan", 3), &[30, 31]);
    let bad = open(&mut talker, 2, request(Vec::new(), "ethan", 3), &[30, 9999]);
    talker
        .execute(&[good.step(good.prompt), bad.step(bad.prompt)])
        .expect("both compute");
    let sampled = talker.sample(&[SeqId(2), SeqId(1)]).expect("both sample");
    assert!(
        matches!(&sampled[0], Sampled::Failed(reason) if reason.contains("text token 9999")),
        "{sampled:?}"
    );
    assert!(matches!(&sampled[1], Sampled::Item(_)), "{sampled:?}");
    talker.close(SeqId(2));
    good.computed = 0;
    good.frames.push(Vec::new());
    step(&mut talker, &mut [&mut good], u32::MAX);
}

#[test]
fn a_sequence_opens_once() {
    let mut talker = load(Kernels::Auto, DType::F32).talker(kv()).expect("a talker");
    talker
        .open(SeqId(1), request(Vec::new(), "ethan", 3))
        .expect("served");
    let again = talker.open(SeqId(1), request(Vec::new(), "ethan", 3));
    assert!(matches!(again, Err(ModelError::Rejected(_))), "{again:?}");
    talker.close(SeqId(1));
    talker
        .open(SeqId(1), request(Vec::new(), "ethan", 3))
        .expect("served again");
}

#[test]
fn talkers_and_vocoders_move_to_threads_of_their_own() {
    let model = load(Kernels::Auto, DType::F32);
    let mut talker = model.talker(kv()).expect("a talker");
    let mut code2wav = model.code2wav().expect("a vocoder");
    let speak = move || crate::support::speak(&mut talker, 1, request(Vec::new(), "ethan", 3), &[30, 31, 32]);
    let frames = std::thread::spawn(speak).join().expect("speaks");
    let frames = crate::support::frames(&frames);
    let decode = move || crate::support::decode(&mut code2wav, 1, &frames, &[1]);
    assert_eq!(
        std::thread::spawn(decode).join().expect("decodes").len(),
        model.samples_of(3)
    );
}

#[test]
fn max_frames_end_the_speech() {
    let mut talker = load(Kernels::Auto, DType::F32).talker(kv()).expect("a talker");
    for max in [0, 1, 4] {
        let spoken = crate::support::speak(&mut talker, 1, request(Vec::new(), "ethan", max), &[30, 31, 32]);
        assert_eq!(spoken.len(), max as usize);
    }
}

#[test]
fn steps_that_cannot_be_computed_are_errors_not_panics() {
    let mut talker = load(Kernels::Auto, DType::F32).talker(kv()).expect("a talker");
    let prompt = talker
        .open(SeqId(1), request(Vec::new(), "ethan", 3))
        .expect("served");
    let blocks: Vec<BlockId> = (0..10).map(BlockId).collect();
    let outside = [BlockId(400)];
    let step = |seq, start, len, blocks| SeqStep {
        seq: SeqId(seq),
        start,
        len,
        blocks,
    };
    // The last prompt row needs the first text row.
    for (what, wrong) in [
        ("text", step(1, 0, prompt, &blocks[..])),
        ("frame", step(1, prompt, 1, &blocks)),
        ("blocks", step(1, 0, prompt, &blocks[..1])),
        ("block 400", step(1, 0, 1, &outside)),
        ("sequence", step(5, 0, 1, &blocks)),
        ("length", step(1, 0, 0, &blocks)),
    ] {
        assert!(
            matches!(talker.execute(&[wrong]), Err(ModelError::Compute(_))),
            "{what}"
        );
    }
    assert!(
        matches!(talker.sample(&[SeqId(1)]), Err(ModelError::Compute(_))),
        "nothing has been computed"
    );
    talker
        .execute(&[step(1, 0, 4, &blocks)])
        .expect("the first rows need no text");
    assert!(
        matches!(talker.sample(&[SeqId(9)]), Err(ModelError::Compute(_))),
        "another sequence"
    );
}

#[test]
fn code2wav_refuses_frames_and_streams_that_do_not_exist() {
    let mut code2wav = load(Kernels::Auto, DType::F32).code2wav().expect("a vocoder");
    code2wav.open(SeqId(1), (), 0).expect("a stream opens");
    assert!(
        matches!(code2wav.open(SeqId(1), (), 0), Err(ModelError::Rejected(_))),
        "open twice"
    );
    let good = [CodecFrame(vec![0; 16].into())];
    let short = [CodecFrame(vec![0; 15].into())];
    let large = [CodecFrame(vec![64; 16].into())];
    for (what, batch) in [
        ("an unknown stream", vec![(SeqId(2), &good[..])]),
        (
            "a stream twice",
            vec![(SeqId(1), &good[..]), (SeqId(1), &good[..])],
        ),
    ] {
        assert!(
            matches!(code2wav.decode(&batch), Err(ModelError::Compute(_))),
            "{what}"
        );
    }
    let mut length = |frames: &[CodecFrame]| {
        let mut decoded = code2wav.decode(&[(SeqId(1), frames)]).expect("still alive");
        decoded.remove(0).map(|samples| samples.len())
    };
    for wrong in [&short, &large] {
        let error = length(wrong).expect_err("wrong frames");
        assert!(
            error.contains("expected 16 codes below 64, found CodecFrame["),
            "{error}"
        );
    }
    assert_eq!(length(&good), Ok(1365));
}
