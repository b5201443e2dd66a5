//! Making a conversation fit into the model's context: the oldest turns go first.

use super::history::Conversation;
use crate::error::ServeError;
use crate::stage::{BackendError, Prompt, PromptBuilder};

/// A share of the context that an answer should have: this part of it, or all that it may use if that is less.
const ROOM: u32 = 4;

/// A prompt that leaves room for an answer.
#[derive(Debug, PartialEq)]
pub(super) struct Fitted {
    pub(super) prompt: Prompt,
    /// Messages that were left out.
    pub(super) forgotten: usize,
    /// Messages that are in it, and their characters.
    pub(super) messages: usize,
    pub(super) characters: usize,
}

/// Builds the prompt, leaving out as few of the oldest turns as possible.
///
/// # Errors
/// If the last turn alone leaves no room, or the model's template refuses the conversation.
pub(super) fn fit(
    conversation: &Conversation,
    build: &PromptBuilder,
    max_context: u32,
    max_tokens: u32,
) -> Result<Fitted, ServeError> {
    let room = max_tokens.min(max_context / ROOM).max(1);
    let comfortable = (max_context - room.min(max_context)) as usize;
    let attempt = |first: usize| build(&conversation.from(first)).map_err(refused);
    let fitted = |first: usize, prompt: Prompt| Fitted {
        prompt,
        forgotten: first,
        messages: conversation.messages.len() - first + usize::from(conversation.system.is_some()),
        characters: conversation.characters(first),
    };

    let whole = attempt(0)?;
    if whole.positions() <= comfortable {
        return Ok(fitted(0, whole));
    }
    // The shorter the conversation, the fewer positions: the first turn to begin with is found by halving.
    let (mut from, mut to) = (0, conversation.turns.len());
    let mut best = None;
    while from < to {
        let middle = usize::midpoint(from, to);
        let first = conversation.turns[middle];
        let prompt = attempt(first)?;
        if prompt.positions() <= comfortable {
            best = Some((first, prompt));
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    if let Some((first, prompt)) = best {
        return Ok(fitted(first, prompt));
    }
    // Not comfortable: what is left must do, if it leaves any room at all.
    let last = conversation.turns.last().copied().unwrap_or(0);
    let prompt = if last == 0 { whole } else { attempt(last)? };
    match prompt.positions() < max_context as usize {
        true => Ok(fitted(last, prompt)),
        false => Err(ServeError::ContextTooLong {
            got: prompt.positions(),
            limit: max_context.saturating_sub(1) as usize,
        }),
    }
}

fn refused(error: BackendError) -> ServeError {
    ServeError::InvalidField {
        field: "message",
        problem: error.0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::stage::{ChatMessage, Part, PromptPiece, Role};

    /// Ten positions per message.
    fn build(messages: &[ChatMessage]) -> Prompt {
        Prompt {
            pieces: vec![PromptPiece::Tokens(vec![0; 10 * messages.len()])],
            ..Prompt::default()
        }
    }

    fn conversation(turns: usize) -> Conversation {
        let said = |role| ChatMessage {
            role,
            parts: vec![Part::Text("x".into())],
        };
        let turn = || [said(Role::User), said(Role::Assistant)];
        let mut messages: Vec<_> = (0..turns).flat_map(|_| turn()).collect();
        messages.push(said(Role::User));
        Conversation {
            system: Some(said(Role::System)),
            turns: (1..=turns).map(|turn| 2 * turn).collect(),
            messages,
        }
    }

    fn fit_in(turns: usize, context: u32, max_tokens: u32) -> (Result<Fitted, ServeError>, usize) {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let builder: PromptBuilder = Arc::new(move |messages| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(build(messages))
        });
        let fitted = fit(&conversation(turns), &builder, context, max_tokens);
        (fitted, attempts.load(Ordering::Relaxed))
    }

    #[test]
    fn what_fits_is_left_alone() {
        let fitted = fit_in(2, 100, 40).0.unwrap();
        assert_eq!((fitted.forgotten, fitted.messages, fitted.characters), (0, 6, 6));
    }

    #[test]
    fn as_few_turns_as_possible_are_left_out() {
        for turns in 0..40 {
            let (fitted, attempts) = fit_in(turns, 200, 20);
            let fitted = fitted.unwrap();
            let positions = fitted.prompt.positions();
            assert!(positions <= 180, "{turns} turns take {positions}");
            assert!(
                fitted.forgotten == 0 || positions + 20 > 180,
                "{turns} turns: one more fits"
            );
            assert_eq!(fitted.forgotten % 2, 0, "whole turns");
            assert!(attempts < 9, "{turns} turns took {attempts} attempts");
        }
    }

    #[test]
    fn a_tight_turn_is_answered_and_one_that_leaves_no_room_is_refused() {
        assert_eq!(fit_in(3, 21, 20).0.unwrap().forgotten, 6);
        let refused = fit_in(3, 20, 20).0.unwrap_err();
        assert_eq!(refused, ServeError::ContextTooLong { got: 20, limit: 19 });
    }
}
