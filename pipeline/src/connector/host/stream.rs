//! One sequence, as the side sees it where its stage is.

use std::task::Context;

use futures::FutureExt as _;
use omni_engine::SeqId;
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{Cancel, Done};
use tokio::sync::oneshot;

use super::give_up;
use crate::connector::link::{Link, LinkError};
use crate::connector::stream::{Forwarded, Receiving, Sending};
use crate::connector::wire::{WireError, end_message, progress_message};
use crate::stage::{CancelFlag, End, StageProgress, StageSnapshot};

/// One sequence.
pub(super) struct StreamState {
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    pub(super) cancel: CancelFlag,
    pub(super) progress: StageProgress,
    /// What the other side knows of it.
    pub(super) told: StageSnapshot,
    pub(super) finished: Option<oneshot::Receiver<()>>,
}

/// What came of [`StreamState::tend`].
pub(super) enum Tended {
    /// All that can be sent is in line.
    All,
    /// The connection takes no more.
    Part,
    /// The sequence is at its end.
    Over,
    /// The sequence cannot go on, and the stage does not know it.
    Failed,
}

impl StreamState {
    /// Looks at both directions. If it `holds`, items that may wait for a moment do so.
    pub(super) fn tend(
        &mut self,
        (own, seq): (&'static str, SeqId),
        link: &mut Link,
        holds: bool,
        context: &mut Context<'_>,
    ) -> Result<Tended, LinkError> {
        if link.is_backed_up() {
            return Ok(Tended::Part);
        }
        self.receiving.grant(seq, link)?;
        self.sending.tell_idle(seq, link)?;
        if !(holds && self.sending.is_patient()) {
            self.tell(seq, link)?;
            match self.forward((own, seq), link)? {
                Tended::All => {}
                other => return Ok(other),
            }
        }
        if let Some(finished) = &mut self.finished
            && finished.poll_unpin(context).is_ready()
        {
            self.finished = None;
            // What comes next counts what this sequence made: a limit of an utterance is for all of its sequences.
            self.tell(seq, link)?;
            link.say(seq, Body::Done(Done {}))?;
        }
        Ok(Tended::All)
    }

    /// Puts in line what there is of items, and their end.
    fn forward(&mut self, (own, seq): (&'static str, SeqId), link: &mut Link) -> Result<Tended, LinkError> {
        loop {
            if link.is_backed_up() {
                return Ok(Tended::Part);
            }
            match self.sending.forward(seq, link) {
                Forwarded::Item => {}
                Forwarded::Nothing => return Ok(Tended::All),
                // The replica is dying, and with it this process. The other side must know that before it hears of the loss.
                Forwarded::End(End::Lost { stage, message }) if stage == own => {
                    return give_up(link, message).map(|()| Tended::Over);
                }
                Forwarded::End(end) => {
                    self.tell(seq, link)?;
                    link.say(seq, Body::End(end_message(end)))?;
                    return Ok(Tended::Over);
                }
                Forwarded::Gone => {
                    link.say(seq, Body::Cancel(Cancel {}))?;
                    return Ok(Tended::Over);
                }
                Forwarded::TooLong(error) => {
                    let (stage, message) = (own, error.to_string());
                    link.say(seq, Body::End(end_message(End::Failed { stage, message })))?;
                    return Ok(Tended::Failed);
                }
            }
        }
    }

    /// Tells the other side how far the stage is, if it does not know.
    fn tell(&mut self, seq: SeqId, link: &mut Link) -> Result<(), WireError> {
        let now = self.progress.snapshot();
        if now != self.told {
            link.say(seq, Body::Progress(progress_message(&now, link.peer_clock())))?;
            self.told = now;
        }
        Ok(())
    }
}
