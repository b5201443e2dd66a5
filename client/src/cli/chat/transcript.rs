//! What was said so far: to go on with after a lost session, and to save.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use omni_client::{Message, Role};
use serde_json::{Value, json};

use crate::cli::failure::Failure;

/// One message.
#[derive(Debug, Clone)]
struct Entry {
    message: Message,
    /// Playing time of the speech in it.
    speech: Option<Duration>,
}

/// Every message in order.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    entries: Vec<Entry>,
}

impl Transcript {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn add(&mut self, message: Message) {
        self.entries.push(Entry {
            message,
            speech: None,
        });
    }

    /// A message of the user that was spoken.
    pub(super) fn add_speech(&mut self, message: Message, speech: Duration) {
        self.entries.push(Entry {
            message,
            speech: Some(speech),
        });
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Puts what is left of the last answer in its place.
    pub(super) fn cut(&mut self, left: Option<Message>) {
        if self
            .entries
            .last()
            .is_some_and(|last| last.message.role == Role::Assistant)
        {
            self.entries.pop();
            self.entries.extend(left.map(|message| Entry {
                message,
                speech: None,
            }));
        }
    }

    /// As a new session is told it. Names are left out: that session gives its own.
    pub(super) fn history(&self) -> Vec<Message> {
        let messages = self.entries.iter().map(|entry| Message {
            id: String::new(),
            ..entry.message.clone()
        });
        messages.collect()
    }

    /// Writes it as JSON if the file is called so, else as text.
    pub(super) fn save(&self, path: &Path, about: &About<'_>) -> Result<(), Failure> {
        let json = path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let text = match json {
            true => format!("{:#}\n", self.json(about)),
            false => self.text(about),
        };
        fs::write(path, text).map_err(|error| Failure::io(format!("cannot write {}", path.display()), error))
    }

    fn json(&self, about: &About<'_>) -> Value {
        let system = (!about.system.is_empty()).then(|| json!({ "role": "system", "content": about.system }));
        let said = self.entries.iter().map(|entry| {
            let mut message = json!({ "role": name(entry.message.role), "content": entry.message.text() });
            if let Some(speech) = entry.speech {
                message["audio_seconds"] = json!(speech.as_secs_f64());
            }
            message
        });
        json!({
            "model": about.model,
            "voice": about.voice,
            "messages": system.into_iter().chain(said).collect::<Vec<_>>(),
        })
    }

    fn text(&self, about: &About<'_>) -> String {
        let mut text = String::new();
        if !about.system.is_empty() {
            let _ = writeln!(text, "system: {}\n", about.system);
        }
        for Entry { message, speech } in &self.entries {
            let said = message.text();
            let _ = match speech {
                Some(speech) if said.is_empty() => writeln!(
                    text,
                    "{}: ({:.1} s of speech)\n",
                    name(message.role),
                    speech.as_secs_f64()
                ),
                _ => writeln!(text, "{}: {}\n", name(message.role), said.trim_end()),
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}

/// What is saved besides the messages.
#[derive(Debug)]
pub(super) struct About<'a> {
    pub(super) model: &'a str,
    pub(super) voice: &'a str,
    pub(super) system: &'a str,
}

fn name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}
