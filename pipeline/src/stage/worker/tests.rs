use super::super::replica::{Changes, ReplicaId};
use super::*;
use crate::settings::Restart;
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

fn restart() -> Restart {
    Restart {
        first_delay: Duration::ZERO,
        max_delay: Duration::ZERO,
        healthy_after: Duration::ZERO,
    }
}

fn status() -> ReplicaStatus {
    ReplicaStatus::new("test", ReplicaId(0), restart(), Changes::default())
}

#[test]
fn a_cancelled_job_leaves_before_the_next_one_comes() {
    let (jobs, mailbox) = mpsc::channel(4);
    let status = status();
    let mut worker = Worker {
        name: "test",
        core: OnePlace::default(),
        jobs: mailbox,
        wake: Notifier::default(),
        stop: CancelFlag::default(),
        status,
        clock: Clock::start(),
        device: SharedDevice::default(),
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

/// Model whose warm-up is cancelled midway.
struct Interrupted(CancelFlag);

impl Core for Interrupted {
    type Job = ();

    fn load(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        self.0.set();
        Ok(true)
    }

    fn accept(&mut self, (): ()) {}

    fn tend(&mut self) {}

    fn has_work(&self) -> bool {
        false
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {}

    fn settle(&mut self) {}

    fn end_all(&mut self, _end: &End) {}
}

#[test]
fn a_replica_that_is_stopped_in_its_warm_up_is_never_ready() {
    let changes = Changes::default();
    let stop = CancelFlag::default();
    let seen = changes.follow();
    let status = ReplicaStatus::new("test", ReplicaId(0), restart(), changes);
    let parts = StageParts {
        mailbox: 1,
        wake: Notifier::default(),
        stop: stop.clone(),
        status: status.clone(),
        clock: Clock::start(),
        device: SharedDevice::default(),
    };
    let (_handle, body) = stage_of(Interrupted(stop), parts);
    let before = *seen.borrow();
    body.run();
    assert_eq!(status.state(), ReplicaState::Removed);
    // One when it is removed, one when its thread ends.
    assert_eq!(*seen.borrow() - before, 2);
}

#[test]
fn a_stage_whose_handle_is_dropped_ends() {
    let (handle, body) = stage(
        OnePlace::default(),
        status(),
        1,
        Clock::start(),
        SharedDevice::default(),
    );
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

/// Loses its device in the first step.
#[derive(Default)]
struct Loses {
    loads: u32,
    jobs: Vec<mpsc::Sender<&'static str>>,
    lost: bool,
}

impl Core for Loses {
    type Job = mpsc::Sender<&'static str>;

    fn load(&mut self) -> Result<(), BackendError> {
        self.loads += 1;
        assert_eq!(self.loads, 1, "it is built anew");
        Ok(())
    }

    fn accept(&mut self, job: Self::Job) {
        if self.lost {
            job.try_send("lost").unwrap();
        } else {
            self.jobs.push(job);
        }
    }

    fn tend(&mut self) {}

    fn has_work(&self) -> bool {
        !self.jobs.is_empty()
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {
        self.lost = true;
    }

    fn settle(&mut self) {}

    fn end_all(&mut self, end: &End) {
        assert!(matches!(end, End::Lost { .. }), "{end:?}");
        for job in self.jobs.drain(..) {
            job.try_send("lost").unwrap();
        }
    }

    fn lost(&self) -> Option<String> {
        self.lost.then(|| "an illegal address".to_owned())
    }
}

#[test]
fn a_replica_whose_device_is_lost_gives_its_work_back_and_is_never_built_anew() {
    let status = status();
    let (job, mut told) = mpsc::channel(1);
    let (jobs, mailbox) = mpsc::channel(4);
    let worker = Worker {
        name: "test",
        core: Loses::default(),
        jobs: mailbox,
        wake: Notifier::default(),
        stop: CancelFlag::default(),
        status: status.clone(),
        clock: Clock::start(),
        device: SharedDevice::default(),
    };
    jobs.try_send(job).unwrap();
    // Its thread ends although there is nothing that stops it.
    worker.run();
    assert_eq!(told.try_recv(), Ok("lost"));
    let message = "an illegal address".to_owned();
    assert_eq!(status.state(), ReplicaState::Failed { message });
    assert_eq!(status.life(), 1, "what it had is lost to those who wait for it");
    assert!(jobs.is_closed());
}

/// One without work, and a thread that runs it.
fn without_work(
    status: &ReplicaStatus,
    device: &SharedDevice,
) -> (StageHandle<CancelFlag>, std::thread::JoinHandle<()>) {
    let core = OnePlace::default();
    let (handle, body) = stage(core, status.clone(), 1, Clock::start(), device.clone());
    (handle, std::thread::spawn(move || body.run()))
}

#[test]
fn a_replica_without_work_leaves_at_once_when_another_loses_their_device() {
    let changes = Changes::default();
    let device = SharedDevice::default();
    let idle = ReplicaStatus::new("test", ReplicaId(1), restart(), changes.clone());
    let elsewhere = ReplicaStatus::new("test", ReplicaId(2), restart(), changes);
    let (_handle, thread) = without_work(&idle, &device);
    let (other, other_thread) = without_work(&elsewhere, &SharedDevice::default());
    while !idle.is_ready() || !elsewhere.is_ready() {
        std::thread::yield_now();
    }

    let losing = status();
    let (job, mut told) = mpsc::channel(1);
    let (handle, body) = stage(Loses::default(), losing.clone(), 1, Clock::start(), device);
    handle.submit(job).unwrap();
    body.run();
    assert_eq!(told.try_recv(), Ok("lost"));
    // Its thread ends although no job comes and nothing stops it.
    thread.join().unwrap();
    let message = "an illegal address".to_owned();
    assert_eq!(
        losing.state(),
        ReplicaState::Failed {
            message: message.clone()
        }
    );
    assert_eq!(idle.state(), ReplicaState::Failed { message });
    assert_eq!(
        elsewhere.state(),
        ReplicaState::Ready,
        "it computes on another device"
    );
    other.stop();
    other_thread.join().unwrap();
}

/// A core that panics in its first step and is rebuilt with the results in `again`, one per later load. The first
/// step after that stops it.
struct Rebuilt<A> {
    loads: u32,
    again: A,
    stop: CancelFlag,
}

impl<A> Rebuilt<A> {
    fn new(again: A) -> Self {
        Self {
            loads: 0,
            again,
            stop: CancelFlag::default(),
        }
    }
}

/// Fails once with `error`, and records it.
fn fails_once(
    error: BackendError,
    said: std::sync::mpsc::SyncSender<()>,
) -> impl FnMut(u32) -> Result<(), BackendError> {
    move |_| {
        said.try_send(()).expect("it is built anew once");
        Err(error.clone())
    }
}

impl<A: FnMut(u32) -> Result<(), BackendError> + Send + 'static> Core for Rebuilt<A> {
    type Job = ();

    fn load(&mut self) -> Result<(), BackendError> {
        self.loads += 1;
        if self.loads == 1 {
            return Ok(());
        }
        (self.again)(self.loads)
    }

    fn accept(&mut self, (): ()) {}

    fn tend(&mut self) {}

    fn has_work(&self) -> bool {
        true
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {
        assert!(self.loads > 1, "scripted");
        self.stop.set();
    }

    fn settle(&mut self) {}

    fn end_all(&mut self, _end: &End) {}
}

#[test]
fn a_replica_that_is_being_built_anew_stops_trying_when_its_device_is_lost() {
    // It would try again after an hour.
    let hour = Duration::from_secs(3600);
    let slow = Restart {
        first_delay: hour,
        max_delay: hour,
        healthy_after: hour,
    };
    let status = ReplicaStatus::new("test", ReplicaId(0), slow, Changes::default());
    let device = SharedDevice::default();
    let (again, rebuilt) = sync_channel(1);
    let core = Rebuilt::new(fails_once(BackendError::Failed("no memory".into()), again));
    let (_handle, body) = stage(core, status.clone(), 1, Clock::start(), device.clone());
    let thread = std::thread::spawn(move || body.run());
    while !matches!(status.state(), ReplicaState::Restarting { .. }) {
        std::thread::yield_now();
    }
    device.lose("an illegal address");
    thread.join().unwrap();
    let message = "an illegal address".to_owned();
    assert_eq!(status.state(), ReplicaState::Failed { message });
    assert!(rebuilt.try_recv().is_err(), "it was not built in vain");
}

#[test]
fn a_replica_whose_device_is_lost_while_it_is_built_anew_tells_the_others() {
    let status = status();
    let device = SharedDevice::default();
    let (again, rebuilt) = sync_channel(1);
    let core = Rebuilt::new(fails_once(
        BackendError::Lost("an uncorrectable error".into()),
        again,
    ));
    let (_handle, body) = stage(core, status.clone(), 1, Clock::start(), device.clone());
    body.run();
    let message = "an uncorrectable error".to_owned();
    assert_eq!(status.state(), ReplicaState::Failed { message });
    assert_eq!(rebuilt.try_recv(), Ok(()));
    assert_eq!(device.lost(), Some("an uncorrectable error"));
}

#[test]
fn a_replica_that_is_not_built_anew_at_once_has_died_once() {
    let core = Rebuilt::new(|load| match load {
        4 => Ok(()),
        load => Err(BackendError::Failed(format!("load {load} failed"))),
    });
    let status = status();
    let parts = StageParts {
        mailbox: 1,
        wake: Notifier::default(),
        stop: core.stop.clone(),
        status: status.clone(),
        clock: Clock::start(),
        device: SharedDevice::default(),
    };
    let (handle, body) = stage_of(core, parts);
    body.run();
    drop(handle);
    assert_eq!(status.state(), ReplicaState::Removed);
    assert_eq!(status.stats().deaths, 1);
    assert_eq!(status.life(), 1);
    assert_eq!(status.last_error(), Some("load 3 failed".to_owned()));
}
