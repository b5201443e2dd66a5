//! hibari: a small voice that is no autoregressive one. Phonemes in, samples out, in chunks.
//!
//! The whole text passes the encoders, which give the length of every phoneme and the pitch and loudness of every frame.
//! A decoder makes spectra of these, frame by frame: it sees [`HALO`] frames on both sides and normalises nothing over
//! time, so chunks with that many frames around them give what the whole gives.

mod config;
mod net;
#[cfg(test)]
mod tests;
mod wave;

use omni_backend::{Activations as _, Cpu, DryRun, RowIndexing as _, Weights};

use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError};
use crate::loader::Loader;
use crate::phonemes::{self, PhonemeError, Vocabulary};
use crate::spectrum::Overlap;
use config::HibariConfig;
use net::{HALO, Net};
use wave::{Pulses, Wave};

/// Most phonemes at once.
const MOST_PHONEMES: usize = 510;
/// Most decoded frames at once: 100 s.
const MOST_FRAMES: usize = 8000;
/// Decoded frames per frame of the durations.
const SUBFRAMES: usize = 2;

/// The voice.
#[derive(Debug)]
pub struct Hibari {
    backend: Cpu,
    net: Net<Cpu>,
    wave: Wave,
    vocabulary: Vocabulary,
    config: HibariConfig,
}

/// Phonemes to speak, with the speed and seed.
#[derive(Debug, Clone, Copy)]
pub struct HibariText<'a> {
    /// As [`Hibari::ids`] gives them.
    pub ids: &'a [u32],
    /// 0.5 to 2.
    pub speed: f32,
    /// Decides the noise.
    pub seed: u64,
}

/// Speech on its way: everything but the decoder is done.
#[derive(Debug)]
pub struct HibariSpeech {
    seed: u64,
    durations: Vec<u32>,
    /// Rows of the decoder's input.
    features: Vec<f32>,
    pitch: Vec<f32>,
    pulses: Pulses,
    overlap: Overlap,
}

impl HibariSpeech {
    /// Frames of every id; a frame has [`Hibari::samples_per_frame`] samples.
    #[must_use]
    pub fn durations(&self) -> &[u32] {
        &self.durations
    }

    /// Decoder frames of the whole.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.pitch.len()
    }

    /// True if all samples were returned.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.overlap.frames() == self.frames()
    }
}

/// The tensors that a checkpoint must have, or all that is wrong with them.
fn check(checkpoint: &Checkpoint, config: &HibariConfig) -> Result<(), LoadError> {
    let dry = Loader::new(checkpoint, &DryRun);
    Net::load(&dry, config)?;
    dry.finish()
}

impl Hibari {
    /// Loads the voice.
    ///
    /// # Errors
    /// [`LoadError`] with everything that is wrong with the checkpoint.
    pub fn load(source: CheckpointSource, weights: Weights) -> Result<Self, LoadError> {
        let place = source.place();
        Self::opened(source, weights).map_err(|error| error.at(place))
    }

    fn opened(source: CheckpointSource, weights: Weights) -> Result<Self, LoadError> {
        let config = HibariConfig::parse(&source.required(crate::config::FILE)?)?;
        let vocabulary = Vocabulary::new(crate::config::FILE, config.vocab.clone(), MOST_PHONEMES)?;
        let checkpoint = Checkpoint::open(source)?;
        check(&checkpoint, &config)?;
        let backend = Cpu::new(weights);
        Ok(Self {
            net: Net::load(&Loader::new(&checkpoint, &backend), &config)?,
            backend,
            wave: Wave::new(&config),
            vocabulary,
            config,
        })
    }

    /// Samples per second.
    #[must_use]
    pub fn sample_rate(&self) -> u32 {
        self.config.sample_rate
    }

    /// Samples per frame of the durations.
    #[must_use]
    pub fn samples_per_frame(&self) -> usize {
        SUBFRAMES * self.config.hop
    }

    /// The ids of phonemes.
    ///
    /// # Errors
    /// [`PhonemeError`] if there are too many, or some that the voice does not know.
    pub fn ids(&self, phonemes: &str) -> Result<Vec<u32>, PhonemeError> {
        self.vocabulary.ids(phonemes)
    }

    /// Computes everything but the decoder for texts.
    ///
    /// # Errors
    /// [`PhonemeError`] if one of them cannot be said.
    pub fn begin(&self, texts: &[HibariText<'_>]) -> Result<Vec<HibariSpeech>, PhonemeError> {
        let b = &self.backend;
        let lens: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
        let ids: Vec<u32> = texts.iter().flat_map(|text| text.ids).copied().collect();
        let (acoustic, prosody) = self.net.read(b, &ids, &lens)?;
        let logs = b.host(&self.net.log_durations(b, &prosody, &lens)?)?;
        let mut durations = Vec::new();
        let mut lens_of_frames = Vec::new();
        let mut rows = Vec::new();
        let mut first = 0;
        for (text, &len) in texts.iter().zip(&lens) {
            let speed = phonemes::speed(text.speed)?;
            let exact: Vec<f32> = logs[first..first + len]
                .iter()
                .map(|d| d.exp_m1() / speed)
                .collect();
            let (frames, count) = phonemes::frames(&exact, MOST_FRAMES / SUBFRAMES)?;
            rows.extend(phonemes::rows_of_frames(&frames, first));
            lens_of_frames.push(count);
            durations.push(frames);
            first += len;
        }
        let prosody = self
            .net
            .prosody(b, &b.gather(&prosody, &rows)?, &lens_of_frames)?;
        let prosody = b.host(&prosody)?;
        let acoustic = b.host(&b.gather(&acoustic, &rows)?)?;
        let mut speeches = Vec::new();
        let mut from = 0;
        for ((text, durations), count) in texts.iter().zip(durations).zip(lens_of_frames) {
            let width = self.config.acoustic.width;
            let (pitch, features) = net::features(
                &acoustic[from * width..(from + count) * width],
                &prosody[from * 4..(from + count) * 4],
                width,
            );
            from += count;
            speeches.push(HibariSpeech {
                seed: text.seed,
                durations,
                features,
                pulses: Pulses::default(),
                pitch,
                overlap: Overlap::default(),
            });
        }
        Ok(speeches)
    }

    /// Decodes up to so many further frames of each, and returns the samples that are certain then.
    ///
    /// # Errors
    /// [`PhonemeError`] if the computation failed.
    pub fn advance(&self, parts: &mut [(&mut HibariSpeech, usize)]) -> Result<Vec<Vec<f32>>, PhonemeError> {
        let width = self.config.acoustic.width + 2;
        let mut rows = Vec::new();
        let mut lens = Vec::new();
        let mut wanted = Vec::new();
        let mut at = 0;
        for (speech, frames) in parts.iter() {
            let from = speech.overlap.frames();
            let to = speech.frames().min(from + frames);
            let seen = from.saturating_sub(HALO)..speech.frames().min(to + HALO);
            rows.extend_from_slice(&speech.features[seen.start * width..seen.end * width]);
            wanted.push(at + from - seen.start..at + to - seen.start);
            at += seen.len();
            lens.push(seen.len());
        }
        let b = &self.backend;
        let kept: Vec<u32> = wanted
            .iter()
            .cloned()
            .flatten()
            .map(|row| u32::try_from(row).unwrap_or(u32::MAX))
            .collect();
        let spectra = b.host(&self.net.decode(b, &b.rows(width, rows)?, &lens, &kept)?)?;
        let mut rest = &spectra[..];
        let mut samples = Vec::new();
        for ((speech, _), wanted) in parts.iter_mut().zip(wanted) {
            let (own, others) = rest.split_at(wanted.len() * net::PARTS * self.wave.bins());
            rest = others;
            samples.push(self.wave.samples(speech, own));
        }
        Ok(samples)
    }
}
