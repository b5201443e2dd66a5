//! A thread that writes, so that a slow disk, a real-time player or a paused reader never delays the session, and
//! Ctrl-C works at once.

use std::io;
use std::thread;

use tokio::sync::{mpsc, oneshot};

use super::failure::Failure;

/// Pieces that may wait to be written. When they do, the session stops reading and the server feels it.
const QUEUE: usize = 256;

/// The writer has stopped early, which it does only when writing failed; [`Writer::finish`] says why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterGone;

/// Handle of the thread. Dropping it lets the thread finish, without waiting.
#[derive(Debug)]
pub(crate) struct Writer<T> {
    name: String,
    queue: mpsc::Sender<T>,
    result: oneshot::Receiver<io::Result<()>>,
}

impl<T: Send + 'static> Writer<T> {
    /// Starts `work`, which writes the items of the queue to the destination `name`, until the queue ends.
    pub(crate) fn start(
        name: String,
        work: impl FnOnce(mpsc::Receiver<T>) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let (queue, pieces) = mpsc::channel(QUEUE);
        let (report, result) = oneshot::channel();
        thread::spawn(move || {
            // The near end is gone if this fails, and with it the wish to know.
            let _ = report.send(work(pieces));
        });
        Self { name, queue, result }
    }

    /// Hands over what is in `piece`, waiting while too much is still unwritten. May be dropped and called again: the
    /// piece stays where it is until there is room.
    pub(crate) async fn write(&self, piece: &mut Option<T>) -> Result<(), WriterGone> {
        let room = self.room().await?;
        if let Some(piece) = piece.take() {
            room.send(piece);
        }
        Ok(())
    }

    /// Waits for room for one more piece.
    pub(crate) async fn room(&self) -> Result<mpsc::Permit<'_, T>, WriterGone> {
        self.queue.reserve().await.map_err(|_| WriterGone)
    }

    /// Reason why it has stopped early.
    pub(crate) async fn why(&mut self) -> Failure {
        let error = match (&mut self.result).await {
            Ok(Err(error)) => error,
            Ok(Ok(())) | Err(_) => io::Error::other("the writer died"),
        };
        Failure::write(&self.name, error)
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) -> Result<(), Failure> {
        drop(self.queue);
        let result = self
            .result
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the writer died")));
        result.map_err(|error| Failure::write(&self.name, error))
    }
}
