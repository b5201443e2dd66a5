//! Compares the reference's logits of two choices at the first code that differs.

use std::rc::Rc;

use omni_engine::{Sequences as _, StepExecutor as _};
use omni_models::testing::{Prompted, Reply, Run, frames as codec_frames, penalise, text_tokens};
use omni_models::{KvOptions, SpeechModel, ThinkerRequest};

use crate::gpu::judge::Judge;

/// First difference of two replies. Behind it they have different pasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// Code `group` of frame `frame`.
    Code {
        frame: usize,
        group: usize,
        got: u32,
        expected: u32,
    },
    /// One of them ends there.
    End { frame: usize },
}

fn difference(got: &[Vec<u32>], expected: &[Vec<u32>]) -> Option<Difference> {
    for (frame, (got, expected)) in got.iter().zip(expected).enumerate() {
        let mut codes = got.iter().zip(expected).enumerate();
        if let Some((group, (&got, &expected))) = codes.find(|(_, (got, expected))| got != expected) {
            return Some(Difference::Code {
                frame,
                group,
                got,
                expected,
            });
        }
    }
    let frame = got.len().min(expected.len());
    (got.len() != expected.len()).then_some(Difference::End { frame })
}

/// All frames must be equal; if they are not, a note gives the difference of the logits, or says why it is not known.
pub(super) fn same_frames(
    judge: &mut Judge,
    both: (&[Vec<u32>], &[Vec<u32>]),
    prompted: &Prompted,
    kv: KvOptions,
    reference: impl FnOnce() -> anyhow::Result<Rc<SpeechModel>>,
) {
    judge.same("codes", &both.0.concat(), &both.1.concat());
    if let Err(error) = explain(judge, both, prompted, kv, reference) {
        judge.note(format!("the first difference is not explained: {error:#}"));
    }
}

/// Notes the difference of the logits of both choices where frames differ first, as `reference` computes them behind
/// the frames that were expected before.
fn explain(
    judge: &mut Judge,
    (got, expected): (&[Vec<u32>], &[Vec<u32>]),
    prompted: &Prompted,
    kv: KvOptions,
    reference: impl FnOnce() -> anyhow::Result<Rc<SpeechModel>>,
) -> anyhow::Result<()> {
    match difference(got, expected) {
        None => {}
        Some(Difference::End { frame }) => {
            judge.note(format!(
                "one of them ends in front of frame {frame}, the other does not"
            ));
        }
        Some(Difference::Code {
            frame,
            group,
            got,
            expected: wanted,
        }) => {
            let logits = logits(&*reference()?, prompted, kv, &expected[..=frame], group)?;
            judge.note(told(
                frame,
                group,
                [got, wanted],
                &logits,
                prompted,
                &expected[..frame],
            ));
        }
    }
    Ok(())
}

/// The logits that code `group` of the last of `frames` was chosen by.
fn logits(
    model: &SpeechModel,
    prompted: &Prompted,
    kv: KvOptions,
    frames: &[Vec<u32>],
    group: usize,
) -> anyhow::Result<Vec<f32>> {
    let [before @ .., last] = frames else {
        anyhow::bail!("there is no frame");
    };
    let mut request = prompted.request.clone();
    request.prior_frames = codec_frames(before);
    let mut talker = model.talker(kv)?;
    let mut run = Run::open_among(1, &mut talker, 0, request, &prompted.text)?;
    run.frames = before.to_vec();
    let step = run.step(run.known());
    talker.execute(&[step])?;
    let logits = match group {
        0 => talker.logits(run.seq),
        group => Some(talker.predictor_logits(run.seq, &last[..group])?),
    };
    talker.close(run.seq);
    logits.ok_or_else(|| anyhow::anyhow!("nothing was computed"))
}

/// Includes the repetition penalty.
fn told(
    frame: usize,
    group: usize,
    [got, expected]: [u32; 2],
    logits: &[f32],
    prompted: &Prompted,
    before: &[Vec<u32>],
) -> String {
    let mut logits = logits.to_vec();
    if group == 0 {
        let said: Vec<_> = before.iter().map(|frame| frame[0]).collect();
        penalise(&mut logits, prompted.request.talker.repetition_penalty, &said);
    }
    let of = |code: u32| logits.get(code as usize).copied().unwrap_or(f32::NAN);
    let place = format!("code {group} of frame {frame}");
    sentence(&place, [got, expected], [got, expected].map(of))
}

fn sentence(place: &str, [got, expected]: [u32; 2], [own, wanted]: [f32; 2]) -> String {
    format!(
        "first, {place} is {got} in place of {expected}, whose logit is greater by {:.1e} on the processor ({wanted:.5} and {own:.5})",
        wanted - own,
    )
}

/// All tokens of an answer must be equal; a difference is reported with the margin of the choice, as by
/// [`same_frames`].
pub(super) fn same_tokens(
    judge: &mut Judge,
    (got, expected): (&[u32], &[u32]),
    mut request: ThinkerRequest,
    kv: KvOptions,
    reference: impl FnOnce() -> anyhow::Result<Rc<SpeechModel>>,
) -> anyhow::Result<()> {
    judge.same("tokens", got, expected);
    let first = got
        .iter()
        .zip(expected)
        .position(|(got, expected)| got != expected);
    let Some(at) = first else {
        if got.len() != expected.len() {
            let at = got.len().min(expected.len());
            judge.note(format!(
                "one of them ends in front of token {at}, the other does not"
            ));
        }
        return Ok(());
    };
    // With the previous tokens as part of the prompt, the next logits are the same.
    request.prompt.extend(text_tokens(&expected[..at]));
    let mut thinker = reference()?.load_thinker()?.thinker(kv)?;
    let mut reply = Reply::open(&mut thinker, 0, request, 1)?;
    Reply::advance(&mut thinker, &mut [&mut reply], u32::MAX)?;
    let logits = thinker.logits(reply.seq).unwrap_or_default();
    let both = [got[at], expected[at]];
    let logit = |token: u32| logits.get(token as usize).copied().unwrap_or(f32::NAN);
    judge.note(sentence(&format!("token {at}"), both, both.map(logit)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use omni_models::LoadOptions;
    use omni_models::testing::{Heard, ask, kv, tiny, tiny_prompt};

    use super::*;
    use crate::gpu::check::References;

    /// The reported difference.
    fn said(figures: &str) -> f32 {
        let said = figures
            .split("greater by ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        said.and_then(|said| said.parse().ok()).expect("a margin")
    }

    #[test]
    fn the_first_difference_is_found() {
        let frames = |codes: &[[u32; 2]]| codes.iter().map(|frame| frame.to_vec()).collect::<Vec<_>>();
        let expected = frames(&[[1, 2], [3, 4], [5, 6]]);
        assert_eq!(difference(&expected, &expected), None);
        let code = Difference::Code {
            frame: 1,
            group: 1,
            got: 9,
            expected: 4,
        };
        assert_eq!(
            difference(&frames(&[[1, 2], [3, 9], [7, 7]]), &expected),
            Some(code)
        );
        assert_eq!(
            difference(&expected[..2], &expected),
            Some(Difference::End { frame: 2 })
        );
    }

    /// Checks that the reference's choice leads in its own logits, by the margin that is reported.
    #[test]
    fn the_margin_is_that_of_the_references_logits() {
        let g = References::default().tiny;
        let model = Rc::new(SpeechModel::load(tiny(), LoadOptions::default()).expect("it loads"));
        let groups = model.limits().code_groups as usize;
        for (name, speaker, prefix) in [("text", "ethan", "text"), ("audio", "chelsie", "audio")] {
            let prompted = tiny_prompt(&g, name, speaker);
            let heard = Heard::of(&model, &prompted).expect("it speaks");
            let expected: Vec<_> = heard.codes.chunks(groups).map(<[u32]>::to_vec).collect();
            let predicted = g.floats(&format!("{prefix}.pred.logits"));
            let codes = predicted.len() / expected.len() / (groups - 1);
            for (frame, group) in [(2, 3), (4, 1), (5, groups - 1)] {
                let at = (frame * (groups - 1) + group - 1) * codes;
                let own = &predicted[at..at + codes];
                let wanted = expected[frame][group];
                let other = (wanted + 1) % codes as u32;
                let mut got = expected.clone();
                got[frame][group] = other;
                let mut judge = Judge::default();
                same_frames(&mut judge, (&got, &expected), &prompted, kv(), || {
                    Ok(Rc::clone(&model))
                });
                assert!(!judge.holds());
                let margin = own[wanted as usize] - own[other as usize];
                let place = format!("code {group} of frame {frame} is {other} in place of {wanted}");
                let figures = judge.figures();
                assert!(margin > 0.0 && figures.contains(&place), "{figures}");
                assert!(
                    (said(&figures) - margin).abs() <= 0.06 * margin + 2e-4,
                    "{figures}, expected {margin}"
                );
            }
            // A first code, by the talker's own logits and its penalty.
            let mut got = expected.clone();
            got[3][0] = (expected[3][0] + 1) % 1000;
            let mut judge = Judge::default();
            same_frames(&mut judge, (&got, &expected), &prompted, kv(), || {
                Ok(Rc::clone(&model))
            });
            let figures = judge.figures();
            assert!(figures.contains("first, code 0 of frame 3 is"), "{figures}");
            assert!(
                !figures.contains("greater by -") && !figures.contains("NaN"),
                "{figures}"
            );
        }
    }

    #[test]
    fn the_margin_of_a_token_is_that_of_the_references_logits() {
        let g = References::default().tiny;
        let model = Rc::new(SpeechModel::load(tiny(), LoadOptions::default()).expect("it loads"));
        let expected = g.ids("text.gen_ids");
        let steps = g.floats("text.step_logits");
        let vocab = steps.len() / expected.len();
        let request = ask(text_tokens(&g.ids("text.input_ids")));
        for at in [1, 4] {
            let own = &steps[at * vocab..(at + 1) * vocab];
            let mut got = expected.clone();
            got[at] = (expected[at] + 1) % 256;
            let margin = own[expected[at] as usize] - own[got[at] as usize];
            let mut judge = Judge::default();
            let processor = || Ok(Rc::clone(&model));
            same_tokens(&mut judge, (&got, &expected), request.clone(), kv(), processor).expect("told");
            assert!(!judge.holds() && margin > 0.0);
            let figures = judge.figures();
            assert!(
                figures.contains(&format!("first, token {at} is {}", got[at])),
                "{figures}"
            );
            assert!(
                (said(&figures) - margin).abs() <= 0.06 * margin + 2e-4,
                "{figures}, expected {margin}"
            );
        }
        let mut judge = Judge::default();
        let none = || anyhow::bail!("no reference is needed");
        same_tokens(&mut judge, (&expected[..2], &expected), request, kv(), none).expect("told");
        assert!(
            judge.figures().contains("ends in front of token 2"),
            "{}",
            judge.figures()
        );
    }

    #[test]
    fn what_is_equal_needs_no_reference() {
        let g = References::default().tiny;
        let prompted = tiny_prompt(&g, "text", "ethan");
        let frames = [vec![1, 2]];
        let mut judge = Judge::default();
        let none = || anyhow::bail!("no reference is needed");
        same_frames(&mut judge, (&frames, &frames), &prompted, kv(), none);
        assert!(judge.holds());
        assert_eq!(judge.figures(), "codes: 2 of 2 equal");
    }
}
