//! MP3 (MPEG-1, MPEG-2 and MPEG-2.5 Layer III) by `rusty_mp3`.
//!
//! A frame holds 1152 samples at 32 kHz and more, else 576. Encoder delay and padding are not declared: the tag for
//! them precedes the frames and contains their number, unknown at that time, and some players rely on it.

use rusty_mp3::encode::lametag::ENCODER_DELAY;
use rusty_mp3::{Mp3Encoder, Mp3EncoderConfig};

use super::Encoded;
use crate::units::{SampleRate, Samples};

/// The lowest rate of MPEG-1, in Hz.
const MPEG1_HZ: u32 = 32_000;
/// Samples that every decoder adds to the encoder's own delay.
const DECODER_DELAY: usize = 529;

/// Kilobits per second at which speech of a rate is coded without audible loss.
fn kbps(rate: SampleRate) -> u32 {
    match rate.hz() {
        ..=12_000 => 64,
        12_001..=16_000 => 96,
        _ => 128,
    }
}

/// Makes frames.
#[derive(derive_more::Debug)]
#[debug("Mp3Frames {{ rate: {:?}, taken: {:?}, .. }}", self.rate, self.taken)]
pub(super) struct Mp3Frames {
    encoder: Mp3Encoder,
    rate: SampleRate,
    taken: u64,
    /// The first frame of the encoder, its tag, is dropped.
    tag: bool,
}

impl Mp3Frames {
    pub(super) fn new(rate: SampleRate) -> Self {
        let kbps = kbps(rate);
        let config = Mp3EncoderConfig {
            bitrate_kbps: kbps,
            // At a constant rate the encoder of MPEG-1 keeps every frame until the end, to share bits between them.
            vbr_quality: (rate.hz() >= MPEG1_HZ).then_some(kbps as f32),
        };
        Self {
            encoder: Mp3Encoder::new(config),
            rate,
            taken: 0,
            tag: true,
        }
    }

    /// Samples before the first one in the first frame.
    pub(super) fn delay(&self) -> Samples {
        Samples((ENCODER_DELAY + DECODER_DELAY) as u64)
    }

    /// Every frame that is full.
    pub(super) fn push(&mut self, samples: &[f32], out: &mut Vec<Encoded>) {
        if samples.is_empty() {
            return;
        }
        self.taken += samples.len() as u64;
        self.encoder
            .push_pcm_f32(samples, 1, self.rate.hz())
            .expect("the rate is one of MP3's");
        self.drain(out);
    }

    /// The rest, filled up with silence until every sample is in a frame.
    pub(super) fn finish(&mut self, out: &mut Vec<Encoded>) {
        if self.taken > 0 {
            self.encoder.finish();
            self.drain(out);
        }
    }

    fn drain(&mut self, out: &mut Vec<Encoded>) {
        let samples = match self.rate.hz() {
            ..MPEG1_HZ => Samples(576),
            _ => Samples(1_152),
        };
        while let Ok(data) = self.encoder.next_packet() {
            if !std::mem::replace(&mut self.tag, false) {
                out.push(Encoded { data, samples });
            }
        }
    }
}
