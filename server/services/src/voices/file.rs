//! A voice as a safetensors file: numbers as tensors, everything else in the header.
//!
//! Tensors: `x_vector` F32 `[width]`; in context also `codes` U32 `[frames, groups]` and `text` U32 `[tokens]`.

use std::collections::HashMap;
use std::num::ParseIntError;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::CodecFrame;
use omni_pipeline::request::{VoicePrompt, VoiceReference};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::VoiceError;
use super::voice::{Content, Owner, StoredVoice, VoiceName};

/// Largest file that is read or written, in bytes: a minute in context takes less than a tenth of it.
pub(super) const MAX_FILE: usize = 1 << 20;

const FORMAT: &str = "omni.voice";
const VERSION: &str = "1";
/// Most numbers of a speaker vector, frames, codes of a frame, tokens.
const MAX_WIDTH: usize = 1 << 14;

/// Reason why bytes are not a voice.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("has {got} bytes, expected at most {MAX_FILE}")]
    Size { got: usize },
    #[error("is not a safetensors file: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
    #[error("says {field} {got:?}, expected {expected:?}")]
    Says {
        field: &'static str,
        got: String,
        expected: &'static str,
    },
    #[error("lacks {0}")]
    Lacks(&'static str),
    #[error("has an invalid number in {field}: {error}")]
    Number {
        field: &'static str,
        error: ParseIntError,
    },
    #[error("{0}")]
    Name(#[from] VoiceError),
    #[error("has an invalid owner")]
    Owner,
    #[error("has {name} of {found:?} numbers, expected {expected}")]
    Shape {
        name: &'static str,
        found: Vec<usize>,
        expected: &'static str,
    },
    #[error("has a number that is not finite")]
    NotFinite,
}

/// Encodes a voice as a file.
pub(super) fn encode(voice: &StoredVoice) -> Result<Vec<u8>, VoiceError> {
    let meta = [
        ("format", FORMAT.to_owned()),
        ("version", VERSION.to_owned()),
        ("name", voice.name.to_string()),
        ("kind", voice.content.kind().to_owned()),
        ("model", voice.model.clone()),
        ("model_fingerprint", voice.fingerprint.clone()),
        ("transcript", voice.transcript.clone()),
        ("consent", voice.consent.clone()),
        ("description", voice.description.clone()),
        ("created", voice.created.to_string()),
        ("owner", voice.owner.as_str().to_owned()),
        ("duration_ms", voice.duration.as_millis().to_string()),
        (
            "design",
            match &voice.content {
                Content::Description(words) => words.as_ref().to_owned(),
                Content::Prompt(_) => String::new(),
            },
        ),
    ];
    let meta: HashMap<String, String> = meta
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    let arrays = match &voice.content {
        Content::Prompt(prompt) => arrays(prompt),
        Content::Description(_) => Vec::new(),
    };
    let said = |error: &dyn std::fmt::Display| VoiceError::Store(error.to_string());
    let views = arrays.iter().map(|array| {
        let view = TensorView::new(array.dtype, array.shape.clone(), &array.bytes);
        view.map(|view| (array.name, view))
    });
    let views = views
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| said(&error))?;
    safetensors::serialize(views, Some(meta)).map_err(|error| said(&error))
}

struct Array {
    name: &'static str,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn arrays(prompt: &VoicePrompt) -> Vec<Array> {
    let ids = |ids: &mut dyn Iterator<Item = u32>| ids.flat_map(u32::to_le_bytes).collect();
    let mut arrays = vec![Array {
        name: "x_vector",
        dtype: Dtype::F32,
        shape: vec![prompt.x_vector.len()],
        bytes: prompt.x_vector.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }];
    if let Some(reference) = &prompt.reference {
        let groups = reference.frames.first().map_or(0, |frame| frame.0.len());
        arrays.push(Array {
            name: "codes",
            dtype: Dtype::U32,
            shape: vec![reference.frames.len(), groups],
            bytes: ids(&mut reference.frames.iter().flat_map(|frame| frame.0.iter().copied())),
        });
        arrays.push(Array {
            name: "text",
            dtype: Dtype::U32,
            shape: vec![reference.text.len()],
            bytes: ids(&mut reference.text.iter().copied()),
        });
    }
    arrays
}

/// Decodes the file of a voice.
pub(super) fn decode(bytes: &[u8]) -> Result<StoredVoice, FileError> {
    if bytes.len() > MAX_FILE {
        return Err(FileError::Size { got: bytes.len() });
    }
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    let none = HashMap::new();
    let meta = header.metadata().as_ref().unwrap_or(&none);
    let said = |field: &'static str| meta.get(field).map(String::as_str);
    for (field, expected) in [("format", FORMAT), ("version", VERSION)] {
        match said(field) {
            Some(got) if got == expected => {}
            got => {
                let got = omni_core::error::excerpt(got.unwrap_or_default());
                return Err(FileError::Says { field, got, expected });
            }
        }
    }
    let number = |field: &'static str| {
        let text = said(field).ok_or(FileError::Lacks(field))?;
        text.parse::<u64>()
            .map_err(|error| FileError::Number { field, error })
    };
    let words = |field| said(field).unwrap_or_default().to_owned();
    let tensors = SafeTensors::deserialize(bytes)?;
    let content = match words("design") {
        design if !design.is_empty() => Content::Description(design.into()),
        _ => Content::Prompt(Arc::new(prompt(&tensors)?)),
    };
    Ok(StoredVoice {
        name: VoiceName::new(said("name").ok_or(FileError::Lacks("name"))?)?,
        owner: Owner::parse(said("owner").unwrap_or_default()).ok_or(FileError::Owner)?,
        model: words("model"),
        fingerprint: words("model_fingerprint"),
        content,
        transcript: words("transcript"),
        consent: words("consent"),
        description: words("description"),
        duration: Duration::from_millis(number("duration_ms")?),
        created: number("created")?,
    })
}

fn prompt(tensors: &SafeTensors<'_>) -> Result<VoicePrompt, FileError> {
    let (shape, words) = array(tensors, "x_vector", Dtype::F32)?;
    let x_vector: Vec<f32> = words.into_iter().map(f32::from_bits).collect();
    if shape.len() != 1 || !(1..=MAX_WIDTH).contains(&x_vector.len()) {
        return Err(FileError::Shape {
            name: "x_vector",
            found: shape,
            expected: "one row",
        });
    }
    if x_vector.iter().any(|x| !x.is_finite()) {
        return Err(FileError::NotFinite);
    }
    if tensors.tensor("codes").is_err() {
        return Ok(VoicePrompt {
            x_vector,
            reference: None,
        });
    }
    let (shape, codes) = array(tensors, "codes", Dtype::U32)?;
    let groups = match shape[..] {
        [frames, groups] if frames > 0 && groups > 0 => groups,
        _ => {
            return Err(FileError::Shape {
                name: "codes",
                found: shape,
                expected: "frames of codes",
            });
        }
    };
    let frames = codes
        .chunks_exact(groups)
        .map(|frame| CodecFrame(frame.into()))
        .collect();
    let (_, text) = array(tensors, "text", Dtype::U32)?;
    Ok(VoicePrompt {
        x_vector,
        reference: Some(VoiceReference { frames, text }),
    })
}

/// Shape and words of a tensor of four-byte numbers.
fn array(
    tensors: &SafeTensors<'_>,
    name: &'static str,
    dtype: Dtype,
) -> Result<(Vec<usize>, Vec<u32>), FileError> {
    let tensor = tensors.tensor(name)?;
    if tensor.dtype() != dtype {
        return Err(FileError::Shape {
            name,
            found: tensor.shape().to_vec(),
            expected: "x_vector as F32, codes and text as U32",
        });
    }
    let words = tensor.data().chunks_exact(4).map(|word| match *word {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    });
    Ok((tensor.shape().to_vec(), words.collect()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::voices) fn voice(name: &str, owner: &Owner) -> StoredVoice {
        StoredVoice {
            name: VoiceName::new(name).unwrap(),
            owner: owner.clone(),
            model: "tiny".into(),
            fingerprint: "00ff".into(),
            content: Content::Prompt(Arc::new(VoicePrompt {
                x_vector: vec![0.5, -1.25],
                reference: Some(VoiceReference {
                    frames: vec![CodecFrame([1, 2].into()), CodecFrame([3, 4].into())],
                    text: vec![7, 8, 9],
                }),
            })),
            transcript: "What is said.".into(),
            consent: "She agreed on paper.".into(),
            description: "calm".into(),
            duration: Duration::from_millis(1_234),
            created: 1_790_000_000,
        }
    }

    #[test]
    fn a_voice_comes_back_as_it_was_written() {
        let owner = Owner::parse(&"0f".repeat(16)).unwrap();
        let voice = voice("Anna", &owner);
        let plain = StoredVoice {
            content: Content::Prompt(Arc::new(VoicePrompt {
                x_vector: vec![1.0],
                reference: None,
            })),
            owner: Owner::shared(),
            ..voice.clone()
        };
        let design = StoredVoice {
            content: Content::Description("A low voice.".into()),
            ..voice.clone()
        };
        for voice in [voice, plain, design] {
            let bytes = encode(&voice).unwrap();
            assert!(bytes.len() < 4_096);
            assert_eq!(decode(&bytes).unwrap(), voice);
        }
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let bytes = encode(&voice("Anna", &Owner::shared())).unwrap();
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn what_is_no_voice_says_why() {
        let other = safetensors::serialize(Vec::<(&str, TensorView<'_>)>::new(), None).unwrap();
        assert!(decode(&other).unwrap_err().to_string().contains("format"));
        let mut later = encode(&voice("Anna", &Owner::shared())).unwrap();
        let said = b"\"version\":\"1\"";
        let at = later
            .windows(said.len())
            .position(|window| window == said)
            .unwrap();
        later[at + said.len() - 2] = b'9';
        let error = decode(&later).unwrap_err();
        assert!(
            matches!(error, FileError::Says { field: "version", .. }),
            "{error}"
        );
        let mut infinite = voice("Anna", &Owner::shared());
        infinite.content = Content::Prompt(Arc::new(VoicePrompt {
            x_vector: vec![f32::INFINITY],
            reference: None,
        }));
        let error = decode(&encode(&infinite).unwrap()).unwrap_err();
        assert!(matches!(error, FileError::NotFinite), "{error}");
        assert!(matches!(
            decode(&vec![0; MAX_FILE + 1]),
            Err(FileError::Size { .. })
        ));
    }
}
