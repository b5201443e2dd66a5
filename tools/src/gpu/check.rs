//! `omni-gpu check`: correctness of a device's results.
//!
//! A case is a named comparison that reports figures. A case that fails, panics or does not fit the time does not
//! stop the others.

mod batches;
mod halves;
mod kernels;
mod margin;
mod overlap;
mod published;
mod queues;
mod reference;
mod text;
mod voice;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use omni_models::testing::{Goldens, TINY};

use super::budget::Budget;
use super::judge::Judge;
use super::models::{Embedded, Models, Place};
use super::report::Report;
use super::verdict::Verdict;

type Look = Box<dyn FnOnce(&Models, &mut Judge) -> anyhow::Result<()>>;

/// Something to be looked at.
struct Case {
    name: String,
    /// The least time that it takes.
    need: Duration,
    /// `true` if it runs only when its name is given.
    on_request: bool,
    look: Look,
}

impl Case {
    fn new(
        name: impl Into<String>,
        look: impl FnOnce(&Models, &mut Judge) -> anyhow::Result<()> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            need: Duration::ZERO,
            on_request: false,
            look: Box::new(look),
        }
    }

    /// Not to be begun if there is less time.
    fn needing(self, need: Duration) -> Self {
        Self { need, ..self }
    }

    /// Runs the case only if named, because most of its time is the CPU's.
    fn on_request(self) -> Self {
        Self {
            on_request: true,
            ..self
        }
    }

    /// Returns true if it is one of the selected cases.
    fn is_asked(&self, only: &[String]) -> bool {
        match only {
            [] => !self.on_request,
            parts => parts.iter().any(|part| self.name.contains(part.as_str())),
        }
    }
}

/// Outputs of the reference implementation to compare with.
#[derive(Debug, Clone)]
pub struct References {
    /// Reference of the tiny checkpoint.
    pub tiny: Goldens,
    /// Reference of the embedded voice.
    pub voice: Goldens,
    /// Its sentences, as JSON.
    pub sentences: &'static [u8],
    /// Reference of the embedded thinker, as JSON.
    pub thinker: &'static [u8],
    /// The checkpoint that those of the embedded models are of.
    pub embedded: Embedded,
}

impl Default for References {
    /// Those compiled in.
    fn default() -> Self {
        let tiny = TINY.iter().find(|(name, _)| *name == "goldens.safetensors");
        let voice: &[u8] = include_bytes!("../../../models/embedded/checkpoint-goldens/goldens.safetensors");
        Self {
            tiny: Goldens::new(tiny.map_or(&[][..], |(_, bytes)| bytes)),
            voice: Goldens::new(voice),
            sentences: include_bytes!("../../../models/embedded/checkpoint-goldens/goldens.json"),
            thinker: include_bytes!("../../../models/embedded/checkpoint-goldens/thinker.json"),
            embedded: Embedded::default(),
        }
    }
}

impl References {
    /// Makes the first code of one of the tiny checkpoint's sequences another one, so that a comparison must find it.
    pub fn change_code(&mut self, name: &str) {
        self.tiny.change_id(name);
    }
}

/// Everything there is to be looked at, what matters most first.
fn cases(place: Place, references: &References) -> Vec<Case> {
    let mut cases = reference::cases(references);
    cases.extend(voice::cases());
    cases.extend(batches::cases());
    cases.extend(overlap::cases());
    cases.extend(text::cases(references));
    cases.extend(halves::cases(references));
    cases.extend(queues::cases());
    cases.extend(kernels::cases(place));
    cases.extend(published::cases(place));
    cases
}

/// Takes looks, as far as names contain one of `only` (if there are any) and time allows.
///
/// # Errors
/// If the report cannot be written.
pub fn check(
    place: Place,
    only: &[String],
    budget: Budget,
    references: &References,
    report: &mut Report,
) -> anyhow::Result<Verdict> {
    let models = Models::at(place, references.embedded.clone());
    let (cases, skipped): (Vec<_>, Vec<_>) = cases(place, references)
        .into_iter()
        .partition(|case| case.is_asked(only));
    anyhow::ensure!(!cases.is_empty(), "no case has a name like {only:?}");
    report.heading(2, "Checks")?;
    report.table(&["case", "", "what was found", "s"])?;
    let mut holding = 0;
    let mut broken = Vec::new();
    let mut left_out = Vec::new();
    // The duration of a case is unknown; hardly any takes longer than the longest so far.
    let mut longest = Duration::ZERO;
    for case in cases {
        if !budget.allows(longest.max(case.need)) {
            left_out.push(case.name);
            continue;
        }
        let begun = Instant::now();
        let judge = look(case.look, &models);
        let took = begun.elapsed();
        models.drop_published();
        longest = longest.max(took);
        let word = if judge.holds() {
            "holds"
        } else {
            "**DOES NOT HOLD**"
        };
        let figures = judge.figures();
        let seconds = format!("{:.1}", took.as_secs_f64());
        report.row(&[case.name.as_str(), word, figures.as_str(), seconds.as_str()])?;
        if judge.holds() {
            holding += 1;
        } else {
            broken.push(case.name);
        }
    }
    let judge = fallbacks(&models);
    let word = if judge.holds() {
        "holds"
    } else {
        "**DOES NOT HOLD**"
    };
    let name = "every step that can be a graph was one";
    report.row(&[name, word, &judge.figures(), "0.0"])?;
    if judge.holds() {
        holding += 1;
    } else {
        broken.push(name.to_owned());
    }
    report.line("")?;
    report.paragraph(format!(
        "{holding} cases hold, {} do not, {} were left out for lack of time, {} were not asked for; {:.0} s.",
        broken.len(),
        left_out.len(),
        skipped.len(),
        budget.gone().as_secs_f64()
    ))?;
    for (what, names) in [("Does not hold", &broken), ("Left out", &left_out)] {
        for name in names {
            report.line(format!("- {what}: {name}"))?;
        }
    }
    Ok(Verdict::of(broken.is_empty(), left_out.is_empty()))
}

/// Runs a case, catching a failure of the device, so that the other cases' results are kept.
fn look(look: Look, models: &Models) -> Judge {
    let mut judge = Judge::default();
    match catch_unwind(AssertUnwindSafe(|| look(models, &mut judge))) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => judge.must(format!("{error:#}"), false),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
            judge.must(format!("panicked: {}", words.unwrap_or("without words")), false);
        }
    }
    judge
}

/// Nothing may have been launched without its graph where there are graphs.
fn fallbacks(models: &Models) -> Judge {
    let mut judge = Judge::default();
    let mut graphs = 0;
    let mut replays = 0;
    let mut fallbacks = 0;
    let mut reasons = Vec::new();
    let with_graphs = models.take_graphs();
    let computed = !with_graphs.is_empty();
    for of_model in with_graphs {
        graphs += of_model.recorded;
        replays += of_model.replays;
        fallbacks += of_model.fallbacks;
        reasons.extend(of_model.reasons);
    }
    let graphs_at_work = graphs > 0 && replays > 0;
    judge.must(
        format!("{graphs} graphs replayed {replays} times"),
        graphs_at_work || !computed,
    );
    judge.must(
        format!("{fallbacks} fallbacks"),
        fallbacks == 0 && reasons.is_empty(),
    );
    for reason in reasons {
        judge.must(reason, false);
    }
    judge
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::bench::PUBLISHED;

    #[test]
    fn what_takes_the_processors_time_is_looked_at_only_if_its_name_is_asked_for() {
        let cases = cases(Place::Device(0), &References::default());
        let slow: Vec<_> = cases.iter().filter(|case| !case.is_asked(&[])).collect();
        let names: Vec<_> = slow.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(
            names,
            PUBLISHED.map(|name| format!("published shape: {name}, device beside f32 on the processor"))
        );
        let all: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        for name in PUBLISHED {
            let launched = format!("published shape: {name}, bf16, graphs as launches");
            assert!(all.contains(&launched.as_str()), "{all:?}");
        }
        assert!(slow[0].is_asked(&["on the processor".to_owned()]));
        assert!(!slow[0].is_asked(&["graphs as launches".to_owned()]));
    }

    #[test]
    #[cfg(feature = "emulator")]
    fn a_model_that_was_to_compute_in_graphs_and_did_not_is_told_after_it_is_dropped() {
        use omni_models::testing::tiny;

        use super::super::models::{By, Which};

        let models = Models::at(Place::Emulated, Embedded::default());
        assert!(fallbacks(&models).holds(), "nothing was to compute in graphs");
        for (by, holds) in [(By::Launches, true), (By::Graphs, false)] {
            models
                .load(Which::Published(PUBLISHED[0]), by, tiny())
                .expect("it is loaded");
            models.drop_published();
            let judge = fallbacks(&models);
            assert_eq!(judge.holds(), holds, "{by:?}: {}", judge.figures());
        }
    }
}
