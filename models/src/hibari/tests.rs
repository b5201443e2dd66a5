use super::*;
use crate::testing::{deviation, farthest};
use crate::tiny;

const CONFIG: &str = r#"{"sample_rate": 800, "n_fft": 16, "hop_length": 4, "n_token": 6,
    "acoustic": {"width": 8, "layers": 2, "heads": 2},
    "prosody": {"width": 16, "layers": 1, "heads": 2, "dilations": [1, 2]},
    "decoder": {"width": 24, "inner": 40, "layers": 8}, "vocab": {"a": 1, "b": 2, " ": 3, ".": 4}}"#;

fn tensors() -> tiny::Tensors {
    let config = HibariConfig::parse(CONFIG.as_bytes()).expect("a configuration");
    let mut tensors = tiny::tensors(7, |l| Net::load(l, &config).map(drop));
    // About eight frames a phoneme, and a pitch that pulses can be made of at this rate.
    tensors.insert("pn.dur.2.bias".into(), (vec![1], vec![2.2]));
    tensors.insert("pn.pro_out.bias".into(), (vec![4], vec![0.9, 1.1, 0.2, 0.1]));
    tensors
}

fn voice(config: &str, tensors: &tiny::Tensors) -> Result<Hibari, LoadError> {
    let folder = tiny::folder(config, tensors);
    Hibari::load(CheckpointSource::Dir(folder.path().into()), Weights::Stored)
}

fn spoken(voice: &Hibari, texts: &[HibariText<'_>], chunks: impl Fn(usize) -> usize) -> Vec<Vec<f32>> {
    let mut speeches = voice.begin(texts).expect("they can be said");
    let mut samples = vec![Vec::new(); texts.len()];
    let mut round = 0;
    while speeches.iter().any(|speech| !speech.is_over()) {
        let mut parts: Vec<_> = speeches
            .iter_mut()
            .map(|speech| (speech, chunks(round)))
            .collect();
        let more = voice.advance(&mut parts).expect("computed");
        samples
            .iter_mut()
            .zip(more)
            .for_each(|(all, more)| all.extend(more));
        round += 1;
    }
    samples
}

fn text<'a>(ids: &'a [u32], seed: u64) -> HibariText<'a> {
    HibariText {
        ids,
        speed: 1.0,
        seed,
    }
}

#[test]
fn chunks_and_batches_are_the_whole() {
    let voice = voice(CONFIG, &tensors()).expect("it loads");
    let long = voice.ids("ab ba. ab").expect("known");
    let short = voice.ids("a").expect("known");
    let alone = |text| spoken(&voice, &[text], |_| usize::MAX).remove(0);
    let whole = [alone(text(&long, 1)), alone(text(&short, 2))];
    let frames = voice.begin(&[text(&long, 1)]).expect("said")[0].frames();
    assert!(frames > 2 * HALO, "{frames} frames");
    assert_eq!(whole[0].len(), frames * 4);
    assert!(whole[0].iter().all(|v| v.is_finite()) && whole[0].iter().any(|v| v.abs() > 0.01));
    for chunk in [1, 2, 7, 30] {
        let both = spoken(&voice, &[text(&long, 1), text(&short, 2)], |round| {
            chunk + round % 2
        });
        for (pieces, whole) in both.iter().zip(&whole) {
            let worst = farthest(pieces, whole);
            assert!(worst < 1e-4, "{worst} apart in chunks of {chunk}");
        }
    }
    assert_ne!(alone(text(&long, 3)), whole[0], "a seed decides the noise");
    assert_eq!(alone(text(&long, 1)), whole[0]);
}

#[test]
fn speed_divides_durations() {
    let voice = voice(CONFIG, &tensors()).expect("it loads");
    let ids = voice.ids("ab ba.").expect("known");
    let frames = |speed| {
        let texts = [HibariText {
            ids: &ids,
            speed,
            seed: 0,
        }];
        voice.begin(&texts).map(|speeches| speeches[0].frames() as f32)
    };
    let plain = frames(1.0).expect("said");
    for speed in [0.5, 2.0] {
        let other = frames(speed).expect("said");
        assert!(
            (other * speed / plain - 1.0).abs() < 0.2,
            "{other} at {speed}, {plain} at 1"
        );
    }
    assert_eq!(frames(0.4), Err(PhonemeError::Speed(0.4)));
}

#[test]
fn flaws_are_named() {
    let error =
        |config: &str, tensors: &tiny::Tensors| voice(config, tensors).expect_err("refused").to_string();
    let good = tensors();
    let mut lacking = good.clone();
    lacking.remove("m.dec.3.pw1.weight");
    let message = error(CONFIG, &lacking);
    assert!(message.contains("m.dec.3.pw1.weight is missing"), "{message}");
    let mut misshapen = good.clone();
    misshapen.insert("pn.text.norm.weight".into(), (vec![3], vec![0.0; 3]));
    let message = error(CONFIG, &misshapen);
    assert!(
        message.contains("pn.text.norm.weight has shape [3], expected [16]"),
        "{message}"
    );
    for (from, to, said) in [
        (
            "\"layers\": 8",
            "\"layers\": 99999999999",
            "decoder.layers: a whole number from 1 to 64",
        ),
        (
            "\"hop_length\": 4",
            "\"hop_length\": 5",
            "n_fft: is 16, four times an even hop_length",
        ),
        ("\"a\": 1", "\"a\": 6", "vocab: names with ids below 6"),
        ("\"a\": 1", "\"ab\": 1", "\"ab\" is not one character"),
        (
            "\"heads\": 2,",
            "\"heads\": 3,",
            "heads: is 3, which does not divide",
        ),
    ] {
        let message = error(&CONFIG.replace(from, to), &good);
        assert!(message.contains(said), "{message}");
    }
}

/// Tolerances: the reference computes in f32, too, in another order.
#[test]
fn the_published_voice_is_the_reference_stage_by_stage() {
    let Some(place) = tiny::fetched("hibari") else {
        return;
    };
    let golden = tiny::goldens("hibari_heart");
    let mut voice = Hibari::load(CheckpointSource::Dir(place), Weights::Stored).expect("it loads");
    voice.wave.noise = false;
    let ids = voice.ids("həlˈO wˈɜɹld, ðɪs ɪz ɐ tˈɛst.").expect("known");
    assert_eq!(ids, golden.ids("ids"));
    let b = &voice.backend;
    let lens = [ids.len()];
    let (acoustic, prosody) = voice.net.read(b, &ids, &lens).expect("computed");
    let close = |what: &str, got: &[f32], expected: &[f32], most: f32| {
        let apart = deviation(got, expected);
        eprintln!(
            "{what}: {apart:.2e} apart, largest difference {:.2e}",
            farthest(got, expected)
        );
        assert!(apart < most, "{what}: {apart} apart");
    };
    // The reference has channels first.
    let acoustic = b.host(&acoustic).expect("there");
    let turned: Vec<f32> = (0..128)
        .flat_map(|c| acoustic.iter().skip(c).step_by(128))
        .copied()
        .collect();
    close("text encoder", &turned, &golden.floats("text_m"), 1e-5);
    let logs = voice.net.log_durations(b, &prosody, &lens).expect("computed");
    close(
        "durations",
        &b.host(&logs).expect("there"),
        &golden.floats("log_durations"),
        1e-5,
    );
    let texts = [text(&ids, 0)];
    let mut speeches = voice.begin(&texts).expect("said");
    let speech = &mut speeches[0];
    assert_eq!(speech.durations(), golden.ids("durations"));
    close("pitch", &speech.pitch, &golden.floats("f0"), 1e-5);
    let energy: Vec<f32> = speech.features.chunks(130).map(|row| row[129] * 5.0).collect();
    close("energy", &energy, &golden.floats("energy"), 1e-5);
    let rows = b.rows(130, speech.features.clone()).expect("there");
    let kept: Vec<u32> = (60..64).collect();
    let spectra = voice
        .net
        .decode(b, &rows, &[speech.frames()], &kept)
        .expect("computed");
    let spectra = b.host(&spectra).expect("there");
    let turned: Vec<f32> = (0..3005)
        .flat_map(|c| spectra.iter().skip(c).step_by(3005))
        .copied()
        .collect();
    close("decoder", &turned, &golden.floats("frames_60_64"), 1e-5);
    let whole = voice
        .advance(&mut [(speech, usize::MAX)])
        .expect("computed")
        .remove(0);
    close("samples", &whole, &golden.floats("wav_without_noise"), 1e-3);
    let chunked = spoken(&voice, &texts, |_| 20).remove(0);
    assert!(
        farthest(&chunked, &whole) < 1e-5,
        "{}",
        farthest(&chunked, &whole)
    );
}

#[test]
fn pulses_are_those_of_the_reference() {
    let golden = tiny::goldens("hibari_heart");
    let mut pulses = Pulses::default();
    for end in [1000, 9000, 18_000, 19_800] {
        pulses.extend(&golden.floats("f0"), end, 300, 24_000.0);
        pulses.forget(end.min(18_000));
    }
    let apart = deviation(&pulses.values, &golden.floats("pulses"));
    assert!(apart < 1e-3, "{apart} apart");
}
