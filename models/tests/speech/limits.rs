//! Limits that a model reports.

use omni_models::{DType, Kernels, TextSampling};

use crate::support::load;

#[test]
fn limits_come_from_the_config() {
    let model = load(Kernels::Auto, DType::F32);
    let limits = model.limits();
    assert_eq!(limits.voices, ["aiden", "chelsie", "ethan"]);
    assert_eq!((limits.sample_rate, limits.samples_per_frame), (24_000, 1920));
    assert_eq!(limits.first_frame_samples, 1365);
    assert!((limits.frame_rate - 12.5).abs() < 1e-9);
    assert_eq!(
        (limits.code_groups, limits.codebook_size, limits.text_vocab),
        (16, 64, 320)
    );
    assert_eq!(limits.max_positions, 4096);
}

#[test]
fn sampling_defaults_come_from_the_generation_config() {
    let model = load(Kernels::Auto, DType::F32);
    let defaults = model.defaults();
    assert_eq!(defaults.max_frames, 4096);
    assert_eq!((defaults.talker.top_k, defaults.predictor.top_k), (50, 50));
    assert_eq!(
        (defaults.max_tokens, defaults.thinker),
        (1024, TextSampling::default())
    );
    assert!(
        (defaults.talker.temperature - 0.9).abs() < 1e-6
            && (defaults.talker.repetition_penalty - 1.05).abs() < 1e-6
    );
    assert!(
        (defaults.predictor.top_p - 0.8).abs() < 1e-6 && (defaults.predictor.temperature - 1.0).abs() < 1e-6
    );
}

#[test]
fn a_user_turn_is_the_chat_form() {
    let model = load(Kernels::Auto, DType::F32);
    let by_name = model
        .tokenizer()
        .encode("<|im_start|>user\nread this<|im_end|>\n")
        .expect("text");
    assert_eq!(model.user_turn("read this").expect("text"), by_name);
}

#[test]
fn further_files_are_handed_out_as_they_are() {
    let model = load(Kernels::Auto, DType::F32);
    let preprocessor = model
        .file("preprocessor_config.json")
        .expect("readable")
        .expect("there");
    assert!(
        std::str::from_utf8(&preprocessor)
            .expect("text")
            .contains("feature_extractor_type")
    );
    assert!(model.file("omni.json").expect("readable").is_none());
}
