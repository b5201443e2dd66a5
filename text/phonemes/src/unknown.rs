//! Words that the library's lexicons lack.

use unicode_normalization::UnicodeNormalization;

use crate::english::English;

impl English {
    /// The phonemes of a word of any characters; none if it has neither letters nor digits of ours.
    pub(crate) fn unknown(&self, word: &str) -> String {
        let mut parts: Vec<String> = Vec::new();
        for part in split(&folded(word)) {
            let phonemes = if part.starts_with(|c: char| c.is_ascii_digit()) {
                self.digits(&part)
            } else {
                self.known(&part).unwrap_or_else(|| self.letters(&part))
            };
            // One main stress is enough for a word.
            let lower = parts.iter().any(|part| part.contains('ˈ'));
            parts.push(if lower {
                phonemes.replace('ˈ', "ˌ")
            } else {
                phonemes
            });
        }
        parts.concat()
    }

    /// A number, digit by digit.
    fn digits(&self, digits: &str) -> String {
        const NAMES: [&str; 10] = [
            "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
        ];
        let names = digits.bytes().map(|digit| NAMES[usize::from(digit - b'0') % 10]);
        let read = names.filter_map(|name| self.known(name));
        read.map(|name| format!(" {name} ")).collect()
    }

    /// A word of small letters and apostrophes.
    fn letters(&self, word: &str) -> String {
        if let Some(phonemes) = self.words.get(word) {
            return phonemes.clone();
        }
        let lexicon = &self.library.lexicon;
        if let Some(base) = word.strip_suffix("'s").or_else(|| word.strip_suffix('\'')) {
            let phonemes = self.known(base).unwrap_or_else(|| self.letters(base));
            return if base.ends_with('s') && !word.ends_with("'s") {
                phonemes
            } else {
                lexicon.append_s(&phonemes)
            };
        }
        let form = |end: &str| word.strip_suffix(end).and_then(|base| self.words.get(base));
        if let Some(base) = form("s") {
            return lexicon.append_s(base);
        }
        if let Some(base) = form("ed") {
            return lexicon.append_ed(base);
        }
        if let Some(whole) = form("ing").and_then(|base| lexicon.append_ing(base)) {
            return whole;
        }
        if !word.contains(['a', 'e', 'i', 'o', 'u', 'y']) {
            return self.spelled(word);
        }
        self.model.phonemes(word)
    }

    /// The names of letters, the last one with the main stress.
    pub(crate) fn spelled(&self, letters: &str) -> String {
        let names = letters.chars().filter_map(|letter| self.letter(letter));
        let names: Vec<String> = names.map(|name| name.replace('ˈ', "ˌ")).collect();
        let whole = names.concat();
        match whole.rfind('ˌ') {
            Some(last) => format!("{}ˈ{}", &whole[..last], &whole[last + 'ˌ'.len_utf8()..]),
            None => whole,
        }
    }
}

/// Letters of Latin alphabets as the small letters `a` to `z` that stand for them, with digits, apostrophes and, for any other
/// character, spaces.
pub(crate) fn folded(word: &str) -> String {
    let mut out = String::new();
    for c in word
        .nfkd()
        .filter(|c| !unicode_normalization::char::is_combining_mark(*c))
    {
        match c.to_lowercase().next().unwrap_or(c) {
            c @ ('a'..='z' | '0'..='9' | '\'') => out.push(c),
            '’' => out.push('\''),
            'ß' => out.push_str("ss"),
            'æ' => out.push_str("ae"),
            'œ' => out.push_str("oe"),
            'ø' => out.push('o'),
            'ł' => out.push('l'),
            'đ' | 'ð' => out.push('d'),
            'þ' => out.push_str("th"),
            'ı' => out.push('i'),
            _ => out.push(' '),
        }
    }
    out
}

/// Runs of letters and apostrophes, and runs of digits.
fn split(folded: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in folded.chars() {
        let continues = last != ' ' && last.is_ascii_digit() == c.is_ascii_digit();
        match parts.last_mut().filter(|_| continues) {
            Some(part) if c != ' ' => part.push(c),
            _ if c != ' ' => parts.push(c.to_string()),
            _ => {}
        }
        last = c;
    }
    parts
        .iter_mut()
        .for_each(|part| *part = part.trim_start_matches('\'').to_owned());
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Accent;

    #[test]
    fn letters_of_other_alphabets_are_folded_or_left_out() {
        assert_eq!(folded("Ærøskøbing’s Łódź ﬁ"), "aeroskobing's lodz fi");
        assert_eq!(split("ab12 c'd '"), ["ab", "12", "c'd"]);
        assert_eq!(split(&folded("中文")), Vec::<String>::new());
    }

    /// Symbols that stand for one sound where accents and dictionaries differ.
    fn merged(phonemes: &str) -> String {
        let mut text = phonemes.replace(['ˈ', 'ˌ'], "").replace(['T', 'ɾ'], "t");
        for reduced in ['ᵊ', 'ᵻ', 'ɐ', 'ɜ', 'ʌ', 'ɪ'] {
            text = text.replace(reduced, "ə");
        }
        text.replace('ɔ', "ɑ")
    }

    fn distance(a: &str, b: &str) -> usize {
        let b: Vec<char> = b.chars().collect();
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.chars().enumerate() {
            let mut last = row[0];
            row[0] = i + 1;
            for (j, &y) in b.iter().enumerate() {
                let replaced = last + usize::from(x != y);
                last = row[j + 1];
                row[j + 1] = replaced.min(row[j] + 1).min(last + 1);
            }
        }
        row[b.len()]
    }

    /// Error rates of words that `train.py --held-out FILE` held out: `OMNI_HELD_OUT=FILE cargo test --release -p omni-phonemes
    /// error_rates -- --ignored --nocapture`.
    #[test]
    #[ignore = "needs the words that were held out"]
    fn error_rates() {
        let file = std::env::var("OMNI_HELD_OUT").expect("OMNI_HELD_OUT");
        let text = std::fs::read_to_string(file).expect("the words");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        type Read = fn(&English, &str) -> Option<String>;
        let ways: [(&str, Read); 4] = [
            ("model", |english, word| Some(english.model.phonemes(word))),
            ("unknown", |english, word| Some(english.letters(word))),
            ("library", |english, word| english.known(word)),
            ("together", |english, word| {
                Some(english.known(word).unwrap_or_else(|| english.letters(word)))
            }),
        ];
        let mut lists: Vec<&str> = rows.iter().map(|row| row[0]).collect();
        lists.dedup();
        for list in lists {
            let english = English::get(if list == "british" {
                Accent::British
            } else {
                Accent::American
            });
            for (way, read) in ways {
                let (mut words, mut exact, mut plain, mut loose, mut sounds, mut errors) = (0, 0, 0, 0, 0, 0);
                let start = std::time::Instant::now();
                for row in rows.iter().filter(|row| row[0] == list) {
                    let Some(read) = read(english, row[1]) else {
                        continue;
                    };
                    let read = english.symbols(&read);
                    let expected = english.symbols(row[2]);
                    let bare = |phonemes: &str| phonemes.replace(['ˈ', 'ˌ'], "");
                    words += 1;
                    exact += usize::from(read != expected);
                    plain += usize::from(bare(&read) != bare(&expected));
                    loose += usize::from(merged(&read) != merged(&expected));
                    sounds += bare(&expected).chars().count();
                    errors += distance(&bare(&read), &bare(&expected));
                }
                let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
                eprintln!(
                    "{list} {way}: {words} words, wrong {:.1} %, without stress {:.1} %, reduced vowels merged {:.1} %; phonemes {:.2} %; {:.0?} a word",
                    share(exact, words),
                    share(plain, words),
                    share(loose, words),
                    share(errors, sounds),
                    start.elapsed() / words.max(1) as u32
                );
            }
        }
    }
}
