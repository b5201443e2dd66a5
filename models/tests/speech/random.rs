//! Models of random weights: noise, but as regular as any other model, and of a level that can be listened to.

use omni_engine::SeqId;
use omni_models::{
    Checkpoint, CheckpointSource, DType, Kernels, KvOptions, LoadOptions, Message, Role, SpeechModel,
    TalkerRequest, TextSampling, Tokenizer,
};

use crate::support::{decode, frames, greedy, open, speak, step, tokens};
use crate::thinker_support::{ask, say};

const KV: KvOptions = KvOptions {
    block_size: 16,
    num_blocks: 300,
};

fn named(name: &str) -> CheckpointSource {
    CheckpointSource::Random(name.parse().expect("a name"))
}

fn load(name: &str, dtype: DType, kernels: Kernels) -> SpeechModel {
    SpeechModel::load(
        named(name),
        LoadOptions {
            dtype,
            kernels,
            ..LoadOptions::default()
        },
    )
    .expect("it loads")
}

fn embedded(name: &str) -> SpeechModel {
    load(name, DType::F32, Kernels::Auto)
}

/// With the model's default sampling.
fn request(model: &SpeechModel) -> TalkerRequest {
    let defaults = model.defaults();
    TalkerRequest {
        user: tokens(&model.user_turn("").expect("text")),
        voice: "aria".into(),
        language: None,
        text: None,
        talker: defaults.talker,
        predictor: defaults.predictor,
        seed: 1,
        max_frames: defaults.max_frames,
        prior_frames: Vec::new(),
    }
}

fn text(model: &SpeechModel) -> Vec<u32> {
    model.tokenizer().encode("Nothing to say.").expect("text")
}

fn spoken(model: &SpeechModel, request: TalkerRequest) -> (Vec<Vec<u32>>, Vec<f32>) {
    let mut talker = model.talker(KV).expect("a talker");
    let codes = speak(&mut talker, 1, request, &text(model));
    let wav = decode(
        &mut model.code2wav().expect("a vocoder"),
        1,
        &frames(&codes),
        &[8],
    );
    (codes, wav)
}

fn rms(values: &[f32]) -> f32 {
    (values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32).sqrt()
}

#[test]
fn a_name_and_its_seed_are_the_same_voice_for_ever() {
    let of = |name: &str| {
        let model = embedded(name);
        let request = TalkerRequest {
            max_frames: 12,
            ..request(&model)
        };
        spoken(&model, request)
    };
    let (codes, wav) = of("random:embedded");
    assert_eq!(
        (&codes, &wav),
        (&of("random:embedded").0, &of("random:embedded@0").1)
    );
    let (others, other) = of("random:embedded@1");
    assert_ne!(codes, others);
    assert_ne!(wav, other);
}

#[test]
fn an_utterance_is_sound_throughout_and_no_two_frames_are_alike() {
    let model = embedded("random:embedded");
    let request = TalkerRequest {
        max_frames: 250,
        ..request(&model)
    };
    let (codes, wav) = spoken(&model, request);
    assert_eq!(codes.len(), 250, "it finds no end by itself");
    let seconds = wav.len() as f64 / f64::from(model.limits().sample_rate);
    assert!((9.9..=10.0).contains(&seconds), "{seconds} s");
    let distinct: std::collections::HashSet<_> = codes.iter().collect();
    assert!(distinct.len() > 240, "{} different frames", distinct.len());
    for part in wav.chunks(model.limits().sample_rate as usize) {
        let level = rms(part);
        assert!((0.02..0.5).contains(&level), "a second has a level of {level}");
    }
    let clipped = wav.iter().filter(|s| s.abs() >= 1.0).count();
    assert!(
        clipped * 100 < wav.len(),
        "{clipped} of {} samples are clipped",
        wav.len()
    );
}

#[test]
fn logits_are_of_order_one() {
    for dtype in [DType::F32, DType::Bf16] {
        let model = load("random:embedded@2", dtype, Kernels::Auto);
        let mut talker = model.talker(KV).expect("a talker");
        let mut run = open(&mut talker, 1, request(&model), &text(&model));
        step(&mut talker, &mut [&mut run], u32::MAX);
        let logits = talker.logits(SeqId(1)).expect("computed");
        assert!((0.7..1.4).contains(&rms(&logits)), "{dtype:?}: {}", rms(&logits));
        let hidden = talker.hidden(SeqId(1)).expect("computed");
        assert!((0.9..1.1).contains(&rms(&hidden)), "{dtype:?}: {}", rms(&hidden));
    }
}

#[test]
fn a_gpu_makes_the_weights_that_the_processor_makes() {
    let of = |kernels| {
        let model = load("random:embedded@5", DType::F32, kernels);
        let greedy = TalkerRequest {
            talker: greedy(),
            predictor: request(&model).predictor.greedy(),
            max_frames: 4,
            ..request(&model)
        };
        spoken(&model, greedy)
    };
    let (codes, wav) = of(Kernels::Auto);
    let (on_gpu, gpu_wav) = of(Kernels::Emulated { graphs: true });
    assert_eq!(codes, on_gpu);
    crate::golden::assert_close("wav", &gpu_wav, &wav, 1e-4);
}

#[test]
fn an_answer_is_as_long_as_is_asked_for_and_can_be_read() {
    let model = embedded("random:embedded");
    let thinker = model.load_thinker().expect("it has a thinker");
    let template = model.chat_template().expect("a template");
    let prompt = template
        .render(&[Message::text(Role::User, "Well?")])
        .expect("a prompt");
    assert!(
        prompt
            .talker_prompt(&[], &omni_models::HiddenRows::default())
            .is_ok()
    );
    let mut request = ask(prompt.thinker_prompt(&[]).expect("a prompt"));
    request.stop = vec![model.text_tokens().im_end];
    request.sampling = model.defaults().thinker;
    request.max_tokens = 150;
    let most = 1000;
    let answer = say(
        &mut thinker.thinker(KV).expect("a thinker"),
        1,
        request.clone(),
        most,
        64,
    );
    assert_eq!(answer.said.len(), 150, "it finds no end by itself");
    let mut decoder = model.tokenizer().decoder();
    let read: String = answer.ids().into_iter().map(|id| decoder.push(id)).collect();
    assert!(read.len() > 150, "{read:?}");
    // The settings keep it from looping.
    let distinct: std::collections::HashSet<_> = answer.ids().into_iter().collect();
    assert!(distinct.len() > 50, "{} different tokens", distinct.len());
    request.sampling = TextSampling::default();
    let likeliest = say(&mut thinker.thinker(KV).expect("a thinker"), 2, request, most, 64);
    assert_ne!(likeliest.ids(), answer.ids());
}

#[test]
fn the_published_tokens_have_their_published_ids() {
    let checkpoint = Checkpoint::open(named("random:qwen3-omni-30b-a3b")).expect("opens");
    let tokenizer = Tokenizer::load(&checkpoint).expect("a tokenizer");
    let turn = "<|im_start|>user\nHi!<|audio_start|><|audio_pad|><|audio_end|><|im_end|>\n<tts_pad><tts_text_bos><tts_text_eod>";
    let ids = [
        151_644, 872, 198, 39, 72, 0, 151_669, 151_675, 151_670, 151_645, 198, 151_671, 151_672, 151_673,
    ];
    assert_eq!(tokenizer.encode(turn).expect("text"), ids);
    assert_eq!(
        tokenizer.encode("system assistant").expect("text"),
        [8948, 220, 77_091]
    );
    let every_byte: String = ('\0'..='\u{2ff}').collect();
    let ids = tokenizer.encode_plain(&every_byte).expect("any text");
    assert_eq!(ids.len(), 128 + 2 * (768 - 128));
    let mut decoder = tokenizer.decoder();
    let read: String = ids.into_iter().map(|id| decoder.push(id)).collect();
    assert_eq!(read, every_byte);
}
