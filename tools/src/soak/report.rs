//! Results of a soak.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::{Held, Plan};

/// Faults that are kept; all are counted.
const FAULTS_KEPT: usize = 50;

/// Something that must not be.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) kind: &'static str,
    pub(super) what: String,
}

/// Outcomes of callers.
#[derive(Debug, Default)]
pub(super) struct Tally {
    came: BTreeMap<&'static str, BTreeMap<String, u64>>,
    faults: Vec<Fault>,
    faulty: u64,
}

impl Tally {
    pub(super) fn came(&mut self, kind: &'static str, came: &str) {
        *self
            .came
            .entry(kind)
            .or_default()
            .entry(came.to_owned())
            .or_default() += 1;
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        self.came(fault.kind, "FAULT");
        self.faulty += 1;
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(fault);
        }
    }

    pub(super) fn join(&mut self, more: Self) {
        for (kind, came) in more.came {
            for (what, count) in came {
                *self.came.entry(kind).or_default().entry(what).or_default() += count;
            }
        }
        self.faulty += more.faulty;
        self.faults.extend(more.faults);
        self.faults.truncate(FAULTS_KEPT);
    }
}

/// Results of a soak.
#[derive(Debug)]
pub struct Report {
    plan: Plan,
    tally: Tally,
    before: Held,
    after: Held,
    /// Most memory seen under load, in bytes.
    peak: u64,
    exceeded: Vec<String>,
}

impl Report {
    pub(super) fn new(plan: Plan, tally: Tally, before: Held, after: Held, peak: u64) -> Self {
        let exceeded = before.exceeded(&after, plan.allowance);
        Self {
            plan,
            tally,
            before,
            after,
            peak,
            exceeded,
        }
    }

    /// Adds a fault that the server's log or exit shows.
    pub fn also(&mut self, what: String) {
        self.exceeded.push(what);
    }

    /// Calls that were made.
    pub fn calls(&self) -> u64 {
        self.tally.came.values().flat_map(BTreeMap::values).sum()
    }

    /// Everything that is wrong: none, if all is well.
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<_> = self
            .tally
            .faults
            .iter()
            .map(|fault| format!("{}: {}", fault.kind, fault.what))
            .collect();
        let unsaid = self.tally.faulty - self.tally.faults.len() as u64;
        if unsaid > 0 {
            faults.push(format!("and {unsaid} more"));
        }
        faults.extend(self.exceeded.iter().map(|what| format!("left behind: {what}")));
        faults
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "seed": self.plan.seed, "streams": self.plan.streams, "seconds": self.plan.time.as_secs_f64(),
            "warmup_seconds": self.plan.warmup.as_secs_f64(), "calls": self.calls(), "came_to": self.tally.came,
            "before": self.before.json(), "after": self.after.json(), "peak_resident_bytes": self.peak,
            "resident_allowance_bytes": self.plan.allowance, "faults": self.faults(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan {
            seed,
            streams,
            time,
            warmup,
            allowance,
        } = self.plan;
        let before = &self.before;
        let after = &self.after;
        let mb = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        writeln!(
            f,
            "seed {seed}, {streams} streams, {warmup:?} and {time:?} of load, {} calls\n",
            self.calls()
        )?;
        writeln!(f, "| caller | calls | came to |\n|---|--:|---|")?;
        for (kind, came) in &self.tally.came {
            let ends: Vec<_> = came
                .iter()
                .map(|(what, count)| format!("{what} {count}"))
                .collect();
            writeln!(
                f,
                "| {kind} | {} | {} |",
                came.values().sum::<u64>(),
                ends.join(", ")
            )?;
        }
        writeln!(f, "\n| held when idle | before | after |\n|---|--:|--:|")?;
        writeln!(
            f,
            "| resident MB (at most {} more; {} at most under load) | {} | {} |",
            mb(allowance),
            mb(self.peak),
            mb(before.resident),
            mb(after.resident)
        )?;
        writeln!(f, "| file descriptors | {} | {} |", before.files, after.files)?;
        writeln!(f, "| threads | {} | {} |", before.threads, after.threads)?;
        writeln!(
            f,
            "| sessions, requests, KV share, open calls | {} | {} |\n",
            idle(before),
            idle(after)
        )?;
        match self.faults().as_slice() {
            [] => writeln!(f, "nothing is wrong"),
            faults => faults.iter().try_for_each(|fault| writeln!(f, "WRONG: {fault}")),
        }
    }
}

fn idle(held: &Held) -> String {
    format!(
        "{}, {}, {}, {}",
        held.sessions, held.requests, held.kv, held.calls
    )
}
