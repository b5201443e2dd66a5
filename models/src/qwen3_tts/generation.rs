//! `generation_config.json` of Qwen3-TTS: the talker's fields have no prefix, the code predictor's are `subtalker_*`.

use omni_backend::sampling::{Sampling, TextSampling};
use serde::Deserialize;

use crate::checkpoint::LoadError;
use crate::config::{GenerationDefaults, generation_json};

/// Least frames of speech, as in the reference implementation.
const MIN_FRAMES: u32 = 2;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    do_sample: Option<bool>,
    temperature: Option<f32>,
    top_k: Option<u32>,
    top_p: Option<f32>,
    repetition_penalty: Option<f32>,
    min_new_tokens: Option<u32>,
    max_new_tokens: Option<u32>,
    subtalker_dosample: Option<bool>,
    subtalker_temperature: Option<f32>,
    subtalker_top_k: Option<u32>,
    subtalker_top_p: Option<f32>,
}

/// Reads the file's content; absent fields (or an absent file) take the reference implementation's defaults.
pub(crate) fn defaults(json: Option<&[u8]>) -> Result<GenerationDefaults, LoadError> {
    let raw: Raw = generation_json(json)?;
    let talker = Sampling {
        temperature: raw.temperature.unwrap_or(0.9),
        top_k: raw.top_k.unwrap_or(50),
        top_p: raw.top_p.unwrap_or(1.0),
        repetition_penalty: raw.repetition_penalty.unwrap_or(1.05),
        min_tokens: raw.min_new_tokens.unwrap_or(MIN_FRAMES),
    };
    let predictor = Sampling {
        temperature: raw.subtalker_temperature.unwrap_or(0.9),
        top_k: raw.subtalker_top_k.unwrap_or(50),
        top_p: raw.subtalker_top_p.unwrap_or(1.0),
        repetition_penalty: 1.0,
        min_tokens: 0,
    };
    let greedy = |sample: Option<bool>, own: Sampling| match sample {
        Some(false) => own.greedy(),
        _ => own,
    };
    let defaults = GenerationDefaults {
        talker: greedy(raw.do_sample, talker),
        predictor: greedy(raw.subtalker_dosample, predictor),
        max_frames: raw.max_new_tokens.unwrap_or(2048),
        // There is no thinker.
        thinker: TextSampling::default(),
        max_tokens: 0,
    };
    defaults.check()?;
    Ok(defaults)
}
