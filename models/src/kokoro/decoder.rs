//! From rows of frames to the numbers of spectra (iSTFTNet).

use omni_backend::{Act, Conv, Params, Reach, Result, Taps, WholeSignals};

use super::blocks::{GeneratorBlock, Load, Styled, StyledBlock};
use super::config::{GeneratorConfig, KokoroConfig};
use super::source::HARMONICS;
use super::text::Prosody;
use crate::loader::Loader;

/// Slopes of negative numbers before upsampling and before the last convolution.
const UPSAMPLING_SLOPE: f32 = 0.1;
const LAST_SLOPE: f32 = 0.01;
/// Taps of the last convolution.
const LAST_KERNEL: usize = 7;
/// Taps of the source's blocks: of the last stage, and of those before.
const SOURCE_KERNELS: (usize, usize) = (11, 7);

pub(super) struct Decoder<P: Params> {
    hidden: usize,
    width: usize,
    beside: usize,
    pitch: Conv<P>,
    energy: Conv<P>,
    encode: StyledBlock<P>,
    text: P::Matrix,
    decode: Vec<StyledBlock<P>>,
    stages: Vec<Stage<P>>,
    last: Conv<P>,
}

/// Upsampling, the source's part, and blocks whose results are added up; the next convolution divides by their number.
struct Stage<P: Params> {
    rate: usize,
    kernel: usize,
    channels: usize,
    up: Conv<P>,
    source: Conv<P>,
    source_reach: Reach,
    source_block: GeneratorBlock<P>,
    blocks: Vec<GeneratorBlock<P>>,
    is_last: bool,
}

impl<P: Params> Stage<P> {
    fn load(l: &Loader<'_, P>, i: usize, c: &GeneratorConfig, style: usize) -> Load<Self> {
        let name = "decoder.generator";
        let (rate, kernel, channels) = (c.rates[i], c.kernels[i], c.channels >> (i + 1));
        let is_last = i + 1 == c.rates.len();
        let averaged = (i > 0).then(|| 1.0 / c.block_kernels.len() as f32);
        // The source has the rows of the last stage.
        let step: usize = c.rates[i + 1..].iter().product();
        let (taps, edge) = if is_last {
            (1, 0)
        } else {
            (2 * step, step.div_ceil(2))
        };
        let source_kernel = if is_last {
            SOURCE_KERNELS.0
        } else {
            SOURCE_KERNELS.1
        };
        let dilations = &c.block_dilations;
        let block = |(j, &kernel): (usize, &usize)| {
            let name = format!("{name}.resblocks.{}", i * c.block_kernels.len() + j);
            GeneratorBlock::load(l, &name, channels, kernel, dilations, style)
        };
        let source_block = format!("{name}.noise_res.{i}");
        Ok(Self {
            rate,
            kernel,
            channels,
            up: l.conv_transpose_times(
                &format!("{name}.ups.{i}"),
                (2 * channels, channels, kernel),
                rate,
                averaged,
            )?,
            source: l.conv(&format!("{name}.noise_convs.{i}"), channels, c.n_fft + 2, taps, 1)?,
            source_reach: Reach {
                before: edge,
                after: edge,
                step,
            },
            source_block: GeneratorBlock::load(l, &source_block, channels, source_kernel, dilations, style)?,
            blocks: c
                .block_kernels
                .iter()
                .enumerate()
                .map(block)
                .collect::<Load<_>>()?,
            is_last,
        })
    }
}

impl<P: Params> Decoder<P> {
    pub(super) fn load(l: &Loader<'_, P>, c: &KokoroConfig) -> Load<Self> {
        let block = |name: &str, inputs, out, doubles| {
            StyledBlock::load(l, &format!("decoder.{name}"), (inputs, out), c.style, doubles)
        };
        let g = &c.generator;
        let inputs = c.decoder + 2 + c.beside;
        let averaged = 1.0 / g.block_kernels.len() as f32;
        let last = (g.n_fft + 2, g.channels >> g.rates.len(), LAST_KERNEL);
        Ok(Self {
            hidden: c.hidden,
            width: c.decoder,
            beside: c.beside,
            pitch: l.conv("decoder.F0_conv", 1, 1, 3, 1)?,
            energy: l.conv("decoder.N_conv", 1, 1, 3, 1)?,
            encode: block("encode", c.hidden + 2, c.decoder, false)?,
            text: l.conv("decoder.asr_res.0", c.beside, c.hidden, 1, 1)?.matrix,
            decode: vec![
                block("decode.0", inputs, c.decoder, false)?,
                block("decode.1", inputs, c.decoder, false)?,
                block("decode.2", inputs, c.decoder, false)?,
                block("decode.3", inputs, g.channels, true)?,
            ],
            stages: (0..g.rates.len())
                .map(|i| Stage::load(l, i, g, c.style))
                .collect::<Load<_>>()?,
            last: l.conv_times("decoder.generator.conv_post", last, averaged, Some(1.0))?,
        })
    }

    /// Weights and bias by which the source's harmonics are mixed.
    pub(super) fn check_source(l: &Loader<'_, P>) -> Load<()> {
        l.unused("decoder.generator.m_source.l_linear.weight", &[1, HARMONICS])?;
        l.unused("decoder.generator.m_source.l_linear.bias", &[1])
    }
}

/// The rows of several, of these widths, beside each other.
fn beside(parts: &[(&[f32], usize)]) -> Vec<f32> {
    let mut out = Vec::with_capacity(parts.iter().map(|(part, _)| part.len()).sum());
    let rows = parts.first().map_or(0, |(part, width)| part.len() / width);
    for row in 0..rows {
        for (part, width) in parts {
            out.extend_from_slice(&part[row * width..(row + 1) * width]);
        }
    }
    out
}

impl<B: WholeSignals> Stage<B> {
    /// The numbers of upsampled rows that are kept: the ends of a transposed convolution go. The last stage has the
    /// second one in front again, for a spectrum that begins before the first sample.
    fn kept(&self, lens: &[usize]) -> Vec<u32> {
        let edge = (self.kernel - self.rate) / 2;
        let taps = self.kernel / self.rate;
        let mut first = 0;
        let mut kept = Vec::new();
        for &len in lens {
            let number = |row: usize| u32::try_from(first + edge + row).unwrap_or(u32::MAX);
            kept.extend(self.is_last.then(|| number(1)));
            kept.extend((0..len * self.rate).map(number));
            first += (len + taps - 1) * self.rate;
        }
        kept
    }

    fn forward(
        &self,
        on: Styled<'_, B>,
        x: &B::Rows,
        source: &B::Rows,
        source_lens: &[usize],
    ) -> Result<(B::Rows, Vec<usize>)> {
        let Styled { b, lens, .. } = on;
        let more = self.up.taps.past();
        let reach = Reach {
            before: more,
            after: more,
            step: 1,
        };
        let x = b.convolve(&self.up, Act::Leaky(UPSAMPLING_SLOPE), x, lens, reach)?;
        let x = b.gather(&b.reshape(x, self.channels)?, &self.kept(lens))?;
        let lens: Vec<usize> = lens
            .iter()
            .map(|len| len * self.rate + usize::from(self.is_last))
            .collect();
        let on = Styled { lens: &lens, ..on };
        let y = b.convolve(&self.source, Act::None, source, source_lens, self.source_reach)?;
        let x = b.add(x, &self.source_block.forward(on, &y)?, None)?;
        let mut sum: Option<B::Rows> = None;
        for block in &self.blocks {
            let y = block.forward(on, &x)?;
            sum = Some(match sum {
                Some(sum) => b.add(sum, &y, None)?,
                None => y,
            });
        }
        Ok((sum.unwrap_or(x), lens))
    }
}

impl<B: WholeSignals> Decoder<B> {
    /// Input of the generator: two rows for every row of `text`.
    pub(super) fn decode(
        &self,
        on: Styled<'_, B>,
        text: &B::Rows,
        prosody: &Prosody<B::Rows>,
    ) -> Result<B::Rows> {
        let Styled { b, lens, .. } = on;
        let twice: Vec<usize> = lens.iter().map(|len| 2 * len).collect();
        let halved = |conv: &Conv<B>, x| {
            let reach = Reach {
                before: 1,
                after: 1,
                step: 2,
            };
            b.host(&b.convolve(conv, Act::None, x, &twice, reach)?)
        };
        let pitch = halved(&self.pitch, &prosody.pitch)?;
        let energy = halved(&self.energy, &prosody.energy)?;
        let curves = [(&pitch[..], 1), (&energy[..], 1)];
        let x = beside(&[&[(&b.host(text)?[..], self.hidden)], &curves[..]].concat());
        let mut x = self.encode.forward(on, &b.rows(self.hidden + 2, x)?)?;
        let also = b.host(&b.linear(&self.text, text)?)?;
        for block in &self.decode {
            let y = beside(
                &[
                    &[(&b.host(&x)?[..], self.width), (&also, self.beside)],
                    &curves[..],
                ]
                .concat(),
            );
            x = block.forward(on, &b.rows(self.width + self.beside + 2, y)?)?;
        }
        Ok(x)
    }

    /// Sizes (as logarithms) and angles of spectra `[rows, 2 * bins]`, one more for a signal than its rows give.
    pub(super) fn generate(
        &self,
        on: Styled<'_, B>,
        x: B::Rows,
        source: &B::Rows,
        source_lens: &[usize],
    ) -> Result<B::Rows> {
        let b = on.b;
        let mut x = x;
        let mut lens = on.lens.to_vec();
        for stage in &self.stages {
            (x, lens) = stage.forward(Styled { lens: &lens, ..on }, &x, source, source_lens)?;
        }
        let taps: Taps = self.last.taps;
        b.convolve(
            &self.last,
            Act::Leaky(LAST_SLOPE),
            &x,
            &lens,
            Reach::centred(taps),
        )
    }
}
