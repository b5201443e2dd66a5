//! A sequence's results are the same alone and in a batch; with the project's own kernels to the last bit.

use omni_engine::{ChunkModel, SeqId, Sequences};
use omni_models::testing::codes_by_frame;
use omni_models::{Sampling, SpeechModel, TalkerRequest};

use crate::golden::{assert_close, goldens};
use crate::support::{Run, both, decode, frames, kv, open, request, speak, step, tokens};

type Numbered = (u64, (TalkerRequest, Vec<u32>));

/// Requests of different lengths, voices, settings and seeds.
fn requests() -> Vec<(TalkerRequest, Vec<u32>)> {
    let user: Vec<u32> = (0..30).map(|i| (i * 37 + 5) % 250).collect();
    let text: Vec<u32> = (0..20).map(|i| (i * 53 + 11) % 250).collect();
    let lengths = [(0, 1, 4), (12, 9, 11), (30, 3, 7), (5, 20, 14), (1, 6, 2)];
    let voices = ["ethan", "CHELSIE", "Aiden", "ethan", "chelsie"];
    (0_u64..)
        .zip(lengths.into_iter().zip(voices))
        .map(|(i, ((prompt, len, max), voice))| {
            let mut r = request(tokens(&user[..prompt]), voice, max);
            if i % 2 == 1 {
                r.talker = Sampling {
                    temperature: 0.9,
                    top_k: 50,
                    ..r.talker
                };
                r.predictor = Sampling {
                    temperature: 1.0,
                    top_k: 50,
                    top_p: 0.8,
                    ..r.predictor
                };
            }
            r.seed = 100 + i;
            (r, text[..len].to_vec())
        })
        .collect()
}

fn alone(model: &SpeechModel) -> Vec<Vec<Vec<u32>>> {
    let mut talker = model.talker(kv()).expect("a talker");
    let speak = |(i, (request, text)): Numbered| speak(&mut talker, i, request, &text);
    (0_u64..).zip(requests()).map(speak).collect()
}

#[test]
fn talker_and_predictor_in_a_ragged_batch() {
    for (kernels, model) in &both() {
        let expected = alone(model);
        for chunk in [u32::MAX, 5] {
            let mut talker = model.talker(kv()).expect("a talker");
            let open = |(i, (request, text)): Numbered| open(&mut talker, i, request, &text);
            let mut runs: Vec<Run> = (0_u64..).zip(requests()).map(open).collect();
            let mut round = 0;
            while runs.iter().any(|r| !r.done) {
                round += 1;
                // They join one after another, in an order that changes, and leave as they end.
                let mut live: Vec<&mut Run> = runs.iter_mut().take(round).filter(|r| !r.done).collect();
                let turn = round % live.len().max(1);
                live.rotate_left(turn);
                if !live.is_empty() {
                    step(&mut talker, &mut live, chunk);
                }
            }
            for (run, expected) in runs.iter().zip(&expected) {
                assert_eq!(
                    run.frames, *expected,
                    "{kernels}: sequence {} with chunks of {chunk}",
                    run.seq.0
                );
            }
        }
    }
}

#[test]
fn talker_logits_do_not_change_by_a_bit_in_a_batch() {
    let model = &both()[0].1;
    let mut talker = model.talker(kv()).expect("a talker");
    let mut single = Vec::new();
    for (i, (request, text)) in (0_u64..).zip(requests()) {
        let mut run = open(&mut talker, i, request, &text);
        step(&mut talker, &mut [&mut run], u32::MAX);
        single.push(talker.logits(run.seq).expect("computed"));
        talker.close(run.seq);
    }
    let open = |(i, (request, text)): Numbered| open(&mut talker, i, request, &text);
    let mut runs: Vec<Run> = (0_u64..).zip(requests()).map(open).collect();
    let mut together: Vec<&mut Run> = runs.iter_mut().collect();
    step(&mut talker, &mut together, u32::MAX);
    for (run, single) in runs.iter().zip(single) {
        assert!(
            talker.logits(run.seq).expect("computed") == single,
            "sequence {}",
            run.seq.0
        );
    }
}

#[test]
fn code2wav_streams_in_one_batch() {
    let codes = codes_by_frame(&goldens());
    let shifted = |by: usize, len: usize| {
        (0..len)
            .map(|i| codes[(i + by) % codes.len()].clone())
            .collect::<Vec<_>>()
    };
    let streams = [
        frames(&shifted(0, 23)),
        frames(&shifted(5, 9)),
        frames(&shifted(11, 40)),
    ];
    for (kernels, model) in &both() {
        let mut code2wav = model.code2wav().expect("a vocoder");
        let expected: Vec<Vec<f32>> = streams
            .iter()
            .map(|s| decode(&mut code2wav, 9, s, &[s.len()]))
            .collect();
        let mut got = vec![Vec::new(); streams.len()];
        let mut at = [0; 3];
        for id in 0..3 {
            code2wav.open(SeqId(id), (), 0).expect("a stream opens");
        }
        for round in 0.. {
            if at.iter().zip(&streams).all(|(at, s)| *at == s.len()) {
                break;
            }
            // Different sizes per stream and round, some streams sitting a round out.
            let sizes = [1 + round % 3, round % 2, 1 + round % 4];
            let ends: Vec<usize> = (0..3).map(|i| (at[i] + sizes[i]).min(streams[i].len())).collect();
            let batch: Vec<_> = (0_u64..)
                .zip(0..3)
                .map(|(id, i)| (SeqId(id), &streams[i][at[i]..ends[i]]))
                .collect();
            let out = code2wav.decode(&batch).expect("frames decode");
            for i in 0..3 {
                got[i].extend(out[i].as_ref().expect("samples"));
                at[i] = ends[i];
            }
        }
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_close(&format!("{kernels} stream {i}"), got, expected, 1e-5);
        }
    }
}

#[test]
fn a_closed_sequence_leaves_nothing_behind() {
    let (request, text) = requests().remove(3);
    let model = &both()[0].1;
    let mut talker = model.talker(kv()).expect("a talker");
    let first = speak(&mut talker, 1, request.clone(), &text);
    let again = speak(&mut talker, 1, request, &text);
    assert_eq!(first, again);
    talker.close(SeqId(77));
    let codes = frames(&codes_by_frame(&goldens()));
    let mut code2wav = model.code2wav().expect("a vocoder");
    let first = decode(&mut code2wav, 1, &codes, &[23]);
    assert_eq!(first, decode(&mut code2wav, 1, &codes, &[23]));
}
