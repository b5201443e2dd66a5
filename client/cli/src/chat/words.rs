//! Writes text on its own thread, so that a slow reader never delays the conversation.

use std::io::{self, IsTerminal as _, Write};

use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;
use crate::writer::{Writer, WriterGone};

#[derive(Debug)]
enum Item {
    Text(String),
    Written(oneshot::Sender<()>),
}

/// The thread's near end.
#[derive(Debug)]
pub(super) struct Words {
    writer: Writer<Item>,
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

    fn to(name: &str, writer: impl Write + Send + 'static, terminal: bool) -> Self {
        let write = move |items| write_all(writer, items, terminal);
        Self {
            writer: Writer::start(name.to_owned(), write),
            open: false,
        }
    }

    /// Hands over what is in `text`, waiting while too much is still unwritten. May be dropped and called again: the
    /// text stays where it is until there is room.
    pub(super) async fn write(&mut self, text: &mut Option<String>) -> Result<(), WriterGone> {
        let room = self.writer.room().await?;
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
        self.writer.room().await?.send(Item::Written(sender));
        written.await.map_err(|_| WriterGone)
    }

    /// Reason why the writer has stopped.
    pub(super) async fn why(&mut self) -> Failure {
        self.writer.why().await
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
