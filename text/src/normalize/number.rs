//! Whole numbers as English words. Own code because the crates for it work on floating-point numbers (digits beyond
//! their precision and trailing zeros get lost), use "and" unevenly, or drop the zero of "0.5".

/// Digits that have a name; longer numbers are read digit by digit.
pub(super) const MAX_NAMED_DIGITS: usize = 36;

#[rustfmt::skip]
static SMALL: [&str; 20] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
];
static TENS: [&str; 10] = [
    "zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
];
#[rustfmt::skip]
static SCALES: [&str; 12] = [
    "", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion", "sextillion", "septillion",
    "octillion", "nonillion", "decillion",
];
#[rustfmt::skip]
static IRREGULAR: [(&str, &str); 7] = [
    ("one", "first"), ("two", "second"), ("three", "third"), ("five", "fifth"), ("eight", "eighth"),
    ("nine", "ninth"), ("twelve", "twelfth"),
];

/// A number below one hundred: "forty-two".
pub(super) fn below_hundred(n: usize) -> String {
    match n {
        0..20 => SMALL[n].to_owned(),
        _ if n.is_multiple_of(10) => TENS[n / 10].to_owned(),
        _ => format!("{}-{}", TENS[n / 10], SMALL[n % 10]),
    }
}

fn below_thousand(n: usize) -> String {
    match (n / 100, n % 100) {
        (0, rest) => below_hundred(rest),
        (hundreds, 0) => format!("{} hundred", SMALL[hundreds]),
        (hundreds, rest) => format!("{} hundred {}", SMALL[hundreds], below_hundred(rest)),
    }
}

/// A number in words: "one thousand two hundred thirty-four". Digits one by one if there are too many to name.
pub(super) fn cardinal(digits: &str) -> String {
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return SMALL[0].to_owned();
    }
    if significant.len() > MAX_NAMED_DIGITS {
        return spelled(digits);
    }
    let mut words = Vec::new();
    let groups = significant.len().div_ceil(3);
    for group in (0..groups).rev() {
        let end = significant.len() - group * 3;
        let value: usize = significant[end.saturating_sub(3)..end].parse().unwrap_or(0);
        if value > 0 {
            words.push(below_thousand(value));
            words.push(SCALES[group].to_owned());
        }
    }
    words.join(" ").trim_end().to_owned()
}

/// A number that was written in groups of two digits above a thousand, as in India: "twelve lakh".
pub(super) fn lakhs(digits: &str) -> String {
    let at = |places: usize| digits.len().saturating_sub(places);
    let groups = [
        (&digits[..at(7)], " crore"),
        (&digits[at(7)..at(5)], " lakh"),
        (&digits[at(5)..], ""),
    ];
    let words: Vec<String> = groups
        .iter()
        .filter(|(group, _)| group.bytes().any(|b| b != b'0'))
        .map(|(group, name)| format!("{}{name}", cardinal(group)))
        .collect();
    words.join(" ")
}

/// The place in an order: "twenty-first".
pub(super) fn ordinal(digits: &str) -> String {
    ordinal_of(&cardinal(digits))
}

/// The ordinal of a number in words.
pub(super) fn ordinal_of(cardinal: &str) -> String {
    let at = cardinal.rfind([' ', '-']).map_or(0, |at| at + 1);
    let (head, last) = cardinal.split_at(at);
    let last = match IRREGULAR.iter().find(|&&(n, _)| n == last) {
        Some(&(_, ordinal)) => ordinal.to_owned(),
        None => match last.strip_suffix('y') {
            Some(stem) => format!("{stem}ieth"),
            None => format!("{last}th"),
        },
    };
    format!("{head}{last}")
}

/// Every digit by its name.
pub(super) fn spelled(digits: &str) -> String {
    let names: Vec<&str> = digits
        .bytes()
        .filter(u8::is_ascii_digit)
        .map(|b| SMALL[usize::from(b - b'0')])
        .collect();
    names.join(" ")
}

/// Two digits as the end of a year: "oh five", "twenty-six".
pub(super) fn short_year(digits: &str) -> String {
    match digits.as_bytes() {
        b"00" => "two thousand".to_owned(),
        [b'0', _] => format!("oh {}", spelled(&digits[1..])),
        _ => cardinal(digits),
    }
}

/// Four digits as a year: "nineteen oh five", "two thousand seven", "twenty twenty-six".
pub(super) fn year(digits: &str) -> String {
    let n: usize = digits.parse().unwrap_or(0);
    match (n / 100, n % 100) {
        (_, 0) if n.is_multiple_of(1000) => cardinal(digits),
        (20, rest @ 1..10) => format!("two thousand {}", SMALL[rest]),
        (10, 1..10) => cardinal(digits),
        (century, 0) => format!("{} hundred", below_hundred(century)),
        (century, rest @ 1..10) => format!("{} oh {}", below_hundred(century), SMALL[rest]),
        (century, rest) => format!("{} {}", below_hundred(century), below_hundred(rest)),
    }
}

/// The plural of the last word: "nineties", "hundreds".
pub(super) fn plural(words: &str) -> String {
    match words.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if words.ends_with("six") => format!("{words}es"),
        None => format!("{words}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cardinals_of_every_size() {
        for (digits, words) in [
            ("0", "zero"),
            ("000", "zero"),
            ("7", "seven"),
            ("13", "thirteen"),
            ("40", "forty"),
            ("99", "ninety-nine"),
            ("100", "one hundred"),
            ("101", "one hundred one"),
            ("999", "nine hundred ninety-nine"),
            ("1000", "one thousand"),
            ("1001", "one thousand one"),
            ("12345", "twelve thousand three hundred forty-five"),
            ("1000000", "one million"),
            ("1000001", "one million one"),
            (
                "2147483648",
                "two billion one hundred forty-seven million four hundred eighty-three thousand six hundred forty-eight",
            ),
            ("1000000000000000000000000000000000", "one decillion"),
            (
                "1000000000000000000000000000000000000",
                &format!("one{}", " zero".repeat(36)),
            ),
        ] {
            assert_eq!(cardinal(digits), words, "{digits}");
        }
    }

    #[test]
    fn ordinals() {
        for (digits, words) in [
            ("1", "first"),
            ("2", "second"),
            ("3", "third"),
            ("5", "fifth"),
            ("8", "eighth"),
            ("9", "ninth"),
            ("11", "eleventh"),
            ("12", "twelfth"),
            ("20", "twentieth"),
            ("21", "twenty-first"),
            ("42", "forty-second"),
            ("100", "one hundredth"),
            ("101", "one hundred first"),
            ("1000", "one thousandth"),
            ("1000000", "one millionth"),
        ] {
            assert_eq!(ordinal(digits), words, "{digits}");
        }
    }

    #[test]
    fn years() {
        for (digits, words) in [
            ("1066", "ten sixty-six"),
            ("1492", "fourteen ninety-two"),
            ("1900", "nineteen hundred"),
            ("1905", "nineteen oh five"),
            ("1984", "nineteen eighty-four"),
            ("2000", "two thousand"),
            ("2007", "two thousand seven"),
            ("2010", "twenty ten"),
            ("2026", "twenty twenty-six"),
        ] {
            assert_eq!(year(digits), words, "{digits}");
        }
    }
}
