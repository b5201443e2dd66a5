//! FLAC files (RFC 9639), decoded when they are whole.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use symphonia_bundle_flac::{FlacDecoder, FlacReader};
use symphonia_core::codecs::audio::{AudioDecoder as _, AudioDecoderOptions};
use symphonia_core::errors::Error;
use symphonia_core::formats::{FormatOptions, FormatReader as _};
use symphonia_core::io::{MediaSourceStream, MediaSourceStreamOptions};

use super::{DecodeError, check, raw};
use crate::resample::Resampler;
use crate::units::{RateError, SampleRate, Samples};

/// Appends the samples of a file, mixed to one channel; returns their rate. Fails with [`DecodeError::TooLong`]
/// before more than `limit` samples at `to` are held, even if the file is highly compressed.
pub(super) fn decode(
    file: &[u8],
    (to, limit): (SampleRate, Samples),
    out: &mut Vec<f32>,
) -> Result<SampleRate, DecodeError> {
    // Where overflow is checked the library panics at predictions beyond 32 bits, which damaged files have. It ends a recording and
    // nothing else.
    let decoded = catch_unwind(AssertUnwindSafe(|| read(file, (to, limit), out)));
    decoded.unwrap_or(Err(DecodeError::Flac))
}

fn read(
    file: &[u8],
    (to, limit): (SampleRate, Samples),
    out: &mut Vec<f32>,
) -> Result<SampleRate, DecodeError> {
    let broken = |_: Error| DecodeError::Flac;
    let source = MediaSourceStream::new(Box::new(Cursor::new(file)), MediaSourceStreamOptions::default());
    let mut reader = FlacReader::try_new(source, FormatOptions::default()).map_err(broken)?;
    let track = reader.tracks().first().ok_or(DecodeError::Flac)?;
    let length = track.num_frames;
    let parameters = track
        .codec_params
        .as_ref()
        .and_then(|parameters| parameters.audio());
    let parameters = parameters.ok_or(DecodeError::Flac)?.clone();
    let hz = parameters.sample_rate.unwrap_or_default();
    let rate = SampleRate::new(hz).map_err(|RateError { .. }| DecodeError::Rate { got: hz })?;
    let channels = parameters
        .channels
        .as_ref()
        .map_or(0, |channels| channels.count());
    let channels = u16::try_from(channels).unwrap_or(u16::MAX);
    check(rate, channels)?;
    let mut decoder = FlacDecoder::try_new(&parameters, &AudioDecoderOptions::default()).map_err(broken)?;
    let most = Resampler::covering(limit, to, rate).len();
    let mut interleaved: Vec<f32> = Vec::new();
    let mut at = 0;
    while let Some(packet) = reader.next_packet().map_err(broken)? {
        // The library leaves out blocks whose checksums are wrong.
        if packet.pts.get() != at {
            return Err(DecodeError::Flac);
        }
        let block = decoder.decode(&packet).map_err(broken)?;
        at += block.frames() as i64;
        block.copy_to_vec_interleaved(&mut interleaved);
        raw::mix(
            interleaved.iter().map(|sample| sample.clamp(-1.0, 1.0)),
            channels,
            out,
        );
        if out.len() > most {
            return Err(DecodeError::TooLong { limit });
        }
    }
    match length {
        Some(length) if length != at as u64 => Err(DecodeError::Flac),
        _ => Ok(rate),
    }
}
