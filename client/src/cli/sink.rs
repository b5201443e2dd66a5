//! Writes audio on a thread of its own, so that a slow disk or a player that plays in real time never holds up the
//! session, and Ctrl-C is heard at once.

use std::io;
use std::thread;

use omni_client::Audio;
use tokio::sync::{mpsc, oneshot};

use super::failure::Failure;
use super::output::Output;

/// Pieces of audio that may wait to be written. When they do, the session stops reading and the server feels it.
const QUEUE: usize = 256;

/// The writer has stopped early, which it does only when writing failed; [`Sink::finish`] says why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterGone;

/// The thread's near end.
#[derive(Debug)]
pub(crate) struct Sink {
    name: String,
    queue: mpsc::Sender<Audio>,
    result: oneshot::Receiver<io::Result<()>>,
}

impl Sink {
    pub(crate) fn start(output: Output) -> Self {
        let (queue, audio) = mpsc::channel(QUEUE);
        let (report, result) = oneshot::channel();
        let name = output.name();
        thread::spawn(move || {
            // The near end is gone if this fails, and with it the wish to know.
            let _ = report.send(write_all(output, audio));
        });
        Self { name, queue, result }
    }

    /// Hands over what is in `audio`, waiting while too much is still unwritten. May be dropped and called again: the
    /// audio stays where it is until there is room.
    pub(crate) async fn write(&self, audio: &mut Option<Audio>) -> Result<(), WriterGone> {
        let room = self.queue.reserve().await.map_err(|_| WriterGone)?;
        if let Some(audio) = audio.take() {
            room.send(audio);
        }
        Ok(())
    }

    /// Waits until everything is written and the file is in order.
    pub(crate) async fn finish(self) -> Result<(), Failure> {
        drop(self.queue);
        let result = self
            .result
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the writer died")));
        result.map_err(|error| Failure::write(&self.name, error))
    }
}

fn write_all(mut output: Output, mut queue: mpsc::Receiver<Audio>) -> io::Result<()> {
    let mut result = Ok(());
    while result.is_ok() {
        match queue.blocking_recv() {
            Some(audio) => result = output.write(audio.rate, &audio.pcm),
            None => break,
        }
    }
    // Even after a failure: what is in the file shall be playable.
    let finished = output.finish();
    result.and(finished)
}
