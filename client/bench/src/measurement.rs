//! A finished benchmark, in every form in which it is shown.

use std::fmt;
use std::path::Path;

use crate::error::{BenchError, write};
use crate::grid::Style;
use crate::html;
use crate::record::Record;
use crate::report::Report;
use crate::slo::Slo;
use crate::table::Tables;

/// A finished benchmark.
#[derive(Debug, Clone)]
pub struct Measurement {
    pub(crate) report: Report,
    pub(crate) slo: Slo,
}

impl Measurement {
    /// The figures as tables, with their definitions below.
    pub fn tables(&self, style: Style) -> String {
        self.shown(|tables| tables.write(style))
    }

    /// Writes every single measurement to a file, for other programs.
    ///
    /// # Errors
    /// [`BenchError::Write`].
    pub fn write_json(&self, path: &Path) -> Result<(), BenchError> {
        write(path, &self.report.json())
    }

    /// Writes a page with charts, complete in one file.
    ///
    /// # Errors
    /// [`BenchError::Write`].
    pub fn write_html(&self, path: &Path) -> Result<(), BenchError> {
        write(path, &self.shown(html::page))
    }

    /// The requests that failed; `None` if none did.
    pub fn failures(&self) -> Option<Failures> {
        Failures::of(self.report.levels.iter().flat_map(|level| &level.requests))
    }

    fn shown(&self, show: impl FnOnce(&Tables<'_>) -> String) -> String {
        show(&Tables {
            report: &self.report,
            slo: &self.slo,
        })
    }
}

/// Requests that failed, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    failed: usize,
    requests: usize,
    first: String,
}

impl Failures {
    pub(crate) fn of<'r>(requests: impl Iterator<Item = &'r Record>) -> Option<Self> {
        let mut all = 0;
        let mut failed = 0;
        let mut first = None;
        for request in requests {
            all += 1;
            if let Some(failure) = &request.failure {
                failed += 1;
                first.get_or_insert(failure);
            }
        }
        Some(Self {
            failed,
            requests: all,
            first: first?.clone(),
        })
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            failed,
            requests,
            first,
        } = self;
        write!(
            f,
            "{failed} of {requests} requests failed, the first with: {first}"
        )
    }
}
