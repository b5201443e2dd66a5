//! Timeouts of an answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use omni_engine::Stamp;
use omni_pipeline::orchestrator::StageError;

use super::{Phase, Turn};

impl Turn {
    /// Time at which the stage that answers has given nothing for too long, if tokens are taken from `now` on. The
    /// first token has no timeout.
    pub(in crate::chat) fn stalls_at(&mut self, takes_text: bool, now: Stamp) -> Option<Stamp> {
        let reply = match &self.phase {
            Phase::Thinking(reply) if takes_text && self.figures.reply_tokens > 0 => reply,
            _ => {
                self.waits = None;
                return None;
            }
        };
        let waits = self.waits.get_or_insert_with(|| (now, reply.idles()));
        Some(waits.0 + self.max_wait)
    }

    /// Handles a stall: fails the answer. A stage that had no room for this answer meanwhile is busy, and not broken:
    /// the wait begins again.
    pub(in crate::chat) fn stalled(&mut self, now: Stamp) {
        let (Phase::Thinking(reply), Some((since, idles))) = (&self.phase, &mut self.waits) else {
            return;
        };
        if reply.is_idle() || reply.idles() != *idles {
            (*since, *idles) = (now, reply.idles());
            return;
        }
        self.gave_nothing(self.figures.answer.stage, self.max_wait);
    }

    /// Returns true if it waits for a permit or for its audio: admission and the stages have limits of their own for
    /// these.
    pub(in crate::chat) fn waits(&self) -> bool {
        match self.phase {
            Phase::Preparing(_) => !self.placed.load(Ordering::Acquire),
            Phase::Thinking(_) => false,
            Phase::Over => true,
        }
    }

    /// Fails the answer because the prompt or the stage that answers gave nothing for `waited`.
    pub(in crate::chat) fn give_up(&mut self, waited: Duration) {
        let stage = match self.phase {
            Phase::Preparing(_) => "prompt",
            Phase::Thinking(_) | Phase::Over => self.figures.answer.stage,
        };
        self.gave_nothing(stage, waited);
    }

    fn gave_nothing(&mut self, stage: &'static str, waited: Duration) {
        self.fail(StageError::Failed {
            stage,
            message: format!("it gave nothing for {waited:?}"),
        });
    }
}
