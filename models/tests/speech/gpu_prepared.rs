//! Steps prepared in advance, on GPU kernels run on the processor: later steps find their graphs, and give the same
//! results as without.

use omni_engine::{ChunkBounds, ChunkModel, CodecFrame, SeqId, Warmup};
use omni_models::{DType, Kernels, SpeechModel, TextSampling, ThinkerRequest};

use crate::golden::goldens;
use crate::support::{Run, frames, kv, load, open, sampled, step};
use crate::thinker_support::{self, Reply, ask, tokens};

/// Sequences that steps are prepared for.
const SEQS: u32 = 3;
const BOUNDS: ChunkBounds = ChunkBounds {
    streams: 3,
    batch: 3,
    items: 6,
};

fn model(graphs: bool) -> SpeechModel {
    load(Kernels::Emulated { graphs }, DType::F32)
}

fn graphs(model: &SpeechModel) -> u64 {
    model.gpu_figures().expect("a GPU").graphs
}

/// All pieces; how many there were.
fn prepare(mut piece: impl FnMut(u32) -> bool) -> u32 {
    (0..).take_while(|&nth| piece(nth)).count() as u32
}

/// Launches that were no part of a graph.
fn launches(model: &SpeechModel) -> u64 {
    model.gpu_figures().expect("a GPU").launches
}

/// Frames of sequences that join one after another, graphs recorded meanwhile and launches without one. `before` is
/// called before the first step and in the middle of all.
fn spoken(model: &SpeechModel, before: impl Fn(&mut omni_models::Talker)) -> (Vec<Vec<Vec<u32>>>, u64, u64) {
    let mut talker = model.talker(kv()).expect("a talker");
    before(&mut talker);
    let recorded = graphs(model);
    let launched = launches(model);
    let text: Vec<u32> = (40..60).collect();
    let mut runs: Vec<Run> = (0..u64::from(SEQS))
        .map(|id| open(&mut talker, id, sampled(id, 7), &text))
        .collect();
    for round in 1.. {
        let mut live: Vec<&mut Run> = runs.iter_mut().take(round).filter(|r| !r.done).collect();
        if live.is_empty() {
            break;
        }
        step(&mut talker, &mut live, u32::MAX);
        if round == 4 {
            before(&mut talker);
        }
    }
    let all = runs.into_iter().map(|run| run.frames).collect();
    (all, graphs(model) - recorded, launches(model) - launched)
}

#[test]
fn frames_are_the_same_and_their_graphs_are_there() {
    let (plain, ..) = spoken(&model(true), |_| {});
    let prepared = model(true);
    let pieces =
        |talker: &mut omni_models::Talker| prepare(|nth| talker.prepare(nth, SEQS).expect("prepared"));
    let (frames, recorded, launched) = spoken(&prepared, |talker| assert!(pieces(talker) > 3));
    assert_eq!(frames, plain);
    assert_eq!(recorded, 0, "graphs recorded when they were needed");
    assert_eq!(launched, 0, "prompts beside frames are graphs, too");
    assert_eq!(prepared.take_gpu_fallbacks(), [""; 0]);
}

fn heard(
    model: &SpeechModel,
    spoken: &[Vec<CodecFrame>],
    before: impl Fn(&mut omni_models::Code2Wav),
) -> (Vec<Vec<f32>>, u64) {
    let mut code2wav = model.code2wav().expect("a vocoder");
    before(&mut code2wav);
    let recorded = graphs(model);
    let mut samples = vec![Vec::new(); spoken.len()];
    for id in 0..spoken.len() as u64 {
        code2wav.open(SeqId(id), (), 0).expect("a stream opens");
    }
    for at in 0..3 {
        let batch: Vec<_> = (0..)
            .map(SeqId)
            .zip(spoken)
            .take(at + 1)
            .map(|(id, frames)| (id, &frames[2 * at..2 * at + 2]))
            .collect();
        let out = code2wav.decode(&batch).expect("frames decode");
        samples
            .iter_mut()
            .zip(out)
            .for_each(|(all, part)| all.extend(part.expect("samples")));
        if at == 1 {
            before(&mut code2wav);
        }
    }
    (samples, graphs(model) - recorded)
}

#[test]
fn samples_are_the_same_to_the_last_bit_and_their_graphs_are_there() {
    let codes = |i: u32, f: u32| {
        (0..16)
            .map(|q| (7 * f + 3 * q + 11 * i) % 64)
            .collect::<Vec<u32>>()
    };
    let stream = |i| frames(&(0..6).map(|f| codes(i, f)).collect::<Vec<_>>());
    let spoken: Vec<Vec<CodecFrame>> = (0..3).map(stream).collect();
    let (plain, _) = heard(&model(true), &spoken, |_| {});
    let prepared = model(true);
    let pieces = |code2wav: &mut omni_models::Code2Wav| {
        prepare(|nth| code2wav.prepare(nth, BOUNDS).expect("prepared"))
    };
    let (samples, recorded) = heard(&prepared, &spoken, |code2wav| assert_eq!(pieces(code2wav), 9));
    assert_eq!(samples, plain);
    assert_eq!(recorded, 0, "graphs recorded when they were needed");
    assert_eq!(prepared.take_gpu_fallbacks(), [""; 0]);
}

fn said(model: &SpeechModel, before: impl Fn(&mut omni_models::Thinker)) -> (Vec<Vec<u32>>, u64) {
    let weights = model.load_thinker().expect("the thinker loads");
    let mut thinker = weights.thinker(kv()).expect("a thinker");
    before(&mut thinker);
    let recorded = graphs(model);
    let ids = goldens().ids("text.input_ids");
    let request = |seed| ThinkerRequest {
        sampling: TextSampling {
            temperature: 0.8,
            top_p: 0.9,
            ..TextSampling::default()
        },
        seed,
        ..ask(tokens(&ids))
    };
    let mut replies: Vec<Reply> = (0..u64::from(SEQS))
        .map(|id| thinker_support::open(&mut thinker, id, request(id), 7))
        .collect();
    for round in 1.. {
        let mut live: Vec<&mut Reply> = replies.iter_mut().take(round).filter(|r| !r.done).collect();
        if live.is_empty() {
            break;
        }
        thinker_support::step(&mut thinker, &mut live, u32::MAX);
        if round == 4 {
            before(&mut thinker);
        }
    }
    (replies.iter().map(Reply::ids).collect(), graphs(model) - recorded)
}

#[test]
fn tokens_are_the_same_and_their_graphs_are_there() {
    let (plain, _) = said(&model(true), |_| {});
    let prepared = model(true);
    let pieces =
        |thinker: &mut omni_models::Thinker| prepare(|nth| thinker.prepare(nth, SEQS).expect("prepared"));
    let (tokens, recorded) = said(&prepared, |thinker| assert!(pieces(thinker) > 3));
    assert_eq!(tokens, plain);
    assert_eq!(recorded, 0, "graphs recorded when they were needed");
    assert_eq!(prepared.take_gpu_fallbacks(), [""; 0]);
}

#[test]
fn where_nothing_is_recorded_nothing_is_prepared() {
    for model in [model(false), load(Kernels::Auto, DType::F32)] {
        let mut talker = model.talker(kv()).expect("a talker");
        assert!(!talker.prepare(0, SEQS).expect("nothing to do"));
        let mut code2wav = model.code2wav().expect("a vocoder");
        assert!(!code2wav.prepare(0, BOUNDS).expect("nothing to do"));
        let weights = model.load_thinker().expect("the thinker loads");
        let mut thinker = weights.thinker(kv()).expect("a thinker");
        assert!(!thinker.prepare(0, SEQS).expect("nothing to do"));
    }
}
