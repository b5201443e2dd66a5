//! Residual blocks whose norms depend on the style of the voice.

use omni_backend::{Act, ComputeError, Conv, Depthwise, Params, Reach, Result, Snake, WholeSignals};

use crate::checkpoint::LoadError;
use crate::loader::Loader;

pub(super) type Load<T> = std::result::Result<T, LoadError>;

/// Slope of negative numbers.
pub(super) const SLOPE: f32 = 0.2;
const ROOT_HALF: f32 = std::f32::consts::FRAC_1_SQRT_2;

/// Signals of a batch on their way, and the styles of their voices.
pub(super) struct Styled<'a, B: WholeSignals> {
    pub(super) b: &'a B,
    /// `[signals, style]`.
    pub(super) style: &'a B::Rows,
    /// Rows of every signal.
    pub(super) lens: &'a [usize],
}

impl<B: WholeSignals> Clone for Styled<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: WholeSignals> Copy for Styled<'_, B> {}

/// A block of the prosody predictor and of the decoder: `(residual + shortcut) / sqrt(2)`.
pub(super) struct StyledBlock<P: Params> {
    norm1: P::Matrix,
    conv1: Conv<P>,
    norm2: P::Matrix,
    /// Divided by the root of 2, as the shortcut is.
    conv2: Conv<P>,
    shortcut: Shortcut<P>,
    /// Of a block that doubles the rows.
    pool: Option<Depthwise<P>>,
    inputs: usize,
}

enum Shortcut<P: Params> {
    Conv(Conv<P>),
    Scale(P::Vector),
}

/// A block of the generator: convolutions of growing reach, one after another.
pub(super) struct GeneratorBlock<P: Params> {
    units: Vec<Unit<P>>,
}

struct Unit<P: Params> {
    norm1: P::Matrix,
    act1: Snake<P>,
    conv1: Conv<P>,
    norm2: P::Matrix,
    act2: Snake<P>,
    conv2: Conv<P>,
}

impl<P: Params> StyledBlock<P> {
    pub(super) fn load(
        l: &Loader<'_, P>,
        name: &str,
        (inputs, out): (usize, usize),
        style: usize,
        doubles: bool,
    ) -> Load<Self> {
        let pool = doubles.then(|| l.depthwise_transpose(&format!("{name}.pool"), inputs, 3));
        Ok(Self {
            norm1: l.linear(&format!("{name}.norm1.fc"), 2 * inputs, style, true)?,
            conv1: l.conv(&format!("{name}.conv1"), out, inputs, 3, 1)?,
            norm2: l.linear(&format!("{name}.norm2.fc"), 2 * out, style, true)?,
            conv2: l.conv_times(
                &format!("{name}.conv2"),
                (out, out, 3),
                ROOT_HALF,
                Some(ROOT_HALF),
            )?,
            shortcut: if inputs == out {
                Shortcut::Scale(l.constant(out, ROOT_HALF)?)
            } else {
                Shortcut::Conv(l.conv_times(&format!("{name}.conv1x1"), (out, inputs, 1), ROOT_HALF, None)?)
            },
            pool: pool.transpose()?,
            inputs,
        })
    }
}

/// The numbers of rows `0, step, 2 step, ...` below `end`.
fn numbers(end: usize, step: usize) -> Vec<u32> {
    (0..u32::try_from(end).unwrap_or(u32::MAX))
        .step_by(step)
        .collect()
}

/// Every row twice.
fn doubled(rows: usize) -> Vec<u32> {
    numbers(rows, 1).into_iter().flat_map(|row| [row, row]).collect()
}

impl<B: WholeSignals> StyledBlock<B> {
    /// Twice as many rows if it doubles them.
    pub(super) fn forward(&self, on: Styled<'_, B>, x: &B::Rows) -> Result<B::Rows> {
        let Styled { b, style, lens } = on;
        let act = Act::Leaky(SLOPE);
        let norm1 = b.linear(&self.norm1, style)?;
        let norm2 = b.linear(&self.norm2, style)?;
        let Some(pool) = &self.pool else {
            let y = b.adapt_convolve(&self.conv1, &norm1, act, x, lens, None)?;
            return self.joined(b, x, b.adapt_convolve(&self.conv2, &norm2, act, &y, lens, None)?);
        };
        let rows = lens.iter().sum::<usize>();
        let twice: Vec<usize> = lens.iter().map(|len| 2 * len).collect();
        let y = b.adapt(&norm1, act, x, lens)?;
        let y = b.scatter_add(b.zeros(2 * rows, self.inputs)?, &numbers(2 * rows, 2), &y)?;
        let y = b.convolve_depthwise(pool, &y, &twice)?;
        let y = b.convolve(
            &self.conv1,
            Act::None,
            &y,
            &twice,
            Reach::centred(self.conv1.taps),
        )?;
        let y = b.adapt_convolve(&self.conv2, &norm2, act, &y, &twice, None)?;
        self.joined(b, &b.gather(x, &doubled(rows))?, y)
    }

    fn joined(&self, b: &B, x: &B::Rows, y: B::Rows) -> Result<B::Rows> {
        match &self.shortcut {
            Shortcut::Conv(conv) => b.linear_add(y, None, &conv.matrix, x),
            Shortcut::Scale(scale) => b.add(y, x, Some(scale)),
        }
    }
}

impl<P: Params> GeneratorBlock<P> {
    pub(super) fn load(
        l: &Loader<'_, P>,
        name: &str,
        channels: usize,
        kernel: usize,
        dilations: &[usize],
        style: usize,
    ) -> Load<Self> {
        let unit = |(i, &dilation): (usize, &usize)| {
            Ok(Unit {
                norm1: l.linear(&format!("{name}.adain1.{i}.fc"), 2 * channels, style, true)?,
                act1: l.snake_of(&format!("{name}.alpha1.{i}"), channels)?,
                conv1: l.conv(
                    &format!("{name}.convs1.{i}"),
                    channels,
                    channels,
                    kernel,
                    dilation,
                )?,
                norm2: l.linear(&format!("{name}.adain2.{i}.fc"), 2 * channels, style, true)?,
                act2: l.snake_of(&format!("{name}.alpha2.{i}"), channels)?,
                conv2: l.conv(&format!("{name}.convs2.{i}"), channels, channels, kernel, 1)?,
            })
        };
        Ok(Self {
            units: dilations.iter().enumerate().map(unit).collect::<Load<_>>()?,
        })
    }
}

impl<B: WholeSignals> GeneratorBlock<B> {
    pub(super) fn forward(&self, on: Styled<'_, B>, x: &B::Rows) -> Result<B::Rows> {
        let Styled { b, style, lens } = on;
        let unit = |unit: &Unit<B>, x: &B::Rows| {
            let norm1 = b.linear(&unit.norm1, style)?;
            let y = b.adapt_convolve(&unit.conv1, &norm1, Act::Snake(&unit.act1), x, lens, None)?;
            let norm2 = b.linear(&unit.norm2, style)?;
            b.adapt_convolve(&unit.conv2, &norm2, Act::Snake(&unit.act2), &y, lens, Some(x))
        };
        let (first, others) = self
            .units
            .split_first()
            .ok_or_else(|| ComputeError::Failed("a block of the generator has no convolutions".into()))?;
        others.iter().try_fold(unit(first, x)?, |x, next| unit(next, &x))
    }
}
