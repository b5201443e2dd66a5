//! One stream's conversation, turn after turn.

use std::time::Duration;

use omni_client::{ChatEvent, ChatEvents, ChatSender, ChatSettings, Client, ClientError};
use tokio::time::{Instant, timeout};

use super::heard::Heard;
use super::record::Served;

/// Limit for a server to close a finished conversation.
const GOODBYE: Duration = Duration::from_secs(2);

/// Has a conversation, or none yet.
#[derive(Debug, Default)]
pub(crate) struct Talker {
    session: Option<(ChatSender, ChatEvents)>,
    served: Option<Served>,
    turns: u32,
}

impl Talker {
    /// Turns of the conversation so far.
    pub(crate) fn turns(&self) -> u32 {
        self.turns
    }

    /// Says `text` and hears the answer. A new conversation is open before the time counts.
    pub(crate) async fn turn(
        &mut self,
        client: &Client,
        settings: &ChatSettings,
        text: &str,
        heard: &mut Heard,
    ) -> Result<(), ClientError> {
        if self.session.is_none() {
            let (chat, mut events) = client.converse(settings);
            while let Some(event) = events.next().await? {
                if let ChatEvent::Ready(ready) = event {
                    self.served = Some(Served::of_chat(&ready));
                    break;
                }
            }
            self.session = Some((chat, events));
        }
        let Some((chat, events)) = &mut self.session else {
            return Ok(());
        };
        self.turns += 1;
        heard.served.clone_from(&self.served);
        let sent = Instant::now();
        // A session that closes early says why in its events.
        let _ = chat.say(text).await;
        while let Some(event) = events.next().await? {
            match event {
                ChatEvent::Text(..) => heard.text(sent.elapsed()),
                ChatEvent::Audio(_, audio) => heard.audio(sent.elapsed(), &audio),
                ChatEvent::Done(_, done) => {
                    heard.done(sent.elapsed(), done.outcome);
                    return Ok(());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends the conversation well.
    pub(crate) async fn hang_up(&mut self) {
        self.turns = 0;
        if let Some((chat, mut events)) = self.session.take() {
            drop(chat);
            let drain = async { while let Ok(Some(_)) = events.next().await {} };
            // Everything is here already; how the call ends changes nothing.
            let _ = timeout(GOODBYE, drain).await;
        }
    }

    /// Ends the conversation at once.
    pub(crate) fn give_up(&mut self) {
        self.turns = 0;
        self.session = None;
    }
}
