//! A preempted sequence is recomputed from its first position and continues with the same results.

use omni_engine::{BlockId, Sequences};

use crate::support::{all, kv, open, request, speak, step, tokens};

#[test]
fn recomputing_from_the_start_changes_nothing() {
    let text: Vec<u32> = (20..32).collect();
    let request = || request(tokens(&[276, 263, 10, 65, 66, 277, 10]), "ethan", 12);
    for (kernels, model) in &all() {
        let mut talker = model.talker(kv()).expect("a talker");
        let expected = speak(&mut talker, 1, request(), &text);
        for (lost_at, chunk) in [(1, u32::MAX), (5, 3), (5, u32::MAX)] {
            let mut run = open(&mut talker, 2, request(), &text);
            while run.frames.len() < lost_at {
                step(&mut talker, &mut [&mut run], u32::MAX);
            }
            run.computed = 0;
            run.blocks
                .iter_mut()
                .for_each(|b| *b = BlockId((b.0 + 2) % 399 + 1));
            while !run.done {
                step(&mut talker, &mut [&mut run], chunk);
            }
            talker.close(run.seq);
            assert_eq!(
                run.frames, expected,
                "{kernels}: lost at {lost_at}, chunks of {chunk}"
            );
        }
    }
}
