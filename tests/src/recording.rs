//! Recordings that pass for speech.

use std::f32::consts::TAU;

use omni_audio::{SampleRate, Samples, WavHeader, encode_s16le};

/// Something like speech: four syllables a second of a voice at `hz` with its overtones, at 24 kHz.
pub fn babble(seconds: f32, hz: f32) -> Vec<f32> {
    let sample = |n: usize| {
        let t = n as f32 / 24_000.0;
        let syllable = (0.5 - 0.5 * (TAU * 4.0 * t).cos()).powi(2);
        let pitch = TAU * (hz * t + 0.4 * (TAU * 1.5 * t).sin());
        let tone: f32 = (1..20).map(|k| (pitch * k as f32).sin() / k as f32).sum();
        0.25 * syllable * tone
    };
    (0..(seconds * 24_000.0) as usize).map(sample).collect()
}

/// A WAV file of 24 kHz.
///
/// # Panics
/// Never: the rate is a usual one.
pub fn wav(samples: &[f32]) -> Vec<u8> {
    let header = WavHeader::mono(SampleRate::new(24_000).expect("a rate"));
    let mut file = header.finished(Samples::of(samples)).to_vec();
    encode_s16le(samples, &mut file);
    file
}
