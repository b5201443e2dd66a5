//! Plan of a benchmark: levels of load, or the search for the most streams that a server carries.

use std::fmt;
use std::time::Duration;

use crate::capacity::{Search, complaints};
use crate::error::BenchError;
use crate::level::Offered;
use crate::load::{Extent, Load};
use crate::measurement::Measurement;
use crate::report::{Cancelling, Capacity, Machine, Report, Step, now};
use crate::slo::Slo;

/// Plan of a benchmark.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server and the requests.
    pub load: Load,
    /// Levels of load, one row of the tables each. Not used where `search` is set.
    pub levels: Vec<Offered>,
    /// Measured requests of each level.
    pub requests: u32,
    /// Search for the most streams that are carried, in place of fixed levels.
    pub search: Option<MaxStreams>,
    /// Bounds to count goodput by.
    pub slo: Option<Slo>,
    /// The arguments that gave this plan, for the report.
    pub command: Vec<String>,
}

/// The search for the most streams that are carried.
#[derive(Debug, Clone, Copy)]
pub struct MaxStreams {
    /// Upper bound of the search.
    pub most: u32,
    /// Requests of each stream at every number that is tried.
    pub per_stream: u32,
    /// Least time at every number that is tried.
    pub steady: Duration,
}

/// Progress of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    offered: Offered,
    done: usize,
    requests: u32,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            offered,
            done,
            requests,
        } = self;
        write!(f, "{offered} {} · {done} of {requests} requests", offered.title())
    }
}

impl Plan {
    /// Measures; `progress` is called after every request.
    ///
    /// # Errors
    /// If connections for the load cannot be opened.
    pub async fn measure(&self, progress: impl Fn(Progress)) -> Result<Measurement, BenchError> {
        let mut report = self.report();
        match self.search {
            Some(search) => self.search(search, &progress, &mut report).await?,
            None => self.sweep(&progress, &mut report).await?,
        }
        Ok(Measurement {
            report,
            slo: self.slo.clone().unwrap_or_default(),
        })
    }

    /// Every level, one after another.
    async fn sweep(&self, progress: &impl Fn(Progress), report: &mut Report) -> Result<(), BenchError> {
        let extent = Extent {
            requests: self.requests,
            time: Duration::ZERO,
        };
        for &offered in &self.levels {
            self.level(offered, extent, progress, report).await?;
        }
        Ok(())
    }

    /// Tries numbers of streams until the most that are carried are known.
    async fn search(
        &self,
        limits: MaxStreams,
        progress: &impl Fn(Progress),
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let slo = self.slo.clone().unwrap_or_default();
        let mut search = Search::new(limits.most);
        let mut steps = Vec::new();
        while let Some(streams) = search.next() {
            let extent = Extent {
                requests: limits.per_stream.saturating_mul(streams),
                time: limits.steady,
            };
            self.level(Offered::Streams(streams), extent, progress, report)
                .await?;
            let complaints = match report.levels.last() {
                Some(level) => complaints(level, &slo),
                None => Vec::new(),
            };
            search.tell(streams, complaints.is_empty());
            steps.push(Step { streams, complaints });
        }
        report
            .levels
            .sort_by(|a, b| a.offered.value().total_cmp(&b.offered.value()));
        let (streams, at_least) = search.found();
        report.max_streams = Some(Capacity {
            streams,
            at_least,
            steps,
        });
        Ok(())
    }

    /// Measures one level, and adds it to the report.
    async fn level(
        &self,
        offered: Offered,
        extent: Extent,
        progress: &impl Fn(Progress),
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let shown = |done| {
            progress(Progress {
                offered,
                done,
                requests: extent.requests,
            });
        };
        let measured = self.load.run(offered, extent, shown).await?;
        report.served = report.served.take().or(measured.served);
        report.levels.push(measured.level);
        Ok(())
    }

    /// The head of the report; nothing is measured yet.
    fn report(&self) -> Report {
        let load = &self.load;
        let asking = &self.load.asking;
        let (voice, model, seed) = asking.work.chosen();
        Report {
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_seconds: now(),
            command: self.command.clone(),
            endpoint: load.endpoint.to_string(),
            machine: Machine::this(),
            mode: if asking.work.chat() { "chat" } else { "speak" }.to_owned(),
            turns: asking.work.turns(),
            spoken: asking.work.spoken(),
            voice: voice.to_owned(),
            model: model.to_owned(),
            seed,
            load_seed: load.seed,
            requests: self.requests,
            warmup: load.warmup,
            tokens_per_second: asking.manner.tokens_per_second,
            real_time_readers: asking.manner.real_time,
            cancel: asking.cancel.map(|mix| Cancelling {
                share: mix.share,
                from_seconds: mix.after.0,
                to_seconds: mix.after.1,
            }),
            slo: self.slo.as_ref().map(ToString::to_string),
            texts: asking.texts.clone(),
            ..Report::default()
        }
    }
}
