//! The same as the reference implementation: the tiny checkpoint, and sentences of the embedded voice.

use omni_models::testing::{Heard, embedded_cases, tiny_prompt};
use omni_models::{KvOptions, SpeechModel};

use super::voice::{long_cache, say};
use super::{Case, References};
use crate::gpu::judge::Judge;
use crate::gpu::models::{By, Which};

/// How far numbers may be from the reference's, which computes in another order: as in the tests of the processor.
pub(super) const TOLERANCE: f32 = 1e-4;

pub(super) fn cases(references: &References) -> Vec<Case> {
    let mut cases = Vec::new();
    for (by, how) in [(By::Graphs, "in graphs"), (By::Launches, "launched")] {
        for (name, speaker) in [("text", "Ethan"), ("audio", "chelsie")] {
            let g = references.tiny.clone();
            cases.push(Case::new(
                format!("reference: tiny checkpoint, {name} prompt, f32 {how}"),
                move |models, judge| {
                    let model = models.get(Which::Tiny, by)?;
                    let heard = Heard::of(&model, &tiny_prompt(&g, name, speaker))?;
                    judge.same("codes", &heard.codes, &g.ids(&format!("{name}.codes")));
                    for (what, part, got) in [
                        ("prompt", "talker.prefill_embeds", &heard.prompt),
                        ("logits", "talker.logits", &heard.logits),
                        ("hidden states", "talker.hidden", &heard.hidden),
                        ("rows", "talker.step_embeds", &heard.inputs),
                        ("samples", "wav", &heard.wav),
                    ] {
                        judge.near(what, got, &g.floats(&format!("{name}.{part}")), TOLERANCE);
                    }
                    Ok(())
                },
            ));
        }
    }
    for number in 0..3 {
        let references = references.clone();
        cases.push(Case::new(
            format!("reference: embedded voice, sentence {number}, f32 in graphs"),
            move |models, judge| {
                let model = models.get(Which::Embedded, By::Graphs)?;
                sentence(&model, long_cache(1), number, &references, judge)
            },
        ));
    }
    cases
}

fn sentence(
    model: &SpeechModel,
    kv: KvOptions,
    number: usize,
    references: &References,
    judge: &mut Judge,
) -> anyhow::Result<()> {
    let mut cases = embedded_cases(model, &references.voice, references.sentences);
    anyhow::ensure!(number < cases.len(), "there are {} sentences", cases.len());
    let case = cases.swap_remove(number);
    let said = say(model, kv, case.request, &case.text)?;
    judge.same("codes", &said.codes.concat(), &case.codes);
    judge.near("samples", &said.wav, &case.wav, TOLERANCE);
    Ok(())
}
