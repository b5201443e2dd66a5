//! Memory for a stage's KV cache.

use anyhow::{Context as _, ensure};
use omni_models::{KvOptions, Weights};

use crate::compute::{KvCache, StageCompute};

/// The cache of an autoregressive stage whose rows take `position` bytes per position.
pub(super) fn kv(stage: &StageCompute, position: u64) -> anyhow::Result<KvOptions> {
    let KvCache {
        block_size,
        blocks,
        memory,
    } = stage
        .kv
        .context("the plan gives an autoregressive stage no KV cache")?;
    let block = position * u64::from(block_size);
    let num_blocks = match memory {
        None => blocks,
        Some(memory) => {
            ensure!(
                memory >= 2 * block,
                "kv.memory is {memory} bytes, two blocks of this checkpoint take {}",
                2 * block
            );
            let most = (1 << 31) / block_size;
            u32::try_from(memory / block).map_or(most, |blocks| blocks.min(most))
        }
    };
    Ok(KvOptions {
        block_size,
        num_blocks,
    })
}

/// Most memory for a talker's cache on a CPU unless `kv.memory` says more. A position of Qwen3-TTS takes 224 KiB.
const CPU_CACHE: u64 = 1 << 30;
/// The same where its weights are quantised, for machines with little: 108 s at 112 KiB a position.
const SMALL_CPU_CACHE: u64 = 148 << 20;

/// `kv` within [`CPU_CACHE`] or [`SMALL_CPU_CACHE`] on a CPU.
pub(super) fn bounded(kv: KvOptions, stage: &StageCompute, position: u64) -> KvOptions {
    let given = stage.kv.is_some_and(|kv| kv.memory.is_some());
    if given || stage.devices.iter().any(|device| device.is_gpu()) {
        return kv;
    }
    let most = match stage.weights {
        Weights::Int8 | Weights::Int4 => SMALL_CPU_CACHE,
        _ => CPU_CACHE,
    };
    let fit = most / (position * u64::from(kv.block_size)).max(1);
    KvOptions {
        num_blocks: kv.num_blocks.min(u32::try_from(fit).unwrap_or(u32::MAX).max(2)),
        ..kv
    }
}

/// Positions of the longest sequence that a cache holds: its first block is never handed out.
pub(super) fn longest(kv: &KvOptions) -> u32 {
    kv.block_size.saturating_mul(kv.num_blocks.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use omni_models::DType;

    use crate::compute::Device;

    fn stage(blocks: u32, memory: Option<u64>, weights: Weights) -> StageCompute {
        StageCompute {
            devices: vec![Device::Cpu],
            dtype: DType::F32,
            weights,
            enforce_eager: false,
            in_server: true,
            kv: Some(KvCache {
                block_size: 16,
                blocks,
                memory,
            }),
        }
    }

    #[test]
    fn blocks_on_a_cpu_are_bounded_unless_their_memory_is_given() {
        const POSITION: u64 = 224 << 10;
        let blocks = |blocks, memory, weights| {
            let stage = stage(blocks, memory, weights);
            bounded(kv(&stage, POSITION).unwrap(), &stage, POSITION).num_blocks
        };
        let all = 100_000;
        assert_eq!(blocks(all, None, Weights::Stored), (1 << 30) / (16 * (224 << 10)));
        assert_eq!(blocks(all, None, Weights::Int8), (148 << 20) / (16 * (224 << 10)));
        assert_eq!(blocks(100, None, Weights::Stored), 100);
        assert_eq!(
            blocks(all, Some(2 << 30), Weights::Stored),
            (2 << 30) / (16 * (224 << 10))
        );
    }

    #[test]
    fn a_cache_has_the_blocks_that_were_asked_for_or_as_many_as_fit() {
        let blocks = |memory| kv(&stage(7, memory, Weights::Stored), 1024).unwrap().num_blocks;
        assert_eq!(blocks(None), 7);
        assert_eq!(blocks(Some(1 << 20)), 64);
        assert_eq!(blocks(Some(1000 << 10)), 62);
    }

    #[test]
    fn the_first_block_of_a_cache_holds_no_sequence() {
        let kv = kv(&stage(7, None, Weights::Stored), 1024).unwrap();
        assert_eq!(longest(&kv), 96);
    }

    #[test]
    fn a_cache_too_small_for_two_blocks_is_refused_with_the_numbers() {
        let error = kv(&stage(7, Some(31 << 10), Weights::Stored), 1024).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("two blocks of this checkpoint take 32768"),
            "{error}"
        );
    }
}
