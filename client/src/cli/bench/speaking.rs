//! One request to speak.

use omni_client::{Client, ClientError, SpeechEvent, SpeechSettings};
use tokio::time::Instant;

use super::record::Heard;

/// Speaks `text` in a session of its own.
pub(super) async fn speak(
    client: &Client,
    settings: &SpeechSettings,
    text: &str,
    heard: &mut Heard,
) -> Result<(), ClientError> {
    let sent = Instant::now();
    let (say, mut events) = client.speech(settings);
    // A session that closes early says why in its events.
    let _ = say.text(text).await;
    let _ = say.finish().await;
    drop(say);
    while let Some(event) = events.next().await? {
        match event {
            SpeechEvent::Audio(_, audio) => heard.audio(sent.elapsed(), &audio),
            SpeechEvent::Done(_, done) => heard.done = Some(done.outcome),
            SpeechEvent::Ready(_) | SpeechEvent::Started(_) | SpeechEvent::Warning(_) => {}
        }
    }
    Ok(())
}
