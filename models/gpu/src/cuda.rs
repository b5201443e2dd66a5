//! NVIDIA device through its driver, loaded at run time: without a driver, opening fails with an error.
//!
//! A queue is a stream, a graph a captured stream. Kernels are compiled with the crate (`build.rs`) and loaded when a
//! device is opened. No other part of CUDA is used.

mod failure;
mod loaded;
mod memory;
mod timer;

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cudarc::driver::{CudaGraph, CudaStream, result, sys};

use crate::device::{Allocate, Copies, Device, GpuError, Graphs, Priority, Result};
use crate::launch::{Address, Launch};

use failure::{failed, failed_launch};
use loaded::{Loaded, VERSION, dotted, probe};
use timer::Timer;

pub use memory::{CudaMemory, CudaPendingCopy, CudaStaging};

/// The compiled kernels, a name and a binary per file of `kernels/`. None if nvcc was not there.
pub(crate) const MODULES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// See the module.
#[derive(Clone, derive_more::Debug)]
#[debug("Cuda {{ name: {:?}, stream: {:?}, .. }}", self.device.name, self.stream.cu_stream())]
pub struct Cuda {
    // Dropped first: it has the work that uses the kernels.
    stream: Arc<CudaStream>,
    device: Arc<Loaded>,
    recording: Arc<Mutex<bool>>,
    timer: Arc<Mutex<Timer>>,
}

impl Cuda {
    /// Name of device `ordinal`, if it can be used. Allocates none of its memory.
    ///
    /// # Errors
    /// [`GpuError::Unavailable`] if there is no driver, no such device, or one that is too old; [`GpuError::Driver`]
    /// if it does not answer.
    pub fn probe(ordinal: usize) -> Result<String> {
        probe(ordinal)
    }

    /// Opens device `ordinal` with a queue.
    ///
    /// # Errors
    /// [`GpuError::Unavailable`] if there is no driver, no such device, or one that is too old; [`GpuError::Driver`]
    /// or [`GpuError::Kernel`] if its kernels cannot be loaded.
    pub fn open(ordinal: usize) -> Result<Self> {
        Self::with_queue(Arc::new(Loaded::new(ordinal)?), Priority::Usual)
    }

    /// The compiled kernels, a name and a fat binary per file of `kernels/`. None if nvcc was not there when this was
    /// built.
    pub fn modules() -> &'static [(&'static str, &'static [u8])] {
        MODULES
    }

    /// The version of CUDA whose compiler made [`Cuda::modules`].
    pub fn compiler() -> String {
        dotted(VERSION)
    }

    fn with_queue(device: Arc<Loaded>, priority: Priority) -> Result<Self> {
        let stream = device
            .context
            .new_stream_with_priority(device.priority(priority)?)
            .map_err(failed("cuStreamCreateWithPriority"))?;
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

    /// Binds the context; an error while recording.
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

    /// Waits for a queued copy, even after a failure: the driver must not touch the host's memory after this.
    fn over(&self, asked: Result<()>) -> Result<()> {
        let waited = match asked {
            Err(GpuError::Recording(_)) => Ok(()),
            _ => self.wait(),
        };
        asked.and(waited)
    }
}

/// A captured stream, ready to be launched.
#[derive(derive_more::Debug)]
#[debug("RecordedGraph {{ .. }}")]
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
            .new_event(Some(self.device.event_flags()))
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

    fn fork(&self, priority: Priority) -> Result<Self> {
        Self::with_queue(self.device.clone(), priority)
    }

    fn lost(&self) -> Option<String> {
        if *self.recording() {
            return None;
        }
        let asked = self.bind();
        let asked = asked.and_then(|()| {
            #[expect(unsafe_code, reason = "the driver's interface is C")]
            // SAFETY: the stream is alive; nothing is waited for.
            let found = unsafe { sys::cuStreamQuery(self.stream.cu_stream()) };
            found.result().map_err(failed("cuStreamQuery"))
        });
        match asked {
            Err(lost @ GpuError::Lost { .. }) => Some(lost.to_string()),
            _ => None,
        }
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
        let [grid_x, grid_y, grid_z] = launch.grid.0;
        let [block_x, block_y, block_z] = launch.block.0;
        // In a graph a launch may begin while the one before it ends: its kernel waits where it has to.
        let overlaps = self.device.overlaps && *self.recording();
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue {
                programmaticStreamSerializationAllowed: 1,
            },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: grid_x,
            gridDimY: grid_y,
            gridDimZ: grid_z,
            blockDimX: block_x,
            blockDimY: block_y,
            blockDimZ: block_z,
            sharedMemBytes: launch.shared,
            hStream: self.stream.cu_stream(),
            attrs: &raw mut attribute,
            numAttrs: u32::from(overlaps),
        };
        #[expect(unsafe_code, reason = "the driver's interface is C")]
        // SAFETY: the function is one of a loaded module of the bound context. Before it returns, the driver copies
        // the attributes and as many parameters as the kernel has, of the types in the table (`Launch::flaw`; a test
        // compares the table with the kernels). The kernels' own accesses are tested in the emulator.
        let launched = unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                function,
                params.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        launched.result().map_err(failed_launch(launch.kernel.name))
    }

    fn wait(&self) -> Result<()> {
        self.idle()?;
        self.stream.synchronize().map_err(failed("cuStreamSynchronize"))
    }
}
