//! A device with its kernels, and whether there is one.

use std::collections::HashMap;
use std::ffi::CString;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use cudarc::driver::{CudaContext, DriverError, result, sys};

use super::MODULES;
use super::failure::{failed, text};
use crate::device::{GpuError, Priority, Result};
use crate::kernels;
use crate::launch::{Kernel, MAX_SHARED};

/// The kinds of devices that they have machine code for: 90 is compute capability 9.0. All others get PTX, which the
/// driver compiles.
const ARCHS: &[i32] = include!(concat!(env!("OUT_DIR"), "/archs.rs"));

/// The version of CUDA whose compiler made them: 13.0 is 13000. See [`takes`].
pub(super) const VERSION: i32 = include!(concat!(env!("OUT_DIR"), "/version.rs"));

/// The oldest devices that the kernels are compiled for: bf16 and its tensor cores.
const OLDEST: (i32, i32) = (8, 0);

/// Compute capability, major, from which launches may begin before the ones before them end.
const OVERLAPS_FROM: i32 = 9;

/// Processors up to which a thread that waits for the device sleeps. With more it spins, which costs one of them and
/// answers sooner.
const FEW_PROCESSORS: usize = 4;

/// A device with its kernels.
pub(super) struct Loaded {
    pub(super) context: Arc<CudaContext>,
    pub(super) name: String,
    modules: Vec<sys::CUmodule>,
    /// `true` if the device and all kernels support launches that begin before the ones before them end.
    pub(super) overlaps: bool,
    /// `true` if threads that wait for the device sleep.
    pub(super) sleeps: bool,
    pub(super) kernels: HashMap<&'static str, sys::CUfunction>,
}

#[expect(unsafe_code, reason = "handles of the driver")]
// SAFETY: modules and functions are handles that the driver lets any thread use; they are not changed after loading.
unsafe impl Send for Loaded {}
#[expect(unsafe_code, reason = "handles of the driver")]
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_err() {
            return;
        }
        for &module in &self.modules {
            #[expect(unsafe_code, reason = "the driver's interface is C")]
            // SAFETY: loaded by `Loaded::new`, unloaded here only; queues, which use its functions, keep `self` alive.
            let unloaded = unsafe { result::module::unload(module) };
            // An error here has been reported before.
            let _ = unloaded;
        }
    }
}

fn no_device(ordinal: usize, error: DriverError) -> GpuError {
    GpuError::Unavailable(format!("device {ordinal}: {}", text(error)))
}

/// 13000 is 13.0.
pub(super) fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Returns true if a driver for CUDA `driver` takes kernels that `compiler` made for a device: machine code of its
/// own major version, PTX of no later version than its own.
fn takes(driver: i32, compiler: i32, (major, minor): (i32, i32), archs: &[i32]) -> bool {
    let machine_code = archs.iter().any(|arch| arch / 10 == major && arch % 10 <= minor);
    driver >= compiler || (machine_code && driver / 1000 == compiler / 1000)
}

/// Returns true if the driver's library can be loaded.
fn driver_is_there() -> bool {
    #[expect(unsafe_code, reason = "loading a library runs its code")]
    // SAFETY: only the driver's own library is looked for, whose initialisers have no conditions.
    unsafe {
        sys::is_culib_present()
    }
}

/// The name of a device, if it can be used.
pub(super) fn probe(ordinal: usize) -> Result<String> {
    let unavailable = |reason: String| GpuError::Unavailable(reason);
    if MODULES.is_empty() {
        return Err(unavailable(
            "this program was built without the kernels (nvcc was not found): build it with `make cuda`"
                .into(),
        ));
    }
    if !driver_is_there() {
        return Err(unavailable(
            "the NVIDIA driver (libcuda.so.1) was not found".into(),
        ));
    }
    let mut version: i32 = 0;
    #[expect(unsafe_code, reason = "the driver's interface is C")]
    // SAFETY: it writes one number.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(failed("cuDriverGetVersion"))?;
    result::init().map_err(|e| no_device(ordinal, e))?;
    let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
    let device = result::device::get(number).map_err(|e| no_device(ordinal, e))?;
    let name = result::device::get_name(device).map_err(failed("cuDeviceGetName"))?;
    let attribute = |which| {
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: the device is one that the driver has just named.
        unsafe { result::device::get_attribute(device, which) }.map_err(failed("cuDeviceGetAttribute"))
    };
    let capability = (
        attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    if !takes(version, VERSION, capability, ARCHS) {
        return Err(unavailable(format!(
            "the NVIDIA driver is for CUDA {}, the kernels are compiled for {}",
            dotted(version),
            dotted(VERSION)
        )));
    }
    if capability < OLDEST {
        let (major, minor) = capability;
        let (least, _) = OLDEST;
        return Err(unavailable(format!(
            "{name} has compute capability {major}.{minor}, expected at least {least}.0"
        )));
    }
    Ok(name)
}

impl Loaded {
    pub(super) fn new(ordinal: usize) -> Result<Self> {
        let name = probe(ordinal)?;
        let context = CudaContext::new(ordinal).map_err(|e| no_device(ordinal, e))?;
        #[expect(unsafe_code, reason = "it is about buffers of a kind that is not used here")]
        // SAFETY: events are for the library's own buffers, and there are none. With them the first queue of a context
        // would wait for the whole device, which is an error while another thread records.
        unsafe {
            context.disable_event_tracking();
        }
        let mut loaded = Self {
            context,
            name,
            modules: Vec::new(),
            overlaps: true,
            sleeps: available_parallelism().map_or(1, NonZero::get) <= FEW_PROCESSORS,
            kernels: HashMap::new(),
        };
        if loaded.sleeps {
            loaded
                .context
                .set_flags(sys::CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC)
                .map_err(failed("cuCtxSetFlags"))?;
        }
        loaded.load()?;
        Ok(loaded)
    }

    /// Loads every module and finds every kernel of the table.
    fn load(&mut self) -> Result<()> {
        let mut modules = HashMap::new();
        for (name, binary) in MODULES {
            // As nvcc places them in programs of its own: at multiples of eight.
            let word = |bytes: &[u8]| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_ne_bytes(word)
            };
            let aligned: Vec<u64> = binary.chunks(8).map(word).collect();
            #[expect(unsafe_code, reason = "the driver's interface is C")]
            // SAFETY: what nvcc wrote: a fat binary, which knows its own length and is not needed once it is loaded.
            let module = unsafe { result::module::load_data(aligned.as_ptr().cast()) };
            let module = module.map_err(failed("cuModuleLoadData"))?;
            self.modules.push(module);
            modules.insert(*name, module);
        }
        for kernel in kernels::all() {
            let missing = |reason: String| GpuError::Kernel {
                kernel: kernel.name,
                reason,
            };
            let Some(&module) = modules.get(kernel.module) else {
                return Err(missing(format!("there is no module {}", kernel.module)));
            };
            let name = CString::new(kernel.name).map_err(|e| missing(e.to_string()))?;
            #[expect(unsafe_code, reason = "the driver's interface is C")]
            // SAFETY: the module is loaded.
            let function =
                unsafe { result::module::get_function(module, name) }.map_err(|e| missing(text(e)))?;
            self.prepare(function, kernel)
                .map_err(|e| missing(text(e)))?
                .map_or(Ok(()), |reason| Err(missing(reason)))?;
            self.kernels.insert(kernel.name, function);
        }
        Ok(())
    }

    /// Sets a function's attributes and reads them, which loads it onto the device: lazy loading might otherwise
    /// happen while recording. Returns the reason it cannot be used, if any.
    fn prepare(
        &mut self,
        function: sys::CUfunction,
        kernel: &Kernel,
    ) -> std::result::Result<Option<String>, DriverError> {
        use sys::CUfunction_attribute as A;
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: the function is one of a module that stays loaded.
        let (threads, arch) = unsafe {
            if kernel.shared > MAX_SHARED {
                let most = i32::try_from(kernel.shared).unwrap_or(i32::MAX);
                let which = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                result::function::set_function_attribute(function, which, most)?;
            }
            let attribute = |which| result::function::get_function_attribute(function, which);
            (
                attribute(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
                attribute(A::CU_FUNC_ATTRIBUTE_PTX_VERSION)?,
            )
        };
        // A kernel that was compiled for older devices does not wait for the launches before it: nothing may begin
        // early then.
        self.overlaps &= arch >= 10 * OVERLAPS_FROM;
        let wanted = kernel.threads;
        Ok((i64::from(threads) < i64::from(wanted))
            .then(|| format!("blocks of {threads} threads fit, expected {wanted}")))
    }

    /// Flags of events, which decide on the way that threads wait for them.
    pub(super) fn event_flags(&self) -> sys::CUevent_flags {
        if self.sleeps {
            sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC
        } else {
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING
        }
    }

    /// The driver's number of a queue's priority.
    pub(super) fn priority(&self, priority: Priority) -> Result<i32> {
        self.context.bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        let (least, greatest) =
            result::stream::get_priority_range().map_err(failed("cuCtxGetStreamPriorityRange"))?;
        Ok(match priority {
            Priority::Usual => least,
            Priority::Urgent => greatest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_takes_machine_code_of_its_major_version_and_ptx_up_to_its_own() {
        let hopper = (9, 0);
        assert!(takes(13000, 13000, hopper, &[80]));
        assert!(takes(12040, 12090, hopper, &[80, 90]));
        assert!(!takes(12040, 12090, hopper, &[80]), "PTX of a later version");
        assert!(!takes(12090, 13000, hopper, &[90]), "another major version");
        assert!(
            takes(12040, 12090, (8, 9), &[80]),
            "machine code for 8.0 runs on 8.9"
        );
        assert!(!takes(12040, 12090, (8, 0), &[89]));
    }
}
