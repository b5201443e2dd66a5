//! What the user said is heard before the conversation becomes a prompt.

use std::sync::Arc;

use omni_engine::Stamp;

use super::fit::{Room, unheard};
use super::history::Conversation;
use crate::error::ServeError;
use crate::orchestrator::Orchestrator;
use crate::stage::{LetGo, StageSnapshot};

/// Has the recordings of a conversation heard that nobody has heard yet, one after the other. Gives the figures of all of them.
pub(super) async fn hear(
    orchestrator: &Orchestrator,
    conversation: &Conversation,
    room: &Room,
    arrived: Stamp,
    request: &Arc<LetGo>,
) -> Result<StageSnapshot, ServeError> {
    let mut all = StageSnapshot::default();
    for clip in unheard(conversation, room)? {
        let one = orchestrator.hear(&clip, arrived, request).await?;
        all = StageSnapshot {
            started: all.started.or(one.started),
            first_output: all.first_output.or(one.first_output),
            busy: all.busy + one.busy,
            outputs: all.outputs + one.outputs,
            ..one
        };
    }
    Ok(all)
}
