//! One request to speak, in the manner of a listener that may be slow, may stream the text and may lose interest.

use std::pin::Pin;
use std::time::Duration;

use omni_client::{Client, ClientError, SpeechEvent, SpeechSender, SpeechSettings};
use tokio::time::{Instant, sleep_until};

use super::heard::Heard;
use super::record::Served;

/// Audio that a listener that reads in real time holds ready.
const READ_AHEAD: Duration = Duration::from_secs(1);

type Feeding<'f> = Pin<Box<dyn Future<Output = Option<Duration>> + Send + 'f>>;

/// Pacing of the text of a request and of the reads of its answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// Words of the text sent per second; absent: all at once.
    pub tokens_per_second: Option<f64>,
    /// Read audio no faster than it plays.
    pub real_time: bool,
}

/// Speaks `text` in its own session, and cancels it when `heard` says so.
pub(crate) async fn speak(
    client: &Client,
    settings: &SpeechSettings,
    text: &str,
    manner: Manner,
    heard: &mut Heard,
) -> Result<(), ClientError> {
    let sent = Instant::now();
    let (say, mut events) = client.speech(settings);
    let cancel_at = heard.cancel_after.map(|after| sent + after);
    // A request that may be cancelled keeps a sender; without one the sending side closes with the end of the text.
    let mut canceller = cancel_at.map(|_| say.clone());
    let mut feeding: Option<Feeding<'_>> = Some(Box::pin(feed(say, text, manner, sent)));
    let mut read_at = sent;
    loop {
        tokio::select! {
            biased;
            () = until(cancel_at), if canceller.is_some() => {
                // The remaining text is not sent.
                feeding = None;
                if let Some(say) = canceller.take() {
                    heard.cancelled = Some(sent.elapsed());
                    // A session that closes early says why in its events.
                    let _ = say.cancel(None).await;
                }
            }
            sentence = run(&mut feeding), if feeding.is_some() => {
                feeding = None;
                heard.sentence = sentence;
            }
            event = next(&mut events, read_at) => match event? {
                Some(SpeechEvent::Ready(ready)) => heard.served = Some(Served::of(&ready)),
                Some(SpeechEvent::Audio(_, audio)) => {
                    heard.audio(sent.elapsed(), &audio);
                    read_at = manner.next_read(sent, heard);
                }
                Some(SpeechEvent::Done(_, done)) => {
                    heard.done(sent.elapsed(), done.outcome);
                    (canceller, feeding) = (None, None);
                }
                Some(SpeechEvent::Started(_) | SpeechEvent::Alignment(..) | SpeechEvent::Warning(_)) => {}
                None => return Ok(()),
            },
        }
    }
}

impl Manner {
    /// Time at which the next audio is read.
    fn next_read(self, sent: Instant, heard: &Heard) -> Instant {
        let first = heard.chunks.first().map_or(0.0, |chunk| chunk.0);
        let audio: f64 = heard.chunks.iter().map(|chunk| chunk.1).sum();
        let ahead = Duration::from_secs_f64(first + audio).saturating_sub(READ_AHEAD);
        if self.real_time { sent + ahead } else { sent }
    }
}

async fn next(
    events: &mut omni_client::SpeechEvents,
    at: Instant,
) -> Result<Option<SpeechEvent>, ClientError> {
    sleep_until(at).await;
    events.next().await
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn run(feeding: &mut Option<Feeding<'_>>) -> Option<Duration> {
    match feeding {
        Some(feeding) => feeding.await,
        None => std::future::pending().await,
    }
}

/// Sends the text and finishes the utterance. Of a text that is streamed: when the token was sent that completed the
/// first sentence.
async fn feed(say: SpeechSender, text: &str, manner: Manner, sent: Instant) -> Option<Duration> {
    // A session that closes early says why in its events.
    let Some(rate) = manner.tokens_per_second else {
        let _ = say.text(text).await;
        let _ = say.finish().await;
        return None;
    };
    let complete = first_sentence(text);
    let mut at = 0;
    let mut sentence = None;
    for (number, token) in (0_u32..).zip(tokens(text)) {
        sleep_until(sent + Duration::from_secs_f64(f64::from(number) / rate)).await;
        say.text(token).await.ok()?;
        at += token.len();
        if at >= complete {
            sentence.get_or_insert(sent.elapsed());
        }
    }
    let _ = say.finish().await;
    sentence
}

/// Words with the blanks before them: roughly a language model's tokens.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.len() - rest.trim_start().len();
        let end = rest[word..]
            .find(char::is_whitespace)
            .map_or(rest.len(), |end| word + end);
        let (token, later) = rest.split_at(end);
        rest = later;
        (!token.is_empty()).then_some(token)
    })
}

/// End of the first sentence, its full stop included: the end of the text if there is none.
fn first_sentence(text: &str) -> usize {
    let ends = |(at, c): (usize, char)| {
        let end = at + c.len_utf8();
        let whole = text[end..].chars().next().is_none_or(char::is_whitespace);
        (matches!(c, '.' | '!' | '?') && whole).then_some(end)
    };
    text.char_indices().find_map(ends).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_text_in_pieces() {
        for text in ["One, two  three.\n", " a", "", "é è", "   "] {
            assert_eq!(tokens(text).collect::<String>(), text);
        }
        assert_eq!(
            tokens("One, two  three.").collect::<Vec<_>>(),
            ["One,", " two", "  three."]
        );
    }

    #[test]
    fn the_first_sentence_ends_with_its_full_stop() {
        assert_eq!(first_sentence("Yes! And no."), 4);
        assert_eq!(first_sentence("It costs 5.20 in all. Well."), 21);
        assert_eq!(first_sentence("no end"), 6);
        assert_eq!(first_sentence(""), 0);
    }
}
