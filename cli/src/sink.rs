//! Audio on its way into a file or a pipe, and to the sound device.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use omni_client::Audio;
use tokio::sync::mpsc;

use super::failure::Failure;
use super::output::Output;
use super::speaker::Speaker;
use super::writer::{Writer, WriterGone};

/// The near end of what writes it.
#[derive(Debug)]
pub(crate) struct Sink {
    writer: Writer<Audio>,
    hush: Arc<AtomicBool>,
}

impl Sink {
    pub(crate) fn start(output: Output) -> Self {
        Self::begin(output, false)
    }

    /// Plays the audio on the sound device, too.
    pub(crate) fn heard(output: Output) -> Self {
        Self::begin(output, true)
    }

    fn begin(output: Output, play: bool) -> Self {
        let hush = Arc::<AtomicBool>::default();
        let speaker = play.then(|| hush.clone());
        let writer = Writer::start(output.name(), move |queue| write_all(output, queue, speaker));
        Self { writer, hush }
    }

    /// Stops playing. The rest is written all the same.
    pub(crate) fn hush(&self) {
        self.hush.store(true, Ordering::Relaxed);
    }

    /// Hands over what is in `audio`, as [`Writer::write`] does.
    pub(crate) async fn write(&self, audio: &mut Option<Audio>) -> Result<(), WriterGone> {
        self.writer.write(audio).await
    }

    /// Waits until everything is written and the file is complete.
    pub(crate) async fn finish(self) -> Result<(), Failure> {
        self.writer.finish().await
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
    // Even after a failure the file must be playable.
    let finished = output.finish();
    if let Some(speaker) = &mut speaker {
        speaker.finish();
    }
    result.and(finished)
}
