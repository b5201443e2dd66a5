//! Parsers of request bodies, for tests that feed them arbitrary bytes.

use super::question::ChatBody;
use super::speech::SpeechBody;
use super::{multipart, realtime, stream, unknown};

/// The body of `POST /v1/audio/speech`.
pub fn speech(body: &[u8]) {
    if let Ok((speech, _)) = unknown::read::<SpeechBody>(body)
        && let Ok((sound, ..)) = speech.sound()
    {
        let _ = speech.request(sound);
    }
}

/// The body of `POST /v1/chat/completions`.
pub fn chat(body: &[u8]) {
    if let Ok((question, _)) = unknown::read::<ChatBody>(body)
        && let Ok(sound) = question.sound()
    {
        let _ = (
            question.streams(),
            question.wants_usage(),
            question.ignored(false),
            question.most_calls(),
        );
        let _ = question.request(sound);
    }
}

/// The body of `POST /v1/audio/voices`.
pub fn form(body: &[u8]) {
    multipart::take(body);
}

/// A message of `GET /v1/audio/speech/stream`.
pub fn stream_message(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        stream::take(text);
    }
}

/// An event of `GET /v1/realtime`.
pub fn realtime_event(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        realtime::take(text);
    }
}
