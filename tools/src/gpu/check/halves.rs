//! bf16 is close to f32.
//!
//! The bounds are wide: they must find a kernel that is wrong in bf16 alone, which is off by far more than roundings.

use omni_engine::SeqId;
use omni_models::SpeechModel;
use omni_models::testing::{Run, codes_by_frame, decode, embedded_cases, frames, kv, request, step, tokens};

use super::voice::{RAMP, long_cache, say};
use super::{Case, References};
use crate::gpu::models::{By, Which};

/// Bound for the tiny checkpoint's logits, relative.
const TINY_LOGITS: f32 = 0.05;
/// Bound for its samples: the random vocoder amplifies roundings, and clips.
const TINY_SAMPLES: f32 = 1.0;

/// Logits behind a prompt of the tiny checkpoint's, and a waveform.
fn tiny(model: &SpeechModel, codes: &[Vec<u32>]) -> anyhow::Result<(Vec<f32>, Vec<f32>)> {
    let mut talker = model.talker(kv())?;
    let asked = request(tokens(&[276, 263, 10, 65, 277, 10]), "ethan", 5);
    let mut run = Run::open(&mut talker, 1, asked, &[30, 31, 32])?;
    step(&mut talker, &mut [&mut run], u32::MAX)?;
    let logits = talker.logits(SeqId(1)).unwrap_or_default();
    let wav = decode(&mut model.code2wav()?, 1, &frames(codes), &RAMP)?;
    Ok((logits, wav))
}

/// Bound for the embedded talker's logits, while both have equal codes, relative.
const VOICE_LOGITS: f32 = 0.05;
/// Bound for the embedded vocoder's samples for the reference's codes, relative.
const VOICE_SAMPLES: f32 = 0.1;
/// Frames that are compared, most.
const FRAMES: usize = 24;

/// Codes and logits of the first frames.
fn beginning(
    model: &SpeechModel,
    asked: &omni_models::TalkerRequest,
    text: &[u32],
) -> anyhow::Result<Vec<(Vec<u32>, Vec<f32>)>> {
    let mut talker = model.talker(long_cache(1))?;
    let mut run = Run::open_among(1, &mut talker, 0, asked.clone(), text)?;
    let mut frames = Vec::new();
    while !run.done && frames.len() < FRAMES {
        step(&mut talker, &mut [&mut run], u32::MAX)?;
        let codes = run.frames.last().cloned().unwrap_or_default();
        frames.push((codes, talker.logits(run.seq).unwrap_or_default()));
    }
    Ok(frames)
}

pub(super) fn cases(references: &References) -> Vec<Case> {
    let g = references.tiny.clone();
    let voice = references.clone();
    vec![
        Case::new(
            "bf16: tiny checkpoint beside f32 on the processor",
            move |models, judge| {
                let codes = codes_by_frame(&g)[..4].to_vec();
                let (logits, wav) = tiny(&*models.get(Which::Tiny, By::Halves)?, &codes)?;
                let (expected, own) = tiny(&*models.get(Which::Tiny, By::Cpu)?, &codes)?;
                judge.like("logits", &logits, &expected, TINY_LOGITS);
                judge.like("samples", &wav, &own, TINY_SAMPLES);
                Ok(())
            },
        ),
        Case::new(
            "bf16: embedded voice beside f32 on the processor",
            move |models, judge| {
                let own = models.get(Which::Embedded, By::Cpu)?;
                let device = models.get(Which::Embedded, By::Halves)?;
                let case = embedded_cases(&own, &voice.voice, voice.sentences).swap_remove(0);
                let expected = beginning(&own, &case.request, &case.text)?;
                let got = beginning(&device, &case.request, &case.text)?;
                let alike = got
                    .iter()
                    .zip(&expected)
                    .take_while(|((g, _), (e, _))| g == e)
                    .count();
                // The first differing frame was chosen by logits of the same past.
                let common = (alike + 1).min(got.len()).min(expected.len());
                let logits = |frames: &[(Vec<u32>, Vec<f32>)]| -> Vec<f32> {
                    frames[..common]
                        .iter()
                        .flat_map(|(_, logits)| logits.clone())
                        .collect()
                };
                judge.like("logits", &logits(&got), &logits(&expected), VOICE_LOGITS);
                judge.must(
                    format!("{alike} of {} frames until codes differ", expected.len()),
                    true,
                );
                let codes = expected
                    .iter()
                    .map(|(codes, _)| codes.clone())
                    .filter(|codes| !codes.is_empty());
                let codes = frames(&codes.collect::<Vec<_>>());
                let wav = decode(&mut device.code2wav()?, 0, &codes, &RAMP)?;
                let own = decode(&mut own.code2wav()?, 0, &codes, &RAMP)?;
                judge.like("samples", &wav, &own, VOICE_SAMPLES);
                Ok(())
            },
        ),
        Case::new("bf16: embedded voice ends its sentence", |models, judge| {
            let model = models.get(Which::Embedded, By::Halves)?;
            let (asked, text) = super::voice::request(&model, "aria", "good morning.")?;
            let most = asked.max_frames as usize;
            let said = say(&model, long_cache(1), asked, &text)?;
            let finite = said.wav.iter().all(|v| v.is_finite());
            judge.must(
                format!("{} frames, fewer than {most}", said.codes.len()),
                said.codes.len() < most,
            );
            judge.must("all samples are numbers", finite && !said.wav.is_empty());
            Ok(())
        }),
    ]
}
