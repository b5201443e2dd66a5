//! Audio on its way into a file or a pipe.

use std::io;

use omni_client::Audio;
use tokio::sync::mpsc;

use super::output::Output;
use super::writer::Writer;

/// The near end of the thread that writes it.
pub(crate) type Sink = Writer<Audio>;

impl Sink {
    pub(crate) fn to(output: Output) -> Self {
        Self::start(output.name(), move |queue| write_all(output, queue))
    }
}

fn write_all(mut output: Output, mut queue: mpsc::Receiver<Audio>) -> io::Result<()> {
    let mut result = Ok(());
    while result.is_ok()
        && let Some(audio) = queue.blocking_recv()
    {
        result = output.write(audio.rate, &audio.pcm);
    }
    // Even after a failure the file must be playable.
    let finished = output.finish();
    result.and(finished)
}
