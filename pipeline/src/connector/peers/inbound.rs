//! The end of a link at the receiving stage.

use std::collections::BTreeMap;

use omni_engine::SeqId;
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{Cancel, Done, Ready};

use super::{HEARTBEAT, Keepalive};
use crate::connector::link::{Link, LinkError};
use crate::connector::protocol::{StageNames, unexpected};
use crate::connector::rendezvous::Rendezvous;
use crate::connector::stream::{Came, Receiving};
use crate::connector::wire::{NO_SEQUENCE, Received, end, token};
use crate::item::ItemKind;
use crate::stage::{End, LinkToken, Notifier, NotifierFd};

/// A link from the stage `sender`.
pub(in crate::connector) struct Inbound {
    pub(in crate::connector) link: Link,
    pub(in crate::connector) wake: Notifier,
    pub(in crate::connector) sender: &'static str,
    pub(in crate::connector) rendezvous: Rendezvous,
    pub(in crate::connector) stages: StageNames,
}

/// By their numbers on this link.
type Sequences = BTreeMap<SeqId, Attached>;

/// A sequence whose items come.
struct Attached {
    token: LinkToken,
    receiving: Receiving,
}

impl Inbound {
    /// Takes items until the other stage closes the link. Sequences that have not ended are severed then.
    pub(in crate::connector) fn run(mut self, notified: &NotifierFd) -> Result<(), LinkError> {
        let mut sequences = Sequences::new();
        let ended = self.turns(&mut sequences, notified);
        let message = match &ended {
            Ok(()) => LinkError::Closed.to_string(),
            Err(error) => error.to_string(),
        };
        for mut attached in sequences.into_values() {
            attached.receiving.end(End::Severed {
                stage: self.sender,
                message: message.clone(),
            });
        }
        ended
    }

    fn turns(&mut self, sequences: &mut Sequences, notified: &NotifierFd) -> Result<(), LinkError> {
        let mut keepalive = Keepalive::new(self.link.now());
        self.link.say(NO_SEQUENCE, Body::Ready(Ready {}))?;
        loop {
            match self.link.read() {
                Ok(()) => {}
                Err(LinkError::Closed) => return Ok(()),
                Err(error) => return Err(error),
            }
            while let Some(frame) = self.link.next()? {
                keepalive.heard(self.link.now());
                self.frame(frame, sequences)?;
            }
            self.rendezvous.give_up_late(self.link.now());
            keepalive.look(&mut self.link)?;
            self.tend(sequences)?;
            self.link.flush()?;
            self.link.wait(notified, Some(HEARTBEAT))?;
        }
    }

    /// Handles a frame. A frame of an unknown sequence was in flight when the sequence ended, and is ignored.
    fn frame(&mut self, frame: Received, sequences: &mut Sequences) -> Result<(), LinkError> {
        let came = Came::of(&frame, self.link.peer_clock());
        let seq = frame.seq;
        if let Body::Attach(attach) = &frame.body {
            if sequences.contains_key(&seq) {
                let what = format!("sequence {} was attached twice", seq.0);
                return Err(LinkError::Protocol(what));
            }
            let token = token(&attach.token)?;
            return match self.rendezvous.attach(token, self.wake.clone()) {
                Some(edge) => {
                    let receiving = Receiving::opened(Box::new(edge), Some(ItemKind::Frames));
                    sequences.insert(seq, Attached { token, receiving });
                    Ok(())
                }
                None => Ok(self.link.say(seq, Body::Cancel(Cancel {}))?),
            };
        }
        let Some(Attached { token, receiving }) = sequences.get_mut(&seq) else {
            return Ok(());
        };
        match frame.body {
            Body::Item(item) => _ = receiving.item(came, item, self.link.now())?,
            Body::Idle(idle) => receiving.set_idle(idle.idle),
            Body::End(message) => {
                receiving.end(end(message, &self.stages)?);
                sequences.remove(&seq);
                self.link.say(seq, Body::Done(Done {}))?;
            }
            Body::Cancel(_) => {
                self.rendezvous.forget(*token);
                sequences.remove(&seq);
            }
            other => return Err(unexpected(&other, "a frame about a sequence")),
        }
        Ok(())
    }

    /// Grants credit, and cancels sequences whose reader is gone.
    fn tend(&mut self, sequences: &mut Sequences) -> Result<(), LinkError> {
        let unwanted = sequences.extract_if(.., |_, attached| attached.receiving.is_abandoned());
        for (seq, _) in unwanted {
            self.link.say(seq, Body::Cancel(Cancel {}))?;
        }
        for (&seq, attached) in sequences {
            attached.receiving.grant(seq, &mut self.link)?;
        }
        Ok(())
    }
}
