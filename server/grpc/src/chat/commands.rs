//! Request messages to commands.

use futures::{Stream, StreamExt as _, stream};
use omni_audio::Samples;
use omni_core::error::ServeError;
use omni_proto::v1;
use omni_proto::v1::converse_request::Event;
use omni_services::chat::audio::InputAudio;
use omni_services::settings::invalid;
use omni_services::{ChatModel, ChatRequest};
use omni_session::{ChatCommand, ProtocolError, Respond};
use tonic::Streaming;

use super::messages;
use super::settings::{self, modalities};
use crate::commands::broken;

/// The commands of a `Converse` call, whose messages have at most `max_message` bytes.
pub(super) fn conversation(
    requests: Streaming<v1::ConverseRequest>,
    model: ChatModel,
    max_message: usize,
) -> impl Stream<Item = Result<ChatCommand, ServeError>> + Unpin {
    let mut input = InputAudio::default();
    requests.flat_map(move |request| {
        let mut commands = Vec::new();
        let last = match request {
            Ok(request) => command(request, &mut input, &model, &mut commands),
            Err(status) => Err(broken(&status, max_message)),
        };
        stream::iter(commands.into_iter().map(Ok).chain([last]))
    })
}

/// Converts the messages of a call; for tests.
pub(super) fn take(requests: impl Iterator<Item = v1::ConverseRequest>, model: &ChatModel) {
    let mut input = InputAudio::default();
    let mut commands = Vec::new();
    for request in requests {
        let _ = command(request, &mut input, model, &mut commands);
    }
}

/// Request of a `Generate` call.
pub(super) fn generate(request: v1::GenerateRequest) -> Result<ChatRequest, ServeError> {
    let mut config = request.config.unwrap_or_default();
    if !config.history.is_empty() {
        return Err(invalid(
            "config.history",
            "is given, expected the conversation in messages",
        ));
    }
    config.history = request.messages;
    // Here a field that is set means that audio will come.
    let input = config.input_audio.map(|_| Default::default());
    let request = settings::request(config)?;
    Ok(ChatRequest {
        input: request.input.or(input),
        ..request
    })
}

/// Command of a message. Commands that must come before it go to `first`.
fn command(
    request: v1::ConverseRequest,
    input: &mut InputAudio,
    model: &ChatModel,
    first: &mut Vec<ChatCommand>,
) -> Result<ChatCommand, ServeError> {
    match request.event {
        None => Err(ProtocolError::Violation("a message without an event").into()),
        Some(Event::Config(config)) => {
            let command = model.configure(settings::request(config)?, "config.history")?;
            first.extend(input.close(model)?);
            if let ChatCommand::Configure { settings, .. } = &command {
                input.format = settings.input;
            }
            Ok(command)
        }
        Some(Event::Message(said)) => model.message(messages::request(said)?).map(ChatCommand::Message),
        Some(Event::InputAudio(audio)) => input.push(&audio.data, model),
        Some(Event::Commit(commit)) => {
            first.extend(input.close(model)?);
            Ok(ChatCommand::Commit {
                respond: commit.respond,
            })
        }
        Some(Event::Respond(respond)) => self::respond(&respond, model).map(ChatCommand::Respond),
        Some(Event::Interrupt(interrupt)) => Ok(ChatCommand::Interrupt {
            response: interrupt.response_id,
            played: interrupt.played_samples.map(Samples),
        }),
    }
}

fn respond(respond: &v1::CreateResponse, model: &ChatModel) -> Result<Respond, ServeError> {
    model.check_text("respond.instructions", respond.instructions.len())?;
    let instructions = respond.instructions.as_str();
    Ok(Respond {
        id: respond.response_id.clone(),
        modalities: modalities(&respond.output_modalities, "respond.output_modalities")?,
        instructions: (!instructions.is_empty()).then(|| instructions.into()),
        given: None,
    })
}
