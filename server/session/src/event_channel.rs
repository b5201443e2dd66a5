//! Channel from a session to its reader.
//!
//! A bounded queue of events with one slot reserved for the status: for a reader any distance behind, the error that
//! ends the session is the last message. Without it a cut stream would look like one that ended well.

use omni_core::error::ServeError;
use tokio::sync::mpsc::{self, OwnedPermit, Receiver, Sender};

/// Sending end of a session's events. Dropping it ends the stream.
#[derive(Debug)]
pub struct EventSender<E> {
    pub(super) events: Sender<Result<E, ServeError>>,
    status: Option<OwnedPermit<Result<E, ServeError>>>,
}

/// Creates a channel for `capacity` events and a status.
///
/// # Panics
/// If the capacity is more than a channel can have.
pub fn event_channel<E>(capacity: usize) -> (EventSender<E>, Receiver<Result<E, ServeError>>) {
    let (events, receiver) = mpsc::channel(capacity + 1);
    let status = events.clone().try_reserve_owned().ok();
    (EventSender { events, status }, receiver)
}

impl<E> EventSender<E> {
    /// Ends the stream with `error`. Never waits.
    pub(super) fn fail(self, error: ServeError) {
        if let Some(status) = self.status {
            status.send(Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omni_core::drain::ShutdownError;

    #[tokio::test]
    async fn a_status_has_room_behind_events_that_are_not_taken() {
        let (sender, mut receiver) = event_channel(2);
        for event in 0..2 {
            sender.events.try_send(Ok(event)).expect("there is room");
        }
        assert!(sender.events.try_send(Ok(2)).is_err(), "the last place is kept");
        sender.fail(ShutdownError::Stopped.into());
        let mut taken = Vec::new();
        while let Some(event) = receiver.recv().await {
            taken.push(event.map_err(|error| error.reason()));
        }
        let stopped = ServeError::from(ShutdownError::Stopped).reason();
        assert_eq!(taken, [Ok(0), Ok(1), Err(stopped)]);
    }
}
