//! Kokoro: a voice that is no autoregressive one. Phonemes in, samples out, an utterance at a time.
//!
//! A transformer and recurrent layers give the frames of every phoneme, its pitch and its loudness; a decoder and a
//! generator make spectra of these (StyleTTS 2 with iSTFTNet). All norms of the latter are over the whole time, so a
//! part of an utterance cannot be computed without the rest.

mod blocks;
mod config;
mod decoder;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod voices;

use std::fmt;

use omni_backend::{Activations as _, Cpu, DryRun, RowIndexing as _, Weights};
use realfft::num_complex::Complex32;

use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError, Problem};
use crate::config::FILE;
use crate::loader::Loader;
use crate::phonemes::{self, PhonemeError, Vocabulary};
use crate::spectrum::{Overlap, Spectrum};
use blocks::Styled;
use config::KokoroConfig;
use decoder::Decoder;
use source::Source;
use text::{Prosody, TextNets};
pub use voices::KokoroVoice;
use voices::Voices;

/// Most frames of an utterance: 60 s.
const MOST_FRAMES: usize = 2400;
/// Numbers of pitch and loudness for a frame.
const CURVE: usize = 2;
const SAMPLE_RATE: u32 = 24_000;
const TENSORS: &str = "model.safetensors";

/// The voice.
pub struct Kokoro {
    /// Of the networks that decide durations, and of those that make the sound.
    exact: Cpu,
    backend: Cpu,
    nets: TextNets<Cpu>,
    decoder: Decoder<Cpu>,
    source: Source,
    spectrum: Spectrum,
    vocabulary: Vocabulary,
    voices: Voices,
    config: KokoroConfig,
}

impl fmt::Debug for Kokoro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kokoro").finish_non_exhaustive()
    }
}

/// Phonemes to speak, with the voice, speed and seed.
#[derive(Debug, Clone, Copy)]
pub struct KokoroText<'a> {
    /// As [`Kokoro::ids`] gives them.
    pub ids: &'a [u32],
    /// The voice, as [`Kokoro::voice`] gives it.
    pub voice: &'a KokoroVoice,
    /// 0.5 to 2.
    pub speed: f32,
    /// Decides the noise.
    pub seed: u64,
}

/// Speech.
#[derive(Debug, Clone, PartialEq)]
pub struct KokoroSpeech {
    /// Mono, in about [-1, 1].
    pub samples: Vec<f32>,
    /// Frames of every id; a frame has [`Kokoro::samples_per_frame`] samples.
    pub durations: Vec<u32>,
}

/// Utterances of a batch after everything but the generator.
struct Prepared {
    durations: Vec<Vec<u32>>,
    /// Rows of every utterance that go into the generator.
    lens: Vec<usize>,
    style: <Cpu as omni_backend::Activations>::Rows,
    prosody: Prosody<<Cpu as omni_backend::Activations>::Rows>,
    decoded: <Cpu as omni_backend::Activations>::Rows,
}

/// The tensors of a checkpoint in the published layout or as safetensors.
fn open(source: CheckpointSource) -> Result<Checkpoint, LoadError> {
    if source.has(TENSORS)? {
        return Checkpoint::open(source);
    }
    let saved: Vec<String> = source
        .files("")
        .into_iter()
        .filter(|name| name.ends_with(".pth"))
        .collect();
    let file = match &saved[..] {
        [file] => file.clone(),
        _ => TENSORS.into(),
    };
    let checkpoint = Checkpoint::open_file(source, &file)?;
    // Networks that were trained on several devices have one more name in front.
    Ok(checkpoint.renamed(|name| Some(name.replacen(".module.", ".", 1))))
}

fn check(checkpoint: &Checkpoint, config: &KokoroConfig) -> Result<(), LoadError> {
    let dry = Loader::new(checkpoint, &DryRun);
    load(&dry, &dry, config)?;
    dry.finish()
}

fn load<P: omni_backend::Params>(
    exact: &Loader<'_, P>,
    l: &Loader<'_, P>,
    config: &KokoroConfig,
) -> Result<(TextNets<P>, Decoder<P>), LoadError> {
    Decoder::check_source(l)?;
    Ok((TextNets::load(exact, config)?, Decoder::load(l, config)?))
}

impl Kokoro {
    /// Loads the voice. `weights` are those of decoder and generator.
    ///
    /// # Errors
    /// [`LoadError`] with everything that is wrong with the checkpoint.
    pub fn load(source: CheckpointSource, weights: Weights) -> Result<Self, LoadError> {
        let place = source.place();
        Self::opened(source, weights).map_err(|error| error.at(place))
    }

    fn opened(source: CheckpointSource, weights: Weights) -> Result<Self, LoadError> {
        let config = KokoroConfig::parse(&source.required(FILE)?)?;
        // A pause stands at both ends.
        let vocabulary = Vocabulary::new(FILE, config.vocab.clone(), config.bert.positions - 2)?;
        let voices = Voices::load(&source, config.style)?;
        let checkpoint = open(source)?;
        check(&checkpoint, &config)?;
        let exact = Cpu::new(Weights::Stored);
        let backend = Cpu::new(weights);
        let loaders = [
            Loader::new(&checkpoint, &exact),
            Loader::new(&checkpoint, &backend),
        ];
        let (nets, decoder) = load(&loaders[0], &loaders[1], &config)?;
        let mixing = |part: &str| checkpoint.read(&format!("decoder.generator.m_source.l_linear.{part}"));
        let bias = mixing("bias")?.to_f32();
        let [bias] = bias[..] else {
            return Err(LoadError::one(Problem::MissingFile { file: TENSORS.into() }));
        };
        Ok(Self {
            source: Source {
                weights: mixing("weight")?.to_f32(),
                bias,
                sample_rate: f64::from(SAMPLE_RATE),
                samples: config.generator.samples(),
                noise: true,
            },
            spectrum: Spectrum::new(config.generator.n_fft, config.generator.hop),
            exact,
            backend,
            nets,
            decoder,
            vocabulary,
            voices,
            config,
        })
    }

    /// Samples per second.
    #[must_use]
    pub fn sample_rate(&self) -> u32 {
        SAMPLE_RATE
    }

    /// Samples per frame of the durations.
    #[must_use]
    pub fn samples_per_frame(&self) -> usize {
        CURVE * self.config.generator.samples()
    }

    /// The ids of phonemes.
    ///
    /// # Errors
    /// [`PhonemeError`] if there are too many, or some that the voice does not know.
    pub fn ids(&self, phonemes: &str) -> Result<Vec<u32>, PhonemeError> {
        self.vocabulary.ids(phonemes)
    }

    /// The names of the voices, in order.
    pub fn voices(&self) -> impl Iterator<Item = &str> {
        self.voices.names()
    }

    /// A voice by its name, or a mixture of several: `af_heart:0.7+af_bella:0.3`.
    ///
    /// # Errors
    /// [`PhonemeError::Voice`] if there is no such voice, or a weight is not a positive number.
    pub fn voice(&self, name: &str) -> Result<KokoroVoice, PhonemeError> {
        self.voices.find(name)
    }

    /// Says texts, each as it would be said alone.
    ///
    /// # Errors
    /// [`PhonemeError`] if one of them cannot be said.
    pub fn speak(&self, texts: &[KokoroText<'_>]) -> Result<Vec<KokoroSpeech>, PhonemeError> {
        let prepared = self.prepare(texts)?;
        let signals = self.signals(texts, &prepared)?;
        self.sound(prepared, &signals)
    }

    fn prepare(&self, texts: &[KokoroText<'_>]) -> Result<Prepared, PhonemeError> {
        let b = &self.exact;
        for text in texts {
            phonemes::speed(text.speed)?;
        }
        let lens: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
        let ids: Vec<u32> = texts.iter().flat_map(|text| text.ids).copied().collect();
        let half = self.config.style;
        let styles = |of_decoder: bool| {
            let both = texts
                .iter()
                .map(|text| text.voice.style(text.ids.len().saturating_sub(2).max(1)));
            let half = both.flat_map(|both| if of_decoder { &both[..half] } else { &both[half..] });
            b.rows(self.config.style, half.copied().collect())
        };
        let style = styles(false)?;
        let on = Styled {
            b,
            style: &style,
            lens: &lens,
        };
        let read = self.nets.read(b, &ids, &lens)?;
        let (rows, exact) = self.nets.durations(on, &read)?;
        let mut durations = Vec::new();
        let mut frames = Vec::new();
        let mut index = Vec::new();
        let mut first = 0;
        for (text, &len) in texts.iter().zip(&lens) {
            let exact: Vec<f32> = exact[first..first + len].iter().map(|d| d / text.speed).collect();
            let (of_ids, count) = phonemes::frames(&exact, MOST_FRAMES)?;
            index.extend(phonemes::rows_of_frames(&of_ids, first));
            durations.push(of_ids);
            frames.push(count);
            first += len;
        }
        let of_frames = Styled { lens: &frames, ..on };
        let prosody = self.nets.prosody(of_frames, &b.gather(&rows, &index)?)?;
        let text = b.gather(&self.nets.text(b, &ids, &lens)?, &index)?;
        let style = styles(true)?;
        let on = Styled {
            b: &self.backend,
            style: &style,
            lens: &frames,
        };
        let decoded = self.decoder.decode(on, &text, &prosody)?;
        Ok(Prepared {
            durations,
            lens: frames.iter().map(|frames| CURVE * frames).collect(),
            prosody,
            decoded,
            style,
        })
    }

    /// The generator's source for every text.
    fn signals(&self, texts: &[KokoroText<'_>], prepared: &Prepared) -> Result<Vec<Vec<f32>>, PhonemeError> {
        let pitch = self.exact.host(&prepared.prosody.pitch)?;
        let mut rest = &pitch[..];
        let one = |(text, &len): (&KokoroText<'_>, &usize)| {
            let (own, others) = rest.split_at(len);
            rest = others;
            self.source.signal(own, text.seed)
        };
        Ok(texts.iter().zip(&prepared.lens).map(one).collect())
    }

    fn sound(&self, prepared: Prepared, signals: &[Vec<f32>]) -> Result<Vec<KokoroSpeech>, PhonemeError> {
        let b = &self.backend;
        let hop = self.config.generator.hop;
        let bins = self.spectrum.bins();
        let mut source = Vec::new();
        for signal in signals {
            Source::spectra(signal, hop, &self.spectrum, &mut source);
        }
        let frames: Vec<usize> = signals.iter().map(|signal| signal.len() / hop + 1).collect();
        let source = b.rows(2 * bins, source)?;
        let on = Styled {
            b,
            style: &prepared.style,
            lens: &prepared.lens,
        };
        let spectra = b.host(&self.decoder.generate(on, prepared.decoded, &source, &frames)?)?;
        let mut rest = &spectra[..];
        let mut speeches = Vec::new();
        for ((durations, signal), frames) in prepared.durations.into_iter().zip(signals).zip(frames) {
            let (own, others) = rest.split_at(frames * 2 * bins);
            rest = others;
            let mut complex = Vec::with_capacity(frames * bins);
            for row in own.chunks(2 * bins) {
                let (sizes, angles) = row.split_at(bins);
                let both = sizes.iter().zip(angles);
                complex.extend(both.map(|(size, angle)| Complex32::from_polar(size.exp(), angle.sin())));
            }
            let samples = self
                .spectrum
                .add(&mut Overlap::default(), &mut complex, Some(signal.len()));
            speeches.push(KokoroSpeech { samples, durations });
        }
        Ok(speeches)
    }
}
