//! Server session of a conversation, which may outlive several.

use std::time::Duration;

use omni_audio::Samples;
use omni_client::{
    ChatEvent, ChatEvents, ChatReady, ChatSender, ChatSettings, Client, ClientError, Code, Endpoint, Message,
    ResponseId, RpcError,
};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::ui::Ui;

/// Longest wait for requests that cost the server no work: to stop, to cut, to say goodbye.
pub(super) const GOODBYE: Duration = Duration::from_secs(2);

/// The last answer was cut after its end; its rest, or nothing.
#[derive(Debug)]
pub(super) struct Cut(pub(super) Option<Message>);

#[derive(Debug)]
pub(super) struct Session {
    pub(super) chat: ChatSender,
    pub(super) events: ChatEvents,
    pub(super) ready: ChatReady,
    endpoint: Endpoint,
}

impl Session {
    /// Connects and waits until the server has taken the settings.
    pub(super) async fn open(endpoint: &Endpoint, settings: &ChatSettings, ui: &Ui) -> Result<Self, Failure> {
        let client = Client::connect(endpoint).await?;
        let (chat, mut events) = client.converse(settings);
        let (ready, _) = next_ready(&mut events, endpoint, ui).await?;
        Ok(Self {
            chat,
            events,
            ready,
            endpoint: endpoint.clone(),
        })
    }

    /// First message to a person at the prompt.
    pub(super) fn greeting(&self) -> String {
        let ready = &self.ready;
        let voice = if ready.outputs.audio() {
            format!(", voice {}", ready.voice)
        } else {
            String::new()
        };
        format!(
            "{} at {}{voice}. /help lists the commands, Ctrl-D leaves.",
            ready.model, self.endpoint
        )
    }

    /// Waits until the server has accepted new settings; reports a cut that came before. A server that refuses them
    /// ends the session.
    pub(super) async fn configure(
        &mut self,
        settings: &ChatSettings,
        ui: &Ui,
    ) -> Result<Option<Cut>, Failure> {
        // A session that has ended gives the reason in its events.
        let _ = self.chat.configure(settings).await;
        let (ready, cut) = next_ready(&mut self.events, &self.endpoint, ui).await?;
        self.ready = ready;
        Ok(cut)
    }

    /// Cuts a finished response to the part that was heard; returns the rest of its message.
    pub(super) async fn cut(
        &mut self,
        response: &ResponseId,
        heard: Samples,
    ) -> Result<Option<Message>, Failure> {
        let cut = async {
            let _ = self.chat.interrupt(Some(response), Some(heard)).await;
            loop {
                match self.events.next().await? {
                    Some(ChatEvent::MessageCut(_, left)) => return Ok(left),
                    Some(_) => {}
                    None => return Err(ended(&self.endpoint)),
                }
            }
        };
        let late = |_| Err(deaf("cut"));
        Ok(timeout(GOODBYE, cut).await.unwrap_or_else(late)?)
    }

    /// Closes the sending side and lets the server end the call, so that it does not look like a lost client.
    pub(super) async fn close(mut self) {
        self.chat = ChatSender::closed();
        let drain = async { while let Ok(Some(_)) = self.events.next().await {} };
        // Everything has arrived; the end of the call changes nothing.
        let _ = timeout(GOODBYE, drain).await;
    }

    /// Error of a server that has ended the session.
    pub(super) fn ended(&self) -> ClientError {
        ended(&self.endpoint)
    }
}

/// Error of a server that does not `stop` or `cut` an answer on request.
pub(super) fn deaf(what: &str) -> ClientError {
    let message = format!(
        "the server did not {what} the answer within {} s",
        GOODBYE.as_secs()
    );
    ClientError::Rpc(Box::new(RpcError::new(Code::Internal, message)))
}

fn ended(endpoint: &Endpoint) -> ClientError {
    ClientError::Protocol {
        endpoint: endpoint.clone(),
        what: "it ended the session before it had answered".to_owned(),
    }
}

async fn next_ready(
    events: &mut ChatEvents,
    endpoint: &Endpoint,
    ui: &Ui,
) -> Result<(ChatReady, Option<Cut>), Failure> {
    let mut cut = None;
    loop {
        match events.next().await? {
            Some(ChatEvent::Ready(ready)) => return Ok((ready, cut)),
            Some(ChatEvent::MessageCut(_, left)) => cut = Some(Cut(left)),
            Some(ChatEvent::Warning { reason, message, .. }) => ui.warning(&format!("{message} ({reason})")),
            Some(_) => {}
            None => return Err(ended(endpoint).into()),
        }
    }
}

/// Returns true for the end of an idle or old session; the conversation goes on all the same.
pub(super) fn ended_by_age(error: &ClientError) -> bool {
    let by_age = |error: &RpcError| ["SESSION_IDLE", "SESSION_MAX_AGE"].contains(&error.reason.as_str());
    matches!(error, ClientError::Rpc(error) if by_age(error))
}
