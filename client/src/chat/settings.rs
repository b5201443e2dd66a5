//! Settings of conversations, with the server's defaults where nothing is chosen.

use std::time::Duration;

use omni_audio::SampleRate;
use omni_proto::v1;

use super::message::Message;
use crate::audio::delivery;
use crate::sampling::Sampling;

/// Forms of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outputs {
    /// Written and spoken.
    #[default]
    TextAndAudio,
    /// Written.
    Text,
    /// Spoken; the words are known when the response is done.
    Audio,
}

/// Format of the audio for [`crate::ChatSender::audio`]: 16-bit little-endian samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputAudio {
    /// Samples per second and channel.
    pub rate: SampleRate,
    /// One, or two interleaved.
    pub channels: u32,
}

/// Settings of a conversation. Empty and absent fields leave the choice to the server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatSettings {
    /// A model from [`crate::Client::models`] that can chat.
    pub model: String,
    /// Instructions for the model.
    pub instructions: String,
    /// Forms of the answers.
    pub outputs: Outputs,
    /// A voice from [`crate::Client::voices`].
    pub voice: String,
    /// BCP-47 tag of the language of spoken answers.
    pub language: String,
    /// Format of the caller's speech; absent: one channel at 16 kHz.
    pub input: Option<InputAudio>,
    /// Sample rate of spoken answers; absent: the model's own, which needs no conversion.
    pub sample_rate: Option<SampleRate>,
    /// Speaking rate at the same pitch, 0.25 to 4; absent: the model's own.
    pub speed: Option<f32>,
    /// Gain, -96 to 16 dB; absent: none.
    pub gain_db: Option<f32>,
    /// Largest lead over playback; absent: no limit.
    pub max_lead: Option<Duration>,
    /// Sampling of the words.
    pub text_sampling: Sampling,
    /// Sampling of the speech.
    pub speech_sampling: Sampling,
    /// Answers end before the first of these.
    pub stop: Vec<String>,
    /// The conversation so far, for [`crate::Client::converse`].
    pub history: Vec<Message>,
}

impl ChatSettings {
    /// Everything, the conversation so far included.
    pub(crate) fn to_proto(&self) -> v1::ChatConfig {
        v1::ChatConfig {
            history: self.history.iter().map(Message::to_proto).collect(),
            ..self.without_history()
        }
    }

    /// Everything but the conversation so far.
    pub(crate) fn without_history(&self) -> v1::ChatConfig {
        v1::ChatConfig {
            model: self.model.clone(),
            instructions: self.instructions.clone(),
            output_modalities: self.outputs.to_proto(),
            voice: self.voice.clone(),
            language: self.language.clone(),
            input_audio: self.input.map(InputAudio::to_proto),
            output_audio: Some(delivery(self.sample_rate, None, self.max_lead)),
            speed: self.speed.map(f64::from),
            volume_gain_db: self.gain_db.map(f64::from),
            text_sampling: self.text_sampling.to_proto(),
            speech_sampling: self.speech_sampling.to_proto(),
            history: Vec::new(),
            stop: self.stop.clone(),
        }
    }
}

impl Outputs {
    pub(crate) fn to_proto(self) -> Vec<i32> {
        let text = v1::Modality::Text.into();
        let audio = v1::Modality::Audio.into();
        match self {
            Self::TextAndAudio => vec![text, audio],
            Self::Text => vec![text],
            Self::Audio => vec![audio],
        }
    }

    /// Converts the forms; `None` if there are none.
    pub(crate) fn from_proto(modalities: &[i32]) -> Option<Self> {
        let has = |modality: v1::Modality| modalities.contains(&i32::from(modality));
        match (has(v1::Modality::Text), has(v1::Modality::Audio)) {
            (true, true) => Some(Self::TextAndAudio),
            (true, false) => Some(Self::Text),
            (false, true) => Some(Self::Audio),
            (false, false) => None,
        }
    }

    /// True if answers have audio.
    pub fn audio(self) -> bool {
        self != Self::Text
    }
}

impl InputAudio {
    fn to_proto(self) -> v1::AudioFormat {
        v1::AudioFormat {
            encoding: v1::AudioEncoding::PcmS16le.into(),
            sample_rate_hz: self.rate.hz(),
            channels: self.channels,
        }
    }
}
