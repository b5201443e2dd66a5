//! Sharing KV rows of common prefixes.

use super::support::*;
use crate::ar::*;
use crate::content::CacheSalt;

/// A prompt that begins with `common` positions that all prompts have and ends with `own` of its own.
fn prompt(seq: u64, common: u32, own: u32) -> Request {
    let mut request = request(seq, own, 3);
    request.prompt.splice(0..0, 0..common);
    request
}

fn hits(stats: StepStats) -> (u32, u32) {
    (stats.prefix_queries, stats.prefix_hits)
}

#[test]
fn a_common_prefix_is_computed_once() {
    let mut engine = small();
    add_with(&mut engine, 1, prompt(1, 8, 3), AddOptions::default());
    let stats = engine.step(NOW).stats;
    assert_eq!((hits(stats), stats.prefill_tokens), ((11, 0), 11));
    add_with(&mut engine, 2, prompt(2, 8, 3), AddOptions::default());
    let stats = engine.step(NOW).stats;
    assert_eq!((hits(stats), stats.prefill_tokens), ((11, 8), 3));
    assert_eq!((stats.prompt_tokens, stats.cached_tokens), (11, 8));
    assert_eq!(engine.model.batch[1], (SeqId(2), 8, 3));
    let events = drain(&mut engine);
    assert_eq!(record(&events, 2).cached_tokens, 8);
    add_with(&mut engine, 3, prompt(3, 8, 3), AddOptions::default());
    let stats = engine.step(NOW).stats;
    assert_eq!(hits(stats), (11, 8), "it outlives its sequences");
}

#[test]
fn of_a_prompt_that_is_cached_as_a_whole_the_last_block_is_computed_again() {
    let mut engine = small();
    for seq in [1, 2] {
        add_with(&mut engine, seq, prompt(seq, 8, 0), AddOptions::default());
        let stats = engine.step(NOW).stats;
        assert_eq!(stats.prefill_tokens, if seq == 1 { 8 } else { 4 });
    }
}

#[test]
fn a_conversation_finds_its_own_answers_again() {
    let mut engine = small();
    let mut first = prompt(1, 6, 0);
    first.tokens = vec![50, 51, 52];
    add_with(&mut engine, 1, first, AddOptions::default());
    drain(&mut engine);
    let mut second = prompt(2, 6, 0);
    second.prompt.extend([50, 51, 52, 60, 61]);
    add_with(&mut engine, 2, second, AddOptions::default());
    assert_eq!(
        hits(engine.step(NOW).stats),
        (11, 8),
        "six of the prompt, two of the answer"
    );
}

#[test]
fn tenants_share_nothing() {
    let mut engine = small();
    for tenant in [1, 2] {
        let options = AddOptions {
            salt: CacheSalt(tenant),
            ..AddOptions::default()
        };
        add_with(&mut engine, tenant, prompt(tenant, 8, 3), options);
        assert_eq!(hits(engine.step(NOW).stats), (11, 0));
    }
}

#[test]
fn a_request_that_needs_every_row_computed_is_not_served_from_the_cache() {
    let mut engine = small();
    let every = AddOptions {
        reuse_prefix: false,
        ..AddOptions::default()
    };
    for (seq, options, computed) in [(1, every, 11), (2, every, 11), (3, AddOptions::default(), 3)] {
        add_with(&mut engine, seq, prompt(seq, 8, 3), options);
        let stats = engine.step(NOW).stats;
        assert_eq!(stats.prefill_tokens, computed, "sequence {seq}");
        assert_eq!(stats.prefix_queries, if seq == 3 { 11 } else { 0 });
    }
}

#[test]
fn nothing_is_shared_when_the_cache_is_off_or_the_model_keeps_quiet() {
    let off = ArConfig {
        prefix_cache: false,
        ..ArConfig::default()
    };
    for (config, shares) in [(off, true), (ArConfig::default(), false)] {
        let mut engine = engine(config, 4, 16, 48);
        for seq in [1, 2] {
            let request = Request {
                shares,
                ..prompt(seq, 8, 3)
            };
            add_with(&mut engine, seq, request, AddOptions::default());
            let stats = engine.step(NOW).stats;
            assert_eq!((hits(stats), stats.prefill_tokens), ((0, 0), 11));
        }
    }
}

#[test]
fn a_preempted_sequence_finds_what_is_left_of_it_and_is_not_counted_again() {
    let config = ArConfig {
        max_num_seqs: 1,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 16, 48);
    add(&mut engine, 1, 9, 9);
    engine.step(NOW);
    engine.set_paused(SeqId(1), true);
    add(&mut engine, 2, 3, 0);
    engine.step(NOW);
    engine.set_paused(SeqId(1), false);
    let stats = engine.step(NOW).stats;
    assert_eq!((hits(stats), stats.prefill_tokens), ((0, 0), 2));
}

#[test]
fn two_newcomers_of_one_step_both_compute_and_one_of_them_is_kept() {
    let mut engine = small();
    for seq in [1, 2] {
        add_with(&mut engine, seq, prompt(seq, 8, 1), AddOptions::default());
    }
    let stats = engine.step(NOW).stats;
    assert_eq!((hits(stats), stats.prefill_tokens), ((18, 0), 18));
    engine.audit();
    drain(&mut engine);
    add_with(&mut engine, 3, prompt(3, 8, 1), AddOptions::default());
    assert_eq!(hits(engine.step(NOW).stats), (9, 8));
}
