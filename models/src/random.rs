//! Random checkpoints of known shapes: for measuring a pipeline without weights.
//!
//! In: a name such as `random:qwen3-omni-30b-a3b@7`. Out: the small files of such a checkpoint, and the list of
//! tensors that its networks request, each with a recipe of its values. No values are generated here.

mod files;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use omni_backend::DryRun;
use omni_backend::host::{Recipe, Uniform};
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError, TensorInfo};
use crate::config::{AudioConfig, PromptFormat, ThinkerConfig, VoiceSource};
use crate::family::Family;
use crate::loader::Loader;
use crate::{audio_encoder, qwen3_tts, speech, thinker_model};

/// Prefix of every name.
const PREFIX: &str = "random:";

/// Name and shapes of a model.
#[derive(Debug, PartialEq, Eq)]
struct Shapes {
    name: &'static str,
    /// The part of its `config.json` that is read.
    config: &'static str,
    /// `speech_tokenizer/config.json`, if the vocoder is separate.
    codec: Option<&'static str>,
    /// `true` if it has a thinker and an audio encoder.
    converses: bool,
    /// Frames of every sequence of speech: 5 s.
    frames: u32,
    /// Tokens per answer: about 5 s of speech.
    tokens: u32,
}

const PUBLISHED: &str = include_str!("random/qwen3-omni-30b-a3b.json");

const CODEC: &str = include_str!("random/qwen3-tts-codec.json");

static SHAPES: [Shapes; 6] = [
    Shapes {
        name: "qwen3-omni-30b-a3b",
        config: PUBLISHED,
        codec: None,
        converses: true,
        frames: 62,
        tokens: 18,
    },
    Shapes {
        name: "qwen3-omni-30b-a3b-speech",
        config: PUBLISHED,
        codec: None,
        converses: false,
        frames: 62,
        tokens: 18,
    },
    Shapes {
        name: "embedded",
        config: include_str!("random/embedded.json"),
        codec: None,
        converses: true,
        frames: 125,
        tokens: 75,
    },
    Shapes {
        name: "qwen3-tts-0.6b",
        config: include_str!("random/qwen3-tts-0.6b.json"),
        codec: Some(CODEC),
        converses: false,
        frames: 62,
        tokens: 18,
    },
    Shapes {
        name: "qwen3-tts-1.7b",
        config: include_str!("random/qwen3-tts-1.7b.json"),
        codec: Some(CODEC),
        converses: false,
        frames: 62,
        tokens: 18,
    },
    Shapes {
        name: "qwen3-tts-0.6b-base",
        config: include_str!("random/qwen3-tts-0.6b-base.json"),
        codec: Some(CODEC),
        converses: false,
        frames: 62,
        tokens: 18,
    },
];

/// The shapes of a known model and the seed of its weights, written `random:NAME` or `random:NAME@SEED`.
///
/// `qwen3-omni-30b-a3b` has the published shapes of thinker, audio encoder, talker, code predictor and code2wav,
/// `qwen3-omni-30b-a3b-speech` those of them that speaking needs, `embedded` those of the model inside the server,
/// `qwen3-tts-0.6b` and `qwen3-tts-1.7b` those of the Qwen3-TTS checkpoints with voices of their own,
/// `qwen3-tts-0.6b-base` those of the one that clones voices, its encoders included. Without a seed it is 0.
///
/// Random weights end nowhere. The checkpoint's `omni.json` says where to end instead: every sequence of speech, as a
/// rule a sentence, after 5 s; every answer after as many tokens as are said in that time (18; of the embedded shapes,
/// where a token is a letter, 75).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RandomModel {
    shapes: &'static Shapes,
    seed: u64,
}

/// Text that is not the name of a random model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RandomNameError {
    /// Nothing is called that.
    #[error("there is no {found:?}, expected one of {}", RandomModel::names().join(", "))]
    Name {
        /// The name found, without a seed.
        found: String,
    },
    /// The part behind the @ is no seed.
    #[error("the seed is {found:?}, a whole number from 0 to {} is expected", u64::MAX)]
    Seed {
        /// The text found.
        found: String,
    },
}

impl RandomModel {
    /// All there are, without a seed.
    pub fn names() -> Vec<String> {
        SHAPES.iter().map(|f| format!("{PREFIX}{}", f.name)).collect()
    }
}

impl FromStr for RandomModel {
    type Err = RandomNameError;

    fn from_str(text: &str) -> Result<Self, RandomNameError> {
        let (name, seed) = text
            .split_once('@')
            .map_or((text, None), |(name, seed)| (name, Some(seed)));
        let known = |bare: &str| SHAPES.iter().find(|f| f.name == bare);
        let shapes = name.strip_prefix(PREFIX).and_then(known);
        let shapes = shapes.ok_or_else(|| RandomNameError::Name { found: name.into() })?;
        // `parse` would take a sign.
        let digits = |seed: &&str| seed.bytes().all(|b| b.is_ascii_digit());
        let seed = match seed {
            None => 0,
            Some(seed) => {
                let number = Some(seed).filter(digits).and_then(|seed| seed.parse().ok());
                number.ok_or_else(|| RandomNameError::Seed { found: seed.into() })?
            }
        };
        Ok(Self { shapes, seed })
    }
}

impl fmt::Display for RandomModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.shapes.name)?;
        match self.seed {
            0 => Ok(()),
            seed => write!(f, "@{seed}"),
        }
    }
}

impl From<RandomModel> for String {
    fn from(model: RandomModel) -> Self {
        model.to_string()
    }
}

impl TryFrom<String> for RandomModel {
    type Error = RandomNameError;

    fn try_from(text: String) -> Result<Self, RandomNameError> {
        text.parse()
    }
}

impl RandomModel {
    /// Returns true if `text` is meant to name a random model, valid or not.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Content of one of the checkpoint's files; `None` if it has no such file.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        files::file(self, name)
    }

    /// The checkpoint with its list of tensors, or one of its folders with that.
    pub(crate) fn checkpoint(self, folder: Option<&str>) -> Result<Checkpoint, LoadError> {
        let place = self.to_string();
        let made = |(name, shape): (String, Vec<usize>)| {
            let recipe = self.recipe(&name, &shape);
            (name, TensorInfo::made(place.clone(), shape, recipe))
        };
        let tensors = self.asked(folder)?.into_iter().map(made).collect();
        Ok(Checkpoint::of(CheckpointSource::Random(self), tensors))
    }

    /// The tensors that the networks ask for, with their shapes.
    fn asked(&self, folder: Option<&str>) -> Result<BTreeMap<String, Vec<usize>>, LoadError> {
        let empty = Checkpoint::of(CheckpointSource::Random(*self), BTreeMap::new());
        let json = self.shapes.config.as_bytes();
        let family = Family::of(json)?;
        let own = Loader::new(&empty, &DryRun);
        let codec = Loader::new(&empty, &DryRun);
        let apart = family.codec_folder().is_some();
        let config = family.config(&empty)?;
        speech::nets(&own, if apart { &codec } else { &own }, &config)?;
        if let PromptFormat::Qwen3Tts(tts) = &config.talker.prompt
            && tts.kind.voice_source() == VoiceSource::Recordings
        {
            qwen3_tts::encoder_nets(&empty, &own, &codec)?;
        }
        if folder.is_some() {
            return Ok(codec.into_asked());
        }
        if self.shapes.converses {
            thinker_model::nets(&own, &ThinkerConfig::parse(json)?)?;
            audio_encoder::nets(&own, &AudioConfig::parse(json, None)?)?;
        }
        Ok(own.into_asked())
    }

    /// Values of a tensor, such that the output of a layer is about as large as its input, of order one from the
    /// embeddings to the logits, and the waveform well within its bounds.
    fn recipe(&self, name: &str, shape: &[usize]) -> Recipe {
        if shape.len() < 2 {
            let zero = [".bias", ".alpha", ".beta"].iter().any(|end| name.ends_with(end));
            // Norms and scales of layers.
            return Recipe::Constant(if zero { 0.0 } else { 1.0 });
        }
        let looked_up = name.contains("embed");
        let vocoder = name.starts_with("code2wav.") || name.starts_with("decoder.");
        let waveform = vocoder && shape[0] == 1;
        let gain = match () {
            () if waveform => WAVEFORM,
            () if name.ends_with(".conv2.conv.weight") => RESIDUAL,
            () => 1.0,
        };
        Recipe::Uniform(Uniform {
            seed: self.seed,
            tensor: fnv(name),
            gain,
            inputs: if looked_up { 1 } else { shape[1..].iter().product() },
        })
    }
}

/// Scale of a residual unit of code2wav's decoder: a dozen follow each other without a norm, and each adds more than
/// it receives.
const RESIDUAL: f32 = 0.3;
/// Scale of the convolution that makes the samples: its inputs are several times as large as samples should be.
const WAVEFORM: f32 = 0.05;

/// The 64-bit FNV-1a hash. (Fowler, Noll, Vo.)
fn fnv(text: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use omni_engine::{BlockId, ChunkModel as _, Sampled, SeqId, SeqStep, Sequences as _, StepExecutor as _};
    use serde_json::Value;

    use super::*;
    use crate::family::CODEC_FOLDER;
    use crate::{
        DType, KvOptions, LoadOptions, PromptPiece, SpeechModel, TalkerRequest, TextSampling, ThinkerRequest,
    };

    /// The embedded widths with the published numbers of layers.
    fn deep() -> RandomModel {
        let embedded = &SHAPES[2];
        let mut config: Value = serde_json::from_str(embedded.config).expect("JSON");
        for (section, layers) in [
            ("/thinker_config/text_config", 48),
            ("/talker_config/text_config", 20),
            ("/talker_config/code_predictor_config", 5),
            ("/code2wav_config", 8),
        ] {
            let section = config.pointer_mut(section).expect("a section");
            section["num_hidden_layers"] = layers.into();
        }
        let shapes = Shapes {
            name: "deep",
            config: config.to_string().leak(),
            ..*embedded
        };
        RandomModel {
            shapes: Box::leak(Box::new(shapes)),
            seed: 1,
        }
    }

    fn rms(values: &[f32]) -> f32 {
        (values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32).sqrt()
    }

    #[test]
    fn numbers_stay_of_order_one_as_deep_as_the_published_networks() {
        const SEQ: SeqId = SeqId(1);
        let kv = KvOptions {
            block_size: 16,
            num_blocks: 8,
        };
        let blocks: Vec<BlockId> = (1..8).map(BlockId).collect();
        let step = |len| SeqStep {
            seq: SEQ,
            start: 0,
            len,
            blocks: &blocks,
        };
        for dtype in [DType::F32, DType::Bf16] {
            let options = LoadOptions {
                dtype,
                ..LoadOptions::default()
            };
            let model = SpeechModel::load(CheckpointSource::Random(deep()), options).expect("it loads");

            let mut thinker = model
                .load_thinker()
                .expect("it loads")
                .thinker(kv)
                .expect("a thinker");
            let request = ThinkerRequest {
                prompt: (10..50).map(PromptPiece::Token).collect(),
                axes: None,
                sampling: TextSampling::default(),
                seed: 0,
                stop: Vec::new(),
                max_tokens: u32::MAX,
                logprobs: true,
                export_hidden: false,
            };
            let len = thinker.open(SEQ, request).expect("it is served");
            thinker.execute(&[step(len)]).expect("it computes");
            let sampled = thinker.sample(&[SEQ]).expect("a token");
            let Sampled::Item(token) = &sampled[0] else {
                panic!("{sampled:?}")
            };
            // Of 320 normal numbers the largest is about 2.9, and the sum of their exponentials 320 * exp(1/2).
            let likeliest = token.logprob.expect("asked for");
            assert!((-4.3..-2.3).contains(&likeliest), "{dtype:?}: {likeliest}");

            let mut talker = model.talker(kv).expect("a talker");
            let request = TalkerRequest {
                user: Vec::new(),
                voice: "basil".into(),
                language: None,
                text: None,
                talker: model.defaults().talker,
                predictor: model.defaults().predictor,
                seed: 1,
                max_frames: 1,
                prior_frames: Vec::new(),
            };
            let len = talker.open(SEQ, request).expect("it is served");
            talker.push(SEQ, vec![1, 2, 3], true);
            talker.execute(&[step(len)]).expect("it computes");
            let spread = rms(&talker.logits(SEQ).expect("computed"));
            assert!((0.7..1.4).contains(&spread), "{dtype:?}: {spread}");
            let sampled = talker.sample(&[SEQ]).expect("a frame");
            let Sampled::Item(frame) = &sampled[0] else {
                panic!("{sampled:?}")
            };

            let mut code2wav = model.code2wav().expect("a vocoder");
            code2wav.open(SEQ, (), 0).expect("a stream");
            let frames = vec![frame.clone(); 8];
            let level = rms(code2wav.decode(&[(SEQ, &frames)]).expect("samples")[0]
                .as_ref()
                .expect("numbers"));
            assert!((0.02..0.5).contains(&level), "{dtype:?}: {level}");
        }
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for text in [
            "random:embedded",
            "random:qwen3-omni-30b-a3b@7",
            "random:qwen3-omni-30b-a3b-speech@18446744073709551615",
        ] {
            let model: RandomModel = text.parse().expect("a name");
            assert_eq!(model.to_string(), text);
        }
        assert_eq!(
            "random:embedded@0".parse(),
            "random:embedded".parse::<RandomModel>()
        );
    }

    #[test]
    fn other_names_are_refused_with_those_there_are() {
        for text in [
            "random:",
            "random:tiny",
            "embedded",
            "random:Embedded",
            "random:embedded ",
            "random: embedded",
            "random:@1",
        ] {
            let error = text.parse::<RandomModel>().expect_err(text);
            assert!(matches!(error, RandomNameError::Name { .. }), "{text}");
            for shapes in &SHAPES {
                assert!(error.to_string().contains(shapes.name), "{error}");
            }
        }
        for seed in ["", "x", "-1", "+1", "1@2", " 1", "1.0", "18446744073709551616"] {
            let error = format!("random:embedded@{seed}").parse::<RandomModel>();
            assert_eq!(error, Err(RandomNameError::Seed { found: seed.into() }));
        }
    }

    #[test]
    fn names_hash_to_the_published_values() {
        assert_eq!(fnv(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn no_two_tensors_of_a_model_have_the_same_values() {
        for shapes in &SHAPES {
            let model = RandomModel { shapes, seed: 3 };
            let mut asked = model.asked(None).expect("the shapes are right");
            if shapes.codec.is_some() {
                asked.extend(model.asked(Some(CODEC_FOLDER)).expect("the shapes are right"));
            }
            let hashes: std::collections::HashSet<u64> = asked.keys().map(|name| fnv(name)).collect();
            assert_eq!(hashes.len(), asked.len(), "{}", shapes.name);
        }
    }
}
