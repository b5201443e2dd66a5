//! Codes that move the cursor of a terminal, colour its text or name its window.

use super::notation::{Edit, Judged, closing};

/// Most characters of a control sequence.
const LONGEST_SEQUENCE: usize = 64;
/// Most characters of a string, such as the address of a link.
const LONGEST_STRING: usize = 2048;

/// Judges a code that begins with the character ESC, CSI or OSC.
pub(super) fn judge(held: &[char], whole: bool) -> Judged {
    let code = match held {
        ['\u{9b}', ..] => sequence(held, 1),
        ['\u{9d}', ..] => string(held, 1),
        [_] => None,
        [_, '[', ..] => sequence(held, 2),
        [_, ']' | 'P' | 'X' | '^' | '_', ..] => string(held, 2),
        [_, '(' | ')' | '*' | '+' | '#' | '%', ..] => (held.len() > 2).then_some(3),
        [
            _,
            'D' | 'E' | 'H' | 'M' | 'N' | 'O' | 'Z' | 'c' | 'l' | 'm' | 'n' | 'o',
            ..,
        ] => {
            // A word behind a lone ESC is none.
            held.get(2).map(|next| if next.is_alphabetic() { 1 } else { 2 })
        }
        [_, '7' | '8' | '=' | '>' | '\\' | '|' | '}' | '~', ..] => Some(2),
        _ => Some(1),
    };
    match code {
        Some(chars) => Judged::Taken(vec![Edit::Skip(chars)]),
        None if whole => Judged::Taken(vec![Edit::Skip(held.len())]),
        None if held.len() > 2
            && string(held, 1).is_none()
            && matches!(held[1], ']' | 'P' | 'X' | '^' | '_') =>
        {
            Judged::Open("\u{7}\u{9c}\\\n")
        }
        None => Judged::Open(""),
    }
}

/// Parameters, then one letter or sign that ends it. What does not belong to it is left.
fn sequence(held: &[char], from: usize) -> Option<usize> {
    let end = held[from..].iter().position(|c| !matches!(c, ' '..='?'))?;
    let last = from + end;
    match held[last] {
        '@'..='~' => Some(last + 1),
        _ => Some(last),
    }
    .map(|chars| chars.min(LONGEST_SEQUENCE))
}

/// Everything up to its end, or up to the end of the line.
fn string(held: &[char], from: usize) -> Option<usize> {
    for (i, &c) in held.iter().enumerate().skip(from) {
        match c {
            '\u{7}' | '\u{9c}' => return Some(i + 1),
            '\\' if held[i - 1] == '\u{1b}' => return Some(i + 1),
            '\n' => return Some(i),
            _ => {}
        }
    }
    (held.len() > LONGEST_STRING).then_some(held.len())
}

/// A control sequence whose ESC was written as the source code of a program has it.
pub(super) fn written(held: &[char], whole: bool) -> Judged {
    static NAMES: [&str; 6] = ["^[[", "\\x1b[", "\\u001b[", "\\033[", "\\e[", "\\x1B["];
    let begins = |name: &&&str| name.chars().zip(held).all(|(a, &b)| a == b);
    let Some(name) = NAMES.iter().find(begins) else {
        return Judged::Text;
    };
    let from = name.len();
    let ended = held.get(from..).and_then(|_| sequence(held, from));
    match ended {
        Some(chars) if chars > from => Judged::Taken(vec![Edit::Skip(chars)]),
        Some(_) => Judged::Text,
        None if whole || held.len() > LONGEST_SEQUENCE => Judged::Text,
        None => Judged::Open(""),
    }
}

/// A code of colours whose ESC was lost: `[33mwarning[0m`. A bracket that closes before another code comes is none:
/// `[50mg]`.
pub(super) fn lost(held: &[char], whole: bool) -> Judged {
    let digits = held[1..]
        .iter()
        .take_while(|c| c.is_ascii_digit() || **c == ';')
        .count();
    let codes: String = held[1..=digits].iter().collect();
    let colour = |code: &str| code.len() < 4 && code.parse().is_ok_and(|code: u8| code < 108);
    if digits == 0 || digits > 16 || !codes.split(';').all(colour) {
        return Judged::Text;
    }
    let code = Judged::Taken(vec![Edit::Skip(digits + 2)]);
    let next = match (held.get(digits + 1), held.get(digits + 2)) {
        (None, _) | (Some('m'), None) if !whole => return Judged::Open(""),
        (Some('m'), _) if codes == "0" || codes.contains(';') => return code,
        (Some('m'), Some(next)) => next,
        _ => return Judged::Text,
    };
    let resets = matches!(codes.as_str(), "22" | "23" | "24" | "27" | "29" | "39" | "49");
    if next.is_whitespace() && !resets {
        return Judged::Text;
    }
    let another = |three: &[char]| {
        three[0] == '[' && three[1].is_ascii_digit() && matches!(three[2], '0'..='9' | ';' | 'm')
    };
    if held[digits + 2..].windows(3).any(another) {
        return code;
    }
    match closing(held, 0) {
        Ok(_) => Judged::Text,
        Err(Judged::Open(_)) if !whole => Judged::Open("[]\n\\m0123456789"),
        Err(_) => code,
    }
}
