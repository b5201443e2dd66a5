//! Everything that is neither letter nor digit: signs with a name, marks of pause, and what is left out.

use super::measure;
use super::out::Out;
use super::text::{Kind, Text};

/// Signs that always have the same name in running text.
#[rustfmt::skip]
static NAMED: [(char, &str); 80] = [
    ('+', "plus"), ('=', "equals"), ('%', "percent"), ('&', "and"), ('@', "at"), ('$', "dollar"), ('€', "euro"),
    ('£', "pound"), ('¥', "yen"), ('₹', "rupee"), ('₩', "won"), ('₽', "ruble"), ('₿', "bitcoin"), ('₺', "lira"),
    ('₴', "hryvnia"), ('₪', "shekel"), ('฿', "baht"), ('₫', "dong"), ('₱', "peso"), ('₦', "naira"), ('¢', "cent"),
    ('°', "degrees"), ('×', "times"), ('÷', "divided by"), ('±', "plus or minus"), ('≈', "is about"),
    ('≠', "is not equal to"), ('≤', "is at most"), ('≥', "is at least"), ('∞', "infinity"), ('√', "square root of"),
    ('∑', "sum of"), ('∆', "delta"), ('∂', "partial"), ('∇', "nabla"), ('∈', "in"), ('∉', "not in"),
    ('∫', "integral of"), ('∏', "product of"), ('∀', "for all"), ('∃', "there exists"), ('∪', "union"),
    ('∩', "intersection"), ('⊂', "is a subset of"), ('≡', "is equivalent to"), ('∝', "is proportional to"),
    ('∧', "and"), ('∨', "or"), ('§', "section"), ('¶', "paragraph"), ('†', ","), ('→', ","), ('←', ","), ('⇒', ","),
    ('↔', ","), ('µ', "mu"), ('α', "alpha"), ('β', "beta"), ('γ', "gamma"), ('δ', "delta"), ('ε', "epsilon"),
    ('η', "eta"), ('θ', "theta"), ('κ', "kappa"), ('λ', "lambda"), ('ξ', "xi"), ('π', "pi"), ('ρ', "rho"),
    ('σ', "sigma"), ('τ', "tau"), ('φ', "phi"), ('χ', "chi"), ('ψ', "psi"), ('ω', "omega"), ('Δ', "delta"),
    ('Σ', "sigma"), ('Π', "pi"), ('Ω', "omega"), ('Φ', "phi"), ('Ψ', "psi"),
];

/// Names of signs in addresses and code, where none is left out.
#[rustfmt::skip]
static SPELLED: [(char, &str); 20] = [
    ('.', "dot"), ('/', "slash"), ('\\', "backslash"), ('-', "dash"), ('_', "underscore"), (':', "colon"),
    ('?', "question mark"), ('#', "hash"), ('~', "tilde"), ('*', "star"), ('|', "pipe"), ('^', "caret"),
    ('<', "less than"), ('>', "greater than"), ('!', "exclamation mark"), (';', "semicolon"), (',', "comma"),
    ('$', "dollar"), ('&', "and"), ('=', "equals"),
];

/// Two signs that mean one thing.
#[rustfmt::skip]
static PAIRS: [(&str, &str); 9] = [
    ("<=", "is at most"), (">=", "is at least"), ("!=", "is not equal to"), ("==", "equals"), ("&&", "and"),
    ("||", "or"), ("->", ","), ("=>", ","), ("<-", ","),
];

/// True if a character outside ASCII is known to the rules.
pub(super) fn has_reading(c: char) -> bool {
    matches!(c, '\u{2013}' | '\u{2014}' | '\u{2022}') || name(c).is_some()
}

fn name(c: char) -> Option<&'static str> {
    NAMED.iter().find(|&&(sign, _)| sign == c).map(|&(_, name)| name)
}

/// The name of a sign where every sign is said.
pub(super) fn spelled(c: char) -> Option<&'static str> {
    SPELLED
        .iter()
        .find(|&&(sign, _)| sign == c)
        .map(|&(_, name)| name)
        .or_else(|| name(c))
}

/// True if the token opens a quotation or bracket.
pub(super) fn opens(text: &Text<'_>, at: usize) -> bool {
    text.is_any(at, &["(", "[", "{", "<", "\"", "'", "`", "*", "@", "="])
}

/// Reads the sign at `at`; returns how many tokens it took.
pub(super) fn read(text: &Text<'_>, at: usize, out: &mut Out<'_>) -> usize {
    let Some(c) = text.str(at).chars().next() else {
        return 1;
    };
    let run = (at..text.len())
        .take_while(|&i| text.str(i) == text.str(at))
        .count();
    if PAIRS
        .iter()
        .any(|&(written, _)| written == text.slice(at, at + 2))
        && run <= 2
    {
        return sign(text, at, c, out);
    }
    match c {
        '.' => return dots(text, at, run, out),
        ',' | ';' | '!' | '?' => out.pause(c),
        ':' if run == 2 => {}
        ':' => return colon(text, at, out),
        '\u{2022}' => out.pause('.'),
        '"' | '\'' | '`' | '_' | '\\' if run == 1 => quiet(text, at, c, out),
        '(' | ')' | '[' | ']' | '{' | '}' | '|' if run == 1 && !text.is(at + 1, "|") => out.pause(','),
        '-' | '\u{2013}' | '\u{2014}' if !text.is(at + 1, ">") => return dash(text, at, run, out),
        _ if run > 2 => out.pause(','),
        _ => return sign(text, at, c, out),
    }
    run
}

/// A full stop, an ellipsis, or the point inside a name.
fn dots(text: &Text<'_>, at: usize, run: usize, out: &mut Out<'_>) -> usize {
    let next = at + run;
    if run > 1 {
        let word = text.past_space(next);
        let goes_on = text.is_word(word) && !text.is_capitalised(word);
        out.pause(if goes_on { ',' } else { '.' });
        return run;
    }
    let joined = at > 0 && !text.after_gap(at) && matches!(text.kind(next), Some(Kind::Word | Kind::Digits));
    let sentence = text.is_capitalised(next) && text.str(next).len() > 1;
    if joined && !sentence && matches!(text.kind(at - 1), Some(Kind::Word | Kind::Digits)) {
        out.say(
            if text.is_digits(at - 1) && text.is_digits(next) {
                "point"
            } else {
                "dot"
            },
            text.source(at, at + 1),
        );
    } else {
        out.pause('.');
    }
    1
}

/// A colon, or a face.
fn colon(text: &Text<'_>, at: usize, out: &mut Out<'_>) -> usize {
    let mouth = at + 1 + usize::from(text.is(at + 1, "-"));
    if text.after_gap(at) && text.is_any(mouth, &[")", "(", "D", "P", "/", "|"]) && text.is_gap(mouth + 1) {
        return mouth + 1 - at;
    }
    out.pause(':');
    1
}

/// Quotation marks say nothing; inside a word an underscore is a space and a backslash has a name.
fn quiet(text: &Text<'_>, at: usize, c: char, out: &mut Out<'_>) {
    if c == '\\' && !text.is_gap(at + 1) {
        out.say("backslash", text.source(at, at + 1));
    }
}

/// Hyphens and dashes: minus, "to", a pause, or nothing.
fn dash(text: &Text<'_>, at: usize, run: usize, out: &mut Out<'_>) -> usize {
    let next = at + run;
    let spaced = text.after_gap(at) && text.is_gap(next);
    let number_before = text.before(at).is_some_and(|before| ends_amount(text, before));
    if run == 1 && text.is_digits(next) && at > 0 && text.is_any(at - 1, &["UTC", "GMT"]) {
        out.say("minus", text.source(at, at + 1));
        return run;
    }
    let after = text.past_space(next);
    let number_after = text.is_digits(after) || (spaced && text.is(after, "-") && text.is_digits(after + 1));
    if run == 1 && number_after && number_before {
        let minus = spaced && text.is(at, "-");
        if ends_name(text, at) || measure::in_model(text, after) {
            return run;
        }
        out.say(if minus { "minus" } else { "to" }, text.source(at, at + 1));
    } else if run == 1
        && spaced
        && text.is(at, "-")
        && text.is(at.wrapping_sub(2), "K")
        && text.is(after, "12")
    {
        out.say("to", text.source(at, at + 1));
    } else if run == 1 && spaced && text.is(at, "-") && is_difference(text, at, number_before, after) {
        out.say("minus", text.source(at, at + 1));
    } else if run > 1 || spaced || !text.is(at, "-") {
        let item = at == 0 || text.kind(at - 1) == Some(Kind::Break);
        out.pause(if item { '.' } else { ',' });
    }
    run
}

/// True if letters that stand for numbers are on both sides of a hyphen, or a number on one.
fn is_difference(text: &Text<'_>, at: usize, number_before: bool, after: usize) -> bool {
    let before = is_variable(text, text.before(at));
    (before || number_before) && is_variable(text, Some(after)) || before && text.is_digits(after)
}

/// True if the token is a single letter that is no word.
fn is_variable(text: &Text<'_>, at: Option<usize>) -> bool {
    at.is_some_and(|at| text.is_word(at) && text.str(at).len() == 1 && !text.is_any(at, &["a", "A", "I"]))
}

/// True if the number before the token belongs to a name with hyphens: "Llama-3.1-8B".
fn ends_name(text: &Text<'_>, at: usize) -> bool {
    let number = (0..at)
        .rev()
        .take_while(|&i| text.is_digits(i) || text.is(i, "."))
        .count();
    let start = at - number;
    start > 1 && text.is(start - 1, "-") && text.is_word(start - 2)
}

fn ends_amount(text: &Text<'_>, at: usize) -> bool {
    text.is_digits(at)
        || text.is_any(at, &["%", "°", "am", "pm", "AM", "PM"])
        || (text.is(at, ".") && at > 0 && text.is_any(at - 1, &["m", "M"]))
        || (text.is_word(at) && at > 0 && (text.is_digits(at - 1) || text.is(at - 1, "°")))
}

/// A sign with a name; what has none is counted and left out.
fn sign(text: &Text<'_>, at: usize, c: char, out: &mut Out<'_>) -> usize {
    let pair = text.slice(at, at + 2);
    if let Some(&(_, words)) = PAIRS.iter().find(|&&(written, _)| written == pair) {
        say(text, at, at + 2, words, out);
        return 2;
    }
    let next = at + 1;
    let words = match c {
        '#' if text.is_digits(next) => Some("number"),
        '~' if text.is_digits(text.past_space(next)) && text.after_gap(at) => Some("about"),
        '/' => slash(text, at),
        // "SELECT * FROM", but "*Select* it"
        '*' if text.is_space(at.wrapping_sub(1))
            && text.is_space(next)
            && text.follows(at, "select import export") =>
        {
            Some("star")
        }
        '*' => operator(text, at, "times"),
        '^' => power(text, at),
        '<' if text.is(next, "3")
            && text.after_gap(at)
            && text.is_gap(next + 1)
            && at > 1
            && text.is_word(at - 2) =>
        {
            say(text, at, next + 1, "heart", out);
            return 2;
        }
        '<' if text.is_word(next) || text.is(next, "/") => None,
        // "Result<(), Error>"
        '<' if at > 0 && text.is_word(at - 1) && text.is_any(next, &["(", "&", "["]) => None,
        '>' if at > 0 && (text.is_word(at - 1) || text.is_any(at - 1, &["/", "\"", "-"])) => None,
        '<' => Some("is less than"),
        '>' => operator(text, at, "is greater than"),
        '#' | '~' | '`' | '_' | '\\' | '"' | '\'' => None,
        '(' | ')' | '[' | ']' | '{' | '}' | '|' => Some(","),
        _ => match name(c) {
            Some(words) => Some(words),
            None => {
                out.skip(c);
                None
            }
        },
    };
    if let Some(words) = words {
        say(text, at, next, words, out);
    }
    1
}

fn say(text: &Text<'_>, at: usize, end: usize, words: &str, out: &mut Out<'_>) {
    if words == "," {
        out.pause(',');
    } else {
        out.say(words, text.source(at, end));
    }
}

/// A sign that only means something between two things.
fn operator(text: &Text<'_>, at: usize, words: &'static str) -> Option<&'static str> {
    let before = text.before(at)?;
    let after = text.past_space(at + 1);
    let value = |i| matches!(text.kind(i), Some(Kind::Digits)) || text.is_any(i, &[")", "(", "%", "$"]);
    let letter = |i| text.is_word(i) && text.is_space(at + 1) && text.is_space(at - 1);
    ((value(before) || letter(before)) && (value(after) || letter(after))).then_some(words)
}

fn slash(text: &Text<'_>, at: usize) -> Option<&'static str> {
    let alone = text.after_gap(at) && text.kind(at + 1) != Some(Kind::Symbol);
    if alone || text.is_gap(at + 1) {
        Some(",")
    } else {
        Some("slash")
    }
}

fn power(text: &Text<'_>, at: usize) -> Option<&'static str> {
    if text.after_gap(at) {
        return None;
    }
    Some(if text.is(at + 1, "2") || text.is(at + 1, "3") {
        "to the"
    } else {
        "to the power of"
    })
}
