//! Decoder of callers' audio: from bytes to mono samples at the model's input rate, as a stream.
//!
//! In: bytes in any chunking. Out: samples in `[-1, 1]`. The bytes are untrusted: any input gives samples or a
//! [`DecodeError`], with memory bounded by the limit on the audio and the size of the pieces.

mod flac;
mod ogg_opus;
mod opus;
mod raw;

use crate::resample::Resampler;
use crate::units::{SampleRate, Samples};
use crate::wav::{Wav, WavError, WavHeader};
use ogg_opus::OggOpus;
use opus::Packets;
use raw::Raw;

/// Encoding of input audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputEncoding {
    /// Signed 16-bit little-endian samples.
    Pcm16,
    /// 32-bit little-endian floats.
    PcmF32,
    /// G.711 mu-law.
    Mulaw,
    /// G.711 A-law.
    Alaw,
    /// Bare Opus packets, one in every piece.
    Opus,
    /// An Ogg stream of Opus packets.
    OggOpus,
    /// A WAV file: integers of 16, 24 or 32 bits, floats, or G.711.
    Wav,
    /// A FLAC file.
    Flac,
}

impl InputEncoding {
    /// Detects the encoding of a file by its first bytes: WAV, FLAC or Ogg.
    pub fn of_file(bytes: &[u8]) -> Option<Self> {
        let known = [
            (b"RIFF", Self::Wav),
            (b"fLaC", Self::Flac),
            (b"OggS", Self::OggOpus),
        ];
        let known = known.into_iter().find(|(head, _)| bytes.starts_with(*head));
        known.map(|(_, encoding)| encoding)
    }

    /// Returns true if the bytes themselves state their rate and channels.
    pub fn describes_itself(self) -> bool {
        matches!(self, Self::Opus | Self::OggOpus | Self::Wav | Self::Flac)
    }
}

/// Format of input audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InputFormat {
    /// Encoding.
    pub encoding: InputEncoding,
    /// Samples per second and channel. Without meaning where the bytes say it themselves.
    pub rate: SampleRate,
    /// Interleaved channels, at least 1, mixed to one. Without meaning where the bytes say it themselves.
    pub channels: u16,
}

/// Reason why bytes are not audio of the stated format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No sample, or a part of one.
    #[error("has {got} bytes, expected whole samples of {frame} bytes and at least one")]
    NotWhole {
        /// Bytes that there are.
        got: usize,
        /// Bytes of one sample of all channels.
        frame: usize,
    },
    /// Floats that mean nothing.
    #[error("has samples that are infinite or not a number")]
    NotFinite,
    /// A WAV file that cannot be read.
    #[error("{0}")]
    Wav(#[from] WavError),
    /// The sample rate is outside the supported range.
    #[error("has {got} Hz, expected {} to {} Hz", Decoder::MIN_HZ, Decoder::MAX_HZ)]
    Rate {
        /// In Hz.
        got: u32,
    },
    /// More channels than are mixed.
    #[error("has {got} channels, expected 1 or 2")]
    Channels {
        /// Number of channels.
        got: u16,
    },
    /// Bytes that are no Ogg Opus stream.
    #[error("is not an Ogg Opus stream: {0}")]
    Ogg(&'static str),
    /// Bytes that are no Opus packet.
    #[error("has an Opus packet of {bytes} bytes that cannot be decoded")]
    Opus {
        /// Length of the packet.
        bytes: usize,
    },
    /// Bytes that are no FLAC file.
    #[error("is not a readable FLAC file")]
    Flac,
    /// Nothing to hear.
    #[error("has no samples, expected at least one")]
    Empty,
    /// More than the limit.
    #[error("has more than {limit}")]
    TooLong {
        /// At the model's input rate.
        limit: Samples,
    },
}

/// The state of one piece of audio on its way in.
#[derive(derive_more::Debug)]
#[debug("Decoder {{ to: {:?}, given: {:?}, .. }}", self.to, self.given)]
pub struct Decoder {
    source: Source,
    /// Absent until the rate of the bytes is known.
    resampler: Option<Resampler>,
    to: SampleRate,
    limit: Samples,
    given: Samples,
    scratch: Vec<f32>,
}

enum Source {
    Raw(Raw),
    Opus(Packets),
    Ogg(Box<OggOpus>),
    /// Bytes received so far.
    Wav(Vec<u8>),
    /// Bytes received so far.
    Flac(Vec<u8>),
}

impl Decoder {
    /// The lowest rate that is converted, in Hz.
    pub const MIN_HZ: u32 = 8_000;
    /// The highest.
    pub const MAX_HZ: u32 = 48_000;
    /// The most channels that are mixed to one.
    pub const MAX_CHANNELS: u16 = 2;

    /// From bytes in `format` to samples at `to`, at most `limit` of them.
    ///
    /// # Errors
    /// [`DecodeError`] if the rate or the number of channels is out of range.
    pub fn new(format: InputFormat, to: SampleRate, limit: Samples) -> Result<Self, DecodeError> {
        let mut resampler = None;
        let source = match format.encoding {
            InputEncoding::Opus => Source::Opus(Packets::new(to)),
            InputEncoding::OggOpus => Source::Ogg(Box::new(OggOpus::new(to))),
            InputEncoding::Wav => Source::Wav(Vec::new()),
            InputEncoding::Flac => Source::Flac(Vec::new()),
            InputEncoding::Pcm16 | InputEncoding::PcmF32 | InputEncoding::Mulaw | InputEncoding::Alaw => {
                check(format.rate, format.channels)?;
                resampler = Some(Resampler::new(format.rate, to));
                Source::Raw(Raw::new(format))
            }
        };
        Ok(Self {
            resampler: resampler.or_else(|| match &source {
                Source::Opus(packets) => Some(Resampler::new(packets.rate(), to)),
                Source::Ogg(ogg) => Some(Resampler::new(ogg.rate(), to)),
                Source::Raw(_) | Source::Wav(_) | Source::Flac(_) => None,
            }),
            source,
            to,
            limit,
            given: Samples::ZERO,
            scratch: Vec::new(),
        })
    }

    /// Decodes the next bytes and appends the samples available to `out`. Bare PCM must come in whole samples, at
    /// least one; bare Opus in one packet per call.
    ///
    /// # Errors
    /// [`DecodeError`], after which the decoder is unusable.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<f32>) -> Result<(), DecodeError> {
        self.scratch.clear();
        match &mut self.source {
            Source::Raw(raw) => raw.decode(bytes, &mut self.scratch)?,
            Source::Opus(packets) => packets.decode(bytes, &mut self.scratch)?,
            Source::Ogg(ogg) => {
                // A few bytes may decode to much audio, so the limit is checked while decoding.
                let left = self.limit.saturating_sub(self.given);
                let left = Resampler::covering(left, self.to, ogg.rate());
                if !ogg.push(bytes, left.len(), &mut self.scratch)? {
                    return Err(DecodeError::TooLong { limit: self.limit });
                }
            }
            Source::Wav(file) | Source::Flac(file) => file.extend_from_slice(bytes),
        }
        self.give(out, false)
    }

    /// Ends the audio: appends the rest.
    ///
    /// # Errors
    /// [`DecodeError`] if the end is missing, or if there is nothing to hear.
    pub fn finish(mut self, out: &mut Vec<f32>) -> Result<(), DecodeError> {
        self.scratch.clear();
        match &mut self.source {
            Source::Raw(_) | Source::Opus(_) => {}
            Source::Flac(file) => {
                let rate = flac::decode(file, (self.to, self.limit), &mut self.scratch)?;
                self.resampler = Some(Resampler::new(rate, self.to));
            }
            Source::Ogg(ogg) => ogg.finish()?,
            Source::Wav(file) => {
                let most = |header: &WavHeader| Resampler::covering(self.limit, self.to, header.rate);
                let Wav { header, samples } = Wav::parse_at_most(file, most)?;
                check(header.rate, header.channels)?;
                self.resampler = Some(Resampler::new(header.rate, self.to));
                raw::mix(samples.into_iter(), header.channels, &mut self.scratch);
            }
        }
        self.give(out, true)?;
        if self.given.is_empty() {
            Err(DecodeError::Empty)
        } else {
            Ok(())
        }
    }

    fn give(&mut self, out: &mut Vec<f32>, end: bool) -> Result<(), DecodeError> {
        let before = out.len();
        if let Some(resampler) = &mut self.resampler {
            resampler.push(&self.scratch, out);
            if end && let Some(resampler) = self.resampler.take() {
                resampler.finish(out);
            }
        }
        // The filter of a loud sound swings beyond it.
        out[before..]
            .iter_mut()
            .for_each(|sample| *sample = sample.clamp(-1.0, 1.0));
        self.given += Samples::of(&out[before..]);
        if self.given > self.limit {
            Err(DecodeError::TooLong { limit: self.limit })
        } else {
            Ok(())
        }
    }
}

fn check(rate: SampleRate, channels: u16) -> Result<(), DecodeError> {
    if !(Decoder::MIN_HZ..=Decoder::MAX_HZ).contains(&rate.hz()) {
        return Err(DecodeError::Rate { got: rate.hz() });
    }
    if (1..=Decoder::MAX_CHANNELS).contains(&channels) {
        Ok(())
    } else {
        Err(DecodeError::Channels { got: channels })
    }
}

#[cfg(test)]
mod tests;
