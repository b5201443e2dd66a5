//! Requests for speech, and the events of their answers.

use bytes::Bytes;
use omni_audio::SampleRate;
use omni_core::error::ServeError;
use omni_json::TextPiece;
use omni_services::SpeechRequest;
use omni_session::{Event, EventBody, Outcome};
use serde_json::{Value, json};

use super::wire::{Data, unknown};

/// Bytes of a sample; there is one channel.
const WIDTH: usize = 2;

/// A request for speech.
pub(super) fn spoken(data: Data) -> Result<(SpeechRequest, String), ServeError> {
    let text = data.text.map_or_else(String::new, TextPiece::whole);
    let text = match data.text_format.as_deref() {
        None | Some("text") => text,
        Some("ssml") if text.trim_start().starts_with("<speak") => text,
        Some("ssml") => format!("<speak>{text}</speak>"),
        Some(other) => return Err(unknown("text_format", other, "text or ssml")),
    };
    let voice = data.voice.unwrap_or_default();
    let named = voice.name.unwrap_or_default();
    let request = SpeechRequest {
        // A name says more than a language.
        language: if named.is_empty() {
            voice.language.unwrap_or_default()
        } else {
            String::new()
        },
        voice: named,
        ..SpeechRequest::default()
    };
    Ok((request, text))
}

/// An event of the server.
pub(super) struct Reply {
    pub(super) kind: &'static str,
    pub(super) data: Value,
    pub(super) payload: Bytes,
}

impl Reply {
    pub(super) fn new(kind: &'static str, data: Value) -> Self {
        let payload = Bytes::new();
        Self { kind, data, payload }
    }

    pub(super) fn error(error: &ServeError) -> Self {
        let data = json!({"text": error.message(), "code": error.reason()});
        Self::new("error", data)
    }
}

/// The events of one utterance, translated.
#[derive(Debug, Default)]
pub(super) struct Utterance {
    rate: Option<SampleRate>,
    started: bool,
    pub(super) is_over: bool,
}

impl Utterance {
    /// The replies to the client for an event of the session. Here a failed utterance is a failed request.
    pub(super) fn replies(&mut self, event: Event) -> Result<Vec<Reply>, ServeError> {
        match event.body {
            EventBody::Ready(ready) => self.rate = Some(ready.settings.delivery.format.rate()),
            EventBody::Audio(audio) => {
                let time = self.rate.map(|rate| rate.duration(audio.start).as_millis());
                let mut replies = self.start();
                let mut data = self.format();
                data["timestamp"] = time.map_or(Value::Null, |time| json!(time as u64));
                replies.push(Reply {
                    kind: "audio-chunk",
                    data,
                    payload: audio.data,
                });
                return Ok(replies);
            }
            EventBody::Done(done) => {
                self.is_over = true;
                if let (Some(error), Outcome::Error) = (done.error, done.outcome) {
                    return Err(error);
                }
                let mut replies = self.start();
                replies.push(Reply::new("audio-stop", json!({"timestamp": null})));
                return Ok(replies);
            }
            EventBody::Started | EventBody::Alignment(_) | EventBody::Warning { .. } => {}
        }
        Ok(Vec::new())
    }

    fn start(&mut self) -> Vec<Reply> {
        let first = !std::mem::replace(&mut self.started, true);
        let start = || {
            let mut data = self.format();
            data["timestamp"] = json!(0);
            Reply::new("audio-start", data)
        };
        first.then(start).into_iter().collect()
    }

    fn format(&self) -> Value {
        let rate = self.rate.map_or(0, |rate| rate.hz());
        json!({"rate": rate, "width": WIDTH, "channels": 1})
    }
}
