//! A voice without codebooks and without a token loop, on threads and in processes: a one-shot stage computes the latents
//! of a whole text, as many as it lasts, and a chunk stage makes samples of them, with some look-ahead or all of it.

mod machine;
mod voice;

use std::sync::atomic::Ordering;

use machine::{AHEAD, Machine, PATIENCE, Placement, tokens};
use omni_pipeline::orchestrator::{SpeechOutput, StageError};
use omni_pipeline::stage::End;
use voice::{ACOUSTIC, Fault, PER_FRAME, QUEUE, Script, Shape, VOCODER, expected};

const TEXT: &str = "It says some words, and goes on with the same words. ";

fn text() -> String {
    TEXT.repeat(6)
}

/// A voice with a look-ahead of this many frames.
fn looking(look_ahead: u32) -> Script {
    Script {
        shape: Shape::Stages { look_ahead },
        ..Script::default()
    }
}

#[tokio::test]
async fn a_text_is_spoken_with_any_look_ahead_on_threads_and_in_processes() {
    for placement in [Placement::Threads, Placement::Processes] {
        for look_ahead in [0, 2, 27, u32::MAX] {
            let machine = Machine::start(looking(look_ahead), placement, 1).await;
            let speech = machine.whole(&text()).await;
            assert_eq!(
                speech.samples,
                expected(&text(), 1.0),
                "{placement:?} {look_ahead}"
            );
            assert_eq!(speech.frames as usize, speech.samples.len() / PER_FRAME);
            let made: Vec<u32> = speech
                .segment
                .progress()
                .iter()
                .map(|(_, at)| at.outputs)
                .collect();
            assert_eq!(made, [speech.frames; 2], "all frames are told of");
            machine.pipeline.stop();
        }
    }
}

#[tokio::test]
async fn one_stage_may_be_the_whole_voice() {
    for placement in [Placement::Threads, Placement::Processes] {
        let script = Script {
            shape: Shape::Whole,
            ..Script::default()
        };
        let machine = Machine::start(script, placement, 1).await;
        let speech = machine.whole(&text()).await;
        assert_eq!(speech.samples, expected(&text(), 1.0), "{placement:?}");
        machine.pipeline.stop();
    }
}

#[tokio::test]
async fn speed_and_voice_are_known_to_every_stage() {
    let machine = Machine::start(looking(2), Placement::Processes, 1).await;
    let mut spec = machine.spec(&text(), false);
    spec.request.head.speed = 0.5;
    let mut speech = machine.begin(spec);
    assert_eq!(speech.until(usize::MAX).await, Some(End::Stop));
    assert_eq!(speech.samples, expected(&text(), 0.5));
    let mut spec = machine.spec(&text(), false);
    spec.request.head.voice = "nobody".to_owned();
    let end = machine.begin(spec).until(usize::MAX).await.expect("it ends");
    assert!(
        matches!(&end, End::Rejected(why) if why.contains("nobody")),
        "{end:?}"
    );
    machine.pipeline.stop();
}

#[tokio::test]
async fn most_frames_are_a_limit() {
    let machine = Machine::start(looking(2), Placement::Threads, 1).await;
    let mut spec = machine.spec(&text(), false);
    spec.request.head.max_outputs = 30;
    let mut speech = machine.begin(spec);
    assert_eq!(speech.until(usize::MAX).await, Some(End::Length));
    assert_eq!(speech.frames, 30);
    machine.pipeline.stop();
}

#[tokio::test]
async fn text_that_comes_in_pieces_is_one_text() {
    for placement in [Placement::Threads, Placement::Processes] {
        let machine = Machine::start(looking(2), placement, 1).await;
        let text = text();
        let (first, rest) = text.split_at(70);
        let (next, last) = rest.split_at(7);
        let mut speech = machine.speak(first, true);
        for (piece, ends) in [(next, false), (last, true)] {
            assert!(speech.segment.has_room() && speech.segment.is_starved());
            // Nothing of it is spoken before it is complete.
            let waits = futures::FutureExt::now_or_never(speech.segment.next());
            assert_eq!(waits, None);
            speech.segment.push(tokens(piece), ends).unwrap();
        }
        assert_eq!(speech.until(usize::MAX).await, Some(End::Stop));
        assert_eq!(speech.samples, expected(&text, 1.0));
        machine.pipeline.stop();
    }
}

#[tokio::test]
async fn callers_who_wait_share_a_step_and_get_their_own_speech() {
    let script = looking(2);
    let machine = Machine::start(script.clone(), Placement::Threads, 1).await;
    let gate = script.acoustic.lock();
    let texts: Vec<_> = (1..=5).map(|n| TEXT.repeat(n)).collect();
    // The first is in a step, which lasts until the gate opens.
    let mut speeches = vec![machine.speak(&texts[0], false)];
    script.entered.wait_for(2);
    speeches.extend(texts[1..].iter().map(|text| machine.speak(text, false)));
    drop(gate);
    for (speech, text) in speeches.iter_mut().zip(&texts) {
        assert_eq!(speech.until(usize::MAX).await, Some(End::Stop));
        assert_eq!(speech.samples, expected(text, 1.0));
    }
    // The warm-up, the first, and all the others.
    assert_eq!(*script.batches.lock(), [1, 1, 4]);
    machine.pipeline.stop();
}

#[tokio::test]
async fn a_slow_reader_holds_both_stages_up_and_no_other_caller() {
    let script = looking(2);
    let machine = Machine::start(script.clone(), Placement::Threads, 1).await;
    let long = text().repeat(10);
    let mut slow = machine.speak(&long, false);
    assert_eq!(slow.until(1).await, None);
    let quick = machine.whole(&text()).await;
    assert_eq!(quick.samples, expected(&text(), 1.0));
    let decoded = || script.decoded.load(Ordering::SeqCst) - quick.frames as usize;
    let before = decoded();
    loop {
        let heard = slow.frames;
        let stages: Vec<u32> = slow.segment.progress().iter().map(|(_, at)| at.outputs).collect();
        // A chunk may weigh more than the last of the room.
        let most = heard + 2 * AHEAD + QUEUE;
        assert!(stages[1] <= most, "{stages:?} behind {heard}");
        assert!(stages[0] <= most + AHEAD + 2 * QUEUE, "{stages:?} behind {heard}");
        match slow.until(slow.samples.len() + 1).await {
            None => {}
            Some(end) => break assert_eq!(end, End::Stop),
        }
    }
    assert!(decoded() > before);
    assert_eq!(slow.samples, expected(&long, 1.0));
    machine.pipeline.stop();
}

#[tokio::test]
async fn whichever_process_is_lost_and_whenever_the_rest_is_what_it_would_have_been() {
    let expected = expected(&text(), 1.0);
    let frames = expected.len() / PER_FRAME;
    let all = [&[ACOUSTIC][..], &[VOCODER], &[ACOUSTIC, VOCODER]];
    // With all of it ahead, the audio comes in one piece.
    for (look_ahead, lost, heard) in [
        (2, &all[..], &[0, 5, frames / 2, frames][..]),
        (u32::MAX, &all[1..2], &[0, frames]),
    ] {
        let machine = Machine::start(looking(look_ahead), Placement::Processes, 2).await;
        for (stages, heard) in lost
            .iter()
            .flat_map(|stages| heard.iter().map(move |heard| (stages, heard)))
        {
            machine.until_ready().await;
            let mut speech = machine.speak(&text(), false);
            assert_eq!(speech.until(heard * PER_FRAME).await, None);
            machine.lose(stages, &speech);
            let what = format!("{stages:?} behind {heard}, look-ahead {look_ahead}");
            assert_eq!(speech.until(usize::MAX).await, Some(End::Stop), "{what}");
            assert!(speech.samples == expected, "{what}");
            assert_eq!(speech.frames as usize, frames, "{what}");
        }
        machine.pipeline.stop();
    }
}

#[tokio::test]
async fn a_vocoder_that_panics_before_the_first_sound_costs_a_delay_only() {
    let script = Script {
        fault: Some(Fault::VocoderPanicsOnce),
        ..looking(2)
    };
    let machine = Machine::start(script, Placement::Threads, 2).await;
    let speech = machine.whole(&text()).await;
    assert_eq!(speech.samples, expected(&text(), 1.0));
    machine.pipeline.stop();
}

#[tokio::test]
async fn speech_that_is_dropped_leaves_both_stages() {
    for placement in [Placement::Threads, Placement::Processes] {
        let script = looking(2);
        let machine = Machine::start(script.clone(), placement, 1).await;
        let mut speech = machine.speak(&text().repeat(10), false);
        assert_eq!(speech.until(1).await, None);
        drop(speech);
        // The warm-up, and this one.
        tokio::task::spawn_blocking(move || script.closed.wait_for(2))
            .await
            .unwrap();
        assert_eq!(machine.whole(&text()).await.samples, expected(&text(), 1.0));
        machine.pipeline.stop();
    }
}

#[tokio::test]
async fn what_the_graph_does_not_declare_is_an_error_that_names_both() {
    for placement in [Placement::Threads, Placement::Processes] {
        let script = Script {
            fault: Some(Fault::GivesCodes),
            ..looking(2)
        };
        let machine = Machine::start(script, placement, 1).await;
        let mut speech = machine.speak(TEXT, false);
        let output = tokio::time::timeout(PATIENCE, async {
            loop {
                match speech.segment.next().await {
                    SpeechOutput::TextDone => {}
                    output => break output,
                }
            }
        });
        let output = output.await.expect("it ends");
        let SpeechOutput::End(End::Failed { stage, message }) = output else {
            panic!("{output:?}");
        };
        assert_eq!(stage, ACOUSTIC);
        assert_eq!(message, "it gave a codec frame, its edge carries latents");
        machine.pipeline.stop();
    }
}

#[tokio::test]
async fn a_stage_that_the_family_does_not_have_is_named() {
    let script = Script {
        fault: Some(Fault::NoVocoder),
        ..looking(2)
    };
    let machine = Machine::build(&script, Placement::Threads, 1);
    let mut changes = machine.pipeline.changes().follow();
    let failed = async {
        loop {
            match machine.pipeline.check_speech() {
                Err(StageError::Failed { stage, message }) => break (stage, message),
                _ => changes.changed().await.expect("it lives as long as we"),
            }
        }
    };
    let (stage, message) = tokio::time::timeout(PATIENCE, failed).await.expect("it fails");
    assert_eq!(stage, VOCODER);
    assert!(message.contains("has no stage vocoder"), "{message}");
    machine.pipeline.stop();
}
