//! Sequences in a batch equal single ones, graphs equal separate launches, and sampled codes are equal everywhere.
//!
//! With up to eight rows a row is bit-identical in any batch; with more, products add in another order, and the codes
//! must still be equal.

use std::rc::Rc;

use omni_engine::{CodecFrame, SeqId, Sequences as _};
use omni_models::testing::{Run, decode_together, frames, greedy, kv, sampled, speak, speak_together, step};
use omni_models::{KvOptions, SpeechModel, TalkerRequest};

use super::Case;
use super::reference::TOLERANCE;
use super::voice::{long_cache, request};
use crate::gpu::judge::Judge;
use crate::gpu::models::{By, Which};

pub(super) type Asked = Vec<(TalkerRequest, Vec<u32>)>;

/// Requests to the tiny checkpoint, of different lengths, seeds and texts.
pub(super) fn drawn(count: u32) -> Asked {
    let text: Vec<u32> = (40..60).collect();
    let one = |i: u32| (sampled(i.into(), 3 + i * 5 % 11), text[i as usize % 8..].to_vec());
    (0..count).map(one).collect()
}

/// As above, but greedy: no draw is decided by a rounding.
fn likely(count: u32) -> Asked {
    let mut asked = drawn(count);
    for (i, (request, _)) in asked.iter_mut().enumerate() {
        request.talker = greedy();
        request.predictor = request.predictor.greedy();
        // Prompts of their own.
        request.user.truncate(i % 7);
    }
    asked
}

/// Cache for `sequences` sequences.
pub(super) fn cache(sequences: u32) -> KvOptions {
    KvOptions {
        num_blocks: 1 + sequences.max(8) * 16,
        ..kv()
    }
}

/// Codes and samples of requests that join one after another, decoded two frames at a time.
fn together(model: &SpeechModel, kv: KvOptions, asked: &Asked) -> anyhow::Result<(Vec<u32>, Vec<f32>)> {
    let spoken = speak_together(&mut model.talker(kv)?, asked)?;
    let streams: Vec<Vec<CodecFrame>> = spoken.iter().map(|codes| frames(codes)).collect();
    let samples = decode_together(&mut model.code2wav()?, &streams, 2)?;
    Ok((spoken.concat().concat(), samples.concat()))
}

fn each_alone(model: &SpeechModel, kv: KvOptions, asked: &Asked) -> anyhow::Result<(Vec<u32>, Vec<f32>)> {
    let mut talker = model.talker(kv)?;
    let mut code2wav = model.code2wav()?;
    let mut codes = Vec::new();
    let mut samples = Vec::new();
    for (request, text) in asked {
        let spoken = speak(&mut talker, 0, request.clone(), text)?;
        samples.extend(decode_together(&mut code2wav, &[frames(&spoken)], 2)?.concat());
        codes.extend(spoken.concat());
    }
    Ok((codes, samples))
}

/// Logits and hidden states of every frame, of sequences whose prompts were computed one by one and whose frames
/// together (or one by one, too), sequence by sequence.
fn states(model: &SpeechModel, asked: &Asked, side_by_side: bool) -> anyhow::Result<Vec<f32>> {
    let mut talker = model.talker(cache(8))?;
    let mut runs = Vec::new();
    for (id, (request, text)) in (0..).zip(asked) {
        runs.push(Run::open(&mut talker, id, request.clone(), text)?);
    }
    let mut states = vec![Vec::new(); runs.len()];
    for run in &mut runs {
        step(&mut talker, &mut [run], u32::MAX)?;
    }
    let look = |talker: &omni_models::Talker, run: &Run, states: &mut Vec<f32>| {
        states.extend(talker.logits(run.seq).unwrap_or_default());
        states.extend(talker.hidden(run.seq).unwrap_or_default());
    };
    for _ in 0..4 {
        if side_by_side {
            step(&mut talker, &mut runs.iter_mut().collect::<Vec<_>>(), u32::MAX)?;
            runs.iter()
                .zip(&mut states)
                .for_each(|(run, states)| look(&talker, run, states));
        } else {
            for (run, states) in runs.iter_mut().zip(&mut states) {
                step(&mut talker, &mut [run], u32::MAX)?;
                look(&talker, run, states);
            }
        }
    }
    runs.iter().for_each(|run| talker.close(SeqId(run.seq.0)));
    Ok(states.concat())
}

/// Long enough not to end within the steps above.
fn endless(count: u32) -> Asked {
    let mut asked = drawn(count);
    for (request, _) in &mut asked {
        request.max_frames = 100;
        request.talker.min_tokens = 100;
    }
    asked
}

/// Two sentences of the embedded voice, drawn.
pub(super) fn sentences(model: &SpeechModel) -> anyhow::Result<Asked> {
    let mut asked = Vec::new();
    for (voice, sentence, seed) in [
        ("aria", "good morning.", 1),
        ("basil", "nothing to worry about.", 2),
    ] {
        let (mut request, text) = request(model, voice, sentence)?;
        request.talker = model.defaults().talker;
        request.predictor = model.defaults().predictor;
        request.seed = seed;
        asked.push((request, text));
    }
    Ok(asked)
}

fn compare(
    judge: &mut Judge,
    (codes, samples): &(Vec<u32>, Vec<f32>),
    (expected, wav): &(Vec<u32>, Vec<f32>),
    bits: bool,
) {
    judge.same("codes", codes, expected);
    if bits {
        judge.same_bits("samples", samples, wav);
    } else {
        judge.near("samples", samples, wav, TOLERANCE);
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(
            "graphs: tiny checkpoint, 5 drawn, f32, graphs as launches",
            |models, judge| {
                let both = [By::Graphs, By::Launches].map(|by| {
                    let model = models.get(Which::Tiny, by)?;
                    together(&model, cache(5), &drawn(5))
                });
                let [graphs, launches] = both;
                compare(judge, &graphs?, &launches?, true);
                Ok(())
            },
        ),
        Case::new(
            "graphs: embedded voice, 2 drawn, f32, graphs as launches",
            |models, judge| {
                let both = [By::Graphs, By::Launches].map(|by| {
                    let model = models.get(Which::Embedded, by)?;
                    together(&model, long_cache(8), &sentences(&model)?)
                });
                let [graphs, launches] = both;
                compare(judge, &graphs?, &launches?, true);
                Ok(())
            },
        ),
        Case::new(
            "processor and device: tiny checkpoint, 8 drawn, f32 in graphs",
            |models, judge| {
                let both = [By::Graphs, By::Cpu].map(|by| {
                    let model = models.get(Which::Tiny, by)?;
                    together(&model, cache(8), &drawn(8))
                });
                let [device, own] = both;
                compare(judge, &device?, &own?, false);
                Ok(())
            },
        ),
    ];
    // The predictor's first pass has two rows per sequence. In f32 many rows are added up as few are.
    for (count, by, format) in [
        (2, By::Graphs, "f32"),
        (8, By::Graphs, "f32"),
        (2, By::Halves, "bf16"),
        (4, By::Halves, "bf16"),
    ] {
        cases.push(Case::new(
            format!("batch of {count}: tiny checkpoint, {format}, talker's states as alone"),
            move |models, judge| {
                let model = models.get(Which::Tiny, by)?;
                let asked = endless(count);
                let alone = states(&model, &asked, false)?;
                judge.same_bits("logits and hidden states", &states(&model, &asked, true)?, &alone);
                Ok(())
            },
        ));
    }
    for count in [2, 8, 32, 64] {
        cases.push(Case::new(
            format!("batch of {count}: tiny checkpoint, greedy, f32, as alone"),
            move |models, judge| {
                let model = models.get(Which::Tiny, By::Graphs)?;
                let asked = likely(count);
                let alone = each_alone(&model, cache(count), &asked)?;
                compare(judge, &together(&model, cache(count), &asked)?, &alone, false);
                Ok(())
            },
        ));
    }
    for count in [8, 64] {
        cases.push(Case::new(
            format!("batch of {count}: embedded voice, greedy, f32, as alone"),
            move |models, judge| {
                let model = models.get(Which::Embedded, By::Graphs)?;
                let asked = greedy_sentences(&model, count)?;
                let alone = each_alone(&model, long_cache(8), &asked[..asked.len().min(6)].to_vec())?;
                let spoken = speak_together(&mut Rc::clone(&model).talker(long_cache(count))?, &asked)?;
                let repeated = |i: usize| spoken[i % spoken.len()].concat();
                let got: Vec<u32> = (0..6).flat_map(repeated).collect();
                judge.same("codes", &got, &alone.0);
                // The rest repeat the first six, later and in another batch.
                let again: Vec<u32> = spoken.iter().flat_map(|codes| codes.concat()).collect();
                let expected: Vec<u32> = (0..spoken.len()).flat_map(|i| repeated(i % 6)).collect();
                judge.same("codes of all", &again, &expected);
                Ok(())
            },
        ));
    }
    cases
}

/// Six requests over and over.
fn greedy_sentences(model: &SpeechModel, count: u32) -> anyhow::Result<Asked> {
    let texts = ["yes.", "good morning.", "thank you."];
    let one = |i: u32| {
        let voice = if i % 6 < 3 { "aria" } else { "basil" };
        request(model, voice, texts[i as usize % 3])
    };
    (0..count).map(one).collect()
}
