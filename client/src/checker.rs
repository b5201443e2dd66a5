//! Holds a server to the protocol of a call: messages come in, events go out, or what was wrong.
//!
//! Checked of every call: consecutive numbers, `ready` first, everything of an utterance or a response between its one
//! start and its one end, contiguous audio in whole samples that is never empty and ends with the last, none left open
//! at the end. What differs between speech and chat is in their [`Rules`]. Kinds of events that this version does not
//! know are skipped: the protocol only ever grows.

use omni_audio::SampleRate;
use omni_proto::v1;

use crate::audio::{Audio, Track};

/// The rules of one kind of call.
pub(crate) trait Rules {
    /// Name of the units of a call: `utterance` or `response`.
    const ITEM: &'static str;
    /// Payload of a message.
    type Wire;
    /// The checked event.
    type Event;

    /// True for the event that opens every call.
    fn is_ready(wire: &Self::Wire) -> bool;

    /// Checks the payload `wire` of the unit `id`; gives its event, or the rule that it breaks.
    fn event(&mut self, call: &mut CallState, id: String, wire: Self::Wire) -> Result<Self::Event, String>;
}

/// A message of a call, before it is checked.
#[derive(Debug)]
pub(crate) struct Incoming<W> {
    /// Absent where the call does not number its messages.
    pub(crate) seq: Option<u64>,
    /// Name of the utterance or the response; empty in calls of one only.
    pub(crate) id: String,
    /// Absent where this version does not know it.
    pub(crate) event: Option<W>,
}

/// The state of one call and its rules.
#[derive(Debug)]
pub(crate) struct Checker<R> {
    rules: R,
    call: CallState,
}

impl<R: Rules> Checker<R> {
    /// For calls of many utterances or responses, each with its start.
    pub(crate) fn session(rules: R) -> Self {
        Self::new(rules, Items::Between)
    }

    /// For calls of one, which starts with the call.
    pub(crate) fn single(rules: R) -> Self {
        Self::new(rules, Items::Within(Open::new(String::new(), true)))
    }

    fn new(rules: R, items: Items) -> Self {
        let call = CallState {
            item: R::ITEM,
            seq: 0,
            ready: false,
            rate: None,
            items,
        };
        Self { rules, call }
    }

    /// The next message; `None` if it says nothing to this version.
    pub(crate) fn event(&mut self, message: Incoming<R::Wire>) -> Result<Option<R::Event>, String> {
        self.call.count(message.seq)?;
        let Some(wire) = message.event else {
            return Ok(None);
        };
        if !self.call.ready && !R::is_ready(&wire) {
            return Err("it sent something else before ready".into());
        }
        self.rules.event(&mut self.call, message.id, wire).map(Some)
    }

    /// The server ended the call with OK.
    pub(crate) fn end(&self) -> Result<(), String> {
        let item = R::ITEM;
        match &self.call.items {
            Items::Within(open) if open.single => Err(format!("it ended the stream before the {item}")),
            Items::Within(open) => Err(format!("it ended the stream inside {item} {}", open.id)),
            Items::Between | Items::Ended => Ok(()),
        }
    }

    /// The events of `messages`, up to the first that breaks the protocol.
    pub(crate) fn passed(mut self, messages: impl Iterator<Item = Incoming<R::Wire>>) -> Vec<R::Event> {
        let events = messages.map_while(|message| self.event(message).ok());
        events.flatten().collect()
    }
}

/// The state that all calls have.
#[derive(Debug)]
pub(crate) struct CallState {
    item: &'static str,
    seq: u64,
    ready: bool,
    rate: Option<SampleRate>,
    items: Items,
}

#[derive(Debug)]
enum Items {
    Between,
    Within(Open),
    /// The only one of the call has ended.
    Ended,
}

#[derive(Debug)]
struct Open {
    id: String,
    /// It is the whole call: it began with it and has no name.
    single: bool,
    track: Track,
}

impl Open {
    fn new(id: String, single: bool) -> Self {
        Self {
            id,
            single,
            track: Track::default(),
        }
    }
}

impl CallState {
    fn count(&mut self, seq: Option<u64>) -> Result<(), String> {
        match seq {
            Some(seq) if seq != self.seq + 1 => Err(format!("message {seq} came after message {}", self.seq)),
            Some(seq) => {
                self.seq = seq;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Settings are in force, with audio at `rate`.
    pub(crate) fn ready(&mut self, rate: Option<SampleRate>) {
        (self.ready, self.rate) = (true, rate);
    }

    /// An utterance or a response begins.
    pub(crate) fn start(&mut self, id: &str) -> Result<(), String> {
        self.between(&format!("{} {id}", self.item))?;
        self.items = Items::Within(Open::new(id.to_owned(), false));
        Ok(())
    }

    /// The next piece of audio of the open one.
    pub(crate) fn audio(&mut self, id: &str, chunk: v1::AudioChunk) -> Result<Audio, String> {
        let rate = self.rate.ok_or("it sent audio without having said its rate")?;
        self.open("audio", id)?.track.piece(rate, chunk)
    }

    /// The open one ends.
    pub(crate) fn finish(&mut self, id: &str) -> Result<(), String> {
        let single = self.open("the end", id)?.single;
        self.items = if single { Items::Ended } else { Items::Between };
        Ok(())
    }

    /// Checks that `what` of `id` is allowed now.
    pub(crate) fn within(&mut self, what: &str, id: &str) -> Result<(), String> {
        self.open(what, id).map(drop)
    }

    fn open(&mut self, what: &str, id: &str) -> Result<&mut Open, String> {
        let item = self.item;
        match &mut self.items {
            Items::Within(open) if open.id == id => Ok(open),
            Items::Ended => Err(format!("it sent {what} of the {item} after its end")),
            Items::Between | Items::Within(_) => Err(format!(
                "it sent {what} of {item} {id}, which is not the open one"
            )),
        }
    }

    /// Checks that `what`, which belongs to no utterance or response, is allowed now.
    pub(crate) fn between(&self, what: &str) -> Result<(), String> {
        let item = self.item;
        match &self.items {
            Items::Between => Ok(()),
            Items::Within(open) if !open.single => Err(format!("{what} came inside {item} {}", open.id)),
            Items::Within(_) | Items::Ended => Err(format!("{what} came in a call of one {item}")),
        }
    }

    /// Checks that settings are allowed now: at the start, and between utterances or responses.
    pub(crate) fn may_settle(&self) -> Result<(), String> {
        match &self.items {
            Items::Within(open) if open.single && !self.ready => Ok(()),
            _ => self.between("new settings"),
        }
    }
}
