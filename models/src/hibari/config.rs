//! The voice's configuration.

use std::cell::RefCell;

use crate::checkpoint::LoadError;
use crate::config::{FILE, Fields, finished, parsed};

const MOST_LAYERS: usize = 64;
const WIDEST: usize = 4096;
const LONGEST_WINDOW: usize = 1 << 14;
const MOST_PHONEMES: usize = 1 << 12;

/// A text encoder.
#[derive(Debug, Clone)]
pub(super) struct TextConfig {
    pub(super) width: usize,
    /// Times that its layer is applied.
    pub(super) layers: usize,
    pub(super) heads: usize,
}

#[derive(Debug, Clone)]
pub(super) struct HibariConfig {
    pub(super) sample_rate: u32,
    pub(super) n_fft: usize,
    pub(super) hop: usize,
    pub(super) tokens: usize,
    pub(super) acoustic: TextConfig,
    pub(super) prosody: TextConfig,
    pub(super) dilations: Vec<usize>,
    pub(super) width: usize,
    pub(super) inner: usize,
    pub(super) layers: usize,
    pub(super) vocab: Vec<(String, u32)>,
}

fn text(section: &Fields<'_>) -> TextConfig {
    let width = section.count_to(&["width"], WIDEST);
    let heads = section.count_to(&["heads"], WIDEST);
    if !width.is_multiple_of(heads) {
        section.wrong(
            "heads",
            format!("is {heads}, which does not divide the width {width}"),
        );
    }
    TextConfig {
        width,
        layers: section.count_to(&["layers"], MOST_LAYERS),
        heads,
    }
}

impl HibariConfig {
    pub(super) fn parse(json: &[u8]) -> Result<Self, LoadError> {
        let value = parsed(FILE, json)?;
        let problems = RefCell::new(Vec::new());
        let root = Fields::root(FILE, &value, &problems);
        let tokens = root.count_to(&["n_token"], MOST_PHONEMES);
        let decoder = root.section("decoder");
        let prosody = root.section("prosody");
        let config = Self {
            sample_rate: u32::try_from(root.count_to(&["sample_rate"], 192_000)).unwrap_or(1),
            n_fft: root.count_to(&["n_fft"], LONGEST_WINDOW),
            hop: root.count_to(&["hop_length"], LONGEST_WINDOW),
            tokens,
            acoustic: text(&root.section("acoustic")),
            prosody: text(&prosody),
            dilations: prosody.counts("dilations", 1, MOST_LAYERS),
            width: decoder.count_to(&["width"], WIDEST),
            inner: decoder.count_to(&["inner"], WIDEST),
            layers: decoder.count_to(&["layers"], MOST_LAYERS),
            vocab: root.ids("vocab", tokens),
        };
        // Windows of four hops add up to a constant, and the decoder's halo is that of eight layers.
        if config.n_fft != 4 * config.hop || !config.hop.is_multiple_of(2) {
            root.wrong(
                "n_fft",
                format!("is {}, four times an even hop_length is expected", config.n_fft),
            );
        }
        if config.layers > 8 {
            decoder.wrong("layers", format!("is {}, expected at most 8", config.layers));
        }
        finished(problems)?;
        Ok(config)
    }
}
