use half::bf16;
use proptest::prelude::*;

use super::sample::philox;
use super::{Lab, each_type};
use crate::kernels::Uniform;
use crate::{Address, Float, Order};

/// Elements as a host makes them.
fn elements(seed: u64, tensor: u64, step: f32, count: usize) -> Vec<f32> {
    let element = |i: usize| {
        let counter = [(i / 8) as u32, tensor as u32, (tensor >> 32) as u32, 0];
        let half = philox(counter, seed)[i % 8 / 2] >> (16 * (i % 2)) & 0xffff;
        let whole = i64::from(half) * 2 + 1 - 65_536;
        bf16::from_f32(whole as f32 * step).to_f32()
    };
    (0..count).map(element).collect()
}

fn made(lab: &Lab, out: Address, seed: u64, tensor: u64, step: f32, count: usize) -> Vec<f32> {
    let uniform = Uniform {
        out,
        count: count as u32,
        seed,
        tensor,
        step,
    };
    lab.run(&uniform.launch(lab.float));
    lab.read(out, count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn uniform_numbers_are_those_of_the_host_to_the_last_bit(
        seed in any::<u64>(), tensor in any::<u64>(), count in 1_usize..5000, aligned in any::<bool>(), spread in 1e-4_f32..2.0,
    ) {
        let step = spread / 65_536.0;
        each_type(
            |lab| {
                // Behind another part of the same buffer, so that it may be unaligned.
                let skipped = if aligned { 0 } else { lab.float.bytes() };
                let out = lab.room(count + 1).offset(skipped);
                made(lab, out, seed, tensor, step, count)
            },
            |_, got| assert_eq!(got, elements(seed, tensor, step, count)),
        );
    }
}

#[test]
fn more_numbers_than_threads_are_all_made() {
    let count = 4096 * 256 * 8 + 24;
    let lab = Lab::new(Float::Bf16, Order::Forwards);
    let out = lab.room(count);
    let got = made(&lab, out, 7, 9, 1e-6, count);
    assert_eq!(got, elements(7, 9, 1e-6, count));
}
