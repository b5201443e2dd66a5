//! The vocoder: a frame becomes a tone.

use std::collections::HashMap;

use omni_engine::{ChunkBounds, ChunkModel, CodecFrame, Decoded, ModelError, SeqId, Skipped};

use super::{FAKE_RATE, FAKE_SAMPLES_PER_FRAME, FakeScript, Prepared};

/// The vocoder of [`super::FakeSpeech`].
#[derive(Debug)]
pub(super) struct FakeCode2Wav {
    script: FakeScript,
    /// Samples made per stream.
    heard: HashMap<SeqId, u64>,
}

impl FakeCode2Wav {
    pub(super) fn new(script: FakeScript) -> Self {
        Self {
            script,
            heard: HashMap::new(),
        }
    }
}

impl ChunkModel for FakeCode2Wav {
    type Request = ();
    type Item = CodecFrame;
    type Sample = f32;

    fn open(&mut self, seq: SeqId, (): (), _lead: u32) -> Result<Skipped, ModelError> {
        self.heard.insert(seq, 0);
        Ok(Skipped::default())
    }

    fn decode(&mut self, batch: &[(SeqId, &[CodecFrame])]) -> Result<Vec<Decoded<f32>>, ModelError> {
        self.script.code2wav.pass();
        Ok(batch
            .iter()
            .map(|(seq, frames)| self.sound(*seq, frames))
            .collect())
    }

    fn close(&mut self, seq: SeqId) {
        self.heard.remove(&seq);
    }

    fn prepare(&mut self, nth: u32, bounds: ChunkBounds) -> Result<bool, ModelError> {
        self.script.preparation.prepare(Prepared {
            nth,
            most: bounds.batch,
            steps: self.script.code2wav.passed(),
        })
    }
}

impl FakeCode2Wav {
    fn sound(&mut self, seq: SeqId, frames: &[CodecFrame]) -> Decoded<f32> {
        let at = self.heard.get_mut(&seq).expect("decoded a known stream");
        let mut samples = Vec::new();
        for CodecFrame(codes) in frames {
            let spoken = char::from_u32(codes[0]);
            assert!(
                spoken.is_none() || spoken != self.script.code2wav_panics_on,
                "the script says so"
            );
            if spoken.is_some() && spoken == self.script.code2wav_hangs_on {
                self.script.hangs.pass();
            }
            if spoken.is_some() && spoken == self.script.code2wav_fails_on {
                return Err("the script says so".to_owned());
            }
            if spoken == Some('~') {
                continue;
            }
            let loud = if spoken == Some('_') { 0.0 } else { 0.4 };
            // A frequency per stream, a loudness per character: no clicks where characters meet.
            let hz = 200.0 + f64::from(codes[1]);
            let loud = loud * (0.6 + 0.4 * f64::from(codes[0] % 17) / 17.0);
            for _ in 0..FAKE_SAMPLES_PER_FRAME {
                let phase = std::f64::consts::TAU * hz * (*at as f64) / f64::from(FAKE_RATE);
                samples.push((loud * phase.sin()) as f32);
                *at += 1;
            }
        }
        Ok(samples)
    }
}
