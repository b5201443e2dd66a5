//! Requests to a stage for one sequence, in plain data. They cross to the stage's process as they are.

use std::sync::{Arc, OnceLock};

use omni_engine::{CacheSalt, CodecFrame};
pub use omni_engine::{VoicePrompt, VoiceReference};

use crate::item::ItemKind;

/// Request to a stage.
#[derive(Debug, Clone, PartialEq)]
pub enum StageRequest {
    /// Text to what the first stage of speech gives. The text comes by an edge, or is a part of the request.
    Speech(SpeechRequest),
    /// A conversation to text.
    Text(TextRequest),
    /// Frames, which come by an edge, to samples or to other frames.
    Decode(DecodeRequest),
    /// A recording, mono samples in `[-1, 1]`, to its embedding.
    Encode(Arc<[f32]>),
}

impl StageRequest {
    /// Kind of the items that the stage reads from an edge while it works, if any.
    pub fn input(&self) -> Option<ItemKind> {
        match self {
            Self::Speech(speech) => speech.payloads.reads,
            Self::Decode(decode) => decode.payloads.reads,
            Self::Text(_) | Self::Encode(_) => None,
        }
    }

    /// Kind of the stage's outputs.
    pub fn output(&self) -> ItemKind {
        match self {
            Self::Speech(speech) => speech.payloads.gives,
            Self::Text(_) => ItemKind::Reply,
            Self::Decode(decode) => decode.payloads.gives,
            Self::Encode(_) => ItemKind::Embedding,
        }
    }

    /// Most outputs, where that is bounded.
    pub fn max_outputs(&self) -> Option<u32> {
        match self {
            Self::Speech(speech) => Some(speech.head.max_outputs),
            Self::Text(text) => Some(text.max_outputs),
            Self::Decode(_) => None,
            Self::Encode(_) => Some(1),
        }
    }

    /// Returns true if the orchestrator needs the news that the stage is done before its last output is taken.
    pub fn reports_done(&self) -> bool {
        matches!(self, Self::Speech(_))
    }
}

/// Sampling parameters; `None` for the model's own default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// Nucleus, in (0, 1].
    pub top_p: Option<f32>,
    /// 0 keeps all.
    pub top_k: Option<u32>,
    /// Positive, 1 changes nothing.
    pub repetition_penalty: Option<f32>,
    /// For text only: tokens less likely than this share of the likeliest are dropped, in [0, 1].
    pub min_p: Option<f32>,
    /// For text only: subtracted from the logits of generated tokens, in [-2, 2].
    pub presence_penalty: Option<f32>,
    /// For text only: subtracted from the logits of generated tokens once per occurrence, in [-2, 2].
    pub frequency_penalty: Option<f32>,
}

impl Sampling {
    /// Fills in unset values from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            top_k: self.top_k.or(other.top_k),
            repetition_penalty: self.repetition_penalty.or(other.repetition_penalty),
            min_p: self.min_p.or(other.min_p),
            presence_penalty: self.presence_penalty.or(other.presence_penalty),
            frequency_penalty: self.frequency_penalty.or(other.frequency_penalty),
        }
    }
}

/// Kinds of the items that pass a stage of speech, as its graph declares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payloads {
    /// Items that it reads from an edge while it works; `None` for a stage whose request has everything.
    pub reads: Option<ItemKind>,
    /// Items that it gives.
    pub gives: ItemKind,
}

impl Payloads {
    /// Items of one kind in, items of another kind out.
    #[must_use]
    pub fn new(reads: ItemKind, gives: ItemKind) -> Self {
        let reads = Some(reads);
        Self { reads, gives }
    }
}

/// The part of a request for speech that concerns every stage of its path.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechHead {
    /// One of the model's voices, or the name of what `voice_prompt` is.
    pub voice: String,
    /// The voice, if it is that of a recording.
    pub voice_prompt: Option<Arc<VoicePrompt>>,
    /// BCP-47 tag, or none.
    pub language: Option<String>,
    /// Style instructions in words, for a model that follows them.
    pub instructions: Option<Arc<str>>,
    /// Speed of the speech, for a model that speaks slower and faster by itself; 1 for its own. Positive.
    pub speed: f32,
    /// Sampling of the outputs.
    pub sampling: Sampling,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Most frames of the first stage, including those that another replica made before.
    pub max_outputs: u32,
}

impl Default for SpeechHead {
    fn default() -> Self {
        Self {
            voice: String::new(),
            voice_prompt: None,
            language: None,
            instructions: None,
            speed: 1.0,
            sampling: Sampling::default(),
            seed: 0,
            max_outputs: u32::MAX,
        }
    }
}

/// Text to what the first stage of speech gives.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechRequest {
    /// The part that every stage has.
    pub head: SpeechHead,
    /// Items that pass the stage; set by the pipeline.
    pub payloads: Payloads,
    /// Encoded recording of the voice, where the graph has an encoder for this stage.
    pub embedding: Option<Arc<[f32]>>,
    /// Turns of the user that it answers, without an awaited row among them; `None` for text that is no answer.
    pub context: Option<Arc<[ContextRow]>>,
    /// `true` if a model writes the text, `false` if a caller does, who may take any time.
    pub generated: bool,
    /// Frames that another replica made before: generation continues behind them.
    pub prior_frames: Arc<[CodecFrame]>,
    /// All of its text, if the prompt contains the whole text; then none comes by the edge. Always there for a stage
    /// that reads no items.
    pub whole_text: Option<Arc<[u32]>>,
}

impl Default for SpeechRequest {
    fn default() -> Self {
        Self {
            head: SpeechHead::default(),
            payloads: Payloads::new(ItemKind::Text, ItemKind::Frames),
            embedding: None,
            context: None,
            generated: false,
            prior_frames: Arc::default(),
            whole_text: None,
        }
    }
}

/// A conversation to text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextRequest {
    /// The conversation.
    pub prompt: Vec<PromptPiece>,
    /// Sampling of the tokens.
    pub sampling: Sampling,
    /// Seed of its random numbers.
    pub seed: u64,
    /// `true` if the first token carries the hidden states of the prompt's audio.
    pub export_hidden: bool,
    /// Salt of the caller's cache entries: nothing computed for others is used for it.
    pub salt: CacheSalt,
    /// Most tokens to make.
    pub max_outputs: u32,
}

/// Frames to samples, or to other frames.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeRequest {
    /// The part that every stage has.
    pub head: SpeechHead,
    /// Items that pass the stage.
    pub payloads: Payloads,
    /// Codec frames to decode first without output; the rest continues from them.
    pub lead: Arc<[CodecFrame]>,
    /// `true` if samples come with the codec frames that they were decoded from.
    pub with_codes: bool,
}

impl Default for DecodeRequest {
    fn default() -> Self {
        Self {
            head: SpeechHead::default(),
            payloads: Payloads::new(ItemKind::Frames, ItemKind::Audio),
            lead: Arc::default(),
            with_codes: false,
        }
    }
}

impl SpeechRequest {
    /// Text tokens that the prompt takes besides the first one: in context the text follows the transcript, beside
    /// the recording's frames.
    pub fn prompt_rows(&self) -> u32 {
        let prompt = self.head.voice_prompt.as_deref();
        let reference = prompt.and_then(|prompt| prompt.reference.as_ref());
        let rows = reference.map_or(0, |reference| {
            reference.frames.len().saturating_sub(reference.text.len())
        });
        u32::try_from(rows).unwrap_or(u32::MAX)
    }
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptPiece {
    /// Text tokens.
    Tokens(Vec<u32>),
    /// Rows of an encoder, one position each, row after row.
    Audio {
        /// Number of rows.
        rows: u32,
        /// Their numbers.
        values: Arc<[f32]>,
    },
}

/// One row of the user's turns for the stage that speaks the answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ContextRow {
    /// A text token.
    Token(u32),
    /// Hidden state of audio in the stage that answers, once it has computed it.
    Hidden(Arc<[f32]>),
    /// Index among the audio positions of the prompt, for a hidden state that is not computed yet.
    Awaited(u32),
}

/// Mono samples in `[-1, 1]` at the rate of their encoder. Clones share the recording and its embedding: it is
/// encoded once for all requests.
#[derive(Clone, derive_more::Debug)]
// Never prints the sound itself.
#[debug("Clip {{ samples: {:?}, .. }}", self.0.samples.len())]
pub struct Clip(Arc<Encoded>);

struct Encoded {
    samples: Arc<[f32]>,
    embedding: OnceLock<Arc<[f32]>>,
}

impl Clip {
    /// Creates a recording.
    pub fn new(samples: Vec<f32>) -> Self {
        Self(Arc::new(Encoded {
            samples: samples.into(),
            embedding: OnceLock::new(),
        }))
    }

    /// The samples.
    pub fn samples(&self) -> &[f32] {
        &self.0.samples
    }

    /// Request to an encoder.
    pub(crate) fn request(&self) -> StageRequest {
        StageRequest::Encode(Arc::clone(&self.0.samples))
    }

    /// Its embedding, once it was encoded.
    pub fn embedding(&self) -> Option<&Arc<[f32]>> {
        self.0.embedding.get()
    }

    /// Sets the embedding. Later calls have no effect.
    pub fn keep(&self, embedding: Arc<[f32]>) {
        self.0.embedding.get_or_init(|| embedding);
    }
}

impl PartialEq for Clip {
    fn eq(&self, other: &Self) -> bool {
        self.0.samples == other.0.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(frames: u32) -> VoicePrompt {
        let frame = |code| CodecFrame(Box::new([code]));
        VoicePrompt {
            x_vector: vec![0.0],
            reference: Some(VoiceReference {
                frames: (0..frames).map(frame).collect(),
                text: vec![1],
            }),
        }
    }

    fn rows(voice_prompt: Option<VoicePrompt>) -> u32 {
        let voice_prompt = voice_prompt.map(Arc::new);
        let request = SpeechRequest {
            head: SpeechHead {
                voice_prompt,
                ..SpeechHead::default()
            },
            ..SpeechRequest::default()
        };
        request.prompt_rows()
    }

    #[test]
    fn all_of_a_recording_leads_and_a_vector_alone_has_none() {
        let lead = prompt(100).lead();
        assert_eq!((lead.len(), lead[0].0[0], lead[99].0[0]), (100, 0, 99));
        let vector = VoicePrompt {
            reference: None,
            ..prompt(1)
        };
        assert!(vector.lead().is_empty());
        assert_eq!(rows(Some(prompt(5))), 4, "beside one token of the transcript");
        assert_eq!((rows(Some(vector)), rows(None)), (0, 0));
    }

    #[test]
    fn the_first_embedding_of_a_recording_stays_with_it_and_its_copies() {
        let recording = Clip::new(vec![0.0; 4]);
        let copy = recording.clone();
        assert!(copy.embedding().is_none());
        recording.keep(Arc::from([1.0]));
        copy.keep(Arc::from([2.0]));
        assert_eq!(recording.embedding().map(|rows| &rows[..]), Some(&[1.0][..]));
        assert_eq!(copy.embedding().map(|rows| &rows[..]), Some(&[1.0][..]));
    }
}
