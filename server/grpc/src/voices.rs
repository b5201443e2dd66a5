//! `VoiceService`: voices that callers keep.

use std::pin::Pin;

use futures::{Stream, StreamExt as _};
use omni_core::call::CallContext;
use omni_core::error::ServeError;
use omni_proto::v1;
use omni_proto::v1::create_voice_request::Origin;
use omni_proto::v1::voice_service_server;
use omni_services::settings::{DELIVERY, invalid};
use omni_services::voices::{Content, NewVoice, RECORDING_BYTES, VoiceOrigin, VoiceView};
use omni_services::{SpeechRequest, SpeechService, Voices};
use omni_session::Session;
use tonic::{Request, Response, Status};

use super::catalog::page;
use super::speech::caller;
use super::status::status;
use super::{delivery, reply, settings};

/// Largest message: a recording, and the words beside it.
pub(super) const MAX_MESSAGE: usize = RECORDING_BYTES + (64 << 10);
/// Most voices of a page: each may have several texts.
const MAX_PAGE: i32 = 100;
/// Default text of a preview.
const PREVIEW: &str = "This is how this voice sounds.";
/// Longest text of a preview, in bytes.
const MAX_PREVIEW: usize = 500;

type Preview = Pin<Box<dyn Stream<Item = Result<v1::PreviewVoiceResponse, Status>> + Send>>;

/// The service.
#[derive(Debug)]
pub struct GrpcVoices {
    voices: Voices,
    speech: SpeechService,
}

impl GrpcVoices {
    pub fn new(voices: Voices, speech: SpeechService) -> Self {
        Self { voices, speech }
    }

    fn list(
        &self,
        request: &Request<v1::ListKeptVoicesRequest>,
    ) -> Result<v1::ListKeptVoicesResponse, ServeError> {
        let voices = self.voices.list(&caller(request.extensions()));
        let voices = voices.iter().map(kept).collect();
        let asked = request.get_ref();
        let (voices, next_page_token) = page(voices, asked.page_size.min(MAX_PAGE), &asked.page_token)?;
        Ok(v1::ListKeptVoicesResponse {
            voices,
            next_page_token,
        })
    }
}

#[tonic::async_trait]
impl voice_service_server::VoiceService for GrpcVoices {
    type PreviewVoiceStream = Preview;

    async fn create_voice(
        &self,
        request: Request<v1::CreateVoiceRequest>,
    ) -> Result<Response<v1::CreateVoiceResponse>, Status> {
        // The extensions hold the count of its body while it is processed.
        let (_, extensions, request) = request.into_parts();
        let created = match new_voice(request) {
            Ok(new) => self.voices.create(&caller(&extensions), new).await,
            Err(refused) => Err(refused),
        };
        let voice = Some(kept(&created.map_err(|error| status(&error))?));
        Ok(Response::new(v1::CreateVoiceResponse { voice }))
    }

    async fn list_kept_voices(
        &self,
        request: Request<v1::ListKeptVoicesRequest>,
    ) -> Result<Response<v1::ListKeptVoicesResponse>, Status> {
        let listed = self.list(&request);
        listed.map(Response::new).map_err(|error| status(&error))
    }

    async fn get_voice(
        &self,
        request: Request<v1::GetVoiceRequest>,
    ) -> Result<Response<v1::GetVoiceResponse>, Status> {
        let found = self
            .voices
            .get(&caller(request.extensions()), &request.get_ref().name);
        let voice = Some(kept(&found.map_err(|error| status(&error))?));
        Ok(Response::new(v1::GetVoiceResponse { voice }))
    }

    async fn delete_voice(
        &self,
        request: Request<v1::DeleteVoiceRequest>,
    ) -> Result<Response<v1::DeleteVoiceResponse>, Status> {
        let caller = caller(request.extensions());
        let deleted = self.voices.delete(&caller, &request.get_ref().name).await;
        deleted.map_err(|error| status(&error))?;
        Ok(Response::new(v1::DeleteVoiceResponse {}))
    }

    async fn preview_voice(
        &self,
        request: Request<v1::PreviewVoiceRequest>,
    ) -> Result<Response<Self::PreviewVoiceStream>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let caller = caller(&extensions);
        // A voice of the model's own is not a kept one.
        self.voices
            .get(&caller, &request.name)
            .map_err(|error| status(&error))?;
        let (asked, text) = preview(request);
        let context = CallContext::from_headers(metadata.as_ref());
        let opened = self
            .speech
            .synthesize(context, caller, asked, text, Session::whole)
            .await;
        let (info, replies) = opened.map_err(|error| status(&error))?;
        let replies = replies.filter_map(move |event| {
            let reply = match event {
                Ok(event) => reply::synthesize(event, &info),
                Err(error) => Some(Err(status(&error))),
            };
            let reply = reply.map(|reply| reply.map(|event| v1::PreviewVoiceResponse { event: Some(event) }));
            std::future::ready(reply)
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn export_voice(
        &self,
        request: Request<v1::ExportVoiceRequest>,
    ) -> Result<Response<v1::ExportVoiceResponse>, Status> {
        let exported = self
            .voices
            .export(&caller(request.extensions()), &request.get_ref().name);
        let data = exported.map_err(|error| status(&error))?;
        Ok(Response::new(v1::ExportVoiceResponse { data }))
    }

    async fn import_voice(
        &self,
        request: Request<v1::ImportVoiceRequest>,
    ) -> Result<Response<v1::ImportVoiceResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let caller = caller(&extensions);
        let imported = self.voices.import(&caller, &request.name, &request.data).await;
        let voice = Some(kept(&imported.map_err(|error| status(&error))?));
        Ok(Response::new(v1::ImportVoiceResponse { voice }))
    }
}

fn new_voice(request: v1::CreateVoiceRequest) -> Result<NewVoice, ServeError> {
    let origin = match request.origin {
        Some(Origin::Recording(recording)) => VoiceOrigin::Recording {
            recording: settings::recording(recording.audio, recording.format.as_ref(), "recording.format")?,
            transcript: recording.transcript,
            x_vector_only: recording.x_vector_only,
            consent: recording.consent,
        },
        Some(Origin::Design(words)) => VoiceOrigin::Description(words),
        None => return Err(invalid("origin", "is not set, expected recording or design")),
    };
    Ok(NewVoice {
        name: request.name,
        origin,
        description: request.description,
    })
}

/// Speech request of a preview, and its text.
fn preview(request: v1::PreviewVoiceRequest) -> (Result<SpeechRequest, ServeError>, String) {
    let text = if request.text.is_empty() {
        PREVIEW.to_owned()
    } else {
        request.text
    };
    if text.len() > MAX_PREVIEW {
        let problem = format!("has {} bytes, expected at most {MAX_PREVIEW}", text.len());
        return (Err(invalid("text", problem)), text);
    }
    let output = delivery::request(request.output, &DELIVERY);
    let asked = output.map(|output| SpeechRequest {
        voice: request.name,
        output,
        ..SpeechRequest::default()
    });
    (asked, text)
}

fn kept(view: &VoiceView) -> v1::KeptVoice {
    let voice = &view.voice;
    let (kind, design) = match &voice.content {
        Content::Prompt(prompt) if prompt.reference.is_some() => (v1::VoiceKind::InContext, String::new()),
        Content::Prompt(_) => (v1::VoiceKind::XVector, String::new()),
        Content::Description(words) => (v1::VoiceKind::Description, words.as_ref().to_owned()),
    };
    v1::KeptVoice {
        name: voice.name.to_string(),
        kind: kind.into(),
        description: voice.description.clone(),
        model: voice.model.clone(),
        transcript: voice.transcript.clone(),
        consent: voice.consent.clone(),
        created: i64::try_from(voice.created).unwrap_or(i64::MAX),
        duration: voice.duration.try_into().ok(),
        design,
        durable: view.durable,
        shared: voice.owner.is_shared(),
        problem: view.problem.clone().unwrap_or_default(),
    }
}
