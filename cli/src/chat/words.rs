//! Writes text on its own thread, so that a slow reader never delays the conversation.

use std::io::{self, IsTerminal as _, Write};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;

/// Pieces of text that may wait to be written.
const QUEUE: usize = 256;

/// The writer has stopped, which it does only when writing failed; [`Words::why`] says why.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriterGone;

enum Item {
    Text(String),
    Written(oneshot::Sender<()>),
}

/// The thread's near end.
#[derive(Debug)]
pub(super) struct Words {
    name: &'static str,
    queue: mpsc::Sender<Item>,
    result: oneshot::Receiver<io::Result<()>>,
    /// The last line has no end yet.
    open: bool,
}

impl Words {
    /// Starts a writer to standard output, or to standard error if that is taken.
    pub(super) fn start(output_is_taken: bool) -> Self {
        if output_is_taken {
            Self::to("standard error", io::stderr(), io::stderr().is_terminal())
        } else {
            Self::to("standard output", io::stdout(), io::stdout().is_terminal())
        }
    }

    fn to(name: &'static str, writer: impl Write + Send + 'static, terminal: bool) -> Self {
        let (queue, items) = mpsc::channel(QUEUE);
        let (report, result) = oneshot::channel();
        thread::spawn(move || {
            // The near end is gone if this fails, and needs no result.
            let _ = report.send(write_all(writer, items, terminal));
        });
        Self {
            name,
            queue,
            result,
            open: false,
        }
    }

    /// Hands over what is in `text`, waiting while too much is still unwritten. May be dropped and called again: the
    /// text stays where it is until there is room.
    pub(super) async fn write(&mut self, text: &mut Option<String>) -> Result<(), WriterGone> {
        let room = self.queue.reserve().await.map_err(|_| WriterGone)?;
        if let Some(text) = text.take().filter(|text| !text.is_empty()) {
            self.open = !text.ends_with('\n');
            room.send(Item::Text(text));
        }
        Ok(())
    }

    /// Ends the line if it is open, and waits until everything is written.
    pub(super) async fn end_line(&mut self) -> Result<(), WriterGone> {
        if self.open {
            self.write(&mut Some("\n".to_owned())).await?;
        }
        let (sender, written) = oneshot::channel();
        let asked = self.queue.send(Item::Written(sender)).await;
        asked.map_err(|_| WriterGone)?;
        written.await.map_err(|_| WriterGone)
    }

    /// Reason why the writer has stopped.
    pub(super) async fn why(&mut self) -> Failure {
        match (&mut self.result).await {
            Ok(Err(error)) => Failure::write(self.name, error),
            Ok(Ok(())) | Err(_) => Failure::write(self.name, io::Error::other("the writer died")),
        }
    }
}

fn write_all(mut writer: impl Write, mut items: mpsc::Receiver<Item>, terminal: bool) -> io::Result<()> {
    while let Some(item) = items.blocking_recv() {
        match item {
            Item::Text(text) => {
                let text = if terminal { harmless(&text) } else { text };
                writer.write_all(text.as_bytes())?;
                writer.flush()?;
            }
            // This fails only if the receiver has gone.
            Item::Written(written) => drop(written.send(())),
        }
    }
    Ok(())
}

/// Removes characters that could command a terminal: a model may write anything.
fn harmless(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_commands() {
        assert_eq!(harmless("a\x1b[2Jb\r\n\tc\u{9b}né€"), "a[2Jb\n\tcné€");
    }
}
