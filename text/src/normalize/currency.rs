//! Money: $5.20, €3, £1m, $3.5 billion, 5 USD, -$20, $5-10, 50¢.

use super::numeral::Numeral;
use super::quantity;
use super::rules::Reading;
use super::text::Text;

/// The names of a currency's units.
#[derive(Debug, Clone, Copy)]
struct Currency {
    one: &'static str,
    many: &'static str,
    /// Of the hundredth, if it has one.
    cent: Option<(&'static str, &'static str)>,
}

const fn currency(
    one: &'static str,
    many: &'static str,
    cent: Option<(&'static str, &'static str)>,
) -> Currency {
    Currency { one, many, cent }
}

const CENT: Option<(&str, &str)> = Some(("cent", "cents"));
const DOLLAR: Currency = currency("dollar", "dollars", CENT);
const EURO: Currency = currency("euro", "euros", CENT);
const POUND: Currency = currency("pound", "pounds", Some(("penny", "pence")));
const YEN: Currency = currency("yen", "yen", None);
const RUPEE: Currency = currency("rupee", "rupees", Some(("paisa", "paise")));
const FRANC: Currency = currency("franc", "francs", CENT);
const WON: Currency = currency("won", "won", None);
const RUBLE: Currency = currency("ruble", "rubles", None);
const YUAN: Currency = currency("yuan", "yuan", None);
const BITCOIN: Currency = currency("bitcoin", "bitcoins", None);
const CENTS: Currency = currency("cent", "cents", None);

static SIGNS: [(&str, Currency); 8] = [
    ("$", DOLLAR),
    ("€", EURO),
    ("£", POUND),
    ("¥", YEN),
    ("₹", RUPEE),
    ("₩", WON),
    ("₽", RUBLE),
    ("₿", BITCOIN),
];
static CODES: [(&str, Currency); 13] = [
    ("Rs", RUPEE),
    ("USD", DOLLAR),
    ("CAD", DOLLAR),
    ("AUD", DOLLAR),
    ("EUR", EURO),
    ("GBP", POUND),
    ("JPY", YEN),
    ("INR", RUPEE),
    ("CHF", FRANC),
    ("KRW", WON),
    ("RUB", RUBLE),
    ("CNY", YUAN),
    ("BTC", BITCOIN),
];
/// Countries whose dollars are written with their letters.
static DOLLARS: [(&str, &str); 6] = [
    ("US", "u s "),
    ("C", "canadian "),
    ("CA", "canadian "),
    ("A", "australian "),
    ("AU", "australian "),
    ("NZ", "new zealand "),
];
static MAGNITUDES: [(&str, &str, bool); 14] = [
    ("hundred", "hundred", false),
    ("thousand", "thousand", false),
    ("million", "million", false),
    ("billion", "billion", false),
    ("trillion", "trillion", false),
    ("mn", "million", false),
    ("bn", "billion", false),
    ("tn", "trillion", false),
    ("k", "thousand", true),
    ("K", "thousand", true),
    ("m", "million", true),
    ("M", "million", true),
    ("B", "billion", true),
    ("T", "trillion", true),
];

/// Reads an amount of money.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    let (words, end) = prefixed(text, at).or_else(|| suffixed(text, at))?;
    let (per, end) = quantity::per(text, end);
    Some(Reading::new(format!("{words}{per}"), end))
}

fn sign(text: &Text<'_>, at: usize) -> Option<Currency> {
    SIGNS
        .iter()
        .find(|&&(sign, _)| text.is(at, sign))
        .map(|&(_, currency)| currency)
}

fn code(text: &Text<'_>, at: usize) -> Option<Currency> {
    CODES
        .iter()
        .find(|&&(code, _)| text.is(at, code))
        .map(|&(_, currency)| currency)
}

/// "$5", "-$5", "US$5", "USD 5"
fn prefixed(text: &Text<'_>, at: usize) -> Option<(String, usize)> {
    let minus = text.is(at, "-") && text.after_gap(at);
    let mut start = at + usize::from(minus);
    let country = if text.is(start + 1, "$") {
        DOLLARS.iter().find(|&&(letters, _)| text.is(start, letters))
    } else {
        None
    };
    start += usize::from(country.is_some());
    let (currency, after) = match sign(text, start) {
        Some(currency) => (currency, start + 1),
        None => (
            code(text, start)?,
            start + 1 + usize::from(text.is(start, "Rs") && text.is(start + 1, ".")),
        ),
    };
    let n = Numeral::at(text, text.past_space(after)).or_else(|| Numeral::signed(text, after))?;
    let n = decimal_comma(text, n);
    let prefix = country.map_or("", |&(_, words)| words);
    if let Some(range) = range(text, &n, currency, prefix) {
        return Some(range);
    }
    let (words, end) = amount(text, &n, currency, prefix);
    Some((
        format!("{}{words}", if minus || n.negative { "minus " } else { "" }),
        end,
    ))
}

/// "5 USD", "5€", "50¢"
fn suffixed(text: &Text<'_>, at: usize) -> Option<(String, usize)> {
    if at > 0 && text.is_word(at - 1) {
        return None;
    }
    let first = Numeral::signed(text, at)?;
    let dash = text.dash(first.end).filter(|dash| !dash.spaced);
    let second = dash.and_then(|dash| Numeral::at(text, dash.next));
    let from = second
        .as_ref()
        .map_or(String::new(), |_| format!("{} to ", first.words()));
    let n = decimal_comma(text, second.unwrap_or(first));
    let after = text.past_space(n.end);
    let currency = match text.str(after) {
        "¢" => CENTS,
        "€" | "£" | "¥" | "₹" | "₽" | "₩" | "₿" => sign(text, after)?,
        "$" if after == n.end && text.is_gap(after + 1) => DOLLAR,
        _ => code(text, after)?,
    };
    if text.is_digits(after + 1) {
        return None;
    }
    let (words, _) = amount_words(&n, currency, "");
    Some((
        format!("{from}{}{words}", if n.negative { "minus " } else { "" }),
        after + 1,
    ))
}

/// "5,99": with a sign of money a comma before two digits is that of cents.
fn decimal_comma(text: &Text<'_>, n: Numeral) -> Numeral {
    let cents = text.str(n.end + 1);
    let is_cents = n.is_whole() && text.is(n.end, ",") && text.is_digits(n.end + 1) && cents.len() == 2;
    if !is_cents || text.is(n.end + 2, ",") {
        return n;
    }
    Numeral {
        fraction: Some(cents.to_owned()),
        end: n.end + 2,
        ..n
    }
}

/// "$5-10", "$5–$10 million"
fn range(text: &Text<'_>, n: &Numeral, currency: Currency, prefix: &str) -> Option<(String, usize)> {
    if !text.is_any(n.end, &["-", "\u{2013}"]) {
        return None;
    }
    let second = n.end + 1 + usize::from(sign(text, n.end + 1).is_some());
    let second = Numeral::at(text, second)?;
    let (words, end) = amount(text, &second, currency, prefix);
    Some((format!("{} to {words}", n.words()), end))
}

/// The words of an amount and the token after it.
fn amount(text: &Text<'_>, n: &Numeral, currency: Currency, prefix: &str) -> (String, usize) {
    let next = text.past_space(n.end);
    let touching = next == n.end;
    let magnitude = MAGNITUDES.iter().find(|&&(written, _, near)| {
        (touching || !near) && text.is(next, written) && !text.is_digits(next + 1)
    });
    match magnitude {
        Some(&(_, name, _)) => (
            format!("{} {name} {prefix}{}", n.words(), currency.many),
            next + 1,
        ),
        None => (amount_words(n, currency, prefix).0, n.end),
    }
}

fn amount_words(n: &Numeral, currency: Currency, prefix: &str) -> (String, usize) {
    let n = Numeral {
        negative: false,
        ..n.clone()
    };
    let name = if n.is_one() { currency.one } else { currency.many };
    let (Some((cent, cents)), Some(hundredths)) =
        (currency.cent, n.fraction.as_deref().filter(|f| f.len() == 2))
    else {
        return (format!("{} {prefix}{name}", n.words()), n.end);
    };
    let whole = Numeral {
        fraction: None,
        ..n.clone()
    };
    let name = if whole.is_one() {
        currency.one
    } else {
        currency.many
    };
    let value: usize = hundredths.parse().unwrap_or(0);
    let small = format!(
        "{} {}",
        super::number::below_hundred(value),
        if value == 1 { cent } else { cents }
    );
    let empty = whole.whole.bytes().all(|b| b == b'0');
    let words = match (empty, value) {
        (true, 1..) => small,
        (_, 0) => format!("{} {prefix}{name}", whole.words()),
        _ => format!("{} {prefix}{name} and {small}", whole.words()),
    };
    (words, n.end)
}
