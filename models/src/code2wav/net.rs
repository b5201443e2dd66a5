//! code2wav's weights and its forward pass over several streams at once.
//!
//! Mean of the codes' embeddings; a windowed transformer; plain upsampling with ConvNeXt blocks; then the decoder:
//! stages of Snake, transposed convolution and three dilated residual units. Signals are `[time, channels]`.

use crate::backend::{Backend, Batch, ComputeError, Params, Result, Taps};
use crate::checkpoint::LoadError;
use crate::config::Code2WavConfig;
use crate::loader::{Conv, Loader, Snake};
use crate::nn::Stack;

type Load<T> = std::result::Result<T, LoadError>;

const KERNEL: usize = 7;
const DILATIONS: [usize; 3] = [1, 3, 9];
const LAYER_NORM_EPS: f32 = 1e-6;

/// What one stream remembers of one convolution.
pub(super) struct Past<B: Backend> {
    rows: B::Rows,
    /// Nothing has gone through yet.
    fresh: bool,
}

/// What the convolutions of the streams in a batch remember, handed out in the order of the network.
struct Pasts<'a, B: Backend> {
    streams: Vec<std::slice::IterMut<'a, Past<B>>>,
}

impl<'a, B: Backend> Pasts<'a, B> {
    fn next(&mut self) -> Vec<&'a mut Past<B>> {
        self.streams.iter_mut().filter_map(Iterator::next).collect()
    }
}

struct Upsample<P: Params> {
    conv: Conv<P>,
    factor: usize,
    dwconv: (P::Vector, P::Vector),
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
    /// A stream's memory before its first frame, in the order in which [`Code2WavNet::forward`] asks for it.
    pub(super) fn fresh(&self, b: &B) -> Result<Vec<Past<B>>> {
        let mut shapes = Vec::new();
        shapes.extend(
            self.upsample
                .iter()
                .map(|_| (depthwise_taps(), self.config.stack.hidden)),
        );
        shapes.push((self.entry.taps, self.config.stack.hidden));
        for stage in &self.stages {
            shapes.push((stage.conv.taps, 2 * stage.channels));
            shapes.extend(stage.residuals.iter().map(|r| (r.conv1.taps, stage.channels)));
        }
        shapes.push((self.exit.taps, self.config.decoder_dim >> self.stages.len()));
        let past = |(taps, width): (Taps, usize)| {
            Ok(Past {
                rows: b.lasting(taps.past(), width)?,
                fresh: true,
            })
        };
        shapes.into_iter().map(past).collect()
    }

    /// Samples of all streams, one stream after another, and how many each has. `codes` are the frames of all
    /// streams, `lens` the frames per stream, all at least 1.
    pub(super) fn forward(
        &self,
        b: &B,
        codes: &[u32],
        mut lens: Vec<usize>,
        batch: &Batch,
        kv: &mut [B::Kv],
        pasts: Vec<&mut [Past<B>]>,
    ) -> Result<(Vec<f32>, Vec<usize>)> {
        let mut pasts = Pasts {
            streams: pasts.into_iter().map(|p| p.iter_mut()).collect(),
        };
        let x = b.lookup_mean(&self.embedding, codes, self.config.groups)?;
        let x = self.stack.forward(b, x, batch, kv)?;
        let mut x = self.stack.norm(b, &x)?;
        for block in &self.upsample {
            x = block.forward(b, &x, &mut lens, self.config.stack.hidden, pasts.next())?;
        }
        x = conv(b, None, &self.entry, &x, &lens, pasts.next())?;
        for stage in &self.stages {
            x = stage.forward(b, &x, &mut lens, &mut pasts)?;
        }
        let x = conv(b, Some(&self.act), &self.exit, &x, &lens, pasts.next())?;
        let mut samples = b.host(&x)?;
        if let Some(i) = samples.iter().position(|s| !s.is_finite()) {
            return Err(not_finite(i, &lens));
        }
        samples.iter_mut().for_each(|s| *s = s.clamp(-1.0, 1.0));
        Ok((samples, lens))
    }
}

/// What to say of sample `i` of all streams: as sound it would be silence or a bang.
fn not_finite(mut i: usize, lens: &[usize]) -> ComputeError {
    let mut stream = 0;
    for &len in lens {
        if i < len {
            break;
        }
        i -= len;
        stream += 1;
    }
    ComputeError(format!(
        "code2wav: sample {i} of entry {stream} of the batch is not a number or infinite"
    ))
}

fn depthwise_taps() -> Taps {
    Taps {
        taps: KERNEL,
        dilation: 1,
    }
}

fn conv<B: Backend>(
    b: &B,
    act: Option<&Snake<B>>,
    conv: &Conv<B>,
    x: &B::Rows,
    lens: &[usize],
    past: Vec<&mut Past<B>>,
) -> Result<B::Rows> {
    let mut rows: Vec<&mut B::Rows> = past.into_iter().map(|p| &mut p.rows).collect();
    b.conv(conv, act, x, lens, &mut rows)
}

impl<B: Backend> Upsample<B> {
    /// Transposed convolution without overlap, then a ConvNeXt block.
    fn forward(
        &self,
        b: &B,
        x: &B::Rows,
        lens: &mut [usize],
        width: usize,
        past: Vec<&mut Past<B>>,
    ) -> Result<B::Rows> {
        let x = b.reshape(b.linear(&self.conv.matrix, x)?, width)?;
        lens.iter_mut().for_each(|len| *len *= self.factor);
        let mut rows: Vec<&mut B::Rows> = past.into_iter().map(|p| &mut p.rows).collect();
        let h = b.depthwise(
            &self.dwconv.0,
            &self.dwconv.1,
            depthwise_taps(),
            &x,
            lens,
            &mut rows,
        )?;
        let h = b.layer_norm(&self.norm.0, &self.norm.1, LAYER_NORM_EPS, &h)?;
        let h = b.linear(&self.pwconv2, &b.gelu(b.linear(&self.pwconv1, &h)?)?)?;
        b.add(x, &h, Some(&self.gamma))
    }
}

impl<B: Backend> Stage<B> {
    fn forward(&self, b: &B, x: &B::Rows, lens: &mut [usize], pasts: &mut Pasts<'_, B>) -> Result<B::Rows> {
        let mut past = pasts.next();
        let fresh: Vec<bool> = past.iter().map(|p| p.fresh).collect();
        for (past, len) in past.iter_mut().zip(lens.iter()) {
            past.fresh &= *len == 0;
        }
        let x = b.reshape(
            conv(b, Some(&self.act), &self.conv, x, lens, past)?,
            self.channels,
        )?;
        let mut x = self.drop_first(b, x, lens, &fresh)?;
        for residual in &self.residuals {
            x = residual.forward(b, x, lens, pasts.next())?;
        }
        Ok(x)
    }

    /// Scales `lens` to the stage's output and drops the first `rate` rows of streams that begin here.
    fn drop_first(&self, b: &B, x: B::Rows, lens: &mut [usize], fresh: &[bool]) -> Result<B::Rows> {
        let (mut keep, mut row, mut dropped) = (Vec::new(), 0, false);
        for (len, &fresh) in lens.iter_mut().zip(fresh) {
            let made = *len * self.rate;
            let skip = if fresh { self.rate.min(made) } else { 0 };
            dropped |= skip > 0;
            keep.extend(row + skip..row + made);
            row += made;
            *len = made - skip;
        }
        if !dropped {
            return Ok(x);
        }
        let keep: Vec<u32> = keep
            .into_iter()
            .map(|row| u32::try_from(row).unwrap_or(u32::MAX))
            .collect();
        b.gather(&x, &keep)
    }
}

impl<B: Backend> Residual<B> {
    fn forward(&self, b: &B, x: B::Rows, lens: &[usize], past: Vec<&mut Past<B>>) -> Result<B::Rows> {
        let h = conv(b, Some(&self.act1), &self.conv1, &x, lens, past)?;
        let h = b.linear(&self.conv2.matrix, &b.snake(&self.act2, h)?)?;
        b.add(x, &h, None)
    }
}
