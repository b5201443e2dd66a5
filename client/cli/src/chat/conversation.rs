//! The whole conversation: turns and commands, one line at a time.
//!
//! A person at a terminal is told of errors and may go on, in a new session that knows the conversation; a script
//! ends with its first failure.

use omni_client::{ChatEvent, ChatSettings, ClientError, Finish};

use super::audio_out::AudioOut;
use super::command::{HELP, Meaning};
use super::input::{Input, Line};
use super::latency;
use super::said::Said;
use super::session::{Cut, Session, ended_by_age};
use super::transcript::{About, Transcript};
use super::turn::{Answer, Playing, Stop, Turn};
use super::voice::unheard;
use super::words::Words;
use crate::args::Chat;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::interrupt::{Interrupts, SIGINT};
use crate::ui::Ui;

pub(super) struct Conversation<'a> {
    args: &'a Chat,
    ui: &'a Ui,
    settings: ChatSettings,
    input: Input,
    words: Words,
    audio: AudioOut,
    interrupts: Interrupts,
    /// None before the first and after a lost one.
    session: Option<Session>,
    transcript: Transcript,
    /// Messages of it that the last new session was not sent.
    untold: usize,
    /// The answer that a listener may still be hearing.
    playing: Option<Playing>,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        args: &'a Chat,
        ui: &'a Ui,
        settings: ChatSettings,
        input: Input,
        words: Words,
        audio: AudioOut,
        interrupts: Interrupts,
    ) -> Self {
        Self {
            args,
            ui,
            settings,
            input,
            words,
            audio,
            interrupts,
            session: None,
            transcript: Transcript::default(),
            untold: 0,
            playing: None,
        }
    }

    /// Talks until there is nothing more to say.
    pub(super) async fn hold(&mut self, first: Option<Said>) -> Result<(), Failure> {
        self.open(self.settings.clone()).await?;
        if let Some(session) = self.session.as_ref().filter(|_| self.input.interactive()) {
            self.ui.note(&session.greeting());
        }
        let mut silent = first.is_none();
        if let Some(said) = first {
            let result = self.turn(&said).await;
            self.tolerate(result)?;
        }
        let mut strikes = 0;
        loop {
            match self.line().await? {
                Line::End => break,
                Line::Cleared => strikes = 0,
                Line::Interrupt if self.cut_playback().await? => {}
                Line::Interrupt => {
                    strikes += 1;
                    if strikes == 2 {
                        break;
                    }
                    self.ui.note("(Ctrl-C again or Ctrl-D leaves)");
                }
                Line::Text(line) => {
                    strikes = 0;
                    let meaning = Meaning::of(&line);
                    silent &= meaning == Meaning::Nothing;
                    if meaning == Meaning::Quit {
                        break;
                    }
                    let result = self.obey(meaning).await;
                    self.tolerate(result)?;
                }
            }
        }
        if silent && !self.input.interactive() {
            return Err(Failure::Usage(
                "no text: write it behind `chat`, or pipe it in, one turn in every line".into(),
            ));
        }
        Ok(())
    }

    /// Ends the session; gracefully if it has not failed.
    pub(super) async fn leave(self, well: bool) -> (AudioOut, Interrupts) {
        if let Some(session) = self.session.filter(|_| well) {
            session.close().await;
        }
        (self.audio, self.interrupts)
    }

    /// Lets a person try again after an error of the server or a timeout.
    fn tolerate(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Err(failure @ (Failure::Rpc(_) | Failure::Usage(_))) if self.input.interactive() => {
                failure.tell(self.ui);
                Ok(())
            }
            Err(Failure::Interrupted(SIGINT)) if self.input.interactive() => {
                self.ui.note("(given up)");
                Ok(())
            }
            result => result,
        }
    }

    /// Waits for the next line, while the session is watched.
    async fn line(&mut self) -> Result<Line, Failure> {
        loop {
            tokio::select! {
                biased;
                signal = self.interrupts.next() => {
                    return if self.input.interactive() && signal == SIGINT {
                        Ok(Line::Interrupt)
                    } else {
                        Err(Failure::Interrupted(signal))
                    };
                }
                line = self.input.next() => return line,
                event = next_event(&mut self.session) => self.idle_event(event)?,
            }
        }
    }

    /// Handles an event between turns. A person is told that the session was lost, and may go on.
    fn idle_event(&mut self, event: Result<Option<ChatEvent>, ClientError>) -> Result<(), Failure> {
        match event {
            Ok(Some(ChatEvent::Warning { reason, message, .. })) => {
                self.ui.warning(&format!("{message} ({reason})"));
            }
            // The answer was done before the server received the request to stop.
            Ok(Some(ChatEvent::MessageCut(_, left))) => self.transcript.cut(left),
            Ok(Some(_)) => {}
            Ok(None) => self.session = None,
            Err(error) => {
                self.session = None;
                if ended_by_age(&error) {
                    return Ok(());
                }
                if !self.input.interactive() {
                    return Err(error.into());
                }
                self.ui
                    .warning(&format!("{error}; the next message opens a new session"));
            }
        }
        Ok(())
    }

    async fn obey(&mut self, meaning: Meaning) -> Result<(), Failure> {
        match meaning {
            Meaning::Nothing | Meaning::Quit => Ok(()),
            Meaning::Say(text) => self.turn(&Said::text(text)).await,
            Meaning::Wrong(what) => Err(Failure::Usage(what)),
            Meaning::Help => {
                self.ui.note(HELP);
                Ok(())
            }
            Meaning::System(Some(text)) => self.change(|settings| settings.instructions = text).await,
            Meaning::System(None) => {
                self.show("system", |session| &session.ready.instructions);
                Ok(())
            }
            Meaning::Voice(name) if !self.settings.outputs.audio() => {
                let model = self.session.as_ref().map(|session| session.ready.model.clone());
                let endpoint = &self.args.server.endpoint;
                Err(unheard(
                    endpoint,
                    &model.unwrap_or_default(),
                    name.as_deref(),
                    self.args.timeout,
                )
                .await)
            }
            Meaning::Voice(Some(voice)) => {
                self.change(|settings| settings.voice = voice).await?;
                self.show("voice", |session| &session.ready.voice);
                Ok(())
            }
            Meaning::Voice(None) => {
                self.show("voice", |session| &session.ready.voice);
                Ok(())
            }
            Meaning::Save(file) => self.save(&file),
            Meaning::Clear => {
                self.transcript.clear();
                self.untold = 0;
                self.playing = None;
                if let Some(session) = self.session.take() {
                    session.close().await;
                }
                self.open(self.settings.clone()).await?;
                self.ui.note("(a new conversation)");
                Ok(())
            }
        }
    }

    fn show(&self, name: &str, value: fn(&Session) -> &String) {
        let value = self.session.as_ref().map(value).filter(|value| !value.is_empty());
        self.ui
            .note(&format!("{name}: {}", value.map_or("(none)", String::as_str)));
    }

    fn save(&self, file: &std::path::Path) -> Result<(), Failure> {
        let ready = self.session.as_ref().map(|session| &session.ready);
        let about = About {
            model: ready.map_or(&self.settings.model, |ready| &ready.model),
            voice: ready.map_or(&self.settings.voice, |ready| &ready.voice),
            system: &self.settings.instructions,
        };
        let saved = self.transcript.save(file, &about);
        if self.input.interactive()
            && let Err(failure) = saved
        {
            failure.tell(self.ui);
            return Ok(());
        }
        saved?;
        let count = self.transcript.len();
        let file = file.display();
        self.ui.note(&format!("{count} messages saved to {file}"));
        Ok(())
    }

    /// Puts new settings in force. If the server refuses them the old ones stay, for another session.
    async fn change(&mut self, change: impl FnOnce(&mut ChatSettings)) -> Result<(), Failure> {
        let mut settings = self.settings.clone();
        change(&mut settings);
        let Some(mut session) = self.session.take() else {
            return self.open(settings).await;
        };
        let deadline = Deadline::after(self.args.timeout);
        tokio::select! {
            biased;
            signal = self.interrupts.next() => return Err(Failure::Interrupted(signal)),
            result = deadline.within(session.configure(&settings, self.ui)) => {
                if let Some(Cut(left)) = result? {
                    self.transcript.cut(left);
                }
            }
        }
        self.session = Some(session);
        self.settings = settings;
        Ok(())
    }

    /// Opens a session with these settings, which are in force from then on.
    async fn open(&mut self, settings: ChatSettings) -> Result<(), Failure> {
        self.session = Some(self.connect(&settings).await?);
        self.settings = settings;
        Ok(())
    }

    /// Opens a session with these settings and the conversation so far.
    async fn connect(&mut self, settings: &ChatSettings) -> Result<Session, Failure> {
        let told = ChatSettings {
            history: self.transcript.history(),
            ..settings.clone()
        };
        let untold = self.transcript.untold();
        if untold > self.untold {
            self.ui.warning(&format!(
                "the conversation is longer than a new session can be told: it does not know the oldest {untold} messages"
            ));
        }
        self.untold = untold;
        let endpoint = &self.args.server.endpoint;
        let opening = Deadline::after(self.args.timeout).within(Session::open(endpoint, &told, self.ui));
        let opening = self.ui.patiently(|| format!("waiting for {endpoint}"), opening);
        tokio::select! {
            biased;
            signal = self.interrupts.next() => {
                self.ui.clear();
                Err(Failure::Interrupted(signal))
            }
            opened = opening => opened,
        }
    }

    /// Sends a message and receives the answer.
    async fn turn(&mut self, said: &Said) -> Result<(), Failure> {
        self.playing = None;
        self.audio.begin()?;
        let mut answer = self.attempt(said).await;
        if let Err(Stop::Expired(_)) = answer {
            answer = self.attempt(said).await;
        }
        self.end_line().await?;
        let written = self.audio.end().await;
        match answer {
            Ok(answer) => {
                written?;
                self.answered(answer)
            }
            Err(stop) => self.stopped(stop).await,
        }
    }

    async fn attempt(&mut self, said: &Said) -> Result<Answer, Stop> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.connect(&self.settings.clone()).await.map_err(Stop::Failed)?,
        };
        let turn = Turn {
            session: &mut session,
            words: &mut self.words,
            audio: &self.audio,
            ui: self.ui,
            interrupts: &mut self.interrupts,
            deadline: Deadline::after(self.args.timeout),
        };
        let answer = turn.run(said).await?;
        // Without an answer neither can be used: the session, and its conversation.
        self.session = Some(session);
        if let Some(Cut(left)) = &answer.cut {
            self.transcript.cut(left.clone());
        }
        said.enter(&mut self.transcript);
        Ok(answer)
    }

    /// Ends the line of the answer. A reader that is stuck must not keep the program.
    async fn end_line(&mut self) -> Result<(), Failure> {
        tokio::select! {
            ended = self.words.end_line() => {
                if ended.is_ok() {
                    return Ok(());
                }
            }
            signal = self.interrupts.next() => return Err(Failure::Interrupted(signal)),
        }
        Err(self.words.why().await)
    }

    fn answered(&mut self, answer: Answer) -> Result<(), Failure> {
        if self.args.verbose || self.ui.is_terminal() {
            self.ui.note(&latency::line(&answer));
        }
        if let Some(message) = answer.done.message {
            self.transcript.add(message);
        }
        // Only standard output can have a listener.
        self.playing = answer.playing.filter(|_| self.audio.is_stdout());
        match (answer.done.outcome.finish, answer.signal) {
            (Finish::Error(error), _) => Err(ClientError::Rpc(error).into()),
            (_, Some(signal)) if signal != SIGINT || !self.input.interactive() => {
                Err(Failure::Interrupted(signal))
            }
            (Finish::Length, _) => {
                self.ui
                    .warning("the answer was cut: it reached the longest the server gives");
                Ok(())
            }
            (Finish::Repetition, _) => {
                self.ui
                    .warning("the answer was stopped: the model repeated itself");
                Ok(())
            }
            (Finish::Interrupted, None) => {
                self.ui.warning("the server stopped the answer before its end");
                Ok(())
            }
            (Finish::Stop | Finish::Interrupted, _) => Ok(()),
        }
    }

    async fn stopped(&mut self, stop: Stop) -> Result<(), Failure> {
        match stop {
            Stop::Failed(failure) | Stop::Expired(failure) => Err(failure),
            Stop::WordsGone => Err(self.words.why().await),
            // Writing has failed, so finishing says how.
            Stop::AudioGone => self.audio.finish().await.and(Err(Failure::ReaderGone)),
            Stop::Unsaid(SIGINT) if self.input.interactive() => Ok(()),
            Stop::Unsaid(signal) => Err(Failure::Interrupted(signal)),
        }
    }

    /// Handles Ctrl-C while a finished answer is still being heard; returns false if none is.
    async fn cut_playback(&mut self) -> Result<bool, Failure> {
        let playing = self.playing.take().filter(Playing::goes_on);
        let (Some(playing), Some(session)) = (playing, &mut self.session) else {
            return Ok(false);
        };
        match session.cut(&playing.response, playing.heard()).await {
            Ok(left) => {
                self.transcript.cut(left);
                self.ui.note("(cut to what was heard)");
            }
            Err(failure) => {
                self.session = None;
                self.tolerate(Err(failure))?;
            }
        }
        Ok(true)
    }
}

async fn next_event(session: &mut Option<Session>) -> Result<Option<ChatEvent>, ClientError> {
    match session {
        Some(session) => session.events.next().await,
        None => std::future::pending().await,
    }
}
