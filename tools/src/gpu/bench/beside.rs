//! Two loops of steps at once, on queues of their own: what each costs the other.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A loop ready for its first step.
pub(super) trait Steps: Send {
    fn step(&mut self) -> anyhow::Result<()>;
    /// Returns true if it can be stepped once more.
    fn has_room(&self) -> bool;
}

/// Limits of a measured loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) steps: u32,
    pub(super) time: Duration,
}

/// Progress of one of two loops.
#[derive(Debug, Default)]
struct Progress {
    measured: AtomicBool,
    ended: AtomicBool,
}

impl Progress {
    fn is_measured(&self) -> bool {
        self.measured.load(Ordering::SeqCst) || self.has_ended()
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

/// A loop that fails or panics has ended, too: the other one must not wait for it.
struct Ending<'a>(&'a Progress);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
    }
}

/// Seconds that each step of a loop took on its own.
pub(super) fn alone(steps: &mut dyn Steps, most: Most) -> anyhow::Result<Vec<f64>> {
    measured(steps, most, &Progress::default(), &Progress::default())
}

/// Seconds of each step of two loops running side by side. Both begin together and continue until the other is
/// measured; steps that outlast the other loop are left out.
pub(super) fn both(
    first: &mut dyn Steps,
    second: &mut dyn Steps,
    most: Most,
) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let begin = Barrier::new(2);
    let progress = [Progress::default(), Progress::default()];
    let [of_first, of_second] = &progress;
    let run = |steps: &mut dyn Steps, own: &Progress, other: &Progress| {
        let _ending = Ending(own);
        begin.wait();
        let seconds = measured(steps, most, own, other)?;
        while !other.is_measured() && steps.has_room() {
            steps.step()?;
        }
        anyhow::Ok(seconds)
    };
    std::thread::scope(|scope| {
        let second = scope.spawn(|| run(second, of_second, of_first));
        let first = run(first, of_first, of_second);
        let second = second.join().map_err(|_| anyhow::anyhow!("a loop panicked"))?;
        let first = first?;
        let second = second?;
        anyhow::ensure!(
            !first.is_empty() && !second.is_empty(),
            "no step of one loop ran beside the other"
        );
        Ok((first, second))
    })
}

fn measured(steps: &mut dyn Steps, most: Most, own: &Progress, other: &Progress) -> anyhow::Result<Vec<f64>> {
    let begun = Instant::now();
    let mut seconds = Vec::new();
    while seconds.len() < most.steps as usize && (seconds.is_empty() || begun.elapsed() < most.time) {
        let start = Instant::now();
        steps.step()?;
        let took = start.elapsed();
        if other.has_ended() {
            break;
        }
        seconds.push(took.as_secs_f64());
    }
    own.measured.store(true, Ordering::SeqCst);
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// A loop whose steps each wait until the other has done a given number.
    struct Scripted {
        waits_for: u32,
        room: u32,
        breaks_at: u32,
        done: Arc<AtomicU32>,
        of_other: Arc<AtomicU32>,
    }

    fn two(waits_for: [u32; 2]) -> [Scripted; 2] {
        let done = [Arc::<AtomicU32>::default(), Arc::default()];
        [0, 1].map(|i| Scripted {
            waits_for: waits_for[i],
            room: u32::MAX,
            breaks_at: u32::MAX,
            done: Arc::clone(&done[i]),
            of_other: Arc::clone(&done[1 - i]),
        })
    }

    impl Scripted {
        fn steps(&self) -> u32 {
            self.done.load(Ordering::SeqCst)
        }
    }

    impl Steps for Scripted {
        fn step(&mut self) -> anyhow::Result<()> {
            let begun = Instant::now();
            let wanted = self.waits_for * (self.steps() + 1);
            while self.of_other.load(Ordering::SeqCst) < wanted {
                anyhow::ensure!(
                    begun.elapsed() < Duration::from_secs(60),
                    "the other loop stood still"
                );
                std::thread::yield_now();
            }
            let done = self.done.fetch_add(1, Ordering::SeqCst) + 1;
            anyhow::ensure!(done < self.breaks_at, "it was to break");
            Ok(())
        }

        fn has_room(&self) -> bool {
            self.steps() < self.room
        }
    }

    /// A loop whose step of a number waits for the other loop's end.
    struct Waiting<'a> {
        steps: u32,
        waits_at: u32,
        other: &'a Progress,
    }

    impl Steps for Waiting<'_> {
        fn step(&mut self) -> anyhow::Result<()> {
            self.steps += 1;
            while self.steps == self.waits_at && !self.other.has_ended() {
                std::thread::yield_now();
            }
            Ok(())
        }

        fn has_room(&self) -> bool {
            true
        }
    }

    const MOST: Most = Most {
        steps: 4,
        time: Duration::from_secs(600),
    };

    #[test]
    fn the_faster_loop_goes_on_until_the_slower_one_was_measured_and_no_longer() {
        let [mut fast, mut slow] = two([0, 3]);
        let (of_fast, of_slow) = both(&mut fast, &mut slow, MOST).expect("neither stood still");
        assert_eq!((of_fast.len(), of_slow.len()), (4, 4));
        assert_eq!(slow.steps(), 4, "nothing was left to wait for");
        assert!(fast.steps() >= 12, "it was to go on: {}", fast.steps());
    }

    #[test]
    fn a_step_in_which_the_other_loop_has_ended_is_not_told() {
        let own = Progress::default();
        let other = Progress::default();
        let mut waiting = Waiting {
            steps: 0,
            waits_at: 3,
            other: &other,
        };
        let seconds = std::thread::scope(|scope| {
            scope.spawn(|| drop(Ending(&other)));
            measured(&mut waiting, MOST, &own, &other)
        });
        // Where the other thread is faster, an earlier step is the last.
        let told = seconds.expect("measured").len();
        assert!(told < 3 && waiting.steps as usize == told + 1, "{told}");
        assert!(own.is_measured());
    }

    #[test]
    fn a_loop_that_breaks_ends_the_other_and_is_told_of() {
        for broken in [0, 1] {
            let mut loops = two([0, 0]);
            loops[broken].breaks_at = 2;
            let [first, second] = &mut loops;
            let most = Most {
                steps: u32::MAX,
                ..MOST
            };
            let told = both(first, second, most).expect_err("one breaks").to_string();
            assert_eq!(told, "it was to break");
        }
    }

    #[test]
    fn alone_a_loop_is_stepped_as_often_as_it_is_measured() {
        let [mut one, _] = two([0, 0]);
        assert_eq!(alone(&mut one, MOST).expect("measured").len(), 4);
        assert_eq!(one.steps(), 4);
    }
}
