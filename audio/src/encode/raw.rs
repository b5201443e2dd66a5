//! Encodings in which every sample stands for itself.

use super::Encoded;
use crate::format::{Encoding, Format};
use crate::g711::Law;
use crate::pcm::{encode_f32le, encode_s16le};
use crate::units::Samples;
use crate::wav::WavHeader;

#[derive(Debug)]
pub(super) struct Raw {
    format: Format,
    begun: bool,
    /// Samples of the frame to come, where there are frames: never fewer than one once there was one, so that the end
    /// has something to say.
    waiting: Vec<f32>,
}

impl Raw {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            begun: false,
            waiting: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, samples: &[f32], out: &mut Vec<Encoded>) {
        let Some(frame) = self.format.frame() else {
            return out.push(self.encode(samples));
        };
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.extend_from_slice(samples);
        let mut whole = 0;
        while waiting.len() - whole > frame.len() {
            out.push(self.encode(&waiting[whole..whole + frame.len()]));
            whole += frame.len();
        }
        waiting.drain(..whole);
        self.waiting = waiting;
    }

    pub(super) fn finish(&mut self, out: &mut Vec<Encoded>) {
        let rest = std::mem::take(&mut self.waiting);
        out.push(self.encode(&rest));
    }

    fn encode(&mut self, samples: &[f32]) -> Encoded {
        let mut data = Vec::new();
        if !samples.is_empty() && !std::mem::replace(&mut self.begun, true) {
            data = self.header();
        }
        match self.format.encoding() {
            Encoding::PcmF32 => encode_f32le(samples, &mut data),
            Encoding::Mulaw => data.extend(samples.iter().map(|&sample| Law::Mu.encode(sample))),
            Encoding::Alaw => data.extend(samples.iter().map(|&sample| Law::A.encode(sample))),
            _ => encode_s16le(samples, &mut data),
        }
        Encoded {
            data,
            samples: Samples::of(samples),
        }
    }

    fn header(&self) -> Vec<u8> {
        match self.format.encoding() {
            Encoding::Wav => WavHeader::mono(self.format.rate()).streaming().to_vec(),
            _ => Vec::new(),
        }
    }
}
