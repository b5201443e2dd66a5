//! The sending half of a speech session.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use omni_audio::Samples;
use omni_proto::v1;
use omni_proto::v1::speak_request::Event;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;

use crate::events::UtteranceId;
use crate::settings::SpeechSettings;

/// Longest text in one message. Longer texts are sent in several; the server joins them as they were.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// The session takes nothing more. Its events say why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SessionClosed;

/// Sends text and commands. Every method waits when the server is slower than the caller, so read the session's
/// events at the same time. Dropping the last clone finishes the open utterance and closes the sending side.
#[derive(Debug, Clone)]
pub struct SpeechSender {
    requests: mpsc::Sender<v1::SpeakRequest>,
}

impl SpeechSender {
    pub(crate) fn new(requests: mpsc::Sender<v1::SpeakRequest>) -> Self {
        Self { requests }
    }

    /// A sender that leads nowhere, to put in the place of one whose session shall be closed.
    #[must_use]
    pub fn closed() -> Self {
        Self::new(mpsc::channel(1).0)
    }

    /// More text. Begins an utterance if none is open. Pieces are joined as they are: whitespace matters.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn text(&self, text: &str) -> Result<(), SessionClosed> {
        self.text_of(&UtteranceId(String::new()), text).await
    }

    /// More text of the utterance with this name, which its first text gives it.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn text_of(&self, utterance: &UtteranceId, text: &str) -> Result<(), SessionClosed> {
        for piece in pieces(text) {
            self.send(Event::Text(v1::TextChunk {
                text: piece.to_owned(),
                utterance_id: utterance.0.clone(),
            }))
            .await?;
        }
        Ok(())
    }

    /// Speak what has been sent so far; the utterance goes on.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn flush(&self) -> Result<(), SessionClosed> {
        self.send(Event::Flush(v1::FlushText {})).await
    }

    /// No more text for this utterance. Answered by [`crate::SpeechEvent::Done`].
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn finish(&self) -> Result<(), SessionClosed> {
        self.send(Event::Finish(v1::FinishUtterance {})).await
    }

    /// Stop speaking: the open utterance and all that wait behind it. `played` says how much the listener heard, so that
    /// the server can tell which text that was.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn cancel(&self, played: Option<Samples>) -> Result<(), SessionClosed> {
        let cancel = v1::CancelUtterance {
            utterance_id: String::new(),
            played_samples: played.map(|played| played.0),
        };
        self.send(Event::Cancel(cancel)).await
    }

    /// New settings from the next utterance on. Only between utterances.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn configure(&self, settings: &SpeechSettings) -> Result<(), SessionClosed> {
        self.send(Event::Config(settings.to_proto())).await
    }

    async fn send(&self, event: Event) -> Result<(), SessionClosed> {
        let request = v1::SpeakRequest { event: Some(event) };
        self.requests.send(request).await.map_err(|_| SessionClosed)
    }
}

/// What the transport sends: everything from the senders, until the last of them or the listener has gone.
///
/// The transport ends a call only when both of its directions are let go, so the sending one must not outlive the other.
#[derive(Debug)]
pub(crate) struct Outgoing {
    requests: mpsc::Receiver<v1::SpeakRequest>,
    /// Resolves when the events are dropped; nothing is ever sent.
    listener: oneshot::Receiver<Infallible>,
}

impl Outgoing {
    pub(crate) fn new(
        requests: mpsc::Receiver<v1::SpeakRequest>,
        listener: oneshot::Receiver<Infallible>,
    ) -> Self {
        Self { requests, listener }
    }
}

impl Stream for Outgoing {
    type Item = v1::SpeakRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.listener.is_terminated() || Pin::new(&mut self.listener).poll(context).is_ready() {
            self.requests.close();
            return Poll::Ready(None);
        }
        self.requests.poll_recv(context)
    }
}

/// Cuts `text` into messages, never inside a character.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, later) = rest.split_at(rest.floor_char_boundary(MAX_TEXT_BYTES));
        rest = later;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters_and_nothing_is_lost() {
        let text = "né€𝄞".repeat(9_000);
        let cut: Vec<&str> = pieces(&text).collect();
        assert!(cut.len() > 5 && cut.iter().all(|piece| piece.len() <= MAX_TEXT_BYTES));
        assert_eq!(cut.concat(), text);
        assert_eq!(pieces("").count(), 0);
    }
}
