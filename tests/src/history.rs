//! Rules of `Speak`, as a function over the events of one stream.

use std::collections::HashSet;

use omni_proto::v1;
use omni_proto::v1::speak_response::Event;

use crate::rules::{self, Played, Words};
use crate::wire::{Ending, Received};

/// Messages of one `Speak` stream.
pub type History = Received<v1::SpeakResponse>;

/// Checks the rules that hold for every stream.
///
/// # Panics
/// With the broken rule.
pub fn check(history: &History) {
    let mut checker = Checker::default();
    for (index, response) in history.responses.iter().enumerate() {
        rules::numbered(index, response.seq);
        checker.response(response);
    }
    rules::closed(&history.ending, checker.open.as_ref());
    let names = history.names();
    let place = |id: &String| names.iter().position(|name| name == id);
    let places: Vec<_> = checker.began.iter().filter_map(place).collect();
    assert!(
        places.is_sorted(),
        "{:?} began in another order than {names:?}",
        checker.began
    );
    if history.ending == Ending::Ok {
        let open: Vec<_> = names
            .iter()
            .filter(|name| !checker.done.contains(*name))
            .collect();
        assert!(open.is_empty(), "the stream ended well without done of {open:?}");
    }
}

/// The rules of `Synthesize`, response by response: `ready`, then one utterance, then nothing.
#[derive(Debug, Default)]
pub struct Whole {
    checker: Checker,
    over: bool,
}

impl Whole {
    /// The next response; gives the end if it is that.
    pub fn response<'r>(&mut self, response: &'r v1::SynthesizeResponse) -> Option<&'r v1::UtteranceDone> {
        use v1::synthesize_response::Event as E;
        const ID: &str = "the only one";
        assert!(!self.over, "nothing follows done: {response:?}");
        let event = response.event.as_ref().expect("every message has an event");
        if let E::Ready(ready) = event {
            assert!(self.checker.output.is_none(), "ready comes once");
            self.checker.ready(ready);
            self.checker.started(ID);
            return None;
        }
        assert!(self.checker.output.is_some(), "ready comes first, not {event:?}");
        match event {
            E::Ready(_) => {}
            E::Alignment(alignment) => self.checker.alignment(ID, alignment),
            E::Audio(audio) => self.checker.audio(ID, audio),
            E::Warning(warning) => rules::warning(warning),
            E::Done(done) => {
                self.checker.done(ID, done);
                self.over = true;
                return Some(done);
            }
        }
        None
    }

    /// The call ended with OK.
    pub fn closed(&self) {
        assert!(self.over, "it ended without done");
    }
}

#[derive(Debug)]
struct Open {
    id: String,
    played: Played,
    words: Words,
}

#[derive(Debug, Default)]
struct Checker {
    output: Option<v1::AudioDelivery>,
    alignment: bool,
    open: Option<Open>,
    began: Vec<String>,
    done: HashSet<String>,
}

impl Checker {
    fn response(&mut self, response: &v1::SpeakResponse) {
        let id = response.utterance_id.as_str();
        let event = response.event.as_ref().expect("every message has an event");
        match event {
            Event::Ready(ready) => {
                assert!(id.is_empty(), "ready belongs to the session");
                self.ready(ready);
                return;
            }
            _ => assert!(self.output.is_some(), "ready comes first, not {event:?}"),
        }
        match event {
            Event::Ready(_) => {}
            Event::Started(_) => self.started(id),
            Event::Audio(audio) => self.audio(id, audio),
            Event::Alignment(alignment) => self.alignment(id, alignment),
            Event::Warning(warning) => {
                rules::warning(warning);
                if !id.is_empty() {
                    self.inside(id, "warning");
                }
            }
            Event::Done(done) => self.done(id, done),
        }
    }

    fn ready(&mut self, ready: &v1::SpeechSessionReady) {
        let resolved = ready.resolved.as_ref().expect("ready has the settings");
        assert!(!ready.session_id.is_empty(), "the session has a name");
        assert!(ready.limits.is_some(), "ready has the limits");
        assert!(
            !resolved.model.is_empty() && !resolved.voice.is_empty(),
            "model and voice are filled in"
        );
        let format = resolved
            .output
            .as_ref()
            .and_then(|output| output.format)
            .expect("the format is filled in");
        assert!(
            format.sample_rate_hz > 0 && format.channels == 1 && format.encoding != 0,
            "{format:?}"
        );
        self.output = resolved.output;
        self.alignment = resolved.alignment;
    }

    fn inside(&self, id: &str, what: &str) {
        let open = self.open.as_ref().map(|open| open.id.as_str());
        assert_eq!(
            open,
            Some(id),
            "{what} of {id} comes between its started and its done"
        );
    }

    fn started(&mut self, id: &str) {
        assert!(!id.is_empty(), "an utterance has a name");
        assert!(self.open.is_none(), "{id} begins while {:?} is open", self.open);
        assert!(!self.done.contains(id), "{id} begins again");
        self.began.push(id.to_owned());
        self.open = Some(Open {
            id: id.to_owned(),
            played: Played::default(),
            words: Words::default(),
        });
    }

    fn audio(&mut self, id: &str, audio: &v1::AudioChunk) {
        self.inside(id, "audio");
        let output = self.output.expect("it was announced");
        let open = self.open.as_mut().expect("it is inside");
        open.played.chunk(&output, audio);
    }

    fn alignment(&mut self, id: &str, alignment: &v1::Alignment) {
        self.inside(id, "alignment");
        let open = self.open.as_mut().expect("it is inside");
        open.words.alignment(alignment, &open.played);
    }

    fn done(&mut self, id: &str, done: &v1::UtteranceDone) {
        self.inside(id, "done");
        let open = self.open.take().expect("it is inside");
        assert!(self.done.insert(open.id), "{id} is done twice");
        let outcome = done.outcome.as_ref().expect("done has an outcome");
        if matches!(
            outcome.finish_reason(),
            v1::FinishReason::Stop | v1::FinishReason::Length
        ) {
            open.played.is_whole();
        }
        let format = self.output.and_then(|output| output.format);
        rules::outcome(
            outcome,
            &open.played,
            format.expect("it was announced").sample_rate_hz,
        );
        if self.alignment {
            open.words.are_of(outcome, &open.played);
        } else {
            open.words.none();
        }
        assert!(
            outcome.finish_reason() == v1::FinishReason::Interrupted
                || done.text_spoken.is_empty() && done.text_remaining.is_empty(),
            "what was heard is told of what was interrupted"
        );
        let timings = outcome.timings.as_ref().expect("done has timings");
        let stages: Vec<_> = timings.stages.iter().map(|stage| stage.stage.as_str()).collect();
        assert_eq!(stages, ["talker", "code2wav"]);
    }
}
