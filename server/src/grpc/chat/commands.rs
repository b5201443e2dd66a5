//! Request messages to commands.

use futures::{Stream, StreamExt as _, stream};
use omni_audio::Samples;
use omni_proto::v1;
use omni_proto::v1::converse_request::Event;
use tonic::Streaming;

use super::Known;
use super::audio::{INPUT, samples};
use super::messages::{check_text, message};
use super::settings::{modalities, settings, text};
use crate::error::ServeError;
use crate::grpc::commands::broken;
use crate::grpc::settings::invalid;
use crate::session::{ChatCommand, ChatLimits, NewMessage, RawAudio, Respond};

/// The commands of a `Converse` call, whose messages have at most `max_message` bytes.
pub(super) fn conversation(
    requests: Streaming<v1::ConverseRequest>,
    known: Known,
    max_message: usize,
) -> impl Stream<Item = Result<ChatCommand, ServeError>> + Unpin {
    let mut input = RawAudio::default();
    requests.map(move |request| match request {
        Ok(request) => command(request, &mut input, &known),
        Err(status) => Err(broken(&status, max_message)),
    })
}

/// The commands that a `Generate` call stands for.
pub(super) fn one_answer(
    request: v1::GenerateRequest,
    known: &Known,
) -> impl Stream<Item = Result<ChatCommand, ServeError>> + Unpin + use<> {
    let commands = match whole(request, known) {
        Ok(configure) => vec![Ok(configure), Ok(ChatCommand::Respond(Respond::default()))],
        Err(error) => vec![Err(error)],
    };
    stream::iter(commands)
}

fn whole(request: v1::GenerateRequest, known: &Known) -> Result<ChatCommand, ServeError> {
    let config = request.config.unwrap_or_default();
    if !config.history.is_empty() {
        return Err(invalid(
            "config.history",
            "is given, expected the conversation in messages",
        ));
    }
    if config.input_audio.is_some() {
        return Err(invalid(
            "config.input_audio",
            "is given, but nothing can be said here",
        ));
    }
    if request.messages.is_empty() {
        return Err(invalid("messages", "is empty, expected a conversation"));
    }
    configure(&config, request.messages, "messages", known)
}

fn configure(
    config: &v1::ChatConfig,
    history: Vec<v1::ChatMessage>,
    field: &'static str,
    known: &Known,
) -> Result<ChatCommand, ServeError> {
    let most = ChatLimits::default().max_messages;
    if history.len() > most {
        return Err(invalid(
            field,
            format!("has {} messages, expected at most {most}", history.len()),
        ));
    }
    let history = history.into_iter().map(|said| message(said, known));
    Ok(ChatCommand::Configure {
        settings: Box::new(settings(config, known)?),
        history: history.collect::<Result<Vec<NewMessage>, _>>()?,
    })
}

fn command(
    request: v1::ConverseRequest,
    input: &mut RawAudio,
    known: &Known,
) -> Result<ChatCommand, ServeError> {
    match request.event {
        None => Err(ServeError::Protocol("a message without an event")),
        Some(Event::Config(mut config)) => {
            let history = std::mem::take(&mut config.history);
            let command = configure(&config, history, "config.history", known)?;
            if let ChatCommand::Configure { settings, .. } = &command {
                *input = settings.input;
            }
            Ok(command)
        }
        Some(Event::Message(said)) => message(said, known).map(ChatCommand::Message),
        Some(Event::InputAudio(audio)) => match known.chat.hearing {
            None => Err(ServeError::CannotHear { field: "input_audio" }),
            Some(_) => samples(&audio.data, *input, &INPUT).map(ChatCommand::Audio),
        },
        Some(Event::Commit(commit)) => Ok(ChatCommand::Commit {
            respond: commit.respond,
        }),
        Some(Event::Respond(respond)) => self::respond(&respond, known).map(ChatCommand::Respond),
        Some(Event::Interrupt(interrupt)) => Ok(ChatCommand::Interrupt {
            response: interrupt.response_id,
            played: interrupt.played_samples.map(Samples),
        }),
    }
}

fn respond(respond: &v1::CreateResponse, known: &Known) -> Result<Respond, ServeError> {
    check_text("respond.instructions", respond.instructions.len(), known)?;
    Ok(Respond {
        id: respond.response_id.clone(),
        modalities: modalities(&respond.output_modalities, "respond.output_modalities")?,
        instructions: text(&respond.instructions),
    })
}
