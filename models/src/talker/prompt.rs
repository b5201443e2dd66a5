//! Prompt of one reply, as rows in front of the first frame.

use crate::config::{CodecTokens, TalkerConfig, TextTokens};

use super::{TalkerRequest, UserRow, Voice};

/// Text track of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RowText {
    Token(u32),
    Hidden(Vec<f32>),
    /// n-th token of the spoken text, which may not have arrived yet.
    Spoken(usize),
}

/// Codec track of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RowCodec {
    None,
    Code(u32),
    /// All codes of a frame of a recording.
    Frame(Vec<u32>),
    /// A voice's vector in the place of a code's embedding, `[talker hidden]`.
    Vector(Vec<f32>),
}

/// One row of a prompt: a text track plus a codec track.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PromptRow {
    pub(crate) text: RowText,
    pub(crate) codec: RowCodec,
}

impl PromptRow {
    /// A row of text alone.
    pub(crate) fn token(id: u32) -> Self {
        Self::coded(id, RowCodec::None)
    }

    pub(crate) fn coded(id: u32, codec: RowCodec) -> Self {
        Self {
            text: RowText::Token(id),
            codec,
        }
    }

    pub(crate) fn spoken(n: usize, codec: RowCodec) -> Self {
        Self {
            text: RowText::Spoken(n),
            codec,
        }
    }
}

/// Everything in front of the first frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) rows: Vec<PromptRow>,
    /// Text in front of the spoken text, a recording's transcript; it counts as the first of the text.
    pub(crate) opening: Vec<u32>,
    /// Text token of the first frame; following frames take the following tokens. `None`: all text is in `rows`.
    pub(crate) next: Option<usize>,
}

/// The codes of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameCodes {
    /// Number of codes in a frame.
    pub(crate) groups: usize,
    /// The first is below this.
    pub(crate) first: usize,
    /// The others are below this.
    pub(crate) others: usize,
}

impl FrameCodes {
    /// Returns true if these are not the codes of a frame.
    pub(crate) fn refuses(self, codes: &[u32]) -> bool {
        let limits = std::iter::once(self.first).chain(std::iter::repeat(self.others));
        codes.len() != self.groups
            || codes
                .iter()
                .zip(limits)
                .any(|(&code, limit)| code as usize >= limit)
    }
}

/// Special ids of prompts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vocabulary {
    /// Text token of a line break.
    pub(crate) newline: u32,
    pub(crate) text: TextTokens,
    /// Text tokens there are.
    pub(crate) text_vocab: usize,
    pub(crate) codec: CodecTokens,
    pub(crate) frame: FrameCodes,
}

impl Vocabulary {
    /// The rows that open the assistant's turn, of text alone.
    pub(crate) fn assistant(&self) -> [PromptRow; 3] {
        [self.text.im_start, self.text.assistant, self.newline].map(PromptRow::token)
    }
}

/// The user turn as rows.
pub(crate) fn user_rows(user: Vec<UserRow>) -> impl Iterator<Item = PromptRow> {
    user.into_iter().map(|row| match row {
        UserRow::Token(id) => PromptRow::token(id),
        UserRow::Hidden(state) => PromptRow {
            text: RowText::Hidden(state),
            codec: RowCodec::None,
        },
    })
}

/// The code of a named voice.
pub(crate) fn speaker(name: &str, config: &TalkerConfig) -> Result<u32, String> {
    let code = config.speakers.get(&name.to_lowercase());
    code.copied().ok_or_else(|| {
        let known: Vec<&str> = config.speakers.keys().map(String::as_str).collect();
        format!("unknown voice {name:?}, expected one of: {}", known.join(", "))
    })
}

/// The prompt of Qwen3-Omni, which takes the user turn out of the request: that turn, then nine rows, the last with
/// the first token.
pub(super) fn qwen3_omni(
    request: &mut TalkerRequest,
    ids: &Vocabulary,
    config: &TalkerConfig,
) -> Result<Prompt, String> {
    let Voice::Named(name) = &request.voice else {
        return Err("Qwen3-Omni has no voices but its own, a name is expected".into());
    };
    let speaker = speaker(name, config)?;
    if let Some(language) = &request.language {
        return Err(format!("Qwen3-Omni takes no language, found {language:?}"));
    }
    if request.text.is_some() {
        return Err("Qwen3-Omni reads its text frame by frame, found all of it in the request".into());
    }
    let c = &ids.codec;
    let t = &ids.text;
    let mut rows: Vec<PromptRow> = user_rows(std::mem::take(&mut request.user)).collect();
    rows.extend(ids.assistant());
    let code = |text, code| PromptRow::coded(text, RowCodec::Code(code));
    rows.extend([
        code(t.tts_pad, c.nothink),
        code(t.tts_pad, c.think_bos),
        code(t.tts_pad, c.think_eos),
        code(t.tts_pad, speaker),
        code(t.tts_bos, c.pad),
        PromptRow::spoken(0, RowCodec::Code(c.bos)),
    ]);
    Ok(Prompt {
        rows,
        opening: Vec::new(),
        next: Some(1),
    })
}
