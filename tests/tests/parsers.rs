//! Whatever reads bytes from outside returns, whatever the bytes are. `make fuzz` looks for longer, and finds its way.
//!
//! `OMNI_INPUTS` sets how many inputs a parser gets (4,000 unless set, fewer where one takes long), and `OMNI_INPUTS_SEED` which.

use std::panic::{AssertUnwindSafe, catch_unwind};

use omni_tests::parsers::{Mutations, PARSERS, Parser};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |number| number.parse().expect("a number"))
}

/// The first input at which a parser breaks a rule.
fn broken_by(parser: &Parser) -> Option<String> {
    let inputs = number("OMNI_INPUTS", 4_000) as usize;
    let mut mutations = Mutations::new((parser.seeds)(), number("OMNI_INPUTS_SEED", 1));
    for seed in (parser.seeds)() {
        (parser.parse)(&seed);
    }
    for number in 0..inputs / parser.cost {
        let input = mutations.input();
        if catch_unwind(AssertUnwindSafe(|| (parser.parse)(&input))).is_err() {
            return Some(format!(
                "{}, input {number}: {:?}",
                parser.name,
                input.escape_ascii().to_string()
            ));
        }
    }
    None
}

#[test]
fn every_parser_takes_whatever_is_nearly_right() {
    let broken: Vec<_> = std::thread::scope(|scope| {
        let threads = PARSERS.each_ref().map(|parser| scope.spawn(|| broken_by(parser)));
        threads
            .into_iter()
            .filter_map(|thread| thread.join().expect("seeds are right"))
            .collect()
    });
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
