//! A tensor as stored: type, shape, bytes; and the few rearrangements that loading needs.

use std::borrow::Cow;

use half::{bf16, f16};

/// Element type of a stored tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DType {
    F32,
    Bf16,
    F16,
    /// A type that cannot be computed with, by its name in the file.
    Other(String),
}

impl DType {
    pub(super) fn parse(name: &str) -> Self {
        match name {
            "F32" => Self::F32,
            "BF16" => Self::Bf16,
            "F16" => Self::F16,
            other => Self::Other(other.into()),
        }
    }

    /// Bytes per element, `None` if the type is not known here.
    pub(super) fn width(&self) -> Option<u64> {
        match self {
            Self::F32 => Some(4),
            Self::Bf16 | Self::F16 => Some(2),
            Self::Other(_) => None,
        }
    }
}

/// Where a tensor is and what it looks like.
#[derive(Debug, Clone)]
pub(crate) struct TensorInfo {
    pub(crate) file: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// A tensor in host memory, elements as stored (row major, little endian).
#[derive(Debug, Clone)]
pub(crate) struct HostTensor {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Cow<'static, [u8]>,
}

impl HostTensor {
    pub(crate) fn from_f32(shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self {
            dtype: DType::F32,
            shape,
            bytes: Cow::Owned(bytes),
        }
    }

    /// All elements widened to f32 (exact).
    pub(crate) fn to_f32(&self) -> Vec<f32> {
        let mut values = Vec::new();
        self.widen(0, self.shape.iter().product(), &mut values);
        values
    }

    /// Appends elements `from .. from + count`, widened to f32.
    pub(crate) fn widen(&self, from: usize, count: usize, out: &mut Vec<f32>) {
        fn each<const N: usize>(bytes: &[u8], from: usize, count: usize) -> impl Iterator<Item = [u8; N]> {
            bytes.as_chunks::<N>().0[from..from + count].iter().copied()
        }
        let bytes = &self.bytes;
        match self.dtype {
            DType::F32 => out.extend(each(bytes, from, count).map(f32::from_le_bytes)),
            DType::Bf16 => out.extend(each(bytes, from, count).map(|b| bf16::from_le_bytes(b).to_f32())),
            DType::F16 => out.extend(each(bytes, from, count).map(|b| f16::from_le_bytes(b).to_f32())),
            // The loader admits no other type.
            DType::Other(_) => {}
        }
    }

    /// A tensor of `shape` whose element `i` is this one's element `source(i)`.
    pub(crate) fn rearranged(&self, shape: Vec<usize>, source: impl Fn(usize) -> usize) -> Self {
        let count: usize = shape.iter().product();
        let width = if self.dtype == DType::F32 { 4 } else { 2 };
        let mut bytes = Vec::with_capacity(count * width);
        for i in 0..count {
            let at = source(i) * width;
            bytes.extend_from_slice(&self.bytes[at..at + width]);
        }
        Self {
            dtype: self.dtype.clone(),
            shape,
            bytes: Cow::Owned(bytes),
        }
    }

    /// `[out, in, k]` to `[out, k * in]`: the matrix that a causal convolution multiplies its taps with, oldest first.
    pub(crate) fn conv_as_matrix(&self) -> Self {
        let [out, inputs, k] = self.dims();
        self.rearranged(vec![out, k * inputs], |i| {
            let (o, tap, c) = (i / (k * inputs), i / inputs % k, i % inputs);
            (o * inputs + c) * k + tap
        })
    }

    /// `[in, out, k]` of a transposed convolution with stride `s`, `k` a multiple of `s`, to `[s * out, k / s * in]`:
    /// output row `i` (all `s` samples of it) as a causal convolution over the inputs `i - k/s + 1 ..= i`.
    ///
    /// `y[i*s + j] = sum_m W[:, :, m*s + j]^T x[i - m]`.
    pub(crate) fn conv_transpose_as_matrix(&self, stride: usize) -> Self {
        let [inputs, out, k] = self.dims();
        let taps = k / stride;
        self.rearranged(vec![stride * out, taps * inputs], |i| {
            let (row, tap, c) = (i / (taps * inputs), i / inputs % taps, i % inputs);
            let (j, o, back) = (row / out, row % out, taps - 1 - tap);
            (c * out + o) * k + back * stride + j
        })
    }

    /// `[out, in, k, k]` of a convolution over two dimensions to `[out, k * k * in]`, the second dimension first.
    pub(crate) fn conv2d_as_matrix(&self) -> Self {
        let (out, inputs, k) = (self.shape[0], self.shape[1], self.shape[2]);
        self.rearranged(vec![out, k * k * inputs], |i| {
            let (o, tap, c) = (i / (k * k * inputs), i / inputs % (k * k), i % inputs);
            let (second, first) = (tap / k, tap % k);
            ((o * inputs + c) * k + first) * k + second
        })
    }

    /// `[c, 1, k]` of a depthwise convolution to `[k, c]`.
    pub(crate) fn depthwise_as_matrix(&self) -> Self {
        let [channels, _, k] = self.dims();
        self.rearranged(vec![k, channels], |i| (i % channels) * k + i / channels)
    }

    fn dims(&self) -> [usize; 3] {
        [self.shape[0], self.shape[1], self.shape[2]]
    }
}
