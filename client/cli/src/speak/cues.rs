//! Words become cues that a viewer can read, as SubRip or WebVTT; or for programs every word a line of JSON.
//!
//! In: words with their samples, utterance by utterance. Out: text to be written. A cue is a sentence or a part of
//! one, at most two lines long and six seconds, ended where the speaker makes a pause.

use std::path::Path;
use std::time::Duration;

use omni_client::{SampleRate, Samples, TimedText};
use serde_json::json;

use crate::failure::Failure;

/// Characters of a line, and of a cue.
const LINE: usize = 42;
const CUE: usize = 2 * LINE;
/// Longest time that a cue is shown.
const SHOWN: Duration = Duration::from_secs(6);
/// A pause that ends a cue.
const PAUSE: Duration = Duration::from_millis(700);
/// A pause that ends a cue where a sentence may have ended. Within a sentence there is none behind "Dr." or "p.m.".
const BREATH: Duration = Duration::from_millis(150);
/// A cue this long ends with its sentence even if no pause follows.
const WORTH_READING: Duration = Duration::from_secs(1);
/// Marks that end sentences.
const MARKS: [char; 7] = ['.', '!', '?', '\u{2026}', '\u{3002}', '\u{ff01}', '\u{ff1f}'];
/// Closing quotes and brackets, which may stand behind such a mark.
const CLOSING: [char; 16] = [
    '"', '\'', ')', ']', '}', '\u{201d}', '\u{2019}', '\u{201c}', '\u{2018}', '\u{bb}', '\u{ab}', '\u{300d}',
    '\u{300f}', '\u{ff09}', '\u{3011}', '\u{300b}',
];

/// Format of cues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    SubRip,
    WebVtt,
    JsonLines,
}

impl Form {
    /// The one that the ending of a path names.
    pub(super) fn of(path: &Path) -> Result<Self, Failure> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending.map(str::to_ascii_lowercase).as_deref() {
            _ if path == Path::new("-") => Ok(Self::WebVtt),
            Some("srt") => Ok(Self::SubRip),
            Some("vtt") => Ok(Self::WebVtt),
            Some("jsonl") => Ok(Self::JsonLines),
            _ => Err(Failure::Usage(format!(
                "{} has no ending that names a format of subtitles\n  use .srt, .vtt or .jsonl, or - for WebVTT on standard output",
                path.display()
            ))),
        }
    }

    /// Text before all cues.
    pub(super) fn head(self) -> &'static str {
        match self {
            Self::SubRip | Self::JsonLines => "",
            Self::WebVtt => "WEBVTT\n\n",
        }
    }

    fn cue(self, number: u32, cue: &Cue) -> String {
        let from = time(cue.from);
        let to = time(cue.to);
        let text = lines(&cue.text);
        match self {
            // The two write the mark of the decimals as the languages of their authors do.
            Self::SubRip => {
                let from = from.replace('.', ",");
                let to = to.replace('.', ",");
                format!("{number}\n{from} --> {to}\n{text}\n\n")
            }
            Self::WebVtt => format!("{from} --> {to}\n{}\n\n", escaped(&text)),
            Self::JsonLines => self.line(&cue.text, cue.from, cue.to),
        }
    }

    /// A word for programs.
    fn line(self, text: &str, from: Duration, to: Duration) -> String {
        let start = from.as_secs_f64();
        let end = to.as_secs_f64();
        format!("{}\n", json!({"text": text, "start": start, "end": end}))
    }
}

fn time(time: Duration) -> String {
    let ms = time.subsec_millis();
    let s = time.as_secs();
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3_600, s / 60 % 60, s % 60)
}

/// Words on their way to be cues.
#[derive(Debug)]
pub(super) struct Cues {
    form: Form,
    written: u32,
    cue: Option<Cue>,
    /// Text without sound that no cue has taken yet.
    silent: String,
    /// Playing time of the utterances before this one.
    before: Duration,
    /// Audio of this one.
    heard: Duration,
}

/// Text and when it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cue {
    text: String,
    from: Duration,
    to: Duration,
    /// End of the last word that is heard.
    end: End,
}

/// Sign of a sentence's end in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing.
    None,
    /// It may be over, or the word is abbreviated.
    Perhaps,
    /// The cue has ended, unless the next word continues it.
    Likely,
}

impl Cues {
    pub(super) fn new(form: Form) -> Self {
        Self {
            form,
            written: 0,
            cue: None,
            silent: String::new(),
            before: Duration::ZERO,
            heard: Duration::ZERO,
        }
    }

    /// More audio of the utterance.
    pub(super) fn audio(&mut self, time: Duration) {
        self.heard += time;
    }

    /// Adds words of the utterance, with audio at `rate`; returns text to write now.
    pub(super) fn words(&mut self, words: &[TimedText], rate: SampleRate) -> String {
        let mut text = String::new();
        for word in words {
            let time = |at: Samples| self.before + rate.duration(at);
            let from = time(word.samples.start);
            let to = time(word.samples.end);
            match self.form {
                Form::JsonLines => text.push_str(&self.form.line(&word.text, from, to)),
                _ if from == to => text.push_str(&self.silent_word(&word.text)),
                _ => text.push_str(&self.word(&word.text, from, to)),
            }
        }
        text
    }

    /// Ends the utterance; returns the rest of its text.
    pub(super) fn end(&mut self) -> String {
        self.before += std::mem::take(&mut self.heard);
        self.silent.clear();
        self.end_cue()
    }

    fn word(&mut self, word: &str, from: Duration, to: Duration) -> String {
        let full = self.cue.as_ref().is_some_and(|cue| !cue.takes(word, from, to));
        let ended = if full { self.end_cue() } else { String::new() };
        match &mut self.cue {
            Some(cue) => cue.add(word, to),
            None => {
                let mut cue = Cue {
                    text: std::mem::take(&mut self.silent),
                    from,
                    to,
                    end: End::None,
                };
                cue.add(word, to);
                self.cue = Some(cue);
            }
        }
        ended
    }

    /// Adds a word without sound to the cue before it, if that has room, or else to the next.
    fn silent_word(&mut self, word: &str) -> String {
        if let Some(cue) = &mut self.cue
            && cue.has_room(word)
        {
            join(&mut cue.text, word);
            // Of the two, the one that ends a sentence counts.
            cue.end = match End::of(word) {
                End::None => cue.end,
                end => end,
            };
            return String::new();
        }
        let ended = self.end_cue();
        join(&mut self.silent, word);
        // It must leave room for a word. What is before was never heard and has no time of its own to be shown in.
        let surplus = self.silent.chars().count().saturating_sub(LINE);
        let at = self.silent.char_indices().nth(surplus).map_or(0, |(at, _)| at);
        self.silent.drain(..at);
        ended
    }

    fn end_cue(&mut self) -> String {
        let Some(cue) = self.cue.take() else {
            return String::new();
        };
        self.written += 1;
        self.form.cue(self.written, &cue)
    }
}

impl Cue {
    /// Returns true if a word heard from `from` to `to` is shown with it.
    fn takes(&self, word: &str, from: Duration, to: Duration) -> bool {
        let pause = from.saturating_sub(self.to);
        let goes_on = word.trim_start().starts_with(char::is_lowercase);
        let ended = match self.end {
            End::None => false,
            _ if pause >= BREATH => true,
            End::Perhaps => false,
            End::Likely => !goes_on && self.to.saturating_sub(self.from) >= WORTH_READING,
        };
        !ended && self.has_room(word) && to.saturating_sub(self.from) <= SHOWN && pause < PAUSE
    }

    /// Returns true if so much more text can be read, and does not begin a line of its own.
    fn has_room(&self, word: &str) -> bool {
        let characters = self.text.chars().count() + 1 + word.trim().chars().count();
        characters <= CUE && !word.trim_end_matches(' ').contains('\n')
    }

    fn add(&mut self, word: &str, to: Duration) {
        join(&mut self.text, word);
        self.to = to;
        self.end = End::of(word);
    }
}

impl End {
    fn of(word: &str) -> Self {
        let word = word.trim().trim_end_matches(CLOSING);
        let Some(before) = word.strip_suffix(MARKS) else {
            return Self::None;
        };
        // "Dr.", "St.", "J.", "U.S.", "p.m.": short and with a capital, or with a full stop within.
        let letters = before.trim_start_matches(|c: char| !c.is_alphanumeric());
        let name = letters.chars().count() <= 3 && letters.starts_with(char::is_uppercase);
        if word.ends_with('.') && (name || letters.contains('.')) {
            Self::Perhaps
        } else {
            Self::Likely
        }
    }
}

/// Puts a word behind a text, with one blank if it had any.
fn join(text: &mut String, word: &str) {
    if !text.is_empty() && word.starts_with(char::is_whitespace) {
        text.push(' ');
    }
    text.push_str(word.trim());
}

/// The text in lines of about equal length, where one line is too short for it.
fn lines(text: &str) -> String {
    let characters = text.chars().count();
    if characters <= LINE {
        return text.to_owned();
    }
    let blanks = text.char_indices().enumerate().filter(|(_, (_, c))| *c == ' ');
    let middle = blanks.min_by_key(|(n, _)| n.abs_diff(characters / 2));
    match middle {
        Some((_, (at, _))) => format!("{}\n{}", &text[..at], &text[at + 1..]),
        None => text.to_owned(),
    }
}

/// As WebVTT wants it: nothing in it is a tag.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
