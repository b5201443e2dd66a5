//! Writes a random checkpoint as files: `write_random random:qwen3-tts-0.6b DIR`.
//!
//! It has as many bytes and the same formats as the published checkpoint of these shapes, so it measures the cost of
//! loading that one.
#![expect(clippy::print_stdout, reason = "says what was written")]

use std::path::PathBuf;

use omni_models::RandomModel;
use omni_models::testing::write_random;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(dir)) = (arguments.next(), arguments.next()) else {
        return Err("expected: write_random random:NAME DIR".into());
    };
    let model = name.parse::<RandomModel>()?;
    let dir = PathBuf::from(dir);
    write_random(model, &dir)?;
    println!("{model} is in {}", dir.display());
    Ok(())
}
