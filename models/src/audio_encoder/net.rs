//! The encoder's weights and its forward pass over one utterance.

use omni_backend::{Attention, AttentionShape, Normalisation, Params, Products, Result, RowIndexing};

use crate::checkpoint::LoadError;
use crate::config::{AudioConfig, CONVOLUTIONS, shortened};
use crate::loader::Loader;

type Load<T> = std::result::Result<T, LoadError>;

/// In front of all its tensors' names.
pub(crate) const NAME: &str = "thinker.audio_tower.";
const KERNEL: usize = 3;
const LAYER_NORM_EPS: f32 = 1e-5;
const SINUSOID_BASE: f32 = 10_000.0;

struct Norm<P: Params> {
    weight: P::Vector,
    bias: P::Vector,
}

struct Layer<P: Params> {
    attn_norm: Norm<P>,
    qkv: P::Matrix,
    out: P::Matrix,
    ffn_norm: Norm<P>,
    fc1: P::Matrix,
    fc2: P::Matrix,
}

pub(crate) struct Tower<P: Params> {
    config: AudioConfig,
    shape: AttentionShape,
    /// Each halves time and frequency.
    convs: Vec<P::Matrix>,
    conv_out: P::Matrix,
    layers: Vec<Layer<P>>,
    norm: Norm<P>,
    proj1: P::Matrix,
    proj2: P::Matrix,
}

impl<P: Params> Norm<P> {
    fn load(l: &Loader<'_, P>, name: &str, width: usize) -> Load<Self> {
        Ok(Self {
            weight: l.vector(&format!("{name}.weight"), width)?,
            bias: l.vector(&format!("{name}.bias"), width)?,
        })
    }
}

impl<P: Params> Layer<P> {
    fn load(l: &Loader<'_, P>, name: &str, c: &AudioConfig) -> Load<Self> {
        let width = c.hidden;
        let attn = format!("{name}.self_attn");
        let qkv = ["q_proj", "k_proj", "v_proj"].map(|part| (format!("{attn}.{part}"), width));
        Ok(Self {
            attn_norm: Norm::load(l, &format!("{attn}_layer_norm"), width)?,
            qkv: l.stacked_biased(&qkv, width)?,
            out: l.linear(&format!("{attn}.out_proj"), width, width, true)?,
            ffn_norm: Norm::load(l, &format!("{name}.final_layer_norm"), width)?,
            fc1: l.linear(&format!("{name}.fc1"), c.ffn, width, true)?,
            fc2: l.linear(&format!("{name}.fc2"), width, c.ffn, true)?,
        })
    }
}

impl<P: Params> Tower<P> {
    pub(super) fn load(l: &Loader<'_, P>, c: &AudioConfig) -> Load<Self> {
        let conv = |i: usize| {
            let inputs = if i == 1 { 1 } else { c.channels };
            l.conv2d(&format!("{NAME}conv2d{i}"), c.channels, inputs, KERNEL)
        };
        let layer = |i: usize| Layer::load(l, &format!("{NAME}layers.{i}"), c);
        let bands = (0..CONVOLUTIONS).fold(c.mel_bins, |n, _| shortened(n));
        let linear = |part: &str, out| l.linear(&format!("{NAME}{part}"), out, c.hidden, true);
        Ok(Self {
            shape: AttentionShape {
                heads: c.heads,
                kv_heads: c.heads,
                head_dim: c.hidden / c.heads,
                eps: 0.0,
                window: None,
            },
            convs: (1..=CONVOLUTIONS).map(conv).collect::<Load<_>>()?,
            conv_out: l.channels_last(&format!("{NAME}conv_out"), c.hidden, c.channels, bands)?,
            layers: (0..c.layers).map(layer).collect::<Load<_>>()?,
            norm: Norm::load(l, &format!("{NAME}ln_post"), c.hidden)?,
            proj1: linear("proj1", c.hidden)?,
            proj2: linear("proj2", c.output)?,
            config: c.clone(),
        })
    }
}

impl<B: Normalisation> Norm<B> {
    fn forward(&self, b: &B, x: &B::Rows) -> Result<B::Rows> {
        b.layer_norm(&self.weight, &self.bias, LAYER_NORM_EPS, x)
    }
}

impl<B: Products + RowIndexing + Normalisation + Attention> Tower<B> {
    /// Rows `[rows, output]` of a spectrogram `[frames, mel bins]`.
    pub(super) fn forward(&self, b: &B, mel: &[f32]) -> Result<Vec<f32>> {
        let c = &self.config;
        let frames = mel.len() / c.mel_bins;
        let width = c.chunk_frames().min(frames);
        let mut rows = Vec::new();
        for chunk in mel.chunks(c.chunk_frames() * c.mel_bins) {
            let len = c.rows_of(chunk.len() / c.mel_bins);
            // A short chunk is padded and computed at full length: the convolutions see past its end.
            let mut chunk = chunk.to_vec();
            chunk.resize(width * c.mel_bins, 0.0);
            rows.extend(self.shorten(b, &chunk, width, len)?);
        }
        let count = rows.len() / c.hidden;
        let window = c.window_rows(width);
        let lens: Vec<usize> = (0..count)
            .step_by(window)
            .map(|at| window.min(count - at))
            .collect();
        let mut x = b.rows(c.hidden, rows)?;
        for layer in &self.layers {
            let qkv = b.linear(&layer.qkv, &layer.attn_norm.forward(b, &x)?)?;
            let heads = b.attention_within(&self.shape, &qkv, &lens)?;
            x = b.add(x, &b.linear(&layer.out, &heads)?, None)?;
            let h = b.gelu(b.linear(&layer.fc1, &layer.ffn_norm.forward(b, &x)?)?)?;
            x = b.add(x, &b.linear(&layer.fc2, &h)?, None)?;
        }
        let x = b.gelu(b.linear(&self.proj1, &self.norm.forward(b, &x)?)?)?;
        b.host(&b.linear(&self.proj2, &x)?)
    }

    /// The first `len` rows `[len, width]` of one chunk `[frames, mel bins]`, with their places in the chunk.
    fn shorten(&self, b: &B, chunk: &[f32], frames: usize, len: usize) -> Result<Vec<f32>> {
        let mut times = frames;
        let mut bands = self.config.mel_bins;
        let mut x: Option<B::Rows> = None;
        for conv in &self.convs {
            let index = windows(times, bands);
            let rows = index.len() / (KERNEL * KERNEL);
            let taps = match &x {
                // One channel: the windows are made on the spot.
                None => {
                    let tap = |&at: &u32| chunk.get(at as usize).copied().unwrap_or(0.0);
                    b.rows(KERNEL * KERNEL, index.iter().map(tap).collect())?
                }
                // Row of zeros for taps outside the signal.
                Some(x) => {
                    let all: Vec<u32> = (0..).take(times * bands).collect();
                    let padded = b.zeros(times * bands + 1, self.config.channels)?;
                    let padded = b.scatter_add(padded, &all, x)?;
                    b.reshape(b.gather(&padded, &index)?, KERNEL * KERNEL * self.config.channels)?
                }
            };
            (times, bands) = (shortened(times), shortened(bands));
            debug_assert_eq!(rows, times * bands);
            x = Some(b.gelu(b.linear(conv, &taps)?)?);
        }
        let Some(x) = x else { return Ok(Vec::new()) };
        let x = b.linear(&self.conv_out, &b.reshape(x, bands * self.config.channels)?)?;
        let mut rows = b.host(&x)?;
        rows.truncate(len * self.config.hidden);
        add_places(&mut rows, self.config.hidden);
        Ok(rows)
    }
}

/// Input indices under the kernel of a stride-2 convolution over `[times, bands]`, per output and in order of time;
/// one index past the last marks taps outside.
fn windows(times: usize, bands: usize) -> Vec<u32> {
    let outside = times * bands;
    let mut index = Vec::with_capacity(shortened(times) * shortened(bands) * KERNEL * KERNEL);
    let taps = |center: usize| (0..KERNEL).map(move |tap| (2 * center + tap).checked_sub(1));
    for time in 0..shortened(times) {
        for band in 0..shortened(bands) {
            for t in taps(time) {
                for f in taps(band) {
                    let inside = t.zip(f).filter(|&(t, f)| t < times && f < bands);
                    let at = inside.map_or(outside, |(t, f)| t * bands + f);
                    index.push(u32::try_from(at).unwrap_or(u32::MAX));
                }
            }
        }
    }
    index
}

/// Adds sine and cosine of every row's place in its chunk.
fn add_places(rows: &mut [f32], width: usize) {
    let half = width / 2;
    let step = SINUSOID_BASE.ln() / (half.max(2) - 1) as f32;
    for (place, row) in rows.chunks_exact_mut(width).enumerate() {
        let (sines, cosines) = row.split_at_mut(half);
        for (i, (s, c)) in sines.iter_mut().zip(cosines).enumerate() {
            let (sin, cos) = (place as f32 * (-step * i as f32).exp()).sin_cos();
            *s += sin;
            *c += cos;
        }
    }
}
