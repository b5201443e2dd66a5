//! `omni.json`: properties of a checkpoint beyond those that the reference implementation reads.

use serde::Deserialize;

/// The file's content. Every field may be absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Card {
    /// Id of the model.
    pub(super) name: Option<String>,
    /// For people.
    pub(super) description: Option<String>,
    /// BCP-47 tags of the languages that it speaks.
    pub(super) languages: Vec<String>,
    /// Language whose numbers, dates and so on must be written as words for it.
    pub(super) text_normalization: Option<String>,
    /// All characters that it can speak; needed with `text_normalization`.
    pub(super) speakable_characters: Option<String>,
    /// Rate of its audio; must be that of the model.
    pub(super) sample_rate: Option<u32>,
    /// Frames of silence that it was trained to begin with. Silence is measured and trimmed; this only tells how much
    /// decoded audio gives a listener no lead.
    pub(super) leading_silence_frames: Option<u32>,
    /// Most characters to speak in one piece.
    pub(super) max_characters: Option<usize>,
    /// Chat properties; absent for a model that holds no conversations.
    pub(super) chat: Option<CardChat>,
    /// Bounds of its speech, for a model that finds no end by itself.
    pub(super) ends_after: Ends,
    /// Its voices, the default first.
    pub(super) voices: Vec<CardVoice>,
    /// SPDX identifier.
    pub(super) license: Option<String>,
}

/// Limits of its outputs; none: as long as the model goes on.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Ends {
    /// Codec frames of a sequence of speech.
    pub(super) frames: Option<u32>,
    /// Tokens of an answer.
    pub(super) tokens: Option<u32>,
}

/// Chat properties.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CardChat {
    /// Most tokens of a conversation and its answer that it was trained to see at once.
    pub(super) max_context_tokens: Option<u32>,
    /// `true` if it takes audio input.
    pub(super) hears: bool,
    /// `true` if its talker was trained on answers behind the user's turns.
    pub(super) talker_context: bool,
    /// Limit at which an answer that repeats itself is ended; none: never.
    pub(super) repetition: Option<CardRepetition>,
}

/// Repetition limit: an answer that ends in one pattern, `count` times in a row, is ended.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CardRepetition {
    /// Shortest such pattern in tokens.
    pub(super) min_pattern: u32,
    /// Longest such pattern in tokens.
    pub(super) max_pattern: u32,
    /// Consecutive occurrences of the pattern.
    pub(super) count: u32,
}

/// One voice.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CardVoice {
    /// As in the talker's `speaker_id`.
    pub(super) id: String,
    /// For people.
    pub(super) display_name: String,
    /// Description of the sound.
    pub(super) description: String,
}
