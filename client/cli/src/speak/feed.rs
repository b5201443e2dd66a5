//! Feeds text into a session, utterance by utterance: as it comes, and never more in one than the server takes.

use std::cell::Cell;
use std::rc::Rc;

use omni_client::{SessionClosed, SpeechSender};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::text::{Piece, Text};

/// Every server takes this much, so it is sent without waiting to hear the limit.
const ALWAYS_TAKEN: usize = 1_024;

/// Result of feeding an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    /// It has text.
    Text,
    /// Only blanks were left: there is no further utterance.
    Nothing,
}

/// State shared by the feeding and the hearing side of a session.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    /// Longest text of an utterance in bytes; unknown until the server has said it.
    limit: watch::Sender<Option<usize>>,
    /// Time at which the first text of the current utterance was sent.
    started: Rc<Cell<Option<Instant>>>,
    /// `true` if text is left for another utterance.
    more: Rc<Cell<bool>>,
    /// `true` if the server ended the last utterance before all its text was sent.
    cut_off: Rc<Cell<bool>>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            limit: watch::Sender::new(None),
            started: Rc::default(),
            more: Rc::default(),
            cut_off: Rc::default(),
        }
    }
}

impl Feed {
    /// The server has said the longest text it takes; 0 if it sets no limit.
    pub(super) fn limit(&self, bytes: u32) {
        self.limit
            .send_replace(Some(if bytes == 0 { usize::MAX } else { bytes as usize }));
    }

    pub(super) fn started(&self) -> Option<Instant> {
        self.started.get()
    }

    pub(super) fn more(&self) -> bool {
        self.more.get()
    }

    /// The server has ended the utterance although there may be more text: the rest is for another one.
    pub(super) fn cut_off(&self) {
        self.cut_off.set(true);
        self.more.set(true);
    }

    /// Sends text up to the limit or the end, and then that the utterance is finished. A session that has ended is no
    /// failure here: its events say why. When this is dropped, text that was not sent stays where it was.
    pub(super) async fn utterance(&self, text: &mut Text, say: &SpeechSender) -> Result<Fed, Failure> {
        self.started.set(None);
        self.more.set(false);
        if self.cut_off.take() {
            // Up to this the server drops what comes, as text of the utterance that it ended.
            let _ = say.finish().await;
        }
        let mut sent = 0;
        while let Some(mut piece) = text.next().await? {
            if sent == 0 && piece.text.trim().is_empty() {
                continue;
            }
            text.put_back(Some(piece.clone()));
            let at = cut(&piece.text, sent, self.room(sent + piece.text.len()).await);
            let rest = at.map(|at| Piece {
                text: piece.text.split_off(at),
                flush: piece.flush,
            });
            self.more.set(rest.is_some());
            if self.started.get().is_none() {
                self.started.set(Some(Instant::now()));
            }
            sent += piece.text.len();
            if send(piece, say).await.is_err() {
                return Ok(Fed::Text);
            }
            text.put_back(rest);
            if self.more.get() {
                break;
            }
        }
        if sent == 0 {
            return Ok(Fed::Nothing);
        }
        let _ = say.finish().await;
        Ok(Fed::Text)
    }

    /// The limit, waiting for it if `wanted` bytes may be more.
    async fn room(&self, wanted: usize) -> usize {
        if wanted <= ALWAYS_TAKEN {
            return usize::MAX;
        }
        let mut limit = self.limit.subscribe();
        let known = limit.wait_for(Option::is_some).await;
        known.ok().and_then(|limit| *limit).unwrap_or(usize::MAX)
    }
}

/// Stops the utterance, if it has `begun`. If the session has ended already there is nothing left to stop.
pub(super) async fn cancel(say: &SpeechSender, begun: bool) -> Result<Fed, Failure> {
    if !begun {
        return Ok(Fed::Nothing);
    }
    let _ = say.cancel(None).await;
    Ok(Fed::Text)
}

async fn send(piece: Piece, say: &SpeechSender) -> Result<(), SessionClosed> {
    say.text(&piece.text).await?;
    if piece.flush { say.flush().await } else { Ok(()) }
}

/// Offset at which to split an utterance that has `sent` bytes before `text`; `None` if all of it may follow.
///
/// The last quarter of the room is searched for the end of a sentence, then for the end of a word; a text without
/// either is cut at a character.
fn cut(text: &str, sent: usize, limit: usize) -> Option<usize> {
    let room = text.floor_char_boundary(limit.saturating_sub(sent));
    let from = text.floor_char_boundary((limit / 4 * 3).saturating_sub(sent));
    if from == text.len() {
        return None;
    }
    let sentence = ends(text, |before, after| {
        matches!(before, '\n' | '。' | '！' | '？')
            || matches!(before, '.' | '!' | '?') && after.is_whitespace()
    });
    if let Some(at) = sentence.filter(|at| (from + 1..=room).contains(at)).last() {
        return (at < text.len()).then_some(at);
    }
    if room == text.len() {
        return None;
    }
    let word = ends(text, |before, after| {
        before.is_whitespace() && !after.is_whitespace()
    });
    Some(word.take_while(|&at| at <= room).last().unwrap_or(room))
}

/// Positions between two characters for which `is_end` holds.
fn ends(text: &str, is_end: impl Fn(char, char) -> bool) -> impl Iterator<Item = usize> {
    let after = text.char_indices().skip(1);
    text.chars()
        .zip(after)
        .filter(move |&(before, (_, after))| is_end(before, after))
        .map(|(_, (at, _))| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts `text`, given in pieces of `step` characters, into utterances of at most `limit` bytes.
    fn utterances(text: &str, step: usize, limit: usize) -> Vec<String> {
        let characters: Vec<char> = text.chars().collect();
        let mut utterances = vec![String::new()];
        for piece in characters.chunks(step) {
            let mut piece: String = piece.iter().collect();
            while let Some(at) = cut(&piece, utterances.last().unwrap().len(), limit) {
                let rest = piece.split_off(at);
                utterances.last_mut().unwrap().push_str(&piece);
                utterances.push(String::new());
                piece = rest;
            }
            utterances.last_mut().unwrap().push_str(&piece);
        }
        utterances
    }

    #[test]
    fn nothing_is_lost_and_no_limit_is_broken() {
        let texts = [
            "A sentence. Another one! A third? ".repeat(40),
            "nothing but words and words ".repeat(40),
            "x".repeat(1_000),
            "狐狸跳过懒狗。".repeat(60),
        ];
        for text in &texts {
            for step in [1, 7, 100, 10_000] {
                let cut = utterances(text, step, 100);
                assert_eq!(cut.concat(), *text);
                assert!(cut.iter().all(|part| part.len() <= 100), "{step}: {cut:?}");
            }
        }
    }

    #[test]
    fn cuts_fall_behind_sentences_and_words_where_there_are_any() {
        let cuts = utterances(&"A sentence. Another one! A third? ".repeat(40), 10_000, 100);
        assert!(
            cuts.iter()
                .rev()
                .skip(1)
                .all(|part| part.trim_end().ends_with(['.', '!', '?'])),
            "{cuts:?}"
        );
        let cuts = utterances(&"nothing but words and words ".repeat(40), 10_000, 100);
        assert!(
            cuts.iter().rev().skip(1).all(|part| part.ends_with(' ')),
            "{cuts:?}"
        );
    }

    #[test]
    fn a_text_well_within_the_limit_is_not_cut() {
        assert_eq!(cut("One. Two. Three. ", 0, 24), None);
        assert_eq!(cut("One. Two.", 0, usize::MAX), None);
    }
}
