//! The voice's configuration, in the published layout.

use std::cell::RefCell;

use crate::checkpoint::LoadError;
use crate::config::{FILE, Fields, finished, parsed};

const MOST_LAYERS: usize = 64;
const WIDEST: usize = 1 << 14;
const MOST_PHONEMES: usize = 1 << 12;
const MOST_STAGES: usize = 8;
const LONGEST_WINDOW: usize = 1 << 12;

/// The transformer that reads the phonemes (PL-BERT, an ALBERT).
#[derive(Debug, Clone)]
pub(super) struct BertConfig {
    pub(super) hidden: usize,
    pub(super) heads: usize,
    pub(super) inner: usize,
    /// Times that its layer is applied.
    pub(super) layers: usize,
    /// Ids that it reads at once.
    pub(super) positions: usize,
}

/// The generator of spectra.
#[derive(Debug, Clone)]
pub(super) struct GeneratorConfig {
    pub(super) rates: Vec<usize>,
    pub(super) kernels: Vec<usize>,
    pub(super) n_fft: usize,
    pub(super) hop: usize,
    pub(super) block_kernels: Vec<usize>,
    pub(super) block_dilations: Vec<usize>,
    pub(super) channels: usize,
}

#[derive(Debug, Clone)]
pub(super) struct KokoroConfig {
    pub(super) tokens: usize,
    pub(super) hidden: usize,
    pub(super) style: usize,
    pub(super) layers: usize,
    pub(super) max_duration: usize,
    pub(super) text_kernel: usize,
    pub(super) text_embedding: usize,
    /// Channels of the decoder's blocks, of the text's rows beside them, and of what the generator gets.
    pub(super) decoder: usize,
    pub(super) beside: usize,
    pub(super) bert: BertConfig,
    pub(super) generator: GeneratorConfig,
    pub(super) vocab: Vec<(String, u32)>,
}

impl GeneratorConfig {
    /// Rows that a row of its input becomes, in samples.
    pub(super) fn samples(&self) -> usize {
        self.rates.iter().product::<usize>() * self.hop
    }

    fn parse(section: &Fields<'_>) -> Self {
        let config = Self {
            rates: section.counts("upsample_rates", 1, MOST_STAGES),
            kernels: section.counts("upsample_kernel_sizes", 1, MOST_STAGES),
            n_fft: section.count_to(&["gen_istft_n_fft"], LONGEST_WINDOW),
            hop: section.count_to(&["gen_istft_hop_size"], LONGEST_WINDOW),
            block_kernels: section.counts("resblock_kernel_sizes", 1, MOST_STAGES),
            // All blocks of the published voices have the same.
            block_dilations: section.first_counts("resblock_dilation_sizes", MOST_STAGES),
            channels: section.count_to(&["upsample_initial_channel"], WIDEST),
        };
        let even = |(rate, kernel): (&usize, &usize)| {
            kernel.is_multiple_of(*rate) && (kernel - rate).is_multiple_of(2)
        };
        let fits = config.rates.iter().zip(&config.kernels).all(even);
        if !fits || config.rates.is_empty() || config.rates.len() != config.kernels.len() {
            let reason = "an even number more than upsample_rates, and multiples of them, are expected";
            section.wrong("upsample_kernel_sizes", reason);
        }
        if config
            .rates
            .iter()
            .try_fold(1_usize, |all, rate| all.checked_mul(*rate))
            .is_none_or(|all| all > 1 << 12)
        {
            section.wrong("upsample_rates", "at most 4096 rows for a row are possible");
        }
        if !config.n_fft.is_multiple_of(2 * config.hop) {
            section.wrong(
                "gen_istft_n_fft",
                "an even multiple of gen_istft_hop_size is expected",
            );
        }
        if config.block_kernels.is_empty() || config.block_kernels.iter().any(|k| k.is_multiple_of(2)) {
            section.wrong("resblock_kernel_sizes", "odd numbers are expected");
        }
        if config.block_dilations.is_empty() {
            section.wrong("resblock_dilation_sizes", "at least one is expected");
        }
        if config.rates.last().is_some_and(|rate| rate % 2 == 1) {
            section.wrong("upsample_rates", "the last is expected to be even");
        }
        if config.channels >> config.rates.len() == 0 {
            section.wrong(
                "upsample_initial_channel",
                "is too small to be halved in every stage",
            );
        }
        config
    }
}

impl KokoroConfig {
    pub(super) fn parse(json: &[u8]) -> Result<Self, LoadError> {
        let value = parsed(FILE, json)?;
        let problems = RefCell::new(Vec::new());
        let root = Fields::root(FILE, &value, &problems);
        let bert = root.section("plbert");
        let tokens = root.count_to(&["n_token"], MOST_PHONEMES);
        let hidden = root.count_to(&["hidden_dim"], WIDEST);
        let config = Self {
            tokens,
            hidden,
            style: root.count_to(&["style_dim"], WIDEST),
            layers: root.count_to(&["n_layer"], MOST_LAYERS),
            max_duration: root.count_to(&["max_dur"], WIDEST),
            text_kernel: root.count_to(&["text_encoder_kernel_size"], 64),
            // These four are constants of the published code; small models of tests have others.
            text_embedding: root.count_or(&["plbert.embedding_size"], 128, WIDEST).max(1),
            decoder: root.count_or(&["decoder_dim"], 1024, WIDEST).max(1),
            beside: root.count_or(&["decoder_text_dim"], 64, WIDEST).max(1),
            bert: BertConfig {
                hidden: bert.count_to(&["hidden_size"], WIDEST),
                heads: bert.count_to(&["num_attention_heads"], WIDEST),
                inner: bert.count_to(&["intermediate_size"], WIDEST),
                layers: bert.count_to(&["num_hidden_layers"], MOST_LAYERS),
                positions: bert.count_to(&["max_position_embeddings"], MOST_PHONEMES),
            },
            generator: GeneratorConfig::parse(&root.section("istftnet")),
            vocab: root.ids("vocab", tokens),
        };
        if !config.bert.hidden.is_multiple_of(config.bert.heads) {
            bert.wrong("num_attention_heads", "a divisor of hidden_size is expected");
        }
        if config.bert.positions < 4 {
            bert.wrong("max_position_embeddings", "at least 4 are expected");
        }
        if !config.hidden.is_multiple_of(2) {
            root.wrong("hidden_dim", "an even number is expected");
        }
        if config.text_kernel.is_multiple_of(2) {
            root.wrong("text_encoder_kernel_size", "an odd number is expected");
        }
        finished(problems)?;
        Ok(config)
    }
}
