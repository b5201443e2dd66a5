//! Devices that models compute on: the one asked for, and those that there are.

use std::num::NonZero;

use omni_family::Device;

/// Utterances that are worked on at once where it is not said how many. A processor keeps up with more streams than
/// this at the speed at which they are played, of the model that is built in.
pub(super) fn max_active(device: Device) -> usize {
    if device.is_gpu() {
        return 64;
    }
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_mul(8).min(64)
}

/// Says whether an NVIDIA device can be used: its name, or why not.
pub type Probe<'a> = &'a dyn Fn(u32) -> Result<String, String>;

/// Asks the driver of this machine.
pub(super) fn probe(number: u32) -> Result<String, String> {
    omni_models::probe_gpu(number as usize)
}

/// `--device` as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// The first GPU, or else the processor.
    #[default]
    Auto,
    /// This device and no other.
    Only(Device),
}

/// The chosen device and the reason, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chosen {
    /// The device.
    pub device: Device,
    /// The device's name, or why it is no GPU.
    pub because: String,
}

impl Wanted {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            text => Device::parse(text)
                .map(Self::Only)
                .ok_or_else(|| "expected auto, cpu, cuda or cuda:N".to_owned()),
        }
    }

    /// Chooses among the devices that there are.
    ///
    /// # Errors
    /// Why the one device that is wanted cannot be used.
    pub(super) fn choose(self, probe: Probe<'_>) -> Result<Chosen, String> {
        let (device, because) = match self {
            Self::Auto => match probe(0) {
                Ok(name) => (Device::Cuda(0), name),
                Err(why) => (Device::Cpu, why),
            },
            Self::Only(Device::Cuda(number)) => {
                let name = probe(number).map_err(|why| format!("cuda:{number} was asked for, but {why}"))?;
                (Device::Cuda(number), name)
            }
            Self::Only(device) => (device, "it was asked for".to_owned()),
        };
        Ok(Chosen { device, because })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: u32) -> Result<String, String> {
        Err("there is no driver".to_owned())
    }

    fn two(number: u32) -> Result<String, String> {
        (number < 2)
            .then(|| "H200".to_owned())
            .ok_or_else(|| "no such device".to_owned())
    }

    #[test]
    fn without_a_gpu_auto_is_the_processor_and_says_why() {
        let chosen = Wanted::Auto.choose(&none).unwrap();
        assert_eq!(chosen.device, Device::Cpu);
        assert_eq!(chosen.because, "there is no driver");
        assert_eq!(Wanted::Auto.choose(&two).unwrap().device, Device::Cuda(0));
    }

    #[test]
    fn a_device_that_was_asked_for_is_used_or_refused() {
        let only = |number| Wanted::Only(Device::Cuda(number));
        assert_eq!(only(1).choose(&two).unwrap().device, Device::Cuda(1));
        let why = only(2).choose(&two).unwrap_err();
        assert_eq!(why, "cuda:2 was asked for, but no such device");
        assert!(only(0).choose(&none).is_err());
        let cpu = Wanted::Only(Device::Cpu);
        assert_eq!(cpu.choose(&two).unwrap().device, Device::Cpu);
    }
}
