//! Voices: a style for every number of phonemes, and mixtures of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError, Problem};
use crate::phonemes::PhonemeError;

pub(super) const FOLDER: &str = "voices";
/// Most parts of a mixture, and lengths of text that a voice has a style for.
const MOST_PARTS: usize = 16;
const MOST_ROWS: usize = 1 << 12;

/// The style of a voice, or of a mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct KokoroVoice {
    /// `[rows, 2 * style]`: for the decoder, then for the prosody.
    values: Arc<[f32]>,
    width: usize,
}

impl KokoroVoice {
    /// The style for a number of phonemes, at least one; of the longest text for one that is longer.
    pub(super) fn style(&self, phonemes: usize) -> &[f32] {
        let row = (phonemes - 1).min(self.values.len() / self.width - 1);
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

/// The voices of a checkpoint.
#[derive(Debug)]
pub(super) struct Voices(BTreeMap<String, KokoroVoice>);

fn read(source: &CheckpointSource, file: &str, style: usize) -> Result<KokoroVoice, LoadError> {
    let checkpoint = Checkpoint::open_file(source.clone(), file)?;
    let mut tensors = checkpoint.tensors();
    let (Some((name, info)), None) = (tensors.next(), tensors.next()) else {
        return Err(LoadError::one(Problem::Malformed {
            file: file.into(),
            reason: "one tensor is expected".into(),
        }));
    };
    let width = 2 * style;
    let rows = match info.shape[..] {
        [rows, 1, found] if found == width && rows > 0 && rows <= MOST_ROWS => rows,
        _ => {
            return Err(LoadError::one(Problem::Shape {
                file: file.into(),
                tensor: name.into(),
                expected: vec![510, 1, width],
                found: info.shape.clone(),
            }));
        }
    };
    let values = checkpoint.read(name)?.to_f32();
    if values.len() != rows * width {
        return Err(LoadError::one(Problem::Type {
            file: file.into(),
            tensor: name.into(),
            found: format!("{:?}", info.dtype),
        }));
    }
    Ok(KokoroVoice {
        values: values.into(),
        width,
    })
}

impl Voices {
    /// All that lie in the checkpoint's folder of voices.
    pub(super) fn load(source: &CheckpointSource, style: usize) -> Result<Self, LoadError> {
        let mut voices = BTreeMap::new();
        for file in source.files(FOLDER) {
            let name = file
                .strip_suffix(".safetensors")
                .or_else(|| file.strip_suffix(".pt"));
            if let Some(name) = name {
                let voice = read(source, &format!("{FOLDER}/{file}"), style)?;
                voices.insert(name.to_owned(), voice);
            }
        }
        if voices.is_empty() {
            let file = format!("{FOLDER}/NAME.pt");
            return Err(LoadError::one(Problem::MissingFile { file }));
        }
        Ok(Self(voices))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// A voice by its name, or a mixture such as `af_heart:0.7+af_bella:0.3`; parts without a weight have weight 1.
    pub(super) fn find(&self, name: &str) -> Result<KokoroVoice, PhonemeError> {
        let wrong = |reason: String| Err(PhonemeError::Voice(reason));
        let mut parts = Vec::new();
        for part in name.split('+') {
            let (voice, weight) = part.split_once(':').unwrap_or((part, "1"));
            let Some(voice) = self.0.get(voice.trim()) else {
                return wrong(format!(
                    "no voice {:?}; there are {}",
                    voice.trim(),
                    self.names().collect::<Vec<_>>().join(", ")
                ));
            };
            match weight.trim().parse::<f32>() {
                Ok(weight) if weight > 0.0 && weight <= 1000.0 => parts.push((voice, weight)),
                _ => {
                    return wrong(format!(
                        "weight {weight:?} of a voice; a number above 0 and up to 1000 is expected"
                    ));
                }
            }
        }
        if parts.len() > MOST_PARTS {
            return wrong(format!(
                "a mixture of {} voices; at most {MOST_PARTS} are possible",
                parts.len()
            ));
        }
        if let [(voice, _)] = parts[..] {
            return Ok(voice.clone());
        }
        let whole: f32 = parts.iter().map(|(_, weight)| weight).sum();
        let len = parts
            .iter()
            .map(|(voice, _)| voice.values.len())
            .min()
            .unwrap_or(0);
        let mut values = vec![0.0; len];
        for (voice, weight) in &parts {
            let share = weight / whole;
            values
                .iter_mut()
                .zip(&voice.values[..])
                .for_each(|(sum, v)| *sum += share * v);
        }
        Ok(KokoroVoice {
            values: values.into(),
            width: parts[0].0.width,
        })
    }
}
