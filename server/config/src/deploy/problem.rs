//! A problem of a configuration: its place, and the accepted values.

use omni_yaml::{Place, Problem};

/// The place of a `--set`.
pub(super) fn flag(text: &str) -> Place {
    Place::of(&format!("--set {text}"))
}

/// A problem of the setting `path`, which is empty for one of a whole file.
pub(super) fn problem(place: &Place, path: &str, message: impl Into<String>) -> Problem {
    let message = message.into();
    Problem {
        place: place.clone(),
        message: if path.is_empty() {
            message
        } else {
            format!("{path}: {message}")
        },
    }
}

/// The word of `known` that was probably meant by `word`, if one is near.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    let near = known.map(|known| (strsim::levenshtein(word, known), known));
    near.filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_a_far_one_is_not() {
        let known = ["replicas", "devices", "routing"];
        assert_eq!(nearest("replica", known.into_iter()), Some("replicas"));
        assert_eq!(nearest("device", known.into_iter()), Some("devices"));
        assert_eq!(nearest("temperature", known.into_iter()), None);
    }
}
