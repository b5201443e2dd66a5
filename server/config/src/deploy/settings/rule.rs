//! Defaults that follow from the command line and from other settings.

/// The computation of a derived default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::deploy) enum Rule {
    /// `--max-active` times this: an utterance has at most two sequences, the audible one and the next.
    TimesActive(u64),
    /// As above, within bounds.
    TimesActiveWithin {
        /// Per utterance.
        each: u64,
        /// At least.
        least: u64,
        /// At most.
        most: u64,
    },
    /// The stage's `max_num_seqs`, at least this.
    AtLeastSeqs(u64),
    /// The device of `--device`.
    Device,
    /// The number format that the stage's devices do best in.
    Format,
    /// One number for processors, another where all of the stage's devices are GPUs.
    ByDevice {
        /// For processors.
        cpu: u64,
        /// For GPUs.
        gpu: u64,
    },
}

impl Rule {
    /// In words.
    pub(in crate::deploy) fn says(self) -> String {
        match self {
            Self::TimesActive(n) => format!("{n} x --max-active"),
            Self::TimesActiveWithin { each, least, most } => {
                format!("{each} x --max-active, from {least} to {most}")
            }
            Self::AtLeastSeqs(n) => format!("max_num_seqs, at least {n}"),
            Self::Device => "the device of --device".to_owned(),
            Self::Format => "f32, on GPUs bf16".to_owned(),
            Self::ByDevice { cpu, gpu } => format!("{cpu}, on GPUs {gpu}"),
        }
    }
}
