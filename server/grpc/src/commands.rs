//! Request messages to commands.

use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use omni_audio::Samples;
use omni_core::caller::Tenant;
use omni_core::error::{ErrorKind, ServeError};
use omni_family::SpeechInfo;
use omni_proto::v1;
use omni_proto::v1::speak_request::Event;
use omni_services::{SpeechRequest, SpeechService};
use omni_session::{CallerGone, Command, ProtocolError};
use tonic::{Code, Status, Streaming};

use super::settings;

/// The commands of a `Speak` call, whose messages have at most `max_message` bytes.
pub(super) fn spoken(
    requests: Streaming<v1::SpeakRequest>,
    info: Arc<SpeechInfo>,
    (service, tenant): (SpeechService, Tenant),
    max_message: usize,
) -> impl Stream<Item = Result<Command, ServeError>> + Unpin {
    let commands = requests.then(move |request| {
        let info = Arc::clone(&info);
        let service = service.clone();
        async move {
            let request = request.map_err(|status| broken(&status, max_message))?;
            match asked(request)? {
                Asked::Command(command) => Ok(command),
                Asked::Settings(request) => configure(&service.imitated(tenant, *request).await?, &info),
            }
        }
    });
    Box::pin(commands)
}

/// Meaning of a message.
pub(super) enum Asked {
    Command(Command),
    /// Settings that were not checked yet.
    Settings(Box<SpeechRequest>),
}

pub(super) fn command(request: v1::SpeakRequest, info: &SpeechInfo) -> Result<Command, ServeError> {
    match asked(request)? {
        Asked::Command(command) => Ok(command),
        Asked::Settings(request) => configure(&request, info),
    }
}

fn configure(request: &SpeechRequest, info: &SpeechInfo) -> Result<Command, ServeError> {
    Ok(Command::Configure(Box::new(request.settings(info)?)))
}

fn asked(request: v1::SpeakRequest) -> Result<Asked, ServeError> {
    let command = match request.event {
        None => Err(ProtocolError::Violation("a message without an event").into()),
        Some(Event::Config(config)) => {
            return Ok(Asked::Settings(Box::new(settings::request(config)?)));
        }
        Some(Event::Text(text)) => Ok(Command::Text {
            text: text.text,
            utterance: text.utterance_id,
        }),
        Some(Event::Flush(_)) => Ok(Command::Flush),
        Some(Event::Finish(_)) => Ok(Command::Finish),
        Some(Event::Cancel(cancel)) => Ok(Command::Cancel {
            utterance: cancel.utterance_id,
            played: cancel.played_samples.map(Samples),
        }),
    };
    command.map(Asked::Command)
}

/// A message is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message too large: at most {limit} bytes are accepted")]
struct MessageTooLarge {
    limit: usize,
}

impl From<MessageTooLarge> for ServeError {
    fn from(error: MessageTooLarge) -> Self {
        Self::new(ErrorKind::InvalidArgument, "MESSAGE_TOO_LARGE", error.to_string()).with_limit(error.limit)
    }
}

/// Error of a broken request stream: a message that cannot be read, or a caller that is gone.
///
/// The codes are those that tonic gives: OUT_OF_RANGE for a message above the limit, UNIMPLEMENTED for one that is
/// compressed, INTERNAL for one that is malformed, CANCELLED, UNAVAILABLE and UNKNOWN for a stream or a connection
/// that was torn down. Any other is an error that the caller must see, and not an end that looks like success.
pub(super) fn broken(status: &Status, max_message: usize) -> ServeError {
    match status.code() {
        Code::OutOfRange | Code::ResourceExhausted => MessageTooLarge { limit: max_message }.into(),
        Code::Unimplemented => {
            ProtocolError::Violation("a message is compressed, expected plain ones").into()
        }
        Code::DeadlineExceeded => {
            ServeError::new(ErrorKind::DeadlineExceeded, "MESSAGE_TIMEOUT", status.message())
        }
        Code::Cancelled | Code::Unavailable | Code::Unknown => CallerGone.into(),
        _ => ProtocolError::Violation("a message could not be decoded").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_torn_stream_means_that_the_caller_is_gone() {
        for n in 1..=16 {
            let code = Code::from_i32(n);
            let gone = matches!(code, Code::Cancelled | Code::Unavailable | Code::Unknown);
            let error = broken(&Status::new(code, ""), 5);
            assert_eq!(error == CallerGone.into(), gone, "{code:?} is {error}");
        }
        let large = broken(&Status::out_of_range("found 6 bytes"), 5);
        assert!(large.to_string().contains("5 bytes"), "{large}");
    }
}
