//! Norms of rows: `kernels/norm.cu`.

use super::{args, kernels, launch, of, threads, wide};
use crate::launch::{Address, Float, Launch};

kernels! { "norm":
    typed RMS_NORM = "rms_norm"("pppppufu") 1024;
    typed LAYER_NORM = "layer_norm"("ppppufu") 1024;
}

/// `x += scale * y` if there is a `y`, then `out = x / sqrt(mean(x^2) + eps) * weight` if there is an `out`.
#[derive(Debug, Clone, Copy)]
pub struct RmsNorm {
    /// `[rows, width]`, or none to only add.
    pub out: Address,
    /// `[rows, width]`, changed if there is a `y`.
    pub x: Address,
    /// `[rows, width]`, or none.
    pub y: Address,
    /// `[width]` of f32, or none for 1.
    pub scale: Address,
    /// `[width]` of f32.
    pub weight: Address,
    /// Number of rows.
    pub rows: u32,
    /// Elements of each.
    pub width: u32,
    /// Added to the mean of the squares.
    pub eps: f32,
}

impl RmsNorm {
    /// One block per row.
    pub fn launch(&self, float: Float) -> Launch {
        let wide = wide(self.width, &[self.out, self.x, self.y, self.scale, self.weight]);
        let items = if wide { self.width / 8 } else { self.width };
        launch(
            of(&RMS_NORM, float),
            [self.rows, 1, 1],
            threads(items, 256),
            args![
                self.out,
                self.x,
                self.y,
                self.scale,
                self.weight,
                self.width,
                self.eps,
                wide
            ],
        )
    }
}

/// `out = (x - mean) / sqrt(variance + eps) * weight + bias`.
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm {
    /// `[rows, width]`; may be `x`.
    pub out: Address,
    /// `[rows, width]`.
    pub x: Address,
    /// `[width]` of f32.
    pub weight: Address,
    /// `[width]` of f32.
    pub bias: Address,
    /// Number of rows.
    pub rows: u32,
    /// Elements of each.
    pub width: u32,
    /// Added to the variance.
    pub eps: f32,
}

impl LayerNorm {
    /// One block per row.
    pub fn launch(&self, float: Float) -> Launch {
        let wide = wide(self.width, &[self.out, self.x, self.weight, self.bias]);
        let items = if wide { self.width / 8 } else { self.width };
        launch(
            of(&LAYER_NORM, float),
            [self.rows, 1, 1],
            threads(items, 256),
            args![
                self.out,
                self.x,
                self.weight,
                self.bias,
                self.width,
                self.eps,
                wide
            ],
        )
    }
}
