//! Writes what is derived from `telemetry/catalogue.yaml`: the typed families and `docs/metrics.md`.

use std::fs;
use std::path::Path;

use omni_telemetry::{Catalogue, families_source};

fn main() -> std::io::Result<()> {
    let telemetry = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(telemetry.join("catalogue.yaml"))?;
    let catalogue = Catalogue::parse(&text).map_err(std::io::Error::other)?;
    fs::write(
        telemetry.join("src/generated/families.rs"),
        families_source(&catalogue),
    )?;
    fs::write(telemetry.join("../docs/metrics.md"), catalogue.to_markdown())
}
