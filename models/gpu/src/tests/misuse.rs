//! Misuse that CUDA leaves undefined and the emulator refuses: faulty kernels, from `emulator/misuse.cu`.

use super::Lab;
use crate::launch::{Arg, Args, Dims, Kernel};
use crate::{Float, Launch, Order};

const fn wrong(name: &'static str, params: &'static str) -> Kernel {
    Kernel {
        name,
        module: "misuse",
        params,
        threads: 64,
        shared: crate::launch::MAX_SHARED,
    }
}

static EARLY_END: Kernel = wrong("misuse_early_end", "u");
static TWO_BARRIERS: Kernel = wrong("misuse_two_barriers", "u");
static MISSING_LANES: Kernel = wrong("misuse_missing_lanes", "u");
static BEYOND_SHARED: Kernel = wrong("misuse_beyond_shared", "u");
static BEYOND_PREFETCHED: Kernel = wrong("misuse_beyond_prefetched", "pu");
static NOT_ALIGNED: Kernel = wrong("misuse_not_aligned", "ppu");
static COPIES: Kernel = wrong("misuse_copies", "ppuu");
static MISSING_BARRIER: Kernel = wrong("misuse_missing_barrier", "p");

/// One block of 64 threads with 256 bytes of shared memory.
fn launch(kernel: &'static Kernel, args: &[(u8, u64)]) -> Launch {
    Launch {
        kernel,
        grid: Dims([1, 1, 1]),
        block: Dims([64, 1, 1]),
        shared: 256,
        args: Args::new(args),
    }
}

/// Error of a kernel with the argument `wrong`, after it has run with `right`.
fn said(kernel: &'static Kernel, right: u32, wrong: u32) -> String {
    let lab = Lab::new(Float::F32, Order::Forwards);
    lab.run(&launch(kernel, &[right.arg()]));
    let error = lab.device.launch(&launch(kernel, &[wrong.arg()]));
    let said = error.expect_err("this must not pass").to_string();
    // Nothing of it is left for the next one.
    lab.run(&launch(kernel, &[right.arg()]));
    said
}

#[test]
fn a_barrier_that_some_threads_never_meet() {
    for wrong in [1, 63] {
        let text = said(&EARLY_END, 64, wrong);
        assert!(text.contains("end of a thread for which others wait"), "{text}");
    }
}

#[test]
fn barriers_at_two_places() {
    let text = said(&TWO_BARRIERS, 0, 40);
    assert!(text.contains("threads at different barriers"), "{text}");
}

#[test]
fn an_exchange_without_all_lanes() {
    let text = said(&MISSING_LANES, 32, 40);
    assert!(text.contains("threads wait for others that never come"), "{text}");
}

#[test]
fn shared_memory_has_an_end() {
    let text = said(&BEYOND_SHARED, 63, 64);
    assert!(text.contains("access outside its buffer"), "{text}");
}

#[test]
fn what_is_asked_for_ahead_lies_in_its_buffer() {
    let lab = Lab::new(Float::F32, Order::Forwards);
    let x = lab.floats(&[1.0; 64]);
    lab.run(&launch(&BEYOND_PREFETCHED, &[x.arg(), 63_u32.arg()]));
    let error = lab
        .device
        .launch(&launch(&BEYOND_PREFETCHED, &[x.arg(), 64_u32.arg()]));
    let said = error.expect_err("this must not pass").to_string();
    assert!(said.contains("access outside its buffer"), "{said}");
}

#[test]
fn vectors_must_be_aligned() {
    let lab = Lab::new(Float::F32, Order::Forwards);
    let out = lab.floats(&[0.0; 64]);
    let x = lab.floats(&[1.0; 64]);
    lab.run(&launch(&NOT_ALIGNED, &[out.arg(), x.arg(), 4_u32.arg()]));
    let error = lab
        .device
        .launch(&launch(&NOT_ALIGNED, &[out.arg(), x.arg(), 2_u32.arg()]));
    let said = error.expect_err("this must not pass").to_string();
    assert!(said.contains("access that is not aligned"), "{said}");
}

/// A missing barrier shows when the order of threads changes; unwritten memory reads as NaN.
#[test]
fn the_order_of_threads_shows_where_a_barrier_is_missing() {
    let seen = [Order::Forwards, Order::Backwards].map(|order| {
        let lab = Lab::new(Float::F32, order);
        let out = lab.floats(&[0.0; 64]);
        lab.run(&launch(&MISSING_BARRIER, &[out.arg()]));
        lab.read_floats(out, 64)
    });
    let numbers = |values: &[f32]| values.iter().filter(|v| !v.is_nan()).count();
    assert_eq!((numbers(&seen[0]), numbers(&seen[1])), (1, 63));
}

#[test]
fn what_is_copied_is_no_number_before_it_was_waited_for() {
    let lab = Lab::new(Float::F32, Order::Forwards);
    let out = lab.floats(&[0.0; 64]);
    let x = lab.floats(&[1.0; 64]);
    let copy = |late: u32, left: u32| {
        lab.device
            .launch(&launch(&COPIES, &[out.arg(), x.arg(), late.arg(), left.arg()]))
    };
    copy(0, 0).expect("waited for in time");
    assert_eq!(lab.read_floats(out, 64), [1.0; 64]);
    copy(1, 0).expect("waited for too late");
    // The first thread waits behind its own reading, which others then come after.
    assert!(lab.read_floats(out, 64)[0].is_nan());
    let error = copy(1, 1).expect_err("never waited for").to_string();
    assert!(error.contains("has not waited for its copies"), "{error}");
    copy(0, 0).expect("nothing of it is left");
}
