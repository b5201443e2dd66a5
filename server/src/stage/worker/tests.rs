use super::super::replica::{Changes, ReplicaId};
use super::*;
use crate::config::deploy::Restart;
use std::sync::mpsc::sync_channel;

/// Has one place, and keeps a job until it is cancelled.
#[derive(Default)]
struct OnePlace {
    place: Option<CancelFlag>,
    refused: usize,
}

impl Core for OnePlace {
    type Job = CancelFlag;

    fn load(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn accept(&mut self, job: CancelFlag) {
        match self.place {
            Some(_) => self.refused += 1,
            None => self.place = Some(job),
        }
    }

    fn tend(&mut self) {
        self.place.take_if(|job| job.is_set());
    }

    fn has_work(&self) -> bool {
        false
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {}

    fn settle(&mut self) {}

    fn end_all(&mut self, _end: &End) {
        self.place = None;
    }
}

fn seat() -> Seat {
    let restart = Restart {
        first_delay: Duration::ZERO,
        max_delay: Duration::ZERO,
        healthy_after: Duration::ZERO,
    };
    Seat::new(ReplicaId(0), restart, Changes::default())
}

#[test]
fn a_cancelled_job_leaves_before_the_next_one_comes() {
    let (jobs, mailbox) = mpsc::channel(4);
    let seat = seat();
    let mut worker = Worker {
        name: "test",
        core: OnePlace::default(),
        jobs: mailbox,
        wake: Wake::default(),
        stop: CancelFlag::default(),
        seat,
        clock: Clock::start(),
    };
    let first = CancelFlag::default();
    jobs.try_send(first.clone()).unwrap();
    worker.turn();
    first.set();
    jobs.try_send(CancelFlag::default()).unwrap();
    worker.turn();
    assert_eq!(worker.core.refused, 0);
    assert!(worker.core.place.is_some());
}

#[test]
fn a_stage_whose_handle_is_dropped_ends() {
    let (handle, body) = stage("test", OnePlace::default(), seat(), 1, Clock::start());
    let (ended, end) = sync_channel(1);
    let thread = std::thread::spawn(move || {
        body.run();
        ended.send(()).unwrap();
    });
    drop(handle);
    // Longer than anything takes; only a test that fails waits for it.
    assert_eq!(end.recv_timeout(Duration::from_secs(30)), Ok(()));
    thread.join().unwrap();
}
