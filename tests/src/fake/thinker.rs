//! Conversation part of the scripted model.
//!
//! A token of a prompt is a character, a token of an answer a byte of its text. What it answers follows from what the
//! user said last:
//!
//! * `say ...`: the rest of it;
//! * `recite`: the whole conversation as it read it, `system:...|user:...|assistant:...|`;
//! * `forever`: more than any test reads;
//! * nothing at all: nothing;
//! * anything else: `You said: ...`.
//!
//! Functions are read as `<tool ...>`, `<call ...>` and `<result ...>`. Audio is heard as its length: `say` of a
//! hundred samples is read as `[100 samples]`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use omni_engine::{
    AsyncExecutor, ContentKey, KvCache, KvSpec, ModelError, Sampled, SeqId, SeqStep, Sequences, StepExecutor,
    Warmup,
};
use omni_family::{ChatMessage, Detokenizer, Part, Prompt, PromptError, Role, ToolPart};
use omni_pipeline::item::ReplyToken;
use omni_pipeline::request::{ContextRow, PromptPiece, TextRequest};

use super::FakeScript;

/// Above all characters: the roles.
const SPEAKER: u32 = 0x0011_0000;
/// The answer to `forever`.
const FOREVER: &str = "This goes on and on, and on. ";
/// Samples per row of audio.
pub(super) const ROW: usize = 1_600;

fn name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// The prompt of a conversation.
pub(super) fn prompt(messages: &[ChatMessage], script: &FakeScript) -> Result<Prompt, PromptError> {
    script.template.pass();
    let mut prompt = Prompt {
        opening: script.opening.bytes().map(u32::from).collect(),
        ..Prompt::default()
    };
    let mut tokens = Vec::new();
    let mut heard = 0;
    for message in messages {
        let mut turn = vec![ContextRow::Token(SPEAKER + message.role as u32)];
        tokens.push(SPEAKER + message.role as u32);
        for part in &message.parts {
            match part {
                Part::Text(text) => {
                    if script.template_refuses.is_some_and(|bad| text.contains(bad)) {
                        return Err(PromptError::Refused("the template refuses it".to_owned()));
                    }
                    if script.prompt_fails_on.is_some_and(|bad| text.contains(bad)) {
                        return Err(PromptError::Failed("the script says so".to_owned()));
                    }
                    tokens.extend(text.chars().map(u32::from));
                    turn.extend(text.chars().map(|c| ContextRow::Token(c.into())));
                }
                Part::Tool(part) => {
                    let text = match part {
                        ToolPart::Offer(json) => format!("<tool {json}>"),
                        ToolPart::Call { name, arguments } => format!("<call {name} {arguments}>"),
                        ToolPart::Result(text) => format!("<result {text}>"),
                    };
                    tokens.extend(text.chars().map(u32::from));
                    turn.extend(text.chars().map(|c| ContextRow::Token(c.into())));
                }
                Part::Audio(clip) => {
                    prompt
                        .pieces
                        .push(PromptPiece::Tokens(std::mem::take(&mut tokens)));
                    let values = clip.embedding().cloned().expect("it was heard before");
                    let rows = u32::try_from(values.len()).expect("a short recording");
                    prompt.pieces.push(PromptPiece::Audio { rows, values });
                    turn.extend((heard..heard + rows).map(ContextRow::Awaited));
                    heard += rows;
                }
            }
        }
        if message.role == Role::User {
            prompt.context.push(turn);
        }
    }
    prompt.pieces.push(PromptPiece::Tokens(tokens));
    Ok(prompt)
}

/// Roles and words of a prompt.
fn read(prompt: &[PromptPiece]) -> Vec<(&'static str, String)> {
    let mut said: Vec<(&'static str, String)> = Vec::new();
    for piece in prompt {
        match piece {
            PromptPiece::Tokens(tokens) => {
                for &token in tokens {
                    match (char::from_u32(token), said.last_mut()) {
                        (Some(c), Some((_, text))) => text.push(c),
                        _ => {
                            let roles = [Role::System, Role::User, Role::Assistant];
                            said.push((name(roles[(token - SPEAKER) as usize]), String::new()));
                        }
                    }
                }
            }
            PromptPiece::Audio { values, .. } => {
                let (_, text) = said.last_mut().expect("somebody speaks");
                text.push_str(&format!("[{} samples]", values[0]));
            }
        }
    }
    said
}

/// Content keys of every position of a prompt.
fn keys(prompt: &[PromptPiece]) -> Vec<ContentKey> {
    let mut keys = Vec::new();
    for piece in prompt {
        match piece {
            PromptPiece::Tokens(tokens) => keys.extend(tokens.iter().copied().map(ContentKey::token)),
            PromptPiece::Audio { rows, values } => {
                let clip = ContentKey::row(values);
                keys.extend((0..*rows).map(|row| clip.nth(row)));
            }
        }
    }
    if keys.is_empty() {
        keys.push(ContentKey::token(SPEAKER));
    }
    keys
}

fn answer(prompt: &[PromptPiece]) -> String {
    let said = read(prompt);
    let last = said.iter().rfind(|(role, _)| *role == "user");
    let Some((_, text)) = last else {
        return "Hello.".to_owned();
    };
    match text.as_str() {
        "" | "say" | "say " => String::new(),
        "recite" => said
            .iter()
            .map(|(role, text)| format!("{role}:{text}|"))
            .collect(),
        text => match text.strip_prefix("say ") {
            Some(rest) => rest.to_owned(),
            None => format!("You said: {text}"),
        },
    }
}

#[derive(Debug)]
struct Answering {
    /// Content keys of the prompt.
    keys: Vec<ContentKey>,
    /// It was computed of.
    begun: bool,
    text: Vec<u8>,
    forever: bool,
    said: usize,
    heard: Vec<Arc<[f32]>>,
}

/// The thinker of [`FakeSpeech`](super::FakeSpeech).
#[derive(Debug)]
pub(super) struct FakeThinker {
    script: FakeScript,
    answering: HashMap<SeqId, Answering>,
}

impl FakeThinker {
    pub(super) fn new(script: FakeScript) -> Self {
        Self {
            script,
            answering: HashMap::new(),
        }
    }

    fn write(&mut self, seq: SeqId) -> Sampled<ReplyToken> {
        let answering = self.answering.get_mut(&seq).expect("sampled a known sequence");
        let at = if answering.forever {
            answering.said % answering.text.len()
        } else {
            answering.said
        };
        let Some(&byte) = answering.text.get(at) else {
            return Sampled::End;
        };
        let written = Some(char::from(byte));
        assert!(written != self.script.thinker_panics_on, "the script says so");
        if written == self.script.thinker_hangs_on {
            self.script.hangs.pass();
        }
        if written == self.script.thinker_fails_on {
            return Sampled::Failed("the script says so".to_owned());
        }
        answering.said += 1;
        Sampled::Item(ReplyToken {
            id: byte.into(),
            hidden: std::mem::take(&mut answering.heard),
        })
    }
}

impl Sequences for FakeThinker {
    type Request = TextRequest;
    type Row = ();

    fn open(&mut self, seq: SeqId, request: TextRequest) -> Result<u32, ModelError> {
        let drawing = (request.sampling, request.seed, request.max_outputs);
        self.script.drawn.add(drawing);
        let prompt = Prompt {
            pieces: request.prompt,
            ..Prompt::default()
        };
        let answer = answer(&prompt.pieces);
        let forever = answer == "You said: forever";
        let answering = Answering {
            keys: keys(&prompt.pieces),
            begun: false,
            text: if forever {
                FOREVER.into()
            } else {
                answer.into_bytes()
            },
            forever,
            said: 0,
            heard: if request.export_hidden {
                vec![Arc::from([0.5]); prompt.audio_rows()]
            } else {
                Vec::new()
            },
        };
        self.answering.insert(seq, answering);
        Ok(u32::try_from(prompt.positions())
            .expect("a short conversation")
            .max(1))
    }

    fn push(&mut self, _seq: SeqId, _rows: Vec<()>, _last: bool) {}

    fn close(&mut self, seq: SeqId) {
        self.answering.remove(&seq);
    }
}

impl StepExecutor for FakeThinker {
    type Output = ReplyToken;

    fn execute(&mut self, batch: &[SeqStep<'_>]) -> Result<(), ModelError> {
        self.script.thinker.pass();
        assert!(!batch.is_empty(), "a step computes something");
        for step in batch {
            let answering = self
                .answering
                .get_mut(&step.seq)
                .expect("computes a known sequence");
            if !std::mem::replace(&mut answering.begun, true) {
                self.script.cached.add(step.start);
            }
        }
        Ok(())
    }

    fn token(&self, output: &ReplyToken) -> Option<u32> {
        Some(output.id)
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<ReplyToken>>, ModelError> {
        Ok(seqs.iter().map(|seq| self.write(*seq)).collect())
    }
}

impl AsyncExecutor for FakeThinker {}

impl KvCache for FakeThinker {
    fn kv_spec(&self) -> KvSpec {
        KvSpec {
            block_size: 1_024,
            num_blocks: 1 << 16,
            max_len: super::MAX_LEN,
        }
    }

    fn content_keys(&self, seq: SeqId, positions: Range<u32>) -> Option<Vec<ContentKey>> {
        let answering = self.answering.get(&seq)?;
        let key = |position: u32| {
            let position = position as usize;
            answering.keys.get(position).copied().unwrap_or_else(|| {
                let said = (position - answering.keys.len()) % answering.text.len();
                ContentKey::token(answering.text[said].into())
            })
        };
        Some(positions.map(key).collect())
    }
}

impl Warmup for FakeThinker {}

/// Bytes to characters.
#[derive(Debug)]
pub(super) struct Utf8 {
    bytes: Vec<u8>,
    spells_out: bool,
}

impl Utf8 {
    pub(super) fn new(spells_out: bool) -> Self {
        Self {
            bytes: Vec::new(),
            spells_out,
        }
    }
}

impl Detokenizer for Utf8 {
    fn push(&mut self, token: u32) -> String {
        if self.spells_out && token == u32::from(b'&') {
            return "yes and no".to_owned();
        }
        self.bytes.push(u8::try_from(token).expect("a byte"));
        match std::str::from_utf8(&self.bytes) {
            Ok(_) => self.finish(),
            Err(_) => String::new(),
        }
    }

    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.bytes)).into_owned()
    }
}
