//! Encoder of one piece of audio, as a stream.
//!
//! In: samples of one channel at the format's rate, in any chunking. Out: contiguous [`Chunk`]s in order, each with
//! its number of decoded samples. The concatenated bytes do not depend on the chunking of the samples; the number of
//! chunks may, unless the format has a fixed frame length. Nothing is written before the first sample: audio without
//! samples has no bytes, not even a header.

mod aac;
mod flac;
mod mp3;
mod opus;
mod raw;

use crate::format::{Encoding, Format};
use crate::units::Samples;
use aac::AacFrames;
use flac::FlacFrames;
use mp3::Mp3Frames;
use opus::{OggOpus, OpusPackets};
use raw::Raw;

/// Encoded bytes, with the samples that they decode to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Whole samples, whole packets or whole frames; never empty.
    pub data: Vec<u8>,
    /// Position of the first sample that they decode to.
    pub start: Samples,
    /// Number of samples that they decode to. For Ogg Opus, samples that a player plays: the codec's delay before the
    /// first is left out, as is the padding of the last packet. Bare packets, MP3 and ADTS have no place to state
    /// either: there both count.
    pub samples: Samples,
}

/// The state of one piece of audio.
#[derive(Debug)]
pub struct Encoder {
    format: Format,
    given: Samples,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Raw(Raw),
    Opus(Box<OpusPackets>),
    OggOpus(Box<OggOpus>),
    Flac(Box<FlacFrames>),
    Mp3(Box<Mp3Frames>),
    Aac(Box<AacFrames>),
}

/// Output of one codec, before the container.
#[derive(Debug, Default)]
struct Encoded {
    data: Vec<u8>,
    samples: Samples,
}

impl Encoder {
    /// Encoder of audio in `format`. `serial` identifies the stream within an Ogg file: streams to be concatenated
    /// into one file need different ones. Other formats ignore it.
    pub fn new(format: Format, serial: u32) -> Self {
        let kind = match format.encoding() {
            Encoding::Opus => Kind::Opus(Box::new(OpusPackets::new(format))),
            Encoding::OggOpus => Kind::OggOpus(Box::new(OggOpus::new(format, serial))),
            Encoding::Flac => Kind::Flac(Box::new(FlacFrames::new(format))),
            Encoding::Mp3 => Kind::Mp3(Box::new(Mp3Frames::new(format.rate()))),
            Encoding::Aac => Kind::Aac(Box::new(AacFrames::new(format.rate()))),
            Encoding::Pcm16 | Encoding::PcmF32 | Encoding::Mulaw | Encoding::Alaw | Encoding::Wav => {
                Kind::Raw(Raw::new(format))
            }
        };
        Self {
            format,
            given: Samples::ZERO,
            kind,
        }
    }

    /// Format of its output.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Encodes the next samples and appends the chunks available to `out`. Each bare Opus packet is a chunk.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<Chunk>) {
        let mut encoded = Vec::new();
        match &mut self.kind {
            Kind::Raw(raw) => raw.push(samples, &mut encoded),
            Kind::Opus(packets) => packets.push(samples, &mut encoded),
            Kind::OggOpus(pages) => pages.push(samples, &mut encoded),
            Kind::Flac(frames) => frames.push(samples, &mut encoded),
            Kind::Mp3(frames) => frames.push(samples, &mut encoded),
            Kind::Aac(frames) => frames.push(samples, &mut encoded),
        }
        self.number(encoded, out);
    }

    /// Samples that it decodes to before the first that was taken.
    pub fn delay(&self) -> Samples {
        match &self.kind {
            Kind::Opus(packets) => packets.delay(),
            Kind::Mp3(frames) => frames.delay(),
            Kind::Aac(frames) => frames.delay(),
            // Ogg declares its pre-skip, and players drop it.
            Kind::Raw(_) | Kind::OggOpus(_) | Kind::Flac(_) => Samples::ZERO,
        }
    }

    /// Ends the audio: appends the rest. Compressed formats and frames hold back a little, so that there is one if
    /// there was any sample.
    pub fn finish(mut self, out: &mut Vec<Chunk>) {
        let mut encoded = Vec::new();
        match &mut self.kind {
            Kind::Raw(raw) => raw.finish(&mut encoded),
            Kind::Opus(packets) => packets.finish(&mut encoded),
            Kind::OggOpus(pages) => pages.finish(&mut encoded),
            Kind::Flac(frames) => frames.finish(&mut encoded),
            Kind::Mp3(frames) => frames.finish(&mut encoded),
            Kind::Aac(frames) => frames.finish(&mut encoded),
        }
        self.number(encoded, out);
    }

    fn number(&mut self, encoded: Vec<Encoded>, out: &mut Vec<Chunk>) {
        for Encoded { data, samples } in encoded {
            if !data.is_empty() {
                out.push(Chunk {
                    data,
                    start: self.given,
                    samples,
                });
                self.given += samples;
            }
        }
    }
}

#[cfg(test)]
mod tests;
