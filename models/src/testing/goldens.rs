//! Reference outputs as they are kept.

use std::borrow::Cow;

use safetensors::{Dtype, SafeTensors};

/// The tensors of a `goldens.safetensors`.
#[derive(Debug, Clone)]
pub struct Goldens(Cow<'static, [u8]>);

impl Goldens {
    /// Parses the bytes of the file.
    pub fn new(file: impl Into<Cow<'static, [u8]>>) -> Self {
        Self(file.into())
    }

    fn tensor(&self, name: &str) -> (Dtype, Vec<usize>, &[u8]) {
        let tensors = SafeTensors::deserialize(&self.0).expect("the goldens are safetensors");
        let view = tensors
            .tensor(name)
            .unwrap_or_else(|e| panic!("golden {name}: {e}"));
        (view.dtype(), view.shape().to_vec(), view.data())
    }

    /// Returns true if there is one of this name.
    ///
    /// # Panics
    /// If this is no file of goldens.
    pub fn has(&self, name: &str) -> bool {
        let tensors = SafeTensors::deserialize(&self.0).expect("the goldens are safetensors");
        tensors.tensor(name).is_ok()
    }

    /// Numbers, in order.
    ///
    /// # Panics
    /// If there is no tensor of this name.
    pub fn floats(&self, name: &str) -> Vec<f32> {
        let (dtype, _, bytes) = self.tensor(name);
        assert_eq!(dtype, Dtype::F32, "golden {name}");
        let numbers = bytes.as_chunks().0.iter();
        numbers.map(|b| f32::from_le_bytes(*b)).collect()
    }

    /// Ids or codes, in order.
    ///
    /// # Panics
    /// If there is no tensor of this name.
    pub fn ids(&self, name: &str) -> Vec<u32> {
        let (dtype, _, bytes) = self.tensor(name);
        let narrow = |id: i64| u32::try_from(id).expect("ids are not negative");
        let wide = |b: &[u8; 8]| narrow(i64::from_le_bytes(*b));
        let short = |b: &[u8; 4]| narrow(i32::from_le_bytes(*b).into());
        match dtype {
            Dtype::I64 => bytes.as_chunks().0.iter().map(wide).collect(),
            Dtype::I32 => bytes.as_chunks().0.iter().map(short).collect(),
            other => panic!("golden {name} is of type {other:?}"),
        }
    }

    /// Changes the first id, for tests that must find a difference.
    ///
    /// # Panics
    /// If there is no tensor of this name.
    pub fn change_id(&mut self, name: &str) {
        let at = {
            let first = self.tensor(name).2.as_ptr();
            first.addr() - self.0.as_ptr().addr()
        };
        self.0.to_mut()[at] ^= 1;
    }

    /// Shape of the tensor.
    ///
    /// # Panics
    /// If there is no tensor of this name.
    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.tensor(name).1
    }
}

/// The largest difference between two sequences of numbers; infinite if their lengths differ or one of them is not a
/// number.
pub fn farthest(got: &[f32], expected: &[f32]) -> f32 {
    let differences = got.iter().zip(expected).map(|(g, e)| (g - e).abs());
    let worst = differences.fold(
        0.0,
        |worst: f32, d| {
            if d.is_nan() { f32::INFINITY } else { worst.max(d) }
        },
    );
    if got.len() == expected.len() {
        worst
    } else {
        f32::INFINITY
    }
}

/// Deviation of two vectors in units of the second one's length: `|got - expected| / |expected|`; infinite if their
/// lengths differ or one of them is not a number.
pub fn deviation(got: &[f32], expected: &[f32]) -> f32 {
    let square = |v: f32| f64::from(v) * f64::from(v);
    let apart: f64 = got.iter().zip(expected).map(|(g, e)| square(g - e)).sum();
    let length: f64 = expected.iter().copied().map(square).sum();
    let relative = (apart / length).sqrt() as f32;
    if got.len() == expected.len() && !relative.is_nan() {
        relative
    } else {
        f32::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_compared_is_infinitely_far() {
        assert_eq!(farthest(&[1.0, 2.5], &[1.0, 2.0]), 0.5);
        assert_eq!(farthest(&[1.0], &[1.0, 2.0]), f32::INFINITY);
        assert_eq!(farthest(&[f32::NAN], &[1.0]), f32::INFINITY);
        assert_eq!(deviation(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(deviation(&[3.0, 9.0], &[3.0, 4.0]), 1.0);
        assert_eq!(deviation(&[3.0], &[3.0, 4.0]), f32::INFINITY);
        assert_eq!(deviation(&[f32::NAN], &[1.0]), f32::INFINITY);
    }
}
