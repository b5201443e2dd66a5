//! A reply resumed behind another sequence's frames equals the uninterrupted one.

use omni_engine::{ChunkModel, CodecFrame, ModelError, SeqId, Sequences};
use omni_models::testing::{
    Goldens, LONG_RECORDINGS, Prompted, TINY_TTS_BASE, codes_by_frame, file_of, published_window,
};
use omni_models::{Code2Wav, DType, Kernels, KvOptions, LoadOptions, SpeechModel, Talker, TalkerRequest};

use crate::embedded::{self, shortest};
use crate::golden::{assert_close, goldens};
use crate::qwen3_tts::{cloning_cases, load as load_tts};
use crate::support::{all, decode, frames, kv, load, open, request, sampled, speak, step, tokens};

/// Frames behind `prior`, computed `chunk` positions at a time.
fn rest(
    talker: &mut Talker,
    request: TalkerRequest,
    text: &[u32],
    prior: &[Vec<u32>],
    chunk: u32,
) -> Vec<Vec<u32>> {
    let request = TalkerRequest {
        prior_frames: frames(prior),
        ..request
    };
    let mut run = open(talker, 2, request, text);
    run.prompt += u32::try_from(prior.len()).expect("few frames");
    while !run.done {
        step(talker, &mut [&mut run], chunk);
    }
    talker.close(run.seq);
    run.frames
}

/// Checks the continuation behind the first `made` frames, for each of them.
fn check(what: &str, talker: &mut Talker, request: &TalkerRequest, text: &[u32], made: &[usize]) {
    let expected = speak(talker, 1, request.clone(), text);
    for &made in made {
        let made = made.min(expected.len());
        for chunk in [u32::MAX, 5] {
            let rest = rest(talker, request.clone(), text, &expected[..made], chunk);
            assert_eq!(rest, expected[made..], "{what}: behind {made}, {chunk} at a time");
        }
    }
}

#[test]
fn a_reply_goes_on_behind_any_of_its_frames_drawn_or_not() {
    let text: Vec<u32> = (20..32).collect();
    let every: Vec<usize> = (0..=12).collect();
    for (kernels, model) in &all() {
        let made = if *kernels == "gpu" {
            &[0, 5, 12][..]
        } else {
            &every
        };
        let mut talker = model.talker(kv()).expect("a talker");
        let greedy = request(tokens(&[276, 263, 10, 65, 66, 277, 10]), "ethan", 12);
        check(kernels, &mut talker, &greedy, &text, made);
        check(kernels, &mut talker, &sampled(7, 12), &text, made);
    }
}

#[test]
fn the_embedded_voice_goes_on_behind_any_of_its_frames() {
    let model = embedded::load(LoadOptions::default());
    let mut talker = model.talker(KvOptions::default()).expect("a talker");
    let case = shortest(&model);
    let defaults = model.defaults();
    let drawn = TalkerRequest {
        talker: defaults.talker,
        predictor: defaults.predictor,
        seed: 11,
        max_frames: 60,
        ..case.request.clone()
    };
    for (what, request) in [("greedy", &case.request), ("drawn", &drawn)] {
        let len = speak(&mut talker, 1, request.clone(), &case.text).len();
        assert!(len > 8, "{what}: a sentence");
        check(
            what,
            &mut talker,
            request,
            &case.text,
            &[0, 1, 7, len / 2, len - 1, len],
        );
    }
}

#[test]
fn a_voice_of_a_recording_goes_on_behind_any_of_its_frames() {
    let model = load_tts(TINY_TTS_BASE, Kernels::Auto);
    let mut talker = model.talker(kv()).expect("a talker");
    for (name, Prompted { request, text }) in cloning_cases() {
        check(name, &mut talker, &request, &text, &[0, 1, 2, 5, usize::MAX]);
    }
}

#[test]
fn what_are_no_frames_of_the_model_are_refused() {
    let mut talker = load(Kernels::Auto, DType::F32).talker(kv()).expect("a talker");
    let good = speak(&mut talker, 1, request(Vec::new(), "ethan", 2), &[20, 21, 22]).remove(0);
    let mut large = good.clone();
    large[1] = u32::MAX;
    for bad in [good[1..].to_vec(), large] {
        let request = TalkerRequest {
            prior_frames: frames(&[good.clone(), bad]),
            ..request(Vec::new(), "ethan", 9)
        };
        match talker.open(SeqId(1), request).expect_err("it is refused") {
            ModelError::Rejected(reason) => assert!(reason.contains("frame 1"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Samples behind the first `lead` frames of a stream that starts the required context earlier, decoded in pieces of
/// `size`, and the number of frames skipped.
fn behind(
    model: &SpeechModel,
    code2wav: &mut Code2Wav,
    stream: &[CodecFrame],
    lead: usize,
    size: usize,
) -> (Vec<f32>, usize) {
    let seq = SeqId(3);
    let skipped = code2wav
        .open(seq, (), u32::try_from(lead).expect("few frames"))
        .expect("a stream opens");
    let first = skipped.items as usize;
    let unheard = usize::try_from(skipped.samples).expect("few samples");
    assert!(
        unheard >= model.samples_of(first),
        "no samples of what is left out"
    );
    let mut samples = Vec::new();
    for piece in stream[first..].chunks(size) {
        let decoded = code2wav.decode(&[(seq, piece)]).expect("frames decode").remove(0);
        samples.extend(decoded.expect("samples"));
    }
    code2wav.close(seq);
    (samples.split_off(model.samples_of(lead) - unheard), first)
}

/// Checks the samples behind a lead of any length, to the bit if `exact`; the most frames that were left out.
fn check_samples(what: &str, model: &SpeechModel, stream: &[CodecFrame], exact: bool) -> usize {
    let mut code2wav = model.code2wav().expect("a vocoder");
    let whole = decode(&mut code2wav, 1, stream, &[1, 2, 4, 8]);
    let mut most = 0;
    for lead in [
        1,
        9,
        stream.len() / 2,
        stream.len() - 20,
        stream.len() - 1,
        stream.len(),
    ] {
        for size in [3, 16] {
            // A previous stream's state must not show.
            let _ = decode(&mut code2wav, 2, &stream[stream.len() / 3..], &[8]);
            let (samples, skipped) = behind(model, &mut code2wav, stream, lead, size);
            let expected = &whole[model.samples_of(lead)..];
            let what = format!("{what}: behind {lead} in pieces of {size}");
            if exact {
                assert!(samples == expected, "{what}");
            } else {
                assert_close(&what, &samples, expected, 1e-4);
            }
            most = most.max(skipped);
        }
    }
    most
}

#[test]
fn samples_behind_a_lead_are_those_of_the_whole_stream_to_the_bit() {
    let g = goldens();
    let codes = codes_by_frame(&g);
    let long: Vec<Vec<u32>> = (0..150).map(|i| codes[i * 7 % codes.len()].clone()).collect();
    for (kernels, exact) in [(Kernels::Auto, true), (Kernels::Candle, false)] {
        let model = load(kernels, DType::F32);
        let skipped = check_samples(&format!("{kernels:?}"), &model, &frames(&long), exact);
        assert!(skipped > 0, "{kernels:?}: a part of a long lead is left out");
    }
    let model = embedded::load(LoadOptions::default());
    let groups = model.limits().code_groups as usize;
    let case = shortest(&model);
    let said: Vec<Vec<u32>> = case.codes.chunks(groups).map(<[u32]>::to_vec).collect();
    let long: Vec<Vec<u32>> = said.iter().cycle().take(160).cloned().collect();
    let skipped = check_samples("embedded", &model, &frames(&long), true);
    assert!(skipped > 80, "of 160 frames {skipped} are left out");
    let g = Goldens::new(file_of(TINY_TTS_BASE, "goldens.safetensors"));
    let model = load_tts(TINY_TTS_BASE, Kernels::Auto);
    let groups = g.shape("ref.codes")[1];
    let said: Vec<Vec<u32>> = g.ids("ref.codes").chunks(groups).map(<[u32]>::to_vec).collect();
    let long: Vec<Vec<u32>> = said.iter().cycle().take(120).cloned().collect();
    check_samples("qwen3-tts", &model, &frames(&long), true);
    let model = load_tts(published_window(), Kernels::Auto);
    check_samples("qwen3-tts, window 72", &model, &frames(&long), true);
}

#[test]
fn a_recording_before_what_is_spoken_passes_the_transformer_alone_but_for_its_end() {
    let model = load_tts(published_window(), Kernels::Auto);
    let mut code2wav = model.code2wav().expect("a vocoder");
    let skipped = code2wav.open(SeqId(1), (), 80).expect("a stream opens");
    assert_eq!(skipped.items, 0, "the window reaches to its first frame");
    let unheard = skipped.samples / u64::from(model.limits().samples_per_frame);
    assert!(unheard >= 65, "{unheard} of 80 frames give no samples");
}

#[test]
fn streams_behind_recordings_of_any_length_do_not_change_by_a_bit_in_a_batch() {
    let g = Goldens::new(LONG_RECORDINGS);
    let said = |name: &str| {
        let groups = g.shape(name)[1];
        let codes: Vec<Vec<u32>> = g.ids(name).chunks(groups).map(<[u32]>::to_vec).collect();
        frames(&codes)
    };
    let streams = [
        (said("icl80.ref_codes"), 70),
        (said("icl30.ref_codes"), 25),
        (said("icl30.ref_codes"), 0),
    ];
    for (kernels, exact) in [(Kernels::Auto, true), (Kernels::Emulated { graphs: true }, false)] {
        let model = load_tts(published_window(), kernels);
        let mut code2wav = model.code2wav().expect("a vocoder");
        let alone = streams.each_ref().map(|(stream, lead)| {
            let (samples, skipped) = behind(&model, &mut code2wav, stream, *lead, 7);
            assert_eq!(skipped, 0);
            samples
        });
        let mut together: [Vec<f32>; 3] = Default::default();
        let seqs = [SeqId(1), SeqId(2), SeqId(3)];
        let unheard: Vec<u64> = seqs
            .iter()
            .zip(&streams)
            .map(|(seq, (_, lead))| code2wav.open(*seq, (), *lead as u32).expect("it opens").samples)
            .collect();
        for at in (0..80).step_by(9) {
            let pieces = streams.each_ref().map(|(stream, _)| {
                let from = at.min(stream.len());
                &stream[from..(at + 9).min(stream.len())]
            });
            let live: Vec<usize> = (0..3).filter(|&i| !pieces[i].is_empty()).collect();
            let batch: Vec<_> = live.iter().map(|&i| (seqs[i], pieces[i])).collect();
            let decoded = code2wav.decode(&batch).expect("frames decode");
            for (i, samples) in live.into_iter().zip(decoded) {
                together[i].extend(samples.expect("samples"));
            }
        }
        for (i, (_, lead)) in streams.iter().enumerate() {
            let from = model.samples_of(*lead) - usize::try_from(unheard[i]).expect("few");
            if exact {
                assert!(together[i][from..] == alone[i], "stream {i}");
            } else {
                assert_close("a gpu", &together[i][from..], &alone[i], 1e-4);
            }
        }
    }
}
