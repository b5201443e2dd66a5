//! `/voice` where no voice is heard.

use std::time::Duration;

use omni_client::{Client, Endpoint, Voice};

use crate::deadline::Deadline;
use crate::failure::Failure;

/// Limit for the list of voices, where no argument sets one.
const ANSWER: Duration = Duration::from_secs(10);

/// Failure of `/voice NAME` in a conversation that is only written: there is no voice of that name, or else no voice
/// is heard.
pub(super) async fn unheard(
    endpoint: &Endpoint,
    model: &str,
    name: Option<&str>,
    timeout: Option<Duration>,
) -> Failure {
    let written = Failure::Usage("answers are only written; --audio-out speaks them".into());
    let Some(name) = name else { return written };
    let ask = async { Client::connect(endpoint).await?.voices(model, "").await };
    let voices = match Deadline::after(Some(timeout.unwrap_or(ANSWER))).within(ask).await {
        Ok(voices) => voices,
        Err(failure) => return failure,
    };
    let called = |voice: &Voice| voice.id == name || voice.aliases.iter().any(|alias| alias == name);
    if voices.iter().any(called) {
        return written;
    }
    let ids: Vec<_> = voices.iter().map(|voice| voice.id.as_str()).collect();
    Failure::Usage(format!(
        "there is no voice {name}, expected one of: {}",
        ids.join(", ")
    ))
}
