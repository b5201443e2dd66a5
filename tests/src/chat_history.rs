//! Rules of `Converse`, as a function over the events of one stream.

use std::collections::HashSet;

use omni_proto::v1;
use omni_proto::v1::converse_response::Event;

use crate::chat::text_of;
use crate::rules::{self, Played};
use crate::wire::Received;

/// Messages of one `Converse` stream.
pub type ChatHistory = Received<v1::ConverseResponse>;

/// Checks the rules that hold for every stream.
///
/// # Panics
/// With the broken rule.
pub fn check_chat(history: &ChatHistory) {
    let mut checker = Checker::default();
    for (index, response) in history.responses.iter().enumerate() {
        rules::numbered(index, response.seq);
        checker.response(response);
    }
    rules::closed(&history.ending, checker.open.as_ref());
}

#[derive(Debug, Default)]
struct Open {
    id: String,
    text: String,
    played: Played,
}

#[derive(Default)]
struct Checker {
    settings: Option<v1::ChatConfig>,
    open: Option<Open>,
    /// Ids of answers that are done, and of messages.
    used: HashSet<String>,
    done: HashSet<String>,
}

impl Checker {
    fn response(&mut self, response: &v1::ConverseResponse) {
        let id = response.response_id.as_str();
        let event = response.event.as_ref().expect("every message has an event");
        if let Event::Ready(ready) = event {
            assert!(id.is_empty(), "ready belongs to the session");
            assert!(self.open.is_none(), "settings do not change within an answer");
            return self.ready(ready);
        }
        assert!(self.settings.is_some(), "ready comes first, not {event:?}");
        match event {
            Event::Ready(_) => {}
            Event::MessageAdded(added) => self.added(id, added),
            Event::ResponseStarted(_) => self.started(id),
            Event::Text(delta) => {
                assert!(!delta.text.is_empty(), "empty text");
                self.inside(id, "text").text.push_str(&delta.text);
            }
            Event::Audio(audio) => self.audio(id, audio),
            Event::Warning(warning) => {
                rules::warning(warning);
                if !id.is_empty() {
                    self.inside(id, "warning");
                }
            }
            Event::ResponseDone(done) => self.done(id, done),
            Event::MessageCut(cut) => {
                assert!(self.done.contains(id), "only what is done is cut");
                assert_eq!(cut.message.as_ref().expect("what is left").id, id);
            }
        }
    }

    fn ready(&mut self, ready: &v1::ChatSessionReady) {
        let resolved = ready.resolved.as_ref().expect("ready has the settings");
        assert!(!ready.session_id.is_empty(), "the session has a name");
        assert!(ready.limits.is_some(), "ready has the limits");
        assert!(
            !resolved.model.is_empty()
                && !resolved.voice.is_empty()
                && !resolved.output_modalities.is_empty(),
            "model, voice and modalities are filled in: {resolved:?}"
        );
        let words = resolved
            .text_sampling
            .as_ref()
            .expect("the sampling is filled in");
        assert!(words.max_tokens.is_some_and(|most| most > 0), "{words:?}");
        assert!(resolved.history.is_empty(), "history is not echoed");
        self.settings = Some(resolved.clone());
    }

    fn added(&mut self, id: &str, added: &v1::MessageAdded) {
        assert!(id.is_empty(), "a message belongs to the session");
        assert!(self.open.is_none(), "nothing is added within an answer");
        let message = added.message.as_ref().expect("a message");
        assert!(message.parts.is_empty(), "a message is not echoed");
        assert!(!message.id.is_empty(), "a message has a name");
        assert!(
            self.used.insert(message.id.clone()),
            "{} is used twice",
            message.id
        );
    }

    fn inside(&mut self, id: &str, what: &str) -> &mut Open {
        let open = self.open.as_mut().filter(|open| open.id == id);
        open.unwrap_or_else(|| panic!("{what} of {id:?} comes between its started and its done"))
    }

    fn started(&mut self, id: &str) {
        assert!(!id.is_empty(), "an answer has a name");
        assert!(self.open.is_none(), "{id} begins while {:?} is open", self.open);
        assert!(self.used.insert(id.to_owned()), "{id} begins again");
        self.open = Some(Open {
            id: id.to_owned(),
            ..Open::default()
        });
    }

    fn output(&self) -> v1::AudioDelivery {
        let settings = self.settings.as_ref().expect("there are some");
        settings.output_audio.expect("it is filled in")
    }

    /// Returns true if answers are written too, not only spoken.
    fn writes(&self) -> bool {
        let settings = self.settings.as_ref().expect("there are some");
        settings.output_modalities.contains(&v1::Modality::Text.into())
    }

    fn audio(&mut self, id: &str, audio: &v1::AudioChunk) {
        let output = self.output();
        let writes = self.writes();
        let open = self.inside(id, "audio");
        assert!(
            !writes || !open.text.is_empty(),
            "text comes before the audio that speaks it"
        );
        open.played.chunk(&output, audio);
    }

    fn done(&mut self, id: &str, done: &v1::ResponseDone) {
        self.inside(id, "done");
        let open = self.open.take().expect("it is inside");
        self.done.insert(open.id.clone());
        let outcome = done.outcome.as_ref().expect("done has an outcome");
        let message = done.message.as_ref().expect("done says what was kept");
        assert_eq!(message.id, id, "the message has the answer's name");
        let kept = text_of(message);
        let writes = self.writes();
        match outcome.finish_reason() {
            v1::FinishReason::Stop | v1::FinishReason::Length | v1::FinishReason::Repetition => {
                open.played.is_whole();
                assert!(
                    !writes || open.text.is_empty() || kept == open.text,
                    "what was written is kept"
                );
            }
            v1::FinishReason::Interrupted => {
                assert!(
                    !writes || open.text.starts_with(&kept),
                    "{kept:?} is the beginning of what was written"
                );
            }
            _ => assert!(kept.is_empty(), "nothing is kept of a failure"),
        }
        let format = self.output().format.expect("the format is filled in");
        rules::outcome(outcome, &open.played, format.sample_rate_hz);
        let timings = outcome.timings.as_ref().expect("done has timings");
        assert_eq!(timings.stages[0].stage, "thinker");
    }
}
