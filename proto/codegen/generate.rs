//! Compiles the .proto files to Rust and to a descriptor set, without an installed protoc.
//!
//! Shared by the example that rewrites the committed files and by the test that notices when they are stale.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

const FILES: [&str; 11] = [
    "omni/v1/common.proto",
    "omni/v1/audio.proto",
    "omni/v1/speech.proto",
    "omni/v1/chat.proto",
    "omni/v1/catalog.proto",
    "omni/v1/voice.proto",
    "omni/v1/metrics.proto",
    "omni/v1/admin.proto",
    "omni/v1/watch.proto",
    "riva/audio.proto",
    "riva/tts.proto",
];

/// Between the processes of one server. Apart from the others, so that reflection does not offer it to callers.
const STAGE: &str = "omni/stage/v1/stage.proto";

/// Generated files that belong in the repository.
pub(crate) const OUTPUTS: [&str; 5] = [
    "omni.v1.rs",
    "omni.v1.fds",
    "nvidia.riva.rs",
    "nvidia.riva.tts.rs",
    "omni.stage.v1.rs",
];

/// Writes [`OUTPUTS`] into `out`.
///
/// # Errors
/// If a .proto file does not compile or `out` cannot be written.
pub(crate) fn generate(out: &Path) -> anyhow::Result<()> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let mut compiler = protox::Compiler::new([&include])?;
    compiler.include_imports(true).open_files(FILES)?;

    // Reflection answers from this set; comments would only make it larger.
    let descriptors = compiler.include_source_info(false).encode_file_descriptor_set();
    fs::write(out.join("omni.v1.fds"), descriptors).context("cannot write the descriptor set")?;

    let commented = compiler.include_source_info(true).file_descriptor_set();
    tonic_prost_build::configure()
        .out_dir(out)
        .bytes(".omni.v1.AudioChunk.data")
        .bytes(".omni.v1.InputAudio.data")
        .bytes(".omni.v1.AudioClip.data")
        .bytes(".omni.v1.VoiceRecording.audio")
        .bytes(".nvidia.riva.tts.SynthesizeSpeechResponse.audio")
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .emit_rerun_if_changed(false)
        .compile_fds(commented)
        .context("cannot generate Rust code")?;
    let mut stage = protox::Compiler::new([&include])?;
    stage.include_source_info(true).open_file(STAGE)?;
    tonic_prost_build::configure()
        .out_dir(out)
        .emit_rerun_if_changed(false)
        .compile_fds(stage.file_descriptor_set())
        .context("cannot generate Rust code of stages")
}
