//! Thinker section of `config.json`, read when a thinker is loaded: a checkpoint that only speaks may lack it.

use std::cell::RefCell;

use super::StackConfig;
use super::fields::{Fields, WIDEST};
use super::read::{FILE, MOST_LAYERS, Shape, finished, full_attention, mixture_ffn, parsed, stack};
use crate::checkpoint::LoadError;

/// The thinker's text model.
#[derive(Debug, Clone)]
pub(crate) struct ThinkerConfig {
    pub(crate) stack: StackConfig,
    pub(crate) vocab: usize,
    pub(crate) max_positions: usize,
    /// The head may be the embedding.
    pub(crate) tied: bool,
    /// The talker takes the input of this layer for the prompt's audio; as many as there are layers: the output.
    pub(crate) accept_layer: usize,
    /// Ids of the tokens around and instead of audio.
    pub(crate) audio: AudioTokens,
    pub(crate) roles: Roles,
}

/// Names of the roles of a turn, beside the assistant's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Roles {
    pub(crate) system: u32,
    pub(crate) user: u32,
}

/// Tokens that stand for audio in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AudioTokens {
    /// `<|audio_start|>`.
    pub(crate) start: u32,
    /// `<|audio_end|>`.
    pub(crate) end: u32,
    /// `<|audio_pad|>`, one per row of the audio encoder.
    pub(crate) pad: u32,
}

impl ThinkerConfig {
    /// Reads and checks `config.json`.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, LoadError> {
        let value = parsed(FILE, json)?;
        let problems = RefCell::new(Vec::new());
        let root = Fields::root(FILE, &value, &problems);
        let thinker = root.section("thinker_config");
        let text = thinker.section("text_config");
        let layers = text.count_to(&["num_hidden_layers"], MOST_LAYERS);
        full_attention(&text);
        let stack = stack(&text);
        let vocab = text.count(&["vocab_size"]);
        let config = Self {
            stack: StackConfig {
                qk_norm: true,
                ffn: mixture_ffn(&text, layers, Shape::Thinker),
                mrope: mrope(&text, stack.head_dim),
                ..stack
            },
            vocab,
            max_positions: text.count_or(&["max_position_embeddings"], 65_536, WIDEST).max(1),
            tied: text.flag_or("tie_word_embeddings", false),
            accept_layer: accept_layer(&root.section("talker_config"), layers),
            audio: AudioTokens {
                start: thinker.id("audio_start_token_id", vocab),
                end: thinker.id("audio_end_token_id", vocab),
                pad: thinker.id("audio_token_id", vocab),
            },
            roles: Roles {
                system: root.id("system_token_id", vocab),
                user: root.id("user_token_id", vocab),
            },
        };
        finished(problems)?;
        Ok(config)
    }
}

fn accept_layer(talker: &Fields<'_>, layers: usize) -> usize {
    if !talker.has(&["accept_hidden_layer"]) {
        talker.wrong(
            "accept_hidden_layer",
            "a whole number is expected here, found nothing",
        );
    }
    let accept = talker.count_or(&["accept_hidden_layer"], 0, MOST_LAYERS);
    if accept > layers {
        talker.wrong(
            "accept_hidden_layer",
            format!("is {accept}, but the thinker has {layers} layers"),
        );
    }
    accept
}

/// Rotations of a head for time, height and width.
fn mrope(text: &Fields<'_>, head_dim: usize) -> Option<[usize; 3]> {
    const NAMES: [&str; 2] = ["rope_scaling.mrope_section", "rope_parameters.mrope_section"];
    let name = NAMES.into_iter().find(|name| text.has(&[name]))?;
    let sections = text.counts(name, 0, 3);
    let &[time, height, width] = sections.as_slice() else {
        text.wrong(name, "three whole numbers are expected");
        return None;
    };
    if time + height + width != head_dim / 2 {
        text.wrong(
            name,
            format!("is {sections:?}, expected numbers that add up to half of head_dim"),
        );
    }
    Some([time, height, width])
}
