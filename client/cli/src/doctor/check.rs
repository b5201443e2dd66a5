//! One finding.

use serde_json::{Value, json};

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    /// It works, with a warning.
    Doubtful,
    Wrong,
    /// Could not be looked at.
    Skipped,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Doubtful => "warning",
            Self::Wrong => "WRONG",
            Self::Skipped => "skipped",
        }
    }
}

/// One check: its subject, its finding and the remedy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
    pub(super) finding: String,
    pub(super) advice: Option<String>,
    /// For programs; null if there are none.
    pub(super) figures: Value,
}

impl Check {
    fn new(name: &'static str, verdict: Verdict, finding: impl Into<String>) -> Self {
        Self {
            name,
            verdict,
            finding: finding.into(),
            advice: None,
            figures: Value::Null,
        }
    }

    pub(super) fn good(name: &'static str, finding: impl Into<String>) -> Self {
        Self::new(name, Verdict::Good, finding)
    }

    pub(super) fn skipped(name: &'static str, why: impl Into<String>) -> Self {
        Self::new(name, Verdict::Skipped, why)
    }

    pub(super) fn doubtful(
        name: &'static str,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            advice: Some(advice.into()),
            ..Self::new(name, Verdict::Doubtful, finding)
        }
    }

    pub(super) fn wrong(name: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            advice: Some(advice.into()),
            ..Self::new(name, Verdict::Wrong, finding)
        }
    }

    pub(super) fn with(self, figures: Value) -> Self {
        Self { figures, ..self }
    }

    /// For people.
    pub(super) fn lines(&self) -> String {
        let line = format!("{:<8} {:<11} {}\n", self.verdict.name(), self.name, self.finding);
        let advice = self.advice.iter().map(|advice| format!("{:21}-> {advice}\n", ""));
        std::iter::once(line).chain(advice).collect()
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "verdict": self.verdict.name().to_lowercase(),
            "finding": self.finding,
            "advice": self.advice,
            "figures": self.figures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_stands_below_what_it_is_for() {
        let check = Check::wrong("health", "not ready", "wait");
        assert_eq!(
            check.lines(),
            "WRONG    health      not ready\n                     -> wait\n"
        );
        assert_eq!(check.json()["verdict"], "wrong");
        assert_eq!(
            Check::good("clock", "fine").lines(),
            "ok       clock       fine\n"
        );
    }
}
