//! `nvidia.riva.tts.RivaSpeechSynthesis`: speech for clients of NVIDIA Riva, over the same sessions as `SpeechService`.

mod commands;

use std::collections::HashMap;
use std::pin::Pin;

use bytes::BytesMut;
use futures::{Stream, StreamExt as _};
use omni_audio::{SampleRate, Samples};
use omni_core::call::CallContext;
use omni_core::error::ServeError;
use omni_proto::riva::RequestId;
use omni_proto::riva::tts;
use omni_proto::riva::tts::riva_speech_synthesis_server::RivaSpeechSynthesis;
use omni_proto::riva::tts::riva_synthesis_config_response::Config;
use omni_services::SpeechService;
use omni_services::settings::{invalid, model as check_model};
use omni_session::{Event, EventBody, Outcome, Session, TimedText};
use omni_transport::BufferedResponses;
use tokio::sync::oneshot;
use tonic::{Request, Response, Status, Streaming};

pub(super) use self::commands::take;
use self::commands::{Bounds, Ids, imitated, online, whole};
use super::speech::caller;
use super::status::status;

type Reply = Pin<Box<dyn Stream<Item = Result<tts::SynthesizeSpeechResponse, Status>> + Send>>;

/// Longest audio of one answer, in bytes: the default limit of clients for one message, less its head.
const MAX_WHOLE: usize = (4 << 20) - 1_024;

/// The service.
#[derive(Debug)]
pub struct Riva {
    service: SpeechService,
    buffered: BufferedResponses,
    /// Largest request message in bytes, for errors.
    max_message: usize,
}

impl Riva {
    /// Creates the service; whole responses take their slots from `buffered`.
    pub fn new(service: SpeechService, buffered: BufferedResponses, max_message: usize) -> Self {
        Self {
            service,
            buffered,
            max_message,
        }
    }

    pub(super) fn buffered(&self) -> BufferedResponses {
        self.buffered.clone()
    }

    fn config(&self, model: &str) -> Result<Config, ServeError> {
        let info = self.service.info()?;
        check_model(model, &info)?;
        let voices = info.voices.iter().enumerate();
        let voices: Vec<_> = voices
            .map(|(index, voice)| format!("{}:{index}", voice.id))
            .collect();
        let parameters = [
            ("language_code", info.languages.join(",")),
            ("voice_name", info.id.clone()),
            ("subvoices", voices.join(",")),
            ("sample_rate", info.sample_rate.hz().to_string()),
        ];
        Ok(Config {
            model_name: info.id.clone(),
            parameters: HashMap::from(parameters.map(|(name, value)| (name.to_owned(), value))),
        })
    }
}

#[tonic::async_trait]
impl RivaSpeechSynthesis for Riva {
    type SynthesizeOnlineStream = Reply;

    async fn synthesize(
        &self,
        request: Request<tts::SynthesizeSpeechRequest>,
    ) -> Result<Response<tts::SynthesizeSpeechResponse>, Status> {
        let slot = self.buffered.reserve();
        let slot = slot.inspect_err(|error| self.service.records().refused(error));
        let slot = slot.map_err(|error| status(&error))?;
        let (metadata, extensions, mut request) = request.into_parts();
        let caller = caller(&extensions);
        let tenant = caller.tenant();
        let admitted = self.service.admit("RivaSpeechSynthesis/Synthesize", caller);
        let (info, permit) = admitted.map_err(|error| status(&error))?;
        // They hold the count of the body, which is the session's now.
        drop(extensions);
        let id = request.id.take();
        let (refuse, refused) = oneshot::channel();
        let mut refuse = Some(refuse);
        let mut long = false;
        let context = CallContext::from_headers(metadata.as_ref());
        let imitated = imitated(&self.service, tenant, &request).await;
        let commands = whole(request, imitated, &info, refused);
        let mut events = self.service.open(context, commands, permit, Session::whole);
        let mut audio = BytesMut::new();
        let mut words = Words::default();
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| status(&error))?;
            let done = matches!(event.body, EventBody::Done(_));
            let piece = audio_of(event, &mut words).map_err(|error| status(&error))?;
            let piece = piece.unwrap_or_default();
            // Audio that is too long is no longer read: its session ends with that reason.
            long |= audio.len() + piece.len() > MAX_WHOLE;
            if !long {
                audio.extend_from_slice(&piece);
            } else if let Some(refuse) = refuse.take() {
                let _ = refuse.send(too_long());
            }
            if done {
                break;
            }
        }
        // Events after the only utterance do not belong to the answer, like the end of a server that drains.
        drop(refuse);
        while events.next().await.is_some() {}
        if long {
            return Err(status(&too_long()));
        }
        let mut answer = Response::new(response(audio.freeze(), words.take(), id));
        answer.extensions_mut().insert(slot);
        Ok(answer)
    }

    async fn synthesize_online(
        &self,
        request: Request<Streaming<tts::SynthesizeSpeechRequest>>,
    ) -> Result<Response<Self::SynthesizeOnlineStream>, Status> {
        let (metadata, extensions, requests) = request.into_parts();
        let caller = caller(&extensions);
        let tenant = caller.tenant();
        let admitted = self.service.admit("RivaSpeechSynthesis/SynthesizeOnline", caller);
        let (info, permit) = admitted.map_err(|error| status(&error))?;
        let ids = Ids::default();
        let commands = online(
            requests,
            info,
            (self.service.clone(), tenant),
            ids.clone(),
            Bounds {
                message: self.max_message,
                utterance: self.service.limits().max_text_bytes,
            },
        );
        // Riva has no back-pressure message, so the session stops reading when its buffer is full.
        let context = CallContext::from_headers(metadata.as_ref());
        let events = self
            .service
            .open(context, commands, permit, Session::holding_back);
        let mut id = None;
        let mut words = Words::default();
        let replies = events.filter_map(move |event| {
            if let Ok(Event {
                body: EventBody::Started,
                ..
            }) = &event
            {
                id = ids.next();
            }
            let piece = event.and_then(|event| audio_of(event, &mut words));
            let reply = piece.map(|piece| piece.map(|audio| response(audio, words.take(), id.clone())));
            let reply = reply.map_err(|error| status(&error));
            std::future::ready(reply.transpose())
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn get_riva_synthesis_config(
        &self,
        request: Request<tts::RivaSynthesisConfigRequest>,
    ) -> Result<Response<tts::RivaSynthesisConfigResponse>, Status> {
        let config = self.config(&request.into_inner().model_name);
        let config = config.map_err(|error| status(&error))?;
        Ok(Response::new(tts::RivaSynthesisConfigResponse {
            model_config: vec![config],
        }))
    }
}

fn too_long() -> ServeError {
    let problem =
        format!("its audio is longer than {MAX_WHOLE} bytes, SynthesizeOnline sends it as it is made");
    invalid("text", problem)
}

/// Word times whose audio was not sent yet.
#[derive(Debug, Default)]
struct Words {
    /// That of the audio.
    rate: Option<SampleRate>,
    waiting: Vec<tts::WordTime>,
}

impl Words {
    fn add(&mut self, spans: Vec<TimedText>) {
        let Some(rate) = self.rate else { return };
        let time = |at: Samples| i32::try_from(rate.duration(at).as_millis()).unwrap_or(i32::MAX);
        // Punctuation alone is no word.
        let words = spans
            .into_iter()
            .filter(|span| span.text.contains(char::is_alphanumeric));
        self.waiting.extend(words.map(|span| tts::WordTime {
            word: span.text.trim().to_owned(),
            start_time: time(span.samples.start),
            end_time: time(span.samples.end),
        }));
    }

    fn take(&mut self) -> Option<tts::SynthesizeSpeechResponseMetadata> {
        let words = std::mem::take(&mut self.waiting);
        (!words.is_empty()).then(|| tts::SynthesizeSpeechResponseMetadata {
            words,
            ..tts::SynthesizeSpeechResponseMetadata::default()
        })
    }
}

/// Audio of an event; its words are kept. A failed utterance is a failed call, for Riva has no other message for it.
fn audio_of(event: Event, words: &mut Words) -> Result<Option<bytes::Bytes>, ServeError> {
    match event.body {
        EventBody::Audio(audio) => return Ok(Some(audio.data)),
        EventBody::Alignment(spans) => words.add(spans),
        EventBody::Ready(ready) => words.rate = Some(ready.settings.delivery.format.rate()),
        EventBody::Done(done) => {
            if let (Some(error), Outcome::Error) = (done.error, done.outcome) {
                return Err(error);
            }
        }
        EventBody::Started | EventBody::Warning { .. } => {}
    }
    Ok(None)
}

fn response(
    audio: bytes::Bytes,
    meta: Option<tts::SynthesizeSpeechResponseMetadata>,
    id: Option<RequestId>,
) -> tts::SynthesizeSpeechResponse {
    tts::SynthesizeSpeechResponse { audio, meta, id }
}
