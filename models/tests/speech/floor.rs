//! Checks the counts of the published model against its known figures.

use std::path::Path;

use omni_models::{CheckpointSource, CountedFloor, DType, counted_floor};

fn floor(name: &str) -> CountedFloor {
    let source = CheckpointSource::Random(name.parse().expect("a name"));
    counted_floor(source, DType::Bf16).expect("it can be counted")
}

/// The vision tower, which is not used here, from its published configuration: depth 27, width 1152, inner width
/// 4304, patches of 3 channels, 2 frames and 16 by 16 pixels, 2304 places, and four mergers of 2 by 2 patches to 2048.
fn vision() -> u64 {
    let width = 1152;
    let inner = 4304;
    let out = 2048;
    let layer = 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width;
    let merger = |norm: u64| 2 * norm + (4 * width) * (4 * width) + 4 * width + 4 * width * out + out;
    let patches = 3 * 2 * 16 * 16 * width + width + 2304 * width;
    27 * layer + patches + merger(width) + 3 * merger(4 * width)
}

#[test]
fn the_published_shapes_have_the_published_number_of_parameters() {
    let floor = floor("random:qwen3-omni-30b-a3b");
    let thinker = floor.thinker.as_ref().expect("a thinker");
    let encoder = floor.audio_encoder.as_ref().expect("an audio encoder");
    let stages = [thinker, encoder, &floor.talker, &floor.predictor, &floor.code2wav];
    let all: u64 = stages.iter().map(|stage| stage.parameters).sum();
    assert_eq!(all + vision(), 35_259_818_545);
    let gigabytes = stages.map(|stage| stage.bytes as f64 / 1e9);
    for (found, published) in gigabytes.into_iter().zip([61.1, 1.30, 6.37, 0.283, 0.432]) {
        assert!((found / published - 1.0).abs() < 0.005, "{gigabytes:?}");
    }
}

#[test]
fn a_step_alone_reads_what_is_known_of_the_published_model() {
    let floor = floor("random:qwen3-omni-30b-a3b");
    let thinker = floor.thinker.expect("a thinker");
    for (what, stage, bytes, kv) in [
        ("thinker", &thinker, 6.08e9, 96),
        ("talker", &floor.talker, 0.578e9, 20),
        ("predictor", &floor.predictor, 2.42e9, 20),
        ("code2wav", &floor.code2wav, 0.365e9, 32),
    ] {
        let found = stage.step_bytes(1);
        assert!((found / bytes - 1.0).abs() < 0.002, "{what}: {found} bytes");
        assert_eq!(stage.kv_position_bytes, kv << 10, "{what}");
    }
}

/// Known operations: 327 billion for 64 frames of the published vocoder, with attention; two per number read for a
/// token; 2.58 billion for a frame of the predictor, in which sixteen rows pass the layers in fifteen passes.
#[test]
fn products_have_the_operations_that_are_known_of_them() {
    let floor = floor("random:qwen3-omni-30b-a3b");
    let frames = floor.code2wav.step_operations(64) / 1e9;
    assert!((frames / 327.0 - 1.0).abs() < 0.02, "{frames}");
    let talker = floor.talker.step_operations(1) / floor.talker.step_bytes(1);
    assert!((talker - 1.0).abs() < 1e-9, "{talker}");
    let predictor = floor.predictor.step_operations(1) / 1e9;
    assert!((predictor / 2.58 - 1.0).abs() < 0.005, "{predictor}");
    // One row more than passes, through 78.7 million parameters of the layers.
    let more = (floor.predictor.step_operations(1) - floor.predictor.step_bytes(1)) / 2e6;
    assert!((more / 78.7 - 1.0).abs() < 0.001, "{more}");
}

#[test]
fn more_rows_read_more_experts_and_never_more_than_there_are() {
    let floor = floor("random:qwen3-omni-30b-a3b");
    let thinker = floor.thinker.expect("a thinker");
    let rows = [1, 4, 8, 16, 32, 64];
    for (stage, known) in [
        (&thinker, [6.1, 15.7, 25.8, 39.8, 53.1, 59.5]),
        (&floor.talker, [0.58, 1.35, 2.2, 3.5, 5.0, 6.1]),
    ] {
        for (rows, known) in rows.into_iter().zip(known) {
            let found = stage.step_bytes(rows) / 1e9;
            assert!(
                (found / known - 1.0).abs() < 0.02,
                "{rows} rows: {found} GB, {known} are known"
            );
        }
        assert!(stage.step_bytes(1_000_000) <= stage.bytes as f64);
    }
    assert_eq!(floor.predictor.step_bytes(1), floor.predictor.step_bytes(64));
}

#[test]
fn the_part_that_speaks_has_no_thinker_and_the_same_steps() {
    let all = floor("random:qwen3-omni-30b-a3b");
    let speech = floor("random:qwen3-omni-30b-a3b-speech");
    assert_eq!((speech.thinker, speech.audio_encoder), (None, None));
    assert_eq!(
        (speech.talker, speech.predictor, speech.code2wav),
        (all.talker, all.predictor, all.code2wav)
    );
}

#[test]
fn the_embedded_shapes_are_those_of_the_embedded_checkpoint() {
    let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("../embedded/checkpoint");
    for dtype in [DType::F32, DType::Bf16] {
        let random = CheckpointSource::Random("random:embedded".parse().expect("a name"));
        let real =
            counted_floor(CheckpointSource::Dir(checkpoint.clone()), dtype).expect("it can be counted");
        assert_eq!(counted_floor(random, dtype), Ok(real));
    }
}
