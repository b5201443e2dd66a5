//! Replicas that compute at the same time in queues of their own, which the sequential emulator cannot test.

use omni_models::SpeechModel;
use omni_models::testing::{decode, frames, kv, sampled, speak};

use super::Case;
use crate::gpu::models::{By, Which};

/// Replicas at work.
const REPLICAS: u64 = 4;
/// Frames that each makes, one request after another.
const FRAMES: u32 = 12;

/// Codes and samples of one replica.
fn work(model: &SpeechModel, replica: u64) -> Result<(Vec<u32>, Vec<f32>), omni_engine::ModelError> {
    let mut talker = model.talker(kv())?;
    let mut code2wav = model.code2wav()?;
    let text: Vec<u32> = (40..60).collect();
    let mut codes = Vec::new();
    let mut wav = Vec::new();
    for round in 0..2 {
        let spoken = speak(&mut talker, round, sampled(10 * replica + round, FRAMES), &text)?;
        wav.extend(decode(&mut code2wav, round, &frames(&spoken), &[1, 2, 4])?);
        codes.extend(spoken.concat());
    }
    Ok((codes, wav))
}

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new(
        format!("queues: tiny checkpoint, {REPLICAS} replicas at once, f32 in graphs, as one by one"),
        |models, judge| {
            let model = models.get(Which::Tiny, By::Graphs)?;
            let mut expected = Vec::new();
            for replica in 0..REPLICAS {
                expected.push(work(&model, replica)?);
            }
            let model: &SpeechModel = &model;
            let got: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..REPLICAS)
                    .map(|replica| scope.spawn(move || work(model, replica)))
                    .collect();
                threads.into_iter().map(|thread| thread.join()).collect()
            });
            for (got, (codes, wav)) in got.into_iter().zip(&expected) {
                let (got_codes, got_wav) =
                    got.map_err(|_| anyhow::anyhow!("a replica's thread panicked"))??;
                judge.same("codes", &got_codes, codes);
                judge.same_bits("samples", &got_wav, wav);
            }
            Ok(())
        },
    )]
}
