//! Drift of a voice over a long text: distance of each window's speaker vector from that of the voice's recording.
//!
//! Vectors come from the checkpoint's own speaker encoder (an ECAPA-TDNN), which also conditions the model. A
//! distance is one minus the cosine of the angle between two vectors: 0 for the same direction, 1 for a right angle.
//! With random weights it measures cost only, not voices.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use omni_audio::{Decoder, InputEncoding, InputFormat, Level, SampleRate, Samples};
use omni_models::{
    CheckpointSource, LoadOptions, Parts, RandomModel, SpeechModel, VOICE_SAMPLE_RATE, VoiceEncoder,
};
use safetensors::{Dtype, SafeTensors};

/// Longest speech that is read.
const LONGEST: Duration = Duration::from_secs(3_600);
/// The least speech of which a vector is made.
const SHORTEST: Duration = Duration::from_secs(1);
/// Length of the two ends of the speech that are compared.
const END: Duration = Duration::from_secs(60);

/// The distance of a part of the speech.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Start of the window.
    pub from: Duration,
    /// Level in dBFS; silent windows say nothing about the voice.
    pub level: f32,
    /// Distance from the voice, 0 to 2.
    pub distance: f32,
}

/// Speaker encoder of a checkpoint.
pub struct SpeakerModel {
    encoder: VoiceEncoder,
    rate: SampleRate,
}

impl std::fmt::Debug for SpeakerModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpeakerModel").finish_non_exhaustive()
    }
}

impl SpeakerModel {
    /// Opens the speaker encoder of a Base checkpoint of Qwen3-TTS: a directory, or `random:NAME`.
    ///
    /// # Errors
    ///
    /// A description of everything missing or wrong.
    pub fn open(model: &str) -> anyhow::Result<Self> {
        let source = if RandomModel::is_meant(model) {
            CheckpointSource::Random(model.parse()?)
        } else {
            CheckpointSource::Dir(model.into())
        };
        Self::of(source)
    }

    /// Loads the speaker encoder of a checkpoint, without the weights that speak.
    ///
    /// # Errors
    ///
    /// A description of everything missing or wrong.
    pub fn of(source: CheckpointSource) -> anyhow::Result<Self> {
        let options = LoadOptions {
            parts: Parts {
                converse: false,
                talker: false,
                code2wav: false,
            },
            ..LoadOptions::default()
        };
        Ok(Self {
            encoder: SpeechModel::load(source, options)?.load_voice_encoder()?,
            rate: SampleRate::new(VOICE_SAMPLE_RATE)?,
        })
    }

    /// The samples of a recording: WAV, FLAC or Ogg Opus.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn recording(&self, path: &Path) -> anyhow::Result<Vec<f32>> {
        let name = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let samples = self.decoded(&bytes);
        samples.with_context(|| format!("{name} is no recording that can be read"))
    }

    fn decoded(&self, bytes: &[u8]) -> anyhow::Result<Vec<f32>> {
        let encoding = InputEncoding::of_file(bytes).context("expected WAV, FLAC or Ogg Opus")?;
        let format = InputFormat {
            encoding,
            rate: self.rate,
            channels: 1,
        };
        let mut decoder = Decoder::new(format, self.rate, self.rate.samples(LONGEST))?;
        let mut samples = Vec::new();
        decoder.push(bytes, &mut samples)?;
        decoder.finish(&mut samples)?;
        Ok(samples)
    }

    /// The speaker's vector of samples at 24 kHz, 1 to 60 s.
    ///
    /// # Errors
    /// If there are too few or too many of them.
    pub fn vector(&self, samples: &[f32]) -> anyhow::Result<Vec<f32>> {
        Ok(self.encoder.x_vector(samples)?)
    }

    /// The speaker's vector in a file: one that `omni-client voices export` wrote, or else a recording.
    ///
    /// # Errors
    /// If it is neither.
    pub fn voice(&self, path: &Path) -> anyhow::Result<Vec<f32>> {
        let name = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        match InputEncoding::of_file(&bytes) {
            Some(_) => self.vector(&self.recording(path)?),
            None => exported(&bytes).with_context(|| format!("{name} is neither a voice nor a recording")),
        }
    }

    /// Distance of every whole window of `speech` from `voice`. The rest at the end counts if it is at least half a
    /// window, and long enough for a vector.
    ///
    /// # Errors
    ///
    /// If the speech is shorter than that, or if the voice is of a checkpoint of another size.
    pub fn drift(&self, voice: &[f32], speech: &[f32], window: Duration) -> anyhow::Result<Vec<Window>> {
        let length = self.rate.samples(window).len().max(1);
        let least = length.div_ceil(2).max(self.rate.samples(SHORTEST).len());
        let whole = speech.chunks(length).filter(|part| part.len() >= least);
        let windows = whole.enumerate().map(|(n, part)| {
            let vector = self.vector(part)?;
            Ok(Window {
                from: self.rate.duration(Samples((n * length) as u64)),
                level: Level::of(part).rms_dbfs(),
                distance: distance(voice, &vector)?,
            })
        });
        let windows = windows.collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(
            !windows.is_empty(),
            "the speech is shorter than half a window, or than a second"
        );
        Ok(windows)
    }
}

/// The vector in a voice's file.
fn exported(bytes: &[u8]) -> anyhow::Result<Vec<f32>> {
    let tensors = SafeTensors::deserialize(bytes)?;
    let vector = tensors.tensor("x_vector")?;
    ensure!(vector.dtype() == Dtype::F32, "its vector is not F32");
    let numbers = vector.data().chunks_exact(4);
    Ok(numbers
        .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect())
}

/// One minus the cosine of the angle between two vectors.
///
/// # Errors
/// If they are not equally long, or one of them has no direction.
pub fn distance(a: &[f32], b: &[f32]) -> anyhow::Result<f32> {
    if a.len() != b.len() {
        bail!(
            "the voice's vector has {} numbers, this checkpoint's have {}: it is of another checkpoint",
            a.len(),
            b.len()
        );
    }
    let product = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        products.sum()
    };
    let cosine = product(a, b) / (product(a, a) * product(b, b)).sqrt();
    ensure!(cosine.is_finite(), "a vector of zeros has no direction");
    Ok((1.0 - cosine) as f32)
}

/// Markdown table with a row per window, and a summary.
#[must_use]
pub fn table(windows: &[Window]) -> String {
    let mut out = String::from("| from s | level dBFS | distance |\n|--:|--:|--:|\n");
    for window in windows {
        let Window {
            from,
            level,
            distance,
        } = window;
        let _ = writeln!(out, "| {:.0} | {level:.1} | {distance:.5} |", from.as_secs_f64());
    }
    let end = windows.last().map_or(Duration::ZERO, |last| last.from);
    let first = windows.iter().take_while(|window| window.from < END);
    let last = windows.iter().skip_while(|window| window.from + END <= end);
    let most = windows.iter().map(|window| window.distance).fold(0.0, f32::max);
    let _ = writeln!(
        out,
        "\nDistance: mean {:.5}, most {most:.5}; first minute {:.5}, last minute {:.5}; {:+.5} a minute.",
        mean(windows.iter()),
        mean(first),
        mean(last),
        slope(windows)
    );
    out
}

fn mean<'a>(windows: impl Iterator<Item = &'a Window>) -> f64 {
    let (sum, count) = windows.fold((0.0, 0_u32), |(sum, count), window| {
        (sum + f64::from(window.distance), count + 1)
    });
    sum / f64::from(count.max(1))
}

/// Growth of the distance per minute, by least squares.
fn slope(windows: &[Window]) -> f64 {
    let minutes = |window: &Window| window.from.as_secs_f64() / 60.0;
    let middle = windows.iter().map(minutes).sum::<f64>() / windows.len().max(1) as f64;
    let mean = mean(windows.iter());
    let mut above = 0.0;
    let mut below = 0.0;
    for window in windows {
        let x = minutes(window) - middle;
        above += x * (f64::from(window.distance) - mean);
        below += x * x;
    }
    if below > 0.0 { above / below } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use omni_models::testing::TINY_TTS_BASE;

    use super::*;

    fn speaker() -> SpeakerModel {
        SpeakerModel::of(CheckpointSource::Memory(TINY_TTS_BASE)).expect("it clones")
    }

    /// A voice of `hz` with overtones, in syllables.
    fn babble(seconds: usize, hz: f32) -> Vec<f32> {
        let sample = |n: usize| {
            let t = n as f32 / 24_000.0;
            let syllable = (t * 25.0).sin().powi(2);
            let tone: f32 = (1..12)
                .map(|k| (t * hz * std::f32::consts::TAU * k as f32).sin() / k as f32)
                .sum();
            0.2 * syllable * tone
        };
        (0..24_000 * seconds).map(sample).collect()
    }

    #[test]
    fn speech_of_one_voice_stays_near_it_and_another_voice_is_told_apart() {
        let speaker = speaker();
        let window = Duration::from_secs(2);
        let same = babble(2, 120.0);
        let voice = speaker.vector(&same).unwrap();
        let speech = [
            same.clone(),
            same.clone(),
            babble(2, 260.0),
            babble(1, 120.0),
            vec![0.0; 10],
        ]
        .concat();
        let windows = speaker.drift(&voice, &speech, window).unwrap();
        let from: Vec<_> = windows.iter().map(|window| window.from.as_secs()).collect();
        assert_eq!(from, [0, 2, 4, 6], "the last is more than half of one");
        assert!(windows[0].distance.abs() < 1e-6 && windows[1].distance.abs() < 1e-6);
        assert!(windows[2].distance > 10.0 * windows[1].distance.abs().max(1e-7));
        assert!(
            speaker.drift(&voice, &same[..20_000], window).is_err(),
            "too short"
        );
        assert!(
            speaker.drift(&voice[1..], &same, window).is_err(),
            "another width"
        );
    }

    #[test]
    fn a_voice_that_moves_away_has_a_slope_and_one_that_stays_has_none() {
        let windows = |step: f32| -> Vec<Window> {
            (0..30_u8)
                .map(|n| Window {
                    from: Duration::from_secs(10 * u64::from(n)),
                    level: -20.0,
                    distance: 0.1 + step * f32::from(n),
                })
                .collect()
        };
        assert!(slope(&windows(0.0)).abs() < 1e-9);
        // Six windows a minute.
        assert!((slope(&windows(0.01)) - 0.06).abs() < 1e-6);
        let told = table(&windows(0.01));
        assert!(told.contains("| 290 | -20.0 | 0.39000 |"), "{told}");
        assert!(
            told.contains("first minute 0.12500, last minute 0.36500"),
            "{told}"
        );
    }

    #[test]
    fn voices_are_read_of_what_was_exported_and_of_recordings() {
        let speaker = speaker();
        let dir = tempfile::tempdir().unwrap();
        let said = babble(2, 120.0);
        let vector = speaker.vector(&said).unwrap();
        let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensor = safetensors::tensor::TensorView::new(Dtype::F32, vec![vector.len()], &bytes).unwrap();
        let voice = dir.path().join("a.safetensors");
        let recording = dir.path().join("a.wav");
        let other = dir.path().join("b");
        std::fs::write(
            &voice,
            safetensors::serialize([("x_vector", tensor)], None).unwrap(),
        )
        .unwrap();
        let mut wav = omni_audio::WavHeader::mono(speaker.rate)
            .finished(Samples::of(&said))
            .to_vec();
        omni_audio::encode_s16le(&said, &mut wav);
        std::fs::write(&recording, wav).unwrap();
        std::fs::write(&other, "text").unwrap();
        assert_eq!(speaker.voice(&voice).unwrap(), vector);
        // Of 16 bits.
        assert!(distance(&speaker.voice(&recording).unwrap(), &vector).unwrap() < 1e-4);
        assert!(speaker.voice(&other).unwrap_err().to_string().contains("neither"));
    }
}
