//! Lower bounds of a model's work: parameters, bytes and operations, counted from the tensors' shapes.
//!
//! The floor of a step is the larger of two times: the bytes it must read at the memory's bandwidth, and its
//! operations at the processor's or device's rate. No step in that number format can be faster. Activations,
//! attention and rows looked up in tables are not counted; keys and values are given per position. No weights are
//! read.

use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError};
use crate::config::{Code2WavConfig, FfnConfig, StackConfig, ThinkerConfig};
use crate::family::Family;
use crate::speech::{DType, kv_position_bytes};
use crate::{audio_encoder, thinker_model};

/// The parts of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedFloor {
    /// A token of text; its tables and its head are counted here. `None` if the checkpoint has no thinker.
    pub thinker: Option<StageFloor>,
    /// A pass over a recording.
    pub audio_encoder: Option<StageFloor>,
    /// The first code of a frame. Projections of text and of hidden states count as parameters and not for a step:
    /// rows of text need not be projected where they are spoken.
    pub talker: StageFloor,
    /// The other codes of a frame: all its passes together.
    pub predictor: StageFloor,
    /// A piece of any length.
    pub code2wav: StageFloor,
}

/// One stage: its parameters, and the reads of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct StageFloor {
    /// Numbers that it holds, experts and tables included.
    pub parameters: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Bytes that a step reads for any number of rows.
    pub dense_bytes: u64,
    /// Mixtures of experts, one per layer that has one.
    pub mixtures: Vec<Mixture>,
    /// Bytes of the keys and values of one position, all of which a row reads again at every step; of the code
    /// predictor within a frame, of code2wav within its window, of an audio encoder none.
    pub kv_position_bytes: u64,
    /// Operations (additions and multiplications) of the products of one row; for code2wav of a frame at all its
    /// rates. Attention is not counted.
    pub row_operations: u64,
}

/// The experts of one layer, of which a step reads those that some row goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mixture {
    /// Number of experts.
    pub experts: u64,
    /// Experts per row.
    pub top_k: u64,
    /// Bytes of one.
    pub expert_bytes: u64,
}

impl Mixture {
    /// Experts that some of `rows` rows go to, on average, if each goes to any `top_k` of them:
    /// `E (1 - (1 - k / E)^rows)`.
    pub fn expected_experts(&self, rows: u32) -> f64 {
        let missed = 1.0 - self.top_k as f64 / self.experts as f64;
        self.experts as f64 * (1.0 - missed.powf(f64::from(rows)))
    }
}

impl StageFloor {
    /// Additions and multiplications of the products of a step over `rows` rows.
    pub fn step_operations(&self, rows: u32) -> f64 {
        f64::from(rows) * self.row_operations as f64
    }

    /// Bytes of weights that a step over `rows` rows reads, on average over where the rows are routed to.
    pub fn step_bytes(&self, rows: u32) -> f64 {
        let routed = self
            .mixtures
            .iter()
            .map(|m| m.expected_experts(rows) * m.expert_bytes as f64);
        self.dense_bytes as f64 + routed.sum::<f64>()
    }
}

/// Counts the parameters of a checkpoint that are used here, and the bytes that they take in `dtype`.
///
/// # Errors
/// [`LoadError`] if the checkpoint's configuration or its list of tensors cannot be read.
pub fn counted_floor(source: CheckpointSource, dtype: DType) -> Result<CountedFloor, LoadError> {
    let place = source.place();
    count(source, dtype).map_err(|e| e.at(place))
}

fn count(source: CheckpointSource, dtype: DType) -> Result<CountedFloor, LoadError> {
    let checkpoint = Checkpoint::open(source)?;
    let json = checkpoint.required("config.json")?;
    let family = Family::of(&json)?;
    let config = family.config(&checkpoint)?;
    let codec = family.codec_folder().map(|folder| checkpoint.folder(folder));
    let mut tensors = sizes(&checkpoint);
    if let Some(codec) = codec.transpose()? {
        tensors.extend(sizes(&codec));
    }
    let counting = Counting { tensors, dtype };
    let of = |part, stack: &StackConfig, (passes, rows)| {
        let mut stage = counting.stage(part, passes, rows);
        stage.kv_position_bytes = kv_position_bytes(stack, dtype.bytes());
        stage.mixtures = counting.mixtures(part, stack);
        let routed = stage
            .mixtures
            .iter()
            .map(|m| m.top_k * m.expert_bytes / dtype.bytes());
        stage.row_operations += 2 * routed.sum::<u64>();
        stage
    };
    // The first pass has two rows: the talker's hidden state, and the first code.
    let passes = config.predictor.groups as u64 - 1;
    let of_predictor = (passes, passes + 1);
    let thinker = ThinkerConfig::parse(&json).and_then(|thinker| {
        thinker_model::check(&checkpoint, &thinker)?;
        Ok(of(Part::Thinker, &thinker.stack, (1, 1)))
    });
    let hears = counting.tensors(Part::AudioEncoder).next().is_some();
    let mut code2wav = of(Part::Code2Wav, &config.code2wav.stack, (1, 1));
    code2wav.row_operations = counting.frame_operations(&config.code2wav);
    Ok(CountedFloor {
        thinker: thinker.ok(),
        audio_encoder: hears.then(|| counting.stage(Part::AudioEncoder, 1, 1)),
        talker: of(Part::Talker, &config.talker.stack, (1, 1)),
        predictor: of(Part::Predictor, &config.predictor.stack, of_predictor),
        code2wav,
    })
}

/// Rows of a frame that a tensor of the vocoder is used for, and how many each of them becomes there.
pub(crate) fn rates(tensor: &str, c: &Code2WavConfig) -> (usize, usize) {
    let place =
        |tensor: &str| -> Vec<usize> { tensor.split('.').filter_map(|word| word.parse().ok()).collect() };
    let of = |rates: &[usize]| rates.iter().product::<usize>();
    if let Some((_, tensor)) = tensor.split_once(".upsample.") {
        return match place(tensor)[..] {
            [stage, 0, ..] => (of(&c.upsampling_ratios[..stage]), c.upsampling_ratios[stage]),
            [stage, ..] => (of(&c.upsampling_ratios[..=stage]), 1),
            [] => (1, 1),
        };
    }
    let decoder = ["decoder.decoder.", "code2wav.decoder."];
    let Some(tensor) = decoder.iter().find_map(|decoder| tensor.strip_prefix(decoder)) else {
        return (1, 1);
    };
    // The entry runs before all stages, the exit at the rate of the last.
    let entry = of(&c.upsampling_ratios);
    let stages = c.upsample_rates.len();
    match place(tensor)[..] {
        [stage, 1, ..] if (1..=stages).contains(&stage) => (
            entry * of(&c.upsample_rates[..stage - 1]),
            c.upsample_rates[stage - 1],
        ),
        [stage, _, ..] => (entry * of(&c.upsample_rates[..stage.min(stages)]), 1),
        [0] => (entry, 1),
        _ => (c.samples_per_frame(), 1),
    }
}

/// The part of the model that a tensor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Thinker,
    AudioEncoder,
    Talker,
    Predictor,
    Code2Wav,
}

impl Part {
    fn of(tensor: &str) -> Option<Self> {
        // The first that fits counts.
        let parts = [
            (audio_encoder::NAME, Self::AudioEncoder),
            ("thinker.model.", Self::Thinker),
            ("thinker.lm_head.", Self::Thinker),
            ("talker.code_predictor.", Self::Predictor),
            ("talker.", Self::Talker),
            ("code2wav.", Self::Code2Wav),
            // The codec's.
            ("decoder.", Self::Code2Wav),
        ];
        let found = parts.iter().find(|(prefix, _)| tensor.starts_with(prefix));
        found.map(|(_, part)| *part)
    }
}

/// Names and sizes of all tensors.
fn sizes(checkpoint: &Checkpoint) -> Vec<(String, u64)> {
    let size = |shape: &[usize]| shape.iter().map(|&n| n as u64).product();
    let tensors = checkpoint.tensors();
    tensors
        .map(|(name, info)| (name.to_owned(), size(&info.shape)))
        .collect()
}

struct Counting {
    tensors: Vec<(String, u64)>,
    dtype: DType,
}

impl Counting {
    /// Names and sizes of a part's tensors.
    fn tensors(&self, part: Part) -> impl Iterator<Item = (&str, u64)> {
        let ours = self.tensors.iter();
        ours.map(|(name, size)| (name.as_str(), *size))
            .filter(move |(name, _)| Part::of(name) == Some(part))
    }

    fn bytes(&self, numbers: u64) -> u64 {
        numbers * self.dtype.bytes()
    }

    /// All but keys, values and experts. A step goes through the layers in `passes` passes, with `rows` rows of a
    /// sequence in all of them.
    fn stage(&self, part: Part, passes: u64, rows: u64) -> StageFloor {
        let parameters = self.tensors(part).map(|(_, n)| n).sum();
        let used = |times: u64| {
            move |(name, n): (&str, u64)| match Use::of(name) {
                Use::EveryPass => n * times,
                // With several heads each pass uses its own.
                Use::OncePerStep => n,
                Use::Routed | Use::NotInSteps => 0,
            }
        };
        StageFloor {
            parameters,
            bytes: self.bytes(parameters),
            dense_bytes: self.bytes(self.tensors(part).map(used(passes)).sum()),
            mixtures: Vec::new(),
            kv_position_bytes: 0,
            row_operations: 2 * self.tensors(part).map(used(rows)).sum::<u64>(),
        }
    }

    /// Operations of the vocoder's products for a frame.
    fn frame_operations(&self, c: &Code2WavConfig) -> u64 {
        let used = |(name, n): (&str, u64)| match Use::of(name) {
            Use::NotInSteps => 0,
            _ => n * rates(name, c).0 as u64,
        };
        2 * self.tensors(Part::Code2Wav).map(used).sum::<u64>()
    }

    fn mixtures(&self, part: Part, stack: &StackConfig) -> Vec<Mixture> {
        let mixture = |(layer, ffn): (usize, &FfnConfig)| match *ffn {
            FfnConfig::Dense { .. } => None,
            FfnConfig::Moe { experts, top_k, .. } => {
                let ours = format!(".layers.{layer}.mlp.experts.");
                let numbers: u64 = self
                    .tensors(part)
                    .filter(|(name, _)| name.contains(&ours))
                    .map(|(_, n)| n)
                    .sum();
                Some(Mixture {
                    experts: experts as u64,
                    top_k: top_k as u64,
                    expert_bytes: self.bytes(numbers / experts as u64),
                })
            }
        };
        stack.ffn.iter().enumerate().filter_map(mixture).collect()
    }
}

/// Reads of a tensor in a step.
enum Use {
    EveryPass,
    OncePerStep,
    /// If a row is routed there.
    Routed,
    /// Rows are looked up, or nothing of a step depends on it.
    NotInSteps,
}

impl Use {
    fn of(tensor: &str) -> Self {
        let has = |part: &str| tensor.contains(part);
        match () {
            () if has("small_to_mtp_projection.") => Self::EveryPass,
            () if has("embed") || has("_projection.") || has("cluster_usage") => Self::NotInSteps,
            // The encoder's side of a quantizer.
            () if has("quantizer.") && has(".input_proj.") => Self::NotInSteps,
            () if has(".mlp.experts.") => Self::Routed,
            () if has("_head.") => Self::OncePerStep,
            () => Self::EveryPass,
        }
    }
}
