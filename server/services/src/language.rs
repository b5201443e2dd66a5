//! Names of languages as callers write them, compared with a model's.
//!
//! A model's languages are BCP-47 tags. Callers write tags of any width (`en-US`, `zh-Hans-CN`), the forms of POSIX (`pt_BR`), codes of
//! three letters (`cmn`, `deu`) and English names, as vLLM-Omni's clients do (`Chinese`).

/// A language: its shortest code, its codes of three letters (ISO 639-3, and 639-2's where that is another), its English name.
const KNOWN: [(&str, &[&str], &str); 13] = [
    ("ar", &["ara", "arb"], "arabic"),
    ("de", &["deu", "ger"], "german"),
    ("en", &["eng"], "english"),
    ("es", &["spa"], "spanish"),
    ("fr", &["fra", "fre"], "french"),
    ("hi", &["hin"], "hindi"),
    ("it", &["ita"], "italian"),
    ("ja", &["jpn"], "japanese"),
    ("ko", &["kor"], "korean"),
    ("pt", &["por"], "portuguese"),
    ("ru", &["rus"], "russian"),
    // A tag of Chinese stands for Mandarin unless it names another language.
    ("zh", &["cmn", "zho", "chi"], "chinese"),
    ("yue", &[], "cantonese"),
];
/// Languages of the aligner: those whose letters it knows, or whose characters are syllables. Other scripts leave too
/// much unwritten.
const ALIGNED: [&str; 11] = ["de", "en", "es", "fr", "it", "ja", "ko", "pt", "ru", "yue", "zh"];
/// Length of a subtag that names a language within a macrolanguage: `zh-yue`.
const EXTENDED: usize = 3;

/// Returns true if `asked` is the model's language `spoken`, or a narrower or a wider form of it: "en" and "en-US",
/// not "en-GB" and "en-US".
pub(super) fn same(asked: &str, spoken: &str) -> bool {
    subtags(asked).zip(subtags(spoken)).all(|(a, b)| a == b)
}

/// Returns true if both are of one language, in any regions and scripts: "en-GB" and "en-US".
pub(super) fn related(asked: &str, spoken: &str) -> bool {
    subtags(asked).next() == subtags(spoken).next()
}

/// Returns true if there are word times in a language.
pub(super) fn is_aligned(spoken: &str) -> bool {
    subtags(spoken)
        .next()
        .is_some_and(|code| ALIGNED.contains(&code.as_str()))
}

/// Those of `languages` in which there are word times.
pub(super) fn aligned_of(languages: &[String]) -> Vec<String> {
    let aligned = languages.iter().filter(|language| is_aligned(language));
    aligned.cloned().collect()
}

/// Parts of a tag, the language's shortest code first, in small letters.
fn subtags(tag: &str) -> impl Iterator<Item = String> {
    let tag = tag.trim().to_lowercase();
    let mut parts: Vec<String> = tag.split(['-', '_']).map(str::to_owned).collect();
    let extends = parts
        .get(1)
        .is_some_and(|part| part.len() == EXTENDED && part.bytes().all(|b| b.is_ascii_alphabetic()));
    if extends {
        parts.remove(0);
    }
    let first = parts[0].as_str();
    let known = KNOWN
        .iter()
        .find(|(code, codes, name)| *code == first || codes.contains(&first) || *name == first);
    if let Some((code, ..)) = known {
        parts[0] = (*code).to_owned();
    }
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_any_width_codes_and_names_mean_their_language() {
        for (asked, spoken) in [
            ("en-US", "en"),
            ("EN", "en-US"),
            ("en_US", "en-us"),
            ("eng", "en"),
            ("English", "en"),
            ("zh", "zh"),
            ("zh-CN", "zh"),
            ("zh-Hans-CN", "zh"),
            ("cmn-CN", "zh"),
            ("zh-cmn-Hant-TW", "zh"),
            ("Chinese", "zh"),
            ("pt-BR", "pt"),
            ("por", "pt"),
            ("ger", "de"),
            ("es-419", "es"),
            ("sl-rozaj", "sl"),
        ] {
            assert!(same(asked, spoken), "{asked} is {spoken}");
            assert!(same(spoken, asked), "{spoken} is {asked}");
        }
    }

    #[test]
    fn word_times_are_offered_in_the_languages_of_published_checkpoints_and_not_in_all() {
        for language in ["zh", "en-US", "de", "it", "pt-BR", "es", "ja", "ko", "fr", "ru"] {
            assert!(is_aligned(language), "{language}");
        }
        for language in ["ar", "hi", "th"] {
            assert!(!is_aligned(language), "{language}");
        }
    }

    #[test]
    fn regions_of_one_language_are_related() {
        for (asked, spoken, expected) in [
            ("en-GB", "en-US", true),
            ("english-AU", "en-US", true),
            ("pt_PT", "pt-BR", true),
            ("zh-TW", "zh-CN", true),
            ("zh-yue", "zh-CN", false),
            ("nl", "de", false),
            ("", "en", false),
        ] {
            assert_eq!(related(asked, spoken), expected, "{asked} and {spoken}");
        }
    }

    #[test]
    fn other_languages_and_other_regions_are_told_apart() {
        for (asked, spoken) in [
            ("en-GB", "en-US"),
            ("nl", "de"),
            ("yue", "zh"),
            ("zh-yue", "zh"),
            ("e", "en"),
            ("engl", "en"),
            ("", "en"),
            ("-", "en"),
        ] {
            assert!(!same(asked, spoken), "{asked} is not {spoken}");
        }
    }
}
