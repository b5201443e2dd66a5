//! A scripted model.
//!
//! Its alphabet is any character; one character gives one codec frame, whose audio is a tone that depends on the
//! character and the seed. `_` is silence, and `~` has no samples at all. Scripted characters make it panic or fail.
//! Results never depend on the batch.

mod apart;
mod code2wav;
mod encoder;
mod preparation;
mod stages;
mod talker;
mod thinker;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use omni_audio::{SampleRate, SamplesPerFrame};
use omni_engine::CodecFrame;
use omni_family::{
    ChatInfo, ChatMessage, Converse, Detokenizer, EncodeVoice, Family, Hearing, Prompt, PromptError, Speak,
    SpeechInfo, VoiceInfo, VoiceShape, VoiceSupport, Voicing,
};
use omni_pipeline::request::{ContextRow, Sampling};
use omni_pipeline::stage::BackendError;
use parking_lot::Mutex;

use crate::gate::{Fuse, Gate};
pub use apart::Apart;
pub use preparation::{Preparation, Prepared};
pub use stages::{code2wav_stage, decode_job, speech_job, speech_request, talker_stage};

/// Samples per second.
pub const FAKE_RATE: u32 = 16_000;
/// Samples of one codec frame: 40 ms.
pub const FAKE_SAMPLES_PER_FRAME: u32 = 640;

/// Longest sequence: hours.
const MAX_LEN: u32 = 1 << 24;

/// Behaviour of the model besides speaking.
#[derive(Debug, Clone, Default)]
pub struct FakeScript {
    /// Every talker step passes here.
    pub talker: Gate,
    /// Every code2wav step passes here.
    pub code2wav: Gate,
    /// Preparation of talker and vocoder before their first use.
    pub preparation: Preparation,
    /// Set if the talker answers asynchronously.
    pub apart: Apart,
    /// Every answer of a talker that does passes here.
    pub answers: Gate,
    /// Building a stage's model passes here.
    pub load: Gate,
    /// Gates the model's description, which the server requests when it starts the stages.
    pub info: Gate,
    /// The talker ends its speech when it should speak this, and passes the gate.
    pub talker_ends_on: Option<char>,
    /// See `talker_ends_on`.
    pub ends: Gate,
    /// The talker panics in the step that finds this burning.
    pub talker_dies: Fuse,
    /// The talker's device is lost in the step that finds this burning.
    pub talker_device_dies: Fuse,
    /// The talker panics when it speaks this.
    pub talker_panics_on: Option<char>,
    /// The talker passes `hangs` when it speaks this.
    pub talker_hangs_on: Option<char>,
    /// The vocoder passes `hangs` when it decodes this.
    pub code2wav_hangs_on: Option<char>,
    /// The thinker passes `hangs` when it should write this.
    pub thinker_hangs_on: Option<char>,
    /// See there.
    pub hangs: Gate,
    /// The talkers that were not dropped.
    pub talkers: Living,
    /// The talker fails the sequence that contains this.
    pub talker_fails_on: Option<char>,
    /// The vocoder panics when it decodes this.
    pub code2wav_panics_on: Option<char>,
    /// The vocoder fails the stream that contains this.
    pub code2wav_fails_on: Option<char>,
    /// The tokenizer panics when it reads this.
    pub tokenizer_panics_on: Option<char>,
    /// The tokenizer refuses this.
    pub tokenizer_refuses: Option<char>,
    /// It holds no conversations.
    pub speech_only: bool,
    /// Every thinker step passes here.
    pub thinker: Gate,
    /// The thinker panics when it should write this.
    pub thinker_panics_on: Option<char>,
    /// The thinker fails the answer that contains this.
    pub thinker_fails_on: Option<char>,
    /// Every rendering of the chat template passes here.
    pub template: Gate,
    /// The chat template refuses a conversation with this.
    pub template_refuses: Option<char>,
    /// The model fails over a conversation with this before it is a prompt.
    pub prompt_fails_on: Option<char>,
    /// The token of `&` is written as `yes and no`.
    pub spells_out: bool,
    /// Answers are spoken sentence by sentence instead of as one sequence of tokens.
    pub speaks_words: bool,
    /// It asks for no functions.
    pub no_tools: bool,
    /// It understands speech.
    pub hears: bool,
    /// Every encoder step passes here.
    pub ears: Gate,
    /// The encoder panics in the step that finds this burning.
    pub ears_die: Fuse,
    /// The encoder passes `hangs` in the step that finds this burning.
    pub ears_hang: Fuse,
    /// Text that the template writes at the head of every answer.
    pub opening: String,
    /// Positions of a conversation and its answer; 0 for very many.
    pub max_context: u32,
    /// Contexts of the user's turns that the talker was given, sequence by sequence.
    pub contexts: Contexts,
    /// It makes voices of recordings, which all sound like `bass`.
    pub imitates: bool,
    /// Every recording that becomes a voice passes here.
    pub voices: Gate,
    /// Positions of prompts that the thinker found computed, answer by answer.
    pub cached: Cached,
    /// Sampling of the thinker's answers, answer by answer.
    pub drawn: Drawn,
    /// Frames that the talker's requests brought, sequence by sequence.
    pub prior: Counts,
}

/// Number of live objects. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Living(Arc<AtomicUsize>);

impl Living {
    /// The number.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn one(&self) -> Life {
        self.0.fetch_add(1, Ordering::SeqCst);
        Life(self.clone())
    }
}

/// One of them.
#[derive(Debug)]
struct Life(Living);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Cached prompt positions. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Cached(Arc<Mutex<Vec<u32>>>);

impl Cached {
    /// Cached positions of every answer so far.
    pub fn all(&self) -> Vec<u32> {
        self.0.lock().clone()
    }

    fn add(&self, positions: u32) {
        self.0.lock().push(positions);
    }
}

/// Counts in order. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Counts(Arc<Mutex<Vec<usize>>>);

impl Counts {
    /// All counts so far.
    pub fn all(&self) -> Vec<usize> {
        self.0.lock().clone()
    }

    fn add(&self, count: usize) {
        self.0.lock().push(count);
    }
}

/// Sampling of an answer: the parameters, the seed, and its most tokens.
pub type Drawing = (Sampling, u64, u32);

/// Sampling of answers. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Drawn(Arc<Mutex<Vec<Drawing>>>);

impl Drawn {
    /// The last one.
    pub fn last(&self) -> Option<Drawing> {
        self.0.lock().last().copied()
    }

    fn add(&self, drawing: Drawing) {
        self.0.lock().push(drawing);
    }
}

/// Context of the user's turns that one sequence was given; `None` if none.
pub type Context = Option<Arc<[ContextRow]>>;

/// Contexts of the user's turns that the talker was given. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Contexts(Arc<Mutex<Vec<Context>>>);

impl Contexts {
    /// Contexts of all sequences so far.
    pub fn all(&self) -> Vec<Context> {
        self.0.lock().clone()
    }

    fn add(&self, context: Context) {
        self.0.lock().push(context);
    }
}

/// The model.
#[derive(Debug)]
pub struct FakeSpeech {
    info: SpeechInfo,
    script: FakeScript,
}

impl FakeSpeech {
    /// A model with this script.
    pub fn new(script: FakeScript) -> Self {
        let voice = |id: &str| VoiceInfo {
            id: id.to_owned(),
            display_name: id.to_uppercase(),
            description: "a tone".to_owned(),
        };
        let rate = SampleRate::new(FAKE_RATE).expect("a usual rate");
        let frame = SamplesPerFrame(FAKE_SAMPLES_PER_FRAME.try_into().expect("not zero"));
        let info = SpeechInfo {
            display_name: "Fake".to_owned(),
            languages: vec!["en".to_owned()],
            voices: vec![voice("alto"), voice("bass")],
            voice_support: VoiceSupport {
                shape: script.imitates.then(|| VoiceShape {
                    width: 1,
                    groups: 1,
                    codes: 1,
                    text_vocab: MAX_LEN,
                    fingerprint: "fake".to_owned(),
                }),
                ..VoiceSupport::default()
            },
            max_frames: MAX_LEN,
            max_context: MAX_LEN,
            default_sampling: Sampling {
                temperature: Some(0.5),
                ..Sampling::default()
            },
            max_characters: 80,
            ..SpeechInfo::new("fake", rate, frame)
        };
        Self { info, script }
    }
}

impl Speak for FakeSpeech {
    fn info(&self) -> &SpeechInfo {
        self.script.info.pass();
        &self.info
    }

    fn voice_encoder(&self) -> Result<Arc<dyn EncodeVoice>, BackendError> {
        Ok(Arc::new(Imitator(self.script.voices.clone())))
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, BackendError> {
        let panics = self
            .script
            .tokenizer_panics_on
            .is_some_and(|bad| text.contains(bad));
        assert!(!panics, "the script says so");
        match self.script.tokenizer_refuses {
            Some(bad) if text.contains(bad) => Err(BackendError::Failed(format!("{bad:?} is refused"))),
            _ => Ok(text.chars().map(u32::from).collect()),
        }
    }
}

/// Voice encoder with the same voice for every recording.
struct Imitator(Gate);

impl EncodeVoice for Imitator {
    fn sample_rate(&self) -> SampleRate {
        SampleRate::new(FAKE_RATE).expect("a usual rate")
    }

    fn x_vector(&self, _: &[f32]) -> Result<Vec<f32>, BackendError> {
        self.0.pass();
        Ok(vec![1.0])
    }

    fn frames(&self, _: &[f32]) -> Result<Vec<CodecFrame>, BackendError> {
        Ok(vec![CodecFrame(Box::new([0]))])
    }
}

impl From<FakeSpeech> for Family {
    fn from(model: FakeSpeech) -> Self {
        let model = Arc::new(model);
        let chat = Arc::clone(&model) as Arc<dyn Converse>;
        Self {
            chat: if model.script.speech_only {
                Err("the script says so".to_owned())
            } else {
                Ok(chat)
            },
            ..Self::voice(model)
        }
    }
}

impl Converse for FakeSpeech {
    fn chat(&self) -> ChatInfo {
        ChatInfo {
            max_context: match self.script.max_context {
                0 => MAX_LEN,
                max => max,
            },
            default_max_tokens: 4_096,
            default_sampling: Sampling {
                temperature: Some(0.7),
                ..Sampling::default()
            },
            hearing: self.script.hears.then(|| Hearing {
                sample_rate: self.info.sample_rate,
                // Ten samples.
                min_audio: Duration::from_micros(625),
                max_audio: Duration::from_secs(2),
                rows_per_second: FAKE_RATE / thinker::ROW as u32,
                row_bytes: 4,
            }),
            voicing: if self.script.speaks_words {
                Voicing::Words
            } else {
                Voicing::Tokens
            },
            speech_context: !self.script.speaks_words,
            tools: !self.script.no_tools,
        }
    }

    fn prompt(&self, messages: &[ChatMessage]) -> Result<Prompt, PromptError> {
        thinker::prompt(messages, &self.script)
    }

    fn detokenizer(&self) -> Box<dyn Detokenizer> {
        Box::new(thinker::Utf8::new(self.script.spells_out))
    }
}
