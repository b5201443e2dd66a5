//! code2wav's weights and its forward pass over several streams at once.
//!
//! Mean of the codes' embeddings; a windowed transformer; plain upsampling with ConvNeXt blocks; then the decoder:
//! stages of Snake, transposed convolution and three dilated residual units. Signals are `[time, channels]`.

use crate::backend::{Backend, Batch, ComputeError, Params, Result, Signals, Taps};
use crate::checkpoint::LoadError;
use crate::config::Code2WavConfig;
use crate::loader::{Conv, Depthwise, Loader, Snake};
use crate::nn::Stack;

type Load<T> = std::result::Result<T, LoadError>;

const KERNEL: usize = 7;
const DILATIONS: [usize; 3] = [1, 3, 9];
const LAYER_NORM_EPS: f32 = 1e-6;

struct Upsample<P: Params> {
    conv: Conv<P>,
    factor: usize,
    dwconv: Depthwise<P>,
    norm: (P::Vector, P::Vector),
    pwconv1: P::Matrix,
    pwconv2: P::Matrix,
    gamma: P::Vector,
}

struct Residual<P: Params> {
    act1: Snake<P>,
    conv1: Conv<P>,
    act2: Snake<P>,
    conv2: Conv<P>,
}

struct Stage<P: Params> {
    act: Snake<P>,
    conv: Conv<P>,
    rate: usize,
    channels: usize,
    residuals: Vec<Residual<P>>,
}

pub(crate) struct Code2WavNet<P: Params> {
    pub(super) config: Code2WavConfig,
    embedding: P::Table,
    pub(super) stack: Stack<P>,
    upsample: Vec<Upsample<P>>,
    entry: Conv<P>,
    stages: Vec<Stage<P>>,
    act: Snake<P>,
    exit: Conv<P>,
}

impl<P: Params> Code2WavNet<P> {
    pub(crate) fn load(l: &Loader<'_, P>, c: &Code2WavConfig) -> Load<Self> {
        let (hidden, stages) = (c.stack.hidden, c.upsample_rates.len());
        let upsample = |(i, &factor): (usize, &usize)| Upsample::load(l, i, hidden, factor);
        let stage = |(i, &rate): (usize, &usize)| Stage::load(l, i + 1, c.decoder_dim >> i, rate);
        let last = c.decoder_dim >> stages;
        Ok(Self {
            embedding: l.table("code2wav.code_embedding.weight", c.codebook * c.groups, hidden)?,
            stack: Stack::load(l, "code2wav.pre_transformer", &c.stack)?,
            upsample: c
                .upsampling_ratios
                .iter()
                .enumerate()
                .map(upsample)
                .collect::<Load<_>>()?,
            entry: l.conv("code2wav.decoder.0.conv", c.decoder_dim, hidden, KERNEL, 1)?,
            stages: c
                .upsample_rates
                .iter()
                .enumerate()
                .map(stage)
                .collect::<Load<_>>()?,
            act: l.snake(&format!("code2wav.decoder.{}", stages + 1), last)?,
            exit: l.conv(
                &format!("code2wav.decoder.{}.conv", stages + 2),
                1,
                last,
                KERNEL,
                1,
            )?,
            config: c.clone(),
        })
    }
}

impl<P: Params> Upsample<P> {
    fn load(l: &Loader<'_, P>, index: usize, hidden: usize, factor: usize) -> Load<Self> {
        let name = format!("code2wav.upsample.{index}");
        let block = format!("{name}.1");
        let vector = |part: &str| l.vector(&format!("{block}.{part}"), hidden);
        Ok(Self {
            conv: l.conv_transpose(&format!("{name}.0.conv"), hidden, hidden, factor, factor)?,
            factor,
            dwconv: l.depthwise(&format!("{block}.dwconv.conv"), hidden, KERNEL)?,
            norm: (vector("norm.weight")?, vector("norm.bias")?),
            pwconv1: l.linear(&format!("{block}.pwconv1"), 4 * hidden, hidden, true)?,
            pwconv2: l.linear(&format!("{block}.pwconv2"), hidden, 4 * hidden, true)?,
            gamma: vector("gamma")?,
        })
    }
}

impl<P: Params> Stage<P> {
    fn load(l: &Loader<'_, P>, index: usize, inputs: usize, rate: usize) -> Load<Self> {
        let (name, channels) = (format!("code2wav.decoder.{index}.block"), inputs / 2);
        let residual = |(i, dilation)| Residual::load(l, &format!("{name}.{}", i + 2), channels, dilation);
        Ok(Self {
            act: l.snake(&format!("{name}.0"), inputs)?,
            conv: l.conv_transpose(&format!("{name}.1.conv"), inputs, channels, 2 * rate, rate)?,
            rate,
            channels,
            residuals: DILATIONS
                .into_iter()
                .enumerate()
                .map(residual)
                .collect::<Load<_>>()?,
        })
    }
}

impl<P: Params> Residual<P> {
    fn load(l: &Loader<'_, P>, name: &str, channels: usize, dilation: usize) -> Load<Self> {
        Ok(Self {
            act1: l.snake(&format!("{name}.act1"), channels)?,
            conv1: l.conv(
                &format!("{name}.conv1.conv"),
                channels,
                channels,
                KERNEL,
                dilation,
            )?,
            act2: l.snake(&format!("{name}.act2"), channels)?,
            conv2: l.conv(&format!("{name}.conv2.conv"), channels, channels, 1, 1)?,
        })
    }
}

impl<B: Backend> Code2WavNet<B> {
    /// What the convolutions remember of streams, in the order in which [`Code2WavNet::forward`] asks for it: none yet.
    pub(super) fn pasts(&self, b: &B) -> Result<Vec<B::Past>> {
        let hidden = self.config.stack.hidden;
        let mut shapes: Vec<(Taps, usize)> = self.upsample.iter().map(|u| (u.dwconv.taps, hidden)).collect();
        shapes.push((self.entry.taps, hidden));
        for stage in &self.stages {
            shapes.push((stage.conv.taps, 2 * stage.channels));
            shapes.extend(stage.residuals.iter().map(|r| (r.conv1.taps, stage.channels)));
        }
        shapes.push((self.exit.taps, self.config.decoder_dim >> self.stages.len()));
        shapes
            .into_iter()
            .map(|(taps, width)| b.past(taps, width))
            .collect()
    }

    /// Samples `[rows, 1]` of all streams. `codes` are the frames `[frames, groups]` of all streams.
    pub(super) fn forward(
        &self,
        b: &B,
        codes: &B::Ids,
        signals: &mut Signals<B>,
        batch: &Batch,
        kv: &mut [B::Kv],
        pasts: &mut [B::Past],
    ) -> Result<B::Rows> {
        let mut pasts = pasts.iter_mut();
        let x = b.lookup_mean(&self.embedding, codes)?;
        let x = self.stack.forward(b, x, batch, kv)?;
        let mut x = self.stack.norm(b, &x)?;
        for block in &self.upsample {
            x = block.forward(b, &x, signals, self.config.stack.hidden, next(&mut pasts)?)?;
        }
        x = b.conv(&self.entry, None, &x, signals, next(&mut pasts)?)?;
        for stage in &self.stages {
            x = stage.forward(b, &x, signals, &mut pasts)?;
        }
        b.conv(&self.exit, Some(&self.act), &x, signals, next(&mut pasts)?)
    }
}

/// Clips samples of one stream, all of which must be numbers.
pub(super) fn clip(samples: &mut [f32]) -> std::result::Result<(), String> {
    if let Some(i) = samples.iter().position(|s| !s.is_finite()) {
        // As sound it would be silence or a bang.
        return Err(format!(
            "code2wav: sample {i} of a chunk is not a number or infinite"
        ));
    }
    samples.iter_mut().for_each(|s| *s = s.clamp(-1.0, 1.0));
    Ok(())
}

fn next<'a, T>(pasts: &mut impl Iterator<Item = &'a mut T>) -> Result<&'a mut T> {
    let missing = || ComputeError("code2wav: a convolution without memory".into());
    pasts.next().ok_or_else(missing)
}

impl<B: Backend> Upsample<B> {
    /// Transposed convolution without overlap, then a ConvNeXt block.
    fn forward(
        &self,
        b: &B,
        x: &B::Rows,
        signals: &mut Signals<B>,
        width: usize,
        past: &mut B::Past,
    ) -> Result<B::Rows> {
        let x = b.reshape(b.linear(&self.conv.matrix, x)?, width)?;
        signals.upsample(self.factor);
        let h = b.depthwise(&self.dwconv, &x, signals, past)?;
        let h = b.layer_norm(&self.norm.0, &self.norm.1, LAYER_NORM_EPS, &h)?;
        let h = b.linear(&self.pwconv2, &b.gelu(b.linear(&self.pwconv1, &h)?)?)?;
        b.add(x, &h, Some(&self.gamma))
    }
}

impl<B: Backend> Stage<B> {
    fn forward<'a>(
        &self,
        b: &B,
        x: &B::Rows,
        signals: &mut Signals<B>,
        pasts: &mut impl Iterator<Item = &'a mut B::Past>,
    ) -> Result<B::Rows> {
        let x = b.conv(&self.conv, Some(&self.act), x, signals, next(pasts)?)?;
        let x = b.reshape(x, self.channels)?;
        // The transposed convolution's first outputs of a stream are dropped.
        signals.upsample(self.rate);
        signals.drop_first(self.rate);
        let mut x = b.trim(x, signals, self.rate)?;
        for residual in &self.residuals {
            x = residual.forward(b, x, signals, next(pasts)?)?;
        }
        Ok(x)
    }
}

impl<B: Backend> Residual<B> {
    fn forward(&self, b: &B, x: B::Rows, signals: &Signals<B>, past: &mut B::Past) -> Result<B::Rows> {
        let h = b.conv(&self.conv1, Some(&self.act1), &x, signals, past)?;
        let h = b.linear(&self.conv2.matrix, &b.snake(&self.act2, h)?)?;
        b.add(x, &h, None)
    }
}
