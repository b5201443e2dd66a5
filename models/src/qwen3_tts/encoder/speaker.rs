//! The speaker encoder: from a spectrogram to one vector of a voice. (ECAPA-TDNN, Desplanques, Thienpondt and
//! Demuynck, 2020.)

use omni_backend::{Params, Products, Result};

use crate::checkpoint::LoadError;
use crate::loader::Loader;

use super::config::SpeakerConfig;
use super::signal::{Beyond, Signal, Stride, WholeConv};

type Load<T> = std::result::Result<T, LoadError>;

/// In front of all its tensors' names.
pub(super) const NAME: &str = "speaker_encoder.";
/// Least variance over time, whose root is taken.
const LEAST_VARIANCE: f32 = 1e-12;

/// A block: convolutions over parts of the channels one after another, then a weight for every channel.
struct Block<P: Params> {
    enter: WholeConv<P>,
    parts: Vec<WholeConv<P>>,
    leave: WholeConv<P>,
    squeeze: WholeConv<P>,
    excite: WholeConv<P>,
}

pub(super) struct SpeakerEncoder<P: Params> {
    config: SpeakerConfig,
    first: WholeConv<P>,
    blocks: Vec<Block<P>>,
    together: WholeConv<P>,
    attention: (WholeConv<P>, WholeConv<P>),
    last: WholeConv<P>,
}

fn conv<P: Params>(
    l: &Loader<'_, P>,
    name: &str,
    shape: (usize, usize),
    taps: usize,
    dilation: usize,
) -> Load<WholeConv<P>> {
    let stride = Stride {
        taps,
        step: 1,
        dilation,
        beyond: Beyond::Mirror,
    };
    WholeConv::load(l, &format!("{NAME}{name}"), shape, stride, true)
}

impl<P: Params> Block<P> {
    fn load(l: &Loader<'_, P>, index: usize, c: &SpeakerConfig) -> Load<Self> {
        let name = format!("blocks.{index}");
        let channels = c.channels[index];
        let part = channels / c.parts;
        let inner = |i: usize| {
            let name = format!("{name}.res2net_block.blocks.{i}.conv");
            conv(l, &name, (part, part), c.kernels[index], c.dilations[index])
        };
        let point = |part: &str, shape| conv(l, &format!("{name}.{part}"), shape, 1, 1);
        Ok(Self {
            enter: point("tdnn1.conv", (channels, channels))?,
            parts: (0..c.parts - 1).map(inner).collect::<Load<_>>()?,
            leave: point("tdnn2.conv", (channels, channels))?,
            squeeze: point("se_block.conv1", (c.squeezed, channels))?,
            excite: point("se_block.conv2", (channels, c.squeezed))?,
        })
    }
}

impl<P: Params> SpeakerEncoder<P> {
    pub(super) fn load(l: &Loader<'_, P>, c: &SpeakerConfig) -> Load<Self> {
        let [first, a, b, d, last] = c.channels;
        let kernel = c.kernels[4];
        let dilation = c.dilations[4];
        let point = |name: &str, shape| conv(l, name, shape, 1, 1);
        Ok(Self {
            first: conv(l, "blocks.0.conv", (first, c.bands), c.kernels[0], c.dilations[0])?,
            blocks: (1..4).map(|i| Block::load(l, i, c)).collect::<Load<_>>()?,
            together: conv(l, "mfa.conv", (last, a + b + d), kernel, dilation)?,
            attention: (
                point("asp.tdnn.conv", (c.attention, 3 * last))?,
                point("asp.conv", (last, c.attention))?,
            ),
            last: point("fc", (c.width, 2 * last))?,
            config: c.clone(),
        })
    }
}

fn relu(v: f32) -> f32 {
    v.max(0.0)
}

fn sigmoid(v: f32) -> f32 {
    1.0 / (1.0 + (-v).exp())
}

impl<B: Products> Block<B> {
    fn forward(&self, b: &B, x: &Signal) -> Result<Signal> {
        let h = self.enter.centred(b, x)?.map(relu);
        let width = h.channels / (self.parts.len() + 1);
        // The first part goes through, and every other one has the result of the one before it added.
        let mut parts = vec![h.channels(0, width)];
        for (i, conv) in self.parts.iter().enumerate() {
            let mut part = h.channels((i + 1) * width, width);
            if i > 0 {
                part = part.plus(&parts[i]);
            }
            parts.push(conv.centred(b, &part)?.map(relu));
        }
        let h = Signal::beside(&parts.iter().collect::<Vec<_>>());
        let mut h = self.leave.centred(b, &h)?.map(relu);
        let mean = Signal::new(mean(&h), h.channels);
        let weights = self.squeeze.centred(b, &mean)?.map(relu);
        let weights = self.excite.centred(b, &weights)?.map(sigmoid);
        for row in h.values.chunks_mut(h.channels) {
            row.iter_mut().zip(&weights.values).for_each(|(v, w)| *v *= w);
        }
        Ok(h.plus(x))
    }
}

impl<B: Products> SpeakerEncoder<B> {
    /// The vector `[width]` of a spectrogram `[frames, bands]`.
    pub(super) fn forward(&self, b: &B, mel: Vec<f32>) -> Result<Vec<f32>> {
        let mel = Signal::new(mel, self.config.bands);
        let mut x = self.first.centred(b, &mel)?.map(relu);
        let mut outputs = Vec::new();
        for block in &self.blocks {
            x = block.forward(b, &x)?;
            outputs.push(x.clone());
        }
        let x = Signal::beside(&outputs.iter().collect::<Vec<_>>());
        let x = self.together.centred(b, &x)?.map(relu);
        let even = Signal::new(vec![1.0 / x.len() as f32; x.values.len()], x.channels);
        let (mean, deviation) = statistics(&x, &even);
        let repeated = |row: &[f32]| Signal::new(row.repeat(x.len()), x.channels);
        let seen = Signal::beside(&[&x, &repeated(&mean), &repeated(&deviation)]);
        let hidden = self.attention.0.centred(b, &seen)?.map(relu).map(f32::tanh);
        let weights = softmax_over_time(self.attention.1.centred(b, &hidden)?);
        let (mean, deviation) = statistics(&x, &weights);
        let pooled = Signal::new([mean, deviation].concat(), 2 * x.channels);
        Ok(self.last.centred(b, &pooled)?.values)
    }
}

fn mean(x: &Signal) -> Vec<f32> {
    let mut sums = vec![0.0; x.channels];
    for row in x.values.chunks(x.channels) {
        sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
    }
    sums.iter_mut().for_each(|sum| *sum /= x.len() as f32);
    sums
}

/// Mean and standard deviation of every channel, with a weight for every number.
fn statistics(x: &Signal, weights: &Signal) -> (Vec<f32>, Vec<f32>) {
    let mut means = vec![0.0; x.channels];
    let mut squares = vec![0.0; x.channels];
    let rows = || x.values.chunks(x.channels).zip(weights.values.chunks(x.channels));
    for (row, weights) in rows() {
        for ((mean, v), w) in means.iter_mut().zip(row).zip(weights) {
            *mean += w * v;
        }
    }
    for (row, weights) in rows() {
        for (((square, v), w), mean) in squares.iter_mut().zip(row).zip(weights).zip(&means) {
            *square += w * (v - mean) * (v - mean);
        }
    }
    squares.iter_mut().for_each(|v| *v = v.max(LEAST_VARIANCE).sqrt());
    (means, squares)
}

fn softmax_over_time(mut x: Signal) -> Signal {
    let channels = x.channels;
    let mut most = vec![f32::NEG_INFINITY; channels];
    for row in x.values.chunks(channels) {
        most.iter_mut()
            .zip(row)
            .for_each(|(most, v)| *most = most.max(*v));
    }
    let mut sums = vec![0.0; channels];
    for row in x.values.chunks_mut(channels) {
        for ((v, most), sum) in row.iter_mut().zip(&most).zip(&mut sums) {
            *v = (*v - most).exp();
            *sum += *v;
        }
    }
    for row in x.values.chunks_mut(channels) {
        row.iter_mut().zip(&sums).for_each(|(v, sum)| *v /= sum);
    }
    x
}
