//! The receiving half of every call: messages as checked events.

use std::fmt;
use std::pin::Pin;

use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;

use crate::call::{Call, Hearing};
use crate::checker::{Checker, Incoming, Rules};
use crate::endpoint::Endpoint;
use crate::error::ClientError;

type Messages<W> = Pin<Box<dyn Stream<Item = Result<Incoming<W>, Status>> + Send>>;

/// The events of one call. Dropping it ends the call.
pub(crate) struct Events<R: Rules> {
    endpoint: Endpoint,
    messages: Messages<R::Wire>,
    checker: Checker<R>,
    /// Its drop tells the sending half that the events are gone. None without a sending half.
    _hearing: Option<Hearing>,
}

impl<R: Rules> Events<R> {
    /// Events of `call`, whose messages `read` converts.
    pub(crate) fn new<T: Send + 'static>(
        endpoint: Endpoint,
        call: Call<T>,
        read: fn(T) -> Incoming<R::Wire>,
        checker: Checker<R>,
        hearing: Option<Hearing>,
    ) -> Self
    where
        R::Wire: 'static,
    {
        Self {
            endpoint,
            messages: Box::pin(call.map(move |message| message.map(read))),
            checker,
            _hearing: hearing,
        }
    }

    /// The next event; `None` when the call has ended well. May be dropped and called again without losing events.
    pub(crate) async fn next(&mut self) -> Result<Option<R::Event>, ClientError> {
        loop {
            let Some(message) = self.messages.next().await else {
                return self.checked(|checker| checker.end()).map(|()| None);
            };
            let message = message.map_err(|status| ClientError::from_status(&self.endpoint, &status))?;
            if let Some(event) = self.checked(|checker| checker.event(message))? {
                return Ok(Some(event));
            }
        }
    }

    fn checked<T>(
        &mut self,
        check: impl FnOnce(&mut Checker<R>) -> Result<T, String>,
    ) -> Result<T, ClientError> {
        check(&mut self.checker).map_err(|what| ClientError::protocol(&self.endpoint, what))
    }
}

impl<R: Rules + fmt::Debug> fmt::Debug for Events<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            endpoint, checker, ..
        } = self;
        f.debug_struct("Events")
            .field("endpoint", endpoint)
            .field("checker", checker)
            .finish_non_exhaustive()
    }
}
