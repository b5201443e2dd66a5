//! Clocks of a device during a measurement, and the reasons for throttling, from a running `nvidia-smi`.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use super::models::Place;
use super::report::Report;

/// Fields of a query, in the order of [`Look`].
const ASKED: &str =
    "clocks.sm,clocks.max.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active";
/// Interval between samples.
const PAUSE: Duration = Duration::from_millis(500);

/// The device does nothing, which is no reason that holds anything back.
const IDLE: u64 = 0x1;
/// Reasons that may limit clocks, by their bits.
const REASONS: [(u64, &str); 8] = [
    (0x2, "clocks that were set"),
    (0x4, "power"),
    (0x8, "hardware slowdown"),
    (0x10, "clocks of other devices"),
    (0x20, "temperature"),
    (0x40, "temperature, by hardware"),
    (0x80, "power brake"),
    (0x100, "clocks of a display"),
];

/// Sample of a device's state; unknown fields are `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    sm: Option<f64>,
    highest_sm: Option<f64>,
    memory: Option<f64>,
    watts: Option<f64>,
    celsius: Option<f64>,
    reasons: u64,
}

impl Look {
    /// `1980, 1980, 2619, 523.45, 61, 0x0000000000000004`.
    fn read(line: &str) -> Option<Self> {
        let cells: Vec<_> = line.split(',').map(str::trim).collect();
        let [sm, highest_sm, memory, watts, celsius, reasons] = cells[..] else {
            return None;
        };
        let number = |cell: &str| cell.parse().ok();
        Some(Self {
            sm: number(sm),
            highest_sm: number(highest_sm),
            memory: number(memory),
            watts: number(watts),
            celsius: number(celsius),
            reasons: u64::from_str_radix(reasons.strip_prefix("0x")?, 16).ok()?,
        })
    }

    /// Reasons that limit the clocks.
    fn held(&self) -> impl Iterator<Item = &'static str> {
        REASONS
            .iter()
            .filter(|(bit, _)| self.reasons & bit != 0)
            .map(|(_, reason)| *reason)
    }

    fn told(&self) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
        let held: Vec<_> = self.held().collect();
        let held = if held.is_empty() {
            "nothing".to_owned()
        } else {
            held.join(", ")
        };
        format!(
            "Clocks at the beginning: SM {} of {} MHz, memory {} MHz, {} W, {} degrees C; held back by {held}.",
            number(self.sm),
            number(self.highest_sm),
            number(self.memory),
            number(self.watts),
            number(self.celsius),
        )
    }
}

/// Current state of the device.
pub(super) fn now(place: Place) -> String {
    let Some(mut program) = question(place) else {
        return "Clocks: there is no device.".to_owned();
    };
    let look = program.output().ok();
    let look = look.and_then(|output| Look::read(&String::from_utf8_lossy(&output.stdout)));
    look.map_or_else(
        || "Clocks: nvidia-smi does not tell.".to_owned(),
        |look| look.told(),
    )
}

/// Command that queries the device for a [`Look`], if there is one.
fn question(place: Place) -> Option<Command> {
    let number = match place {
        Place::Device(number) => number,
        #[cfg(feature = "emulator")]
        Place::Emulated | Place::Nowhere => return None,
    };
    let mut program = Command::new("nvidia-smi");
    program
        .arg(format!("--query-gpu={ASKED}"))
        .args(["--format=csv,noheader,nounits", "--id"])
        .arg(number.to_string());
    Some(program)
}

/// The least and the greatest of some numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Range(Option<(f64, f64)>);

impl Range {
    fn add(&mut self, value: Option<f64>) {
        let Some(value) = value else { return };
        let (least, most) = self.0.unwrap_or((value, value));
        self.0 = Some((least.min(value), most.max(value)));
    }

    fn told(self) -> String {
        match self.0 {
            Some((least, most)) if least < most => format!("{least:.0} to {most:.0}"),
            Some((_, most)) => format!("{most:.0}"),
            None => "-".to_owned(),
        }
    }
}

/// Samples of a device under load.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    looks: u32,
    sm: Range,
    memory: Range,
    watts: Range,
    celsius: Range,
    /// Number of times that each reason was active.
    held: BTreeMap<&'static str, u32>,
}

impl Seen {
    fn add(&mut self, look: Look) {
        if look.reasons & IDLE != 0 {
            return;
        }
        self.looks += 1;
        self.sm.add(look.sm);
        self.memory.add(look.memory);
        self.watts.add(look.watts);
        self.celsius.add(look.celsius);
        for reason in look.held() {
            *self.held.entry(reason).or_default() += 1;
        }
    }

    fn told(&self) -> String {
        if self.looks == 0 {
            return "Clocks meanwhile: not told.".to_owned();
        }
        let share = |(reason, count): (&&str, &u32)| {
            let percent = 100.0 * f64::from(*count) / f64::from(self.looks);
            format!("{reason} in {percent:.0} %")
        };
        let held: Vec<_> = self.held.iter().map(share).collect();
        let held = if held.is_empty() {
            "nothing".to_owned()
        } else {
            held.join(", ")
        };
        format!(
            "Clocks meanwhile, in {} looks at a device at work: SM {} MHz, memory {} MHz, {} W, {} degrees C; held back by {held}.",
            self.looks,
            self.sm.told(),
            self.memory.told(),
            self.watts.told(),
            self.celsius.told(),
        )
    }
}

/// Queries so far, and the request to end them.
#[derive(Debug, Default)]
struct Shared {
    seen: Seen,
    over: bool,
}

/// Samples a device's state until dropped.
pub(super) struct Clocks {
    shared: Arc<Mutex<Shared>>,
    looks: Option<Thread>,
}

impl Clocks {
    /// For the device at `place`, if `nvidia-smi` knows it.
    pub(super) fn of(place: Place) -> Self {
        Self::told_by(question(place))
    }

    /// From a program that writes a line per sample; not restarted if it fails.
    fn told_by(program: Option<Command>) -> Self {
        let shared: Arc<Mutex<Shared>> = Arc::default();
        let looks = program.map(|mut program| {
            let shared = Arc::clone(&shared);
            let told = move || Some(String::from_utf8_lossy(&program.output().ok()?.stdout).into_owned());
            // It is not waited for: a driver may never answer.
            let looking = move || look_again(&shared, told, || thread::park_timeout(PAUSE));
            thread::spawn(looking).thread().clone()
        });
        Self { shared, looks }
    }

    /// Reports the samples since the last call.
    ///
    /// # Errors
    ///
    /// If the report cannot be written.
    pub(super) fn tell(&self, report: &mut Report) -> io::Result<()> {
        report.line(format!("\n{}", self.take().told()))
    }

    fn take(&self) -> Seen {
        std::mem::take(&mut locked(&self.shared).seen)
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        locked(&self.shared).over = true;
        if let Some(looks) = &self.looks {
            looks.unpark();
        }
    }
}

/// Looks until it is over, or until a line cannot be read.
fn look_again(shared: &Mutex<Shared>, mut told: impl FnMut() -> Option<String>, mut pause: impl FnMut()) {
    while let Some(look) = told().as_deref().and_then(Look::read) {
        let mut shared = locked(shared);
        shared.seen.add(look);
        if shared.over {
            return;
        }
        drop(shared);
        pause();
    }
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_read_and_what_a_device_does_not_tell_is_none() {
        let look = Look::read("1980, 2100, 2619, 523.45, 61, 0x0000000000000004").expect("a look");
        assert_eq!(
            (look.sm, look.watts, look.reasons),
            (Some(1980.0), Some(523.45), 4)
        );
        assert_eq!(
            look.told(),
            "Clocks at the beginning: SM 1980 of 2100 MHz, memory 2619 MHz, 523 W, 61 degrees C; held back by power."
        );
        let silent = Look::read("345, 1980, 405, [N/A], 30, 0x0000000000000001").expect("a look");
        assert_eq!((silent.watts, silent.reasons), (None, 1));
        for line in [
            "",
            "1980, 2619",
            "1980, 1980, 2619, 1, 61, Not Active",
            "Unable to determine the device handle",
        ] {
            assert_eq!(Look::read(line), None, "{line}");
        }
    }

    #[test]
    fn reasons_are_shares_of_the_looks_at_a_device_that_works() {
        let mut seen = Seen::default();
        for line in [
            "345, 1980, 405, 90.1, 30, 0x0000000000000001",
            "1980, 1980, 2619, 523.4, 61, 0x0000000000000000",
            "1755, 1980, 2619, 699.8, 66, 0x0000000000000024",
        ] {
            seen.add(Look::read(line).expect("a look"));
        }
        assert_eq!(
            seen.told(),
            "Clocks meanwhile, in 2 looks at a device at work: SM 1755 to 1980 MHz, memory 2619 MHz, 523 to 700 W, 61 to 66 degrees C; \
             held back by power in 50 %, temperature in 50 %."
        );
        assert_eq!(Seen::default().told(), "Clocks meanwhile: not told.");
    }

    #[test]
    fn a_program_that_fails_is_not_asked_again_and_what_was_told_is_not_told_again() {
        const LINE: &str = "1980, 1980, 2619, 500.0, 61, 0x0";
        let shared = Arc::<Mutex<Shared>>::default();
        let mut lines = [LINE, LINE, "No devices were found", LINE].into_iter();
        let mut pauses = 0;
        look_again(&shared, || lines.next().map(str::to_owned), || pauses += 1);
        assert_eq!(lines.next(), Some(LINE), "nothing is asked after a failure");
        assert_eq!(pauses, 2);
        let clocks = Clocks { shared, looks: None };
        assert_eq!(clocks.take().looks, 2);
        assert_eq!(clocks.take(), Seen::default());
    }

    #[test]
    fn looking_ends_when_the_measurement_is_over() {
        let shared = Mutex::new(Shared {
            over: true,
            ..Shared::default()
        });
        let mut asked = 0;
        let told = || {
            asked += 1;
            Some("1980, 1980, 2619, 500.0, 61, 0x0".to_owned())
        };
        look_again(&shared, told, || panic!("no pause before the end"));
        assert_eq!(asked, 1);
    }
}
