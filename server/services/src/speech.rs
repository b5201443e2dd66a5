//! Speech: sessions that speak the text of their commands.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use omni_core::call::CallContext;
use omni_core::caller::{Caller, Tenant};
use omni_core::error::ServeError;
use omni_family::SpeechInfo;
use omni_pipeline::orchestrator::StageError;
use omni_pipeline::request::VoicePrompt;
use omni_session::{
    Buffering, Command, Event, RecordSink, Session, SessionLimits, Settings, UtteranceError, explain,
};
use omni_text::Explained;
use tokio_stream::wrappers::ReceiverStream;

use super::delivery::OutputRequest;
use super::gate::{CallGate, CallPermit};
use super::settings::{SamplingRequest, settings};
use super::voices::{Imitation, Voices};

type Events = ReceiverStream<Result<Event, ServeError>>;

/// Settings that a caller requests for speech; an empty or unset field is left to the model or the server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpeechRequest {
    pub model: String,
    pub voice: String,
    pub language: String,
    pub output: OutputRequest,
    pub sampling: SamplingRequest,
    pub buffering: Buffering,
    pub max_buffer_delay: Option<Duration>,
    pub alignment: bool,
    pub style_instructions: String,
    pub has_pronunciations: bool,
    pub non_streaming_mode: Option<bool>,
    /// `true` if all text is known from the start, as for [`SpeechService::synthesize`].
    pub whole_text: bool,
    /// Recording to imitate.
    pub clone: Option<Imitation>,
    /// Voice made from `clone` by [`SpeechService::imitated`].
    pub imitated: Option<Arc<VoicePrompt>>,
}

impl SpeechRequest {
    /// Checks the request against the model.
    ///
    /// # Errors
    /// The field that cannot be honoured.
    pub fn settings(&self, info: &SpeechInfo) -> Result<Settings, ServeError> {
        settings(self, info)
    }
}

/// Opens speech sessions. Clones share the gate.
#[derive(Debug, Clone)]
pub struct SpeechService {
    gate: CallGate,
    voices: Voices,
}

impl SpeechService {
    pub fn new(gate: CallGate, voices: Voices) -> Self {
        Self { gate, voices }
    }

    pub fn records(&self) -> &Arc<dyn RecordSink> {
        &self.gate.deps.records
    }

    pub fn limits(&self) -> SessionLimits {
        self.gate.deps.limits
    }

    /// Properties of the model, also while no work is accepted.
    ///
    /// # Errors
    /// If it is not loaded yet.
    pub fn info(&self) -> Result<Arc<SpeechInfo>, ServeError> {
        Ok(Arc::clone(&self.gate.deps.orchestrator.model()?.info))
    }

    /// Encodes the recording of a request. A model that imitates none refuses it later.
    ///
    /// # Errors
    /// The problem with the recording.
    pub async fn imitated(
        &self,
        tenant: Tenant,
        mut request: SpeechRequest,
    ) -> Result<SpeechRequest, ServeError> {
        let takes = self.info()?.voice_support.shape.is_some();
        if let Some(imitation) = request.clone.take_if(|_| takes) {
            let imitated = self.voices.imitate(tenant, imitation).await;
            request.imitated = Some(imitated.map_err(|error| match error.field() {
                Some("transcript") => error.at("config.clone.transcript"),
                Some(_) => error.at("config.clone.audio"),
                None => error,
            })?);
        }
        Ok(request)
    }

    /// Permit for a speech call, and the model, with the voices that the caller keeps.
    ///
    /// # Errors
    /// If no work is accepted, or no more of this caller.
    pub fn admit(
        &self,
        method: &'static str,
        caller: Caller,
    ) -> Result<(Arc<SpeechInfo>, CallPermit), ServeError> {
        let pipeline = self.gate.ready(self.gate.deps.orchestrator.available())?;
        let info = self.voices.describe(&caller, &pipeline.info);
        Ok((info, self.gate.enter(method, caller)?))
    }

    /// Input of the model for the text, if it was spoken as `request` says.
    ///
    /// # Errors
    /// As for speaking it: the field that cannot be honoured, text that is too long, quotas of the caller.
    pub async fn explain(
        &self,
        caller: Caller,
        request: SpeechRequest,
        text: String,
    ) -> Result<(Arc<SpeechInfo>, Explained), ServeError> {
        let (info, permit) = self.admit("SpeechService/Explain", caller)?;
        // A recording to imitate changes no word.
        let request = SpeechRequest {
            clone: None,
            ..request
        };
        request.settings(&info)?;
        let limit = self.limits().max_text_bytes;
        if text.len() > limit {
            return Err(UtteranceError::TextTooLong {
                got: text.len(),
                limit,
            }
            .into());
        }
        let model = Arc::clone(&info);
        let explained = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            explain(&model, request.buffering, &text)
        });
        let explained = explained
            .await
            .map_err(|_| ServeError::from(StageError::panicked("text")))?;
        Ok((info, explained?))
    }

    /// Opens a session that serves `commands`; `shape` sets options of the session.
    pub fn open<S>(
        &self,
        context: CallContext,
        commands: S,
        permit: CallPermit,
        shape: impl FnOnce(Session) -> Session,
    ) -> Events
    where
        S: Stream<Item = Result<Command, ServeError>> + Unpin + Send + 'static,
    {
        let deadline = self.gate.deadline(&context);
        self.gate.run(permit, |deps, handle, events| {
            let session = Session::new(deps, deadline)
                .called_by(context.trace)
                .with_handle(handle);
            shape(session).run(commands, events)
        })
    }

    /// Speaks one whole text, by a session with the options of `shape`. A request that cannot be honoured fails in
    /// the session, which records it.
    ///
    /// # Errors
    /// As for [`admit`](Self::admit).
    pub async fn synthesize(
        &self,
        mut context: CallContext,
        caller: Caller,
        request: Result<SpeechRequest, ServeError>,
        text: String,
        shape: impl FnOnce(Session) -> Session,
    ) -> Result<(Arc<SpeechInfo>, Events), ServeError> {
        let clock = self.gate.deps.clock;
        let tenant = caller.tenant();
        let began = clock.now();
        let (info, permit) = self.admit("SpeechService/Synthesize", caller)?;
        let request = match request {
            Ok(request) => self.imitated(tenant, request).await,
            refused => refused,
        };
        // The time for the recording counts against the caller's timeout.
        context.timeout = context
            .timeout
            .map(|time| time.saturating_sub(clock.since(began)));
        let settings = request.and_then(|mut request| {
            request.whole_text = true;
            request.settings(&info)
        });
        let configure = settings.map(|settings| Command::Configure(Box::new(settings)));
        let text = Command::Text {
            text,
            utterance: String::new(),
        };
        let commands = stream::iter([configure, Ok(text), Ok(Command::Finish)]);
        Ok((info, self.open(context, commands, permit, shape)))
    }
}
