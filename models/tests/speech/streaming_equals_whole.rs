//! Any split of a stream's frames gives the samples of the whole.

use omni_engine::{ChunkModel, SeqId};
use omni_models::testing::codes_by_frame;
use omni_models::{DType, Kernels};
use proptest::prelude::*;

use crate::golden::{assert_close, goldens};
use crate::support::{all, decode, frames, load};

#[test]
fn fixed_splits_give_the_reference_waveform() {
    let g = goldens();
    let codes = frames(&codes_by_frame(&g));
    for (kernels, model) in &all() {
        let mut code2wav = model.code2wav().expect("a vocoder");
        let whole = decode(&mut code2wav, 1, &codes, &[codes.len()]);
        // A GPU adds up few rows in another order than many.
        let tolerance = if *kernels == "gpu" { 1e-4 } else { 1e-5 };
        for sizes in [&[1][..], &[4, 10, 9], &[2, 1, 20], &[1, 2, 4, 8]] {
            let pieces = decode(&mut code2wav, 2, &codes, sizes);
            assert_close(&format!("{kernels} {sizes:?}"), &pieces, &whole, tolerance);
            assert_close(
                &format!("{kernels} {sizes:?}"),
                &pieces,
                &g.floats("c2w.wav_full"),
                1e-4,
            );
        }
    }
}

#[test]
fn long_streams_stay_exact_past_the_window_and_the_cache_ring() {
    let g = goldens();
    let codes = codes_by_frame(&g);
    let long: Vec<Vec<u32>> = (0..150).map(|i| codes[i * 7 % codes.len()].clone()).collect();
    let model = load(Kernels::Auto, DType::F32);
    let mut code2wav = model.code2wav().expect("a vocoder");
    let whole = decode(&mut code2wav, 1, &frames(&long), &[long.len()]);
    assert_eq!(whole.len(), model.samples_of(long.len()));
    for sizes in [&[1][..], &[37, 5, 64, 3], &[32, 33]] {
        let pieces = decode(&mut code2wav, 2, &frames(&long), sizes);
        assert_close(&format!("{sizes:?}"), &pieces, &whole, 1e-5);
    }
}

#[test]
fn no_frames_give_no_samples() {
    for (kernels, model) in &all() {
        let mut code2wav = model.code2wav().expect("a vocoder");
        code2wav.open(SeqId(1), (), 0).expect("a stream opens");
        let samples = code2wav
            .decode(&[(SeqId(1), &[])])
            .expect("nothing decodes to nothing");
        assert_eq!(samples, vec![Ok(Vec::<f32>::new())], "{kernels}");
    }
}

#[test]
fn the_first_frame_gives_what_the_limits_say() {
    let codes = frames(&codes_by_frame(&goldens()));
    let model = load(Kernels::Auto, DType::F32);
    let mut code2wav = model.code2wav().expect("a vocoder");
    code2wav.open(SeqId(1), (), 0).expect("a stream opens");
    let limits = model.limits();
    let mut decode = |i: usize| {
        code2wav
            .decode(&[(SeqId(1), &codes[i..=i])])
            .expect("a frame decodes")[0]
            .as_ref()
            .expect("samples")
            .len()
    };
    assert_eq!(decode(0), limits.first_frame_samples as usize);
    assert_eq!(decode(1), limits.samples_per_frame as usize);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_split_equals_the_whole(sizes in prop::collection::vec(1..9_usize, 1..12)) {
        let codes = frames(&codes_by_frame(&goldens()));
        let model = load(Kernels::Auto, DType::F32);
        let mut code2wav = model.code2wav().expect("a vocoder");
        let whole = decode(&mut code2wav, 1, &codes, &[codes.len()]);
        let pieces = decode(&mut code2wav, 2, &codes, &sizes);
        assert_close(&format!("{sizes:?}"), &pieces, &whole, 1e-5);
    }
}
