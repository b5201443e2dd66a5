//! Settings of speech, with the server's defaults where nothing is chosen.

use std::time::Duration;

use omni_audio::SampleRate;
use omni_proto::v1;

use crate::audio::delivery;
use crate::sampling::Sampling;

/// Unit of text that the server buffers before it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buffering {
    /// Whole sentences: the best intonation.
    #[default]
    Sentence,
    /// Clauses.
    Clause,
    /// Whole words as soon as they are complete: the earliest sound.
    Eager,
    /// Nothing until a flush or the end of the utterance.
    Manual,
}

/// Settings of a speech session. Empty and absent fields leave the choice to the server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpeechSettings {
    /// A model from [`crate::Client::models`].
    pub model: String,
    /// A voice from [`crate::Client::voices`].
    pub voice: String,
    /// BCP-47 tag of the text's language.
    pub language: String,
    /// Style instructions in words, for models that follow them. Others warn that they do not.
    pub instructions: String,
    /// Sample rate of the audio; absent: the model's own, which needs no conversion.
    pub sample_rate: Option<SampleRate>,
    /// Speaking rate at the same pitch, 0.25 to 4; absent: the model's own.
    pub speed: Option<f32>,
    /// Gain, -96 to 16 dB; absent: none.
    pub gain_db: Option<f32>,
    /// The same seed gives the same audio.
    pub seed: Option<u64>,
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// Keep the smallest set of outputs with this probability.
    pub top_p: Option<f32>,
    /// Keep this many most likely outputs.
    pub top_k: Option<i32>,
    /// Above 1 discourages repetition.
    pub repetition_penalty: Option<f32>,
    /// Most codec frames per utterance.
    pub max_frames: Option<u32>,
    /// Unit of text that is buffered before it is spoken.
    pub buffering: Buffering,
    /// Largest lead over playback, 100 ms to 1 h; absent: no limit.
    pub max_lead: Option<Duration>,
    /// Playing time of every piece of audio but the last, 2.5 ms to 5 s; absent: as produced.
    pub frame_duration: Option<Duration>,
    /// Report when each word is heard ([`crate::SpeechEvent::Alignment`]).
    pub alignment: bool,
}

impl SpeechSettings {
    pub(crate) fn to_proto(&self) -> v1::SpeechConfig {
        v1::SpeechConfig {
            model: self.model.clone(),
            voice: self.voice.clone(),
            language: self.language.clone(),
            style_instructions: self.instructions.clone(),
            output: Some(delivery(self.sample_rate, self.frame_duration, self.max_lead)),
            speed: self.speed.map(f64::from),
            volume_gain_db: self.gain_db.map(f64::from),
            sampling: self.sampling().to_proto(),
            buffering: self.buffering().into(),
            alignment: self.alignment,
            ..v1::SpeechConfig::default()
        }
    }

    fn sampling(&self) -> Sampling {
        Sampling {
            seed: self.seed,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            repetition_penalty: self.repetition_penalty,
            max_tokens: self.max_frames,
        }
    }

    fn buffering(&self) -> v1::TextBuffering {
        match self.buffering {
            Buffering::Sentence => v1::TextBuffering::Sentence,
            Buffering::Clause => v1::TextBuffering::Clause,
            Buffering::Eager => v1::TextBuffering::Eager,
            Buffering::Manual => v1::TextBuffering::Manual,
        }
    }
}
