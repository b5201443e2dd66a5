//! A connection to a server and the calls that can be made over it.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::catalog_service_client::CatalogServiceClient;
use omni_proto::v1::chat_service_client::ChatServiceClient;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use crate::call::{Call, outgoing};
use crate::catalog::{Model, Voice};
use crate::chat::{ChatEvents, ChatSender, ChatSettings, Message};
use crate::credentials::Transport;
use crate::endpoint::Endpoint;
use crate::error::ClientError;
use crate::explained::Explained;
use crate::health::{self, Serving};
use crate::reflection;
use crate::speech::{SpeechEvents, SpeechSender, SpeechSettings};

/// Limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that does not answer a ping within this has vanished.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Pings are sent this often while calls are open.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// A connection to a server. Cheap to clone; clones share the connection, and calls run at the same time.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: Endpoint,
    transport: Transport,
}

impl Client {
    /// Connects, or says within five seconds why not.
    ///
    /// ```no_run
    /// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
    /// use omni_client::{Client, Endpoint, Serving};
    ///
    /// let client = Client::connect(&Endpoint::parse("speech.example")?).await?;
    /// assert_eq!(client.health("").await?, Serving::Serving);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ClientError::Unreachable`], [`ClientError::Tls`].
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let unreachable = |error: tonic::transport::Error| ClientError::from_connect(endpoint, &error);
        let mut builder = Channel::builder(endpoint.uri());
        if let Some(tls) = endpoint.tls() {
            let config = tls.config(endpoint.host(), CONNECT_TIMEOUT);
            builder = builder.tls_config(config).map_err(unreachable)?;
        }
        let channel = builder
            .user_agent(concat!("omni-client/", env!("CARGO_PKG_VERSION")))
            .map_err(unreachable)?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .connect()
            .await
            .map_err(unreachable)?;
        Ok(Self {
            endpoint: endpoint.clone(),
            transport: InterceptedService::new(channel, endpoint.credentials()),
        })
    }

    pub(crate) fn transport(&self) -> Transport {
        self.transport.clone()
    }

    /// The server this is connected to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Opens a speech session: text in while it is being written, audio out as it is produced, any number of
    /// utterances.
    ///
    /// The call is on its way when this returns, so text can be sent at once; whatever is wrong with it, unknown voices
    /// included, comes out of the events.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn speech(&self, settings: &SpeechSettings) -> (SpeechSender, SpeechEvents) {
        let config = v1::SpeakRequest {
            event: Some(v1::speak_request::Event::Config(settings.to_proto())),
        };
        let (requests, outgoing, hearing) = outgoing(config);
        let mut service = SpeechServiceClient::new(self.transport.clone());
        let call = Call::open(async move { service.speak(outgoing).await });
        let events = SpeechEvents::speak(self.endpoint.clone(), call, hearing);
        (SpeechSender::new(requests), events)
    }

    /// Speaks one text that is known as a whole. Its events carry an empty utterance name and no start.
    ///
    /// ```no_run
    /// # async fn synthesize(client: omni_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use omni_client::{SpeechEvent, SpeechSettings};
    ///
    /// let settings = SpeechSettings {
    ///     voice: "basil".to_owned(),
    ///     seed: Some(7),
    ///     ..SpeechSettings::default()
    /// };
    /// let mut events = client.synthesize(&settings, "The quick brown fox.");
    /// let mut samples: Vec<f32> = Vec::new();
    /// while let Some(event) = events.next().await? {
    ///     if let SpeechEvent::Audio(_, audio) = event {
    ///         samples.extend(audio.floats());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn synthesize(&self, settings: &SpeechSettings, text: &str) -> SpeechEvents {
        let request = v1::SynthesizeRequest {
            config: Some(settings.to_proto()),
            text: text.to_owned(),
        };
        let mut service = SpeechServiceClient::new(self.transport.clone());
        let call = Call::open(async move { service.synthesize(request).await });
        SpeechEvents::synthesize(self.endpoint.clone(), call)
    }

    /// Tells what a text becomes before it is spoken: what the model is given, word by word. Nothing is spoken.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn explain(&self, settings: &SpeechSettings, text: &str) -> Result<Explained, ClientError> {
        let request = v1::ExplainRequest {
            config: Some(settings.to_proto()),
            text: text.to_owned(),
        };
        let explained = SpeechServiceClient::new(self.transport.clone())
            .explain(request)
            .await;
        let explained = explained.map_err(|status| ClientError::from_status(&self.endpoint, &status))?;
        Ok(Explained::from_proto(explained.into_inner()))
    }

    /// Opens a conversation: messages and speech in, text and speech out, any number of turns.
    ///
    /// The call is on its way when this returns, so the first turn can be sent at once; whatever is wrong with it,
    /// unknown voices included, comes out of the events.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn converse(&self, settings: &ChatSettings) -> (ChatSender, ChatEvents) {
        let config = v1::ConverseRequest {
            event: Some(v1::converse_request::Event::Config(settings.to_proto())),
        };
        let (requests, outgoing, hearing) = outgoing(config);
        let mut service = ChatServiceClient::new(self.transport.clone());
        let call = Call::open(async move { service.converse(outgoing).await });
        let events = ChatEvents::converse(self.endpoint.clone(), call, hearing);
        (ChatSender::new(requests), events)
    }

    /// Answers one conversation, of which the server remembers nothing; the `history` of the settings comes before
    /// `messages`. Its events carry an empty response name and no start.
    ///
    /// ```no_run
    /// # async fn generate(client: omni_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use omni_client::{ChatEvent, ChatSettings, Message, Outputs, Part, Role};
    ///
    /// let settings = ChatSettings {
    ///     instructions: "Answer in one sentence.".to_owned(),
    ///     outputs: Outputs::Text,
    ///     ..ChatSettings::default()
    /// };
    /// let question = Message {
    ///     id: String::new(),
    ///     role: Role::User,
    ///     parts: vec![Part::Text("What is the capital of France?".to_owned())],
    /// };
    /// let mut events = client.generate(&settings, &[question]);
    /// while let Some(event) = events.next().await? {
    ///     if let ChatEvent::Text(_, text) = event {
    ///         print!("{text}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn generate(&self, settings: &ChatSettings, messages: &[Message]) -> ChatEvents {
        let messages = settings.history.iter().chain(messages);
        let request = v1::GenerateRequest {
            config: Some(v1::ChatConfig {
                input_audio: None,
                ..settings.without_history()
            }),
            messages: messages.map(Message::to_proto).collect(),
        };
        let mut service = ChatServiceClient::new(self.transport.clone());
        let call = Call::open(async move { service.generate(request).await });
        ChatEvents::generate(self.endpoint.clone(), call)
    }

    /// The models the server offers.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn models(&self) -> Result<Vec<Model>, ClientError> {
        let mut service = CatalogServiceClient::new(self.transport.clone());
        let mut models = Vec::new();
        let mut request = v1::ListModelsRequest::default();
        loop {
            let page = service.list_models(request.clone()).await;
            let page = page
                .map_err(|status| ClientError::from_status(&self.endpoint, &status))?
                .into_inner();
            models.extend(page.models.into_iter().map(Model::from_proto));
            if !self.next_page(&mut request.page_token, page.next_page_token)? {
                return Ok(models);
            }
        }
    }

    /// The voices the server offers, the default first; only those of `model` and `language` unless these are empty.
    ///
    /// ```no_run
    /// # async fn voices(client: omni_client::Client) -> Result<(), omni_client::ClientError> {
    /// for voice in client.voices("", "en").await? {
    ///     println!("{}: {}", voice.id, voice.description);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn voices(&self, model: &str, language: &str) -> Result<Vec<Voice>, ClientError> {
        let mut service = CatalogServiceClient::new(self.transport.clone());
        let mut voices = Vec::new();
        let mut request = v1::ListVoicesRequest {
            model: model.to_owned(),
            language: language.to_owned(),
            ..v1::ListVoicesRequest::default()
        };
        loop {
            let page = service.list_voices(request.clone()).await;
            let page = page
                .map_err(|status| ClientError::from_status(&self.endpoint, &status))?
                .into_inner();
            voices.extend(page.voices.into_iter().map(Voice::from_proto));
            if !self.next_page(&mut request.page_token, page.next_page_token)? {
                return Ok(voices);
            }
        }
    }

    /// True if there is a further page. A server that returned the same token again would never end.
    fn next_page(&self, token: &mut String, next: String) -> Result<bool, ClientError> {
        if !next.is_empty() && next == *token {
            return Err(ClientError::protocol(
                &self.endpoint,
                "a page names itself as the next page",
            ));
        }
        *token = next;
        Ok(!token.is_empty())
    }

    /// Health of the server as a whole (`service` empty) or of one of its services.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn health(&self, service: &str) -> Result<Serving, ClientError> {
        health::check(self.transport.clone(), service)
            .await
            .map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }

    /// Full names of the services the server offers, by gRPC reflection.
    ///
    /// # Errors
    /// The error of the server or the transport: UNIMPLEMENTED without reflection.
    pub async fn services(&self) -> Result<Vec<String>, ClientError> {
        reflection::services(self.transport.clone())
            .await
            .map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }
}
