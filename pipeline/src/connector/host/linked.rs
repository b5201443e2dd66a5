//! A sequence whose items come by a link, as seen by the connection of its server: the server is told of their
//! arrival, and may send them itself.

use std::mem;
use std::sync::Arc;

use omni_engine::SeqId;
use parking_lot::Mutex;

use super::stream::StreamState;
use crate::clock::Clock;
use crate::connector::link::LinkError;
use crate::connector::local::EdgeReader;
use crate::connector::meter::{EdgeMeter, EdgeRecord, EdgeSink, Hop, Place};
use crate::connector::rendezvous::{Expected, Rendezvous};
use crate::connector::stream::Receiving;
use crate::item::ItemKind;
use crate::stage::{LinkToken, Notifier, TransferStamps};

/// Expected arrival of a sequence's items by a link.
pub(super) struct Elsewhere {
    expected: Expected,
    kind: Option<ItemKind>,
    passages: Arc<Passages>,
}

/// Transfer stamps of items that the stage has taken and of which the server has not been told. Never more than the
/// edge holds and the stage takes between two calls of [`Elsewhere::passages()`].
#[derive(Debug, Default)]
struct Passages(Mutex<Vec<TransferStamps>>);

impl EdgeSink for Passages {
    fn chunk(&self, _hop: &Hop, chunk: &TransferStamps) {
        self.0.lock().push(*chunk);
    }

    fn closed(&self, _record: &EdgeRecord) {}
}

impl Elsewhere {
    /// Expects the items with that token for a sequence that was opened.
    pub(super) fn expect(
        rendezvous: &Rendezvous,
        token: LinkToken,
        (kind, clock): (Option<ItemKind>, Clock),
    ) -> Result<(EdgeReader, Self), LinkError> {
        let twice = || LinkError::Protocol("two sequences were opened for the same items".to_owned());
        let (items, expected) = rendezvous.expect(token).ok_or_else(twice)?;
        let passages = Arc::<Passages>::default();
        // Only the transfer stamps are read from this edge: the server knows its ends.
        let place = Place {
            stage: "link",
            replica: None,
        };
        let meter = EdgeMeter {
            hop: Hop {
                seq: SeqId(0),
                from: place,
                to: place,
            },
            trace: None,
            clock,
            sink: Arc::clone(&passages) as Arc<dyn EdgeSink>,
        };
        let elsewhere = Self {
            expected,
            kind,
            passages,
        };
        Ok((items.measured_by(meter), elsewhere))
    }

    /// Takes the transfer stamps recorded since the last call.
    pub(super) fn passages(&self) -> Vec<TransferStamps> {
        mem::take(&mut *self.passages.0.lock())
    }
}

impl StreamState {
    /// Returns the edge to the server, which sends the items itself or reports on them, unless a stage has attached
    /// them.
    pub(super) fn take_back(&mut self, here: &Notifier) {
        let elsewhere = self.elsewhere.as_ref().filter(|_| !self.receiving.is_open());
        if let Some(elsewhere) = elsewhere
            && let Some(edge) = elsewhere.expected.take_back(here.clone())
        {
            self.receiving = Receiving::opened(Box::new(edge), elsewhere.kind);
        }
    }
}
