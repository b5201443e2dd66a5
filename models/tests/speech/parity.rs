//! Equal to the reference implementation: rows, logits, hidden states, codes, waveform.

use std::path::Path;

use omni_engine::SeqId;
use omni_models::{CheckpointSource, Kernels, LoadOptions, SpeechModel, TalkerRequest, UserRow};

use crate::golden::{Goldens, assert_close, tiny};
use crate::support::{Run, both, decode, frames, greedy, kv, request, step};

const TOLERANCE: f32 = 1e-4;
/// Ids of the tiny checkpoint's special tokens.
const IM_START: u32 = 276;
const USER: u32 = 263;
const AUDIO_PAD: u32 = 289;
const TTS_PAD: u32 = 285;

struct Case {
    request: TalkerRequest,
    text: Vec<u32>,
}

/// The user turns of the prompt and the generated text (all but its last token, which is never spoken).
fn case(g: &Goldens, name: &str, speaker: &str, user_id: u32, thinker_hidden: usize) -> Case {
    let ids = g.ids(&format!("{name}.input_ids"));
    let states = g.floats(&format!("{name}.thinker_hidden_accept"));
    let mut user = Vec::new();
    let mut in_user = false;
    for (i, &id) in ids.iter().enumerate() {
        if id == IM_START {
            in_user = ids[i + 1] == user_id;
        }
        if in_user && id == AUDIO_PAD {
            user.push(UserRow::Hidden(
                states[i * thinker_hidden..(i + 1) * thinker_hidden].to_vec(),
            ));
        } else if in_user {
            user.push(UserRow::Token(id));
        }
    }
    let generated = g.ids(&format!("{name}.gen_ids"));
    let text = generated[..generated.len() - 1].to_vec();
    let frames = g.shape(&format!("{name}.codes"))[0];
    Case {
        request: request(user, speaker, u32::try_from(frames).expect("few frames")),
        text,
    }
}

pub(crate) fn check_case(kernels: &str, model: &SpeechModel, g: &Goldens, name: &str, speaker: &str) {
    let what = |part: &str| format!("{kernels} {name}.{part}");
    let golden = |part: &str| g.floats(&format!("{name}.{part}"));
    let Case { request, text } = case(g, name, speaker, USER, 48);
    let prefill = g.ids(&format!("{name}.talker.prefill_ids"));
    assert_eq!(
        prefill.iter().filter(|&&id| id == TTS_PAD).count(),
        9,
        "the prompt ends with nine rows"
    );
    let mut talker = model.talker(kv()).expect("a talker");
    let mut run = Run::open(&mut talker, 1, request, &text);
    assert_eq!(run.prompt as usize, prefill.len(), "{}", what("prompt"));
    let rows = talker
        .input_rows(SeqId(1), 0, run.prompt)
        .expect("the prompt is known");
    assert_close(
        &what("prefill"),
        &rows,
        &golden("talker.prefill_embeds"),
        TOLERANCE,
    );

    let (mut logits, mut hidden, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
    while !run.done {
        step(&mut talker, &mut [&mut run], u32::MAX);
        logits.extend(talker.logits(SeqId(1)).expect("computed"));
        hidden.extend(talker.hidden(SeqId(1)).expect("computed"));
        if !run.done {
            inputs.extend(
                talker
                    .input_rows(SeqId(1), run.computed, 1)
                    .expect("the next row is known"),
            );
        }
    }
    assert_close(&what("logits"), &logits, &golden("talker.logits"), TOLERANCE);
    assert_close(&what("hidden"), &hidden, &golden("talker.hidden"), TOLERANCE);
    assert_close(
        &what("step_embeds"),
        &inputs,
        &golden("talker.step_embeds"),
        TOLERANCE,
    );
    assert_eq!(
        run.frames.concat(),
        g.ids(&format!("{name}.codes")),
        "{}",
        what("codes")
    );

    let mut code2wav = model.code2wav().expect("a vocoder");
    let wav = decode(&mut code2wav, 1, &frames(&run.frames), &[run.frames.len()]);
    assert_close(&what("wav"), &wav, &golden("wav"), TOLERANCE);
    assert_eq!(wav.len(), model.samples_of(run.frames.len()));
}

#[test]
fn text_and_audio_prompts_speak_as_the_reference() {
    let g = Goldens::load();
    for (kernels, model) in &both() {
        check_case(kernels, model, &g, "text", "Ethan");
        check_case(kernels, model, &g, "audio", "chelsie");
    }
}

#[test]
fn the_reference_ended_the_text_case_by_itself() {
    let g = Goldens::load();
    for (kernels, model) in &both() {
        let Case { mut request, text } = case(&g, "text", "ethan", USER, 48);
        request.max_frames = 1000;
        let mut talker = model.talker(kv()).expect("a talker");
        let spoken = crate::support::speak(&mut talker, 1, request, &text);
        assert_eq!(spoken.concat(), g.ids("text.codes"), "{kernels}");
    }
}

#[test]
fn repetition_penalty_counts_in_the_reference() {
    // Without the penalty the greedy choice differs, so the parity above has tested it.
    let g = Goldens::load();
    let model = &both()[0].1;
    let Case { mut request, text } = case(&g, "audio", "chelsie", USER, 48);
    request.talker = omni_models::Sampling {
        repetition_penalty: 3.0,
        ..greedy()
    };
    let mut talker = model.talker(kv()).expect("a talker");
    let spoken = crate::support::speak(&mut talker, 1, request, &text);
    assert_ne!(spoken.concat(), g.ids("audio.codes"));
}

#[test]
fn code2wav_gives_the_reference_waveform() {
    let g = Goldens::load();
    let codes = codes_by_frame(&g);
    for (kernels, model) in &both() {
        let mut code2wav = model.code2wav().expect("a vocoder");
        let wav = decode(&mut code2wav, 3, &frames(&codes), &[codes.len()]);
        assert_close(
            &format!("{kernels} c2w"),
            &wav,
            &g.floats("c2w.wav_full"),
            TOLERANCE,
        );
    }
}

/// The frames of the code2wav golden, which is `[codebooks, frames]`.
pub(crate) fn codes_by_frame(g: &Goldens) -> Vec<Vec<u32>> {
    let (codes, shape) = (g.ids("c2w.codes"), g.shape("c2w.codes"));
    (0..shape[1])
        .map(|t| (0..shape[0]).map(|q| codes[q * shape[1] + t]).collect())
        .collect()
}

/// Other checkpoints with goldens can be checked by naming their directories in `OMNI_PARITY_DIRS`.
#[test]
fn further_checkpoints_speak_as_the_reference() {
    let dirs = std::env::var("OMNI_PARITY_DIRS").unwrap_or_default();
    for dir in dirs
        .split(':')
        .filter(|d| !d.is_empty())
        .chain([tiny().to_str().expect("a plain path")])
    {
        let (dir, g) = (Path::new(dir), Goldens::from(Path::new(dir)));
        for kernels in [Kernels::Auto, Kernels::Candle] {
            let options = LoadOptions {
                kernels,
                ..LoadOptions::default()
            };
            let model = SpeechModel::load(CheckpointSource::Dir(dir.into()), options).expect("it loads");
            check_case(&format!("{dir:?} {kernels:?}"), &model, &g, "text", "ethan");
            check_case(&format!("{dir:?} {kernels:?}"), &model, &g, "audio", "chelsie");
        }
    }
}
