//! Money: $5.20, €3, £1m, $3.5 billion, 5 USD, -$20, $5-10, 50¢.

use super::numeral::Numeral;
use super::rules::Reading;
use super::text::Text;
use super::{measure, number, quantity};

/// A currency: how it is written, and the names of its units. Those of its hundredth are empty if it has none.
type Currency = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// By sign. A letter or two before "$" name whose dollars they are.
#[rustfmt::skip]
static SIGNS: &[Currency] = &[
    ("$", "dollar", "dollars", "cent", "cents"), ("€", "euro", "euros", "cent", "cents"), ("£", "pound", "pounds", "penny", "pence"),
    ("¥", "yen", "yen", "", ""), ("₹", "rupee", "rupees", "paisa", "paise"), ("₩", "won", "won", "", ""), ("₽", "ruble", "rubles", "", ""),
    ("₿", "bitcoin", "bitcoins", "", ""), ("₺", "lira", "lira", "", ""), ("₴", "hryvnia", "hryvnias", "", ""), ("₪", "shekel", "shekels", "", ""),
    ("฿", "baht", "baht", "", ""), ("₫", "dong", "dong", "", ""), ("₱", "peso", "pesos", "", ""), ("₦", "naira", "naira", "", ""),
];
/// By letters, before or behind the number.
#[rustfmt::skip]
static CODES: &[Currency] = &[
    ("Rs", "rupee", "rupees", "paisa", "paise"), ("USD", "dollar", "dollars", "cent", "cents"), ("CAD", "canadian dollar", "canadian dollars", "cent", "cents"),
    ("AUD", "australian dollar", "australian dollars", "cent", "cents"), ("NZD", "new zealand dollar", "new zealand dollars", "cent", "cents"),
    ("HKD", "hong kong dollar", "hong kong dollars", "cent", "cents"), ("SGD", "singapore dollar", "singapore dollars", "cent", "cents"),
    ("EUR", "euro", "euros", "cent", "cents"), ("GBP", "pound", "pounds", "penny", "pence"), ("JPY", "yen", "yen", "", ""), ("INR", "rupee", "rupees", "paisa", "paise"),
    ("CHF", "franc", "francs", "centime", "centimes"), ("KRW", "won", "won", "", ""), ("RUB", "ruble", "rubles", "", ""), ("CNY", "yuan", "yuan", "", ""),
    ("RMB", "yuan", "yuan", "", ""), ("BTC", "bitcoin", "bitcoins", "", ""), ("ETH", "ether", "ether", "", ""), ("kr", "krona", "kronor", "", ""),
    ("SEK", "swedish krona", "swedish kronor", "", ""), ("NOK", "norwegian krone", "norwegian kroner", "", ""), ("DKK", "danish krone", "danish kroner", "", ""),
    ("zl", "zloty", "zlotys", "", ""), ("PLN", "zloty", "zlotys", "", ""), ("Kc", "koruna", "korunas", "", ""), ("CZK", "koruna", "korunas", "", ""),
    ("HUF", "forint", "forints", "", ""), ("TRY", "lira", "lira", "", ""), ("MXN", "mexican peso", "mexican pesos", "", ""), ("BRL", "real", "reais", "", ""),
    ("ZAR", "rand", "rand", "", ""), ("THB", "baht", "baht", "", ""), ("AED", "dirham", "dirhams", "", ""), ("ILS", "shekel", "shekels", "", ""),
];
/// Letters before "$" and the dollars that they make of it.
#[rustfmt::skip]
static DOLLARS: &[(&str, &str)] = &[
    ("A", "australian "), ("AU", "australian "), ("C", "canadian "), ("CA", "canadian "), ("HK", "hong kong "), ("NT", "new taiwan "),
    ("NZ", "new zealand "), ("S", "singapore "), ("SG", "singapore "), ("US", "u s "),
];
/// Currencies of another name that are written with "$".
static PESOS: &[Currency] = &[
    ("R", "real", "reais", "centavo", "centavos"),
    ("MX", "mexican peso", "mexican pesos", "centavo", "centavos"),
];
static CENTS: Currency = ("¢", "cent", "cents", "", "");
#[rustfmt::skip]
static MAGNITUDES: [(&str, &str, bool); 14] = [
    ("hundred", "hundred", false), ("thousand", "thousand", false), ("million", "million", false),
    ("billion", "billion", false), ("trillion", "trillion", false), ("mn", "million", false),
    ("bn", "billion", false), ("tn", "trillion", false), ("k", "thousand", true), ("K", "thousand", true),
    ("m", "million", true), ("M", "million", true), ("B", "billion", true), ("T", "trillion", true),
];

/// Reads an amount of money.
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    let (words, end) = prefixed(text, at).or_else(|| suffixed(text, at))?;
    let (per, end) = quantity::per(text, end, false);
    Some(Reading::new(format!("{words}{per}"), end))
}

fn sign(text: &Text<'_>, at: usize) -> Option<&'static Currency> {
    SIGNS.iter().find(|row| text.is(at, row.0))
}

fn code(text: &Text<'_>, at: usize) -> Option<&'static Currency> {
    CODES.iter().find(|row| text.is(at, row.0))
}

/// "$5", "-$5", "US$5", "USD 5"
fn prefixed(text: &Text<'_>, at: usize) -> Option<(String, usize)> {
    let minus = text.is(at, "-") && text.after_gap(at);
    let mut start = at + usize::from(minus);
    let lettered = text.is(start + 1, "$");
    let country = DOLLARS
        .iter()
        .find(|&&(letters, _)| lettered && text.is(start, letters));
    let peso = PESOS.iter().find(|row| lettered && text.is(start, row.0));
    start += usize::from(country.is_some() || peso.is_some());
    let (currency, after) = match peso.or_else(|| sign(text, start)) {
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
    let second = text.dash(first.end).and_then(|dash| {
        let second = Numeral::at(text, dash.next)?;
        let rises = first
            .value()
            .zip(second.value())
            .is_some_and(|(first, second)| first < second);
        (!dash.spaced || rises).then_some(second)
    });
    let from = second
        .as_ref()
        .map_or(String::new(), |_| format!("{} to ", first.words()));
    let mut n = decimal_comma(text, second.unwrap_or(first));
    let after = text.past_space(n.end);
    // "1.200 €", but "1.299 €/l"
    if text.is(after, "€") && !text.is(after + 1, "/") && !n.whole.starts_with('0') {
        n.whole.extend(n.fraction.take_if(|digits| digits.len() == 3));
    }
    let currency = match text.str(after) {
        "¢" => &CENTS,
        "$" if after > n.end || !text.is_gap(after + 1) => return None,
        _ => sign(text, after).or_else(|| code(text, after))?,
    };
    if text.is_digits(after + 1) {
        return None;
    }
    let words = amount_words(&n, currency, "");
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

/// "$5-10", "$5–$10 million", "$5 - 10"; "$5 - $10" are two amounts.
fn range(text: &Text<'_>, n: &Numeral, currency: &Currency, prefix: &str) -> Option<(String, usize)> {
    let dash = text.dash(n.end).filter(|dash| dash.sign != "\u{2014}")?;
    let signed = sign(text, dash.next).is_some();
    let second = Numeral::at(text, dash.next + usize::from(signed))?;
    if dash.spaced {
        let plain = quantity::read(text, &second, "").is_none() && !text.is(text.past_space(second.end), "=");
        let counted = text.lower(text.past_space(second.end)).is_some_and(|word| {
            measure::is_plural(&word) && !MAGNITUDES.iter().any(|&(name, ..)| name == word)
        });
        let rises = n
            .value()
            .zip(second.value())
            .is_some_and(|(first, second)| first < second);
        if signed || !plain || counted || !rises {
            return None;
        }
    }
    let (words, end) = amount(text, &second, currency, prefix);
    Some((format!("{} to {words}", n.words()), end))
}

/// The words of an amount and the token after it.
fn amount(text: &Text<'_>, n: &Numeral, currency: &Currency, prefix: &str) -> (String, usize) {
    let next = text.past_space(n.end);
    let touching = next == n.end;
    let magnitude = MAGNITUDES.iter().find(|&&(written, _, near)| {
        (touching || !near) && text.is(next, written) && !text.is_digits(next + 1)
    });
    match magnitude {
        Some(&(_, name, _)) => (format!("{} {name} {prefix}{}", n.words(), currency.2), next + 1),
        None => (amount_words(n, currency, prefix), n.end),
    }
}

fn amount_words(n: &Numeral, currency: &Currency, prefix: &str) -> String {
    let &(_, one, many, cent, cents) = currency;
    let whole = Numeral {
        negative: false,
        fraction: None,
        ..n.clone()
    };
    let hundredths = n.fraction.as_deref().filter(|f| f.len() == 2 && !cent.is_empty());
    let Some(value) = hundredths.and_then(|digits| digits.parse().ok()) else {
        let all = Numeral {
            negative: false,
            ..n.clone()
        };
        return format!("{} {prefix}{}", all.words(), if n.is_one() { one } else { many });
    };
    let name = if whole.is_one() { one } else { many };
    let small = || {
        format!(
            "{} {}",
            number::below_hundred(value),
            if value == 1 { cent } else { cents }
        )
    };
    let empty = whole.whole.bytes().all(|b| b == b'0');
    match (empty, value) {
        (true, 1..) => small(),
        (_, 0) => format!("{} {prefix}{name}", whole.words()),
        _ => format!("{} {prefix}{name} and {}", whole.words(), small()),
    }
}
