//! The published shapes, with random weights: what only shows at that size. Too large for the emulator.

use std::time::Duration;

use omni_models::testing::{Run, decode_together, frames, request, speak_together, step, tokens};
use omni_models::{KvOptions, SpeechModel, TalkerRequest};

use super::Case;
use super::voice::RAMP;
use crate::gpu::bench::PUBLISHED;
use crate::gpu::models::{By, Place, Which};

/// Relative error of logits in f32, which are added up in another order.
const LOGITS: f32 = 1e-3;
/// Bound in bf16, where rows may go to other experts; unrelated logits differ by 1.4.
const HALF_LOGITS: f32 = 0.5;
/// Reading all weights of the largest on the processor, in f32, takes its time.
const NEED: Duration = Duration::from_secs(150);
const FRAMES: u32 = 6;

pub(super) fn cases(place: Place) -> Vec<Case> {
    match place {
        Place::Device(_) => {
            let graphs = PUBLISHED.into_iter().map(as_launches);
            graphs
                .chain(PUBLISHED.into_iter().map(beside_processor))
                .collect()
        }
        #[cfg(feature = "emulator")]
        Place::Emulated => Vec::new(),
    }
}

fn as_launches(name: &'static str) -> Case {
    Case::new(
        format!("published shape: {name}, bf16, graphs as launches"),
        move |models, judge| {
            let both =
                [By::Halves, By::LaunchedHalves].map(|by| spoken(&*models.get(Which::Published(name), by)?));
            let [graphs, launches] = both;
            let (codes, wav) = graphs?;
            let (expected, own) = launches?;
            judge.same("codes", &codes, &expected);
            judge.same_bits("samples", &wav, &own);
            judge.must("all samples are numbers", wav.iter().all(|v| v.is_finite()));
            Ok(())
        },
    )
}

fn beside_processor(name: &'static str) -> Case {
    Case::new(
        format!("published shape: {name}, device beside f32 on the processor"),
        move |models, judge| {
            let of = |by| logits(&*models.get(Which::Published(name), by)?);
            let own = of(By::Cpu)?;
            judge.like("f32 logits", &of(By::Graphs)?, &own, LOGITS);
            judge.like("bf16 logits", &of(By::Halves)?, &own, HALF_LOGITS);
            Ok(())
        },
    )
    .needing(NEED)
    .on_request()
}

fn asked(model: &SpeechModel, seed: u64) -> anyhow::Result<(TalkerRequest, Vec<u32>)> {
    let voice = model.limits().voices.first().cloned().unwrap_or_default();
    let mut asked = request(tokens(&model.user_turn("")?), &voice, FRAMES);
    asked.talker = model.defaults().talker;
    asked.talker.min_tokens = FRAMES;
    asked.predictor = model.defaults().predictor;
    asked.seed = seed;
    Ok((asked, model.tokenizer().encode("speech out of text.")?))
}

const KV: KvOptions = KvOptions {
    block_size: 16,
    num_blocks: 1 + 8 * 16,
};

/// Codes and samples of three sequences together.
fn spoken(model: &SpeechModel) -> anyhow::Result<(Vec<u32>, Vec<f32>)> {
    let mut requests = Vec::new();
    for seed in 0..3 {
        requests.push(asked(model, seed)?);
    }
    let spoken = speak_together(&mut model.talker(KV)?, &requests)?;
    let streams: Vec<_> = spoken.iter().map(|codes| frames(codes)).collect();
    let wav = decode_together(&mut model.code2wav()?, &streams, RAMP[1])?;
    Ok((spoken.concat().concat(), wav.concat()))
}

/// Behind the prompt.
fn logits(model: &SpeechModel) -> anyhow::Result<Vec<f32>> {
    let (request, text) = asked(model, 0)?;
    let mut talker = model.talker(KV)?;
    let mut run = Run::open(&mut talker, 0, request, &text)?;
    step(&mut talker, &mut [&mut run], u32::MAX)?;
    Ok(talker.logits(run.seq).unwrap_or_default())
}
