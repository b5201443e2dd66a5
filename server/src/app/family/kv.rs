//! Memory for a stage's KV cache.

use anyhow::ensure;
use omni_models::KvOptions;

use crate::config::deploy::{ArStage, Weights};

/// The cache of a stage whose rows take `position` bytes per position.
pub(super) fn kv(stage: &ArStage, position: u64) -> anyhow::Result<KvOptions> {
    let block = position * u64::from(stage.kv_block_size);
    let num_blocks = match stage.kv_memory {
        None => stage.kv_blocks,
        Some(memory) => {
            ensure!(
                memory >= 2 * block,
                "kv.memory is {memory} bytes, two blocks of this checkpoint take {}",
                2 * block
            );
            let most = (1 << 31) / stage.kv_block_size;
            u32::try_from(memory / block).map_or(most, |blocks| blocks.min(most))
        }
    };
    Ok(KvOptions {
        block_size: stage.kv_block_size,
        num_blocks,
    })
}

/// Most memory for a talker's cache on a CPU unless `kv.memory` says more. A position of Qwen3-TTS takes 224 KiB.
const CPU_CACHE: u64 = 1 << 30;
/// The same where its weights are quantised, for machines with little: two minutes at 112 KiB a position.
const SMALL_CPU_CACHE: u64 = 160 << 20;

/// `kv` within [`CPU_CACHE`] or [`SMALL_CPU_CACHE`] on a CPU.
pub(super) fn bounded(kv: KvOptions, stage: &ArStage, position: u64) -> KvOptions {
    if stage.kv_memory.is_some() || stage.stage.devices.iter().any(|device| device.is_gpu()) {
        return kv;
    }
    let most = match stage.stage.weights {
        Weights::Int8 | Weights::Int4 => SMALL_CPU_CACHE,
        _ => CPU_CACHE,
    };
    let fit = most / (position * u64::from(kv.block_size)).max(1);
    KvOptions {
        num_blocks: kv.num_blocks.min(u32::try_from(fit).unwrap_or(u32::MAX).max(2)),
        ..kv
    }
}

/// Positions of the longest sequence that a cache holds: its first block is not handed out.
pub(super) fn longest(kv: &KvOptions) -> u32 {
    kv.block_size.saturating_mul(kv.num_blocks.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use omni_models::TALKER;

    use crate::config::deploy::resolve;

    fn talker(sets: &[&str]) -> ArStage {
        let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
        resolve(None, &sets, 1).unwrap().deploy.ar(TALKER).clone()
    }

    #[test]
    fn blocks_on_a_cpu_are_bounded_unless_their_memory_is_given() {
        let blocks = |sets: &[&str]| {
            let stage = talker(sets);
            let kv = kv(&stage, 224 << 10).unwrap();
            bounded(kv, &stage, 224 << 10).num_blocks
        };
        assert_eq!(blocks(&[]), (1 << 30) / (16 * (224 << 10)));
        assert_eq!(
            blocks(&["stages.talker.weights=int8"]),
            (160 << 20) / (16 * (224 << 10))
        );
        assert_eq!(blocks(&["stages.talker.kv.blocks=100"]), 100);
        assert_eq!(
            blocks(&["stages.talker.kv.memory=2GiB"]),
            (2 << 30) / (16 * (224 << 10))
        );
    }

    #[test]
    fn a_cache_has_the_blocks_that_were_asked_for_or_as_many_as_fit() {
        let blocks = |sets: &[&str]| {
            kv(&talker(sets), 1024)
                .map(|kv| (kv.block_size, kv.num_blocks))
                .unwrap()
        };
        assert_eq!(blocks(&["stages.talker.kv.blocks=7"]), (16, 7));
        assert_eq!(blocks(&["stages.talker.kv.memory=1MiB"]), (16, 64));
        assert_eq!(
            blocks(&[
                "stages.talker.kv.memory=1000KiB",
                "stages.talker.kv.block_size=32"
            ]),
            (32, 31)
        );
    }

    #[test]
    fn the_first_block_of_a_cache_holds_no_sequence() {
        let kv = kv(&talker(&["stages.talker.kv.blocks=7"]), 1024).unwrap();
        assert_eq!(longest(&kv), 96);
    }

    #[test]
    fn a_cache_too_small_for_two_blocks_is_refused_with_the_numbers() {
        let error = kv(&talker(&["stages.talker.kv.memory=31KiB"]), 1024).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("two blocks of this checkpoint take 32768"),
            "{error}"
        );
    }
}
