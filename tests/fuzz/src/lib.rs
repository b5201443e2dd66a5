//! What every fuzz target is: a parser that must return, whatever it reads.

pub use libfuzzer_sys::fuzz_target;
pub use omni_tests::parsers::{Parser, parser_named};

/// Where inputs that are right are put, for the search to begin with.
const SEEDS: &str = "OMNI_FUZZ_SEEDS";

/// Writes the inputs that are right, on request.
pub fn sow(parser: &Parser) {
    let Some(directory) = std::env::var_os(SEEDS) else {
        return;
    };
    for (number, seed) in (parser.seeds)().into_iter().enumerate() {
        let path = std::path::Path::new(&directory).join(format!("seed-{number}"));
        std::fs::write(path, seed).expect("the folder of the corpus can be written");
    }
}

/// The target of the parser with this name.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        static PARSER: std::sync::LazyLock<$crate::Parser> = std::sync::LazyLock::new(|| $crate::parser_named($name));
        $crate::fuzz_target!(init: $crate::sow(&PARSER), |data: &[u8]| { (PARSER.parse)(data) });
    };
}
