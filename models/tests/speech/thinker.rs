//! The thinker against the reference, and against itself in other orders.

use omni_engine::{
    AddOptions, ArConfig, ArEngine, ContentKey, KvCache, ModelError, Sampled, SeqEvent, SeqId, Sequences,
    Stamp, StepExecutor,
};
use omni_models::{DType, Kernels, PromptPiece, SpeechModel, TextSampling, Thinker, ThinkerRequest};
use proptest::prelude::*;

use crate::golden::{Goldens, assert_close, goldens};
use crate::support::{all, both, kv, load};
use crate::thinker_support::{AUDIO_PAD, HIDDEN, Reply, ask, audio_prompt, open, say, step, tokens};

fn thinker(model: &SpeechModel) -> Thinker {
    let weights = model.load_thinker().expect("the thinker loads");
    weights.thinker(kv()).expect("a thinker")
}

fn all_thinkers() -> [(&'static str, Thinker); 3] {
    all().map(|(name, model)| (name, thinker(&model)))
}

fn both_thinkers() -> [(&'static str, Thinker); 2] {
    both().map(|(name, model)| (name, thinker(&model)))
}

fn own() -> Thinker {
    thinker(&load(Kernels::Auto, DType::F32))
}

/// Logits of every prompt position and of every token, computed one position at a time.
fn logits_of(thinker: &mut Thinker, request: ThinkerRequest, most: usize) -> (Vec<f32>, Vec<f32>) {
    let mut prompt = Vec::new();
    let mut steps = Vec::new();
    let mut reply = open(thinker, 1, request, most);
    while !reply.done {
        step(thinker, &mut [&mut reply], 1);
        let logits = thinker.logits(reply.seq).expect("just computed");
        if reply.computed <= reply.prompt {
            prompt.extend_from_slice(&logits);
        }
        if reply.computed >= reply.prompt {
            steps.extend(logits);
        }
    }
    thinker.close(reply.seq);
    (prompt, steps)
}

#[test]
fn text_prompts_give_the_references_logits_and_tokens() {
    let goldens = goldens();
    let ids = goldens.ids("text.input_ids");
    for (name, mut thinker) in all_thinkers() {
        let expected = goldens.ids("text.gen_ids");
        let (prompt, steps) = logits_of(&mut thinker, ask(tokens(&ids)), expected.len());
        assert_close(name, &prompt, &goldens.floats("text.prefill_logits"), 1e-4);
        assert_close(name, &steps, &goldens.floats("text.step_logits"), 1e-4);
        let reply = say(&mut thinker, 2, ask(tokens(&ids)), expected.len(), u32::MAX);
        assert_eq!(reply.ids(), expected, "{name}");
    }
}

#[test]
fn audio_prompts_give_the_references_logits_tokens_and_hidden_rows() {
    let goldens = goldens();
    let ids = goldens.ids("audio.input_ids");
    let hidden = goldens.floats("audio.thinker_hidden_accept");
    let heard: Vec<f32> = ids
        .iter()
        .zip(hidden.chunks(HIDDEN))
        .filter(|(id, _)| **id == AUDIO_PAD)
        .flat_map(|(_, row)| row.to_vec())
        .collect();
    for (name, mut thinker) in all_thinkers() {
        let expected = goldens.ids("audio.gen_ids");
        let request = || ThinkerRequest {
            export_hidden: true,
            ..ask(audio_prompt(&goldens))
        };
        let (prompt, steps) = logits_of(&mut thinker, request(), expected.len());
        assert_close(name, &prompt, &goldens.floats("audio.prefill_logits"), 1e-4);
        assert_close(name, &steps, &goldens.floats("audio.step_logits"), 1e-4);
        let reply = say(&mut thinker, 2, request(), expected.len(), u32::MAX);
        assert_eq!(reply.ids(), expected, "{name}");
        let rows = reply.said[0].hidden.as_ref().expect("asked for");
        assert_eq!((rows.width, rows.rows().len()), (HIDDEN, 43));
        assert_close(name, &rows.values, &heard, 1e-4);
        assert!(
            reply.said[1..].iter().all(|t| t.hidden.is_none()),
            "only the first token"
        );
    }
}

/// The rows of a text prompt's embeddings are as good as its tokens, and every hidden row can be looked at so.
#[test]
fn hidden_rows_are_those_of_the_accepted_layer() {
    let goldens = goldens();
    let rows = PromptPiece::Audio(goldens.floats("text.thinker_embed").into());
    for (name, mut thinker) in both_thinkers() {
        let request = ThinkerRequest {
            export_hidden: true,
            ..ask(vec![rows.clone()])
        };
        for chunk in [5, u32::MAX] {
            let reply = say(&mut thinker, 1, request.clone(), 1, chunk);
            let hidden = reply.said[0].hidden.as_ref().expect("asked for");
            assert_close(
                name,
                &hidden.values,
                &goldens.floats("text.thinker_hidden_accept"),
                1e-4,
            );
        }
    }
}

#[test]
fn positions_on_three_axes_rotate_as_the_references() {
    let goldens = goldens();
    let axes = goldens.ids("mrope.pos");
    let count = axes.len() / 3;
    let axes: Vec<[u32; 3]> = (0..count)
        .map(|i| [axes[i], axes[count + i], axes[2 * count + i]])
        .collect();
    for (name, mut thinker) in both_thinkers() {
        let request = ThinkerRequest {
            axes: Some(axes.clone()),
            ..ask(vec![PromptPiece::Audio(goldens.floats("mrope.x").into())])
        };
        let mut reply = open(&mut thinker, 1, request, 1);
        let mut hidden = Vec::new();
        while !reply.done {
            step(&mut thinker, &mut [&mut reply], 1);
            hidden.extend(thinker.hidden(reply.seq).expect("just computed"));
        }
        assert_close(name, &hidden, &goldens.floats("mrope.out"), 1e-4);
    }
}

#[test]
fn a_reply_goes_on_after_the_largest_place_on_an_axis() {
    let mut thinker = own();
    let prompt = tokens(&[276, 263, 10, 40, 41]);
    let shifted = |by: u32| ThinkerRequest {
        axes: Some((0..5).map(|p| [p + by; 3]).collect()),
        ..ask(prompt.clone())
    };
    let plain = say(&mut thinker, 1, ask(prompt.clone()), 6, u32::MAX);
    assert_eq!(
        say(&mut thinker, 2, shifted(0), 6, u32::MAX).ids(),
        plain.ids(),
        "the same places"
    );
    // Attention sees only differences of positions, so a prompt at an offset continues equally.
    assert_eq!(say(&mut thinker, 3, shifted(100), 6, u32::MAX).ids(), plain.ids());
}

fn requests(goldens: &Goldens) -> Vec<ThinkerRequest> {
    let ids = goldens.ids("text.input_ids");
    let sampled = |temperature, seed| ThinkerRequest {
        sampling: TextSampling {
            temperature,
            top_k: 40,
            top_p: 0.95,
            frequency_penalty: 0.5,
            ..TextSampling::default()
        },
        seed,
        logprobs: true,
        ..ask(tokens(&ids))
    };
    vec![
        ThinkerRequest {
            export_hidden: true,
            ..ask(audio_prompt(goldens))
        },
        sampled(1.0, 1),
        sampled(0.7, 2),
        ask(tokens(&ids[..3])),
        ask(tokens(&ids[..1])),
    ]
}

#[test]
fn batched_equals_single() {
    let goldens = goldens();
    for (name, mut thinker) in both_thinkers() {
        let alone: Vec<Reply> = (0..)
            .zip(requests(&goldens))
            .map(|(id, r)| say(&mut thinker, id, r, 9, u32::MAX))
            .collect();
        let mut together: Vec<Reply> = Vec::new();
        let mut waiting = (0..).zip(requests(&goldens));
        loop {
            // One more joins at every step; the prompts go in pieces.
            if let Some((id, request)) = waiting.next() {
                together.push(open(&mut thinker, id, request, 9));
            }
            let mut live: Vec<&mut Reply> = together.iter_mut().filter(|r| !r.done).collect();
            if live.is_empty() {
                break;
            }
            live.reverse();
            step(&mut thinker, &mut live, 7);
        }
        for (a, b) in alone.iter().zip(&together) {
            assert_eq!(a.ids(), b.ids(), "{name}, sequence {}", a.seq.0);
            for (a, b) in a.said.iter().zip(&b.said) {
                let pair = a.logprob.zip(b.logprob);
                assert!(pair.is_none_or(|(a, b)| (a - b).abs() < 1e-4), "{name}: {pair:?}");
                if let (Some(a), Some(b)) = (&a.hidden, &b.hidden) {
                    assert_close(name, &a.values, &b.values, 1e-4);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_prompt_in_any_pieces_gives_the_whole_ones_reply(
        chunks in prop::collection::vec(1..60_u32, 1..8),
        preempt_at in 0..12_usize,
    ) {
        let goldens = goldens();
        let mut thinker = own();
        for request in requests(&goldens) {
            let whole = say(&mut thinker, 1, request.clone(), 8, u32::MAX);
            let mut pieces = open(&mut thinker, 2, request, 8);
            let mut chunks = chunks.iter().copied().cycle();
            let mut steps = 0;
            while !pieces.done {
                if steps == preempt_at {
                    // Its blocks were taken away; it gets others.
                    pieces.computed = 0;
                    pieces.blocks.reverse();
                }
                steps += 1;
                step(&mut thinker, &mut [&mut pieces], chunks.next().expect("endless"));
            }
            thinker.close(pieces.seq);
            // The CPU's sums have one order in any batch: not a bit may differ.
            prop_assert_eq!(&whole.said, &pieces.said);
        }
    }
}

#[test]
fn a_reply_ends_when_it_has_all_the_tokens_that_it_may_have() {
    let goldens = goldens();
    let ids = goldens.ids("text.input_ids");
    let expected = goldens.ids("text.gen_ids");
    for max_tokens in [1, 3] {
        let request = ThinkerRequest {
            max_tokens,
            ..ask(tokens(&ids))
        };
        let reply = say(&mut own(), 1, request, 20, u32::MAX);
        assert_eq!(reply.ids(), expected[..max_tokens as usize]);
    }
}

#[test]
fn stop_tokens_end_the_reply_and_are_not_said() {
    let goldens = goldens();
    let ids = goldens.ids("text.input_ids");
    let expected = goldens.ids("text.gen_ids");
    let mut thinker = own();
    let stopped = ThinkerRequest {
        stop: vec![expected[2], 5],
        ..ask(tokens(&ids))
    };
    assert_eq!(
        say(&mut thinker, 1, stopped.clone(), 20, u32::MAX).ids(),
        expected[..2]
    );
    let later = ThinkerRequest {
        sampling: TextSampling {
            min_tokens: 4,
            ..TextSampling::default()
        },
        ..stopped
    };
    let reply = say(&mut thinker, 2, later, 20, u32::MAX);
    assert!(
        reply.said.len() >= 4 && !reply.ids()[..4].contains(&expected[2]),
        "{reply:?}"
    );
}

#[test]
fn log_probabilities_come_if_asked_for() {
    let goldens = goldens();
    let request = ThinkerRequest {
        logprobs: true,
        ..ask(tokens(&goldens.ids("text.input_ids")))
    };
    let reply = say(&mut own(), 1, request, 3, u32::MAX);
    let logits = goldens.floats("text.step_logits");
    for (said, logits) in reply.said.iter().zip(logits.chunks(320)) {
        let total: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
        let expected = f64::from(logits[said.token as usize]) - total.ln();
        let found = f64::from(said.logprob.expect("asked for"));
        assert!((found - expected).abs() < 1e-3, "{found}, expected {expected}");
    }
}

#[test]
fn bad_requests_name_what_is_wrong() {
    let mut thinker = own();
    let good = || ask(tokens(&[1, 2]));
    let audio = |values: Vec<f32>| ask(vec![PromptPiece::Audio(values.into())]);
    let cases = [
        (ask(Vec::new()), "the prompt is empty"),
        (
            ask(tokens(&[1, 320])),
            "piece 1 of the prompt is token 320, expected below 320",
        ),
        (
            audio(vec![0.0; 47]),
            "piece 0 of the prompt is audio of 47 numbers, expected rows of 48",
        ),
        (
            audio(vec![f32::NAN; 48]),
            "piece 0 of the prompt is audio with numbers that are infinite or none",
        ),
        (
            ask(tokens(&[7; 1600])),
            "the prompt has 1600 positions, at most 1599 fit",
        ),
        (
            ThinkerRequest {
                sampling: TextSampling {
                    top_p: 0.0,
                    ..TextSampling::default()
                },
                ..good()
            },
            "sampling: top_p is 0",
        ),
        (
            ThinkerRequest {
                axes: Some(vec![[0; 3]]),
                ..good()
            },
            "1 positions have places on the axes, but the prompt has 2",
        ),
        (
            ThinkerRequest {
                axes: Some(vec![[0; 3], [0, 4096, 0]]),
                ..good()
            },
            "a place on an axis is 4096 or beyond",
        ),
    ];
    for (request, expected) in cases {
        match thinker.open(SeqId(1), request) {
            Err(ModelError::Rejected(reason)) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("expected a rejection ({expected}), found {other:?}"),
        }
    }
    thinker.open(SeqId(1), good()).expect("served");
    assert!(
        matches!(thinker.open(SeqId(1), good()), Err(ModelError::Rejected(_))),
        "open twice"
    );
}

#[test]
fn hidden_rows_that_were_never_computed_fail_their_own_reply_only() {
    let goldens = goldens();
    let mut thinker = own();
    let request = ThinkerRequest {
        export_hidden: true,
        ..ask(audio_prompt(&goldens))
    };
    let mut skipped = open(&mut thinker, 1, request, 3);
    let mut whole = open(&mut thinker, 2, ask(tokens(&[1, 2, 3])), 3);
    // As if the first positions' keys and values had been there already.
    skipped.computed = 20;
    let a = skipped.prompt - 20;
    let b = whole.prompt;
    let steps = [(&skipped, a), (&whole, b)].map(|(r, len)| omni_engine::SeqStep {
        seq: r.seq,
        start: r.computed,
        len,
        blocks: &r.blocks,
    });
    thinker.execute(&steps).expect("both compute");
    let sampled = thinker.sample(&[SeqId(1), SeqId(2)]).expect("both sample");
    assert!(
        matches!(&sampled[0], Sampled::Failed(reason) if reason.contains("hidden row of audio position 0")),
        "{sampled:?}"
    );
    assert!(matches!(&sampled[1], Sampled::Item(_)), "{sampled:?}");
    whole.computed = 0;
}

#[test]
fn what_stands_at_a_position_is_told_for_sharing() {
    let goldens = goldens();
    let mut thinker = own();
    let prompt = audio_prompt(&goldens);
    let count = thinker.open(SeqId(1), ask(prompt.clone())).expect("served");
    let keys = thinker.content_keys(SeqId(1), 0..count).expect("it may share");
    assert_eq!(keys.len(), 58);
    assert_eq!(keys[0], ContentKey::token(276));
    let row = &goldens.floats("audio.embeds_windowed")[HIDDEN..2 * HIDDEN];
    assert_eq!(keys[5], ContentKey::row(row), "the second row of the audio");
    assert_eq!(
        thinker.content_keys(SeqId(1), 0..count + 1),
        None,
        "nothing has been said yet"
    );

    let exported = ThinkerRequest {
        export_hidden: true,
        ..ask(prompt)
    };
    thinker.open(SeqId(2), exported).expect("served");
    assert_eq!(
        thinker.content_keys(SeqId(2), 0..4),
        None,
        "its hidden rows must be computed"
    );
    let placed = ThinkerRequest {
        axes: Some(vec![[3; 3]; 2]),
        ..ask(tokens(&[7, 8]))
    };
    thinker.open(SeqId(3), placed).expect("served");
    assert_eq!(
        thinker.content_keys(SeqId(3), 0..2),
        None,
        "its places are its own"
    );
}

/// A real engine, with blocks that two sequences share: the second one's prefix is never computed.
#[test]
fn a_shared_prefix_changes_nothing() {
    let goldens = goldens();
    let ids = goldens.ids("text.input_ids");
    let talk = |engine: &mut ArEngine<Thinker>, id: u64, ids: &[u32]| {
        let options = AddOptions {
            max_outputs: 9,
            ..AddOptions::default()
        };
        engine
            .add(SeqId(id), ask(tokens(ids)), options, Stamp::default())
            .expect("admitted");
        let mut said = Vec::new();
        let mut computed = 0;
        loop {
            let report = engine.step(Stamp::default());
            computed += report.stats.prefill_tokens;
            for event in report.events {
                match event {
                    SeqEvent::Output { item, .. } => said.push(item.token),
                    SeqEvent::Finished { reason, .. } => return (said, computed, reason),
                    _ => {}
                }
            }
        }
    };
    let mut other = ids.clone();
    let last = ids.len() - 1;
    other[last - 4] = 99;
    let (alone, ..) = talk(&mut ArEngine::new(own(), ArConfig::default()), 3, &other);
    for (name, thinker) in all_thinkers() {
        let mut shared = ArEngine::new(thinker, ArConfig::default());
        let (first, computed, _) = talk(&mut shared, 1, &ids);
        assert_eq!(
            (first, computed),
            (goldens.ids("text.gen_ids")[..9].to_vec(), 28),
            "{name}"
        );
        let (second, computed, _) = talk(&mut shared, 2, &other);
        assert!(
            computed < 28,
            "{computed} positions of the second prompt were computed"
        );
        assert_eq!(second, alone, "{name}");
    }
}
