//! Text and audio input of a thinker on the device.

use omni_engine::Sequences as _;
use omni_models::KvOptions;
use omni_models::testing::{
    Goldens, Reply, ThinkerCase, ask, audio_prompt, kv, say, text_tokens, thinker_cases,
};

use super::margin::same_tokens;
use super::reference::TOLERANCE;
use super::{Case, References};
use crate::gpu::judge::Judge;
use crate::gpu::models::{By, Models, Which};

pub(super) fn cases(references: &References) -> Vec<Case> {
    let mut cases = Vec::new();
    for name in ["text", "audio"] {
        let g = references.tiny.clone();
        cases.push(Case::new(
            format!("thinker: tiny checkpoint, {name} prompt, f32 in graphs, as the reference"),
            move |models, judge| tiny(models, &g, name, judge),
        ));
    }
    let g = references.tiny.clone();
    cases.push(Case::new(
        "thinker: tiny checkpoint, what the audio encoder hears, f32, as the reference",
        move |models, judge| {
            let encoder = models.get(Which::Tiny, By::Graphs)?.load_audio_encoder()?;
            let rows = encoder.encode(&g.floats("audio.wav16k"))?;
            judge.near("rows", &rows, &g.floats("audio.embeds_windowed"), TOLERANCE);
            Ok(())
        },
    ));
    let (answers, tolerance) = thinker_cases(references.thinker);
    for case in answers {
        let shown: String = case.text.chars().take(24).collect();
        cases.push(Case::new(
            format!("thinker: embedded, {shown:?}, f32 in graphs, as the reference"),
            move |models, judge| embedded(models, &case, tolerance, judge),
        ));
    }
    cases
}

fn tiny(models: &Models, g: &Goldens, name: &str, judge: &mut Judge) -> anyhow::Result<()> {
    let model = models.get(Which::Tiny, By::Graphs)?;
    let mut thinker = model.load_thinker()?.thinker(kv())?;
    let prompt = match name {
        "audio" => audio_prompt(g),
        _ => text_tokens(&g.ids(&format!("{name}.input_ids"))),
    };
    let expected = g.ids(&format!("{name}.gen_ids"));
    let reply = say(&mut thinker, 1, ask(prompt.clone()), expected.len(), u32::MAX)?;
    let processor = || models.get(Which::Tiny, By::Cpu);
    same_tokens(judge, (&reply.ids(), &expected), ask(prompt), kv(), processor)
}

fn embedded(models: &Models, case: &ThinkerCase, tolerance: f32, judge: &mut Judge) -> anyhow::Result<()> {
    let model = models.get(Which::Embedded, By::Graphs)?;
    let mut thinker = model.load_thinker()?.thinker(KvOptions::default())?;
    let mut request = ask(text_tokens(&case.prompt));
    request.stop = vec![case.stop];
    let mut reply = Reply::open(&mut thinker, 1, request.clone(), case.answer.len() + 1)?;
    let mut logits = Vec::new();
    let mut expected = Vec::new();
    while !reply.done {
        Reply::advance(&mut thinker, &mut [&mut reply], u32::MAX)?;
        let golden = case
            .logits
            .iter()
            .find(|(computed, _)| *computed == reply.computed);
        if let Some((_, values)) = golden {
            logits.extend(thinker.logits(reply.seq).unwrap_or_default());
            expected.extend(values);
        }
    }
    thinker.close(reply.seq);
    let processor = || models.get(Which::Embedded, By::Cpu);
    let kv = KvOptions::default();
    same_tokens(judge, (&reply.ids(), &case.answer), request, kv, processor)?;
    judge.near("logits", &logits, &expected, tolerance);
    Ok(())
}
