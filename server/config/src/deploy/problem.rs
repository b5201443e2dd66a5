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
    let near = known.map(|known| (distance(word, known), known));
    near.filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, known)| known)
}

/// Letters to insert, remove or replace to get from one word to the other (Levenshtein distance).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let replace = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
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

    #[test]
    fn distances_are_those_of_levenshtein() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
