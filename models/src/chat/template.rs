//! The chat template of a checkpoint, rendered so that no caller can write special tokens.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, ErrorKind, context};
use serde_json::{Value, json};

use crate::checkpoint::{Checkpoint, LoadError, Problem};
use crate::config::{TextTokens, ThinkerConfig};
use crate::tokenizer::Tokenizer;

use super::prompt::{ChatPiece, ChatPrompt, Ids};
use super::{ChatError, Message, MessagePart, tools};

const JINJA: &str = "chat_template.jinja";
const OWN: &str = "chat_template.json";
const TOKENIZER: &str = "tokenizer_config.json";
const NAME: &str = "chat";

/// Qwen's form of a conversation, for checkpoints that bring no template.
const BUILT_IN: &str = "\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content %}
            {{- '<|audio_start|><|audio_pad|><|audio_end|>' if part.type == 'audio' else part.text }}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{{- '<|im_start|>assistant\\n' if add_generation_prompt }}";

/// Steps of the template engine that no honest template needs for a conversation.
const FUEL: u64 = 5_000_000;

/// Inserted into caller text wherever a special token's name could form, and removed again once the template's names
/// are tokens. It is a noncharacter, so no text loses anything.
const GUARD: char = '\u{FDD0}';

/// A checkpoint's chat template.
#[derive(Clone, derive_more::Debug)]
#[debug("ChatTemplate {{ .. }}")]
pub struct ChatTemplate {
    environment: Environment<'static>,
    tokenizer: Tokenizer,
    ids: Ids,
    /// Names of the tokens that templates may ask for.
    names: Value,
    /// `true` if it writes tools.
    tools: bool,
}

impl ChatTemplate {
    pub(crate) fn load(
        checkpoint: &Checkpoint,
        tokenizer: &Tokenizer,
        text: TextTokens,
        newline: u32,
        thinker: &ThinkerConfig,
    ) -> Result<Self, LoadError> {
        let ids = Ids {
            text,
            roles: thinker.roles,
            newline,
            audio: thinker.audio,
        };
        check_special(tokenizer, ids)?;
        let config = checkpoint.file(TOKENIZER)?;
        let config = config.map(|bytes| parse(TOKENIZER, &bytes)).transpose()?;
        let (file, source) = source(checkpoint, config.as_ref())?;
        let tools = source.contains("tools");
        let environment = environment(source).map_err(|e| malformed(file, told(&e)))?;
        let name = |token: &str| config.as_ref().and_then(|c| named(&c[token])).unwrap_or_default();
        let names = json!({"bos_token": name("bos_token"), "eos_token": name("eos_token"), "pad_token": name("pad_token")});
        Ok(Self {
            environment,
            tokenizer: tokenizer.clone(),
            ids,
            names,
            tools,
        })
    }

    /// Returns true if it writes the tools that a conversation offers.
    pub fn takes_tools(&self) -> bool {
        self.tools
    }

    /// The prompt for the reply to `messages`.
    ///
    /// # Errors
    /// [`ChatError`] if the template refuses the messages or a text cannot be tokenized.
    pub fn render(&self, messages: &[Message]) -> Result<ChatPrompt, ChatError> {
        let parts = || messages.iter().flat_map(|message| &message.parts);
        let offered = parts().filter_map(|part| match part {
            MessagePart::Tool(json) => Some(tools::value("a tool", json, &|text| self.guarded(text))),
            _ => None,
        });
        let offered: Vec<_> = offered.collect::<Result<_, _>>()?;
        let written = messages.iter().map(|message| self.messages(message));
        let written = written.collect::<Result<Vec<_>, _>>()?.concat();
        let template = self.environment.get_template(NAME);
        let rendered = template.and_then(|t| {
            t.render(context! {
                messages => written,
                tools => (!offered.is_empty()).then_some(offered),
                add_generation_prompt => true,
                ..minijinja::Value::from(Serde(&self.names))
            })
        });
        let rendered = rendered.map_err(|e| ChatError::Template(told(&e)))?;
        let pieces = self.pieces(&rendered)?;
        let places = pieces.iter().filter(|p| matches!(p, ChatPiece::Audio(_))).count();
        let parts = parts().filter(|p| **p == MessagePart::Audio).count();
        if places != parts {
            return Err(ChatError::AudioPlaces { places, parts });
        }
        Ok(ChatPrompt::new(pieces, self.ids))
    }

    /// Template messages of a message: function results become messages of their own, and tools none.
    fn messages(&self, message: &Message) -> Result<Vec<minijinja::Value>, ChatError> {
        let mut said = Vec::new();
        let mut calls = Vec::new();
        let mut results = Vec::new();
        for part in &message.parts {
            match part {
                MessagePart::Text(_) | MessagePart::Audio => said.push(part),
                MessagePart::Tool(_) => {}
                MessagePart::ToolCall { name, arguments } => {
                    let arguments = tools::value("what a tool is called with", arguments, &|text| {
                        self.guarded(text)
                    })?;
                    let function = pairs([("name", self.guarded(name).into()), ("arguments", arguments)]);
                    calls.push(pairs([("type", "function".into()), ("function", function)]));
                }
                MessagePart::ToolResult(text) => {
                    let content = self.guarded(text).into();
                    results.push(pairs([("role", "tool".into()), ("content", content)]));
                }
            }
        }
        if !said.is_empty() || !calls.is_empty() || message.parts.is_empty() {
            let content = Serde(&self.content(&said)).into();
            let mut own = vec![("role", message.role.name().into()), ("content", content)];
            if !calls.is_empty() {
                own.push(("tool_calls", calls.into()));
            }
            results.insert(0, pairs(own));
        }
        Ok(results)
    }

    /// Content of a message as templates expect it: text alone as a string, else a list of parts.
    fn content(&self, parts: &[&MessagePart]) -> Value {
        let text = |part: &&MessagePart| match part {
            MessagePart::Text(text) => Some(self.guarded(text)),
            _ => None,
        };
        match parts.iter().map(text).collect::<Option<Vec<_>>>() {
            Some(texts) => Value::String(texts.concat()),
            None => parts
                .iter()
                .map(|part| match text(part) {
                    Some(text) => json!({"type": "text", "text": text}),
                    None => json!({"type": "audio", "audio": "audio"}),
                })
                .collect(),
        }
    }

    /// `text` with a guard behind every character after which a special token's name could continue, even into the
    /// template's text or another part.
    fn guarded(&self, text: &str) -> String {
        let mut guarded = String::with_capacity(text.len());
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c == GUARD {
                continue;
            }
            guarded.push(c);
            let next = rest.as_str().chars().find(|&next| next != GUARD);
            let goes_on = |name: &str| {
                let mut name = name.chars();
                name.next() == Some(c)
                    && next.is_none_or(|next| next.is_whitespace() || name.next() == Some(next))
            };
            if self.tokenizer.special_names().any(goes_on) {
                guarded.push(GUARD);
            }
        }
        guarded
    }

    /// Tokens of the rendered text. What looks like a special token here is the template's.
    fn pieces(&self, rendered: &str) -> Result<Vec<ChatPiece>, ChatError> {
        let mut pieces = Vec::new();
        let mut audio = 0;
        let mut rest = rendered;
        let plain = |pieces: &mut Vec<ChatPiece>, text: &str| -> Result<(), ChatError> {
            let text: String = text.chars().filter(|&c| c != GUARD).collect();
            let ids = self.tokenizer.encode_plain(&text)?;
            pieces.extend(ids.into_iter().map(ChatPiece::Token));
            Ok(())
        };
        while let Some((at, name, id)) = self.tokenizer.next_special(rest) {
            plain(&mut pieces, &rest[..at])?;
            rest = &rest[at + name..];
            if id == self.ids.audio.pad {
                pieces.push(ChatPiece::Audio(audio));
                audio += 1;
            } else {
                pieces.push(ChatPiece::Token(id));
            }
        }
        plain(&mut pieces, rest)?;
        Ok(pieces)
    }
}

fn pairs(fields: impl IntoIterator<Item = (&'static str, minijinja::Value)>) -> minijinja::Value {
    minijinja::Value::from_pairs(fields)
}

/// If a token that opens or closes something were text like any other, a caller could write it.
fn check_special(tokenizer: &Tokenizer, ids: Ids) -> Result<(), LoadError> {
    let text = ids.text;
    let audio = ids.audio;
    let named = [
        ("im_start", text.im_start),
        ("im_end", text.im_end),
        ("tts_pad", text.tts_pad),
        ("tts_bos", text.tts_bos),
        ("tts_eos", text.tts_eos),
        ("audio_start", audio.start),
        ("audio_end", audio.end),
        ("audio", audio.pad),
    ];
    let wrong = named.into_iter().filter(|&(_, id)| !tokenizer.is_special(id));
    let problem = |(name, id)| Problem::Config {
        file: "config.json".into(),
        field: format!("{name}_token_id"),
        reason: format!("is {id}, which is no special token of the tokenizer"),
    };
    LoadError::unless_empty(wrong.map(problem).collect())
}

/// The template, and the file that it is from.
fn source(checkpoint: &Checkpoint, config: Option<&Value>) -> Result<(&'static str, String), LoadError> {
    if let Some(bytes) = checkpoint.file(JINJA)? {
        let text = String::from_utf8(bytes.into_owned());
        return Ok((JINJA, text.map_err(|e| malformed(JINJA, e.to_string()))?));
    }
    if let Some(bytes) = checkpoint.file(OWN)? {
        let own = parse(OWN, &bytes)?;
        let text = templated(&own["chat_template"]);
        let text = text.ok_or_else(|| malformed(OWN, "chat_template: a string is expected".into()))?;
        return Ok((OWN, text));
    }
    let text = config.and_then(|c| templated(&c["chat_template"]));
    Ok((TOKENIZER, text.unwrap_or_else(|| BUILT_IN.into())))
}

/// A template, or the one named `default` of several.
fn templated(value: &Value) -> Option<String> {
    let default = |list: &Vec<Value>| {
        let found = list.iter().find(|t| t["name"] == "default")?;
        found["template"].as_str().map(str::to_owned)
    };
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => default(list),
        _ => None,
    }
}

/// A token's name, which may be given with its settings.
fn named(value: &Value) -> Option<String> {
    let name = value.as_str().or_else(|| value["content"].as_str());
    name.map(str::to_owned)
}

/// As Hugging Face transformers renders templates (`utils/chat_template_utils.py`).
fn environment(source: String) -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?,
    );
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(FUEL));
    environment.add_function(
        "raise_exception",
        |message: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        },
    );
    environment.add_filter("tojson", tools::tojson);
    environment.add_template_owned(NAME, source)?;
    Ok(environment)
}

/// The error in one line, without the template's text.
fn told(error: &minijinja::Error) -> String {
    let what = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("{what} (line {line})"),
        None => what,
    }
}

fn parse(file: &str, bytes: &[u8]) -> Result<Value, LoadError> {
    serde_json::from_slice(bytes).map_err(|e| malformed(file, e.to_string()))
}

fn malformed(file: &str, reason: String) -> LoadError {
    let file = file.to_owned();
    LoadError::one(Problem::Malformed { file, reason })
}
