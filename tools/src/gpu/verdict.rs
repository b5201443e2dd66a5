//! Verdict of a run.

use std::process::ExitCode;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was looked at and holds.
    Holds,
    /// Something does not hold.
    Broken,
    /// There is no device that can be used.
    NoDevice,
    /// All cases that ran hold; there was no time for the rest.
    Unfinished,
}

impl Verdict {
    /// Verdict from the findings.
    pub fn of(holds: bool, complete: bool) -> Self {
        match (holds, complete) {
            (false, _) => Self::Broken,
            (true, false) => Self::Unfinished,
            (true, true) => Self::Holds,
        }
    }

    /// Exit code of the process. 2 is a wrong command line.
    pub fn code(self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::Broken => 1,
            Self::NoDevice => 3,
            Self::Unfinished => 4,
        }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(verdict.code())
    }
}
