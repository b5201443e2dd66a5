//! Ends a text at the first stop string, while it is still being written.
//!
//! Flows in: text in any chunking. Flows out: the text that is certainly before a stop string; what might be the
//! beginning of one is held back until that is known.

/// One stop string, and how much of it the text ends with.
#[derive(Debug, Clone)]
struct Pattern {
    bytes: Vec<u8>,
    /// For every length of a match, the longest shorter match that the same text ends with.
    shorter: Vec<usize>,
    matched: usize,
}

/// An automaton over all stop strings (Knuth, Morris, Pratt, "Fast pattern matching in strings", 1977).
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    patterns: Vec<Pattern>,
    held: Vec<u8>,
    stopped: bool,
}

/// A stop string of no characters, which would end every text before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stop string {index} is empty")]
pub struct EmptyStop {
    /// Its place in the list.
    pub index: usize,
}

/// The outcome of a piece of text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Released {
    /// Text that comes before any stop string.
    pub text: String,
    /// The stop string that was found, by its place in the list; the text is over.
    pub stop: Option<usize>,
}

impl StopStrings {
    /// Stops at the first of `strings` to be complete; of several that are complete at once, at the longest.
    ///
    /// # Errors
    /// [`EmptyStop`] if one of them is empty.
    pub fn new<S: AsRef<str>>(strings: &[S]) -> Result<Self, EmptyStop> {
        let mut patterns = Vec::with_capacity(strings.len());
        for (index, string) in strings.iter().enumerate() {
            let bytes = string.as_ref().as_bytes().to_vec();
            if bytes.is_empty() {
                return Err(EmptyStop { index });
            }
            patterns.push(Pattern::new(bytes));
        }
        Ok(Self {
            patterns,
            ..Self::default()
        })
    }

    /// Takes the next piece. After a stop nothing more is released.
    pub fn push(&mut self, text: &str) -> Released {
        if self.stopped {
            return Released::default();
        }
        for &byte in text.as_bytes() {
            self.held.push(byte);
            let complete = |(index, p): (usize, &mut Pattern)| p.step(byte).then_some((p.bytes.len(), index));
            let found = self.patterns.iter_mut().enumerate().filter_map(complete);
            if let Some((len, index)) = found.reduce(|best, next| if next.0 > best.0 { next } else { best }) {
                self.stopped = true;
                self.held.truncate(self.held.len() - len);
                return Released {
                    text: self.release(0),
                    stop: Some(index),
                };
            }
        }
        let possible = self.patterns.iter().map(|p| p.matched).max().unwrap_or(0);
        Released {
            text: self.release(possible),
            stop: None,
        }
    }

    /// The text is over: what was held back was no stop string.
    pub fn finish(&mut self) -> String {
        self.stopped = true;
        self.release(0)
    }

    /// All that is held but for the last `keep` bytes.
    fn release(&mut self, keep: usize) -> String {
        let rest = self.held.split_off(self.held.len() - keep);
        let text = std::mem::replace(&mut self.held, rest);
        // Stop strings begin with whole characters, so the cut is between two.
        String::from_utf8(text).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }
}

impl Pattern {
    fn new(bytes: Vec<u8>) -> Self {
        let mut shorter = vec![0; bytes.len() + 1];
        let mut k = 0;
        for i in 1..bytes.len() {
            while k > 0 && bytes[k] != bytes[i] {
                k = shorter[k];
            }
            k += usize::from(bytes[k] == bytes[i]);
            shorter[i + 1] = k;
        }
        Self {
            bytes,
            shorter,
            matched: 0,
        }
    }

    /// Takes the next byte; returns whether the string is complete.
    fn step(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.shorter[self.matched];
        }
        self.matched += usize::from(self.bytes[self.matched] == byte);
        self.matched == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, Option<usize>) {
        let mut stop = StopStrings::new(stops).expect("none is empty");
        let mut texts = Vec::new();
        let mut found = None;
        for piece in pieces {
            let released = stop.push(piece);
            texts.push(released.text);
            found = found.or(released.stop);
        }
        texts.push(stop.finish());
        (texts, found)
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&t| t.to_owned()).collect()
    }

    #[test]
    fn only_what_may_become_a_stop_string_is_held_back() {
        assert_eq!(
            run(&["User:"], &["Hi. Us", "ual"]),
            (strings(&["Hi. ", "Usual", ""]), None)
        );
        assert_eq!(
            run(&["User:"], &["Hi. Us", "er", ": no"]),
            (strings(&["Hi. ", "", "", ""]), Some(0))
        );
        assert_eq!(run(&["User:"], &["Hi. Use"]), (strings(&["Hi. ", "Use"]), None));
        assert_eq!(run(&[], &["Hi", "!"]), (strings(&["Hi", "!", ""]), None));
    }

    #[test]
    fn a_beginning_inside_a_failed_beginning_is_found() {
        assert_eq!(run(&["aab"], &["aa", "aab"]), (strings(&["", "aa", ""]), Some(0)));
    }

    #[test]
    fn the_longest_of_those_complete_at_once_is_cut() {
        assert_eq!(run(&["b", "aab"], &["caab"]), (strings(&["c", ""]), Some(1)));
        assert_eq!(run(&["ab", "abc"], &["abc"]), (strings(&["", ""]), Some(0)));
    }

    #[test]
    fn characters_of_several_bytes_are_never_cut() {
        assert_eq!(run(&["é!"], &["caé", "è"]), (strings(&["ca", "éè", ""]), None));
    }

    #[test]
    fn nothing_comes_after_the_stop() {
        let mut stop = StopStrings::new(&["."]).expect("none is empty");
        assert_eq!(stop.push("a.b").text, "a");
        assert_eq!(stop.push("c."), Released::default());
        assert_eq!(stop.finish(), "");
    }

    #[test]
    fn empty_strings_are_refused() {
        let error = StopStrings::new(&["a", ""]).expect_err("an empty one");
        assert_eq!(error.to_string(), "stop string 1 is empty");
    }
}
