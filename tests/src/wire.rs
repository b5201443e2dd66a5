//! A bidirectional stream of either service, with a record of everything received.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// End of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It has not.
    Open,
    /// With OK.
    Ok,
    /// Ended with a status.
    Status(Code),
}

/// Messages of one stream.
#[derive(Debug, Clone)]
pub struct Received<R> {
    /// In order.
    pub responses: Vec<R>,
    /// End of the stream.
    pub ending: Ending,
    names: Arc<Mutex<Vec<String>>>,
}

impl<R> Received<R> {
    /// Names that the caller gave, in the order in which they were first sent.
    pub fn names(&self) -> Vec<String> {
        self.names.lock().clone()
    }
}

/// An open stream.
#[derive(Debug)]
pub(crate) struct Wire<Q, R> {
    requests: Option<mpsc::Sender<Q>>,
    responses: Streaming<R>,
    pub(crate) received: Received<R>,
}

impl<Q, R: Clone> Wire<Q, R> {
    /// Opens a stream by `call`, with a deadline if one is given.
    ///
    /// # Errors
    /// The status of the refusal.
    pub(crate) async fn open<F>(
        deadline: Option<Duration>,
        call: impl FnOnce(Request<ReceiverStream<Q>>) -> F,
    ) -> Result<Self, Status>
    where
        F: Future<Output = Result<Response<Streaming<R>>, Status>>,
    {
        let (requests, receiver) = mpsc::channel(64);
        let mut request = Request::new(ReceiverStream::new(receiver));
        if let Some(deadline) = deadline {
            request.set_timeout(deadline);
        }
        // The server must answer before it was sent anything.
        let response = tokio::time::timeout(PATIENCE, call(request)).await;
        Ok(Self {
            requests: Some(requests),
            responses: response.expect("an answer in time")?.into_inner(),
            received: Received {
                responses: Vec::new(),
                ending: Ending::Open,
                names: Arc::default(),
            },
        })
    }

    pub(crate) async fn send(&self, request: Q) {
        let requests = self.requests.as_ref().expect("the sending side is open");
        // A server that has ended the call takes nothing more; the test sees that in the responses.
        let _ = requests.send(request).await;
    }

    /// The caller names something.
    pub(crate) fn names(&self, name: &str) {
        let mut names = self.received.names.lock();
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }

    /// Closes the sending side.
    pub(crate) fn hang_up(&mut self) {
        self.requests = None;
    }

    /// The next response; `None` when the stream has ended well.
    ///
    /// # Errors
    /// The status with which it has ended otherwise.
    pub(crate) async fn next(&mut self) -> Result<Option<R>, Status> {
        let message = tokio::time::timeout(PATIENCE, self.responses.message()).await;
        let message = message.expect("an answer in time");
        match &message {
            Ok(Some(response)) => self.received.responses.push(response.clone()),
            Ok(None) => self.received.ending = Ending::Ok,
            Err(status) => self.received.ending = Ending::Status(status.code()),
        }
        message
    }

    /// Receives until the end of the stream.
    ///
    /// # Errors
    /// The status, if it is not OK.
    pub(crate) async fn end(&mut self) -> Result<Received<R>, Status> {
        while self.next().await?.is_some() {}
        Ok(self.received.clone())
    }
}
