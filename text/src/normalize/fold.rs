//! Folds text to the plain characters that the rules know: ASCII, and symbols that have a reading. Ligatures, accents,
//! typographic quotes and spaces, full-width and mathematical letters all become what they stand for; characters without
//! sound (controls, zero-width, variation selectors) vanish; what has no equivalent is counted and left out.

use super::symbol;
use crate::Skipped;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Folded text and where each of its characters came from.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub(super) text: String,
    /// For each byte of `text`, the input character it came from.
    pub(super) source: Vec<u32>,
    /// Characters in the input.
    pub(super) input_chars: usize,
    pub(super) skipped: Skipped,
}

/// Folds `input`.
pub(super) fn fold(input: &str) -> Folded {
    let mut folded = Folded::default();
    let mut before = ' ';
    let mut rest = input.chars().peekable();
    while let Some(c) = rest.next() {
        // The digits of one power have one sign.
        let raised = is_raised(before) && is_raised(c);
        let foreign = is_greek(c) && (is_greek(before) || rest.peek().copied().is_some_and(is_greek));
        before = c;
        let at = u32::try_from(folded.input_chars).unwrap_or(u32::MAX);
        folded.input_chars += 1;
        if c.is_ascii_graphic() || c == ' ' || c == '\n' {
            folded.put(c, at);
        } else if foreign {
            folded.skip(c, at);
        } else if let Some(plain) = replacement(c) {
            let plain = if raised {
                plain.trim_start_matches('^')
            } else {
                plain
            };
            plain.chars().for_each(|c| folded.put(c, at));
        } else if symbol::has_reading(c) {
            folded.put(c, at);
        } else if c.is_whitespace() {
            folded.put(' ', at);
        } else if !is_silent(c) {
            folded.decompose(c, at);
        }
    }
    folded
}

impl Folded {
    fn put(&mut self, c: char, at: u32) {
        self.text.push(c);
        self.source.extend(std::iter::repeat_n(at, c.len_utf8()));
    }

    fn skip(&mut self, c: char, at: u32) {
        self.skipped.add(c);
        self.put(' ', at);
    }

    /// By Unicode's compatibility decomposition without its marks, if all that is left is plain.
    fn decompose(&mut self, c: char, at: u32) {
        let plain: Option<String> = std::iter::once(c)
            .nfkd()
            .filter(|&c| !is_combining_mark(c))
            .map(plain_letter)
            .collect();
        match plain {
            Some(plain) if !plain.is_empty() => plain.chars().for_each(|c| self.put(c, at)),
            Some(_) => {}
            None => self.skip(c, at),
        }
    }
}

/// True if the character is a Greek letter: one by itself is a symbol with a name, several are a foreign word.
fn is_greek(c: char) -> bool {
    c.is_alphabetic() && matches!(u32::from(c), 0x0370..=0x03ff | 0x1f00..=0x1fff)
}

/// True if the character is part of a power.
fn is_raised(c: char) -> bool {
    matches!(c, '¹' | '²' | '³' | '⁻' | '⁰' | '⁴'..='⁹')
}

fn plain_letter(c: char) -> Option<char> {
    let c = match c {
        'ø' => 'o',
        'Ø' => 'O',
        'ł' => 'l',
        'Ł' => 'L',
        'đ' | 'ð' => 'd',
        'Đ' | 'Ð' => 'D',
        'ħ' => 'h',
        'Ħ' => 'H',
        'ı' => 'i',
        'ŋ' => 'n',
        'ŧ' => 't',
        '\u{2044}' => '/',
        c => c,
    };
    (c.is_ascii_graphic() || c == ' ' || symbol::has_reading(c)).then_some(c)
}

/// True if the character makes no sound and means no pause: controls, format characters, marks and modifiers.
fn is_silent(c: char) -> bool {
    c.is_control()
        || is_combining_mark(c)
        || matches!(u32::from(c), 0xad | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb
            | 0xfe00..=0xfe0f | 0x1f3fb..=0x1f3ff | 0xe0000..=0xe0fff | 0x180e | 0x61c | 0x115f | 0x1160 | 0x3164 | 0xffa0)
        || matches!(c, '™' | '®' | '©' | '℠' | 'ª')
}

/// The replacement of a character that has no decomposition of its own, or a wrong one.
fn replacement(c: char) -> Option<&'static str> {
    Some(match c {
        '‘' | '’' | '‚' | '‛' | '′' | 'ʼ' | 'ʻ' | '´' | '＇' => "'",
        '“' | '”' | '„' | '‟' | '″' | '«' | '»' | '‹' | '›' | '「' | '」' | '『' | '』' | '《' | '》' => {
            "\""
        }
        '‐' | '‑' | '‒' | '−' | '﹣' | '－' | '⁃' => "-",
        '–' => "\u{2013}",
        '—' | '―' | '⸺' | '⸻' => "\u{2014}",
        '…' | '⋯' => "...",
        '\r' => " ",
        '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => "\n",
        '。' | '｡' => ". ",
        '！' => "! ",
        '？' | '؟' => "? ",
        '，' | '、' | '､' | '،' => ", ",
        '；' | '؛' => "; ",
        '：' => ": ",
        '·' | '・' | '⋅' => " ",
        '¿' | '¡' => "",
        'ß' => "ss",
        'ẞ' => "SS",
        'æ' | 'ǽ' => "ae",
        'Æ' => "Ae",
        'œ' => "oe",
        'Œ' => "Oe",
        'þ' => "th",
        'Þ' => "Th",
        '¼' => " 1/4",
        '½' => " 1/2",
        '¾' => " 3/4",
        '⅓' => " 1/3",
        '⅔' => " 2/3",
        '⅛' => " 1/8",
        '⅜' => " 3/8",
        '⅝' => " 5/8",
        '⅞' => " 7/8",
        '²' => "^2",
        '³' => "^3",
        '¹' => "^1",
        '⁰' => "^0",
        '⁴' => "^4",
        '⁵' => "^5",
        '⁶' => "^6",
        '⁷' => "^7",
        '⁸' => "^8",
        '⁹' => "^9",
        'ⁿ' => "^n",
        '⁻' => "^-",
        'μ' => "µ",
        'º' => "°",
        '⁄' | '∕' => "/",
        '∗' => "*",
        '∼' => "~",
        '●' | '◦' | '‣' | '▪' | '▫' | '■' | '□' | '○' | '∙' | '⁌' | '⁍' => "\u{2022}",
        _ => return None,
    })
}
