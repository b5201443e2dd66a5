//! Text to phonemes.

use std::ops::Range;
use std::sync::Arc;

use crate::english::{English, Token};
use crate::inline::{self, Given, Plain};
use crate::{Accent, Lexicon, PhonemeError, Word};

/// Most characters of a text that is read at once.
pub const MOST_CHARS: usize = 4096;

/// Reads text in one accent, with the pronunciations that users gave. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct Phonemizer {
    accent: Accent,
    /// Those with precedence first.
    lexicons: Vec<Arc<Lexicon>>,
}

impl Phonemizer {
    /// One for `accent`, whose words in `lexicon` are read as it says.
    pub fn new(accent: Accent, lexicon: Lexicon) -> Self {
        Self {
            accent,
            lexicons: vec![Arc::new(lexicon)],
        }
    }

    /// The same with further words, which have precedence: those of a request.
    pub fn with(&self, lexicon: Lexicon) -> Self {
        let own = self.lexicons.iter().cloned();
        Self {
            accent: self.accent,
            lexicons: std::iter::once(Arc::new(lexicon)).chain(own).collect(),
        }
    }

    /// The accent that is spoken.
    pub fn accent(&self) -> Accent {
        self.accent
    }

    /// Loads what the accent needs, about a quarter of a second of work, which the first text does otherwise.
    pub fn load(&self) {
        English::get(self.accent);
    }

    /// The words of a text in their order. `[word](/phonemes/)` gives a pronunciation in place, in IPA or Kokoro's symbols. Characters
    /// without a sound are in no word.
    ///
    /// # Errors
    /// [`PhonemeError::TooLong`] for more than [`MOST_CHARS`] characters; [`PhonemeError::Symbols`] or [`PhonemeError::Length`] for
    /// phonemes in the text that cannot be spoken.
    pub fn phonemes(&self, text: &str) -> Result<Vec<Word>, PhonemeError> {
        let chars = text.chars().count();
        if chars > MOST_CHARS {
            return Err(PhonemeError::TooLong {
                chars,
                limit: MOST_CHARS,
            });
        }
        let english = English::get(self.accent);
        let mut plain = inline::plain(text, self.accent)?;
        let lexicons: Vec<&Lexicon> = self.lexicons.iter().map(Arc::as_ref).collect();
        plain.look_up(&lexicons);
        spelled_letters(&mut plain, english);
        let tokens = compose(english, &plain, english.tokens(&plain.chars));
        Ok(words(&plain, tokens))
    }
}

/// Letters between spaces, as a normaliser spells `FBI`, are read by their names; a single `i` is the word.
fn spelled_letters(plain: &mut Plain, english: &English) {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let limits = |at: Option<&char>| at.is_none_or(|c| !c.is_alphanumeric() && *c != '\'' && *c != '-');
    for at in 0..plain.chars.len() {
        let before = at.checked_sub(1).and_then(|at| plain.chars.get(at));
        let alone =
            plain.chars[at].is_ascii_alphabetic() && limits(before) && limits(plain.chars.get(at + 1));
        match runs
            .last_mut()
            .filter(|run| alone && run.end + 1 == at && before == Some(&' '))
        {
            Some(run) => run.end = at + 1,
            None if alone => runs.push(at..at + 1),
            None => {}
        }
    }
    for run in runs {
        let taken = |given: &Given| given.chars.start < run.end && run.start < given.chars.end;
        if run.len() == 1 {
            if plain.chars[run.start] == 'i' {
                plain.chars[run.start] = 'I';
            }
        } else if !plain.given.iter().any(taken) {
            let letters: String = plain.chars[run.clone()].iter().collect();
            let phonemes = english.symbols(&english.spelled(&letters));
            plain.given.push(Given {
                source: plain.source[run.start]..plain.source[run.end - 1] + 1,
                chars: run,
                phonemes,
            });
        }
    }
    plain.given.sort_by_key(|given| given.chars.start);
}

/// Puts the given pronunciations in the place of those that were found. What of a word goes beyond is read by itself.
fn compose(english: &English, plain: &Plain, tokens: Vec<Token>) -> Vec<Token> {
    let mut composed: Vec<Token> = Vec::new();
    let mut given = plain.given.iter().peekable();
    let put = |given: &Given, composed: &mut Vec<Token>| {
        composed.push(Token {
            chars: given.chars.clone(),
            phonemes: given.phonemes.clone(),
            given: true,
        });
    };
    for token in tokens {
        let mut from = token.chars.start;
        while let Some(next) = given.peek().filter(|given| given.chars.start < token.chars.end) {
            rest(english, plain, from..next.chars.start, &mut composed);
            put(next, &mut composed);
            from = from.max(next.chars.end);
            given.next();
        }
        let after = composed
            .last()
            .filter(|last| last.given)
            .map_or(0, |last| last.chars.end);
        from = from.max(after);
        if from == token.chars.start {
            composed.push(token);
        } else {
            rest(english, plain, from..token.chars.end, &mut composed);
        }
    }
    given.for_each(|given| put(given, &mut composed));
    for at in 1..composed.len() {
        if composed[at].given && plain.text(&composed[at - 1].chars).eq_ignore_ascii_case("the") {
            composed[at - 1].phonemes = article(&composed[at].phonemes).to_owned();
        }
    }
    composed
}

/// Reads a part of a word whose other part was given.
fn rest(english: &English, plain: &Plain, chars: Range<usize>, composed: &mut Vec<Token>) {
    if chars.is_empty() {
        return;
    }
    let text = plain.text(&chars);
    let last = composed
        .last_mut()
        .filter(|last| last.given && last.chars.end == chars.start);
    match last {
        Some(last) if text == "'s" => {
            last.phonemes = english.library.lexicon.append_s(&last.phonemes);
            last.chars.end = chars.end;
        }
        _ => {
            let shifted = |token: Token| Token {
                chars: token.chars.start + chars.start..token.chars.end + chars.start,
                ..token
            };
            composed.extend(
                english
                    .tokens(&plain.chars[chars.clone()])
                    .into_iter()
                    .map(shifted),
            );
        }
    }
}

/// The form of `the` before these phonemes.
fn article(next: &str) -> &'static str {
    let first = next.chars().find(|c| !matches!(c, 'ˈ' | 'ˌ'));
    if first.is_some_and(|c| "AIOQWYaeiouæɐɑɒɔəɚɛɜɨɪʊʌᵊᵻ".contains(c)) {
        "ði"
    } else {
        "ðə"
    }
}

fn words(plain: &Plain, tokens: Vec<Token>) -> Vec<Word> {
    let starts: Vec<usize> = tokens.iter().map(|token| token.chars.start).collect();
    let next = starts.into_iter().skip(1).map(Some).chain([None]);
    let words = tokens.into_iter().zip(next).map(|(token, next)| {
        let given = plain
            .given
            .iter()
            .find(|given| token.given && given.chars.start == token.chars.start);
        let last = plain.source[token.chars.end - 1] + 1;
        let source = match given {
            Some(given) => given.source.start..last.max(given.source.end),
            None => plain.source[token.chars.start]..last,
        };
        let between = next.map_or(&[][..], |next| {
            plain.chars.get(token.chars.end..next).unwrap_or_default()
        });
        Word {
            source,
            punctuation: !token.phonemes.chars().any(char::is_alphabetic),
            phonemes: token.phonemes,
            spaced: between.contains(&' '),
        }
    });
    words.collect()
}
