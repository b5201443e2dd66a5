//! Element by element: `kernels/pointwise.cu`.

use super::{args, kernels, launch, of, wide};
use crate::launch::{Address, Float, Launch};

kernels! { "pointwise":
    typed ADD = "add"("ppppuuu") 256;
    typed ACTIVATE = "activate"("ppuuu") 256;
    typed SWIGLU = "swiglu"("ppuu") 256;
    typed SNAKE = "snake"("ppppuuu") 256;
    typed WIDEN_ROWS = "widen_rows"("ppu") 256;
    typed NARROW_ROWS = "narrow_rows"("ppu") 256;
}

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// The number itself.
    #[default]
    None,
    /// `x / (1 + exp(-x))`.
    Silu,
    /// The exact (erf) form.
    Gelu,
    /// `x + sin(x * scale)^2 * shift` per channel, in products of many rows.
    Snake,
}

impl Activation {
    pub(super) fn number(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Silu => 1,
            Self::Gelu => 2,
            Self::Snake => 3,
        }
    }
}

/// Blocks of 256 threads with eight elements each.
fn eights(count: u32) -> [u32; 3] {
    [count.div_ceil(256 * 8), 1, 1]
}

/// `out = x + scale * y` per channel.
#[derive(Debug, Clone, Copy)]
pub struct Add {
    /// `[rows, width]`; may be `x`.
    pub out: Address,
    /// `[rows, width]`.
    pub x: Address,
    /// `[rows, width]`.
    pub y: Address,
    /// `[width]` of f32, or none for 1.
    pub scale: Address,
    /// Elements in all.
    pub count: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Add {
    /// Eight elements per thread.
    pub fn launch(&self, float: Float) -> Launch {
        let wide = wide(self.count, &[self.out, self.x, self.y]);
        let args = args![self.out, self.x, self.y, self.scale, self.count, self.width, wide];
        launch(of(&ADD, float), eights(self.count), 256, args)
    }
}

/// `out = activation(x)`.
#[derive(Debug, Clone, Copy)]
pub struct Activate {
    /// `[count]`; may be `x`.
    pub out: Address,
    /// `[count]`.
    pub x: Address,
    /// Elements.
    pub count: u32,
    /// Function applied to each.
    pub activation: Activation,
}

impl Activate {
    /// Eight elements per thread.
    pub fn launch(&self, float: Float) -> Launch {
        let wide = wide(self.count, &[self.out, self.x]);
        let args = args![self.out, self.x, self.count, self.activation.number(), wide];
        launch(of(&ACTIVATE, float), eights(self.count), 256, args)
    }
}

/// `[gate | up]` to `silu(gate) * up`.
#[derive(Debug, Clone, Copy)]
pub struct Swiglu {
    /// `[rows, half]`; not `x`.
    pub out: Address,
    /// `[rows, 2 * half]`.
    pub x: Address,
    /// Number of rows.
    pub rows: u32,
    /// Elements of a row of `out`.
    pub half: u32,
}

impl Swiglu {
    /// An element of `out` per thread.
    pub fn launch(&self, float: Float) -> Launch {
        let count = self.rows * self.half;
        let grid = [count.div_ceil(256), 1, 1];
        launch(
            of(&SWIGLU, float),
            grid,
            256,
            args![self.out, self.x, count, self.half],
        )
    }
}

/// `out = x + sin(x * a)^2 * b` per channel.
#[derive(Debug, Clone, Copy)]
pub struct Snake {
    /// `[rows, width]`; may be `x`.
    pub out: Address,
    /// `[rows, width]`.
    pub x: Address,
    /// `[width]` of f32.
    pub a: Address,
    /// `[width]` of f32.
    pub b: Address,
    /// Elements in all.
    pub count: u32,
    /// Elements of a row.
    pub width: u32,
}

impl Snake {
    /// Eight elements per thread.
    pub fn launch(&self, float: Float) -> Launch {
        let wide = wide(self.count, &[self.out, self.x]);
        let args = args![self.out, self.x, self.a, self.b, self.count, self.width, wide];
        launch(of(&SNAKE, float), eights(self.count), 256, args)
    }
}

/// Elements of the launch's type to f32.
#[derive(Debug, Clone, Copy)]
pub struct ToF32 {
    /// `[count]` of f32.
    pub out: Address,
    /// `[count]`.
    pub x: Address,
    /// Elements.
    pub count: u32,
}

impl ToF32 {
    /// An element per thread.
    pub fn launch(&self, float: Float) -> Launch {
        let grid = [self.count.div_ceil(256), 1, 1];
        launch(
            of(&WIDEN_ROWS, float),
            grid,
            256,
            args![self.out, self.x, self.count],
        )
    }
}

/// Elements of f32 to the launch's type.
#[derive(Debug, Clone, Copy)]
pub struct FromF32 {
    /// `[count]`.
    pub out: Address,
    /// `[count]` of f32.
    pub x: Address,
    /// Elements.
    pub count: u32,
}

impl FromF32 {
    /// An element per thread.
    pub fn launch(&self, float: Float) -> Launch {
        let grid = [self.count.div_ceil(256), 1, 1];
        launch(
            of(&NARROW_ROWS, float),
            grid,
            256,
            args![self.out, self.x, self.count],
        )
    }
}
