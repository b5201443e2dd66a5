//! The embedded voice on the device as on the processor.

use omni_engine::{SeqId, Sequences as _};
use omni_models::testing::{Prompted, Run, decode, frames, greedy, step, tokens};
use omni_models::{KvOptions, SpeechModel, TalkerRequest};

use super::Case;
use super::margin::same_frames;
use super::reference::TOLERANCE;
use crate::gpu::models::{By, Which};

/// Text as spoken, without the text front end's normalisation.
const SENTENCES: [&str; 4] = [
    "yes.",
    "where did you put the blue folder?",
    "the answer, as so often, was hidden in plain sight.",
    "when the rain stopped, the whole street smelled of wet stone, fresh bread and lilac, and for a moment nobody spoke, \
     because there was nothing that anyone wanted to add.",
];
/// More than the longest of them takes.
const FRAMES: u32 = 500;
/// Sizes of the chunks that code2wav gets; the last repeats.
pub(super) const RAMP: [usize; 4] = [1, 2, 4, 8];

/// Cache for `sequences` sequences of the embedded voice.
pub(super) fn long_cache(sequences: u32) -> KvOptions {
    let block_size = 16;
    KvOptions {
        block_size,
        num_blocks: 1 + sequences * (FRAMES + 100).div_ceil(block_size),
    }
}

/// Output of a request.
pub(super) struct Said {
    pub(super) codes: Vec<Vec<u32>>,
    pub(super) wav: Vec<f32>,
}

/// One request on its own.
pub(super) fn say(
    model: &SpeechModel,
    kv: KvOptions,
    request: TalkerRequest,
    text: &[u32],
) -> anyhow::Result<Said> {
    let mut talker = model.talker(kv)?;
    let mut run = Run::open_among(1, &mut talker, 0, request, text)?;
    while !run.done {
        step(&mut talker, &mut [&mut run], u32::MAX)?;
    }
    talker.close(SeqId(0));
    let wav = decode(&mut model.code2wav()?, 0, &frames(&run.frames), &RAMP)?;
    Ok(Said {
        codes: run.frames,
        wav,
    })
}

/// To speak `sentence`, greedily.
pub(super) fn request(
    model: &SpeechModel,
    voice: &str,
    sentence: &str,
) -> anyhow::Result<(TalkerRequest, Vec<u32>)> {
    let mut request = omni_models::testing::request(tokens(&model.user_turn("")?), voice, FRAMES);
    request.talker = model.defaults().talker.greedy();
    request.predictor = greedy_predictor();
    Ok((request, model.tokenizer().encode(sentence)?))
}

fn greedy_predictor() -> omni_models::Sampling {
    omni_models::Sampling {
        repetition_penalty: 1.0,
        ..greedy()
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for sentence in SENTENCES {
        for voice in ["aria", "basil"] {
            let shown: String = sentence.chars().take(24).collect();
            cases.push(Case::new(
                format!("processor and device: embedded voice {voice}, {shown:?}, greedy, f32 in graphs"),
                move |models, judge| {
                    let own = models.get(Which::Embedded, By::Cpu)?;
                    let device = models.get(Which::Embedded, By::Graphs)?;
                    let (asked, text) = request(&own, voice, sentence)?;
                    let expected = say(&own, long_cache(1), asked.clone(), &text)?;
                    let said = say(&device, long_cache(1), asked.clone(), &text)?;
                    let prompted = Prompted { request: asked, text };
                    let both = (said.codes.as_slice(), expected.codes.as_slice());
                    same_frames(judge, both, &prompted, long_cache(1), || Ok(own));
                    judge.near("samples", &said.wav, &expected.wav, TOLERANCE);
                    Ok(())
                },
            ));
        }
    }
    cases
}
