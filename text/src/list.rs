//! Lists of words, which are written as one string.

/// True if `word` is one of the words that `list` names with white space between.
pub(crate) fn listed(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}
