//! Configuration of the encoders that cloning needs.

use std::cell::RefCell;

use crate::checkpoint::LoadError;
use crate::config::{FILE, Fields, MOST_LAYERS, finished, parsed};
use crate::qwen3_tts::CODEC_CONFIG;

/// The speaker encoder, an ECAPA-TDNN.
#[derive(Debug, Clone)]
pub(super) struct SpeakerConfig {
    pub(super) bands: usize,
    /// Channels of the first layer, of the three blocks and of the layer that combines them.
    pub(super) channels: [usize; 5],
    pub(super) kernels: [usize; 5],
    pub(super) dilations: [usize; 5],
    /// Parts that a block's channels are cut into.
    pub(super) parts: usize,
    /// Inner channels of squeeze and excitation.
    pub(super) squeezed: usize,
    /// Inner channels of the attention over time.
    pub(super) attention: usize,
    /// Numbers of the vector.
    pub(super) width: usize,
}

/// The codec's encoder, a Mimi.
#[derive(Debug, Clone)]
pub(super) struct CodecEncoderConfig {
    /// Channels of the first convolution; every stage doubles them.
    pub(super) filters: usize,
    pub(super) kernel: usize,
    pub(super) residual_kernel: usize,
    pub(super) last_kernel: usize,
    /// Channels of a residual unit's inside are this many times fewer.
    pub(super) compress: usize,
    /// Strides of the stages, first to last.
    pub(super) ratios: Vec<usize>,
    pub(super) hidden: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) head_dim: usize,
    pub(super) ffn: usize,
    pub(super) eps: f32,
    pub(super) theta: f32,
    pub(super) codebook: usize,
    /// Numbers of a code's vector.
    pub(super) width: usize,
    /// Codebooks in the file.
    pub(super) quantizers: usize,
    /// Codes per frame that are used.
    pub(super) groups: usize,
}

/// Halves the rate after the transformer.
pub(super) const DOWNSAMPLE: usize = 2;

impl CodecEncoderConfig {
    /// Samples of a frame.
    pub(super) fn samples_per_frame(&self) -> usize {
        self.ratios.iter().product::<usize>() * DOWNSAMPLE
    }
}

/// Reads and checks both configurations.
pub(super) fn configs(json: &[u8], codec: &[u8]) -> Result<(SpeakerConfig, CodecEncoderConfig), LoadError> {
    let value = parsed(FILE, json)?;
    let codec = parsed(CODEC_CONFIG, codec)?;
    let problems = RefCell::new(Vec::new());
    let root = Fields::root(FILE, &value, &problems);
    let speaker = speaker(&root.section("speaker_encoder_config"));
    let hidden = root.section("talker_config").count(&["hidden_size"]);
    if speaker.width != hidden {
        root.wrong(
            "speaker_encoder_config.enc_dim",
            format!("is {}, but the talker's hidden_size is {hidden}", speaker.width),
        );
    }
    let codec = codec_encoder(&Fields::root(CODEC_CONFIG, &codec, &problems));
    finished(problems)?;
    Ok((speaker, codec))
}

/// Fields that are absent are those of the reference implementation's class: published files name only the width.
fn speaker(section: &Fields<'_>) -> SpeakerConfig {
    let five = |field: &str, default: [usize; 5]| {
        let found = section.counts_or_none(field, 5);
        match <[usize; 5]>::try_from(found.as_slice()) {
            Ok(found) if found.iter().all(|&n| n > 0) => found,
            _ if found.is_empty() => default,
            _ => {
                section.wrong(field, format!("is {found:?}, five positive numbers are expected"));
                default
            }
        }
    };
    let count = |field: &str, default: usize| section.count_or(&[field], default, 1 << 16).max(1);
    let config = SpeakerConfig {
        bands: count("mel_dim", 128),
        channels: five("enc_channels", [512, 512, 512, 512, 1536]),
        kernels: five("enc_kernel_sizes", [5, 3, 3, 3, 1]),
        dilations: five("enc_dilations", [1, 2, 3, 4, 1]),
        parts: count("enc_res2net_scale", 8),
        squeezed: count("enc_se_channels", 128),
        attention: count("enc_attention_channels", 128),
        width: section.count(&["enc_dim"]),
    };
    let rate = super::VOICE_SAMPLE_RATE as usize;
    let found = section.count_or(&["sample_rate"], rate, 1 << 20);
    if found != rate {
        section.wrong("sample_rate", format!("is {found}, only {rate} is supported"));
    }
    let [first, a, b, c, _] = config.channels;
    if [a, b, c]
        .iter()
        .any(|n| *n != first || !n.is_multiple_of(config.parts))
    {
        let parts = config.parts;
        section.wrong(
            "enc_channels",
            format!("the first four must be alike and multiples of enc_res2net_scale, which is {parts}"),
        );
    }
    config
}

fn codec_encoder(root: &Fields<'_>) -> CodecEncoderConfig {
    let section = root.section("encoder_config");
    let mut ratios = section.counts("upsampling_ratios", 1, 16);
    // They are written for a decoder.
    ratios.reverse();
    let heads = section.count_to(&["num_attention_heads"], 1024);
    let hidden = section.count(&["hidden_size"]);
    let config = CodecEncoderConfig {
        filters: section.count(&["num_filters"]),
        kernel: section.count_to(&["kernel_size"], 1024),
        residual_kernel: section.count_to(&["residual_kernel_size"], 1024),
        last_kernel: section.count_to(&["last_kernel_size"], 1024),
        compress: section.count_to(&["compress"], 1024),
        ratios,
        hidden,
        layers: section.count_to(&["num_hidden_layers"], MOST_LAYERS),
        heads,
        head_dim: section.count_or(&["head_dim"], hidden / heads, 1024).max(2),
        ffn: section.count(&["intermediate_size"]),
        eps: section.number(&["norm_eps"]),
        theta: section.number(&["rope_theta"]),
        codebook: section.count(&["codebook_size"]),
        width: section.count(&["vector_quantization_hidden_dimension", "codebook_dim"]),
        quantizers: section.count_to(&["num_quantizers"], 256),
        groups: root.count_to(&["encoder_valid_num_quantizers"], 256),
    };
    for (field, expected) in [
        ("num_residual_layers", 1),
        ("num_semantic_quantizers", 1),
        ("audio_channels", 1),
    ] {
        let found = section.count_or(&[field], expected, 1 << 16);
        if found != expected {
            section.wrong(field, format!("is {found}, only {expected} is supported"));
        }
    }
    if section.flag_or("use_conv_shortcut", false) || !section.flag_or("use_causal_conv", true) {
        section.wrong(
            "use_causal_conv",
            "only causal convolutions without a shortcut are supported",
        );
    }
    if config.groups > config.quantizers || config.groups < 2 {
        root.wrong(
            "encoder_valid_num_quantizers",
            format!("is {}, expected 2 to {}", config.groups, config.quantizers),
        );
    }
    let found = root.count_or(&["encode_downsample_rate"], config.samples_per_frame(), 1 << 20);
    if found != config.samples_per_frame() {
        root.wrong(
            "encode_downsample_rate",
            format!("is {found}, but the ratios give {}", config.samples_per_frame()),
        );
    }
    config
}
