//! Detection of repeated outputs.

use std::collections::VecDeque;

use super::RepetitionLimit;

/// The last tokens of a sequence and, per pattern length, for how long they have been repeating.
///
/// A tail is `count` copies of a pattern of `n` tokens exactly if its last `n * (count - 1)` tokens all equal the one
/// `n` before them, so one counter per length is enough.
#[derive(Debug)]
pub(super) struct Tail {
    limit: RepetitionLimit,
    /// The last `max_pattern` tokens, newest first.
    tokens: VecDeque<u32>,
    /// Tokens in a row that equal the one `min_pattern + index` before them.
    runs: Vec<u32>,
}

impl Tail {
    /// `limit` must be [valid](RepetitionLimit::is_valid).
    pub(super) fn new(limit: RepetitionLimit) -> Self {
        let lengths = limit.max_pattern - limit.min_pattern + 1;
        Self {
            limit,
            tokens: VecDeque::with_capacity(limit.max_pattern as usize),
            runs: vec![0; lengths as usize],
        }
    }

    /// Adds a token; returns true if the tail is now a repetition.
    pub(super) fn push(&mut self, token: u32) -> bool {
        let mut found = false;
        for (length, run) in (self.limit.min_pattern..).zip(&mut self.runs) {
            *run = match self.tokens.get(length as usize - 1) {
                Some(before) if *before == token => *run + 1,
                _ => 0,
            };
            found |= *run >= length.saturating_mul(self.limit.count - 1);
        }
        self.tokens.truncate(self.limit.max_pattern as usize - 1);
        self.tokens.push_front(token);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: the tail is `count` copies of some pattern.
    fn repeats(tokens: &[u32], limit: RepetitionLimit) -> bool {
        (limit.min_pattern..=limit.max_pattern).any(|length| {
            let length = length as usize;
            let count = limit.count as usize;
            let Some(start) = tokens.len().checked_sub(length * count) else {
                return false;
            };
            let tail = &tokens[start..];
            tail.chunks(length).all(|pattern| *pattern == tail[..length])
        })
    }

    proptest! {
        #[test]
        fn finds_exactly_the_tails_that_are_copies_of_one_pattern(
            tokens in prop::collection::vec(0..2u32, 0..40),
            min_pattern in 1..4u32,
            longer in 0..3u32,
            count in 2..4u32,
        ) {
            let limit = RepetitionLimit { min_pattern, max_pattern: min_pattern + longer, count };
            let mut tail = Tail::new(limit);
            for (at, token) in tokens.iter().enumerate() {
                prop_assert_eq!(tail.push(*token), repeats(&tokens[..=at], limit), "at {}", at);
            }
        }
    }
}
