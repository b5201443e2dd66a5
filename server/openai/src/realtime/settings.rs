//! The settings of a session: as they come, as they are in force, and as the client sees them.

use std::fmt;
use std::sync::Arc;

use omni_core::error::{ServeError, excerpt};
use omni_services::settings::SamplingRequest;
use omni_services::{ChatModel, ChatRequest};
use omni_session::{ChatSettings, Modalities};
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::formats::{AudioFormat, FormatPatch};
use super::hints::Hints;
use super::tools::{Tool, ToolBody, ToolChoice, ToolChoiceBody};
use super::turn_detection::{ServerVad, TurnDetectionPatch};
use crate::error::ApiError;
use crate::lean::{BoundedVec, IsSet, TextOr, scalar};
use crate::notes::renamed;
use crate::sound::{Voice, voice_name};

/// Prefixes of fields in the service's messages, and their names here.
pub(super) const NAMES: [(&str, &str); 10] = [
    ("config.model", "session.model"),
    ("config.voice", "session.audio.output.voice"),
    ("config.speed", "session.audio.output.speed"),
    ("config.output_audio", "session.audio.output.format"),
    ("config.instructions", "session.instructions"),
    ("config.text_sampling.max_tokens", "session.max_output_tokens"),
    ("message.parts.tool", "session.tools"),
    ("message.parts", "item.content"),
    ("messages", "conversation"),
    ("message", "item"),
];

/// Longest lists.
const FEW: usize = 8;
const TOOLS: usize = 128;

/// Error of a service, with this protocol's names.
pub(super) fn named(error: &ServeError) -> ApiError {
    ApiError::new(error, &NAMES)
}

/// A field whose null differs from its absence.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Settings in `session.update` and `response.create`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SettingsPatch {
    /// Unknown settings of the client, by their paths.
    #[serde(skip)]
    pub(super) unknown: Vec<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    model: Option<String>,
    instructions: Option<String>,
    output_modalities: Option<BoundedVec<String, FEW>>,
    audio: Option<AudioPatch>,
    tools: Option<BoundedVec<ToolBody, TOOLS>>,
    tool_choice: Option<TextOr<ToolChoiceBody>>,
    max_output_tokens: Option<MaxTokens>,
    truncation: Option<TextOr<IsSet>>,
}

#[derive(Debug, Deserialize)]
struct AudioPatch {
    input: Option<InputPatch>,
    output: Option<OutputPatch>,
}

#[derive(Debug, Deserialize)]
struct InputPatch {
    format: Option<FormatPatch>,
    #[serde(default, deserialize_with = "given")]
    transcription: Option<Option<TranscriptionPatch>>,
    #[serde(default, deserialize_with = "given")]
    turn_detection: Option<Option<TurnDetectionPatch>>,
}

#[derive(Debug, Deserialize)]
struct OutputPatch {
    format: Option<FormatPatch>,
    voice: Option<Voice>,
    #[serde(default, deserialize_with = "scalar")]
    speed: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct TranscriptionPatch {
    model: Option<String>,
}

/// Most tokens, or `inf`: none.
#[derive(Debug)]
struct MaxTokens(Option<u32>);

impl<'de> Deserialize<'de> for MaxTokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrInf;
        impl Visitor<'_> for NumberOrInf {
            type Value = MaxTokens;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of tokens or \"inf\"")
            }

            fn visit_u64<E: serde::de::Error>(self, most: u64) -> Result<MaxTokens, E> {
                Ok(MaxTokens(Some(u32::try_from(most).unwrap_or(u32::MAX))))
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<MaxTokens, E> {
                match word {
                    "inf" => Ok(MaxTokens(None)),
                    other => Err(E::invalid_value(Unexpected::Str(&excerpt(other)), &self)),
                }
            }
        }
        deserializer.deserialize_any(NumberOrInf)
    }
}

/// Settings in force.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) spoken: bool,
    pub(super) instructions: String,
    pub(super) input: AudioFormat,
    pub(super) output: AudioFormat,
    voice: String,
    speed: Option<f64>,
    pub(super) turns: Option<ServerVad>,
    /// Name of the model requested for transcripts of the user's speech.
    pub(super) transcription: Option<String>,
    pub(super) tools: Arc<[Tool]>,
    pub(super) tool_choice: ToolChoice,
    max_tokens: Option<u32>,
    /// The settings as the service has checked them.
    pub(super) checked: ChatSettings,
}

impl Settings {
    /// Default settings, for a session with only a model.
    pub(super) fn new(named_model: &str, model: &ChatModel) -> Result<Self, ServeError> {
        let output = AudioFormat::Pcm;
        let request = ChatRequest {
            model: named_model.to_owned(),
            output: output.output(),
            ..ChatRequest::default()
        };
        Ok(Self {
            spoken: true,
            instructions: String::new(),
            input: AudioFormat::Pcm,
            output,
            voice: String::new(),
            speed: None,
            turns: Some(ServerVad::default()),
            transcription: None,
            tools: Arc::default(),
            tool_choice: ToolChoice::Auto,
            max_tokens: None,
            checked: model.settings(&request)?,
        })
    }

    /// Applies a patch, and returns the names of ignored fields; of `response.create` only fields about answers
    /// count.
    ///
    /// # Errors
    /// A field that would make answers or audio other ones than the client expects; nothing of the patch is applied
    /// then.
    pub(super) fn patched(
        &self,
        patch: SettingsPatch,
        model: &ChatModel,
    ) -> Result<(Self, Vec<String>), ApiError> {
        if let Some(kind) = patch.kind.as_deref().filter(|kind| *kind != "realtime") {
            let problem = format!("unsupported session.type '{}'; expected realtime", excerpt(kind));
            return Err(ApiError::invalid(Some("session.type"), problem));
        }
        let mut hints = Hints::new(model.speech.terms.strict);
        let mut new = self.clone();
        if let Some(BoundedVec(forms)) = patch.output_modalities {
            new.spoken = is_spoken(&forms, &mut hints)?;
        }
        new.instructions = patch.instructions.unwrap_or(new.instructions);
        if let Some(AudioPatch { input, output }) = patch.audio {
            new.hear(input, &mut hints)?;
            new.speak(output)?;
        }
        if let Some(MaxTokens(most)) = patch.max_output_tokens {
            new.max_tokens = most;
        }
        if let Some(BoundedVec(tools)) = patch.tools {
            new.tools = ToolBody::offered(tools, model, &mut hints)?.into();
        }
        if let Some(choice) = patch.tool_choice {
            new.tool_choice = ToolChoice::of(choice, &mut hints)?;
        }
        match patch.truncation {
            None => {}
            // The oldest items make room where the model's window needs it.
            Some(TextOr::Text(word)) if word == "auto" => {}
            Some(_) => hints.ignore("session.truncation", "disabled or with bounds", "auto")?,
        }
        hints.unknown(patch.unknown)?;
        let request = new.request(patch.model.unwrap_or_default());
        let length = model.check_text("config.instructions", new.instructions.len());
        let checked = length.and_then(|()| model.settings(&request));
        new.checked = checked.map_err(|error| named(&error))?;
        let mut ignored = hints.names();
        ignored.extend(renamed(&new.checked.speech.ignored, &NAMES));
        Ok((new, ignored))
    }

    fn hear(&mut self, patch: Option<InputPatch>, hints: &mut Hints) -> Result<(), ApiError> {
        let Some(patch) = patch else { return Ok(()) };
        if let Some(format) = &patch.format {
            self.input = AudioFormat::of(format, "session.audio.input.format")?;
        }
        if let Some(transcription) = patch.transcription {
            self.transcription = transcription.map(|asked| asked.model.unwrap_or_default());
        }
        match &patch.turn_detection {
            None => {}
            Some(None) => self.turns = None,
            Some(Some(patch)) if patch.is_none() => self.turns = None,
            Some(Some(patch)) => self.turns = Some(self.turns.unwrap_or_default().patched(patch, hints)?),
        }
        Ok(())
    }

    fn speak(&mut self, patch: Option<OutputPatch>) -> Result<(), ApiError> {
        let Some(patch) = patch else { return Ok(()) };
        if let Some(format) = &patch.format {
            self.output = AudioFormat::of(format, "session.audio.output.format")?;
        }
        self.voice = patch.voice.map_or_else(|| self.voice.clone(), voice_name);
        self.speed = patch.speed.or(self.speed);
        Ok(())
    }

    /// Functions that answers may call.
    pub(super) fn offered(&self) -> impl Iterator<Item = &Tool> {
        let offers = |tool: &&Tool| self.tool_choice.offers(tool);
        self.tools.iter().filter(offers)
    }

    /// Characters of instructions and functions that are not those of `before`.
    pub(super) fn added(&self, before: &Self) -> usize {
        let instructions = if self.instructions == before.instructions {
            0
        } else {
            self.instructions.chars().count()
        };
        let new = self.tools.iter().filter(|tool| !before.tools.contains(tool));
        instructions + new.map(Tool::characters).sum::<usize>()
    }

    /// The forms of answers.
    pub(super) fn modalities(&self) -> Value {
        if self.spoken {
            json!(["audio"])
        } else {
            json!(["text"])
        }
    }

    /// Most tokens of an answer, as clients see it.
    pub(super) fn most_tokens(&self) -> Value {
        self.max_tokens.map_or_else(|| json!("inf"), Value::from)
    }

    /// Audio output of answers, as clients are told.
    pub(super) fn sound(&self) -> Value {
        json!({"format": self.output.json(), "voice": self.checked.speech.voice})
    }

    fn request(&self, model: String) -> ChatRequest {
        ChatRequest {
            model,
            modalities: Some(Modalities {
                text: true,
                audio: self.spoken,
            }),
            voice: self.voice.clone(),
            output: self.output.output().rendered(self.speed, None),
            text_sampling: SamplingRequest {
                max_tokens: self.max_tokens,
                ..SamplingRequest::default()
            },
            ..ChatRequest::default()
        }
    }

    /// The settings as a client sees them.
    pub(super) fn json(&self, id: &str, model: &ChatModel) -> Value {
        let mut output = self.sound();
        output["speed"] = json!(self.speed.unwrap_or(1.0));
        json!({
            "type": "realtime",
            "object": "realtime.session",
            "id": id,
            "model": model.speech.id,
            "output_modalities": self.modalities(),
            "instructions": self.instructions,
            "tools": self.tools.iter().map(Tool::json).collect::<Vec<_>>(),
            "tool_choice": self.tool_choice.json(),
            "max_output_tokens": self.most_tokens(),
            "tracing": null,
            "truncation": "auto",
            "prompt": null,
            "include": null,
            "audio": {
                "input": {
                    "format": self.input.json(),
                    "transcription": self.transcription.as_ref().map(|model| json!({"model": model})),
                    "noise_reduction": null,
                    "turn_detection": self.turns.map(ServerVad::json),
                },
                "output": output,
            },
        })
    }
}

/// Returns true if answers are spoken. Spoken answers have their text beside the audio, so that `text` adds nothing.
fn is_spoken(forms: &[String], hints: &mut Hints) -> Result<bool, ApiError> {
    const FIELD: &str = "session.output_modalities";
    const EXPECTED: &str = "[\"audio\"] or [\"text\"]";
    let known = |form: &String| matches!(form.as_str(), "audio" | "text");
    match forms {
        [form] if known(form) => Ok(form == "audio"),
        [] => hints.ignore(FIELD, "[]", EXPECTED).map(|()| true),
        forms if forms.iter().all(known) => {
            hints.ignore(FIELD, &forms.join(", "), EXPECTED)?;
            Ok(forms.iter().any(|form| form == "audio"))
        }
        forms => {
            let other = forms.iter().find(|form| !known(form)).map(|form| excerpt(form));
            let problem = format!(
                "unsupported {FIELD} '{}'; expected {EXPECTED}",
                other.unwrap_or_default()
            );
            Err(ApiError::invalid(Some(FIELD), problem))
        }
    }
}
