//! Qwen3-TTS equals the reference implementation, for any chunking of text and frames and in any batch.

use std::sync::Arc;

use omni_engine::{ChunkModel, ModelError, SeqId, Sequences, VoicePrompt, VoiceReference};
use omni_models::testing::{
    Goldens, Heard, Prompted, TINY_TTS, TINY_TTS_BASE, decode_together, file_of, speak_together, tts_prompt,
};
use omni_models::{
    CheckpointSource, Kernels, LoadOptions, SpeechModel, TalkerRequest, VOICE_SAMPLE_RATE, Voice, VoiceError,
    VoiceSource,
};

use crate::golden::assert_close;
use crate::support::{decode, frames, kv, open, speak, step};

type Files = &'static [(&'static str, &'static [u8])];

/// Sums of a few hundred products of order one in f32, in another order than the reference's; the decoder's twenty
/// layers in a row are the longest chain.
const TOLERANCE: f32 = 1e-4;

pub(crate) fn load(files: Files, kernels: Kernels) -> SpeechModel {
    let options = LoadOptions {
        kernels,
        ..LoadOptions::default()
    };
    SpeechModel::load(CheckpointSource::Memory(files), options).expect("the tiny checkpoint loads")
}

fn goldens(files: Files) -> Goldens {
    Goldens::new(file_of(files, "goldens.safetensors"))
}

/// Checkpoint for described voices, as in the reference outputs.
fn design() -> Files {
    let changed = |&(name, content): &(&'static str, &'static [u8])| {
        let config = String::from_utf8_lossy(content).replace("\"custom_voice\"", "\"voice_design\"");
        match name {
            "config.json" => (name, config.leak().as_bytes()),
            _ => (name, content),
        }
    };
    TINY_TTS.iter().map(changed).collect::<Vec<_>>().leak()
}

/// Cases with a voice of the checkpoint's own or a description, each with the checkpoint that it belongs to.
fn cases() -> [(Files, &'static str, Prompted); 4] {
    let g = goldens(TINY_TTS);
    let named = |name: &str| Voice::Named(name.to_owned());
    [
        (
            TINY_TTS,
            "cv_stream",
            tts_prompt(&g, "cv_stream", named("Vivian"), Some("English"), false),
        ),
        (
            TINY_TTS,
            "cv_nonstream",
            tts_prompt(&g, "cv_nonstream", named("vivian"), None, true),
        ),
        (
            TINY_TTS,
            "cv_instruct_dialect",
            tts_prompt(&g, "cv_instruct_dialect", named("ERIC"), Some("chinese"), true),
        ),
        (
            design(),
            "vd",
            tts_prompt(&g, "vd", Voice::Described, Some("german"), true),
        ),
    ]
}

/// The reference's recording as a voice.
fn cloned(g: &Goldens, case: &str) -> Voice {
    let in_context = format!("{case}.ref_ids");
    let reference = g.has(&in_context).then(|| VoiceReference {
        frames: frames(&reference_frames(g)),
        // Without the marks of its turn.
        text: {
            let ids = g.ids(&in_context);
            ids[3..ids.len() - 2].to_vec()
        },
    });
    Voice::Cloned(Arc::new(VoicePrompt {
        x_vector: g.floats("ref.spk_embedding"),
        reference,
    }))
}

fn reference_frames(g: &Goldens) -> Vec<Vec<u32>> {
    let groups = g.shape("ref.codes")[1];
    g.ids("ref.codes").chunks(groups).map(<[u32]>::to_vec).collect()
}

pub(crate) fn cloning_cases() -> [(&'static str, Prompted); 3] {
    let g = goldens(TINY_TTS_BASE);
    [
        ("vc_xvec", Some("english"), false),
        ("vc_icl", Some("english"), false),
        ("vc_icl_nonstream", None, true),
    ]
    .map(|(name, language, whole)| (name, tts_prompt(&g, name, cloned(&g, name), language, whole)))
}

fn check(what: &str, model: &SpeechModel, g: &Goldens, name: &str, prompted: &Prompted) -> Heard {
    let heard = Heard::of(model, prompted).expect("it speaks");
    for (part, got) in [
        ("prefill_embeds", &heard.prompt),
        ("logits", &heard.logits),
        ("hidden", &heard.hidden),
    ] {
        let expected = g.floats(&format!("{name}.{part}"));
        assert_close(&format!("{what} {name}.{part}"), got, &expected, TOLERANCE);
    }
    assert_eq!(heard.codes, g.ids(&format!("{name}.codes")), "{what} {name}");
    heard
}

#[test]
fn named_and_described_voices_speak_as_the_reference() {
    let g = goldens(TINY_TTS);
    for kernels in [Kernels::Auto, Kernels::Candle] {
        for (files, name, prompted) in cases() {
            let model = load(files, kernels);
            let heard = check(&format!("{kernels:?}"), &model, &g, name, &prompted);
            let wav = g.floats(&format!("{name}.wav"));
            assert_close(name, &heard.wav, &wav, TOLERANCE);
            assert_eq!(wav.len(), model.samples_of(heard.codes.len() / 16), "{name}");
        }
    }
}

#[test]
fn a_gpus_kernels_speak_as_the_reference() {
    let g = goldens(TINY_TTS);
    let model = load(TINY_TTS, Kernels::Emulated { graphs: true });
    let (_, name, prompted) = &cases()[0];
    let heard = check("gpu", &model, &g, name, prompted);
    assert_close(name, &heard.wav, &g.floats("cv_stream.wav"), TOLERANCE);
    assert_eq!(model.take_gpu_fallbacks(), [""; 0]);
}

#[test]
fn cloned_voices_speak_as_the_reference() {
    let g = goldens(TINY_TTS_BASE);
    for kernels in [Kernels::Auto, Kernels::Candle] {
        let model = load(TINY_TTS_BASE, kernels);
        for (name, prompted) in cloning_cases() {
            let heard = check(&format!("{kernels:?}"), &model, &g, name, &prompted);
            // In context the decoder hears the recording first, and that much is cut off.
            let mut all = match name {
                "vc_xvec" => Vec::new(),
                _ => reference_frames(&g),
            };
            let before = all.len();
            all.extend(heard.codes.chunks(16).map(<[u32]>::to_vec));
            let mut code2wav = model.code2wav().expect("a vocoder");
            let wav = decode(&mut code2wav, 1, &frames(&all), &[all.len()]);
            let spoken = &wav[model.samples_of(before)..];
            assert_close(name, spoken, &g.floats(&format!("{name}.wav")), TOLERANCE);
        }
    }
}

#[test]
fn speech_ends_by_itself_where_the_references_does() {
    let g = goldens(TINY_TTS_BASE);
    let model = load(TINY_TTS_BASE, Kernels::Auto);
    let Prompted { mut request, text } = cloning_cases()[1].1.clone();
    request.max_frames = 1000;
    let spoken = speak(&mut model.talker(kv()).expect("a talker"), 1, request, &text);
    assert_eq!(spoken.concat(), g.ids("vc_icl.codes"));
}

#[test]
fn the_first_frame_needs_one_token_and_every_other_one_more() {
    let model = load(TINY_TTS, Kernels::Auto);
    let (_, name, Prompted { request, text }) = cases()[0].clone();
    let mut talker = model.talker(kv()).expect("a talker");
    let mut run = open(&mut talker, 1, request.clone(), &[]);
    talker.close(run.seq);
    // As `open` does, but with text that comes by and by.
    talker.open(run.seq, request).expect("it is served");
    for (i, &token) in text.iter().enumerate() {
        let last = i + 1 == text.len();
        talker.push(run.seq, vec![token], last);
        if !last {
            assert_eq!(run.frames.len(), i);
            step(&mut talker, &mut [&mut run], u32::MAX);
        }
    }
    while !run.done {
        step(&mut talker, &mut [&mut run], u32::MAX);
    }
    assert_eq!(
        run.frames.concat(),
        goldens(TINY_TTS).ids(&format!("{name}.codes"))
    );
}

#[test]
fn sequences_do_not_change_by_a_bit_in_a_batch() {
    let model = load(TINY_TTS_BASE, Kernels::Auto);
    let requests: Vec<(TalkerRequest, Vec<u32>)> = cloning_cases()
        .into_iter()
        .enumerate()
        .map(|(i, (_, Prompted { mut request, text }))| {
            request.talker.temperature = 0.9 * i as f32 / 2.0;
            request.predictor.temperature = 0.9;
            request.seed = i as u64;
            (request, text)
        })
        .collect();
    let alone: Vec<_> = (0..)
        .zip(&requests)
        .map(|(i, (request, text))| {
            let mut talker = model.talker(kv()).expect("a talker");
            speak(&mut talker, i, request.clone(), text)
        })
        .collect();
    let mut talker = model.talker(kv()).expect("a talker");
    assert_eq!(speak_together(&mut talker, &requests).expect("they speak"), alone);
    let streams: Vec<_> = alone.iter().map(|codes| frames(codes)).collect();
    let mut code2wav = model.code2wav().expect("a vocoder");
    let single: Vec<_> = streams
        .iter()
        .map(|s| decode(&mut code2wav, 9, s, &[3, 3, 3, 3, 3]))
        .collect();
    let together = decode_together(&mut code2wav, &streams, 3).expect("frames decode");
    assert_eq!(together, single);
}

/// The frames of the codec's golden, which is `[codebooks, frames]`.
fn codec_frames(g: &Goldens) -> Vec<Vec<u32>> {
    let codes = g.ids("codec.codes");
    let shape = g.shape("codec.codes");
    let frame = |t| (0..shape[0]).map(|q| codes[q * shape[1] + t]).collect();
    (0..shape[1]).map(frame).collect()
}

#[test]
fn any_split_of_frames_gives_the_references_samples() {
    let g = goldens(TINY_TTS);
    let codes = frames(&codec_frames(&g));
    let gpu = Kernels::Emulated { graphs: true };
    for kernels in [Kernels::Auto, Kernels::Candle, gpu] {
        let model = load(TINY_TTS, kernels);
        let mut code2wav = model.code2wav().expect("a vocoder");
        for sizes in [&[23][..], &[1], &[4, 10, 9], &[2, 1, 20], &[1, 2, 4, 8]] {
            let wav = decode(&mut code2wav, 1, &codes, sizes);
            let what = format!("{kernels:?} {sizes:?}");
            assert_close(&what, &wav, &g.floats("codec.wav_full"), TOLERANCE);
        }
    }
}

#[test]
fn every_frame_gives_as_many_samples_as_the_limits_say() {
    let model = load(TINY_TTS, Kernels::Auto);
    let limits = model.limits();
    assert_eq!(
        (limits.first_frame_samples, limits.samples_per_frame),
        (1920, 1920)
    );
    assert_eq!(limits.sample_rate, 24_000);
    let codes = frames(&codec_frames(&goldens(TINY_TTS)));
    let mut code2wav = model.code2wav().expect("a vocoder");
    code2wav.open(SeqId(1), (), 0).expect("a stream opens");
    for frame in codes.chunks(1) {
        let samples = code2wav.decode(&[(SeqId(1), frame)]).expect("a frame decodes");
        assert_eq!(samples[0].as_ref().map(Vec::len), Ok(1920));
    }
}

fn refusal(model: &SpeechModel, request: TalkerRequest) -> String {
    let mut talker = model.talker(kv()).expect("a talker");
    match talker.open(SeqId(1), request).expect_err("it is refused") {
        ModelError::Rejected(reason) => reason,
        other => panic!("{other}"),
    }
}

#[test]
fn requests_that_a_checkpoint_cannot_follow_are_told_what_it_can() {
    let [(_, _, streamed), ..] = cases();
    let custom = load(TINY_TTS, Kernels::Auto);
    let base = load(TINY_TTS_BASE, Kernels::Auto);
    let with = |change: &dyn Fn(&mut TalkerRequest)| {
        let mut request = streamed.request.clone();
        change(&mut request);
        request
    };
    let voice = |x_vector: Vec<f32>, frames: Vec<Vec<u32>>, text| {
        let reference = (!frames.is_empty()).then(|| VoiceReference {
            frames: self::frames(&frames),
            text,
        });
        Voice::Cloned(Arc::new(VoicePrompt { x_vector, reference }))
    };
    let frame = |code| vec![vec![code; 16]];
    let cases = [
        (
            &custom,
            with(&|r| r.voice = "nobody".into()),
            "unknown voice \"nobody\", expected one of: eric, vivian",
        ),
        (
            &custom,
            with(&|r| r.language = Some("Klingon".into())),
            "unknown language \"klingon\", expected none or one of: chinese, english, german, sichuan_dialect",
        ),
        (
            &custom,
            with(&|r| r.voice = Voice::Described),
            "only VoiceDesign checkpoints",
        ),
        (
            &custom,
            with(&|r| r.user = vec![omni_models::UserRow::Hidden(vec![0.0; 48])]),
            "expected a token",
        ),
        (
            &custom,
            with(&|r| r.text = Some(vec![1, 320])),
            "text token 320 does not exist, expected below 320",
        ),
        (
            &base,
            with(&|r| r.voice = voice(vec![0.0; 31], vec![], vec![])),
            "the voice was made for another model: its vector has 31 numbers, this one's have 32",
        ),
        (
            &base,
            with(&|r| r.voice = voice(vec![f32::NAN; 32], vec![], vec![])),
            "not finite",
        ),
        (
            &base,
            with(&|r| r.voice = voice(vec![0.0; 32], frame(64), vec![])),
            "frames of 16 codes, the first below 64 and the others below 64",
        ),
        (
            &base,
            with(&|r| r.voice = voice(vec![0.0; 32], frame(1), vec![320])),
            "token 320 of the recording's transcript does not exist",
        ),
    ];
    for (model, request, expected) in cases {
        let reason = refusal(model, request);
        assert!(reason.contains(expected), "{reason:?} does not say {expected:?}");
    }
}

#[test]
fn a_checkpoint_says_what_it_can() {
    let custom = load(TINY_TTS, Kernels::Auto);
    let limits = custom.limits();
    assert_eq!(limits.voices, ["eric", "vivian"]);
    let languages: Vec<_> = limits
        .languages
        .iter()
        .map(|l| (l.tag, l.name.as_str()))
        .collect();
    assert_eq!(
        languages,
        [("zh", "chinese"), ("en", "english"), ("de", "german")],
        "dialects are voices' business"
    );
    assert!(limits.instructions, "its configuration says 1.7B");
    assert_eq!(limits.voice_source, VoiceSource::Names);
    assert!(custom.converses().is_err() && custom.check_thinker().is_err());
    let defaults = custom.defaults();
    assert_eq!((defaults.talker.min_tokens, defaults.max_frames), (2, 8192));
    assert_eq!(
        (defaults.predictor.temperature, defaults.predictor.top_p),
        (0.9, 1.0)
    );
    let base = load(TINY_TTS_BASE, Kernels::Auto);
    assert_eq!(base.limits().voice_source, VoiceSource::Recordings);
    assert!(base.limits().voices.is_empty() && !base.limits().instructions);
}

/// The reference's recording, which must give its voice.
#[test]
fn a_recording_becomes_the_references_voice() {
    let g = goldens(TINY_TTS_BASE);
    let encoder = load(TINY_TTS_BASE, Kernels::Auto)
        .load_voice_encoder()
        .expect("it clones");
    let samples = g.floats("ref.wav24k");
    let mel = encoder.mel(&samples).expect("a spectrogram");
    let bands = g.shape("ref.mel")[0];
    let frames = g.shape("ref.mel")[1];
    let expected = g.floats("ref.mel");
    let by_frame: Vec<f32> = (0..bands * frames)
        .map(|i| expected[i % bands * frames + i / bands])
        .collect();
    // The reference computes its spectra in f32; the logarithm of a small one shows that.
    assert_close("mel", &mel, &by_frame, 2e-3);
    let x_vector = encoder.x_vector(&samples).expect("a vector");
    assert_close("x-vector", &x_vector, &g.floats("ref.spk_embedding"), 1e-3);
    assert_eq!(encoder.frames(&samples), Ok(reference_frames(&g)));
}

#[test]
fn recordings_that_are_no_voice_are_told_why() {
    let encoder = load(TINY_TTS_BASE, Kernels::Auto)
        .load_voice_encoder()
        .expect("it clones");
    for seconds in [0.0, 0.9, 60.1] {
        let samples = vec![0.1; (f64::from(VOICE_SAMPLE_RATE) * seconds) as usize];
        let error = encoder.x_vector(&samples).expect_err("too short or too long");
        assert!(matches!(error, VoiceError::Length { .. }), "{error}");
        assert!(error.to_string().contains("expected 1s to 60s"), "{error}");
    }
    let mut samples = vec![0.0; 30_000];
    samples[7] = f32::NAN;
    assert_eq!(encoder.frames(&samples), Err(VoiceError::NotFinite { index: 7 }));
    let custom = load(TINY_TTS, Kernels::Auto)
        .load_voice_encoder()
        .expect_err("it does not clone");
    assert!(custom.to_string().contains("only Base checkpoints"), "{custom}");
}
