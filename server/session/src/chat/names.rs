//! Ids of the messages and answers of one conversation, all distinct.

use std::collections::{HashSet, VecDeque};

use omni_core::error::excerpt;
use omni_core::id::{MessageId, OWN};

use crate::error::ProtocolError;
use crate::names::RESERVED;

/// Longest name in bytes.
const MAX_LEN: usize = 128;
/// Names remembered.
const REMEMBERED: usize = 8192;

/// The names that were used.
#[derive(Debug, Default)]
pub(super) struct Names {
    count: u64,
    used: HashSet<MessageId>,
    order: VecDeque<MessageId>,
}

impl Names {
    /// Takes the caller's `name`, or generates one if it is empty.
    pub(super) fn take(&mut self, name: &str) -> Result<MessageId, ProtocolError> {
        let invalid = |problem| {
            Err(ProtocolError::MessageId {
                id: excerpt(name),
                problem,
            })
        };
        if name.len() > MAX_LEN {
            return invalid("is longer than 128 bytes");
        }
        if self.used.contains(name) {
            return invalid("was used before in this conversation");
        }
        if name.starts_with(OWN) {
            return invalid(RESERVED);
        }
        let id = match name {
            "" => self.number(),
            name => MessageId::from(name),
        };
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.used.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.used.insert(id.clone());
        Ok(id)
    }

    fn number(&mut self) -> MessageId {
        self.count += 1;
        MessageId::numbered(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_used_once_and_the_servers_are_never_the_callers() {
        let mut names = Names::default();
        assert_eq!(names.take("m1").unwrap().as_str(), "m1");
        assert!(matches!(names.take("m1"), Err(ProtocolError::MessageId { .. })));
        assert_eq!(names.take("").unwrap().as_str(), "~1");
        assert!(matches!(names.take("~2"), Err(ProtocolError::MessageId { .. })));
        assert!(names.take(&"x".repeat(MAX_LEN + 1)).is_err());
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut names = Names::default();
        for _ in 0..=REMEMBERED {
            names.take("").unwrap();
        }
        assert_eq!(names.used.len(), REMEMBERED);
    }
}
