//! State of the screen, and the effect of keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use omni_client::{ClientError, ReplicaState, ServerInfo, Session, Stats};

use crate::operator::rows;

/// Action of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Set {
        stage: String,
        replica: String,
        state: ReplicaState,
    },
    Cancel {
        session: String,
    },
    Drain,
}

/// The table that the arrows move in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Replicas,
    Sessions,
}

/// The screen.
#[derive(Debug)]
pub(super) struct State {
    pub(super) info: ServerInfo,
    pub(super) stats: Stats,
    /// The look before.
    pub(super) before: Option<Stats>,
    pub(super) table: Table,
    /// Stage and name of the replica: the lists change under the cursor.
    replica: Option<(String, String)>,
    /// The name of the session.
    session: Option<String>,
    /// Action that a "y" confirms, and its question.
    pub(super) asks: Option<(Action, String)>,
    /// Result of the last key, or the reason why nothing new is shown.
    pub(super) message: String,
    pub(super) lost: bool,
    /// `true` while the keys are explained, over everything else.
    pub(super) help: bool,
}

impl State {
    pub(super) fn new(info: ServerInfo, stats: Stats) -> Self {
        let mut state = Self {
            info,
            stats,
            before: None,
            table: Table::Replicas,
            replica: None,
            session: None,
            asks: None,
            message: String::new(),
            lost: false,
            help: false,
        };
        state.choose(0);
        state
    }

    /// Takes new figures.
    pub(super) fn take(&mut self, stats: Stats) {
        self.before = Some(std::mem::replace(&mut self.stats, stats));
        if self.replica.is_none() {
            self.choose(0);
        }
        if self.lost {
            self.lost = false;
            self.message.clear();
        }
    }

    /// Takes another server, or the same one again.
    pub(super) fn renew(&mut self, info: ServerInfo) {
        self.info = info;
        self.before = None;
    }

    /// Records that there are no new figures.
    pub(super) fn lose(&mut self, error: &ClientError) {
        self.lost = true;
        self.message = format!("{error}; trying again");
    }

    pub(super) fn tell(&mut self, message: &str) {
        message.clone_into(&mut self.message);
    }

    /// Row of the replica under the cursor.
    pub(super) fn replica_row(&self) -> Option<usize> {
        let mut present = rows::present(&self.stats.stages);
        let first = present.next().map(|_| 0);
        self.chosen_row().or(first)
    }

    /// Row of the replica that was chosen, if that is still there.
    fn chosen_row(&self) -> Option<usize> {
        let (stage, id) = self.replica.as_ref()?;
        rows::present(&self.stats.stages).position(|(of, replica)| of.name == *stage && replica.id == *id)
    }

    /// Row of the session under the cursor.
    pub(super) fn session_row(&self) -> Option<usize> {
        let sessions = &self.stats.session_list;
        let chosen = self.session.as_ref();
        let row = chosen.and_then(|id| sessions.iter().position(|session| session.id == *id));
        row.or_else(|| (!sessions.is_empty()).then_some(0))
    }

    fn session(&self) -> Option<&Session> {
        self.stats.session_list.get(self.session_row()?)
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Action> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Action::Quit);
        }
        if std::mem::take(&mut self.help) {
            // Any key closes the explanation, and does nothing else.
            return None;
        }
        if let Some((action, _)) = self.asks.take() {
            let yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
            self.message = if yes {
                String::new()
            } else {
                "nothing is done".to_owned()
            };
            return yes.then_some(action);
        }
        if !self.lost {
            // The message about the last key has been read.
            self.message.clear();
        }
        match key.code {
            // Esc has closed the question or message by now.
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Char('?') => self.help = true,
            KeyCode::Tab | KeyCode::BackTab => {
                self.table = match self.table {
                    Table::Replicas => Table::Sessions,
                    Table::Sessions => Table::Replicas,
                };
            }
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up => self.step(-1),
            KeyCode::Char('c') => return self.cordon(),
            KeyCode::Char('k') => self.ask_cancel(),
            KeyCode::Char('d') => {
                let question = format!(
                    "shut {} down? {} sessions are open",
                    self.info.listens, self.stats.sessions
                );
                self.asks = Some((Action::Drain, question));
            }
            _ => {}
        }
        None
    }

    fn step(&mut self, by: isize) {
        match self.table {
            Table::Replicas => {
                let row = self.replica_row().unwrap_or_default().saturating_add_signed(by);
                self.choose(row);
            }
            Table::Sessions => {
                let row = self.session_row().unwrap_or_default().saturating_add_signed(by);
                let sessions = &self.stats.session_list;
                let chosen = sessions.get(row.min(sessions.len().saturating_sub(1)));
                self.session = chosen.map(|session| session.id.clone());
            }
        }
    }

    /// Puts the cursor on a replica, or on the last.
    fn choose(&mut self, row: usize) {
        let chosen = rows::present(&self.stats.stages).take(row + 1).last();
        self.replica = chosen.map(|(stage, replica)| (stage.name.clone(), replica.id.clone()));
    }

    /// Takes the replica under the cursor out of service, or back in; never another that came to stand there.
    fn cordon(&mut self) -> Option<Action> {
        if self.table != Table::Replicas {
            self.tell("c cordons a replica: Tab goes to them");
            return None;
        }
        let Some(row) = self.chosen_row() else {
            let gone = self.replica.take();
            self.choose(0);
            match gone {
                Some((stage, id)) => self.tell(&format!("{stage} {id} is no longer there; nothing is done")),
                None => self.tell("there is no replica"),
            }
            return None;
        };
        let (stage, replica) = rows::present(&self.stats.stages).nth(row)?;
        let state = match replica.state {
            ReplicaState::Cordoned => ReplicaState::Ready,
            _ => ReplicaState::Cordoned,
        };
        let action = Action::Set {
            stage: stage.name.clone(),
            replica: replica.id.clone(),
            state,
        };
        match rows::last_of(&self.stats.stages, &stage.name, &replica.id) {
            Some(consequence) => {
                self.asks = Some((action, format!("{consequence}; cordon it?")));
                None
            }
            None => Some(action),
        }
    }

    fn ask_cancel(&mut self) {
        match (self.table, self.session()) {
            (Table::Sessions, Some(session)) => {
                let question = format!("end session {} ({})?", session.id, session.method);
                let session = session.id.clone();
                self.asks = Some((Action::Cancel { session }, question));
            }
            (Table::Sessions, None) => self.tell("no session is open"),
            (Table::Replicas, _) => self.tell("k ends a session: Tab goes to them"),
        }
    }
}
