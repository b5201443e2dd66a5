//! Voices that a server keeps for its callers.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::voice_service_client::VoiceServiceClient;

use crate::client::Client;
use crate::error::ClientError;

/// Kind of a kept voice's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoiceKind {
    /// The speaker's vector.
    XVector,
    /// The speaker's vector and the recording itself, which speech goes on from.
    InContext,
    /// The words that describe it.
    Description,
    /// A kind that this library does not know.
    Unknown,
}

/// A voice that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptVoice {
    /// Name for [`crate::SpeechSettings::voice`].
    pub name: String,
    /// Kind of its content.
    pub kind: VoiceKind,
    /// For people.
    pub description: String,
    /// The model that it was made for.
    pub model: String,
    /// Transcript of the recording.
    pub transcript: String,
    /// The statement that the speaker agrees.
    pub consent: String,
    /// Seconds since 1970.
    pub created: i64,
    /// Length of the recording without the silence around it.
    pub duration: Duration,
    /// Words that describe it to the model.
    pub design: String,
    /// False if it ends with the server.
    pub durable: bool,
    /// True if every caller can use it.
    pub shared: bool,
    /// Reason why the model that is served cannot speak with it; empty if it can.
    pub problem: String,
}

/// A recording to make a voice of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VoiceRecording {
    /// A WAV, FLAC or Ogg Opus file.
    pub audio: Vec<u8>,
    /// Transcript; may be empty with `x_vector_only`.
    pub transcript: String,
    /// Keep the speaker's vector alone.
    pub x_vector_only: bool,
    /// Statement that, and how, the speaker agreed.
    pub consent: String,
}

/// Origin of a voice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VoiceOrigin {
    /// For checkpoints that clone.
    Recording(VoiceRecording),
    /// Words, for checkpoints that follow descriptions.
    Design(String),
}

impl KeptVoice {
    fn from_proto(voice: Option<v1::KeptVoice>) -> Self {
        let voice = voice.unwrap_or_default();
        let kind = match voice.kind() {
            v1::VoiceKind::XVector => VoiceKind::XVector,
            v1::VoiceKind::InContext => VoiceKind::InContext,
            v1::VoiceKind::Description => VoiceKind::Description,
            v1::VoiceKind::Unspecified => VoiceKind::Unknown,
        };
        let duration = voice
            .duration
            .and_then(|duration| Duration::try_from(duration).ok());
        Self {
            kind,
            duration: duration.unwrap_or_default(),
            name: voice.name,
            description: voice.description,
            model: voice.model,
            transcript: voice.transcript,
            consent: voice.consent,
            created: voice.created,
            design: voice.design,
            durable: voice.durable,
            shared: voice.shared,
            problem: voice.problem,
        }
    }
}

/// Voices that the server keeps: see [`Client::voices`] for all that can be spoken with.
impl Client {
    fn told(&self) -> impl Fn(tonic::Status) -> ClientError + use<'_> {
        |status| ClientError::from_status(self.endpoint(), &status)
    }

    /// Makes a voice and keeps it on the server. Takes seconds for a long recording.
    ///
    /// # Errors
    /// The error of the server (it says what is wrong with the recording) or of the transport.
    pub async fn create_voice(
        &self,
        name: &str,
        origin: VoiceOrigin,
        description: &str,
    ) -> Result<KeptVoice, ClientError> {
        use v1::create_voice_request::Origin;
        let origin = match origin {
            VoiceOrigin::Design(words) => Origin::Design(words),
            VoiceOrigin::Recording(recording) => Origin::Recording(v1::VoiceRecording {
                audio: recording.audio.into(),
                format: None,
                transcript: recording.transcript,
                x_vector_only: recording.x_vector_only,
                consent: recording.consent,
            }),
        };
        let request = v1::CreateVoiceRequest {
            name: name.to_owned(),
            origin: Some(origin),
            description: description.to_owned(),
        };
        let mut service = VoiceServiceClient::new(self.transport());
        let created = service.create_voice(request).await.map_err(self.told())?;
        Ok(KeptVoice::from_proto(created.into_inner().voice))
    }

    /// A voice that the server keeps for this caller.
    ///
    /// # Errors
    /// The error of the server (NOT_FOUND without such a voice) or of the transport.
    pub async fn kept_voice(&self, name: &str) -> Result<KeptVoice, ClientError> {
        let request = v1::GetVoiceRequest {
            name: name.to_owned(),
        };
        let mut service = VoiceServiceClient::new(self.transport());
        let found = service.get_voice(request).await.map_err(self.told())?;
        Ok(KeptVoice::from_proto(found.into_inner().voice))
    }

    /// Deletes a voice that the server keeps for this caller.
    ///
    /// # Errors
    /// The error of the server (NOT_FOUND without such a voice) or of the transport.
    pub async fn delete_voice(&self, name: &str) -> Result<(), ClientError> {
        let request = v1::DeleteVoiceRequest {
            name: name.to_owned(),
        };
        let mut service = VoiceServiceClient::new(self.transport());
        service.delete_voice(request).await.map_err(self.told())?;
        Ok(())
    }

    /// The file of a voice, for another server.
    ///
    /// # Errors
    /// The error of the server (NOT_FOUND without such a voice) or of the transport.
    pub async fn export_voice(&self, name: &str) -> Result<Vec<u8>, ClientError> {
        let request = v1::ExportVoiceRequest {
            name: name.to_owned(),
        };
        let mut service = VoiceServiceClient::new(self.transport());
        let exported = service.export_voice(request).await.map_err(self.told())?;
        Ok(exported.into_inner().data)
    }

    /// Keeps the voice of a file on the server, under `name` if that is not empty.
    ///
    /// # Errors
    /// The error of the server (it says what is wrong with the file) or of the transport.
    pub async fn import_voice(&self, data: Vec<u8>, name: &str) -> Result<KeptVoice, ClientError> {
        let request = v1::ImportVoiceRequest {
            data,
            name: name.to_owned(),
        };
        let mut service = VoiceServiceClient::new(self.transport());
        let imported = service.import_voice(request).await.map_err(self.told())?;
        Ok(KeptVoice::from_proto(imported.into_inner().voice))
    }
}
