//! One caller: makes requests over a connection of its own, one after another, and keeps a record of each.

use std::time::Duration;

use omni_client::{ChatSettings, Client, ClientError, SpeechSettings};
use tokio::time::{Instant, timeout};

use super::heard::{Expected, Heard};
use super::random::Random;
use super::record::{Record, Served};
use super::speaking::{self, Manner};
use super::talking::Talker;

/// The work of the requests.
#[derive(Debug, Clone)]
pub enum Work {
    /// Every text is spoken.
    Speak(SpeechSettings),
    /// Every text is a turn of a conversation.
    Chat {
        /// Settings of every conversation.
        settings: ChatSettings,
        /// Turns of a conversation before its stream begins another.
        turns: u32,
    },
}

impl Work {
    /// True if the answers have audio.
    pub(crate) fn spoken(&self) -> bool {
        match self {
            Self::Speak(_) => true,
            Self::Chat { settings, .. } => settings.outputs.audio(),
        }
    }

    /// True if answers are turns of conversations.
    pub(crate) fn chat(&self) -> bool {
        matches!(self, Self::Chat { .. })
    }

    /// Turns of a conversation.
    pub(crate) fn turns(&self) -> Option<u32> {
        match self {
            Self::Speak(_) => None,
            Self::Chat { turns, .. } => Some(*turns),
        }
    }

    /// Requested voice, model and seed; empty or absent: the server's choice.
    pub(crate) fn chosen(&self) -> (&str, &str, Option<u64>) {
        match self {
            Self::Speak(settings) => (&settings.voice, &settings.model, settings.seed),
            Self::Chat { settings, .. } => (&settings.voice, &settings.model, settings.text_sampling.seed),
        }
    }

    fn expected(&self) -> Expected {
        let limited = match self {
            Self::Speak(_) => false,
            Self::Chat { settings, .. } => settings.text_sampling.max_tokens.is_some(),
        };
        Expected {
            audio: self.spoken(),
            limited,
        }
    }
}

/// Requests that are cancelled on their way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CancelMix {
    /// Share of the requests.
    pub share: f64,
    /// They are cancelled evenly distributed between these, in seconds after sending.
    pub after: (f64, f64),
    /// Decides which requests, and when.
    pub seed: u64,
}

impl CancelMix {
    /// Delay after which request `number` is cancelled, if it is. Depends on nothing else.
    pub(crate) fn of(&self, number: u32) -> Option<Duration> {
        let mut random = Random::part(self.seed, u64::from(number));
        let chosen = random.unit() < self.share;
        let after = random.between(self.after.0, self.after.1);
        chosen.then(|| Duration::from_secs_f64(after))
    }
}

/// Properties that all requests share.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The work of the requests.
    pub work: Work,
    /// The texts, sent in turn. At least one.
    pub texts: Vec<String>,
    /// Pacing of texts and reads.
    pub manner: Manner,
    /// Choice of the requests that are cancelled.
    pub cancel: Option<CancelMix>,
    /// A request that takes longer counts as failed.
    pub timeout: Duration,
}

/// A finished request.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) sent: Instant,
    pub(crate) end: Instant,
    pub(crate) record: Record,
    /// Model and voice.
    pub(crate) served: Option<Served>,
}

pub(crate) struct Caller<'a> {
    asking: &'a Asking,
    client: Client,
    /// Its conversation, if it has one.
    talker: Talker,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(asking: &'a Asking, client: Client) -> Self {
        Self {
            asking,
            client,
            talker: Talker::default(),
        }
    }

    /// Sends text `number` (round and round) and measures the answer. `due`: when it should have been sent; absent:
    /// now.
    pub(crate) async fn request(&mut self, number: u32, due: Option<Instant>) -> Answered {
        let text = number as usize % self.asking.texts.len();
        let mut heard = Heard {
            cancel_after: self.asking.cancel.and_then(|mix| mix.of(number)),
            ..Heard::default()
        };
        let sent = Instant::now();
        let lag = due.map_or(Duration::ZERO, |due| sent.saturating_duration_since(due));
        let answered = timeout(self.asking.timeout, self.answer(number, text, &mut heard)).await;
        let failure = match answered {
            Ok(Ok(())) => heard.shortcoming(self.asking.work.expected()),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("not done within {} s", self.asking.timeout.as_secs_f64())),
        };
        if failure.is_some() {
            self.talker.give_up();
        }
        Answered {
            sent,
            end: Instant::now(),
            served: heard.served.take(),
            record: heard.record(text, lag, failure),
        }
    }

    async fn answer(&mut self, number: u32, text: usize, heard: &mut Heard) -> Result<(), ClientError> {
        let text = &self.asking.texts[text];
        let numbered = |seed: Option<u64>| seed.map(|seed| seed.wrapping_add(u64::from(number)));
        match &self.asking.work {
            Work::Speak(settings) => {
                let settings = SpeechSettings {
                    seed: numbered(settings.seed),
                    ..settings.clone()
                };
                speaking::speak(&self.client, &settings, text, self.asking.manner, heard).await
            }
            Work::Chat { settings, turns } => {
                if self.talker.turns() >= *turns {
                    self.talker.hang_up().await;
                }
                let mut settings = settings.clone();
                settings.text_sampling.seed = numbered(settings.text_sampling.seed);
                self.talker.turn(&self.client, &settings, text, heard).await
            }
        }
    }

    /// Ends its conversation well.
    pub(crate) async fn hang_up(&mut self) {
        self.talker.hang_up().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_asked_for_is_cancelled_within_the_times_asked_for() {
        let mix = CancelMix {
            share: 0.2,
            after: (0.2, 2.0),
            seed: 1,
        };
        let chosen: Vec<Duration> = (0..10_000).filter_map(|number| mix.of(number)).collect();
        assert!((1_850..2_150).contains(&chosen.len()), "{}", chosen.len());
        assert!(
            chosen
                .iter()
                .all(|after| (0.2..2.0).contains(&after.as_secs_f64()))
        );
        let mean = chosen.iter().map(Duration::as_secs_f64).sum::<f64>() / chosen.len() as f64;
        assert!((mean - 1.1).abs() < 0.05, "{mean}");
        assert_eq!(mix.of(17), mix.of(17));
        let other = CancelMix { seed: 2, ..mix };
        assert!((0..100).any(|number| mix.of(number) != other.of(number)));
    }
}
