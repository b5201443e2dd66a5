//! code2wav's weights and its forward pass over several streams at once.
//!
//! A row per frame (the mean of the codes' embeddings, or what a quantizer makes of them); a windowed transformer;
//! plain upsampling with ConvNeXt blocks; then the decoder: stages of Snake, transposed convolution and three dilated
//! residual units. Signals are `[time, channels]`.

use omni_backend::{Backend, Batch, ComputeError, Params, Result, Signals, Taps};
use omni_backend::{Conv, Depthwise, Snake};

use crate::checkpoint::LoadError;
use crate::config::{Code2WavConfig, Code2WavFront};
use crate::loader::Loader;
use crate::nn::Stack;
use crate::qwen3_tts::Quantizer;

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

/// From codes to the transformer's rows.
enum Front<P: Params> {
    /// Every codebook has its own part of the table.
    Mean(P::Table),
    Quantizer(Quantizer<P>),
}

/// Frames before a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// That its samples depend on by the convolutions behind the transformer.
    pub(super) convolutions: usize,
    /// That they depend on at all.
    pub(super) all: usize,
}

pub(crate) struct Code2WavNet<P: Params> {
    pub(super) config: Code2WavConfig,
    front: Front<P>,
    pub(super) stack: Stack<P>,
    upsample: Vec<Upsample<P>>,
    entry: Conv<P>,
    stages: Vec<Stage<P>>,
    act: Snake<P>,
    exit: Conv<P>,
}

impl<P: Params> Code2WavNet<P> {
    pub(crate) fn load(l: &Loader<'_, P>, c: &Code2WavConfig) -> Load<Self> {
        let latent = c.latent();
        let stages = c.upsample_rates.len();
        let name = match c.front {
            Code2WavFront::Mean => "code2wav",
            Code2WavFront::Quantizer { .. } => "decoder",
        };
        let upsample = |(i, &factor): (usize, &usize)| {
            Upsample::load(l, &format!("{name}.upsample.{i}"), latent, factor)
        };
        let stage = |(i, &rate): (usize, &usize)| {
            let name = format!("{name}.decoder.{}.block", i + 1);
            Stage::load(l, &name, c.decoder_dim >> i, rate)
        };
        let last = c.decoder_dim >> stages;
        Ok(Self {
            front: match c.front {
                Code2WavFront::Mean => Front::Mean(l.table(
                    "code2wav.code_embedding.weight",
                    c.codebook * c.groups,
                    c.stack.hidden,
                )?),
                Code2WavFront::Quantizer { width, latent } => {
                    Front::Quantizer(Quantizer::load(l, c, width, latent)?)
                }
            },
            stack: Stack::load(l, &format!("{name}.pre_transformer"), &c.stack)?,
            upsample: c
                .upsampling_ratios
                .iter()
                .enumerate()
                .map(upsample)
                .collect::<Load<_>>()?,
            entry: l.conv(
                &format!("{name}.decoder.0.conv"),
                c.decoder_dim,
                latent,
                KERNEL,
                1,
            )?,
            stages: c
                .upsample_rates
                .iter()
                .enumerate()
                .map(stage)
                .collect::<Load<_>>()?,
            act: l.snake(&format!("{name}.decoder.{}", stages + 1), last)?,
            exit: l.conv(&format!("{name}.decoder.{}.conv", stages + 2), 1, last, KERNEL, 1)?,
            config: c.clone(),
        })
    }
}

impl<P: Params> Upsample<P> {
    fn load(l: &Loader<'_, P>, name: &str, hidden: usize, factor: usize) -> Load<Self> {
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
    fn load(l: &Loader<'_, P>, name: &str, inputs: usize, rate: usize) -> Load<Self> {
        let channels = inputs / 2;
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
    /// Empty memory of the convolutions for streams, in the order in which [`Code2WavNet::forward`] uses it.
    pub(super) fn pasts(&self, b: &B) -> Result<Vec<B::Past>> {
        let latent = self.config.latent();
        let mut shapes: Vec<(Taps, usize)> = match &self.front {
            Front::Mean(_) => Vec::new(),
            Front::Quantizer(quantizer) => vec![quantizer.past()],
        };
        shapes.extend(self.upsample.iter().map(|u| (u.dwconv.taps, latent)));
        shapes.push((self.entry.taps, latent));
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

    /// Receptive field of a frame's samples, in frames before it: of the convolutions behind the transformer alone,
    /// and of all.
    pub(super) fn reach(&self) -> Reach {
        let mut rows = self.exit.taps.past();
        for stage in self.stages.iter().rev() {
            rows += stage.residuals.iter().map(|r| r.conv1.taps.past()).sum::<usize>();
            rows = rows.div_ceil(stage.rate) + stage.conv.taps.past();
        }
        rows += self.entry.taps.past();
        for block in self.upsample.iter().rev() {
            rows = (rows + block.dwconv.taps.past()).div_ceil(block.factor);
        }
        let convolutions = rows;
        let stack = &self.config.stack;
        rows += stack.ffn.len() * (stack.window.unwrap_or(1) - 1);
        if let Front::Quantizer(quantizer) = &self.front {
            rows += quantizer.past().0.past();
        }
        Reach {
            convolutions,
            all: rows,
        }
    }

    /// The transformer's rows `[frames, hidden]` of all streams, before its last norm. `codes` are the frames
    /// `[frames, groups]` of all streams, `pasts` those of [`Code2WavNet::pasts`], of which it takes the first ones.
    pub(super) fn attend<'a>(
        &self,
        b: &B,
        codes: &[u32],
        signals: &Signals<B>,
        batch: &Batch,
        kv: &mut [B::Kv],
        pasts: &mut impl Iterator<Item = &'a mut B::Past>,
    ) -> Result<B::Rows>
    where
        B::Past: 'a,
    {
        let config = &self.config;
        let x = match &self.front {
            Front::Mean(table) => {
                let codebook = u32::try_from(config.codebook).unwrap_or(u32::MAX);
                let codebooks = (0..).take(config.groups).cycle();
                let ids = codes
                    .iter()
                    .zip(codebooks)
                    .map(|(&code, q): (_, u32)| q * codebook + code);
                b.lookup_mean(table, &b.ids(config.groups, ids.collect())?)?
            }
            Front::Quantizer(quantizer) => quantizer.enter(b, codes, signals, next(pasts)?)?,
        };
        self.stack.forward(b, x, batch, kv)
    }

    /// Samples `[rows, 1]` of all streams. `codes` are the frames `[frames, groups]` of all streams.
    pub(super) fn forward(
        &self,
        b: &B,
        codes: &[u32],
        signals: &mut Signals<B>,
        batch: &Batch,
        kv: &mut [B::Kv],
        pasts: &mut [B::Past],
    ) -> Result<B::Rows> {
        let mut pasts = pasts.iter_mut();
        let config = &self.config;
        let x = self.attend(b, codes, signals, batch, kv, &mut pasts)?;
        let mut x = self.stack.norm(b, &x)?;
        if let Front::Quantizer(quantizer) = &self.front {
            x = quantizer.leave(b, &x)?;
        }
        for block in &self.upsample {
            x = block.forward(b, &x, signals, config.latent(), next(&mut pasts)?)?;
        }
        x = b.conv(&self.entry, None, &x, signals, next(&mut pasts)?)?;
        for stage in &self.stages {
            x = stage.forward(b, &x, signals, config.drops_first(), &mut pasts)?;
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
    let missing = || ComputeError::Failed("code2wav: a convolution without memory".into());
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
        let h = b.linear_gelu(&self.pwconv1, &h)?;
        b.linear_add(x, Some(&self.gamma), &self.pwconv2, &h)
    }
}

impl<B: Backend> Stage<B> {
    fn forward<'a>(
        &self,
        b: &B,
        x: &B::Rows,
        signals: &mut Signals<B>,
        drops_first: bool,
        pasts: &mut impl Iterator<Item = &'a mut B::Past>,
    ) -> Result<B::Rows> {
        let x = b.conv(&self.conv, Some(&self.act), x, signals, next(pasts)?)?;
        let mut x = b.reshape(x, self.channels)?;
        signals.upsample(self.rate);
        if drops_first {
            // The transposed convolution's first outputs of a stream.
            signals.drop_first(self.rate);
            x = b.trim(x, signals, self.rate)?;
        }
        for residual in &self.residuals {
            x = residual.forward(b, x, signals, next(pasts)?)?;
        }
        Ok(x)
    }
}

impl<B: Backend> Residual<B> {
    fn forward(&self, b: &B, x: B::Rows, signals: &Signals<B>, past: &mut B::Past) -> Result<B::Rows> {
        let h = b.conv_snake(&self.conv1, Some(&self.act1), &x, signals, past, &self.act2)?;
        b.linear_add(x, None, &self.conv2.matrix, &h)
    }
}
