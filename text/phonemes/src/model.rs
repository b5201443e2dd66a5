//! Letters to sounds by a joint n-gram over pairs of letters and phonemes.
//!
//! A word is a path of pairs, each of one or two letters and up to two phonemes; a beam search finds the likeliest path with at most
//! one primary stress. The n-grams are a trie: a node stands for a sequence of pairs, its children for what may follow.
//!
//! `data/english.bin`, which `train.py` makes, is `OMNIG2P1` and three parts: the American model, the British model, words. A part
//! is two little-endian u32 (bytes when unpacked, bytes when packed) and a zlib stream. A model is a table of pairs (its length, then
//! `letters<TAB>phonemes` lines), the order, and for every order columns, each with its length before it: for every node of the
//! order before its number of children; for every node the difference of its pair from its sibling's, less one; its chance; and,
//! but for the last order, its backoff weight. Numbers are LEB128; chances are bytes, -ln p in eighths, weights as well, plus 128.
//! Pairs count from 2: 0 is the beginning of a word, 1 its end. Words are in order, a line each: the number of letters shared with
//! the word before (as a letter, `a` for none), the other letters, a tab and the phonemes.

use std::collections::HashMap;
use std::io::Read;

const FILE: &[u8] = include_bytes!("../data/english.bin");

/// Paths that are followed at once.
const BEAM: usize = 24;
/// Letters of a word that are read at once; those of a longer word, piece by piece.
const PIECE: usize = 32;
const START: u16 = 0;
const END: u16 = 1;
/// Costs of a path without primary stress.
const UNSTRESSED: f32 = 3.0;

/// A part of the file: 0 and 1 are models, 2 is words. Empty if the file is damaged, which a test excludes.
fn part(index: usize) -> Vec<u8> {
    let mut rest = &FILE[8..];
    let mut unpacked = Vec::new();
    for at in 0..=index {
        let (Some((_, after)), Some(packed)) = (rest.split_at_checked(4), rest.get(4..8)) else {
            return unpacked;
        };
        let size = packed.try_into().map_or(0, u32::from_le_bytes) as usize;
        let (stream, more) = after[4..].split_at(size.min(after.len() - 4));
        if at == index {
            // What is not read is not there.
            let _ = flate2::read::ZlibDecoder::new(stream).read_to_end(&mut unpacked);
        }
        rest = more;
    }
    unpacked
}

/// The words of CMUdict that no other lexicon has, and their phonemes.
pub(crate) fn words() -> HashMap<String, String> {
    let text = String::from_utf8(part(2)).unwrap_or_default();
    let mut words = HashMap::new();
    let mut last = String::new();
    for line in text.lines() {
        let Some((word, phonemes)) = line.split_once('\t') else {
            continue;
        };
        let shared = usize::from(word.as_bytes()[0] - b'a');
        last.truncate(shared);
        last.push_str(&word[1..]);
        words.insert(last.clone(), phonemes.to_owned());
    }
    words
}

/// The nodes of one order, in the order of their parents.
#[derive(Debug, Default)]
struct Level {
    /// The first child in the next order of every node, and one past the last.
    children: Vec<u32>,
    pairs: Vec<u16>,
    costs: Vec<f32>,
    backoffs: Vec<f32>,
}

#[derive(Debug)]
struct Pair {
    phonemes: String,
    stresses: usize,
}

/// A model of one accent.
#[derive(Debug)]
pub(crate) struct Model {
    /// The node of no pairs first.
    levels: Vec<Level>,
    pairs: Vec<Pair>,
    by_letters: HashMap<String, Vec<u16>>,
}

/// A path, linked to the one that it continues.
#[derive(Debug, Clone, Copy)]
struct Path {
    cost: f32,
    stressed: bool,
    pair: u16,
    before: Option<usize>,
}

/// The nodes of the last pairs of a path, by how many pairs that are.
type Contexts = Vec<Option<u32>>;

struct Columns<'a>(&'a [u8]);

impl<'a> Columns<'a> {
    fn number(&mut self) -> usize {
        let mut value = 0;
        for shift in (0..28).step_by(7) {
            let Some((&byte, rest)) = self.0.split_first() else {
                break;
            };
            self.0 = rest;
            value |= usize::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        value
    }

    fn column(&mut self) -> &'a [u8] {
        let size = self.number().min(self.0.len());
        let (column, rest) = self.0.split_at(size);
        self.0 = rest;
        column
    }
}

impl Model {
    pub(crate) fn american() -> Self {
        Self::read(&part(0))
    }

    pub(crate) fn british() -> Self {
        Self::read(&part(1))
    }

    fn read(bytes: &[u8]) -> Self {
        let mut columns = Columns(bytes);
        let table = String::from_utf8_lossy(columns.column()).into_owned();
        let mut pairs = Vec::new();
        let mut by_letters: HashMap<String, Vec<u16>> = HashMap::new();
        for (number, line) in (END + 1..).zip(table.lines()) {
            let (letters, phonemes) = line.split_once('\t').unwrap_or((line, ""));
            by_letters.entry(letters.to_owned()).or_default().push(number);
            pairs.push(Pair {
                phonemes: phonemes.to_owned(),
                stresses: phonemes.matches('ˈ').count(),
            });
        }
        let order = columns.number();
        let mut levels = vec![Level {
            backoffs: vec![0.0],
            ..Level::default()
        }];
        for at in 1..=order {
            let mut degrees = Columns(columns.column());
            let mut symbols = Columns(columns.column());
            let cost = |&byte: &u8| f32::from(byte) / 8.0;
            let costs: Vec<f32> = columns.column().iter().map(cost).collect();
            let backoffs = if at < order { columns.column() } else { &[] };
            let above = &mut levels[at - 1];
            let nodes = above.pairs.len().max(usize::from(at == 1));
            let mut level = Level {
                backoffs: backoffs.iter().map(|byte| cost(byte) - 16.0).collect(),
                costs,
                ..Level::default()
            };
            for _ in 0..nodes {
                above.children.push(level.pairs.len() as u32);
                let mut next = 0;
                for _ in 0..degrees.number() {
                    next += symbols.number() + 1;
                    level.pairs.push((next - 1) as u16);
                }
            }
            above.children.push(level.pairs.len() as u32);
            levels.push(level);
        }
        Self {
            levels,
            pairs,
            by_letters,
        }
    }

    /// The child of a node by its pair; both are numbers within their orders.
    fn child(&self, order: usize, node: u32, pair: u16) -> Option<u32> {
        let children = &self.levels[order].children;
        let from = children[node as usize];
        let to = children[node as usize + 1];
        let found = self.levels[order + 1].pairs[from as usize..to as usize].binary_search(&pair);
        found.ok().map(|at| from + at as u32)
    }

    /// -ln of the chance of `pair` after the pairs that `contexts` stands for.
    fn cost(&self, contexts: &[Option<u32>], pair: u16) -> f32 {
        let mut cost = 0.0;
        for (order, node) in contexts.iter().enumerate().rev() {
            let Some(node) = *node else {
                continue;
            };
            if let Some(child) = self.child(order, node, pair) {
                return cost + self.levels[order + 1].costs[child as usize];
            }
            cost += self.levels[order].backoffs[node as usize];
        }
        cost + 20.0
    }

    /// The nodes after one more pair.
    fn follow(&self, contexts: &[Option<u32>], pair: u16) -> Contexts {
        let longest = self.levels.len() - 2;
        let longer = contexts.iter().enumerate().take(longest);
        let longer = longer.map(|(order, node)| node.and_then(|node| self.child(order, node, pair)));
        std::iter::once(Some(0)).chain(longer).collect()
    }

    /// The phonemes of a word of small letters `a` to `z` and apostrophes; other characters are silent.
    pub(crate) fn phonemes(&self, word: &str) -> String {
        let letters: Vec<char> = word
            .chars()
            .filter(|c| self.by_letters.contains_key(c.encode_utf8(&mut [0; 4])))
            .collect();
        letters.chunks(PIECE).map(|piece| self.piece(piece)).collect()
    }

    fn piece(&self, letters: &[char]) -> String {
        let mut waiting: Vec<Vec<Path>> = vec![Vec::new(); letters.len() + 1];
        waiting[0].push(Path {
            cost: 0.0,
            stressed: false,
            pair: START,
            before: None,
        });
        let mut done: Vec<(Path, Contexts)> = Vec::new();
        for at in 0..letters.len() {
            for path in best(std::mem::take(&mut waiting[at])) {
                let before = path.before.map(|before| &done[before].1);
                let contexts = self.follow(before.unwrap_or(&vec![Some(0)]), path.pair);
                for size in 1..=2.min(letters.len() - at) {
                    let key: String = letters[at..at + size].iter().collect();
                    for &pair in self.by_letters.get(&key).into_iter().flatten() {
                        let stresses = usize::from(path.stressed) + self.pair(pair).stresses;
                        if stresses <= 1 {
                            waiting[at + size].push(Path {
                                cost: path.cost + self.cost(&contexts, pair),
                                stressed: stresses == 1,
                                pair,
                                before: Some(done.len()),
                            });
                        }
                    }
                }
                done.push((path, contexts));
            }
        }
        let ends = best(waiting.pop().unwrap_or_default()).into_iter().map(|path| {
            let before = path.before.map(|before| self.follow(&done[before].1, path.pair));
            let unstressed = if path.stressed { 0.0 } else { UNSTRESSED };
            (
                path.cost + self.cost(&before.unwrap_or_default(), END) + unstressed,
                path,
            )
        });
        let mut path = ends.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, path)| path);
        let mut sounds = Vec::new();
        while let Some(Path {
            pair,
            before: Some(before),
            ..
        }) = path
        {
            sounds.push(self.pair(pair).phonemes.as_str());
            path = Some(done[before].0);
        }
        sounds.reverse();
        sounds.concat()
    }

    fn pair(&self, number: u16) -> &Pair {
        &self.pairs[usize::from(number - END - 1)]
    }
}

/// The likeliest paths.
fn best(mut paths: Vec<Path>) -> Vec<Path> {
    paths.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    paths.truncate(BEAM);
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_words_unpack() {
        for model in [Model::american(), Model::british()] {
            assert!(model.pairs.len() > 300, "{}", model.pairs.len());
            assert!(model.levels.len() > 5, "{}", model.levels.len());
            let children = model
                .levels
                .windows(2)
                .all(|pair| pair[0].children.last() == Some(&(pair[1].pairs.len() as u32)));
            assert!(children);
        }
        assert!(words().len() > 50_000);
    }

    #[test]
    fn words_that_no_lexicon_has_are_read() {
        let model = Model::american();
        assert_eq!(model.phonemes("blick"), "blˈɪk");
        assert_eq!(model.phonemes("splorf"), "splˈɔɹf");
        assert_eq!(model.phonemes(""), "");
        assert_eq!(model.phonemes("123"), "");
        let long = model.phonemes(&"banana".repeat(100));
        assert!(long.matches('n').count() > 150, "{long}");
    }
}
