//! Inputs that are nearly right.

use crate::dice::Dice;

/// Random mutations of valid inputs, equal for equal seeds.
#[derive(Debug)]
pub struct Mutations {
    seeds: Vec<Vec<u8>>,
    dice: Dice,
}

/// Bytes that mean something to many parsers.
const WORDS: [&[u8]; 22] = [
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\0\0\0\x80",
    b"{",
    b"}",
    b"[[[[[[[[",
    b"\"",
    b":",
    b",",
    b"-1",
    b"1e999",
    b"18446744073709551615",
    b"null",
    b"NaN",
    b"\n",
    b"  ",
    b"&a *a",
    b"\xf0\x9f\x98\x80",
    b"RIFF",
    b"OggS",
    b"data",
];
const MOST_CHANGES: u64 = 6;
const LONGEST: usize = 1 << 16;

impl Mutations {
    /// Mutations of `seeds`.
    pub fn new(seeds: Vec<Vec<u8>>, seed: u64) -> Self {
        Self {
            seeds,
            dice: Dice::new(seed),
        }
    }

    /// The next input.
    pub fn input(&mut self) -> Vec<u8> {
        if self.seeds.is_empty() || self.dice.one_in(32) {
            let length = self.dice.below(300) as usize;
            return self.dice.bytes(length);
        }
        let mut input = self.seeds[self.dice.place(self.seeds.len())].clone();
        for _ in 0..self.dice.below(MOST_CHANGES) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let dice = &mut self.dice;
        let at = dice.below(input.len() as u64 + 1) as usize;
        let rest = input.len() - at;
        let some = dice.below(rest.min(64) as u64 + 1) as usize;
        match dice.below(7) {
            0 => input.truncate(at),
            1 => _ = input.drain(at..at + some),
            2 => {
                let word = dice.of(&WORDS);
                input.splice(at..at, word.iter().copied());
            }
            3 => {
                let word = dice.of(&WORDS);
                input.splice(at..at + some.min(word.len()), word.iter().copied());
            }
            4 => {
                let copy = input[at..at + some].to_vec();
                input.splice(at..at, copy);
            }
            5 => {
                let other = &self.seeds[dice.place(self.seeds.len())];
                let from = dice.below(other.len() as u64 + 1) as usize;
                let to = (from + 64).min(other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
}
