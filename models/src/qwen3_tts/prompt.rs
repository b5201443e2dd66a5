//! The talker's prompt: an instruction, the language, the voice, and the text or the beginning of it.

use omni_engine::{CodecFrame, VoicePrompt};

use crate::config::TalkerConfig;
use crate::talker::{
    FrameCodes, Prompt, PromptRow, RowCodec, TalkerRequest, Vocabulary, Voice, speaker, user_rows,
};

use super::{Kind, Qwen3TtsConfig};

/// The language that a speaker's dialect takes the place of.
const CHINESE: &str = "chinese";

/// The prompt of a request, which it takes the user turn and the text out of.
///
/// Its form is that of the reference implementation (qwen-tts 0.1.1): streamed, if the text comes by and by, and else
/// with all text in front of the first frame.
pub(crate) fn prompt(
    request: &mut TalkerRequest,
    ids: &Vocabulary,
    config: &TalkerConfig,
    own: &Qwen3TtsConfig,
) -> Result<Prompt, String> {
    let t = &ids.text;
    let head = head(request, ids, config, own)?;
    let mut rows: Vec<PromptRow> = user_rows(std::mem::take(&mut request.user)).collect();
    rows.extend(ids.assistant());
    let last = head.len() - 1;
    for (i, codec) in head.into_iter().enumerate() {
        rows.push(PromptRow::coded(
            if i == last { t.tts_bos } else { t.tts_pad },
            codec,
        ));
    }
    let text = request.text.take();
    let reference = match &request.voice {
        Voice::Cloned(voice) => voice.reference.as_ref().map(|_| voice.as_ref()),
        Voice::Named(_) | Voice::Described => None,
    };
    Ok(match (reference, text) {
        (Some(voice), text) => in_context(rows, voice, text, ids),
        (None, Some(text)) => whole(rows, &text, ids),
        (None, None) => streamed(rows, ids),
    })
}

/// The codec track from the language to the padding in front of the first code.
fn head(
    request: &TalkerRequest,
    ids: &Vocabulary,
    config: &TalkerConfig,
    own: &Qwen3TtsConfig,
) -> Result<Vec<RowCodec>, String> {
    let c = &ids.codec;
    let mut head = match language(request, own)? {
        None => vec![c.nothink, c.think_bos, c.think_eos],
        Some(language) => vec![own.think, c.think_bos, language, c.think_eos],
    }
    .into_iter()
    .map(RowCodec::Code)
    .collect::<Vec<_>>();
    match &request.voice {
        Voice::Named(name) => head.push(RowCodec::Code(speaker(name, config)?)),
        Voice::Cloned(voice) => {
            check(voice, ids, config)?;
            head.push(RowCodec::Vector(voice.x_vector.clone()));
        }
        Voice::Described if own.kind == Kind::VoiceDesign => {}
        Voice::Described => {
            return Err("only VoiceDesign checkpoints speak with a voice that is described in words".into());
        }
    }
    head.push(RowCodec::Code(c.pad));
    Ok(head)
}

/// The code of the language that a request names, or of the dialect that its voice speaks instead.
fn language(request: &TalkerRequest, own: &Qwen3TtsConfig) -> Result<Option<u32>, String> {
    let asked = request.language.as_ref().map(|name| name.to_lowercase());
    if let Voice::Named(name) = &request.voice
        && asked.as_deref().is_none_or(|language| language == CHINESE)
        && let Some(&dialect) = own.dialects.get(&name.to_lowercase())
    {
        return Ok(Some(dialect));
    }
    let Some(asked) = asked else {
        return Ok(None);
    };
    let code = own.languages.get(&asked).copied().ok_or_else(|| {
        let known: Vec<&str> = own.languages.keys().map(String::as_str).collect();
        format!(
            "unknown language {asked:?}, expected none or one of: {}",
            known.join(", ")
        )
    })?;
    Ok(Some(code))
}

/// Checks that a recording's voice fits the talker.
fn check(voice: &VoicePrompt, ids: &Vocabulary, config: &TalkerConfig) -> Result<(), String> {
    let found = voice.x_vector.len();
    let expected = config.stack.hidden;
    if found != expected {
        return Err(format!(
            "the voice was made for another model: its vector has {found} numbers, this one's have {expected}"
        ));
    }
    if voice.x_vector.iter().any(|v| !v.is_finite()) {
        return Err("the voice's vector has a number that is not finite".into());
    }
    let Some(reference) = &voice.reference else {
        return Ok(());
    };
    let FrameCodes {
        groups,
        first,
        others,
    } = ids.frame;
    let flaw = |frame: &CodecFrame| ids.frame.refuses(&frame.0);
    if reference.frames.is_empty() || reference.frames.iter().any(flaw) {
        return Err(format!(
            "the voice's recording must have frames of {groups} codes, the first below {first} and the others below {others}"
        ));
    }
    match reference.text.iter().find(|&&id| id as usize >= ids.text_vocab) {
        Some(id) => Err(format!(
            "token {id} of the recording's transcript does not exist, expected below {}",
            ids.text_vocab
        )),
        None => Ok(()),
    }
}

/// One token in the last row, one with every frame.
fn streamed(mut rows: Vec<PromptRow>, ids: &Vocabulary) -> Prompt {
    rows.push(PromptRow::spoken(0, RowCodec::Code(ids.codec.bos)));
    Prompt {
        rows,
        opening: Vec::new(),
        next: Some(1),
    }
}

/// All text, then the row that the first frame comes from.
fn whole(mut rows: Vec<PromptRow>, text: &[u32], ids: &Vocabulary) -> Prompt {
    let t = &ids.text;
    let c = &ids.codec;
    rows.extend(written(text, ids));
    rows.push(PromptRow::coded(t.tts_pad, RowCodec::Code(c.bos)));
    Prompt {
        rows,
        opening: Vec::new(),
        next: None,
    }
}

/// Text and its end, beside padding.
fn written(text: &[u32], ids: &Vocabulary) -> impl Iterator<Item = PromptRow> {
    let end = ids.text.tts_eos;
    let pad = ids.codec.pad;
    let text = text.iter().copied().chain([end]).collect::<Vec<_>>();
    text.into_iter()
        .map(move |id| PromptRow::coded(id, RowCodec::Code(pad)))
}

/// A recording in context: its transcript before the text, its frames before the first one.
fn in_context(
    mut rows: Vec<PromptRow>,
    voice: &VoicePrompt,
    text: Option<Vec<u32>>,
    ids: &Vocabulary,
) -> Prompt {
    let (frames, transcript) = voice
        .reference
        .as_ref()
        .map(|r| (r.frames.as_slice(), r.text.as_slice()))
        .unwrap_or_default();
    let codes = [RowCodec::Code(ids.codec.bos)]
        .into_iter()
        .chain(frames.iter().map(|frame| RowCodec::Frame(frame.0.to_vec())));
    match text {
        Some(text) => {
            rows.extend(written(&[transcript, &text].concat(), ids));
            rows.extend(codes.map(|codec| PromptRow::coded(ids.text.tts_pad, codec)));
            Prompt {
                rows,
                opening: Vec::new(),
                next: None,
            }
        }
        None => {
            rows.extend((0..).zip(codes).map(|(n, codec)| PromptRow::spoken(n, codec)));
            Prompt {
                rows,
                opening: transcript.to_vec(),
                next: Some(frames.len() + 1),
            }
        }
    }
}
