//! Counts the greedy frames that each weight format keeps: `kept_frames DIR SENTENCES COUNT`.
//!
//! The stored weights speak the sentences (one per line, behind the last tab) greedily, with the voices in turn. Each
//! format then predicts the frame after every one of these frames, and keeps it if all its codes are equal.
#![expect(clippy::print_stdout, reason = "says what was found")]

use std::path::Path;

use omni_engine::{ModelError, Sequences};
use omni_models::testing::{Run, greedy, request, speak, step, tokens};
use omni_models::{CheckpointSource, KvOptions, LoadOptions, Sampling, SpeechModel, TalkerRequest, Weights};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const FORMATS: [(&str, Weights); 3] = [
    ("f32", Weights::F32),
    ("int8", Weights::Int8),
    ("int4", Weights::Int4),
];
/// Frames of a sentence, most.
const MOST: u32 = 400;

struct Spoken {
    request: TalkerRequest,
    text: Vec<u32>,
    frames: Vec<Vec<u32>>,
}

fn load(dir: &str, weights: Weights) -> Fallible<SpeechModel> {
    let options = LoadOptions {
        weights,
        ..LoadOptions::default()
    };
    let source = CheckpointSource::Dir(Path::new(dir).into());
    Ok(SpeechModel::load(source, options)?)
}

fn speak_all(model: &SpeechModel, sentences: &[String]) -> Fallible<Vec<Spoken>> {
    let mut talker = model.talker(KvOptions::default())?;
    let user = model.opening_turn()?;
    let voices = &model.limits().voices;
    let mut all = Vec::new();
    for ((id, sentence), voice) in (0..).zip(sentences).zip(voices.iter().cycle()) {
        let mut request = request(tokens(&user), voice, MOST);
        request.talker = Sampling {
            repetition_penalty: 1.0,
            ..greedy()
        };
        let text = model.tokenizer().encode_plain(sentence)?;
        let frames = speak(&mut talker, id, request.clone(), &text)?;
        all.push(Spoken {
            request,
            text,
            frames,
        });
    }
    Ok(all)
}

/// Number of frames of `spoken` that `model` predicts, too.
fn kept(model: &SpeechModel, spoken: &Spoken) -> Result<usize, ModelError> {
    let mut talker = model.talker(KvOptions::default())?;
    let mut run = Run::open(&mut talker, 1, spoken.request.clone(), &spoken.text)?;
    let mut kept = 0;
    for frame in &spoken.frames {
        step(&mut talker, &mut [&mut run], u32::MAX)?;
        let Some(last) = run.frames.last().filter(|_| !run.done) else {
            break;
        };
        kept += usize::from(last == frame);
        talker.replace_frame(run.seq, frame)?;
    }
    talker.close(run.seq);
    Ok(kept)
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, file, count] = &arguments[..] else {
        return Err("expected: kept_frames DIR SENTENCES COUNT".into());
    };
    let text = std::fs::read_to_string(file)?;
    let sentence = |line: &str| line.rsplit('\t').next().unwrap_or(line).to_lowercase();
    let sentences: Vec<String> = text.lines().take(count.parse()?).map(sentence).collect();
    let all = speak_all(&load(dir, Weights::Stored)?, &sentences)?;
    let frames: usize = all.iter().map(|spoken| spoken.frames.len()).sum();
    println!("{} sentences, {frames} frames", all.len());
    for (name, weights) in FORMATS {
        let model = load(dir, weights)?;
        let each = all.iter().map(|spoken| kept(&model, spoken));
        let kept: usize = each.sum::<Result<_, _>>()?;
        println!("{name}: {:.2} %", 100.0 * kept as f64 / frames as f64);
    }
    Ok(())
}
