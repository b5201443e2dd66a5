//! A kernel launch as a value.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Most arguments of a kernel.
pub(crate) const MAX_ARGS: usize = 24;
/// Most threads of a block, on every device.
pub(crate) const MAX_THREADS: u32 = 1024;
/// Most bytes of dynamic shared memory of a block that need no permission.
pub(crate) const MAX_SHARED: u32 = 48 * 1024;
/// Most bytes of dynamic shared memory of a block, on every device that is supported, for kernels that ask for
/// permission.
pub(crate) const LARGE_SHARED: u32 = 96 * 1024;
/// Most blocks along the second and third dimension of a grid.
pub(crate) const MAX_GRID_YZ: u32 = 65_535;

/// A place in device memory; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Address(pub u64);

impl Address {
    /// No place: an optional argument that is not given.
    pub const NONE: Self = Self(0);

    /// `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }

    /// Returns true if it is not the null address.
    pub fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Returns true if 16 bytes can be moved at once from here.
    pub(crate) fn is_wide(self) -> bool {
        self.0.is_multiple_of(16)
    }
}

/// Element type of a kernel's rows. All compute in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Float {
    /// 4 bytes.
    F32,
    /// 2 bytes: the upper half of an f32.
    Bf16,
}

impl Float {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// One compiled kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Its symbol, unique among all.
    pub name: &'static str,
    /// The file in `kernels/` that has it.
    pub module: &'static str,
    /// The types of its parameters, a letter each: `p` an address, `u` a `u32`, `f` an `f32`.
    pub params: &'static str,
    /// The most threads of a block that it is compiled for.
    pub threads: u32,
    /// The most bytes of dynamic shared memory of a block.
    pub shared: u32,
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kernel {}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A number of blocks or threads in each dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims(pub [u32; 3]);

impl Dims {
    /// Product of all dimensions.
    pub fn count(self) -> u64 {
        self.0.iter().map(|&n| u64::from(n)).product()
    }
}

/// A kernel's arguments: the bits of each, widened to 64.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Args {
    bits: [u64; MAX_ARGS],
    params: [u8; MAX_ARGS],
    count: usize,
}

impl Args {
    pub(crate) fn new(values: &[(u8, u64)]) -> Self {
        let mut args = Self {
            bits: [0; MAX_ARGS],
            params: [0; MAX_ARGS],
            count: values.len(),
        };
        for (i, &(param, bits)) in values.iter().enumerate() {
            (args.params[i], args.bits[i]) = (param, bits);
        }
        args
    }

    /// The bits of every argument, in order.
    pub fn bits(&self) -> &[u64] {
        &self.bits[..self.count]
    }

    /// Their types, as in [`Kernel::params`].
    fn params(&self) -> &[u8] {
        &self.params[..self.count]
    }
}

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.bits()).finish()
    }
}

/// Complete description of a launch: equal ones do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Launch {
    /// Kernel to run.
    pub kernel: &'static Kernel,
    /// Blocks. If there are none, nothing is run.
    pub grid: Dims,
    /// Threads of a block.
    pub block: Dims,
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// Arguments of the kernel.
    pub args: Args,
}

impl Launch {
    /// Fault of the launch that no device accepts; `None` if it is valid.
    pub(crate) fn flaw(&self) -> Option<String> {
        let threads = self.block.count();
        let [_, y, z] = self.grid.0;
        if threads == 0 || threads > u64::from(self.kernel.threads.min(MAX_THREADS)) {
            return Some(format!(
                "{threads} threads per block, expected 1 to {}",
                self.kernel.threads
            ));
        }
        if !threads.is_multiple_of(32) {
            return Some(format!("{threads} threads per block, expected whole warps of 32"));
        }
        if self.shared > self.kernel.shared {
            return Some(format!(
                "{} bytes of shared memory, at most {} fit",
                self.shared, self.kernel.shared
            ));
        }
        if y > MAX_GRID_YZ || z > MAX_GRID_YZ {
            return Some(format!(
                "a grid of {:?}, at most {MAX_GRID_YZ} in y and z",
                self.grid.0
            ));
        }
        let given = self.args.params();
        let taken = self.kernel.params;
        (given != taken.as_bytes()).then(|| {
            let given = String::from_utf8_lossy(given);
            format!("arguments of types {given:?}, expected {taken:?}")
        })
    }
}

/// Something that a kernel takes.
pub(crate) trait Arg: Copy {
    /// The letter of its type and its bits.
    fn arg(self) -> (u8, u64);
}

impl Arg for Address {
    fn arg(self) -> (u8, u64) {
        (b'p', self.0)
    }
}

impl Arg for u32 {
    fn arg(self) -> (u8, u64) {
        (b'u', u64::from(self))
    }
}

impl Arg for bool {
    fn arg(self) -> (u8, u64) {
        (b'u', u64::from(self))
    }
}

impl Arg for f32 {
    fn arg(self) -> (u8, u64) {
        (b'f', u64::from(self.to_bits()))
    }
}
