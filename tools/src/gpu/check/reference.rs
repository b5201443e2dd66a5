//! Equality with the reference implementation: the tiny checkpoint, and sentences of the embedded voice.

use omni_models::SpeechModel;
use omni_models::testing::{Heard, Prompted, embedded_cases, kv, tiny_prompt};

use super::margin::same_frames;
use super::voice::{long_cache, say};
use super::{Case, References};
use crate::gpu::judge::Judge;
use crate::gpu::models::{By, Models, Which};

/// Tolerance of numbers against the reference's, which computes in another order: as in the tests of the processor.
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
                    let prompted = tiny_prompt(&g, name, speaker);
                    let heard = Heard::of(&model, &prompted)?;
                    let groups = model.limits().code_groups as usize;
                    let codes = [heard.codes, g.ids(&format!("{name}.codes"))];
                    let [got, expected] = codes.map(|codes| by_frame(&codes, groups));
                    let processor = || models.get(Which::Tiny, By::Cpu);
                    same_frames(judge, (&got, &expected), &prompted, kv(), processor);
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
                sentence(models, &model, number, &references, judge)
            },
        ));
    }
    cases
}

fn by_frame(codes: &[u32], groups: usize) -> Vec<Vec<u32>> {
    codes.chunks(groups).map(<[u32]>::to_vec).collect()
}

fn sentence(
    models: &Models,
    model: &SpeechModel,
    number: usize,
    references: &References,
    judge: &mut Judge,
) -> anyhow::Result<()> {
    let mut cases = embedded_cases(model, &references.voice, references.sentences);
    anyhow::ensure!(number < cases.len(), "there are {} sentences", cases.len());
    let case = cases.swap_remove(number);
    let said = say(model, long_cache(1), case.request.clone(), &case.text)?;
    let expected = by_frame(&case.codes, model.limits().code_groups as usize);
    let prompted = Prompted {
        request: case.request,
        text: case.text,
    };
    let processor = || models.get(Which::Embedded, By::Cpu);
    same_frames(
        judge,
        (&said.codes, &expected),
        &prompted,
        long_cache(1),
        processor,
    );
    judge.near("samples", &said.wav, &case.wav, TOLERANCE);
    Ok(())
}
