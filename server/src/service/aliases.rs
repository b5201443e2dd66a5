//! OpenAI's names for voices. Clients that know no others get speech by them: each stands for one of the model's voices.

/// The names that OpenAI's clients accept.
const NAMES: [&str; 13] = [
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer",
    "verse",
];

/// Which of `voices` voices is meant by a name of OpenAI's.
pub(super) fn meant(name: &str, voices: usize) -> Option<usize> {
    let place = NAMES.iter().position(|own| own.eq_ignore_ascii_case(name))?;
    place.checked_rem(voices)
}

/// The names that mean voice `index` of `voices`.
pub(super) fn of(index: usize, voices: usize) -> Vec<String> {
    let mine = NAMES.iter().filter(|name| meant(name, voices) == Some(index));
    mine.map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
