//! The code that talks to NVIDIA's driver: with none, with the one that there is, and with one that runs the emulator
//! (`emulator/driver.cpp`), through which all other tests go once more.

use std::path::Path;
use std::process::Command;

use crate::device::{Allocate as _, Copies as _, Device as _, GpuError, Graphs as _, Memory, Staging};
use crate::kernels::Copy;
use crate::{Address, Cuda};

/// Set in the process that has the emulated driver.
const EMULATED: &str = "OMNI_TEST_EMULATED_DRIVER";
/// Set in the process whose emulated driver is an old one, to its version.
const OLD: &str = "OMNI_TEST_DRIVER_VERSION";
/// Set in the process whose emulated device is a newer one, to its compute capability.
const NEWER: &str = "OMNI_TEST_CAPABILITY";
/// Set in the process whose context is to be lost.
const LOSES: &str = "OMNI_TEST_LOSES_CONTEXT";

#[test]
fn without_a_device_opening_one_says_so() {
    match Cuda::open(0) {
        Ok(device) => assert!(!device.name().is_empty()),
        Err(GpuError::Unavailable(reason)) => assert!(!reason.is_empty()),
        Err(other) => panic!("expected a device or none, found: {other}"),
    }
    assert!(matches!(Cuda::open(4711), Err(GpuError::Unavailable(_))));
    assert!(matches!(Cuda::probe(4711), Err(GpuError::Unavailable(_))));
    assert_eq!(
        Cuda::probe(0).ok(),
        Cuda::open(0).ok().map(|device| device.name())
    );
}

/// Run in a process of its own by the next test.
#[test]
fn a_driver_older_than_the_kernels_is_no_driver() {
    if std::env::var_os(OLD).is_none() {
        return;
    }
    for refused in [Cuda::probe(0).err(), Cuda::open(0).err()] {
        let Some(GpuError::Unavailable(reason)) = refused else {
            panic!("expected a refusal, found {refused:?}");
        };
        assert!(reason.contains("the NVIDIA driver is for CUDA 11.4"), "{reason}");
    }
}

/// Run in a process of its own by the last test: a lost context fails everything after it.
#[test]
fn a_context_that_is_lost_is_told_from_a_call_that_failed() {
    if std::env::var_os(LOSES).is_none() {
        return;
    }
    let device = Cuda::open(0).expect("the emulated driver has a device");
    let other = device.fork(crate::Priority::Usual).expect("another queue");
    let memory = device.alloc(256).expect("memory");
    let refused = device.upload(Address(7), &[0; 4]);
    assert!(matches!(refused, Err(GpuError::Driver { .. })), "{refused:?}");
    assert_eq!((device.lost(), other.lost()), (None, None));
    // Two words of the last are beyond the buffer.
    let to = memory.address();
    let from = memory.address().offset(248);
    let words = 4;
    device
        .launch(&Copy { to, from, words }.launch())
        .expect("asked for");
    let failed = device.wait();
    assert!(matches!(failed, Err(GpuError::Lost { .. })), "{failed:?}");
    for queue in [&device, &other] {
        let reason = queue.lost().expect("every queue of the context is lost");
        assert!(reason.contains("the device is lost to this process"), "{reason}");
    }
    assert!(matches!(other.wait(), Err(GpuError::Lost { .. })));
    assert!(
        device
            .fork(crate::Priority::Urgent)
            .is_ok_and(|queue| queue.lost().is_some())
    );
}

/// Through a real or emulated driver.
#[test]
fn a_device_copies_records_and_replays() {
    let Ok(device) = Cuda::open(0) else {
        assert!(
            std::env::var_os(EMULATED).is_none(),
            "the emulated driver has a device"
        );
        return;
    };
    let memory = [
        device.alloc(256).expect("memory"),
        device.alloc(256).expect("memory"),
    ];
    let [from, to] = [memory[0].address(), memory[1].address()];
    let mut staging = device.staging(256).expect("memory");
    assert_eq!(staging.content(), [0; 256]);
    staging.content_mut().fill(3);
    device.upload(to, &[1; 256]).expect("room");
    device.upload_async(from, &staging, 256).expect("room");
    let copy = Copy { to, from, words: 32 }.launch();

    device.record().expect("idle");
    assert!(matches!(device.record(), Err(GpuError::Recording(_))));
    device.launch(&copy).expect("recorded");
    assert!(matches!(
        device.upload(from, &[0; 4]),
        Err(GpuError::Recording(_))
    ));
    assert!(matches!(device.wait(), Err(GpuError::Recording(_))));
    let graph = device.recorded().expect("a graph");
    assert!(matches!(device.recorded(), Err(GpuError::Recording(_))));

    // Nothing has run yet; afterwards the first half is the uploaded data.
    let mut seen = [0; 256];
    device.download(to, &mut seen).expect("a buffer");
    assert_eq!(seen, [1; 256]);
    device.replay(&graph).expect("replayed");
    let pending = device.download_async(to, staging, 256).expect("a buffer");
    let staging = device.wait_copy(pending).expect("done");
    assert!(!device.take_busy().is_zero(), "a graph has run");
    assert!(device.take_busy().is_zero(), "and was told of");
    assert_eq!(staging.content()[..128], [3; 128]);
    assert_eq!(staging.content()[128..], [1; 128]);

    // Other content, another queue, a graph with nothing in it.
    device.upload(from, &[7; 256]).expect("room");
    device.replay(&graph).expect("replayed");
    device.wait().expect("done");
    let other = device.fork(crate::Priority::Urgent).expect("another queue");
    other.download(to, &mut seen).expect("a buffer");
    assert_eq!(seen[..128], [7; 128]);
    other.record().expect("idle");
    let empty = other.recorded().expect("a graph");
    other.replay(&empty).expect("nothing to do");
    other.wait().expect("done");
    assert!(device.room().expect("figures").1 > 0);
    assert!(matches!(device.alloc(1 << 50), Err(GpuError::Memory { .. })));
    assert!(device.upload_async(from, &staging, 257).is_err());
    device.upload(Address::NONE, &[]).expect("nothing to do");
}

/// Runs this program's tests where the driver is the emulated one.
#[test]
fn everything_goes_through_a_driver_as_well() {
    if crate::cuda::MODULES.is_empty() || std::env::var_os(EMULATED).is_some() {
        return;
    }
    let folder = Path::new(env!("OUT_DIR")).join("driver");
    std::fs::create_dir_all(&folder).expect("a writable build directory");
    let library = folder.join("libcuda.so.1");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("c++")
        .args([
            "-std=c++17",
            "-O1",
            "-fPIC",
            "-shared",
            "-ffp-contract=off",
            "-Wno-unknown-pragmas",
        ])
        .arg("-I")
        .arg(root.join("kernels"))
        .arg("-I")
        .arg(env!("OUT_DIR"))
        .arg("-o")
        .arg(&library)
        .arg(root.join("emulator/driver.cpp"))
        .status();
    assert!(built.expect("a compiler").success());
    let run = |args: &[&str], setting: Option<(&str, &str)>| {
        let mut tests = Command::new(std::env::current_exe().expect("this program"));
        tests
            .args(args)
            .env("LD_LIBRARY_PATH", &folder)
            .env(EMULATED, "1")
            .env_remove(OLD)
            .env_remove(NEWER)
            .env_remove(LOSES);
        if let Some((name, value)) = setting {
            tests.env(name, value);
        }
        let tests = tests.output().expect("this program runs");
        let said = String::from_utf8_lossy(&tests.stdout).into_owned();
        let complaints = String::from_utf8_lossy(&tests.stderr);
        assert!(tests.status.success(), "{said}{complaints}");
        said
    };
    run(&["--quiet", "--test-threads=1"], None);
    for (test, setting) in [
        ("a_driver_older_than_the_kernels", (OLD, "11040")),
        ("a_device_copies_records_and_replays", (NEWER, "9")),
        ("a_context_that_is_lost", (LOSES, "1")),
    ] {
        let said = run(&[test], Some(setting));
        assert!(said.contains("1 passed"), "{test}: {said}");
    }
}
