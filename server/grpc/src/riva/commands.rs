//! Riva's requests to commands.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::Arc;

use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use omni_audio::{Encoding, Format, InputEncoding, InputFormat, SampleRate};
use omni_core::caller::Tenant;
use omni_core::error::ServeError;
use omni_family::SpeechInfo;
use omni_pipeline::request::VoicePrompt;
use omni_proto::riva::tts::{SynthesizeSpeechRequest, ZeroShotData};
use omni_proto::riva::{AudioEncoding, RequestId};
use omni_services::delivery::{OutputRequest, UnsupportedFormat};
use omni_services::settings::invalid;
use omni_services::voices::{Imitation, Recording};
use omni_services::{SpeechRequest, SpeechService};
use omni_session::{Command, Settings};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tonic::Streaming;

use crate::commands::broken;

/// Prefixes of the names of NVIDIA's own voices, one of which its clients send by default.
const NVIDIA_VOICES: [&str; 2] = ["Magpie-", "English-US"];

/// Ids of the requests whose utterances have not begun, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids(Arc<Mutex<VecDeque<Option<RequestId>>>>);

impl Ids {
    fn push(&self, id: Option<RequestId>) {
        self.0.lock().push_back(id);
    }

    /// Id of the utterance that begins.
    pub(super) fn next(&self) -> Option<RequestId> {
        let mut ids = self.0.lock();
        ids.pop_front().flatten()
    }
}

/// Commands of a `Synthesize` call. The call ends when the other side of `refused` is dropped, with its error if
/// there is one.
pub(super) fn whole(
    request: SynthesizeSpeechRequest,
    imitated: Imitated,
    info: &SpeechInfo,
    refused: oneshot::Receiver<ServeError>,
) -> impl Stream<Item = Result<Command, ServeError>> + Unpin + use<> {
    let configure = imitated
        .and_then(|imitated| checked(&request, imitated, info, true))
        .map(|mut settings| {
            settings.delivery.whole = true;
            Command::Configure(Box::new(settings))
        });
    let commands = stream::iter([configure, Ok(text(request.text)), Ok(Command::Finish)]);
    let refused = refused
        .into_stream()
        .filter_map(|error| ready(error.ok().map(Err)));
    commands.chain(refused)
}

/// Bounds of messages, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Most bytes of a message.
    pub(super) message: usize,
    /// Most text of one utterance; further text begins another.
    pub(super) utterance: usize,
}

/// Commands of a `SynthesizeOnline` call. `ids` gets the id of each utterance.
pub(super) fn online(
    requests: Streaming<SynthesizeSpeechRequest>,
    info: Arc<SpeechInfo>,
    (service, tenant): (SpeechService, Tenant),
    ids: Ids,
    bounds: Bounds,
) -> impl Stream<Item = Result<Command, ServeError>> + Unpin {
    let mut caller = Caller::new(ids, bounds);
    // Clients send the recording with every message.
    let last = Arc::new(tokio::sync::Mutex::new(
        None::<(ZeroShotData, Option<Arc<VoicePrompt>>)>,
    ));
    let requests = requests.then(move |request| {
        let service = service.clone();
        let last = Arc::clone(&last);
        async move {
            let request = request.map_err(|status| broken(&status, bounds.message))?;
            let mut last = last.lock().await;
            let known = last
                .as_ref()
                .filter(|(data, _)| Some(data) == request.zero_shot_data.as_ref());
            let imitated = match known {
                Some((_, prompt)) => prompt.clone(),
                None => imitated(&service, tenant, &request).await?,
            };
            *last = request
                .zero_shot_data
                .clone()
                .map(|data| (data, imitated.clone()));
            Ok((request, imitated))
        }
    });
    let requests = requests.map(Some).chain(stream::once(std::future::ready(None)));
    let commands = requests.flat_map(move |request| stream::iter(caller.commands(request, &info)));
    Box::pin(commands)
}

/// A message, with the voice of its recording.
type HeardRequest = (SynthesizeSpeechRequest, Option<Arc<VoicePrompt>>);

/// Voice of the recording of a request, if it has one that the model can imitate.
pub(super) type Imitated = Result<Option<Arc<VoicePrompt>>, ServeError>;

/// Encodes the recording of a request. With a transcript it is continued in context.
pub(super) async fn imitated(
    service: &SpeechService,
    tenant: Tenant,
    request: &SynthesizeSpeechRequest,
) -> Imitated {
    let Some(data) = &request.zero_shot_data else {
        return Ok(None);
    };
    let recording = if data.audio_prompt.is_empty() {
        return Err(invalid(
            "zero_shot_data.audio_prompt",
            "is empty; expected a recording",
        ));
    } else {
        recording(data)?
    };
    let asked = SpeechRequest {
        clone: Some(Imitation {
            recording,
            x_vector_only: data.transcript.trim().is_empty(),
            transcript: data.transcript.clone(),
        }),
        ..SpeechRequest::default()
    };
    let asked = service.imitated(tenant, asked).await;
    let asked = asked.map_err(|error| match error.field() {
        Some("config.clone.transcript") => error.at("zero_shot_data.transcript"),
        Some("config.clone.audio") => error.at("zero_shot_data.audio_prompt"),
        _ => error,
    });
    Ok(asked?.imitated)
}

/// The recording: a file, which clients send whole with any stated format, or samples.
fn recording(data: &ZeroShotData) -> Result<Recording, ServeError> {
    let encoding = match AudioEncoding::try_from(data.encoding) {
        Ok(AudioEncoding::Mulaw) => InputEncoding::Mulaw,
        Ok(AudioEncoding::Alaw) => InputEncoding::Alaw,
        Ok(AudioEncoding::Flac | AudioEncoding::Oggopus) => {
            return Ok(Recording::file(data.audio_prompt.clone()));
        }
        _ => InputEncoding::Pcm16,
    };
    let hz = u32::try_from(data.sample_rate_hz).unwrap_or_default();
    let rate = SampleRate::new(if hz == 0 { 24_000 } else { hz });
    let format = InputFormat {
        encoding,
        rate: rate.map_err(|error| invalid("zero_shot_data.sample_rate_hz", error.to_string()))?,
        channels: 1,
    };
    Ok(Recording::stated(data.audio_prompt.clone(), format))
}

/// State of a call after its messages so far.
#[derive(Debug)]
struct Caller {
    ids: Ids,
    bounds: Bounds,
    /// Last message without its text: the settings in force.
    settings: Option<SynthesizeSpeechRequest>,
    /// Bytes of text in the open utterance.
    open: Option<usize>,
    /// `true` if there was text.
    spoke: bool,
}

impl Caller {
    fn new(ids: Ids, bounds: Bounds) -> Self {
        Self {
            ids,
            bounds,
            settings: None,
            open: None,
            spoke: false,
        }
    }

    /// Commands of a message; `None` is the end of the call.
    fn commands(
        &mut self,
        request: Option<Result<HeardRequest, ServeError>>,
        info: &SpeechInfo,
    ) -> Vec<Result<Command, ServeError>> {
        match request {
            None => self.end().into_iter().map(Ok).collect(),
            Some(Err(error)) => vec![Err(error)],
            Some(Ok((request, imitated))) => self.more(request, imitated, info),
        }
    }

    fn more(
        &mut self,
        mut request: SynthesizeSpeechRequest,
        imitated: Option<Arc<VoicePrompt>>,
        info: &SpeechInfo,
    ) -> Vec<Result<Command, ServeError>> {
        let words = std::mem::take(&mut request.text);
        let mut commands = Vec::new();
        if self.settings.as_ref() != Some(&request) {
            commands.extend(self.finish().map(Ok));
            let settings = checked(&request, imitated, info, false);
            commands.push(settings.map(|settings| Command::Configure(Box::new(settings))));
        }
        // An utterance begins with its first text.
        if !words.is_empty() {
            self.spoke = true;
            if self
                .open
                .is_some_and(|bytes| bytes + words.len() > self.bounds.utterance)
            {
                commands.extend(self.finish().map(Ok));
            }
            if self.open.is_none() {
                self.ids.push(request.id.clone());
            }
            *self.open.get_or_insert(0) += words.len();
            commands.extend([Ok(text(words)), Ok(Command::Flush)]);
        }
        self.settings = Some(request);
        commands
    }

    /// Commands at the end of the call. A call without text gets silence.
    fn end(&mut self) -> Vec<Command> {
        if self.settings.is_none() || self.spoke {
            return self.finish().into_iter().collect();
        }
        self.ids
            .push(self.settings.as_ref().and_then(|last| last.id.clone()));
        vec![text(String::new()), Command::Finish]
    }

    fn finish(&mut self) -> Option<Command> {
        self.open.take().map(|_| Command::Finish)
    }
}

/// Converts the messages of a call; for tests.
pub(crate) fn take(requests: impl Iterator<Item = SynthesizeSpeechRequest>, info: &SpeechInfo) {
    let bounds = Bounds {
        message: usize::MAX,
        utterance: usize::MAX,
    };
    let mut caller = Caller::new(Ids::default(), bounds);
    for request in requests {
        let _ = caller.more(request, None, info);
    }
    let _ = caller.finish();
}

fn text(text: String) -> Command {
    Command::Text {
        text,
        utterance: String::new(),
    }
}

/// Settings of a message, which may have the `whole_text`; a field that cannot be honoured is refused.
fn checked(
    request: &SynthesizeSpeechRequest,
    imitated: Option<Arc<VoicePrompt>>,
    info: &SpeechInfo,
    whole_text: bool,
) -> Result<Settings, ServeError> {
    if request.zero_shot_data.is_some() && imitated.is_none() {
        return Err(invalid(
            "zero_shot_data",
            "no model here imitates voices; expected unset; Base checkpoints of Qwen3-TTS do",
        ));
    }
    if !request.custom_dictionary.is_empty() {
        let problem = "no model here takes pronunciations; expected empty";
        return Err(invalid("custom_dictionary", problem));
    }
    if !request.custom_configuration.is_empty() {
        return Err(invalid("custom_configuration", "has entries; expected none"));
    }
    let rate = u32::try_from(request.sample_rate_hz)
        .map_err(|_| invalid("sample_rate_hz", "is negative; expected 0 or more"))?;
    let encoding = encoding(request.encoding)?;
    let asked = SpeechRequest {
        voice: voice(&request.voice_name, info).to_owned(),
        imitated,
        language: request.language_code.clone(),
        output: OutputRequest {
            encoding,
            sample_rate_hz: ogg_rate(encoding, rate),
            channels: 1,
            ..OutputRequest::default()
        },
        alignment: request.enable_word_time_offsets,
        whole_text,
        ..SpeechRequest::default()
    };
    asked.settings(info).map_err(as_named_here)
}

/// Opus does not support 22,050 Hz, the default of clients. An Ogg stream states its rate, so the next higher rate of
/// Opus will do; other streams must have the requested rate.
fn ogg_rate(encoding: Encoding, hz: u32) -> u32 {
    let asked = SampleRate::new(hz)
        .ok()
        .filter(|_| (Format::MIN_HZ..=Format::MAX_HZ).contains(&hz));
    match asked {
        Some(rate) if encoding == Encoding::OggOpus => Encoding::OggOpus.next_rate(rate).hz(),
        _ => hz,
    }
}

fn encoding(got: i32) -> Result<Encoding, ServeError> {
    match AudioEncoding::try_from(got) {
        Ok(AudioEncoding::EncodingUnspecified | AudioEncoding::LinearPcm) => Ok(Encoding::Pcm16),
        Ok(AudioEncoding::Flac) => Ok(Encoding::Flac),
        Ok(AudioEncoding::Mulaw) => Ok(Encoding::Mulaw),
        Ok(AudioEncoding::Oggopus) => Ok(Encoding::OggOpus),
        Ok(AudioEncoding::Alaw) => Ok(Encoding::Alaw),
        Err(_) => {
            let field = "encoding";
            let expected = "expected one of nvidia.riva.AudioEncoding";
            let problem = format!("unsupported value '{got}'; {expected}");
            Err(UnsupportedFormat { field, problem }.into())
        }
    }
}

/// Voice of the request: clients write "MODEL.VOICE" as it was listed, and send a voice of NVIDIA's own by default.
fn voice<'a>(name: &'a str, info: &SpeechInfo) -> &'a str {
    if NVIDIA_VOICES.iter().any(|own| name.starts_with(own)) {
        return "";
    }
    let rest = name.strip_prefix(info.id.as_str());
    rest.and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

/// The error with the field's name in Riva's messages.
fn as_named_here(error: ServeError) -> ServeError {
    match error.field() {
        Some("config.output.format.encoding") => error.renamed("encoding"),
        Some("config.output.format.sample_rate_hz") => error.renamed("sample_rate_hz"),
        _ => error,
    }
}
