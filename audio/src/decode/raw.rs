//! Encodings in which every sample stands for itself.

use super::{DecodeError, InputEncoding, InputFormat};
use crate::g711::Law;
use crate::pcm::{f32_from_f32le, from_i16, i16_from_s16le};

pub(super) struct Raw {
    format: InputFormat,
}

impl Raw {
    pub(super) fn new(format: InputFormat) -> Self {
        Self { format }
    }

    /// Appends the samples of `bytes`, mixed to one channel.
    pub(super) fn decode(&self, bytes: &[u8], out: &mut Vec<f32>) -> Result<(), DecodeError> {
        let InputFormat {
            encoding, channels, ..
        } = self.format;
        let sample = match encoding {
            InputEncoding::PcmF32 => 4,
            InputEncoding::Mulaw | InputEncoding::Alaw => 1,
            _ => 2,
        };
        let frame = sample * usize::from(channels);
        if bytes.is_empty() || !bytes.len().is_multiple_of(frame) {
            let got = bytes.len();
            return Err(DecodeError::NotWhole { got, frame });
        }
        match encoding {
            InputEncoding::Mulaw => mix(bytes.iter().map(|&byte| Law::Mu.decode(byte)), channels, out),
            InputEncoding::Alaw => mix(bytes.iter().map(|&byte| Law::A.decode(byte)), channels, out),
            InputEncoding::PcmF32 => {
                if f32_from_f32le(bytes).any(|sample| !sample.is_finite()) {
                    return Err(DecodeError::NotFinite);
                }
                // Clamped here, because a mix of channels beyond full scale could become infinite.
                mix(f32_from_f32le(bytes).map(|s| s.clamp(-1.0, 1.0)), channels, out);
            }
            _ => mix(i16_from_s16le(bytes).map(from_i16), channels, out),
        }
        Ok(())
    }
}

/// Appends the mean of every `channels` samples.
pub(super) fn mix(mut interleaved: impl Iterator<Item = f32>, channels: u16, out: &mut Vec<f32>) {
    match channels {
        1 => out.extend(interleaved),
        _ => {
            while let Some(first) = interleaved.next() {
                let others: f32 = interleaved.by_ref().take(usize::from(channels) - 1).sum();
                out.push((first + others) / f32::from(channels));
            }
        }
    }
}
