//! Random checkpoints as files, in the layout of the published ones: for measuring how long loading takes.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;

use omni_backend::host::{DType, HostTensor};
use safetensors::{Dtype, View, serialize_to_file};

use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError};
use crate::family::{CODEC_FOLDER, Family};
use crate::qwen3_tts::CODEC_CONFIG;
use crate::random::RandomModel;

const FILES: [&str; 7] = [
    "config.json",
    CODEC_CONFIG,
    "generation_config.json",
    "omni.json",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
];
const TENSORS: &str = "model.safetensors";

/// Reason why a checkpoint could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file.
    #[error("a file cannot be written: {0}")]
    Io(#[from] io::Error),
    /// A file of tensors.
    #[error("tensors cannot be written: {0}")]
    Tensors(#[from] safetensors::SafeTensorError),
    /// Its tensors cannot be made.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Writes `model` to `dir`, which is made if there is none. As published, matrices of the language models are bf16 and
/// those of a codec of its own are f32.
///
/// # Errors
/// What cannot be written.
pub fn write_random(model: RandomModel, dir: &Path) -> Result<(), WriteError> {
    let source = CheckpointSource::Random(model);
    fs::create_dir_all(dir.join(CODEC_FOLDER))?;
    for name in FILES {
        if let Some(content) = source.file(name)? {
            fs::write(dir.join(name), content)?;
        }
    }
    let family = Family::of(&source.required("config.json")?)?;
    let checkpoint = Checkpoint::open(source)?;
    write(&checkpoint, false, &dir.join(TENSORS))?;
    if let Some(folder) = family.codec_folder() {
        write(&checkpoint.folder(folder)?, true, &dir.join(folder).join(TENSORS))?;
    }
    Ok(())
}

/// A tensor that is made when it is written.
struct Lazy {
    tensor: HostTensor,
    wide: bool,
}

impl View for Lazy {
    fn dtype(&self) -> Dtype {
        if self.wide { Dtype::F32 } else { Dtype::BF16 }
    }

    fn shape(&self) -> &[usize] {
        &self.tensor.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        if self.wide {
            Cow::Owned(
                self.tensor
                    .to_f32()
                    .into_iter()
                    .flat_map(f32::to_le_bytes)
                    .collect(),
            )
        } else {
            self.tensor.bytes()
        }
    }

    fn data_len(&self) -> usize {
        self.tensor.elements() * if self.wide { 4 } else { 2 }
    }
}

fn write(checkpoint: &Checkpoint, wide: bool, file: &Path) -> Result<(), WriteError> {
    let lazy = |name: &str| {
        let tensor = checkpoint.read(name)?;
        debug_assert!(tensor.dtype == DType::Bf16, "what is made is bf16");
        Ok::<_, LoadError>((name.to_owned(), Lazy { tensor, wide }))
    };
    let names: Vec<&str> = checkpoint.tensors().map(|(name, _)| name).collect();
    let tensors = names.into_iter().map(lazy).collect::<Result<Vec<_>, _>>()?;
    Ok(serialize_to_file(tensors, None, file)?)
}
