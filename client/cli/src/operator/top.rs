//! `top`: the server at work, on the whole screen; or a line per refresh where there is no screen.

mod screen;
mod state;

use std::io::{self, IsTerminal as _};
use std::pin::Pin;
use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyEventKind};
use omni_client::{ClientError, Endpoint, Operator, ServerInfo, Stats, StatsEvents};
use ratatui::DefaultTerminal;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt as _;

use self::state::{Action, State};
use super::super::args::TopArgs;
use super::super::failure::Failure;
use super::super::interrupt::Interrupts;
use super::super::print;
use super::super::ui::Ui;
use super::{PATIENCE, rows, soon};

/// Wait between two attempts to reach a server that was lost.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &TopArgs, ui: &Ui) -> Result<(), Failure> {
    let endpoint = &args.server.endpoint;
    let feed = soon(endpoint, ui, Feed::open(endpoint, args.interval)).await?;
    if args.plain || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return lines(feed).await;
    }
    let mut interrupts = Interrupts::catch()?;
    let mut terminal = ratatui::try_init().map_err(|error| Failure::io("cannot use the screen", error))?;
    let shown = tokio::select! {
        shown = show(&mut terminal, feed) => shown,
        signal = interrupts.next() => Err(Failure::Interrupted(signal)),
    };
    ratatui::restore();
    shown
}

/// Prints a line per refresh, until the server ends or the reader goes.
async fn lines(mut feed: Feed) -> Result<(), Failure> {
    let mut interrupts = Interrupts::catch()?;
    print(format!("{}\n", rows::head(&feed.info, &feed.first)[0]).as_bytes())?;
    print(format!("{}\n", rows::line(&feed.first)).as_bytes())?;
    loop {
        let stats = tokio::select! {
            stats = feed.events.next() => stats?,
            signal = interrupts.next() => return Err(Failure::Interrupted(signal)),
        };
        match stats {
            Some(stats) => print(format!("{}\n", rows::line(&stats)).as_bytes())?,
            None => return Ok(()),
        }
    }
}

async fn show(terminal: &mut DefaultTerminal, feed: Feed) -> Result<(), Failure> {
    let broken = |error| Failure::io("cannot use the terminal", error);
    let endpoint = feed.operator_at.clone();
    let interval = feed.interval;
    let mut state = State::new(feed.info.clone(), feed.first.clone());
    let mut keys = EventStream::new();
    let mut looks = Looks::On(Box::new(feed));
    let mut steering: Option<Steering> = None;
    loop {
        terminal
            .draw(|frame| screen::draw(frame, &mut state))
            .map_err(broken)?;
        tokio::select! {
            event = keys.next() => match event {
                Some(Ok(Event::Key(key))) if key.kind == KeyEventKind::Press => match state.key(key) {
                    Some(Action::Quit) => return Ok(()),
                    Some(_) if steering.is_some() => state.tell("the server has not answered the last key yet"),
                    Some(action) => {
                        state.tell("waiting for the server");
                        steering = Some(Box::pin(steer(looks.operator(), action)));
                    }
                    None => {}
                },
                // A resize, or another event that only needs a redraw.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broken(error)),
                None => return Ok(()),
            },
            told = come_of(&mut steering) => {
                steering = None;
                state.tell(&told);
            }
            look = looks.next(&endpoint, interval) => match look {
                Ok((Some(info), stats)) => {
                    state.take(stats);
                    state.renew(info);
                }
                Ok((None, stats)) => state.take(stats),
                Err(error) => state.lose(&error),
            },
        }
    }
}

/// Figures as they come, and the connection they come by.
struct Feed {
    operator: Operator,
    operator_at: Endpoint,
    interval: Duration,
    info: ServerInfo,
    first: Stats,
    events: StatsEvents,
}

impl Feed {
    async fn open(endpoint: &Endpoint, interval: Duration) -> Result<Self, ClientError> {
        let operator = Operator::connect(endpoint).await?;
        let info = operator.info().await?;
        let mut events = operator.watch(interval, true).await?;
        let first = events.next().await?.ok_or_else(|| ended(endpoint))?;
        Ok(Self {
            operator,
            operator_at: endpoint.clone(),
            interval,
            info,
            first,
            events,
        })
    }
}

fn ended(endpoint: &Endpoint) -> ClientError {
    lost(endpoint, "the server has ended")
}

fn lost(endpoint: &Endpoint, cause: &str) -> ClientError {
    ClientError::Lost {
        endpoint: endpoint.clone(),
        cause: cause.to_owned(),
    }
}

/// Connected, or reconnecting.
enum Looks {
    On(Box<Feed>),
    Lost,
}

impl Looks {
    fn operator(&self) -> Option<Operator> {
        match self {
            Self::On(feed) => Some(feed.operator.clone()),
            Self::Lost => None,
        }
    }

    /// Waits for the next statistics; with the server's description, if that is new. Dropping the future loses
    /// nothing but time.
    async fn next(
        &mut self,
        endpoint: &Endpoint,
        interval: Duration,
    ) -> Result<(Option<ServerInfo>, Stats), ClientError> {
        match self {
            Self::On(feed) => {
                let stats = feed.events.next().await;
                let stats = stats.and_then(|stats| stats.ok_or_else(|| ended(endpoint)));
                if stats.is_err() {
                    *self = Self::Lost;
                }
                Ok((None, stats?))
            }
            Self::Lost => {
                sleep(AGAIN).await;
                let silent = |_| lost(endpoint, "it gives no answer");
                let feed = timeout(PATIENCE, Feed::open(endpoint, interval)).await;
                let feed = feed.map_err(silent)??;
                let seen = (Some(feed.info.clone()), feed.first.clone());
                *self = Self::On(Box::new(feed));
                Ok(seen)
            }
        }
    }
}

/// A request of the operator without an answer yet; its result is a message. The screen goes on meanwhile.
type Steering = Pin<Box<dyn Future<Output = String>>>;

async fn come_of(steering: &mut Option<Steering>) -> String {
    match steering {
        Some(steering) => steering.await,
        None => std::future::pending().await,
    }
}

/// Carries out an action; returns a message.
async fn steer(operator: Option<Operator>, action: Action) -> String {
    let Some(operator) = operator else {
        return "the server is not there".to_owned();
    };
    let steering = async {
        match action {
            Action::Quit => Ok(String::new()),
            Action::Set {
                stage,
                replica,
                state,
            } => {
                let replica = operator.set_replica(&stage, &replica, state).await?;
                Ok(rows::now(&stage, &replica))
            }
            Action::Cancel { session } => {
                operator.cancel(&session, "an operator ended it").await?;
                Ok(format!("session {session} is ended"))
            }
            // The drain goes on by itself; the figures show it.
            Action::Drain => operator
                .drain(None)
                .await
                .map(|_| "the server shuts down".to_owned()),
        }
    };
    match timeout(PATIENCE, steering).await {
        Ok(Ok(done)) => done,
        Ok(Err::<_, ClientError>(error)) => error.to_string(),
        Err(_) => "the server does not answer".to_owned(),
    }
}
