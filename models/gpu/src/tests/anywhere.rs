//! The emulator or a device, as the tests need them.

use std::cell::RefCell;

use crate::device::{Copies as _, Device, Memory, Result};
use crate::{Address, Emulated, Launch};

/// Device that runs the tests, with the buffers that it holds.
pub(super) enum Anywhere {
    Emulated(On<Emulated>),
    #[cfg(feature = "cuda")]
    Cuda(On<crate::Cuda>),
}

pub(super) struct On<D: Device> {
    device: D,
    kept: RefCell<Vec<D::Memory>>,
}

impl<D: Device> On<D> {
    fn new(device: D) -> Self {
        Self {
            device,
            kept: RefCell::default(),
        }
    }

    fn room(&self, bytes: usize) -> Address {
        let memory = self.device.alloc(bytes).expect("memory");
        let address = memory.address();
        self.kept.borrow_mut().push(memory);
        address
    }
}

/// Calls the same expression on either kind.
macro_rules! each {
    ($self:expr, $on:ident => $what:expr) => {
        match $self {
            Anywhere::Emulated($on) => $what,
            #[cfg(feature = "cuda")]
            Anywhere::Cuda($on) => $what,
        }
    };
}

impl Anywhere {
    pub(super) fn emulated(device: Emulated) -> Self {
        Self::Emulated(On::new(device))
    }

    /// A real device, if the crate has them and there is one; where `OMNI_TEST_REQUIRE_DEVICE` is set, there must be.
    pub(super) fn device() -> Option<Self> {
        #[cfg(feature = "cuda")]
        {
            static DEVICE: std::sync::OnceLock<Option<crate::Cuda>> = std::sync::OnceLock::new();
            let device = DEVICE.get_or_init(|| match std::env::var_os("OMNI_TEST_REQUIRE_DEVICE") {
                Some(_) => Some(crate::Cuda::open(0).expect("a device")),
                None => crate::Cuda::open(0).ok(),
            });
            let device = device.as_ref()?;
            Some(Self::Cuda(On::new(
                device.fork(crate::Priority::Usual).expect("another queue"),
            )))
        }
        #[cfg(not(feature = "cuda"))]
        None
    }

    /// The emulator.
    pub(super) fn as_emulated(&self) -> &Emulated {
        #[cfg_attr(
            not(feature = "cuda"),
            expect(irrefutable_let_patterns, reason = "there is one kind")
        )]
        let Self::Emulated(on) = self else {
            unreachable!("a test of the emulator")
        };
        &on.device
    }

    pub(super) fn room(&self, bytes: usize) -> Address {
        each!(self, on => on.room(bytes))
    }

    pub(super) fn upload(&self, to: Address, bytes: &[u8]) {
        each!(self, on => on.device.upload(to, bytes)).expect("room for it");
    }

    pub(super) fn download(&self, from: Address, bytes: &mut [u8]) {
        each!(self, on => on.device.download(from, bytes)).expect("a buffer");
    }

    pub(super) fn launch(&self, launch: &Launch) -> Result<()> {
        each!(self, on => on.device.launch(launch))
    }
}
