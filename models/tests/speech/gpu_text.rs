//! The thinker on a GPU's kernels, run on the processor: tokens are chosen where logits are computed.

use omni_engine::SeqId;
use omni_models::{DType, Kernels, SpeechModel, TextSampling, Thinker, ThinkerRequest};

use crate::golden::goldens;
use crate::support::{kv, load};
use crate::thinker_support::{Reply, ask, audio_prompt, open, say, step, tokens};

fn emulated(graphs: bool) -> SpeechModel {
    let kernels = if graphs {
        Kernels::EmulatedLate
    } else {
        Kernels::Emulated { graphs }
    };
    load(kernels, DType::F32)
}

fn thinker(model: &SpeechModel) -> Thinker {
    let weights = model.load_thinker().expect("the thinker loads");
    weights.thinker(kv()).expect("a thinker")
}

fn requests() -> Vec<ThinkerRequest> {
    let goldens = goldens();
    let ids = goldens.ids("text.input_ids");
    let drawn = |seed, top_k| ThinkerRequest {
        sampling: TextSampling {
            temperature: 0.9,
            top_k,
            top_p: 0.95,
            min_p: 0.01,
            repetition_penalty: 1.1,
            frequency_penalty: 0.4,
            min_tokens: 3,
            ..TextSampling::default()
        },
        seed,
        logprobs: true,
        ..ask(tokens(&ids))
    };
    vec![
        drawn(1, 40),
        drawn(2, 0),
        ThinkerRequest {
            export_hidden: true,
            ..ask(audio_prompt(&goldens))
        },
        ask(tokens(&ids[..3])),
        drawn(5, 0),
    ]
}

/// Answers of all, the first of which starts alone.
fn together(thinker: &mut Thinker) -> Vec<Reply> {
    let mut replies: Vec<Reply> = (0..)
        .zip(requests())
        .map(|(id, request)| open(thinker, id, request, 9))
        .collect();
    for round in 1.. {
        let mut live: Vec<&mut Reply> = replies.iter_mut().take(round).filter(|r| !r.done).collect();
        if live.is_empty() {
            break;
        }
        step(thinker, &mut live, 11);
    }
    replies
}

#[test]
fn replies_are_those_of_the_processor_and_graphs_change_nothing() {
    let expected = together(&mut thinker(&load(Kernels::Auto, DType::F32)));
    let launched = emulated(false);
    let graphs = emulated(true);
    let plain = together(&mut thinker(&launched));
    let with = together(&mut thinker(&graphs));
    for ((expected, plain), with) in expected.iter().zip(&plain).zip(&with) {
        assert_eq!(plain.ids(), expected.ids(), "sequence {}", expected.seq.0);
        assert_eq!(with.said, plain.said, "to the last bit");
        for (said, expected) in with.said.iter().zip(&expected.said) {
            let pair = said.logprob.zip(expected.logprob);
            assert_eq!(said.logprob.is_some(), expected.logprob.is_some());
            assert!(pair.is_none_or(|(a, b)| (a - b).abs() < 1e-3), "{pair:?}");
        }
    }
    let mut alone = thinker(&graphs);
    for ((id, request), expected) in (0..).zip(requests()).zip(&expected) {
        assert_eq!(
            say(&mut alone, id, request, 9, u32::MAX).ids(),
            expected.ids(),
            "{id} alone"
        );
    }
    assert_eq!(graphs.take_gpu_fallbacks(), [""; 0]);
    let figures = graphs.gpu_figures().expect("a GPU");
    assert!(figures.replays > figures.graphs, "{figures:?}");
}

#[test]
fn a_token_is_two_graphs_and_the_logits_stay() {
    let model = emulated(true);
    let mut thinker = thinker(&model);
    let request = ThinkerRequest {
        sampling: TextSampling {
            temperature: 1.0,
            ..TextSampling::default()
        },
        ..ask(tokens(&[7, 8, 9]))
    };
    let mut reply = open(&mut thinker, 1, request, 20);
    let mut last = None;
    for _ in 0..6 {
        let before = model.gpu_figures().expect("a GPU");
        step(&mut thinker, &mut [&mut reply], u32::MAX);
        let after = model.gpu_figures().expect("a GPU");
        if after.graphs == before.graphs && after.replays == before.replays + 2 {
            assert_eq!(after.launches, before.launches, "and nothing else");
            last = Some(after.replayed_launches - before.replayed_launches);
        }
    }
    // 10 for the step, 16 at most per layer, and 3 for the token.
    assert!(
        last.is_some_and(|launches| launches <= 13 + 16 * 4),
        "{last:?} launches"
    );
    assert!(thinker.logits(SeqId(1)).is_some_and(|logits| logits.len() == 320));
}
