//! An NVIDIA device through its driver, which is found at run time: without one this says so, and nothing panics.
//!
//! A queue is a stream, a graph a captured stream. Kernels are compiled when the crate is built (`build.rs`) and loaded
//! when a device is opened. No other part of CUDA is used.

mod memory;
mod timer;

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaGraph, CudaStream, DriverError, result, sys};

use crate::device::{Allocate, Copies, Device, GpuError, Graphs, Result};
use crate::kernels;
use crate::launch::{Address, Launch};

use timer::Timer;

pub use memory::{CudaMemory, CudaPendingCopy, CudaStaging};

/// The compiled kernels, a name and a binary per file of `kernels/`. None if nvcc was not there.
pub(crate) const MODULES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// The version of CUDA whose compiler made them: 13.0 is 13000. Older drivers refuse them.
const VERSION: i32 = include!(concat!(env!("OUT_DIR"), "/version.rs"));

/// The oldest devices that the kernels are compiled for: bf16 and its tensor cores.
const OLDEST: (i32, i32) = (8, 0);

/// See the module.
#[derive(Clone)]
pub struct Cuda {
    // Dropped first: it has the work that uses the kernels.
    stream: Arc<CudaStream>,
    device: Arc<Loaded>,
    recording: Arc<Mutex<bool>>,
    timer: Arc<Mutex<Timer>>,
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda")
            .field("name", &self.device.name)
            .field("stream", &self.stream.cu_stream())
            .finish_non_exhaustive()
    }
}

/// A device with its kernels.
struct Loaded {
    context: Arc<CudaContext>,
    name: String,
    modules: Vec<sys::CUmodule>,
    kernels: HashMap<&'static str, sys::CUfunction>,
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
            // A driver that fails here has failed before, where it was told.
            let _ = unloaded;
        }
    }
}

/// What the driver's error is for the caller.
fn failed(call: &'static str) -> impl Fn(DriverError) -> GpuError {
    move |error| GpuError::Driver {
        call,
        reason: text(error),
    }
}

/// The driver's words for an error.
fn text(error: DriverError) -> String {
    let words = error
        .error_string()
        .map(|text| text.to_string_lossy().into_owned());
    words.unwrap_or_else(|_| format!("error {:?}", error.0))
}

fn no_device(ordinal: usize, error: DriverError) -> GpuError {
    GpuError::Unavailable(format!("device {ordinal}: {}", text(error)))
}

/// The name of a device, if it can be used.
fn probe(ordinal: usize) -> Result<String> {
    let unavailable = |reason: String| GpuError::Unavailable(reason);
    if MODULES.is_empty() {
        return Err(unavailable(
            "this program was built without the kernels (nvcc was not found): build it with `make cuda`"
                .into(),
        ));
    }
    #[expect(unsafe_code, reason = "loading a library runs its code")]
    // SAFETY: only the driver's own library is looked for, whose initialisers have no conditions.
    let driver = unsafe { sys::is_culib_present() };
    if !driver {
        return Err(unavailable(
            "the NVIDIA driver (libcuda.so.1) was not found".into(),
        ));
    }
    let mut version = 0;
    #[expect(unsafe_code, reason = "the driver's interface is C")]
    // SAFETY: it writes one number.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(failed("cuDriverGetVersion"))?;
    let dotted = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
    if version < VERSION {
        return Err(unavailable(format!(
            "the NVIDIA driver is for CUDA {}, the kernels are compiled for {}",
            dotted(version),
            dotted(VERSION)
        )));
    }
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
    if capability < OLDEST {
        let ((major, minor), (least, _)) = (capability, OLDEST);
        return Err(unavailable(format!(
            "{name} has compute capability {major}.{minor}, expected at least {least}.0"
        )));
    }
    Ok(name)
}

impl Loaded {
    fn new(ordinal: usize) -> Result<Self> {
        let name = probe(ordinal)?;
        let context = CudaContext::new(ordinal).map_err(|e| no_device(ordinal, e))?;
        #[expect(unsafe_code, reason = "it is about buffers of a kind that is not used here")]
        // SAFETY: events are for the library's own buffers, and there are none. With them the first queue of a context would
        // wait for the whole device, which is an error while another thread records.
        unsafe {
            context.disable_event_tracking();
        }
        let mut loaded = Self {
            context,
            name,
            modules: Vec::new(),
            kernels: HashMap::new(),
        };
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
            // SAFETY: the module is loaded, and the function asked about is one of it. Asking brings it onto the device
            // now: later that might be in the middle of a recording.
            let (function, threads) = unsafe {
                let function = result::module::get_function(module, name).map_err(|e| missing(text(e)))?;
                let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
                let threads = result::function::get_function_attribute(function, most);
                (function, threads.map_err(|e| missing(text(e)))?)
            };
            if i64::from(threads) < i64::from(kernel.threads) {
                let wanted = kernel.threads;
                return Err(missing(format!(
                    "blocks of {threads} threads fit, expected {wanted}"
                )));
            }
            self.kernels.insert(kernel.name, function);
        }
        Ok(())
    }
}

impl Cuda {
    /// The name of the device of this number, if it can be used. Takes none of its memory.
    ///
    /// # Errors
    /// [`GpuError::Unavailable`] if there is no driver, no such device, or one that is too old; [`GpuError::Driver`] if it
    /// does not answer.
    pub fn probe(ordinal: usize) -> Result<String> {
        probe(ordinal)
    }

    /// The device of this number, with a queue.
    ///
    /// # Errors
    /// [`GpuError::Unavailable`] if there is no driver, no such device, or one that is too old; [`GpuError::Driver`] or
    /// [`GpuError::Kernel`] if its kernels cannot be loaded.
    pub fn open(ordinal: usize) -> Result<Self> {
        Self::with_queue(Arc::new(Loaded::new(ordinal)?))
    }

    fn with_queue(device: Arc<Loaded>) -> Result<Self> {
        let stream = device.context.new_stream().map_err(failed("cuStreamCreate"))?;
        Ok(Self {
            device,
            stream,
            recording: Arc::default(),
            timer: Arc::default(),
        })
    }

    fn recording(&self) -> MutexGuard<'_, bool> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn timer(&self) -> MutexGuard<'_, Timer> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the context the calling thread's.
    fn bind(&self) -> Result<()> {
        self.device
            .context
            .bind_to_thread()
            .map_err(failed("cuCtxSetCurrent"))
    }

    /// Binds, if copies are possible.
    fn idle(&self) -> Result<()> {
        if *self.recording() {
            return Err(GpuError::Recording(
                "nothing can be copied to or from the host while launches are recorded",
            ));
        }
        self.bind()
    }

    /// Asks for a copy to the device.
    fn copy_in(&self, to: Address, from: &[u8]) -> Result<()> {
        self.idle()?;
        if from.is_empty() {
            return Ok(());
        }
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: the context is bound and the stream is its own; callers wait before `from` may go or change. A wrong
        // address is the driver's to refuse.
        unsafe { result::memcpy_htod_async(to.0, from, self.stream.cu_stream()) }
            .map_err(failed("cuMemcpyHtoDAsync"))
    }

    /// Asks for a copy from the device.
    fn copy_out(&self, from: Address, to: &mut [u8]) -> Result<()> {
        self.idle()?;
        if to.is_empty() {
            return Ok(());
        }
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: the context is bound and the stream is its own; callers wait before `to` may go or be looked at.
        unsafe { result::memcpy_dtoh_async(to, from.0, self.stream.cu_stream()) }
            .map_err(failed("cuMemcpyDtoHAsync"))
    }

    /// Waits for a copy that was asked for, also after a failure: nothing may use the host's memory after this.
    fn over(&self, asked: Result<()>) -> Result<()> {
        let waited = match asked {
            Err(GpuError::Recording(_)) => Ok(()),
            _ => self.wait(),
        };
        asked.and(waited)
    }
}

/// A captured stream, ready to be launched.
pub struct RecordedGraph {
    /// None if no launch was recorded.
    graph: Option<CudaGraph>,
    /// The kernels of the graph's nodes.
    device: Arc<Loaded>,
}

impl Drop for RecordedGraph {
    fn drop(&mut self) {
        // The graph is given back in this context; if that is gone, so is the graph.
        let _ = self.device.context.bind_to_thread();
    }
}

impl fmt::Debug for RecordedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedGraph").finish_non_exhaustive()
    }
}

#[expect(unsafe_code, reason = "handles of the driver")]
// SAFETY: graphs belong to no thread; the driver asks only that one is not used by several at once, which an owner
// that is not shared (there is no `Sync`) cannot do.
unsafe impl Send for RecordedGraph {}

impl Allocate for Cuda {
    type Memory = CudaMemory;
    type Staging = CudaStaging;

    fn room(&self) -> Result<(usize, usize)> {
        self.bind()?;
        result::mem_get_info().map_err(failed("cuMemGetInfo"))
    }

    fn alloc(&self, bytes: usize) -> Result<CudaMemory> {
        CudaMemory::new(&self.device.context, bytes)
    }

    fn staging(&self, bytes: usize) -> Result<CudaStaging> {
        CudaStaging::new(&self.device.context, bytes)
    }
}

impl Copies for Cuda {
    type PendingCopy = CudaPendingCopy;

    fn upload(&self, to: Address, from: &[u8]) -> Result<()> {
        self.over(self.copy_in(to, from))
    }

    fn download(&self, from: Address, to: &mut [u8]) -> Result<()> {
        self.over(self.copy_out(from, to))
    }

    fn upload_async(&self, to: Address, from: &CudaStaging, bytes: usize) -> Result<()> {
        self.copy_in(to, from.first(bytes)?)
    }

    fn download_async(&self, from: Address, mut to: CudaStaging, bytes: usize) -> Result<CudaPendingCopy> {
        let event = self
            .device
            .context
            .new_event(None)
            .map_err(failed("cuEventCreate"))?;
        let asked = self.copy_out(from, to.first_mut(bytes)?);
        let recorded = asked.and_then(|()| event.record(&self.stream).map_err(failed("cuEventRecord")));
        if let Err(error) = recorded {
            // Nothing may write `to` after this.
            let _ = self.stream.synchronize();
            return Err(error);
        }
        Ok(CudaPendingCopy::new(event, to))
    }

    fn wait_copy(&self, mut pending: CudaPendingCopy) -> Result<CudaStaging> {
        self.idle()?;
        pending.wait()
    }
}

impl Graphs for Cuda {
    type Graph = RecordedGraph;

    fn record(&self) -> Result<()> {
        let mut recording = self.recording();
        if *recording {
            return Err(GpuError::Recording("launches are being recorded already"));
        }
        // Other threads may allocate meanwhile; nothing that this queue does while recording depends on them.
        self.stream
            .begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
            .map_err(failed("cuStreamBeginCapture"))?;
        *recording = true;
        Ok(())
    }

    fn recorded(&self) -> Result<RecordedGraph> {
        if !std::mem::take(&mut *self.recording()) {
            return Err(GpuError::Recording("nothing is being recorded"));
        }
        // An error of another caller's, kept until the next call, would leave the queue recording for ever.
        let _ = self.bind();
        let graph = self
            .stream
            .end_capture(sys::CUgraphInstantiate_flags(0))
            .map_err(failed("cuStreamEndCapture"))?;
        if let Some(graph) = &graph {
            graph.upload().map_err(failed("cuGraphUpload"))?;
        }
        Ok(RecordedGraph {
            graph,
            device: self.device.clone(),
        })
    }

    fn replay(&self, graph: &RecordedGraph) -> Result<()> {
        self.idle()?;
        match &graph.graph {
            Some(graph) => {
                let launched = self.timer().time(&self.stream, || graph.launch());
                launched.map_err(failed("cuGraphLaunch"))
            }
            None => Ok(()),
        }
    }

    fn take_busy(&self) -> Duration {
        self.timer().take()
    }
}

impl Device for Cuda {
    fn name(&self) -> String {
        self.device.name.clone()
    }

    fn fork(&self) -> Result<Self> {
        Self::with_queue(self.device.clone())
    }

    fn launch(&self, launch: &Launch) -> Result<()> {
        let wrong = |reason: String| GpuError::Kernel {
            kernel: launch.kernel.name,
            reason,
        };
        if let Some(flaw) = launch.flaw() {
            return Err(wrong(flaw));
        }
        if launch.grid.count() == 0 {
            return Ok(());
        }
        let Some(&function) = self.device.kernels.get(launch.kernel.name) else {
            return Err(wrong("it is not in the table".into()));
        };
        self.bind()?;
        // Every parameter is read from the low bytes of its 64 bits, which come first on the processors that there are
        // drivers for.
        let mut params = [std::ptr::null_mut::<c_void>(); crate::launch::MAX_ARGS];
        let bits = launch.args.bits();
        for (param, bits) in params.iter_mut().zip(bits) {
            *param = std::ptr::from_ref(bits).cast_mut().cast();
        }
        let dims = |[x, y, z]: [u32; 3]| (x, y, z);
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: the function is one of a loaded module of the bound context. The driver copies as many parameters as
        // the kernel has, of the types in the table (`Launch::flaw`; a test compares the table with the kernels), before
        // it returns. What the kernel does with them is tested in the emulator.
        unsafe {
            result::launch_kernel(
                function,
                dims(launch.grid.0),
                dims(launch.block.0),
                launch.shared,
                self.stream.cu_stream(),
                &mut params[..bits.len()],
            )
        }
        .map_err(|e| wrong(text(e)))
    }

    fn wait(&self) -> Result<()> {
        self.idle()?;
        self.stream.synchronize().map_err(failed("cuStreamSynchronize"))
    }
}
