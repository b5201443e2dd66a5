//! Says phonemes with a small voice, for measuring and for listening.
//!
//! ```text
//! say hibari|kokoro FOLDER [--weights auto|rounded] [--voice NAME] [--out FOLDER] < LINES
//! ```
//!
//! Every line of phonemes gives a line `SECONDS-OF-SPEECH SECONDS-TAKEN` as soon as it is said, and with `--out` a file
//! `NN.wav`.

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use omni_models::{CheckpointSource, Hibari, HibariText, Kokoro, KokoroText, Weights};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A mono file of 16 bits.
fn wav(samples: &[f32], rate: u32) -> Vec<u8> {
    let size = u32::try_from(2 * samples.len()).unwrap_or(u32::MAX);
    let mut out = Vec::new();
    out.extend(b"RIFF");
    out.extend((36 + size).to_le_bytes());
    out.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    out.extend(rate.to_le_bytes());
    out.extend((2 * rate).to_le_bytes());
    out.extend(b"\x02\0\x10\0data");
    out.extend(size.to_le_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "clamped")]
    let whole = |v: &f32| (v.clamp(-1.0, 1.0) * 32_767.0) as i16;
    out.extend(samples.iter().flat_map(|v| whole(v).to_le_bytes()));
    out
}

enum Voice {
    Hibari(Box<Hibari>),
    Kokoro(Box<Kokoro>, String),
}

impl Voice {
    fn say(&self, phonemes: &str) -> Result<(Vec<f32>, u32)> {
        match self {
            Self::Hibari(hibari) => {
                let ids = hibari.ids(phonemes)?;
                let speed = 1.0;
                let seed = 1;
                let mut speech = hibari.begin(&[HibariText {
                    ids: &ids,
                    speed,
                    seed,
                }])?;
                let samples = hibari.advance(&mut [(&mut speech[0], usize::MAX)])?;
                Ok((samples.concat(), hibari.sample_rate()))
            }
            Self::Kokoro(kokoro, voice) => {
                let ids = kokoro.ids(phonemes)?;
                let text = KokoroText {
                    ids: &ids,
                    voice: &kokoro.voice(voice)?,
                    speed: 1.0,
                    seed: 1,
                };
                let speech = kokoro.speak(&[text])?.remove(0);
                Ok((speech.samples, kokoro.sample_rate()))
            }
        }
    }
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let kind = words.next().ok_or("hibari or kokoro is expected")?;
    let folder = PathBuf::from(words.next().ok_or("a folder is expected")?);
    let (mut weights, mut voice, mut out) = (Weights::Stored, "af_heart".to_owned(), None);
    while let Some(flag) = words.next() {
        let value = words.next().ok_or("a value is expected")?;
        match flag.as_str() {
            "--weights" if value == "rounded" => weights = Weights::RoundedProducts,
            "--weights" => {}
            "--voice" => voice = value,
            "--out" => out = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown flag {flag}").into()),
        }
    }
    let source = CheckpointSource::Dir(folder);
    let voice = match kind.as_str() {
        "hibari" => Voice::Hibari(Box::new(Hibari::load(source, weights)?)),
        _ => Voice::Kokoro(Box::new(Kokoro::load(source, weights)?), voice),
    };
    for (nth, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        let begun = Instant::now();
        let (samples, rate) = voice.say(line.trim())?;
        let taken = begun.elapsed().as_secs_f64();
        let mut told = std::io::stdout().lock();
        writeln!(told, "{:.3} {taken:.4}", samples.len() as f64 / f64::from(rate))?;
        told.flush()?;
        if let Some(out) = out.as_deref() {
            write(out, nth, &wav(&samples, rate))?;
        }
    }
    Ok(())
}

fn write(folder: &Path, nth: usize, content: &[u8]) -> Result<()> {
    Ok(std::fs::write(folder.join(format!("{nth:02}.wav")), content)?)
}
