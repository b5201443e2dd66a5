//! `generation_config.json`: how a checkpoint wants to be sampled when a request does not say.

use omni_backend::sampling::{Sampling, TextSampling};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::checkpoint::{LoadError, Problem};

const FILE: &str = "generation_config.json";

/// Sampling defaults of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationDefaults {
    /// The first code of a frame.
    pub talker: Sampling,
    /// The other codes of a frame.
    pub predictor: Sampling,
    /// Longest speech, in codec frames.
    pub max_frames: u32,
    /// The thinker's tokens.
    pub thinker: TextSampling,
    /// Longest reply, in text tokens.
    pub max_tokens: u32,
}

/// Talker fields as published; `subtalker_*` as in the Qwen3-TTS checkpoints, where the predictor has settings too
/// (the published Qwen3-Omni has none); `thinker_*` as the reference implementation's `generate` names its arguments.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    talker_do_sample: Option<bool>,
    talker_temperature: Option<f32>,
    talker_top_k: Option<u32>,
    talker_top_p: Option<f32>,
    talker_repetition_penalty: Option<f32>,
    talker_min_new_tokens: Option<u32>,
    talker_max_new_tokens: Option<u32>,
    subtalker_dosample: Option<bool>,
    subtalker_temperature: Option<f32>,
    subtalker_top_k: Option<u32>,
    subtalker_top_p: Option<f32>,
    thinker_do_sample: Option<bool>,
    thinker_temperature: Option<f32>,
    thinker_top_k: Option<u32>,
    thinker_top_p: Option<f32>,
    thinker_repetition_penalty: Option<f32>,
    thinker_min_new_tokens: Option<u32>,
    thinker_max_new_tokens: Option<u32>,
}

/// The file's content, nothing of an absent file.
pub(crate) fn parse_json<T: Default + DeserializeOwned>(json: Option<&[u8]>) -> Result<T, LoadError> {
    let Some(json) = json else {
        return Ok(T::default());
    };
    serde_json::from_slice(json).map_err(|e| {
        LoadError::one(Problem::Malformed {
            file: FILE.into(),
            reason: e.to_string(),
        })
    })
}

impl GenerationDefaults {
    /// Reads the file's content; absent fields (or an absent file) take the reference implementation's defaults.
    pub(crate) fn parse(json: Option<&[u8]>) -> Result<Self, LoadError> {
        let raw: Raw = parse_json(json)?;
        let talker = Sampling {
            temperature: raw.talker_temperature.unwrap_or(0.9),
            top_k: raw.talker_top_k.unwrap_or(50),
            top_p: raw.talker_top_p.unwrap_or(1.0),
            repetition_penalty: raw.talker_repetition_penalty.unwrap_or(1.05),
            min_tokens: raw.talker_min_new_tokens.unwrap_or(0),
        };
        // The reference implementation fixes these for the published model and reads them nowhere.
        let predictor = Sampling {
            temperature: raw.subtalker_temperature.unwrap_or(1.0),
            top_k: raw.subtalker_top_k.unwrap_or(50),
            top_p: raw.subtalker_top_p.unwrap_or(0.8),
            repetition_penalty: 1.0,
            min_tokens: 0,
        };
        // Greedy unless told otherwise, as in the reference implementation.
        let sampled = raw.thinker_do_sample.unwrap_or(raw.thinker_temperature.is_some());
        let thinker = TextSampling {
            temperature: if sampled {
                raw.thinker_temperature.unwrap_or(1.0)
            } else {
                0.0
            },
            top_k: raw.thinker_top_k.unwrap_or(0),
            top_p: raw.thinker_top_p.unwrap_or(1.0),
            repetition_penalty: raw.thinker_repetition_penalty.unwrap_or(1.0),
            min_tokens: raw.thinker_min_new_tokens.unwrap_or(0),
            ..TextSampling::default()
        };
        let defaults = Self {
            talker: if raw.talker_do_sample == Some(false) {
                talker.greedy()
            } else {
                talker
            },
            predictor: if raw.subtalker_dosample == Some(false) {
                predictor.greedy()
            } else {
                predictor
            },
            max_frames: raw.talker_max_new_tokens.unwrap_or(4096),
            thinker,
            max_tokens: raw.thinker_max_new_tokens.unwrap_or(1024),
        };
        defaults.check()?;
        Ok(defaults)
    }

    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let sampling = [
            ("talker", self.talker.validate()),
            ("subtalker", self.predictor.validate()),
            ("thinker", self.thinker.validate()),
        ];
        let wrong = sampling
            .into_iter()
            .filter_map(|(field, checked)| Some((field, checked.err()?)));
        let problem = |(field, e): (&str, _)| Problem::Config {
            file: FILE.into(),
            field: format!("{field}_*"),
            reason: format!("{e}"),
        };
        LoadError::unless_empty(wrong.map(problem).collect())
    }
}
