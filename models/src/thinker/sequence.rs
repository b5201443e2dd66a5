//! Thinker's state of one reply: the content of each position, independent of how it is computed.

use std::ops::Range;
use std::sync::Arc;

use omni_backend::sampling::{Draw, Said, Tally, TextChoice};
use omni_engine::ContentKey;

use super::{HiddenRows, PromptPiece, ThinkerRequest};

/// Keeps the thinker's random numbers apart from the talker's, whose groups are codebooks.
const TEXT_GROUP: u32 = 1 << 16;

/// Input of a position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Input<'a> {
    Token(u32),
    /// A row of the audio encoder.
    Audio(&'a [f32]),
}

/// Source of a prompt position's input.
#[derive(Debug, Clone, Copy)]
enum Place {
    Token(u32),
    /// Row of a piece of audio; `nth` counts over all pieces.
    Audio {
        piece: u32,
        row: u32,
        nth: u32,
    },
}

/// Prompt and tokens of one reply.
#[derive(Debug)]
pub(super) struct Sequence {
    request: ThinkerRequest,
    places: Vec<Place>,
    generated: Vec<u32>,
    /// Tokens so far, without the prompt's audio.
    tally: Tally,
    /// Coordinate of the first generated token on all axes.
    reply_axis: u32,
    width: usize,
    /// Hidden rows of the prompt's audio, as far as they are known.
    hidden: Vec<f32>,
    known: Vec<bool>,
}

impl Sequence {
    /// `width` is the thinker's hidden size; the request has been checked.
    pub(super) fn new(request: ThinkerRequest, width: usize) -> Self {
        let mut places = Vec::new();
        let mut prompt_tokens = Vec::new();
        let mut nth = 0;
        for (piece, content) in (0..).zip(&request.prompt) {
            match content {
                PromptPiece::Token(id) => {
                    places.push(Place::Token(*id));
                    prompt_tokens.push(*id);
                }
                PromptPiece::Audio(rows) => {
                    for row in (0..).take(rows.len() / width) {
                        places.push(Place::Audio { piece, row, nth });
                        nth += 1;
                    }
                }
            }
        }
        let last = match &request.axes {
            Some(axes) => axes.iter().flatten().max().map_or(0, |max| max + 1),
            None => small(places.len()),
        };
        let exported = if request.export_hidden { nth as usize } else { 0 };
        Self {
            places,
            tally: Tally::new(&request.sampling, &prompt_tokens),
            generated: Vec::new(),
            reply_axis: last,
            width,
            hidden: vec![0.0; exported * width],
            known: vec![false; exported],
            request,
        }
    }

    pub(super) fn prompt_len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn request(&self) -> &ThinkerRequest {
        &self.request
    }

    /// Input of position `p`; `None` if it is not known yet.
    pub(super) fn input(&self, p: usize) -> Option<Input<'_>> {
        match self.places.get(p) {
            Some(Place::Token(id)) => Some(Input::Token(*id)),
            Some(Place::Audio { piece, row, .. }) => {
                let Some(PromptPiece::Audio(rows)) = self.request.prompt.get(*piece as usize) else {
                    return None;
                };
                let from = *row as usize * self.width;
                rows.get(from..from + self.width).map(Input::Audio)
            }
            None => self
                .generated
                .get(p - self.places.len())
                .map(|&id| Input::Token(id)),
        }
    }

    /// Coordinates of position `p` in time, height and width.
    pub(super) fn axes(&self, p: usize) -> [u32; 3] {
        match (&self.request.axes, p.checked_sub(self.places.len())) {
            (Some(axes), None) => axes[p],
            (None, None) => [small(p); 3],
            (_, Some(n)) => [self.reply_axis.saturating_add(small(n)); 3],
        }
    }

    /// Index of the hidden row that position `p` adds to the exported ones; `None` if it adds none, or one that is
    /// there already.
    pub(super) fn missing_export(&self, p: usize) -> Option<u32> {
        match self.places.get(p) {
            Some(Place::Audio { nth, .. }) => self
                .known
                .get(*nth as usize)
                .is_some_and(|known| !known)
                .then_some(*nth),
            _ => None,
        }
    }

    pub(super) fn keep(&mut self, nth: u32, row: &[f32]) {
        let nth = nth as usize;
        self.hidden[nth * self.width..(nth + 1) * self.width].copy_from_slice(row);
        self.known[nth] = true;
    }

    /// The hidden rows that belong to the token to come.
    pub(super) fn export(&self) -> Result<Option<HiddenRows>, String> {
        if !self.request.export_hidden || !self.generated.is_empty() {
            return Ok(None);
        }
        if let Some(missing) = self.known.iter().position(|known| !known) {
            return Err(format!(
                "the hidden row of audio position {missing} was never computed"
            ));
        }
        Ok(Some(HiddenRows {
            width: self.width,
            values: Arc::from(self.hidden.as_slice()),
        }))
    }

    /// Content keys of `positions`; `None` if others may not share their KV rows.
    pub(super) fn content_keys(&self, positions: Range<u32>) -> Option<Vec<ContentKey>> {
        if self.request.axes.is_some() || !self.known.is_empty() {
            return None;
        }
        let key = |p: u32| {
            Some(match self.input(p as usize)? {
                Input::Token(id) => ContentKey::token(id),
                Input::Audio(row) => ContentKey::row(row),
            })
        };
        positions.map(key).collect()
    }

    /// Choice of the next token.
    pub(super) fn choice(&self) -> TextChoice<'_> {
        TextChoice {
            sampling: &self.request.sampling,
            said: Said {
                tally: &self.tally,
                ends: &self.request.stop,
            },
            place: Draw {
                seed: self.request.seed,
                step: small(self.generated.len()),
                group: TEXT_GROUP,
            },
            logprob: self.request.logprobs,
        }
    }

    /// Returns true once it has `max_tokens` tokens.
    pub(super) fn over(&self) -> bool {
        self.generated.len() >= self.request.max_tokens as usize
    }

    pub(super) fn add(&mut self, token: u32) {
        self.tally.add(token);
        self.generated.push(token);
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
