//! Fitting a conversation into the model's context: the oldest turns are dropped first, then the instructions and the
//! last turn are shortened.

use omni_core::error::{ErrorKind, InvalidField, ServeError};
use omni_family::{ChatMessage, Hearing, Part, Prompt, PromptBuilder, PromptError};
use omni_pipeline::orchestrator::StageError;
use omni_pipeline::request::Clip;
use omni_pipeline::stage::CancelFlag;

use super::cut::Lengths;
use super::history::{Conversation, characters};
use crate::error::CallerGone;

/// The conversation leaves no room for an answer, even after dropping all that can be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the model's maximum context length is {} tokens: the last turn with the instructions takes at least {got}, and at most {limit} leave \
     room for an answer", limit + 1
)]
pub(super) struct ContextTooLong {
    got: usize,
    limit: usize,
}

impl From<ContextTooLong> for ServeError {
    fn from(error: ContextTooLong) -> Self {
        Self::new(ErrorKind::InvalidArgument, "CONTEXT_TOO_LONG", error.to_string())
            .at("messages")
            .with_got(error.got)
            .with_limit(error.limit)
    }
}

/// Divisor: the part of the context that an answer should have, or all that it may use if that is less.
const ROOM: u32 = 4;
/// Tokens of an answer for which the last turn is cut, if it may have that many.
const LEAST: u32 = 128;
/// Accuracy of a cut: at most so many bytes, or this share, could have been kept in addition.
const CLOSE: usize = 8;
const CLOSE_SHARE: usize = 32;

/// A prompt that leaves room for an answer.
#[derive(Debug, PartialEq)]
pub(super) struct Fitted {
    pub(super) prompt: Prompt,
    /// Messages that were left out.
    pub(super) forgotten: usize,
    /// Characters that were cut from the others.
    pub(super) cut: usize,
    /// Messages that are in it, and their characters.
    pub(super) messages: usize,
    pub(super) characters: usize,
}

/// Most bytes of text per position: tokens are shorter than this except for runs of blanks.
const TOKEN_BYTES: usize = 64;

/// Room for a conversation and its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Positions of both together.
    pub(super) context: u32,
    /// Most tokens of the answer.
    pub(super) max_tokens: u32,
    /// Size of audio in positions.
    pub(super) hearing: Option<Hearing>,
    /// True if texts are never cut.
    pub(super) strict: bool,
}

impl Room {
    /// Most positions of a prompt for which the last turn is not cut.
    fn enough(&self) -> usize {
        let answer = self.max_tokens.min(self.context / ROOM).clamp(1, LEAST);
        (self.context - answer.min(self.context)) as usize
    }
}

/// Builds the prompt, dropping as few of the oldest turns as possible: those that are too much, and those up to one
/// that the model's template refuses. Where the last turn alone is too much, its texts and the instructions are cut.
/// A conversation that cannot fit by its length alone is not even built, and nothing more is built once it is
/// `abandoned`.
///
/// # Errors
/// If the last turn alone leaves no room and cannot be cut, or is refused by the model's template, or if the model
/// fails on it.
pub(super) fn fit(
    conversation: &Conversation,
    build: &PromptBuilder,
    room: &Room,
    abandoned: &CancelFlag,
) -> Result<Fitted, ServeError> {
    let answer = room.max_tokens.min(room.context / ROOM).max(1);
    let comfortable = (room.context - answer.min(room.context)) as usize;
    let try_to = |messages: &[ChatMessage], most: usize| match abandoned.is_set() {
        // The error reaches no caller.
        true => Err(ServeError::from(CallerGone)),
        false => match build(messages) {
            Ok(prompt) if prompt.positions() <= most => Ok(Attempt::Fits(prompt)),
            Ok(prompt) => Ok(Attempt::Tight(prompt)),
            Err(PromptError::Refused(problem)) => Ok(Attempt::Refused(problem)),
            Err(PromptError::Failed(message)) => {
                let stage = "prompt";
                Err(StageError::Failed { stage, message }.into())
            }
        },
    };
    let attempt = |first: usize| try_to(&conversation.from(first), comfortable);
    let fitted = |first: usize, prompt: Prompt| Fitted {
        prompt,
        forgotten: first,
        cut: 0,
        messages: conversation.messages.len() - first + usize::from(conversation.system.is_some()),
        characters: characters(&conversation.from(first)),
    };
    let cut = |first: usize| {
        let messages = conversation.from(first);
        let lengths = Lengths::of(&messages);
        let mut most = lengths.total().min(room.context as usize * TOKEN_BYTES);
        let mut least = 0;
        let mut best = None;
        while most - least > CLOSE.max(least / CLOSE_SHARE) {
            let middle = usize::midpoint(least, most);
            let shorter = lengths.cut(&messages, middle);
            match try_to(&shorter, room.enough())? {
                Attempt::Fits(prompt) => {
                    best = Some((shorter, prompt));
                    least = middle;
                }
                Attempt::Tight(_) | Attempt::Refused(_) => most = middle,
            }
        }
        Ok::<_, ServeError>(best.map(|(shorter, prompt)| Fitted {
            prompt,
            forgotten: first,
            cut: characters(&messages).saturating_sub(characters(&shorter)).max(1),
            messages: shorter.len(),
            characters: characters(&shorter),
        }))
    };

    let places = match possible(conversation, room)? {
        Possible::Places(places) => places,
        Possible::Cut { last, least } => return cut(last)?.ok_or_else(|| too_long(least, room)),
    };
    let whole = match attempt(places[0])? {
        Attempt::Fits(prompt) => return Ok(fitted(places[0], prompt)),
        other => other,
    };
    // A shorter conversation has fewer positions, and less to be refused: the first turn is found by bisection.
    let mut from = 1;
    let mut to = places.len();
    let mut best = None;
    while from < to {
        let middle = usize::midpoint(from, to);
        match attempt(places[middle])? {
            Attempt::Fits(prompt) => {
                best = Some((places[middle], prompt));
                to = middle;
            }
            Attempt::Tight(_) | Attempt::Refused(_) => from = middle + 1,
        }
    }
    if let Some((first, prompt)) = best {
        return Ok(fitted(first, prompt));
    }
    // Little room is left: it must suffice, or texts are cut.
    let last = places[places.len() - 1];
    let tight = match if places.len() == 1 { whole } else { attempt(last)? } {
        Attempt::Fits(prompt) | Attempt::Tight(prompt) => prompt,
        Attempt::Refused(problem) => return Err(InvalidField::new("message", problem).into()),
    };
    let positions = tight.positions();
    if positions > room.enough()
        && !room.strict
        && let Some(shorter) = cut(last)?
    {
        return Ok(shorter);
    }
    if positions < room.context as usize {
        Ok(fitted(last, tight))
    } else {
        Err(too_long(positions, room))
    }
}

/// Recordings of the conversation that its prompt may need and that were not encoded yet, and the number of those
/// that were.
///
/// # Errors
/// As for [`fit`].
pub(super) fn unheard(conversation: &Conversation, room: &Room) -> Result<(Vec<Clip>, u32), ServeError> {
    let first = match possible(conversation, room)? {
        Possible::Places(places) => places[0],
        Possible::Cut { last, .. } => last,
    };
    let messages = conversation.from(first);
    let parts = messages.iter().flat_map(|message| &message.parts);
    let clips = parts.filter_map(|part| match part {
        Part::Audio(clip) => Some(clip.clone()),
        _ => None,
    });
    let (heard, unheard): (Vec<_>, Vec<_>) = clips.partition(|clip| clip.embedding().is_some());
    Ok((unheard, u32::try_from(heard.len()).unwrap_or(u32::MAX)))
}

/// Result of a prompt from a part of the conversation.
enum Attempt {
    /// A prompt that leaves enough room.
    Fits(Prompt),
    /// A prompt.
    Tight(Prompt),
    /// The model's template does not take it.
    Refused(String),
}

/// Places at which the conversation may begin.
enum Possible {
    /// Places at which it might fit, ascending and at least one.
    Places(Vec<usize>),
    /// None, unless texts of the last turn are cut: it takes at least `least` positions.
    Cut { last: usize, least: usize },
}

fn possible(conversation: &Conversation, room: &Room) -> Result<Possible, ServeError> {
    let system: usize = conversation.system.iter().map(|said| least(said, room)).sum();
    let mut bytes = system;
    let messages = conversation.messages.iter().enumerate().rev();
    let fit = messages.take_while(|(_, said)| {
        bytes += least(said, room);
        bytes <= room.context as usize * TOKEN_BYTES
    });
    let earliest = fit.last().map_or(conversation.messages.len(), |(at, _)| at);
    let places = std::iter::once(0).chain(conversation.turns.iter().copied());
    let places: Vec<_> = places.filter(|place| *place >= earliest).collect();
    if !places.is_empty() {
        return Ok(Possible::Places(places));
    }
    let last = conversation.turns.last().copied().unwrap_or(0);
    let turn = conversation.from(last);
    let bytes: usize = turn.iter().map(|said| least(said, room)).sum();
    let uncut = (bytes - Lengths::of(&turn).total()) / TOKEN_BYTES;
    let least = bytes / TOKEN_BYTES;
    if room.strict || uncut >= room.context as usize {
        Err(too_long(least, room))
    } else {
        Ok(Possible::Cut { last, least })
    }
}

/// Least number of positions of a message, by its bytes of text.
fn least(message: &ChatMessage, room: &Room) -> usize {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text(text) => text.len(),
        Part::Audio(clip) => {
            let rows = room
                .hearing
                .map_or(0, |hearing| hearing.rows(clip.samples().len()));
            rows * TOKEN_BYTES
        }
        Part::Tool(part) => part.size(),
    });
    parts.sum()
}

fn too_long(got: usize, room: &Room) -> ServeError {
    let limit = room.context.saturating_sub(1) as usize;
    ContextTooLong { got, limit }.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use omni_family::Role;
    use omni_pipeline::request::PromptPiece;

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

    fn room(context: u32, max_tokens: u32) -> Room {
        let hearing = Hearing {
            sample_rate: omni_audio::SampleRate::new(16_000).unwrap(),
            min_audio: std::time::Duration::ZERO,
            max_audio: std::time::Duration::MAX,
            rows_per_second: 10,
            row_bytes: 4,
        };
        Room {
            context,
            max_tokens,
            hearing: Some(hearing),
            strict: false,
        }
    }

    /// Fits it; also counts the messages that were read, attempt by attempt.
    fn fit_all(conversation: &Conversation, room: &Room) -> (Result<Fitted, ServeError>, Vec<usize>) {
        let (sender, attempts) = std::sync::mpsc::channel();
        let builder: PromptBuilder = Arc::new(move |messages| {
            sender.send(messages.len()).unwrap();
            Ok(build(messages))
        });
        let fitted = fit(conversation, &builder, room, &CancelFlag::default());
        drop(builder);
        (fitted, attempts.iter().collect())
    }

    fn fit_in(turns: usize, context: u32, max_tokens: u32) -> (Result<Fitted, ServeError>, usize) {
        let (fitted, attempts) = fit_all(&conversation(turns), &room(context, max_tokens));
        (fitted, attempts.len())
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

    /// The same where texts are never cut.
    fn strictly(context: u32, max_tokens: u32) -> Room {
        Room {
            strict: true,
            ..room(context, max_tokens)
        }
    }

    #[test]
    fn a_strict_server_answers_a_tight_turn_and_refuses_one_that_leaves_no_room() {
        let talk = conversation(3);
        assert_eq!(fit_all(&talk, &strictly(21, 20)).0.unwrap().forgotten, 6);
        let refused = fit_all(&talk, &strictly(20, 20)).0.unwrap_err();
        assert_eq!(refused, ContextTooLong { got: 20, limit: 19 }.into());
    }

    /// A position per byte.
    fn by_bytes(messages: &[ChatMessage]) -> Prompt {
        let parts = messages.iter().flat_map(|said| &said.parts);
        let bytes = parts.map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Tool(part) => part.size(),
            Part::Audio(clip) => clip.samples().len(),
        });
        Prompt {
            pieces: vec![PromptPiece::Tokens(vec![0; bytes.sum()])],
            ..Prompt::default()
        }
    }

    fn fit_bytes(system: &str, turn: Part, room: &Room) -> Result<(Fitted, Vec<ChatMessage>), ServeError> {
        let mut talk = conversation(2);
        talk.system.as_mut().unwrap().parts = vec![Part::Text(system.into())];
        talk.messages[4].parts = vec![turn];
        let (sender, attempts) = std::sync::mpsc::channel();
        let builder: PromptBuilder = Arc::new(move |messages| {
            let prompt = by_bytes(messages);
            sender.send((messages.to_vec(), prompt.positions())).unwrap();
            Ok(prompt)
        });
        let fitted = fit(&talk, &builder, room, &CancelFlag::default())?;
        drop(builder);
        let positions = fitted.prompt.positions();
        let built = attempts.iter().filter(|(_, built)| *built == positions).last();
        Ok((fitted, built.expect("it was built").0))
    }

    fn text(message: &ChatMessage) -> &str {
        match &message.parts[0] {
            Part::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn long_instructions_are_cut_before_the_last_turn_is() {
        let long = "many words ".repeat(200);
        let (fitted, built) = fit_bytes(&long, Part::Text("What is it?".into()), &room(767, 512)).unwrap();
        assert_eq!((fitted.forgotten, fitted.messages), (4, 2));
        assert_eq!(text(&built[1]), "What is it?");
        let positions = fitted.prompt.positions();
        assert!(
            (590..=639).contains(&positions),
            "{positions}: 128 are left for an answer"
        );
        assert_eq!(fitted.cut + fitted.characters, long.chars().count() + 11);

        // The turn is cut, too, where a quarter for the instructions does not do.
        let (fitted, built) = fit_bytes(&long, Part::Text(long.clone().into()), &room(767, 512)).unwrap();
        let instructions = text(&built[0]).len() * 4;
        assert!((540..=660).contains(&instructions), "{instructions}");
        assert!((590..=639).contains(&fitted.prompt.positions()));
        // Short instructions are never cut.
        let (_, built) = fit_bytes("be kind", Part::Text(long.into()), &room(767, 512)).unwrap();
        assert_eq!(text(&built[0]), "be kind");
        assert!(text(&built[1]).starts_with("many words") && text(&built[1]).ends_with("words "));
    }

    #[test]
    fn what_is_no_text_is_not_cut() {
        let sound = Part::Audio(Clip::new(vec![0.0; 800]));
        let refused = fit_bytes("be kind", sound, &room(767, 512)).unwrap_err();
        assert_eq!(refused, ContextTooLong { got: 807, limit: 766 }.into());
    }

    /// A conversation whose messages have `bytes` bytes each, with alternating roles.
    fn of_length(turns: usize, bytes: usize) -> Conversation {
        let mut long = conversation(turns);
        for message in &mut long.messages {
            message.parts = vec![Part::Text("x".repeat(bytes).into())];
        }
        long
    }

    #[test]
    fn what_cannot_fit_by_its_length_is_not_read() {
        // Two messages of 3,000 bytes may fit into a hundred positions, three may not.
        let (fitted, read) = fit_all(&of_length(100, 3_000), &room(100, 20));
        assert_eq!(fitted.unwrap().forgotten, 200);
        assert_eq!(read, [2], "the instructions and the last message");
        // Neither do ten seconds of sound.
        let mut spoken = conversation(3);
        for message in &mut spoken.messages {
            message.parts = vec![Part::Audio(Clip::new(vec![0.0; 160_000]))];
        }
        assert_eq!(fit_all(&spoken, &room(102, 20)).1, [2]);
    }

    #[test]
    fn of_a_turn_that_is_far_too_long_no_more_is_read_than_might_fit() {
        let (fitted, read) = fit_all(&of_length(2, 6_400), &strictly(100, 20));
        assert_eq!(fitted.unwrap_err(), ContextTooLong { got: 100, limit: 99 }.into());
        assert!(read.is_empty());
        let endless = Part::Text("x".repeat(1 << 20).into());
        let (fitted, built) = fit_bytes("be kind", endless, &room(100, 20)).unwrap();
        assert!((70..=80).contains(&fitted.prompt.positions()), "{fitted:?}");
        assert!(built.iter().all(|said| text(said).len() < 80));
    }

    #[test]
    fn a_turn_that_is_refused_is_left_behind_and_refused_only_by_itself() {
        let builder: PromptBuilder = Arc::new(|messages| {
            if messages.contains(&of_length(0, 7).messages[0]) {
                Err(PromptError::Refused("no".to_owned()))
            } else {
                Ok(build(messages))
            }
        });
        let mut talk = conversation(3);
        talk.messages[2] = of_length(0, 7).messages.remove(0);
        let fitted = |talk: &Conversation| fit(talk, &builder, &room(200, 20), &CancelFlag::default());
        assert_eq!(fitted(&talk).unwrap().forgotten, 4);
        talk.messages[6] = talk.messages[2].clone();
        let refused = InvalidField::new("message", "no");
        assert_eq!(fitted(&talk), Err(refused.into()));
    }

    #[test]
    fn a_model_that_fails_is_not_tried_again() {
        let builder: PromptBuilder = Arc::new(|_| Err(PromptError::Failed("broken".to_owned())));
        let fitted = fit(&conversation(3), &builder, &room(200, 20), &CancelFlag::default());
        let stage = "prompt";
        let message = "broken".to_owned();
        assert_eq!(fitted, Err(StageError::Failed { stage, message }.into()));
    }

    #[test]
    fn nothing_is_read_for_nobody() {
        let builder: PromptBuilder = Arc::new(|_| panic!("nobody waits"));
        let abandoned = CancelFlag::default();
        abandoned.set();
        let fitted = fit(&conversation(1), &builder, &room(100, 20), &abandoned);
        assert_eq!(fitted, Err(CallerGone.into()));
    }
}
