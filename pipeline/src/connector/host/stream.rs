//! One sequence, on the side of its stage.

use std::task::{Context, Poll};

use futures::FutureExt as _;
use omni_engine::SeqId;
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{Cancel, Done};
use tokio::sync::oneshot;

use super::linked::Elsewhere;
use super::work::give_up;
use crate::connector::link::{Link, LinkError};
use crate::connector::peers::LinkEnd;
use crate::connector::stream::{Forwarded, Receiving, Sending};
use crate::connector::wire::{Arrival, WireError, end_message, progress_message};
use crate::stage::{CancelFlag, End, StageProgress, StageSnapshot};

/// One sequence.
pub(super) struct StreamState {
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    /// Expected items that a stage may send without passing the other side.
    pub(super) elsewhere: Option<Elsewhere>,
    /// Resolves when its outputs, sent to the next stage by a link, have ended.
    pub(super) linked: Option<oneshot::Receiver<LinkEnd>>,
    pub(super) cancel: CancelFlag,
    pub(super) progress: StageProgress,
    /// Progress last reported to the other side.
    pub(super) told: StageSnapshot,
    pub(super) finished: Option<oneshot::Receiver<()>>,
}

/// Result of [`StreamState::tend`].
pub(super) enum Tended {
    /// Everything that can be sent is queued.
    All,
    /// The connection is backed up.
    Part,
    /// The sequence is at its end.
    Over,
    /// The sequence failed here, without the stage's knowledge.
    Failed,
    /// The link of the sequence has broken, and the sequence stays until the other side cancels it.
    Severed,
}

impl StreamState {
    /// Serves both directions. With `holds`, items that may wait for a moment do so.
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
        for stamps in self.elsewhere.iter().flat_map(Elsewhere::passages) {
            link.arrived(Arrival { seq, stamps });
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
        if let Some(tended) = self.look_at_link((own, seq), link, context)? {
            return Ok(tended);
        }
        if let Some(finished) = &mut self.finished
            && finished.poll_unpin(context).is_ready()
        {
            self.finished = None;
            // The next sequence counts the outputs of this one: the limit of an utterance covers all of its
            // sequences.
            self.tell(seq, link)?;
            link.say(seq, Body::Done(Done {}))?;
        }
        Ok(Tended::All)
    }

    /// Queues the available items, and their end.
    fn forward(&mut self, (own, seq): (&'static str, SeqId), link: &mut Link) -> Result<Tended, LinkError> {
        loop {
            if link.is_backed_up() {
                return Ok(Tended::Part);
            }
            match self.sending.forward(seq, link) {
                Forwarded::Item => {}
                Forwarded::Nothing => return Ok(Tended::All),
                // The replica is dying, and with it this process. The other side must know that before it receives
                // the loss.
                Forwarded::End(End::Lost { stage, message }) if stage == own => {
                    return give_up(link, message).map(|()| Tended::Over);
                }
                Forwarded::End(end) => {
                    self.tell(seq, link)?;
                    link.say(seq, Body::End(end_message(end)))?;
                    return Ok(Tended::Over);
                }
                // The stage before may have been lost, and the server learns that elsewhere: it is to wait for that.
                Forwarded::Gone if self.elsewhere.is_some() && !self.receiving.is_open() => {
                    self.sending.close();
                    let message = "the stage before has given it up".to_owned();
                    return self.severed((own, seq), message, link);
                }
                Forwarded::Gone => {
                    link.say(seq, Body::Cancel(Cancel {}))?;
                    return Ok(Tended::Over);
                }
                Forwarded::TooLong(error) => {
                    let stage = own;
                    let message = error.to_string();
                    link.say(seq, Body::End(end_message(End::Failed { stage, message })))?;
                    return Ok(Tended::Failed);
                }
            }
        }
    }

    /// Reports the end of outputs that went past the other side.
    fn look_at_link(
        &mut self,
        (own, seq): (&'static str, SeqId),
        link: &mut Link,
        context: &mut Context<'_>,
    ) -> Result<Option<Tended>, LinkError> {
        let Some(Poll::Ready(ended)) = self.linked.as_mut().map(|linked| linked.poll_unpin(context)) else {
            return Ok(None);
        };
        self.linked = None;
        let message = match ended {
            Ok(LinkEnd::Ended(End::Lost { stage, message })) if stage == own => {
                return give_up(link, message).map(|()| Some(Tended::Over));
            }
            Ok(LinkEnd::Ended(end)) => {
                let over = match end {
                    End::Failed { .. } => Tended::Failed,
                    _ => Tended::Over,
                };
                self.tell(seq, link)?;
                link.say(seq, Body::End(end_message(end)))?;
                return Ok(Some(over));
            }
            Ok(LinkEnd::Severed(message)) => message,
            Err(_) => "the link to the next stage has ended".to_owned(),
        };
        self.severed((own, seq), message, link).map(Some)
    }

    /// Reports that a link of the sequence has broken.
    fn severed(
        &mut self,
        (stage, seq): (&'static str, SeqId),
        message: String,
        link: &mut Link,
    ) -> Result<Tended, LinkError> {
        // Keeps the stage from appearing to be done with it.
        self.finished = None;
        link.say(seq, Body::End(end_message(End::Severed { stage, message })))?;
        Ok(Tended::Severed)
    }

    /// Reports the progress of the stage, if it has changed.
    fn tell(&mut self, seq: SeqId, link: &mut Link) -> Result<(), WireError> {
        let now = self.progress.snapshot();
        if now != self.told {
            link.say(seq, Body::Progress(progress_message(&now, link.peer_clock())))?;
            self.told = now;
        }
        Ok(())
    }
}
