//! Writes audio on a thread of its own, so that a slow disk or a player that plays in real time never holds up the
//! session, and Ctrl-C is heard at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use omni_client::Audio;
use tokio::sync::{mpsc, oneshot};

use super::failure::Failure;
use super::output::Output;
use super::speaker::Speaker;

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
    hush: Arc<AtomicBool>,
}

impl Sink {
    pub(crate) fn start(output: Output) -> Self {
        Self::begin(output, false)
    }

    /// Plays through the sound device what it writes.
    pub(crate) fn heard(output: Output) -> Self {
        Self::begin(output, true)
    }

    fn begin(output: Output, play: bool) -> Self {
        let hush = Arc::<AtomicBool>::default();
        let speaker = play.then(|| hush.clone());
        let (queue, audio) = mpsc::channel(QUEUE);
        let (report, result) = oneshot::channel();
        let name = output.name();
        thread::spawn(move || {
            // The near end is gone if this fails, and with it the wish to know.
            let _ = report.send(write_all(output, audio, speaker));
        });
        Self {
            name,
            queue,
            result,
            hush,
        }
    }

    /// Nobody wants to hear the rest. It is written all the same.
    pub(crate) fn hush(&self) {
        self.hush.store(true, Ordering::Relaxed);
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

/// `speaker`: play it too, until this is set.
fn write_all(
    mut output: Output,
    mut queue: mpsc::Receiver<Audio>,
    speaker: Option<Arc<AtomicBool>>,
) -> io::Result<()> {
    let (mut speaker, mut result) = match speaker.map(Speaker::open).transpose() {
        Ok(speaker) => (speaker, Ok(())),
        Err(error) => (None, Err(error)),
    };
    while result.is_ok() {
        match queue.blocking_recv() {
            Some(audio) => {
                let written = output.write(audio.rate, &audio.pcm);
                result =
                    written.and_then(|()| speaker.as_mut().map_or(Ok(()), |speaker| speaker.play(&audio)));
            }
            None => break,
        }
    }
    // Even after a failure: what is in the file shall be playable.
    let finished = output.finish();
    if let Some(speaker) = &mut speaker {
        speaker.finish();
    }
    result.and(finished)
}
