//! Decodes the tokens of one answer to text: whole characters, up to the first stop string.
//!
//! Text that may be the beginning of a stop string is held back until it is known not to be, together with its
//! tokens, so that text and speech end at the same place.

use std::collections::VecDeque;

use omni_text::{EmptyStop, Released, StopStrings};

use omni_family::{Detokenizer, TOOL_CALL};

/// Decoded text of a token.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DecodedText {
    /// Text that no later token changes.
    pub(super) text: String,
    /// Tokens of that text.
    pub(super) tokens: Vec<u32>,
    /// `true` if the answer has ended before a stop string.
    pub(super) stopped: bool,
}

/// The text of one answer.
#[derive(derive_more::Debug)]
// Never prints the text itself.
#[debug("Writing {{ released: {:?}, .. }}", self.released)]
pub(super) struct Writing {
    detokenizer: Box<dyn Detokenizer>,
    stops: StopStrings,
    /// Bytes decoded so far, and the part of them that no later token changes.
    decoded: usize,
    released: usize,
    /// Tokens held back, each with the bytes decoded when it came.
    tokens: VecDeque<(u32, usize)>,
}

impl Writing {
    /// # Errors
    /// If one of `stops` is empty.
    pub(super) fn new(detokenizer: Box<dyn Detokenizer>, stops: &[String]) -> Result<Self, EmptyStop> {
        Ok(Self {
            detokenizer,
            stops: StopStrings::new(stops)?,
            decoded: 0,
            released: 0,
            tokens: VecDeque::new(),
        })
    }

    /// Adds a token.
    pub(super) fn push(&mut self, token: u32) -> DecodedText {
        let text = self.detokenizer.push(token);
        self.decoded += text.len();
        self.tokens.push_back((token, self.decoded));
        let Released { text, stop } = self.stops.push(&text);
        self.release(text, stop.is_some())
    }

    /// Ends the tokens.
    pub(super) fn finish(&mut self) -> DecodedText {
        let rest = self.detokenizer.finish();
        self.decoded += rest.len();
        let Released { mut text, stop } = self.stops.push(&rest);
        text.push_str(&self.stops.finish());
        self.release(text, stop.is_some())
    }

    fn release(&mut self, text: String, stopped: bool) -> DecodedText {
        self.released += text.len();
        let certain = self
            .tokens
            .iter()
            .take_while(|(_, decoded)| *decoded <= self.released);
        let certain = certain.count();
        DecodedText {
            text,
            tokens: self.tokens.drain(..certain).map(|(token, _)| token).collect(),
            stopped,
        }
    }
}

/// The part of an answer that is spoken where the model may call functions: all up to the first call.
#[derive(Debug)]
pub(super) struct Aloud {
    writing: Writing,
    over: bool,
}

impl Aloud {
    /// # Errors
    /// If one of `stops` is empty.
    pub(super) fn new(detokenizer: Box<dyn Detokenizer>, stops: &[String]) -> Result<Self, EmptyStop> {
        let [opens, _] = TOOL_CALL;
        let stops: Vec<_> = stops.iter().cloned().chain([opens.to_owned()]).collect();
        Ok(Self {
            writing: Writing::new(detokenizer, &stops)?,
            over: false,
        })
    }

    /// Adds a token.
    pub(super) fn push(&mut self, token: u32) -> DecodedText {
        self.unless_over(|writing| writing.push(token))
    }

    /// Ends the tokens.
    pub(super) fn finish(&mut self) -> DecodedText {
        self.unless_over(Writing::finish)
    }

    /// Ends the text of an interrupted answer: the beginning of a call is not spoken either.
    pub(super) fn cut(&mut self) -> DecodedText {
        let [opens, _] = TOOL_CALL;
        let rest = self.finish();
        if opens.starts_with(rest.text.trim_start()) {
            DecodedText::default()
        } else {
            rest
        }
    }

    fn unless_over(&mut self, more: impl FnOnce(&mut Writing) -> DecodedText) -> DecodedText {
        if self.over {
            return DecodedText::default();
        }
        let written = more(&mut self.writing);
        self.over = written.stopped;
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token is a byte.
    #[derive(Default)]
    struct Bytes(Vec<u8>);

    impl Detokenizer for Bytes {
        fn push(&mut self, token: u32) -> String {
            self.0.push(token as u8);
            match std::str::from_utf8(&self.0) {
                Ok(text) => {
                    let text = text.to_owned();
                    self.0.clear();
                    text
                }
                Err(_) => String::new(),
            }
        }

        fn finish(&mut self) -> String {
            String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
        }
    }

    fn write(text: &str, stops: &[&str]) -> (Vec<String>, Vec<u8>, bool) {
        let stops: Vec<_> = stops.iter().map(|&stop| stop.to_owned()).collect();
        let mut writing = Writing::new(Box::<Bytes>::default(), &stops).unwrap();
        let mut texts = Vec::new();
        let mut tokens = Vec::new();
        let mut take = |written: DecodedText| {
            tokens.extend(written.tokens.iter().map(|&token| token as u8));
            if !written.text.is_empty() {
                texts.push(written.text);
            }
            written.stopped
        };
        let stopped = text.bytes().any(|byte| take(writing.push(byte.into()))) || take(writing.finish());
        (texts, tokens, stopped)
    }

    #[test]
    fn characters_are_never_split() {
        let (texts, tokens, stopped) = write("aé漢🦀", &[]);
        assert_eq!(texts, ["a", "é", "漢", "🦀"]);
        assert_eq!(tokens, "aé漢🦀".as_bytes());
        assert!(!stopped);
    }

    #[test]
    fn an_answer_ends_before_the_first_stop_string() {
        let (texts, tokens, stopped) = write("one two three", &["th", "wo"]);
        assert_eq!(texts.concat(), "one t");
        assert_eq!(tokens, b"one t");
        assert!(stopped);
    }

    #[test]
    fn what_only_looked_like_a_stop_string_is_given_out() {
        let (texts, tokens, stopped) = write("EN ENDE", &["END!", "ENE"]);
        assert_eq!((texts.concat().as_str(), stopped), ("EN ENDE", false));
        assert_eq!(tokens, b"EN ENDE");
        assert_eq!(
            texts.first().map(String::as_str),
            Some("EN "),
            "held back together"
        );
    }

    #[test]
    fn a_call_of_a_function_is_not_spoken_nor_what_follows_it() {
        let mut aloud = Aloud::new(Box::<Bytes>::default(), &[]).unwrap();
        let answer = "Let me <look>.<tool_call>{}</tool_call> Well.";
        let mut spoken: String = answer.bytes().map(|byte| aloud.push(byte.into()).text).collect();
        spoken += &aloud.finish().text;
        assert_eq!(spoken, "Let me <look>.");
    }

    #[test]
    fn of_an_answer_that_is_cut_short_the_beginning_of_a_call_is_not_spoken() {
        for (answer, spoken) in [("One <tool_", "One "), ("One <b", "One <b"), ("One", "One")] {
            let mut aloud = Aloud::new(Box::<Bytes>::default(), &[]).unwrap();
            let mut heard: String = answer.bytes().map(|byte| aloud.push(byte.into()).text).collect();
            heard += &aloud.cut().text;
            assert_eq!(heard, spoken);
        }
    }

    #[test]
    fn a_stop_string_may_begin_within_another() {
        assert_eq!(write("aab", &["ab"]).0.concat(), "a");
        assert_eq!(write("xaaab", &["aab"]).0.concat(), "xa");
    }
}
