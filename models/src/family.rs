//! Supported model families, recognised by `model_type` of `config.json`. The family decides the layout of the
//! configuration, the files and names of the tensors, and the talker's prompt.

use serde_json::Value;

use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError, Problem};
use crate::config::{FILE, GenerationDefaults, SpeechConfig, parsed};
use crate::{qwen3_tts, tokenizer};

/// A family of checkpoints with one layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Qwen3-Omni: thinker, talker, code2wav in one list of tensors.
    Qwen3Omni,
    /// Qwen3-TTS 12 Hz: a talker with text embeddings of its own, and a codec in `speech_tokenizer/`.
    Qwen3Tts,
}

const SERVED: [(&str, Family); 2] = [
    ("qwen3_omni_moe", Family::Qwen3Omni),
    ("qwen3_tts", Family::Qwen3Tts),
];

/// Folder of the codec of Qwen3-TTS.
pub(crate) const CODEC_FOLDER: &str = "speech_tokenizer";
/// The published checkpoint of Qwen3-Omni that speaks.
const SPEAKING: &str = "Qwen/Qwen3-Omni-30B-A3B-Instruct";
/// Checkpoint that messages suggest where none was named: the smallest one with voices of its own.
const SMALLEST: &str = "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice";

impl Family {
    /// The family of a checkpoint with this `config.json`.
    pub(crate) fn of(json: &[u8]) -> Result<Self, LoadError> {
        let value = parsed(FILE, json)?;
        let found = value.get("model_type").and_then(Value::as_str);
        let known = SERVED.iter().find(|(name, _)| Some(*name) == found);
        known.map(|(_, family)| *family).ok_or_else(|| {
            let found = found.map_or_else(|| "nothing".into(), |name| format!("{name:?}"));
            LoadError::one(Problem::Config {
                file: FILE.into(),
                field: "model_type".into(),
                reason: format!("is {found}, served are {}", served().join(", ")),
            })
        })
    }

    /// Checks that a checkpoint of this family with this `config.json` has a voice.
    pub(crate) fn speaks(self, json: &[u8]) -> Result<(), LoadError> {
        let value = parsed(FILE, json)?;
        let silent = value.get("enable_audio_output") == Some(&Value::Bool(false));
        if self != Self::Qwen3Omni || !(silent || value.get("talker_config").is_none_or(Value::is_null)) {
            return Ok(());
        }
        let (field, found) = if silent {
            ("enable_audio_output", "is false")
        } else {
            ("talker_config", "is missing")
        };
        Err(LoadError::one(Problem::Config {
            file: FILE.into(),
            field: field.into(),
            reason: format!(
                "{found}: this checkpoint does not speak (Thinking and Captioner do not), fetch the one that does: hf download {SPEAKING} --local-dir {}",
                SPEAKING.rsplit('/').next().unwrap_or(SPEAKING)
            ),
        }))
    }

    /// The name that people know.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Qwen3Omni => "Qwen3-Omni",
            Self::Qwen3Tts => "Qwen3-TTS",
        }
    }

    /// Reads and checks the configuration.
    pub(crate) fn config(self, checkpoint: &Checkpoint) -> Result<SpeechConfig, LoadError> {
        let json = checkpoint.required(FILE)?;
        match self {
            Self::Qwen3Omni => SpeechConfig::parse(&json),
            Self::Qwen3Tts => qwen3_tts::config(&json, &checkpoint.required(qwen3_tts::CODEC_CONFIG)?),
        }
    }

    /// Sampling defaults of the checkpoint.
    pub(crate) fn defaults(self, checkpoint: &Checkpoint) -> Result<GenerationDefaults, LoadError> {
        let json = checkpoint.file("generation_config.json")?;
        match self {
            Self::Qwen3Omni => GenerationDefaults::parse(json.as_deref()),
            Self::Qwen3Tts => qwen3_tts::defaults(json.as_deref()),
        }
    }

    /// The folder with the vocoder's tensors, where that is not the checkpoint's own.
    pub(crate) fn codec_folder(self) -> Option<&'static str> {
        match self {
            Self::Qwen3Omni => None,
            Self::Qwen3Tts => Some(CODEC_FOLDER),
        }
    }

    /// True if a tensor of this name is one of what converses, as far as that is served: pictures are not.
    pub(crate) fn converses_with(self, tensor: &str) -> bool {
        self == Self::Qwen3Omni && tensor.starts_with("thinker.") && !tensor.starts_with("thinker.visual.")
    }

    /// True if a tensor of this name is one of what speaks; the others are those of parts that are loaded apart.
    pub(crate) fn speaks_with(self, tensor: &str) -> bool {
        let apart: &[&str] = match self {
            // The thinker may be another process's.
            Self::Qwen3Omni => &["thinker."],
            // The codec's encoder and the speaker encoder serve cloning.
            Self::Qwen3Tts => &["encoder.", "speaker_encoder."],
        };
        !apart.iter().any(|prefix| tensor.starts_with(prefix))
    }
}

fn served() -> Vec<String> {
    let line = |(name, family): &(&str, Family)| format!("{name:?} ({})", family.title());
    SERVED.iter().map(line).collect()
}

/// Reports all required files of a directory that are missing, together.
pub(crate) fn missing_files(source: &CheckpointSource) -> Result<(), LoadError> {
    if !matches!(source, CheckpointSource::Dir(_)) {
        return Ok(());
    }
    let mut problems = Vec::new();
    let mut need = |file: String, one_of: &[String]| -> Result<bool, LoadError> {
        let mut found = false;
        for name in one_of.iter().chain([&file]) {
            found |= source.has(name)?;
        }
        if !found {
            problems.push(Problem::MissingFile { file });
        }
        Ok(found)
    };
    let mut folders = vec![String::new()];
    if need(FILE.into(), &[])? && Family::of(&source.required(FILE)?)? == Family::Qwen3Tts {
        folders.push(format!("{CODEC_FOLDER}/"));
        need(qwen3_tts::CODEC_CONFIG.into(), &[])?;
    }
    for folder in folders {
        let index = format!("{folder}model.safetensors.index.json");
        // The index of several tensor files is missing.
        match source.shard(&folder) {
            Some(_) => need(index, &[format!("{folder}model.safetensors")])?,
            None => need(format!("{folder}model.safetensors"), &[index])?,
        };
    }
    for file in tokenizer::FILES {
        need(file.into(), &[tokenizer::WHOLE.into()])?;
    }
    LoadError::unless_empty(problems)
}

/// The command that fetches a checkpoint like this one, if `error` is that something of a directory is missing.
pub(crate) fn fetch_hint(source: &CheckpointSource, error: &LoadError) -> Option<String> {
    let CheckpointSource::Dir(dir) = source else {
        return None;
    };
    let fetchable = |p: &Problem| match p {
        Problem::MissingFile { .. } | Problem::Truncated { .. } | Problem::MissingTensor { .. } => true,
        // Files that were cut short, or that a page of an error stands in place of.
        Problem::Malformed { file, .. } => file.ends_with(".safetensors") || file.ends_with(".json"),
        _ => false,
    };
    if !error.problems().iter().any(fetchable) {
        return None;
    }
    let config = source.file(FILE).ok().flatten();
    let config = config.and_then(|json| Some((Family::of(&json).ok()?, json)));
    let repository = match config {
        Some((Family::Qwen3Omni, _)) => SPEAKING.to_owned(),
        Some((Family::Qwen3Tts, json)) => qwen3_tts::repository(&json).unwrap_or_else(|| SMALLEST.to_owned()),
        None => SMALLEST.to_owned(),
    };
    // Of several tensor files only those that are needed.
    let is_shard = |file: &&str| file.contains("-of-") && file.ends_with(".safetensors");
    let files = error
        .problems()
        .iter()
        .map(|problem| problem.file().filter(is_shard));
    let files: Option<Vec<&str>> = files.collect();
    let files: String = files
        .into_iter()
        .flatten()
        .map(|file| format!(" {file}"))
        .collect();
    let missing = format!("hf download {repository}{files} --local-dir {}", dir.display());
    Some(format!("fetch what is missing or damaged with: {missing}"))
}
