//! Sample formats of WAV files.

use super::WavError;
use crate::g711::Law;
use crate::pcm::{f32_from_f32le, from_i16, i16_from_s16le};

pub(super) const FORMAT_PCM: u16 = 1;
const FORMAT_FLOAT: u16 = 3;
const FORMAT_ALAW: u16 = 6;
const FORMAT_MULAW: u16 = 7;

/// The kinds of samples that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SampleFormat {
    Int16,
    Int24,
    Int32,
    Float32,
    Float64,
    Alaw,
    Mulaw,
}

impl SampleFormat {
    /// Format by its tag and bits per sample.
    pub(super) fn of(format: u16, bits: u16) -> Option<Self> {
        match (format, bits) {
            (FORMAT_PCM, 16) => Some(Self::Int16),
            (FORMAT_PCM, 24) => Some(Self::Int24),
            (FORMAT_PCM, 32) => Some(Self::Int32),
            (FORMAT_FLOAT, 32) => Some(Self::Float32),
            (FORMAT_FLOAT, 64) => Some(Self::Float64),
            (FORMAT_ALAW, 8) => Some(Self::Alaw),
            (FORMAT_MULAW, 8) => Some(Self::Mulaw),
            _ => None,
        }
    }

    /// Bytes of a sample.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Alaw | Self::Mulaw => 1,
            Self::Int16 => 2,
            Self::Int24 => 3,
            Self::Int32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    /// The samples of `bytes`; a part of a sample at the end is left out.
    pub(super) fn read(self, bytes: &[u8]) -> Result<Vec<f32>, WavError> {
        Ok(match self {
            Self::Int16 => i16_from_s16le(bytes).map(from_i16).collect(),
            Self::Int24 => bytes
                .chunks_exact(3)
                .map(|three| full_scale(i32::from_le_bytes([0, three[0], three[1], three[2]])))
                .collect(),
            Self::Int32 => bytes
                .chunks_exact(4)
                .map(|four| full_scale(i32::from_le_bytes([four[0], four[1], four[2], four[3]])))
                .collect(),
            Self::Float32 => finite(f32_from_f32le(bytes))?,
            Self::Float64 => finite(bytes.chunks_exact(8).map(double))?,
            Self::Alaw => bytes.iter().map(|&byte| Law::A.decode(byte)).collect(),
            Self::Mulaw => bytes.iter().map(|&byte| Law::Mu.decode(byte)).collect(),
        })
    }
}

/// An integer of 32 bits as a part of full scale.
fn full_scale(sample: i32) -> f32 {
    (f64::from(sample) / -f64::from(i32::MIN)) as f32
}

fn double(eight: &[u8]) -> f32 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(eight);
    f64::from_le_bytes(bytes) as f32
}

/// All samples, cut off at full scale; refused if one of them means nothing.
fn finite(samples: impl Iterator<Item = f32>) -> Result<Vec<f32>, WavError> {
    let finite = |sample: f32| {
        if sample.is_finite() {
            Ok(sample.clamp(-1.0, 1.0))
        } else {
            Err(WavError::NotFinite)
        }
    };
    samples.map(finite).collect()
}
