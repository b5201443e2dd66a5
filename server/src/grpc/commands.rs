//! Request messages to commands.

use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream};
use omni_proto::v1;
use omni_proto::v1::speak_request::Event;
use tonic::{Code, Status, Streaming};

use super::settings::settings;
use crate::error::ServeError;
use crate::session::Command;
use crate::stage::SpeechInfo;

/// The commands of a `Speak` call.
pub(super) fn spoken(
    requests: Streaming<v1::SpeakRequest>,
    info: Arc<SpeechInfo>,
) -> impl Stream<Item = Result<Command, ServeError>> + Unpin {
    requests.map(move |request| match request {
        Ok(request) => command(request, &info),
        Err(status) => Err(broken(&status)),
    })
}

/// The commands that a `Synthesize` call stands for.
pub(super) fn whole(
    request: v1::SynthesizeRequest,
    info: &SpeechInfo,
) -> impl Stream<Item = Result<Command, ServeError>> + Unpin + use<> {
    let configure = settings(&request.config.unwrap_or_default(), info).map(configure);
    let text = Command::Text {
        text: request.text,
        utterance: String::new(),
    };
    stream::iter([configure, Ok(text), Ok(Command::Finish)])
}

fn configure(settings: crate::session::Settings) -> Command {
    Command::Configure(Box::new(settings))
}

fn command(request: v1::SpeakRequest, info: &SpeechInfo) -> Result<Command, ServeError> {
    match request.event {
        None => Err(ServeError::Protocol("a message without an event")),
        Some(Event::Config(config)) => settings(&config, info).map(configure),
        Some(Event::Text(text)) => Ok(Command::Text {
            text: text.text,
            utterance: text.utterance_id,
        }),
        Some(Event::Flush(_)) => Ok(Command::Flush),
        Some(Event::Finish(_)) => Ok(Command::Finish),
        Some(Event::Cancel(cancel)) => Ok(Command::Cancel {
            utterance: cancel.utterance_id,
        }),
    }
}

/// Why the request stream broke: a message that cannot be read, or a caller that is gone.
fn broken(status: &Status) -> ServeError {
    match status.code() {
        Code::OutOfRange | Code::ResourceExhausted => {
            ServeError::Protocol("a message is larger than allowed")
        }
        Code::Internal | Code::InvalidArgument => ServeError::Protocol("a message could not be decoded"),
        _ => ServeError::CallerGone,
    }
}
