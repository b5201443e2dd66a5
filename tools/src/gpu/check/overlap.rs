//! Steps queued before the previous one is waited for equal steps in turn.

use std::collections::BTreeMap;

use omni_engine::{AddOptions, ArConfig, ArEngine, FinishReason, SeqEvent, SeqId, Stamp};
use omni_models::{KvOptions, SpeechModel};

use super::Case;
use super::batches::{Asked, cache, drawn, sentences};
use super::voice::long_cache;
use crate::gpu::models::{By, Which};

/// Codes of requests that join a few at each step, and the number of steps begun ahead.
fn spoken(
    model: &SpeechModel,
    kv: KvOptions,
    asked: &Asked,
    at_once: usize,
    overlaps: bool,
) -> anyhow::Result<(Vec<u32>, u32)> {
    let now = Stamp::default();
    let mut engine = ArEngine::new(model.talker(kv)?, ArConfig::default());
    let mut codes = BTreeMap::<SeqId, Vec<u32>>::new();
    let mut joining = (0..).map(SeqId).zip(asked);
    let mut ahead = 0;
    loop {
        for (seq, (request, text)) in joining.by_ref().take(at_once) {
            let options = AddOptions {
                needs_rows: true,
                max_outputs: request.max_frames,
                ..AddOptions::default()
            };
            engine.add(seq, request.clone(), options, now)?;
            engine.push(seq, text.clone(), true);
        }
        if !engine.has_work() {
            return Ok((codes.into_values().flatten().collect(), ahead));
        }
        if !engine.is_under_way() {
            engine.begin_step(now);
        }
        ahead += u32::from(overlaps && engine.begin_step_ahead(now, |_| true));
        for event in engine.end_step(|| now).events {
            match event {
                SeqEvent::Output { seq, item } => codes.entry(seq).or_default().extend(&item.0),
                SeqEvent::Finished {
                    reason: FinishReason::Error(reason),
                    ..
                } => anyhow::bail!(reason),
                _ => {}
            }
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    [
        ("tiny checkpoint, 8 drawn, f32", Which::Tiny, By::Graphs),
        ("tiny checkpoint, 4 drawn, bf16", Which::Tiny, By::Halves),
        ("embedded voice, 2 drawn, f32", Which::Embedded, By::Graphs),
    ]
    .map(|(what, which, by)| {
        Case::new(
            format!("overlap: {what}, as steps in turn"),
            move |models, judge| {
                let model = models.get(which, by)?;
                let (kv, asked, at_once) = match (which, by) {
                    (Which::Embedded, _) => (long_cache(8), sentences(&model)?, 1),
                    // In bf16 a sequence's bits depend on the others of its step, if that has more than eight rows:
                    // prompts are computed together.
                    (_, By::Halves) => (cache(4), drawn(4), 4),
                    _ => (cache(8), drawn(8), 1),
                };
                let (codes, ahead) = spoken(&model, kv, &asked, at_once, true)?;
                judge.must(format!("{ahead} steps begun ahead"), ahead > 0);
                let (in_turn, _) = spoken(&model, kv, &asked, at_once, false)?;
                judge.same("codes", &codes, &in_turn);
                Ok(())
            },
        )
    })
    .into()
}
