//! FLAC files (RFC 9639), decoded when they are whole.

use std::panic::{AssertUnwindSafe, catch_unwind};

use flac_codec::decode::{FlacSampleReader, Metadata as _};

use super::{DecodeError, check, raw};
use crate::resample::Resampler;
use crate::units::{RateError, SampleRate, Samples};

/// Appends the samples of a file, mixed to one channel; returns their rate. The error [`DecodeError::TooLong`] comes before more than
/// `limit` samples at `to` are held, whatever the file is packed to.
pub(super) fn decode(
    file: &[u8],
    (to, limit): (SampleRate, Samples),
    out: &mut Vec<f32>,
) -> Result<SampleRate, DecodeError> {
    // The library panics on some broken files. What it has decoded of one is dropped with the error.
    let decoded = catch_unwind(AssertUnwindSafe(|| read(file, (to, limit), out)));
    decoded.unwrap_or(Err(DecodeError::Flac))
}

fn read(
    file: &[u8],
    (to, limit): (SampleRate, Samples),
    out: &mut Vec<f32>,
) -> Result<SampleRate, DecodeError> {
    let broken = |_| DecodeError::Flac;
    let mut reader = FlacSampleReader::new(file).map_err(broken)?;
    let hz = reader.sample_rate();
    let rate = SampleRate::new(hz).map_err(|RateError { .. }| DecodeError::Rate { got: hz })?;
    let channels = u16::from(reader.channel_count());
    check(rate, channels)?;
    let full_scale = (1_u64 << (reader.bits_per_sample().clamp(1, 32) - 1)) as f32;
    let most = Resampler::covering(limit, to, rate).len();
    loop {
        let block = reader.fill_buf().map_err(broken)?;
        if block.is_empty() {
            return Ok(rate);
        }
        let taken = block.len();
        raw::mix(
            block
                .iter()
                .map(|&sample| (sample as f32 / full_scale).clamp(-1.0, 1.0)),
            channels,
            out,
        );
        reader.consume(taken);
        if out.len() > most {
            return Err(DecodeError::TooLong { limit });
        }
    }
}
