//! A rendered conversation: the thinker's prompt, and the talker's view of it.

use std::ops::Range;
use std::sync::Arc;

use crate::config::{AudioTokens, Roles, TextTokens};
use crate::talker::UserRow;
use crate::thinker::{HiddenRows, PromptPiece};

use super::ChatError;

/// A part of a rendered conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatPiece {
    /// A token.
    Token(u32),
    /// The place of the n-th audio of the messages, from 0.
    Audio(usize),
}

/// Tokens that a conversation is built with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    pub(super) text: TextTokens,
    pub(super) roles: Roles,
    pub(super) newline: u32,
    pub(super) audio: AudioTokens,
}

/// A rendered conversation that ends where the reply begins.
#[derive(Debug, Clone)]
pub struct ChatPrompt {
    pieces: Vec<ChatPiece>,
    ids: Ids,
}

/// Part of a conversation that the talker reads before the reply.
#[derive(Debug, Clone, PartialEq)]
pub struct TalkerPrompt {
    /// All user turns, a row per position: for [`TalkerRequest::user`](crate::TalkerRequest::user).
    pub user: Vec<UserRow>,
    /// Tokens of the reply that the template has already written; they are pushed to the talker before the thinker's.
    pub opening: Vec<u32>,
}

impl ChatPrompt {
    pub(super) fn new(pieces: Vec<ChatPiece>, ids: Ids) -> Self {
        Self { pieces, ids }
    }

    /// Tokens and places for audio, in order.
    pub fn pieces(&self) -> &[ChatPiece] {
        &self.pieces
    }

    /// Places for audio.
    pub fn audio_count(&self) -> usize {
        let audio = |p: &&ChatPiece| matches!(p, ChatPiece::Audio(_));
        self.pieces.iter().filter(audio).count()
    }

    /// The prompt for [`ThinkerRequest::prompt`](crate::ThinkerRequest::prompt). `audio` are the rows of the audio
    /// encoder, `[positions, thinker hidden]` for every audio of the messages, in order.
    ///
    /// # Errors
    /// [`ChatError::AudioCount`] if there is more or less audio than places.
    pub fn thinker_prompt(&self, audio: &[Arc<[f32]>]) -> Result<Vec<PromptPiece>, ChatError> {
        self.check_audio(audio.len())?;
        let piece = |piece: &ChatPiece| match *piece {
            ChatPiece::Token(id) => PromptPiece::Token(id),
            ChatPiece::Audio(n) => PromptPiece::Audio(Arc::clone(&audio[n])),
        };
        Ok(self.pieces.iter().map(piece).collect())
    }

    /// Prompt of the talker. `audio_rows` has the number of rows of each audio of the messages, `hidden` the
    /// thinker's hidden rows for all of them (see [`ThinkerToken::hidden`](crate::ThinkerToken::hidden)); without
    /// audio the default will do.
    ///
    /// System turns and earlier turns of the assistant are not heard by the talker.
    ///
    /// # Errors
    /// [`ChatError`] if the numbers of rows disagree, if a turn has no role, or if the prompt does not end with the
    /// head of the assistant's turn.
    pub fn talker_prompt(
        &self,
        audio_rows: &[usize],
        hidden: &HiddenRows,
    ) -> Result<TalkerPrompt, ChatError> {
        self.check_audio(audio_rows.len())?;
        let found = hidden.rows().len();
        let expected = audio_rows.iter().sum();
        if found != expected {
            return Err(ChatError::HiddenRows { found, expected });
        }
        let turns = self.turns();
        let mut user = Vec::new();
        let mut opening = None;
        let mut rows = hidden.rows();
        for (i, turn) in turns.iter().enumerate() {
            let pieces = &self.pieces[turn.clone()];
            let role = self.pieces.get(turn.start + 1);
            let heard = role == Some(&ChatPiece::Token(self.ids.roles.user));
            for piece in pieces {
                match *piece {
                    ChatPiece::Token(id) if heard => user.push(UserRow::Token(id)),
                    ChatPiece::Token(_) => {}
                    ChatPiece::Audio(n) => {
                        let states = rows.by_ref().take(audio_rows[n]);
                        let states = states.map(|row| UserRow::Hidden(row.to_vec()));
                        user.extend(states.filter(|_| heard));
                    }
                }
            }
            if i + 1 == turns.len() {
                opening = self.opening(pieces);
            } else if !heard && !self.is_silent(role) {
                return Err(ChatError::Turns(format!("turn {i} is of no known role")));
            }
        }
        let missing =
            || ChatError::Turns("the prompt does not end with the head of the assistant's turn".into());
        Ok(TalkerPrompt {
            user,
            opening: opening.ok_or_else(missing)?,
        })
    }

    fn check_audio(&self, found: usize) -> Result<(), ChatError> {
        let expected = self.audio_count();
        if found == expected {
            Ok(())
        } else {
            Err(ChatError::AudioCount { found, expected })
        }
    }

    /// The pieces of every turn, from the token that opens it to the next turn.
    fn turns(&self) -> Vec<Range<usize>> {
        let open = ChatPiece::Token(self.ids.text.im_start);
        let starts = self.pieces.iter().enumerate().filter(|(_, p)| **p == open);
        let mut bounds: Vec<usize> = starts.map(|(i, _)| i).collect();
        bounds.push(self.pieces.len());
        bounds.windows(2).map(|b| b[0]..b[1]).collect()
    }

    /// Returns true if a turn of this role is not for the talker.
    fn is_silent(&self, role: Option<&ChatPiece>) -> bool {
        let ids = &self.ids;
        [ids.roles.system, ids.text.assistant]
            .map(ChatPiece::Token)
            .iter()
            .any(|silent| role == Some(silent))
    }

    /// Tokens behind the head of the assistant's turn, if `pieces` begin with that head.
    fn opening(&self, pieces: &[ChatPiece]) -> Option<Vec<u32>> {
        let text = &self.ids.text;
        let head = [text.im_start, text.assistant, self.ids.newline].map(ChatPiece::Token);
        let rest = pieces.strip_prefix(&head)?;
        rest.iter()
            .map(|piece| match piece {
                ChatPiece::Token(id) => Some(*id),
                ChatPiece::Audio(_) => None,
            })
            .collect()
    }
}
