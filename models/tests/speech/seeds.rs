//! Same seed, same speech; another seed, another speech.

use omni_models::{DType, Kernels};

use crate::support::{kv, load, sampled, speak};

#[test]
fn a_seed_fixes_the_codes() {
    let model = load(Kernels::Auto, DType::F32);
    let mut talker = model.talker(kv()).expect("a talker");
    let text: Vec<u32> = (40..52).collect();
    let mut speak = |seed| speak(&mut talker, 1, sampled(seed, 12), &text);
    let first = speak(7);
    assert_eq!(first, speak(7));
    assert_ne!(first, speak(8));
    assert_ne!(first, speak(7 + (1 << 32)), "all 64 bits of the seed count");
}

#[test]
fn replicas_share_weights_and_agree() {
    let model = load(Kernels::Auto, DType::F32);
    let text: Vec<u32> = (40..52).collect();
    let speak = || {
        speak(
            &mut model.talker(kv()).expect("a talker"),
            1,
            sampled(3, 12),
            &text,
        )
    };
    assert_eq!(speak(), speak());
}
