//! Finds where a written number starts and ends: digits, thousands separators, decimals, sign.

use super::number;
use super::text::{Kind, Text};

/// A written number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numeral {
    /// Digits before the decimal point, without separators; empty in ".5".
    pub(super) whole: String,
    /// Digits after it.
    pub(super) fraction: Option<String>,
    pub(super) negative: bool,
    /// True if it was written with a plus sign.
    pub(super) plus: bool,
    /// True if it was written with thousands separators.
    pub(super) grouped: bool,
    /// True if those were of two digits above a thousand.
    pub(super) lakhs: bool,
    /// The token after it.
    pub(super) end: usize,
}

impl Numeral {
    /// The number that starts at `at`, with its sign.
    pub(super) fn signed(text: &Text<'_>, at: usize) -> Option<Self> {
        if text.is_any(at, &["-", "+"]) && starts_sign(text, at) {
            let negative = text.is(at, "-");
            return Self::at(text, at + 1).map(|n| Self {
                negative,
                plus: !negative,
                ..n
            });
        }
        Self::at(text, at)
    }

    /// The number that starts at `at`, without a sign.
    pub(super) fn at(text: &Text<'_>, at: usize) -> Option<Self> {
        if text.is(at, ".") && text.is_digits(at + 1) && (at == 0 || !is_alphanumeric(text, at - 1)) {
            return Some(Self::new(String::new(), Some(text.str(at + 1)), false, at + 2));
        }
        if !text.is_digits(at) {
            return None;
        }
        if let Some(continental) = continental(text, at) {
            return Some(continental);
        }
        if let Some((whole, end)) = lakhs(text, at) {
            return Some(Self {
                lakhs: true,
                ..Self::new(whole, None, true, end)
            });
        }
        let (whole, end) = grouped(text, at);
        let is_grouped = end > at + 1;
        let decimals = text.is(end, ".") && text.is_digits(end + 1);
        if decimals {
            return Some(Self::new(whole, Some(text.str(end + 1)), is_grouped, end + 2));
        }
        Some(Self::new(whole, None, is_grouped, end))
    }

    fn new(whole: String, fraction: Option<&str>, grouped: bool, end: usize) -> Self {
        Self {
            whole,
            fraction: fraction.map(str::to_owned),
            negative: false,
            plus: false,
            grouped,
            lakhs: false,
            end,
        }
    }

    /// True if it says one, so that its unit is singular.
    pub(super) fn is_one(&self) -> bool {
        self.fraction.is_none() && self.whole.trim_start_matches('0') == "1"
    }

    pub(super) fn is_whole(&self) -> bool {
        self.fraction.is_none()
    }

    /// The value of a small whole number.
    pub(super) fn small(&self) -> Option<usize> {
        if self.fraction.is_some() || self.whole.len() > 6 {
            None
        } else {
            self.whole.parse().ok()
        }
    }

    /// The value, near enough to compare it with another.
    pub(super) fn value(&self) -> Option<f64> {
        let digits = format!("0{}.{}", self.whole, self.fraction.as_deref().unwrap_or("0"));
        digits
            .parse()
            .ok()
            .map(|value: f64| if self.negative { -value } else { value })
    }

    /// In words, as an amount: never as a year.
    pub(super) fn words(&self) -> String {
        let sign = match (self.negative, self.plus) {
            (true, _) => "minus ",
            (_, true) => "plus ",
            _ => "",
        };
        let whole = match self.whole.as_str() {
            "" if self.fraction.is_some() => String::new(),
            code if code.len() > 1 && code.starts_with('0') && self.fraction.is_none() => {
                number::spelled(code)
            }
            digits if self.lakhs => number::lakhs(digits),
            digits => number::cardinal(digits),
        };
        match &self.fraction {
            None => format!("{sign}{whole}"),
            Some(digits) => format!("{sign}{whole} point {}", number::spelled(digits)),
        }
    }
}

/// Digits of a number beyond which its groups are not looked at.
const LONGEST_GROUPED: usize = 24;

/// "1.234,56", "1.234.567" and "0,5": separators the other way about, where nothing else is written so.
fn continental(text: &Text<'_>, at: usize) -> Option<Numeral> {
    let first = text.str(at);
    let group = |i: usize| text.is(i, ".") && text.is_digits(i + 1) && text.str(i + 1).len() == 3;
    if at > 0 && (text.is_any(at - 1, &[".", ","]) || text.is_word(at - 1)) || first.len() > 3 {
        return None;
    }
    let mut whole = first.to_owned();
    let mut end = at + 1;
    while group(end) && !first.starts_with('0') && whole.len() < LONGEST_GROUPED {
        whole.push_str(text.str(end + 1));
        end += 2;
    }
    let groups = (end - at - 1) / 2;
    let decimals = text.is(end, ",") && text.is_digits(end + 1) && text.str(end + 1).len() < 3;
    let more = |end: usize| text.is_any(end, &[",", "."]) && text.is_digits(end + 1);
    if decimals && !more(end + 2) && (groups > 0 || first == "0") {
        return Some(Numeral::new(whole, Some(text.str(end + 1)), groups > 0, end + 2));
    }
    let plain = !more(end) && !text.is(end, "-");
    (groups > 1 && plain).then(|| Numeral::new(whole, None, true, end))
}

/// "12,34,567": digits in groups of two above a thousand.
fn lakhs(text: &Text<'_>, at: usize) -> Option<(String, usize)> {
    let mut whole = text.str(at).to_owned();
    let mut end = at + 1;
    if whole.len() > 2 || whole.starts_with('0') {
        return None;
    }
    while text.is(end, ",")
        && text.is_digits(end + 1)
        && text.str(end + 1).len() == 2
        && whole.len() < LONGEST_GROUPED
    {
        whole.push_str(text.str(end + 1));
        end += 2;
    }
    let last = text.is(end, ",") && text.is_digits(end + 1) && text.str(end + 1).len() == 3;
    if end == at + 1 || !last || text.is(end + 2, ",") && text.is_digits(end + 3) {
        return None;
    }
    whole.push_str(text.str(end + 1));
    Some((whole, end + 2))
}

/// True if a minus or plus at `at` is a sign and not a dash, hyphen or operator between two values.
fn starts_sign(text: &Text<'_>, at: usize) -> bool {
    at == 0
        || match text.kind(at - 1) {
            Some(Kind::Space | Kind::Break) => true,
            Some(Kind::Symbol) => text.is_any(
                at - 1,
                &["(", "[", "=", "<", ">", ",", ":", "\"", "/", "*", "^", "~"],
            ),
            _ => false,
        }
}

fn is_alphanumeric(text: &Text<'_>, at: usize) -> bool {
    matches!(text.kind(at), Some(Kind::Word | Kind::Digits))
}

/// The digits from `at` on with their thousands separators removed, and the token after them.
fn grouped(text: &Text<'_>, at: usize) -> (String, usize) {
    let mut whole = text.str(at).to_owned();
    let mut end = at + 1;
    if whole.len() > 3 || whole.starts_with('0') {
        return (whole, end);
    }
    let group = |i: usize| text.is_digits(i) && text.str(i).len() == 3;
    // The sign that separates the first groups separates all.
    let separator = text.str(at + 1);
    let separates = match separator {
        "," | "'" => true,
        " " => group(at + 2) && (group(at + 4) && text.is(at + 3, " ") || text.is(at + 2, "000")),
        _ => false,
    };
    while separates && text.is(end, separator) && group(end + 1) {
        whole.push_str(text.str(end + 1));
        end += 2;
    }
    (whole, end)
}
