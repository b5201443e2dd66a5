//! The sending half of a speech session.

use omni_audio::Samples;
use omni_proto::v1;
use omni_proto::v1::speak_request::Event;
use tokio::sync::mpsc;

use super::events::UtteranceId;
use super::settings::SpeechSettings;
use crate::call::SessionClosed;

/// Longest text in one message. Longer texts are sent in several; the server joins them as they were.
const MAX_TEXT_BYTES: usize = 16 * 1024;

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

    /// A sender without a call, to replace one whose session shall be closed.
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

    /// No more text for this utterance. Answered by [`crate::SpeechEvent::Done`], unless no utterance was begun.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn finish(&self) -> Result<(), SessionClosed> {
        self.send(Event::Finish(v1::FinishUtterance {})).await
    }

    /// Stop speaking: the open utterance and all that wait behind it. `played` says how much the listener heard, so
    /// that the server can tell which text that was.
    ///
    /// ```no_run
    /// # async fn barge_in(client: omni_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use omni_client::{Finish, Samples, SpeechEvent, SpeechSettings};
    ///
    /// let (say, mut events) = client.speech(&SpeechSettings::default());
    /// say.text("A long story that is not heard to its end. ").await?;
    /// say.finish().await?;
    /// while let Some(event) = events.next().await? {
    ///     match event {
    ///         // The listener began to talk after this much was played.
    ///         SpeechEvent::Audio(_, audio) => say.cancel(Some(Samples(audio.start.0))).await?,
    ///         SpeechEvent::Done(_, done) => {
    ///             assert_eq!(done.outcome.finish, Finish::Interrupted);
    ///             println!("heard: {}", done.text_spoken);
    ///             break;
    ///         }
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
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
