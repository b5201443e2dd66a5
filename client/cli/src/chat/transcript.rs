//! Transcript of the conversation: to resume after a lost session, and to save.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use omni_client::{Message, Part, Role};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Limit of the conversation that a new session is sent, in bytes: servers take a megabyte in one request, and 4,096
/// messages.
const MOST_BYTES: usize = 900_000;
const MOST_MESSAGES: usize = 4_096;
/// Bytes of a message besides its parts.
const OVERHEAD: usize = 64;

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

    /// Replaces the last answer by its rest.
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

    /// Messages for a new session: the newest turns, as far as one request holds them. Ids are left out: that session
    /// assigns its own.
    pub(super) fn history(&self) -> Vec<Message> {
        let messages = self.entries[self.untold()..].iter().map(|entry| Message {
            id: String::new(),
            ..entry.message.clone()
        });
        messages.collect()
    }

    /// Number of messages, the oldest, that a new session is not sent: whole turns.
    pub(super) fn untold(&self) -> usize {
        let mut bytes = 0;
        let newest = self.entries.iter().rev().take(MOST_MESSAGES).take_while(|entry| {
            bytes += size(&entry.message);
            bytes <= MOST_BYTES
        });
        let first = self.entries.len() - newest.count();
        if first == 0 {
            return 0;
        }
        let by_user = |at: usize| self.entries[at].message.role == Role::User;
        let begins = |at: &usize| by_user(*at) && (*at == 0 || !by_user(*at - 1));
        (first..self.entries.len())
            .find(begins)
            .unwrap_or(self.entries.len())
    }

    /// Writes it as JSON if the file name ends so, else as text.
    pub(super) fn save(&self, path: &Path, about: &About<'_>) -> Result<(), Failure> {
        let json = path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let text = if json {
            format!("{:#}\n", self.json(about))
        } else {
            self.text(about)
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

/// Approximate size in a request, in bytes.
fn size(message: &Message) -> usize {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text(text) => text.len(),
        Part::Audio(clip) => clip.data.len(),
    });
    parts.sum::<usize>() + OVERHEAD
}

/// Saved properties besides the messages.
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

#[cfg(test)]
mod tests {
    use omni_client::{Clip, ClipFormat};

    use super::*;

    fn speech(bytes: usize) -> Message {
        let clip = Clip {
            format: ClipFormat::Wav,
            data: vec![0; bytes].into(),
        };
        Message {
            id: String::new(),
            role: Role::User,
            parts: vec![Part::Audio(clip)],
        }
    }

    /// Turns of speech, of text, and of an answer to both.
    fn transcript(turns: usize, bytes: usize) -> Transcript {
        let mut transcript = Transcript::default();
        for turn in 0..turns {
            transcript.add_speech(speech(bytes), Duration::from_secs(1));
            transcript.add(Message::user("and this"));
            transcript.add(Message::assistant(turn.to_string()));
        }
        transcript
    }

    #[test]
    fn a_new_session_is_told_no_more_than_it_takes_and_whole_turns() {
        assert_eq!((transcript(3, 1_000).untold(), transcript(0, 0).untold()), (0, 0));
        let long = transcript(5, 400_000);
        assert_eq!(long.untold(), 9);
        let told = long.history();
        assert_eq!(told.len(), 6);
        assert!(
            matches!(told[0].parts[0], Part::Audio(_)),
            "a turn begins with its speech"
        );
        assert_eq!(told[5].text(), "4");
    }

    #[test]
    fn a_turn_that_no_session_takes_is_not_told() {
        let mut long = transcript(1, 1_000_000);
        assert_eq!((long.untold(), long.history().len()), (3, 0));
        long.add(Message::user("hello"));
        assert_eq!((long.untold(), long.history().len()), (3, 1));
    }

    #[test]
    fn so_many_messages_and_no_more_are_told() {
        let many = transcript(2_000, 0);
        let told = many.history().len();
        assert!((4_094..=4_096).contains(&told), "{told}");
    }
}
