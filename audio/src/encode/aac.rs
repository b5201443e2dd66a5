//! AAC-LC in ADTS frames, by `syom`.
//!
//! A frame holds 1024 samples. The first decodes to the encoder's delay and the last is padded with silence; ADTS
//! cannot declare either.

use syom::{EncodeContainer, EncodeOptions};

use super::Encoded;
use crate::units::{SampleRate, Samples};

/// Samples of a frame, and before the first sample.
const FRAME: Samples = Samples(1_024);
/// Bits per sample. The encoder drops high bands of loud speech where it may spend more than 4.5.
const BITS: u32 = 3;

/// Makes frames.
#[derive(derive_more::Debug)]
#[debug("AacFrames {{ taken: {:?}, .. }}", self.taken)]
pub(super) struct AacFrames {
    encoder: syom::Encoder,
    taken: u64,
}

impl AacFrames {
    pub(super) fn new(rate: SampleRate) -> Self {
        let mut options = EncodeOptions::default();
        options.container = EncodeContainer::Adts;
        options.bitrate_bps = BITS * rate.hz();
        Self {
            encoder: syom::Encoder::new(rate.hz(), 1, &options).expect("the rate is one of AAC's"),
            taken: 0,
        }
    }

    /// Samples before the first one in the first frame.
    pub(super) fn delay(&self) -> Samples {
        FRAME
    }

    /// Every frame that is full.
    pub(super) fn push(&mut self, samples: &[f32], out: &mut Vec<Encoded>) {
        self.taken += samples.len() as u64;
        // The encoder refuses everything else.
        let sound = |&sample: &f32| {
            if sample.is_nan() {
                0.0
            } else {
                sample.clamp(-1.0, 1.0)
            }
        };
        let samples: Vec<f32> = samples.iter().map(sound).collect();
        self.encoder
            .feed(&[&samples], |frame| {
                out.push(encoded(frame.au));
                Ok(())
            })
            .expect("one plane of finite samples in [-1, 1]");
    }

    /// The rest, and what completes the last sample.
    pub(super) fn finish(&mut self, out: &mut Vec<Encoded>) {
        if self.taken > 0 {
            self.encoder
                .finish(|frame| {
                    out.push(encoded(frame.au));
                    Ok(())
                })
                .expect("there are samples, and it was not finished");
        }
    }
}

fn encoded(frame: &[u8]) -> Encoded {
    Encoded {
        data: frame.to_vec(),
        samples: FRAME,
    }
}
