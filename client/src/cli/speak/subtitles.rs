//! Subtitles of what is spoken, as SubRip or WebVTT, written cue by cue while it is spoken; or for programs every word as a line
//! of JSON.
//!
//! In: words with their samples, utterance by utterance. Out: cues that a viewer can read: a sentence or a part of one, at most two
//! lines long and six seconds, ended where the speaker makes a long pause.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use omni_client::{SampleRate, Samples, TimedText};
use serde_json::json;

use crate::cli::failure::Failure;

/// Characters of a line, and of a cue.
const LINE: usize = 42;
const CUE: usize = 2 * LINE;
/// Longest time that a cue is shown.
const SHOWN: Duration = Duration::from_secs(6);
/// A pause that ends a cue.
const PAUSE: Duration = Duration::from_millis(700);

/// How cues are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    SubRip,
    WebVtt,
    JsonLines,
}

impl Form {
    fn of(path: &Path) -> Result<Self, Failure> {
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

    fn head(self) -> &'static str {
        match self {
            Self::SubRip | Self::JsonLines => "",
            Self::WebVtt => "WEBVTT\n\n",
        }
    }

    fn cue(self, number: u32, cue: &Cue) -> String {
        let (from, to, text) = (time(cue.from), time(cue.to), lines(&cue.text));
        match self {
            // The two write the mark of the decimals as the languages of their authors do.
            Self::SubRip => {
                let (from, to) = (from.replace('.', ","), to.replace('.', ","));
                format!("{number}\n{from} --> {to}\n{text}\n\n")
            }
            Self::WebVtt => format!("{from} --> {to}\n{}\n\n", escaped(&text)),
            Self::JsonLines => {
                let (start, end) = (cue.from.as_secs_f64(), cue.to.as_secs_f64());
                format!("{}\n", json!({"text": cue.text, "start": start, "end": end}))
            }
        }
    }
}

fn time(time: Duration) -> String {
    let (ms, s) = (time.subsec_millis(), time.as_secs());
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3_600, s / 60 % 60, s % 60)
}

/// An opened destination of subtitles.
pub(super) struct Subtitles {
    name: String,
    to: Box<dyn Write>,
    form: Form,
    written: u32,
    cue: Option<Cue>,
    /// Playing time of the utterances before this one.
    before: Duration,
    /// Audio of this one.
    heard: Duration,
}

impl std::fmt::Debug for Subtitles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subtitles")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Text and when it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cue {
    text: String,
    from: Duration,
    to: Duration,
}

impl Subtitles {
    /// Opens `path`; `-` is standard output, which `audio` must not be, too.
    pub(super) fn open(path: &Path, audio: &Path) -> Result<Self, Failure> {
        let form = Form::of(path)?;
        let stdout = path == Path::new("-");
        if stdout && audio == path {
            let what =
                "standard output cannot take audio and subtitles\n  name a file with --output or --subtitles";
            return Err(Failure::Usage(what.to_owned()));
        }
        let name = match stdout {
            true => "standard output".to_owned(),
            false => path.display().to_string(),
        };
        let to: Box<dyn Write> = match stdout {
            true => Box::new(io::stdout()),
            false => Box::new(File::create(path).map_err(|error| Failure::write(&name, error))?),
        };
        let mut subtitles = Self {
            name,
            to,
            form,
            written: 0,
            cue: None,
            before: Duration::ZERO,
            heard: Duration::ZERO,
        };
        subtitles.write(form.head())?;
        Ok(subtitles)
    }

    /// More audio of the utterance.
    pub(super) fn audio(&mut self, time: Duration) {
        self.heard += time;
    }

    /// More words of the utterance, whose audio has so many samples a second.
    pub(super) fn words(&mut self, words: &[TimedText], rate: SampleRate) -> Result<(), Failure> {
        for word in words {
            let time = |at: Samples| self.before + rate.duration(at);
            let (from, to) = (time(word.samples.start), time(word.samples.end));
            if self.form == Form::JsonLines {
                let text = word.text.clone();
                self.cue = Some(Cue { text, from, to });
                self.end_cue()?;
                continue;
            }
            let full = self
                .cue
                .as_ref()
                .is_some_and(|cue| !cue.takes(&word.text, from, to));
            if full {
                self.end_cue()?;
            }
            match &mut self.cue {
                Some(cue) => cue.add(&word.text, to),
                // What has no sound is shown with what has.
                None if from == to => {}
                None => {
                    let text = word.text.trim().to_owned();
                    self.cue = Some(Cue { text, from, to });
                }
            }
        }
        Ok(())
    }

    /// The utterance is over.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        self.before += std::mem::take(&mut self.heard);
        self.end_cue()
    }

    fn end_cue(&mut self) -> Result<(), Failure> {
        let Some(cue) = self.cue.take() else { return Ok(()) };
        self.written += 1;
        self.write(&self.form.cue(self.written, &cue))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush());
        written.map_err(|error| Failure::write(&self.name, error))
    }
}

impl Cue {
    /// Whether a word that is heard so is shown with it.
    fn takes(&self, word: &str, from: Duration, to: Duration) -> bool {
        let characters = self.text.chars().count() + 1 + word.trim().chars().count();
        let ended = self.text.ends_with(['.', '!', '?', '…', '。', '！', '？']);
        let silent = from == to;
        silent
            || !ended
                && !word.trim_end_matches(' ').contains('\n')
                && characters <= CUE
                && to.saturating_sub(self.from) <= SHOWN
                && from.saturating_sub(self.to) < PAUSE
    }

    fn add(&mut self, word: &str, to: Duration) {
        let spaced = word.starts_with(char::is_whitespace);
        if spaced {
            self.text.push(' ');
        }
        self.text.push_str(word.trim());
        self.to = to;
    }
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
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Rc<RefCell<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn rate() -> SampleRate {
        SampleRate::new(1_000).unwrap()
    }

    /// Words that each begin and end at a millisecond.
    fn words(words: &[(&str, u64, u64)]) -> Vec<TimedText> {
        let word = |(text, from, to): &(&str, u64, u64)| TimedText {
            text: (*text).to_owned(),
            characters: 0..text.len(),
            samples: Samples(*from)..Samples(*to),
        };
        words.iter().map(word).collect()
    }

    fn subtitled(form: Form, utterances: &[Vec<TimedText>]) -> String {
        let written = Written::default();
        let mut subtitles = Subtitles {
            name: String::new(),
            to: Box::new(written.clone()),
            form,
            written: 0,
            cue: None,
            before: Duration::ZERO,
            heard: Duration::ZERO,
        };
        for utterance in utterances {
            subtitles.words(utterance, rate()).unwrap();
            subtitles.audio(Duration::from_secs(2));
            subtitles.end().unwrap();
        }
        drop(subtitles);
        String::from_utf8(written.0.take()).unwrap()
    }

    #[test]
    fn sentences_are_cues_and_utterances_follow_one_another() {
        let first = words(&[
            ("Hello,", 20, 400),
            (" there.", 400, 900),
            (" Bye.", 1_000, 1_400),
        ]);
        let second = words(&[("Again", 0, 3_661_005)]);
        let expected = "1\n00:00:00,020 --> 00:00:00,900\nHello, there.\n\n\
                        2\n00:00:01,000 --> 00:00:01,400\nBye.\n\n\
                        3\n00:00:02,000 --> 01:01:03,005\nAgain\n\n";
        assert_eq!(subtitled(Form::SubRip, &[first, second]), expected);
    }

    #[test]
    fn a_web_page_shows_text_as_it_is() {
        let text = words(&[("a<b", 0, 100), (" &", 100, 200)]);
        assert_eq!(
            subtitled(Form::WebVtt, &[text]),
            "00:00:00.000 --> 00:00:00.200\na&lt;b &amp;\n\n"
        );
    }

    #[test]
    fn programs_get_every_word_as_it_is() {
        let text = words(&[("a", 0, 100), (" b.", 100, 250), (" #", 250, 250)]);
        assert_eq!(
            subtitled(Form::JsonLines, &[text]),
            "{\"end\":0.1,\"start\":0.0,\"text\":\"a\"}\n{\"end\":0.25,\"start\":0.1,\"text\":\" b.\"}\n\
             {\"end\":0.25,\"start\":0.25,\"text\":\" #\"}\n"
        );
    }

    #[test]
    fn long_sentences_are_cut_at_pauses_and_where_they_fill_two_lines() {
        let mut long: Vec<_> = (0..40).map(|n| (" words", n * 100, n * 100 + 90)).collect();
        long.push((" late", 9_000, 9_100));
        let cues = subtitled(Form::SubRip, &[words(&long)]);
        let texts: Vec<&str> = cues.split("\n\n").filter(|cue| !cue.is_empty()).collect();
        assert!(
            texts.len() > 3 && texts.last().is_some_and(|cue| cue.ends_with("\nlate")),
            "{cues}"
        );
        for cue in &texts {
            assert!(cue.lines().skip(2).all(|line| line.len() <= LINE), "{cue}");
            assert!(cue.lines().count() <= 4, "{cue}");
        }
    }

    #[test]
    fn text_without_sound_is_shown_with_what_has_one() {
        let text = words(&[("***", 0, 0), (" Hi.", 0, 300), (" ###", 300, 300)]);
        let cues = subtitled(Form::SubRip, &[text]);
        assert_eq!(cues, "1\n00:00:00,000 --> 00:00:00,300\nHi. ###\n\n");
    }

    #[test]
    fn the_ending_names_the_format() {
        assert!(matches!(Form::of(Path::new("a.SRT")), Ok(Form::SubRip)));
        assert!(matches!(Form::of(Path::new("a.vtt")), Ok(Form::WebVtt)));
        assert!(matches!(Form::of(Path::new("-")), Ok(Form::WebVtt)));
        assert!(matches!(Form::of(Path::new("a.txt")), Err(Failure::Usage(_))));
    }
}
