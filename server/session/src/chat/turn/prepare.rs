//! Preparation of an answer: its permit, the embeddings of recordings, and its prompt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use omni_core::error::ServeError;
use omni_core::orchestrator::Orchestrator;
use omni_engine::Stamp;
use omni_family::PromptBuilder;
use omni_pipeline::clock::Clock;
use omni_pipeline::orchestrator::StageError;
use omni_pipeline::orchestrator::UtterancePermit;
use omni_pipeline::stage::{CancelFlag, CancelTimer, StageSnapshot};

use crate::chat::fit::{Fitted, Room, fit};
use crate::chat::hearing::{Recordings, hear};
use crate::chat::history::Conversation;

/// An answer that is to start.
pub(super) struct Preparation {
    pub(super) orchestrator: Orchestrator,
    pub(super) prompt: PromptBuilder,
    pub(super) conversation: Conversation,
    pub(super) room: Room,
    /// Held by every stage that works on it.
    pub(super) request: Arc<CancelTimer>,
    /// Set when it has its permit.
    pub(super) placed: Arc<AtomicBool>,
    pub(super) clock: Clock,
    pub(super) asked: Stamp,
}

/// An answer that can start.
#[derive(Debug)]
pub(in crate::chat) struct Prepared {
    pub(super) permit: UtterancePermit,
    pub(super) admitted: Stamp,
    pub(super) encoder: StageSnapshot,
    pub(super) recordings: Recordings,
    pub(super) fitted: Fitted,
}

/// Set when the prompt is no longer wanted.
#[derive(Debug, Default)]
struct Abandoned(CancelFlag);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Preparation {
    pub(super) async fn run(self) -> Result<Prepared, ServeError> {
        let Self {
            orchestrator,
            prompt,
            conversation,
            room,
            request,
            placed,
            clock,
            asked,
        } = self;
        let permit = orchestrator.admit().await?;
        placed.store(true, Ordering::Release);
        let admitted = clock.now();
        let (encoder, recordings) = hear(&orchestrator, &conversation, &room, asked, &request).await?;
        let abandoned = Abandoned::default();
        let flag = abandoned.0.clone();
        // Templates and tokenizers may take long, which other sessions must not wait for. The permit goes with them:
        // a caller that asks and goes away keeps the place until they are done.
        let fitting = move || {
            let fitted = fit(&conversation, &prompt, &room, &flag);
            fitted.map(|fitted| (permit, fitted))
        };
        let fitted = tokio::task::spawn_blocking(fitting).await;
        let (permit, fitted) = fitted.unwrap_or_else(|_| Err(panicked()))?;
        Ok(Prepared {
            permit,
            admitted,
            encoder,
            recordings,
            fitted,
        })
    }
}

/// The message of the panic is left to the panic hook: it may hold data of the caller.
fn panicked() -> ServeError {
    StageError::panicked("prompt").into()
}
