//! FLAC files (RFC 9639), decoded when they are whole.

use claxon::FlacReader;

use super::{DecodeError, check, raw};
use crate::resample::Resampler;
use crate::units::{RateError, SampleRate, Samples};

/// Appends the samples of a file, mixed to one channel; returns their rate. The error [`DecodeError::TooLong`] comes before many more
/// than `limit` samples at `to` are held, whatever the file is packed to.
pub(super) fn decode(
    file: &[u8],
    (to, limit): (SampleRate, Samples),
    out: &mut Vec<f32>,
) -> Result<SampleRate, DecodeError> {
    let broken = |_| DecodeError::Flac;
    let mut reader = FlacReader::new(file).map_err(broken)?;
    let info = reader.streaminfo();
    let hz = info.sample_rate;
    let rate = SampleRate::new(hz).map_err(|RateError { .. }| DecodeError::Rate { got: hz })?;
    let channels = u16::try_from(info.channels).unwrap_or(u16::MAX);
    check(rate, channels)?;
    let full_scale = (1_u64 << (info.bits_per_sample.clamp(1, 32) - 1)) as f32;
    let most = Resampler::covering(limit, to, rate).len();
    let (mut blocks, mut buffer) = (reader.blocks(), Vec::new());
    while let Some(block) = blocks.read_next_or_eof(buffer).map_err(broken)? {
        if block.channels() != info.channels {
            return Err(DecodeError::Flac);
        }
        let places =
            (0..block.duration()).flat_map(|at| (0..block.channels()).map(move |channel| (channel, at)));
        // A broken file may have samples beyond its full scale.
        let samples = places.map(|(channel, at)| block.sample(channel, at) as f32 / full_scale);
        raw::mix(samples.map(|sample| sample.clamp(-1.0, 1.0)), channels, out);
        if out.len() > most {
            return Err(DecodeError::TooLong { limit });
        }
        buffer = block.into_buffer();
    }
    Ok(rate)
}
