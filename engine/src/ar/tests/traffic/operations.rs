//! Random operations of callers.

use proptest::prelude::*;

use crate::ar::*;
use crate::content::CacheSalt;

#[derive(Debug, Clone)]
pub(super) struct Arrival {
    /// Positions that every prompt begins with, in one of two versions.
    pub(super) common: u32,
    pub(super) version: u32,
    pub(super) own: u32,
    pub(super) life: u32,
    pub(super) shares: bool,
    pub(super) options: AddOptions,
}

#[derive(Debug, Clone)]
pub(super) enum Op {
    Add(Arrival),
    Push { nth: usize, rows: Vec<u32>, last: bool },
    Pause { nth: usize, paused: bool },
    End { nth: usize, stop: bool },
    FailNext,
    Steps(u32),
    Begin,
    Ahead { room: u8 },
    EndStep { fails: bool },
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let prompt = (0..16u32, 0..2u32, 1..14u32);
    let options = (any::<bool>(), 1..14u32, any::<bool>(), 0..2u64);
    (prompt, 0..14u32, prop::bool::weighted(0.8), options).prop_map(
        |((common, version, own), life, shares, (needs_rows, max_outputs, reuse_prefix, tenant))| {
            let options = AddOptions {
                needs_rows,
                prompt_rows: 0,
                max_outputs,
                reuse_prefix,
                salt: CacheSalt(tenant),
                repetition: None,
            };
            Arrival {
                common,
                version,
                own,
                life,
                shares,
                options,
            }
        },
    )
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let rows = prop::collection::vec(0..9u32, 0..6);
    prop_oneof![
        6 => arrival().prop_map(Op::Add),
        6 => (0..8usize, rows, any::<bool>()).prop_map(|(nth, rows, last)| Op::Push { nth, rows, last }),
        3 => (0..8usize, any::<bool>()).prop_map(|(nth, paused)| Op::Pause { nth, paused }),
        2 => (0..8usize, any::<bool>()).prop_map(|(nth, stop)| Op::End { nth, stop }),
        1 => Just(Op::FailNext),
        16 => (1..4u32).prop_map(Op::Steps),
    ]
}

/// With steps that are begun and ended apart.
pub(super) fn overlapped_op() -> impl Strategy<Value = Op> {
    let fails = prop::bool::weighted(0.05);
    prop_oneof![
        3 => op().prop_map(|op| match op {
            Op::Steps(_) => Op::Begin,
            op => op,
        }),
        2 => Just(Op::Begin),
        4 => prop_oneof![4 => Just(u8::MAX), 1 => any::<u8>()].prop_map(|room| Op::Ahead { room }),
        3 => fails.prop_map(|fails| Op::EndStep { fails }),
    ]
}

pub(super) fn config() -> impl Strategy<Value = ArConfig> {
    (1..5u32, 2..12u32, 1..8u32, 1..4u32, 0..5u32, any::<bool>()).prop_map(
        |(max_num_seqs, max_num_batched_tokens, max_prefill_tokens, floor, hold_patience, prefix_cache)| {
            ArConfig {
                max_num_seqs,
                max_num_batched_tokens,
                max_prefill_tokens,
                min_prefill_tokens: floor,
                max_waiting: 6,
                max_waiting_tokens: 90,
                hold_patience,
                prefix_cache,
                ..ArConfig::default()
            }
        },
    )
}
