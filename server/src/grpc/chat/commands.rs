//! Request messages to commands.

use futures::{Stream, StreamExt as _, stream};
use omni_audio::{Decoder, InputFormat, Samples};
use omni_proto::v1;
use omni_proto::v1::content_part::Part;
use omni_proto::v1::converse_request::Event;
use tonic::Streaming;

use super::Known;
use super::audio::{INPUT, decoder, undecodable};
use super::messages::{check_text, message, without_tools};
use super::settings::{modalities, settings, text};
use crate::error::ServeError;
use crate::grpc::commands::broken;
use crate::grpc::settings::invalid;
use crate::session::{ChatCommand, ChatLimits, ProtocolError, Respond};
use crate::stage::{AudioInputError, Hearing, StageError};

/// Most bytes of recordings that are decoded where others' audio passes.
const SHORT: usize = 32 << 10;

/// The commands of a `Converse` call, whose messages have at most `max_message` bytes.
pub(super) fn conversation(
    requests: Streaming<v1::ConverseRequest>,
    known: Known,
    max_message: usize,
) -> impl Stream<Item = Result<ChatCommand, ServeError>> + Unpin {
    let mut ear = Ear::default();
    requests.flat_map(move |request| {
        let mut commands = Vec::new();
        let last = match request {
            Ok(request) => command(request, &mut ear, &known, &mut commands),
            Err(status) => Err(broken(&status, max_message)),
        };
        stream::iter(commands.into_iter().map(Ok).chain([last]))
    })
}

/// Takes the messages of a call, whatever comes of it.
pub(super) fn take(requests: impl Iterator<Item = v1::ConverseRequest>, known: &Known) {
    let (mut ear, mut commands) = (Ear::default(), Vec::new());
    for request in requests {
        let _ = command(request, &mut ear, known, &mut commands);
    }
}

/// What the user is saying, on its way from bytes to samples.
#[derive(Debug, Default)]
struct Ear {
    /// None until the configuration has come.
    format: Option<InputFormat>,
    /// None between the turns of the user.
    decoder: Option<Decoder>,
}

impl Ear {
    fn hear(&mut self, data: &[u8], hearing: Hearing) -> Result<ChatCommand, ServeError> {
        let format = self.format.ok_or(ProtocolError::NO_CONFIG)?;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(decoder(format, hearing, &INPUT)?),
        };
        let mut samples = Vec::new();
        let pushed = decoder.push(data, &mut samples);
        pushed.map_err(|error| undecodable(error, hearing, &INPUT))?;
        Ok(ChatCommand::Audio(samples))
    }

    /// The turn is over: gives what was still on its way.
    fn close(&mut self, known: &Known) -> Result<Option<ChatCommand>, ServeError> {
        let (Some(decoder), Some(hearing)) = (self.decoder.take(), known.chat.hearing) else {
            return Ok(None);
        };
        let mut rest = Vec::new();
        let finished = decoder.finish(&mut rest);
        finished.map_err(|error| undecodable(error, hearing, &INPUT))?;
        Ok((!rest.is_empty()).then_some(ChatCommand::Audio(rest)))
    }
}

/// The commands that a `Generate` call stands for. Recordings are decoded where nobody's audio waits for that, and `place` is kept
/// meanwhile, also if nobody waits for it any more.
///
/// # Errors
/// If that panics.
pub(super) async fn one_answer<P: Send + 'static>(
    request: v1::GenerateRequest,
    known: &Known,
    place: P,
) -> Result<
    (
        impl Stream<Item = Result<ChatCommand, ServeError>> + Unpin + use<P>,
        P,
    ),
    ServeError,
> {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let recorded = parts.map(|content| match &content.part {
        Some(Part::Audio(clip)) => clip.data.len(),
        _ => 0,
    });
    let long = recorded.sum::<usize>() > SHORT;
    let known = known.clone();
    let read = move || (whole(request, &known), place);
    let span = tracing::Span::current();
    let (read, place) = match long {
        false => read(),
        true => tokio::task::spawn_blocking(move || span.in_scope(read))
            .await
            .map_err(|_| StageError::panicked("session"))?,
    };
    let commands = match read {
        Ok(configure) => vec![Ok(configure), Ok(ChatCommand::Respond(Respond::default()))],
        Err(error) => vec![Err(error)],
    };
    Ok((stream::iter(commands), place))
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
    let (mut settings, mut said) = (settings(config, known)?, Vec::with_capacity(history.len()));
    for mut one in history {
        if without_tools(&mut one, known, &mut settings.speech.ignored)? {
            said.push(message(one, known)?);
        }
    }
    Ok(ChatCommand::Configure {
        settings: Box::new(settings),
        history: said,
    })
}

/// The command of a message. What has to come before it goes to `first`.
fn command(
    request: v1::ConverseRequest,
    ear: &mut Ear,
    known: &Known,
    first: &mut Vec<ChatCommand>,
) -> Result<ChatCommand, ServeError> {
    match request.event {
        None => Err(ProtocolError::Violation("a message without an event").into()),
        Some(Event::Config(mut config)) => {
            let history = std::mem::take(&mut config.history);
            let command = configure(&config, history, "config.history", known)?;
            first.extend(ear.close(known)?);
            if let ChatCommand::Configure { settings, .. } = &command {
                ear.format = settings.input;
            }
            Ok(command)
        }
        Some(Event::Message(said)) => message(said, known).map(ChatCommand::Message),
        Some(Event::InputAudio(audio)) => match known.chat.hearing {
            None => Err(AudioInputError::NotSupported { field: "input_audio" }.into()),
            Some(hearing) => ear.hear(&audio.data, hearing),
        },
        Some(Event::Commit(commit)) => {
            first.extend(ear.close(known)?);
            Ok(ChatCommand::Commit {
                respond: commit.respond,
            })
        }
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
