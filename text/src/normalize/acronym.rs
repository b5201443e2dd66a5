//! Reads one word: as it is, letter by letter, or as the words it is made of.

use crate::abbrev::{self, When};
use crate::list::listed;

/// Capitals that are read as words although they could be letters.
static WORDS: &str = "\
    AIDS ASAP ASCII BASIC BIOS CAPTCHA COBOL COVID DOS FAQ FIFA GIF JPEG JSON LAN LASER LIDAR MAC MIDI NASA NATO \
    NOAA OPEC OSHA PIN POSIX RADAR RAID RAM REST ROM SARS SCUBA SIM SONAR SWAT TOML UNESCO UNICEF WAN YAML ZIP CRUD \
    CUDA MOE";
/// Capitals with vowels that are read as letters although they are long enough to be words.
static LETTERS: &str = "\
    AARP ADHD ICBM IMDB IMEI IPTV ISDN OECD SSID UCLA UMTS UNHCR USAF USPS \
    ASIC AWS BBC CEO CIA DIY EDT ETA FBI HDMI IBM IEEE ISBN IETF NBA NSA OAuth UAE UEFI USSR YMCA IANA \
    AEDT AEST CEST TVOC UUID";
/// Short words that are ordinary ones even in capitals.
static ORDINARY: &str = "\
    AM AN AS AT BE BY DO GO HE IF IN IS IT ME MY NO OF ON OR SO TO UP WE OH AH HI ALL AND ANY ARE BAD BIG BUT BUY \
    CAN CAR CAT DAY DID DOG END FAR FEW FOR FUN GET GOD GOT GUY HAD HAS HER HIM HIS HOT HOW ITS JOB LET LOT LOW MAN \
    MAY MEN NEW NOT NOW OFF OLD ONE OUR OUT OWN PUT RED RUN SAY SEE SET SHE SIX SUN TEN THE TOO TOP TRY TWO USE WAR \
    WAS WAY WHO YOU";
/// Sounds without a vowel that are not letters in a row.
static SOUNDS: &str = "hm hmm hmmm mm mmm shh shhh sh psst pst brr grr pfft nth";
/// Words whose sound is not in their letters.
#[rustfmt::skip]
static SAID: [(&str, &str); 13] = [
    ("cmd", "command"), ("ctrl", "control"), ("vram", "v ram"), ("wwi", "world war one"), ("wwii", "world war two"),
    ("ok", "okay"), ("tsk", "tisk"), ("ios", "i o s"), ("ipv", "i p v"), ("hrs", "hours"), ("mins", "minutes"),
    ("secs", "seconds"), ("yrs", "years"),
];

/// The words that `word` is read as, in small letters. `shouted` says that capitals mean nothing here.
pub(super) fn reading(word: &str, shouted: bool) -> String {
    // "YoY", "IoT"
    if let [a, b, c] = word.as_bytes()
        && a.is_ascii_uppercase()
        && b.is_ascii_lowercase()
        && c.is_ascii_uppercase()
    {
        return spaced(&word.to_ascii_lowercase());
    }
    let parts = split_camel(word);
    let words: Vec<String> = parts.iter().map(|part| part_reading(part, shouted)).collect();
    words.join(" ")
}

fn part_reading(word: &str, shouted: bool) -> String {
    let (base, plural) = split_plural(word);
    let lower = base.to_ascii_lowercase();
    let letters = base.bytes().filter(u8::is_ascii_alphabetic).count();
    let said = SAID
        .iter()
        .find(|&&(written, _)| written == lower)
        .map(|&(_, said)| said);
    let said = said.or_else(|| {
        abbrev::find(&lower)
            .filter(|row| row.when == When::Always)
            .map(|row| row.words)
    });
    let spell = said.is_none() && letters == base.len() && letters > 1 && is_spelled(base, &lower, shouted);
    let text = match said {
        Some(said) => said.to_owned(),
        None if spell => spaced(&lower),
        None => lower,
    };
    match plural {
        Plural::No => text,
        Plural::Letter if !spell => format!("{text}s"),
        Plural::Letter | Plural::Apostrophe => format!("{text}'s"),
    }
}

/// Letters with spaces between them.
pub(super) fn spaced(letters: &str) -> String {
    let names: Vec<String> = letters.chars().map(String::from).collect();
    names.join(" ")
}

fn is_spelled(base: &str, lower: &str, shouted: bool) -> bool {
    if base.len() > 24 || listed(SOUNDS, lower) {
        return false;
    }
    let vowel = lower.bytes().any(|b| b"aeiouy".contains(&b));
    let capitals = base.bytes().all(|b| b.is_ascii_uppercase());
    if capitals && listed(WORDS, base) {
        return false;
    }
    if !vowel {
        return lower.len() <= 6 && !repeats(lower);
    }
    if !capitals || shouted {
        return false;
    }
    listed(LETTERS, base) || (base.len() <= 3 && !listed(ORDINARY, base))
}

fn repeats(word: &str) -> bool {
    word.len() > 2 && word != "www" && word.bytes().all(|b| Some(&b) == word.as_bytes().first())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plural {
    No,
    /// "GPUs"
    Letter,
    /// "IBM's"
    Apostrophe,
}

fn split_plural(word: &str) -> (&str, Plural) {
    if let Some(base) = word.strip_suffix("'s").or_else(|| word.strip_suffix("'S")) {
        return (base, Plural::Apostrophe);
    }
    match word.strip_suffix('s') {
        Some(base) if base.len() > 1 && base.bytes().all(|b| b.is_ascii_uppercase()) => {
            (base, Plural::Letter)
        }
        _ => (word, Plural::No),
    }
}

/// "camelCase" and "HTTPServer" as their parts. Names like "McDonald" and plurals like "GPUs" stay whole.
fn split_camel(word: &str) -> Vec<&str> {
    let bytes = word.as_bytes();
    let mut parts = Vec::new();
    let mut from = 0;
    for at in 1..bytes.len() {
        let before = bytes[at - 1];
        let here = bytes[at];
        let hump = before.is_ascii_lowercase() && here.is_ascii_uppercase();
        let after_capitals = before.is_ascii_uppercase()
            && here.is_ascii_uppercase()
            && at - from > 1
            && bytes[at + 1..].len() > 1
            && bytes[at + 1..at + 3].iter().all(u8::is_ascii_lowercase);
        if (hump && !matches!(&word[from..at], "Mc" | "Mac" | "Fitz")) || after_capitals {
            parts.push(&word[from..at]);
            from = at;
        }
    }
    parts.push(&word[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::reading;

    #[test]
    fn words_read_as_people_say_them() {
        for (word, said) in [
            ("hello", "hello"),
            ("Hello", "hello"),
            ("HTTP", "h t t p"),
            ("html", "h t m l"),
            ("NASA", "nasa"),
            ("API", "a p i"),
            ("APIs", "a p i's"),
            ("IBM's", "i b m's"),
            ("NASA's", "nasa's"),
            ("THE", "the"),
            ("HELLO", "hello"),
            ("OK", "okay"),
            ("hmm", "hmm"),
            ("zzz", "zzz"),
            ("www", "w w w"),
            ("camelCase", "camel case"),
            ("HTTPServer", "h t t p server"),
            ("OpenAI", "open a i"),
            ("McDonald", "mcdonald"),
            ("don't", "don't"),
            ("O'Brien", "o'brien"),
            ("I", "i"),
            ("JSON", "json"),
            ("RAM", "ram"),
            ("GPUs", "g p u's"),
            ("PhD", "p h d"),
        ] {
            assert_eq!(reading(word, false), said, "{word}");
        }
    }

    #[test]
    fn shouting_is_not_spelled() {
        assert_eq!(reading("EAT", true), "eat");
        assert_eq!(reading("HTTP", true), "h t t p");
    }
}
