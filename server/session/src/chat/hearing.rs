//! Encodes the user's recordings before the conversation becomes a prompt.

use std::sync::Arc;

use omni_core::error::ServeError;
use omni_core::orchestrator::Orchestrator;
use omni_engine::Stamp;
use omni_pipeline::stage::{CancelTimer, StageSnapshot};

use super::fit::{Room, unheard};
use super::history::Conversation;

/// Recordings of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Recordings {
    /// All of them.
    pub(super) all: u32,
    /// Recordings that were encoded before and whose embeddings were kept.
    pub(super) kept: u32,
}

/// Encodes the recordings of a conversation that were not encoded yet, one after the other. Returns the progress of
/// all of them.
pub(super) async fn hear(
    orchestrator: &Orchestrator,
    conversation: &Conversation,
    room: &Room,
    arrived: Stamp,
    request: &Arc<CancelTimer>,
) -> Result<(StageSnapshot, Recordings), ServeError> {
    let mut all = StageSnapshot::default();
    let (unheard, kept) = unheard(conversation, room)?;
    let recordings = Recordings {
        all: u32::try_from(unheard.len())
            .unwrap_or(u32::MAX)
            .saturating_add(kept),
        kept,
    };
    for clip in unheard {
        let one = orchestrator.hear(&clip, arrived, request).await?;
        all = StageSnapshot {
            started: all.started.or(one.started),
            first_output: all.first_output.or(one.first_output),
            busy: all.busy + one.busy,
            outputs: all.outputs + one.outputs,
            ..one
        };
    }
    Ok((all, recordings))
}
