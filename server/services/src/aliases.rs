//! Aliases: other names of the model, and OpenAI's names of voices. Clients that know no others get speech by them:
//! each name of a voice stands for one of the model's voices.

use omni_family::{SpeechInfo, Terms};

/// The names that OpenAI's clients accept.
const NAMES: [&str; 13] = [
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer",
    "verse",
];

/// Index of the voice, of `voices`, that a name of OpenAI's stands for.
pub(super) fn meant(name: &str, voices: usize) -> Option<usize> {
    let place = NAMES.iter().position(|own| own.eq_ignore_ascii_case(name))?;
    place.checked_rem(voices)
}

/// Names that stand for voice `index` of `voices`.
pub(super) fn of(index: usize, voices: usize) -> Vec<String> {
    let mine = NAMES.iter().filter(|name| meant(name, voices) == Some(index));
    mine.map(|name| (*name).to_owned()).collect()
}

/// Listed names of the model: patterns stand for too many names.
pub(super) fn listed(terms: &Terms) -> impl Iterator<Item = &String> {
    terms.aliases.iter().filter(|alias| !is_kind(alias))
}

/// Returns true if a request for a model of this name is for the one that is served.
pub(super) fn is_model(name: &str, info: &SpeechInfo) -> bool {
    let Terms { aliases, hears, .. } = &info.terms;
    let name_is = |alias: &String| {
        if is_kind(alias) {
            matches(alias.as_bytes(), name.as_bytes()) && (alias == ANY || does(name, *hears))
        } else {
            alias.eq_ignore_ascii_case(name)
        }
    };
    name.is_empty() || name == info.id || aliases.iter().any(name_is)
}

/// The pattern that matches all names.
const ANY: &str = "*";

fn is_kind(alias: &str) -> bool {
    alias.contains(['*', '?'])
}

/// Returns true if a model of this name has the abilities of the one served. A pattern matches models that speak and
/// converse, transcription models, and models for other purposes.
fn does(name: &str, hears: bool) -> bool {
    let words = name.split(['-', '_', '.']);
    words
        .map(str::to_ascii_lowercase)
        .all(|word| match word.as_str() {
            "whisper" | "transcribe" => hears,
            "image" | "embedding" | "moderation" => false,
            _ => true,
        })
}

/// Returns true if a name matches a pattern, in any case.
fn matches(kind: &[u8], name: &[u8]) -> bool {
    let mut place = 0;
    let mut read = 0;
    // Position behind the last star, and the place in the name from which it was tried.
    let mut star = None;
    while let Some(c) = name.get(read) {
        match (kind.get(place), star) {
            (Some(b'*'), _) => {
                place += 1;
                star = Some((place, read));
            }
            (Some(expected), _) if *expected == b'?' || expected.eq_ignore_ascii_case(c) => {
                place += 1;
                read += 1;
            }
            (_, Some((behind, from))) => {
                place = behind;
                read = from + 1;
                star = Some((behind, read));
            }
            (_, None) => return false,
        }
    }
    kind[place..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_any_characters_where_its_stars_are() {
        for (kind, name, expected) in [
            ("gpt-*", "gpt-realtime-2.1-mini", true),
            ("gpt-*", "GPT-9", true),
            ("gpt-*", "gpt-", true),
            ("gpt-*", "gpt", false),
            ("gpt-*", "chatgpt-4o-latest", false),
            ("*-preview", "gpt-4o-preview", true),
            ("*-preview", "preview", false),
            ("o?", "o3", true),
            ("o?", "o", false),
            ("o?", "o35", false),
            ("o?-*", "o4-mini", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbY", false),
            ("*", "", true),
        ] {
            assert_eq!(
                matches(kind.as_bytes(), name.as_bytes()),
                expected,
                "{kind} of {name}"
            );
        }
    }

    #[test]
    fn names_of_models_that_do_something_else_are_of_no_kind() {
        for (name, deaf, hearing) in [
            ("gpt-4o", true, true),
            ("gpt-4o-transcribe", false, true),
            ("gpt-4o-mini-transcribe-2025-12-15", false, true),
            ("whisper-1", false, true),
            ("gpt-image-1", false, false),
        ] {
            assert_eq!((does(name, false), does(name, true)), (deaf, hearing), "{name}");
        }
    }

    #[test]
    fn every_name_means_one_voice_and_is_listed_there() {
        for voices in 1..20 {
            let listed: Vec<_> = (0..voices).flat_map(|index| of(index, voices)).collect();
            assert_eq!(listed.len(), NAMES.len());
        }
        assert_eq!(meant("Alloy", 2), Some(0));
        assert_eq!(meant("somebody", 2), None);
        assert_eq!(meant("alloy", 0), None);
    }
}
