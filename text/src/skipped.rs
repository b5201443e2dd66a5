//! The record of characters that a voice cannot speak. Bounded: a text of a million emoji makes a short warning.

use std::fmt;

/// Distinct characters named in one record; the rest are only counted.
const MAX_NAMED: usize = 16;

/// Characters that were left out, each named once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    named: Vec<(char, usize)>,
    total: usize,
}

impl Skipped {
    /// True if nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The number of characters that were left out.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The first distinct characters that were left out, in order of appearance, and how often each was.
    pub fn characters(&self) -> &[(char, usize)] {
        &self.named
    }

    pub(crate) fn add(&mut self, c: char) {
        self.add_times(c, 1);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let named: usize = other.named.iter().map(|&(_, n)| n).sum();
        for &(c, n) in &other.named {
            self.add_times(c, n);
        }
        self.total += other.total - named;
    }

    fn add_times(&mut self, c: char, times: usize) {
        self.total += times;
        if let Some((_, n)) = self.named.iter_mut().find(|(known, _)| *known == c) {
            *n += times;
        } else if self.named.len() < MAX_NAMED {
            self.named.push((c, times));
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.total == 1 { "" } else { "s" };
        write!(
            f,
            "skipped {} character{plural} that the voice cannot speak:",
            self.total
        )?;
        for (i, (c, n)) in self.named.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma} U+{:04X}", u32::from(*c))?;
            if *n > 1 {
                write!(f, " ({n} times)")?;
            }
        }
        let named: usize = self.named.iter().map(|&(_, n)| n).sum();
        if self.total > named {
            write!(f, " and others")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_character_once_with_its_count() {
        let mut skipped = Skipped::default();
        "😀a😀".chars().for_each(|c| skipped.add(c));
        assert_eq!(
            skipped.to_string(),
            "skipped 3 characters that the voice cannot speak: U+1F600 (2 times), U+0061"
        );
    }

    #[test]
    fn is_bounded_and_merges_without_losing_the_count() {
        let mut a = Skipped::default();
        ('\u{4e00}'..'\u{4f00}').for_each(|c| a.add(c));
        let mut b = a.clone();
        b.merge(&a);
        assert_eq!(b.total(), 512);
        assert_eq!(b.characters().len(), MAX_NAMED);
        assert!(b.to_string().ends_with("and others"));
    }
}
