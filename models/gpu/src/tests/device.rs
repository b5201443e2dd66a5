use std::collections::BTreeMap;

use super::{Lab, numbers};
use crate::device::{Allocate, Copies, Device, GpuError, Graphs, Memory, Staging};
use crate::kernels::{self, Copy, Gather};
use crate::{Address, Dims, Emulated, Float, Order};

#[test]
fn the_table_lists_the_kernels_that_there_are() {
    let table = kernels::all().map(|k| (k.name.to_owned(), (k.params.to_owned(), k.threads)));
    let table: BTreeMap<_, _> = table.collect();
    let there = Emulated::kernels()
        .into_iter()
        .filter(|(name, ..)| !name.starts_with("misuse_"))
        .map(|(name, params, threads)| (name, (params, threads)));
    let there: BTreeMap<_, _> = there.collect();
    assert_eq!(table, there);
}

#[test]
fn every_kernel_is_in_the_file_that_the_table_names() {
    for kernel in kernels::all() {
        let path = format!("{}/kernels/{}.cu", env!("CARGO_MANIFEST_DIR"), kernel.module);
        let source = std::fs::read_to_string(&path).expect("a kernel file");
        let symbol = kernel.name.trim_end_matches("_bf16").trim_end_matches("_f32");
        assert!(
            source.contains(&format!("({symbol},")),
            "{symbol} is not in {path}"
        );
    }
}

#[test]
fn what_is_recorded_runs_when_it_is_replayed_and_not_before() {
    let lab = Lab::new(Float::F32, Order::Forwards);
    let device = lab.device.as_emulated();
    let from = lab.words(&[1, 2, 3]);
    let to = lab.words(&[0; 3]);
    let copy = Copy { to, from, words: 3 };
    device.record().expect("idle");
    lab.run(&copy.launch());
    assert!(matches!(
        device.upload(from, &[0; 4]),
        Err(GpuError::Recording(_))
    ));
    assert!(matches!(
        device.download(from, &mut [0; 4]),
        Err(GpuError::Recording(_))
    ));
    assert!(matches!(device.record(), Err(GpuError::Recording(_))));
    let graph = device.recorded().expect("a recording");
    assert_eq!(graph.launches(), [copy.launch()]);
    assert_eq!(lab.read_words(to, 3), [0; 3]);
    device.replay(&graph).expect("replayed");
    assert_eq!(lab.read_words(to, 3), [1, 2, 3]);
    assert_eq!((device.launches_run(), device.graphs_replayed()), (1, 1));
    // Same launches on new content.
    device.upload(from, &[9; 12]).expect("room");
    device.replay(&graph).expect("replayed");
    assert_eq!(lab.read_words(to, 3), [0x0909_0909; 3]);
    assert!(matches!(device.recorded(), Err(GpuError::Recording(_))));
}

/// Error of the emulator for a launch.
fn complaint(lab: &Lab, launch: &crate::Launch) -> String {
    lab.device
        .launch(launch)
        .expect_err("this must not pass")
        .to_string()
}

#[test]
fn a_kernel_that_leaves_its_buffers_is_caught() {
    let lab = Lab::new(Float::F32, Order::Forwards);
    let gather = Gather {
        out: lab.room(8),
        x: lab.rows(&numbers(8, 1)),
        index: lab.words(&[0, 1]),
        count: 3,
        rows: 2,
        width: 4,
        stride: 1,
    };
    let said = complaint(&lab, &gather.launch(Float::F32));
    assert!(
        said.starts_with("kernel gather_f32: access outside its buffer") && said.contains("block (2, 0, 0)"),
        "{said}"
    );
    let nowhere = Gather {
        x: Address(8),
        ..gather
    };
    let said = complaint(&lab, &nowhere.launch(Float::F32));
    assert!(said.contains("address outside all buffers"), "{said}");
    let none = Gather {
        index: Address::NONE,
        ..gather
    };
    assert!(complaint(&lab, &none.launch(Float::F32)).contains("access outside its buffer"));
}

#[test]
fn launches_beyond_the_limits_are_refused() {
    let lab = Lab::new(Float::F32, Order::Forwards);
    let device = lab.device.as_emulated();
    let words = lab.words(&[0; 4]);
    let good = Copy {
        to: words,
        from: words,
        words: 4,
    }
    .launch();
    let mut launch = good;
    launch.block = Dims([512, 1, 1]);
    assert!(complaint(&lab, &launch).contains("512 threads per block, expected 1 to 256"));
    launch.block = Dims([48, 1, 1]);
    assert!(complaint(&lab, &launch).contains("expected whole warps of 32"));
    let mut launch = good;
    launch.shared = 64 * 1024;
    assert!(complaint(&lab, &launch).contains("65536 bytes of shared memory"));
    let mut launch = good;
    launch.grid = Dims([1, 70_000, 1]);
    assert!(complaint(&lab, &launch).contains("a grid of [1, 70000, 1]"));
    let mut launch = good;
    launch.grid = Dims([0, 1, 1]);
    lab.device.launch(&launch).expect("nothing to do");
    assert_eq!(device.launches_run(), 0);
}

#[test]
fn copies_beyond_a_buffer_are_refused() {
    let lab = Lab::new(Float::F32, Order::Forwards);
    let device = lab.device.as_emulated();
    let words = lab.words(&[1, 2]);
    assert!(device.upload(words, &[0; 9]).is_err());
    assert!(device.download(words.offset(4), &mut [0; 8]).is_err());
    assert_eq!(lab.read_words(words.offset(4), 1), [2]);
}

#[test]
fn a_late_device_does_nothing_before_somebody_waits_and_then_no_more_than_that() {
    let device = Emulated::late();
    let memory = [device.alloc(8).expect("memory"), device.alloc(8).expect("memory")];
    let [from, to] = [memory[0].address(), memory[1].address()];
    let copy = Copy { to, from, words: 2 }.launch();
    device.upload(from, &[1; 8]).expect("room");
    let staging = || device.staging(8).expect("memory");
    device.launch(&copy).expect("no flaw");
    let first = device.download_async(to, staging(), 8).expect("a buffer");
    let mut sent = staging();
    sent.content_mut().fill(2);
    device.upload_async(from, &sent, 8).expect("room");
    device.launch(&copy).expect("no flaw");
    let second = device.download_async(to, staging(), 8).expect("a buffer");
    let third = device.download_async(to, staging(), 8).expect("a buffer");
    assert_eq!(device.launches_run(), 0);
    let first = device.wait_copy(first).expect("done");
    assert_eq!((device.launches_run(), first.content()), (1, &[1; 8][..]));
    // Too early: overwrites the content before it was read.
    sent.content_mut().fill(3);
    let second = device.wait_copy(second).expect("done");
    assert_eq!((device.launches_run(), second.content()), (2, &[3; 8][..]));
    drop(third);
    device.wait().expect("nothing to do");
    assert!(device.upload_async(from, &sent, 9).is_err());
    assert!(device.download_async(from, sent, 9).is_err());
}

#[test]
#[should_panic(expected = "before the device was done with it")]
fn host_memory_given_back_too_early_is_caught() {
    let device = Emulated::late();
    let memory = device.alloc(8).expect("memory");
    let staging = device.staging(8).expect("memory");
    device.upload_async(memory.address(), &staging, 8).expect("room");
}

#[test]
fn what_goes_wrong_on_a_late_device_is_told_by_everybody_who_waits() {
    let device = Emulated::late();
    let memory = device.alloc(8).expect("memory");
    let beyond = Copy {
        to: memory.address(),
        from: memory.address(),
        words: 3,
    };
    device.launch(&beyond.launch()).expect("no flaw to be seen yet");
    for _ in 0..2 {
        assert!(matches!(
            device.wait(),
            Err(GpuError::Kernel { kernel: "copy", .. })
        ));
    }
}
