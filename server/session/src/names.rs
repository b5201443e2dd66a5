//! Utterance ids of one session: those that were used, and the handling of text that comes under an old one.

use std::collections::{HashMap, VecDeque};

use omni_core::error::excerpt;
use omni_core::id::{OWN, UtteranceId};

use super::error::ProtocolError;

/// Longest id in bytes.
const MAX_LEN: usize = 128;
/// Ids remembered.
const REMEMBERED: usize = 1024;

/// Problem with a caller's id that could be the server's.
pub(super) const RESERVED: &str = "begins with '~'; expected another id: those are the server's own";

/// Ids of the session's utterances.
#[derive(Debug, Default)]
pub(super) struct Names {
    count: u64,
    /// For each id, `true` if text that still names it is late (it was cancelled, or failed while open) rather than
    /// wrong.
    used: HashMap<UtteranceId, bool>,
    order: VecDeque<UtteranceId>,
    /// `true` after an utterance failed while it was open: its text is dropped until the caller ends it.
    swallowing: bool,
}

/// Decision on the id of a new utterance.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The id is free.
    New(UtteranceId),
    /// The id belongs to an utterance that ended early: the text is to be dropped.
    Late,
}

impl Names {
    /// Takes the id of the utterance that begins now; `name` may be empty.
    pub(super) fn begin(&mut self, name: &str) -> Result<Named, ProtocolError> {
        let invalid = |problem| ProtocolError::UtteranceId {
            id: excerpt(name),
            problem,
        };
        if name.len() > MAX_LEN {
            return Err(invalid("is longer than 128 bytes"));
        }
        if name.is_empty() {
            return Ok(if self.swallowing {
                Named::Late
            } else {
                Named::New(self.number())
            });
        }
        match self.used.get(name) {
            Some(true) => Ok(Named::Late),
            Some(false) => Err(invalid("was used before in this stream")),
            None if name.starts_with(OWN) => Err(invalid(RESERVED)),
            None => {
                self.swallowing = false;
                Ok(Named::New(self.remember(UtteranceId::from(name))))
            }
        }
    }

    fn number(&mut self) -> UtteranceId {
        self.count += 1;
        self.remember(UtteranceId::numbered(self.count))
    }

    fn remember(&mut self, id: UtteranceId) -> UtteranceId {
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.used.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.used.insert(id.clone(), false);
        id
    }

    /// Records that the utterance was cancelled: more text for it is late, not wrong.
    pub(super) fn cancelled(&mut self, id: &UtteranceId) {
        if let Some(late) = self.used.get_mut(id) {
            *late = true;
        }
    }

    /// Records that the utterance ended by itself; `open` if the caller may still send text for it.
    pub(super) fn ended(&mut self, id: &UtteranceId, open: bool) {
        if open {
            self.cancelled(id);
            self.swallowing = true;
        }
    }

    /// Ends the caller's open utterance. Returns true if it had already ended.
    pub(super) fn caller_ends(&mut self) -> bool {
        std::mem::take(&mut self.swallowing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(names: &mut Names, name: &str) -> UtteranceId {
        match names.begin(name) {
            Ok(Named::New(id)) => id,
            other => panic!("{name:?} is {other:?}"),
        }
    }

    #[test]
    fn names_are_used_once() {
        let mut names = Names::default();
        new(&mut names, "a");
        assert!(matches!(names.begin("a"), Err(ProtocolError::UtteranceId { .. })));
        assert!(names.begin(&"x".repeat(129)).is_err());
    }

    #[test]
    fn the_servers_names_are_never_the_callers() {
        let mut names = Names::default();
        let own = new(&mut names, "");
        for name in ["u1", "1", "utterance-1"] {
            new(&mut names, name);
        }
        assert!(names.begin(own.as_str()).is_err());
        assert!(names.begin("~7").is_err());
        names.cancelled(&own);
        assert_eq!(names.begin(own.as_str()), Ok(Named::Late));
    }

    #[test]
    fn text_of_a_cancelled_utterance_is_late() {
        let mut names = Names::default();
        let id = new(&mut names, "a");
        names.cancelled(&id);
        assert_eq!(names.begin("a"), Ok(Named::Late));
    }

    #[test]
    fn text_of_a_failed_utterance_is_dropped_until_the_caller_ends_it() {
        let mut names = Names::default();
        let id = new(&mut names, "");
        names.ended(&id, true);
        assert_eq!(names.begin(""), Ok(Named::Late));
        assert!(names.caller_ends());
        assert!(!names.caller_ends());
        new(&mut names, "");
    }

    #[test]
    fn only_so_many_names_are_remembered() {
        let mut names = Names::default();
        for n in 0..=REMEMBERED {
            new(&mut names, &format!("n{n}"));
        }
        new(&mut names, "n0");
        assert_eq!(names.used.len(), REMEMBERED);
    }
}
