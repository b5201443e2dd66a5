//! A tensor as stored, or as a recipe: type, shape, bytes; and the few rearrangements that loading needs.

use std::borrow::Cow;
use std::sync::Arc;

use half::{bf16, f16};
use rayon::prelude::*;

use super::recipe::Recipe;
use super::staging::{self, Pages};

/// Element type of a stored tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DType {
    F32,
    Bf16,
    F16,
    /// A type that cannot be computed with, by its name in the file.
    Other(String),
}

impl DType {
    pub fn parse(name: &str) -> Self {
        match name {
            "F32" => Self::F32,
            "BF16" => Self::Bf16,
            "F16" => Self::F16,
            other => Self::Other(other.into()),
        }
    }

    /// Bytes per element, `None` if the type is not known here.
    pub fn width(&self) -> Option<u64> {
        match self {
            Self::F32 => Some(4),
            Self::Bf16 | Self::F16 => Some(2),
            Self::Other(_) => None,
        }
    }
}

/// A tensor: elements as stored (row major, little endian), or how they are made.
#[derive(Debug, Clone)]
pub struct HostTensor {
    pub dtype: DType,
    pub shape: Vec<usize>,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    Stored(Cow<'static, [u8]>),
    /// In pages of its own.
    Paged(Arc<Pages>),
    /// As bf16.
    Made(Recipe),
}

/// Element `[i, j, k, l]` of a tensor `dims` is the stored element `start + i * steps[0] + j * steps[1] + k *
/// steps[2] + l * steps[3]`.
#[derive(Debug, Clone, Copy)]
pub struct Reordering {
    pub dims: [usize; 4],
    pub steps: [isize; 4],
    pub start: usize,
}

/// A tensor of the elements of `N` bytes in `stored`, reordered.
fn reorder<const N: usize>(
    dtype: DType,
    shape: Vec<usize>,
    stored: &[u8],
    Reordering { dims, steps, start }: Reordering,
) -> HostTensor {
    let [_, _, rows, width] = dims;
    debug_assert_eq!(shape.iter().product::<usize>(), dims.iter().product::<usize>());
    let stored = stored.as_chunks::<N>().0;
    let fill = |bytes: &mut [u8]| {
        let blocks = bytes.as_chunks_mut::<N>().0.par_chunks_mut((rows * width).max(1));
        blocks.enumerate().for_each(|(block, elements)| {
            let i = (block / dims[1]).cast_signed();
            let j = (block % dims[1]).cast_signed();
            let mut row = start.cast_signed() + i * steps[0] + j * steps[1];
            for elements in elements.chunks_mut(width.max(1)) {
                let mut at = row;
                for to in elements {
                    *to = stored[at.cast_unsigned()];
                    at += steps[3];
                }
                row += steps[2];
            }
        });
    };
    let size = dims.iter().product::<usize>() * N;
    if let Some(mut pages) = staging::pages(size) {
        fill(&mut pages);
        return HostTensor::paged(dtype, shape, pages);
    }
    let mut bytes = vec![0; size];
    fill(&mut bytes);
    HostTensor::stored(dtype, shape, Cow::Owned(bytes))
}

impl HostTensor {
    pub fn stored(dtype: DType, shape: Vec<usize>, bytes: Cow<'static, [u8]>) -> Self {
        let values = Values::Stored(bytes);
        Self { dtype, shape, values }
    }

    pub fn paged(dtype: DType, shape: Vec<usize>, pages: Pages) -> Self {
        let values = Values::Paged(Arc::new(pages));
        Self { dtype, shape, values }
    }

    pub fn made(shape: Vec<usize>, recipe: Recipe) -> Self {
        let dtype = DType::Bf16;
        let values = Values::Made(recipe);
        Self { dtype, shape, values }
    }

    pub fn from_f32(shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self::stored(DType::F32, shape, Cow::Owned(bytes))
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements as stored; they are made now if they are not.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.values {
            Values::Stored(bytes) => Cow::Borrowed(bytes),
            Values::Paged(pages) => Cow::Borrowed(pages),
            Values::Made(recipe) => Cow::Owned(recipe.bytes(self.elements())),
        }
    }

    /// Recipe of the elements, if they are not stored.
    #[cfg(any(feature = "cuda", feature = "emulator"))]
    pub fn recipe(&self) -> Option<Recipe> {
        match self.values {
            Values::Stored(_) | Values::Paged(_) => None,
            Values::Made(recipe) => Some(recipe),
        }
    }

    /// Same tensor with its elements in memory.
    pub(crate) fn in_memory(self) -> Self {
        match self.values {
            Values::Stored(_) | Values::Paged(_) => self,
            Values::Made(_) => {
                let bytes = self.bytes().into_owned();
                Self::stored(self.dtype, self.shape, Cow::Owned(bytes))
            }
        }
    }

    /// All elements widened to f32 (exact).
    pub fn to_f32(&self) -> Vec<f32> {
        let mut values = Vec::new();
        self.widen(0, self.elements(), &mut values);
        values
    }

    /// Appends elements `from .. from + count`, widened to f32.
    pub(crate) fn widen(&self, from: usize, count: usize, out: &mut Vec<f32>) {
        fn each<const N: usize>(bytes: &[u8], from: usize, count: usize) -> impl Iterator<Item = [u8; N]> {
            bytes.as_chunks::<N>().0[from..from + count].iter().copied()
        }
        let bytes = match &self.values {
            Values::Stored(bytes) => &bytes[..],
            Values::Paged(pages) => &pages[..],
            Values::Made(recipe) => return recipe.widen(from, count, out),
        };
        match self.dtype {
            DType::F32 => out.extend(each(bytes, from, count).map(f32::from_le_bytes)),
            DType::Bf16 => out.extend(each(bytes, from, count).map(|b| bf16::from_le_bytes(b).to_f32())),
            DType::F16 => out.extend(each(bytes, from, count).map(|b| f16::from_le_bytes(b).to_f32())),
            // Rejected by the loader.
            DType::Other(_) => {}
        }
    }

    /// A tensor of `shape` with elements of this one in `order`. A recipe only changes its shape: random values need
    /// no order.
    pub fn reordered(&self, shape: Vec<usize>, order: Reordering) -> Self {
        let stored = match &self.values {
            Values::Stored(stored) => &stored[..],
            Values::Paged(pages) => &pages[..],
            Values::Made(recipe) => return Self::made(shape, *recipe),
        };
        match self.dtype {
            DType::F32 => reorder::<4>(self.dtype.clone(), shape, stored, order),
            _ => reorder::<2>(self.dtype.clone(), shape, stored, order),
        }
    }

    /// `[out, in, k]` to `[out, k * in]`: the matrix that a causal convolution multiplies its taps with, oldest first.
    pub fn conv_as_matrix(&self) -> Self {
        let [out, inputs, k] = self.dims();
        let order = Reordering {
            dims: [1, out, k, inputs],
            steps: [0, inputs * k, 1, k].map(usize::cast_signed),
            start: 0,
        };
        self.reordered(vec![out, k * inputs], order)
    }

    /// `[in, out, k]` of a transposed convolution with stride `s`, `k` a multiple of `s`, to `[s * out, k / s * in]`:
    /// output row `i` (all `s` samples of it) as a causal convolution over the inputs `i - k/s + 1 ..= i`.
    ///
    /// `y[i*s + j] = sum_m W[:, :, m*s + j]^T x[i - m]`.
    pub fn conv_transpose_as_matrix(&self, stride: usize) -> Self {
        let [inputs, out, k] = self.dims();
        let taps = k / stride;
        let order = Reordering {
            dims: [stride, out, taps, inputs],
            steps: [1, k.cast_signed(), -stride.cast_signed(), (out * k).cast_signed()],
            // The oldest input is that of the last tap.
            start: (taps - 1) * stride,
        };
        let matrix = self.reordered(vec![stride * out, taps * inputs], order);
        match matrix.values {
            // Its first dimension is not that of its outputs.
            Values::Made(recipe) => Self::made(matrix.shape, recipe.with_inputs(taps * inputs)),
            Values::Stored(_) | Values::Paged(_) => matrix,
        }
    }

    /// `[out, in, k, k]` of a convolution over two dimensions to `[out, k * k * in]`, the second dimension first.
    pub fn conv2d_as_matrix(&self) -> Self {
        let out = self.shape[0];
        let inputs = self.shape[1];
        let k = self.shape[2];
        let order = Reordering {
            dims: [out, k, k, inputs],
            steps: [inputs * k * k, 1, k, k * k].map(usize::cast_signed),
            start: 0,
        };
        self.reordered(vec![out, k * k * inputs], order)
    }

    /// `[c, 1, k]` of a depthwise convolution to `[k, c]`.
    pub fn depthwise_as_matrix(&self) -> Self {
        let [channels, _, k] = self.dims();
        let order = Reordering {
            dims: [1, 1, k, channels],
            steps: [0, 0, 1, k].map(usize::cast_signed),
            start: 0,
        };
        self.reordered(vec![k, channels], order)
    }

    /// As [`HostTensor::depthwise_as_matrix`] for a transposed convolution: the taps in opposite order.
    pub fn depthwise_transpose_as_matrix(&self) -> Self {
        let [channels, _, k] = self.dims();
        let order = Reordering {
            dims: [1, 1, k, channels],
            steps: [0, 0, -1, k.cast_signed()],
            start: k - 1,
        };
        self.reordered(vec![k, channels], order)
    }

    /// Same elements repeated `times` times.
    pub fn repeated(&self, times: usize) -> Self {
        let count = self.elements();
        let order = Reordering {
            dims: [1, 1, times, count],
            steps: [0, 0, 0, 1],
            start: 0,
        };
        self.reordered(vec![times * count], order)
    }

    fn dims(&self) -> [usize; 3] {
        [self.shape[0], self.shape[1], self.shape[2]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> HostTensor {
        let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| i as f32).collect();
        HostTensor::from_f32(shape.to_vec(), &values)
    }

    /// `made` has the elements of `from` that `source` says.
    fn is(made: &HostTensor, shape: &[usize], source: impl Fn(usize) -> usize) {
        assert_eq!(made.shape, shape);
        let expected: Vec<f32> = (0..shape.iter().product::<usize>())
            .map(|i| source(i) as f32)
            .collect();
        assert_eq!(made.to_f32(), expected);
    }

    fn conv_is_over_its_taps([out, inputs, k]: [usize; 3]) {
        let matrix = counted(&[out, inputs, k]).conv_as_matrix();
        is(&matrix, &[out, k * inputs], |i| {
            let o = i / (k * inputs);
            let tap = i / inputs % k;
            let c = i % inputs;
            (o * inputs + c) * k + tap
        });
    }

    #[test]
    fn convolutions_become_matrices_over_their_taps() {
        let out = 5;
        let inputs = 3;
        conv_is_over_its_taps([out, inputs, 7]);
        let stride = 2;
        let k = 3 * stride;
        let taps = 3;
        let transposed = counted(&[inputs, out, k]).conv_transpose_as_matrix(stride);
        is(&transposed, &[stride * out, taps * inputs], |i| {
            let row = i / (taps * inputs);
            let tap = i / inputs % taps;
            let c = i % inputs;
            let j = row / out;
            let o = row % out;
            let back = taps - 1 - tap;
            (c * out + o) * k + back * stride + j
        });
        let k = 3;
        is(
            &counted(&[out, inputs, k, k]).conv2d_as_matrix(),
            &[out, k * k * inputs],
            |i| {
                let o = i / (k * k * inputs);
                let tap = i / inputs % (k * k);
                let c = i % inputs;
                let second = tap / k;
                let first = tap % k;
                ((o * inputs + c) * k + first) * k + second
            },
        );
        is(&counted(&[out, 1, k]).depthwise_as_matrix(), &[k, out], |i| {
            (i % out) * k + i / out
        });
        is(
            &counted(&[out, 1, k]).depthwise_transpose_as_matrix(),
            &[k, out],
            |i| (i % out) * k + k - 1 - i / out,
        );
        is(&counted(&[out]).repeated(3), &[3 * out], |i| i % out);
    }

    #[test]
    fn large_tensors_are_reordered_in_pieces() {
        conv_is_over_its_taps([64, 512, 17]);
    }
}
