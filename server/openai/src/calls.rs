//! Text of a model, and the function calls in it.
//!
//! Models write a call as `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`. Anything else stays text.

use omni_family::TOOL_CALL;
use serde::Deserialize;

use super::json::JsonText;

/// A function call of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// A JSON object, as text.
    pub(super) arguments: String,
}

/// A piece of a model's text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Call(Call),
}

/// Finds the calls in a model's text as it comes.
#[derive(Debug)]
pub(super) struct Calls {
    /// Text that may be the beginning of a call, or is within one.
    held: String,
    inside: bool,
    /// `true` once there was a call.
    called: bool,
    /// Calls that may still be returned.
    left: usize,
}

#[derive(Deserialize)]
struct Written {
    name: String,
    arguments: Option<JsonText>,
}

impl Calls {
    /// Returns at most `most` calls, and drops the others.
    pub(super) fn new(most: usize) -> Self {
        Self {
            held: String::new(),
            inside: false,
            called: false,
            left: most,
        }
    }

    /// Adds text.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        let [opens, closes] = TOOL_CALL;
        let mut pieces = Vec::new();
        loop {
            let name = if self.inside { closes } else { opens };
            let Some(at) = self.held.find(name) else { break };
            let rest = self.held.split_off(at + name.len());
            let mut before = std::mem::replace(&mut self.held, rest);
            before.truncate(at);
            if self.inside {
                pieces.extend(self.call(&before, closes));
            } else {
                push_text(&mut pieces, before.trim_end());
            }
            self.inside = !self.inside;
        }
        if !self.inside {
            let certain = certain(&self.held, opens);
            let rest = self.held.split_off(certain);
            let text = std::mem::replace(&mut self.held, rest);
            push_text(&mut pieces, &text);
        }
        pieces
    }

    /// Ends the text of an answer that was cut short: returns a call that only lacks its closing mark. The beginning
    /// of another is neither a call nor text.
    pub(super) fn cut(&mut self) -> Option<Call> {
        let held = std::mem::take(&mut self.held);
        let inside = std::mem::take(&mut self.inside);
        match inside.then(|| self.call(&held, ""))?? {
            Piece::Call(call) => Some(call),
            Piece::Text(_) => None,
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self) -> Vec<Piece> {
        let held = std::mem::take(&mut self.held);
        let mut pieces = Vec::new();
        match std::mem::take(&mut self.inside) {
            true => pieces.extend(self.call(&held, "")),
            // White space behind a call is no text.
            false if self.called && held.trim().is_empty() => {}
            false => push_text(&mut pieces, &held),
        }
        pieces
    }

    /// Parses the inside of a call; returns the call, or text if it is none.
    fn call(&mut self, inside: &str, closes: &str) -> Option<Piece> {
        let Ok(written) = serde_json::from_str::<Written>(inside) else {
            let [opens, _] = TOOL_CALL;
            return Some(Piece::Text(format!("{opens}{inside}{closes}")));
        };
        self.called = true;
        self.left = self.left.checked_sub(1)?;
        Some(Piece::Call(Call {
            name: written.name,
            arguments: match written.arguments {
                // Some models write the object as a string.
                Some(JsonText(text)) => serde_json::from_str::<String>(&text).unwrap_or(text),
                None => "{}".to_owned(),
            },
        }))
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// Bytes of `text` that are neither blanks before a call nor the beginning of `opens`.
fn certain(text: &str, opens: &str) -> usize {
    let partial = (1..opens.len())
        .rev()
        .find(|&len| text.ends_with(opens.get(..len).unwrap_or_default()));
    let certain = text.len() - partial.unwrap_or(0);
    text.get(..certain).unwrap_or_default().trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, cut: usize, most: usize) -> (String, Vec<(String, String)>) {
        let mut calls = Calls::new(most);
        let characters: Vec<char> = text.chars().collect();
        let mut pieces: Vec<_> = characters
            .chunks(cut)
            .flat_map(|chunk| calls.push(&chunk.iter().collect::<String>()))
            .collect();
        pieces.extend(calls.finish());
        let mut said = String::new();
        let mut asked = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => said.push_str(&text),
                Piece::Call(call) => asked.push((call.name, call.arguments)),
            }
        }
        (said, asked)
    }

    fn asked(name: &str, arguments: &str) -> (String, String) {
        (name.to_owned(), arguments.to_owned())
    }

    const TWO: &str = "I look. \n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":\"Köln\",\"at\":[1]}}\n</tool_call>\n\
                       <tool_call>\n{\"name\": \"time\"}\n</tool_call>";

    #[test]
    fn calls_are_found_however_the_text_is_cut() {
        for cut in [1, 2, 3, 7, 1000] {
            let (said, calls) = read(TWO, cut, 9);
            assert_eq!(said, "I look.", "{cut}");
            let weather = asked("weather", "{\"city\": \"Köln\", \"at\": [1]}");
            assert_eq!(calls, [weather, asked("time", "{}")], "{cut}");
        }
    }

    #[test]
    fn no_more_calls_are_given_out_than_are_wanted() {
        assert_eq!(read(TWO, 4, 1).1.len(), 1);
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in [
            "a < b, <tool>, <tool_cal and  blanks ",
            "<tool_call>not json</tool_call>",
            "<tool_call>{\"arguments\": {}}</tool_call> and more",
            "<tool_call>{\"name\": ",
        ] {
            for cut in [1, 5, 1000] {
                assert_eq!(read(text, cut, 9), (text.to_owned(), vec![]), "{cut}");
            }
        }
    }

    #[test]
    fn of_an_answer_that_is_cut_short_only_whole_calls_are_given_out() {
        let whole = "<tool_call>{\"name\": \"f\"}";
        for (text, expected) in [
            (whole, Some("f")),
            (&whole[..whole.len() - 1], None),
            ("<tool_call>", None),
            ("Well <tool_", None),
            ("Well. ", None),
        ] {
            let mut calls = Calls::new(9);
            calls.push(text);
            let call = calls.cut();
            assert_eq!(call.as_ref().map(|call| call.name.as_str()), expected, "{text}");
            assert_eq!(calls.finish(), [], "{text}");
        }
    }

    #[test]
    fn a_call_that_the_end_of_the_answer_closes_is_one() {
        let (said, calls) = read(
            "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}",
            3,
            9,
        );
        assert_eq!((said.as_str(), calls), ("", vec![asked("f", "{\"a\": 1}")]));
    }
}
