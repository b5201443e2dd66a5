//! Roman numerals, only where the word before them leaves no doubt.

use super::number;
use super::rules::Reading;
use super::text::Text;
use crate::list::listed;

/// Words whose number may be a single Roman letter.
static COUNTED: &str = "\
    act appendix article book chapter part phase section stage title type volume war factor";
/// Names of rulers, who are the first of their name rather than number one.
static RULERS: &str = "\
    alexander benedict catherine charles christian clement constantine edward elizabeth ferdinand francis frederick \
    george gregory henry innocent james louis napoleon nicholas paul philip pius ramses richard william";

/// Reads "II" in "World War II" and "VIII" in "Henry VIII".
pub(super) fn read(text: &Text<'_>, at: usize) -> Option<Reading> {
    let (numeral, possessive) = match text.str(at).strip_suffix("'s") {
        Some(numeral) => (numeral, "'s"),
        None => (text.str(at), ""),
    };
    let value = value(numeral)?;
    if text.shouted() || !text.is_space(at.checked_sub(1)?) {
        return None;
    }
    let before = text.before(at)?;
    let name = text.lower(before)?;
    let single = numeral.len() == 1;
    if !text.is_capitalised(before) || (single && !listed(COUNTED, &name)) {
        return None;
    }
    let words = number::cardinal(&value.to_string());
    if listed(RULERS, &name) {
        return Some(Reading::new(
            format!("the {}{possessive}", number::ordinal_of(&words)),
            at + 1,
        ));
    }
    Some(Reading::new(format!("{words}{possessive}"), at + 1))
}

/// The value of a well-formed numeral below forty.
fn value(roman: &str) -> Option<usize> {
    static ONES: [&str; 10] = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"];
    if roman.is_empty() || roman.len() > 7 {
        return None;
    }
    let ones_at = roman.find(|c| c != 'X').unwrap_or(roman.len());
    // "IX" has its X at the end, so only leading ones count as tens.
    let ones = ONES.iter().position(|&ones| ones == &roman[ones_at..])?;
    (ones_at <= 3).then_some(ones_at * 10 + ones)
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn only_well_formed_numerals_have_a_value() {
        for (roman, expected) in [
            ("I", Some(1)),
            ("IV", Some(4)),
            ("IX", Some(9)),
            ("XIV", Some(14)),
            ("XXXIX", Some(39)),
            ("XX", Some(20)),
        ] {
            assert_eq!(value(roman), expected, "{roman}");
        }
        for roman in ["", "IIII", "VX", "IC", "MIX", "CIVIL", "XXXX", "ii", "IXI"] {
            assert_eq!(value(roman), None, "{roman}");
        }
    }
}
