//! Classification of the driver's errors.

use cudarc::driver::{DriverError, sys};

use crate::device::GpuError;

/// Returns true if every later call of this process fails, too: the error has destroyed the context, and no second
/// one can be created beside it.
fn is_sticky(error: DriverError) -> bool {
    use sys::CUresult as E;
    matches!(
        error.0,
        E::CUDA_ERROR_ECC_UNCORRECTABLE
            | E::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | E::CUDA_ERROR_ILLEGAL_ADDRESS
            | E::CUDA_ERROR_LAUNCH_TIMEOUT
            | E::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | E::CUDA_ERROR_ASSERT
            | E::CUDA_ERROR_HARDWARE_STACK_ERROR
            | E::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | E::CUDA_ERROR_MISALIGNED_ADDRESS
            | E::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | E::CUDA_ERROR_INVALID_PC
            | E::CUDA_ERROR_LAUNCH_FAILED
            | E::CUDA_ERROR_EXTERNAL_DEVICE
            | E::CUDA_ERROR_MPS_CLIENT_TERMINATED
            | E::CUDA_ERROR_UNKNOWN
    )
}

/// Converts an error of the driver.
pub(super) fn failed(call: &'static str) -> impl Fn(DriverError) -> GpuError {
    move |error| {
        let reason = text(error);
        if is_sticky(error) {
            GpuError::Lost { call, reason }
        } else {
            GpuError::Driver { call, reason }
        }
    }
}

/// As [`failed`], for the launch of a kernel.
pub(super) fn failed_launch(kernel: &'static str) -> impl Fn(DriverError) -> GpuError {
    move |error| {
        let reason = text(error);
        if is_sticky(error) {
            let call = "cuLaunchKernelEx";
            GpuError::Lost { call, reason }
        } else {
            GpuError::Kernel { kernel, reason }
        }
    }
}

/// The driver's words for an error.
pub(super) fn text(error: DriverError) -> String {
    let words = error
        .error_string()
        .map(|text| text.to_string_lossy().into_owned());
    words.unwrap_or_else(|_| format!("error {:?}", error.0))
}
