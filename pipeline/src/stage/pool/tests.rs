//! Pools of replicas that do nothing except die on request.

use std::sync::mpsc;
use std::time::Duration;

use omni_engine::Stamp;
use tokio::sync::oneshot;

use super::super::device::SharedDevice;
use super::super::events::IgnoreEngines;
use super::super::family::BackendError;
use super::super::flow::End;
use super::super::generation::TurnTimeouts;
use super::super::worker::{Core, stage};
use super::*;
use crate::clock::Clock;

/// Longer than anything takes here; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers every job, panics at it or hangs in it.
struct Job {
    deadly: bool,
    /// The step of this job returns when the other end is dropped.
    hangs: Option<mpsc::Receiver<()>>,
    answer: oneshot::Sender<End>,
}

struct Answers {
    loaded: bool,
    broken: bool,
    held: Vec<Job>,
}

impl Core for Answers {
    type Job = Job;

    fn load(&mut self) -> Result<(), BackendError> {
        if self.broken {
            return Err(BackendError::Failed("no weights".to_owned()));
        }
        self.loaded = true;
        Ok(())
    }

    fn accept(&mut self, job: Job) {
        if self.loaded {
            self.held.push(job);
        } else {
            _ = job.answer.send(lost());
        }
    }

    fn tend(&mut self) {}

    fn has_work(&self) -> bool {
        !self.held.is_empty()
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {
        assert!(!self.held.iter().any(|job| job.deadly), "the job says so");
        for job in self.held.drain(..) {
            if let Some(hangs) = job.hangs {
                let _ = hangs.recv();
            }
            let _ = job.answer.send(End::Stop);
        }
    }

    fn settle(&mut self) {}

    fn end_all(&mut self, end: &End) {
        self.loaded = false;
        for job in self.held.drain(..) {
            let _ = job.answer.send(end.clone());
        }
    }
}

fn lost() -> End {
    End::Lost {
        stage: "test",
        message: String::new(),
    }
}

fn pool(replicas: u32, broken: bool) -> StagePool<Job> {
    StagePool::new(parts(broken, Clock::start()), replicas).unwrap()
}

fn parts(broken: bool, clock: Clock) -> PoolParts<Job> {
    let make = move |status| {
        let core = Answers {
            loaded: false,
            broken,
            held: Vec::new(),
        };
        stage(core, status, 8, clock, SharedDevice::default())
    };
    PoolParts {
        stage: "test",
        make: Box::new(make),
        start: Arc::new(|_, body| std::thread::Builder::new().spawn(|| body.run()).map(drop)),
        devices: vec!["cpu".to_owned()],
        formats: vec!["f32".to_owned()],
        routing: Routing::LeastQueue,
        restart: Restart {
            first_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(1),
            healthy_after: Duration::from_secs(1),
        },
        steps: None,
        joined: false,
        changes: Changes::default(),
        listen: Arc::new(|_, _| Arc::new(IgnoreEngines)),
    }
}

async fn until(pool: &StagePool<Job>, condition: impl Fn(&[ReplicaView]) -> bool) {
    let mut changes = pool.shared.parts.changes.follow();
    let wait = async {
        while !condition(&pool.replicas()) {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .expect("the condition comes true");
}

async fn ready(pool: &StagePool<Job>) {
    until(pool, |views| {
        views.iter().all(|view| view.state == ReplicaState::Ready)
    })
    .await;
}

async fn ask(lease: &Lease<Job>, deadly: bool) -> End {
    let (answer, answered) = oneshot::channel();
    let job = Job {
        deadly,
        hangs: None,
        answer,
    };
    lease.submit(job).unwrap();
    answered.await.unwrap()
}

#[tokio::test]
async fn work_is_shared_and_a_lease_counts_until_it_is_dropped() {
    let pool = pool(2, false);
    ready(&pool).await;
    let first = pool.bind().unwrap();
    let second = pool.bind().unwrap();
    assert_ne!(first.id(), second.id());
    assert_eq!(ask(&first, false).await, End::Stop);
    let in_flight = || {
        pool.replicas()
            .iter()
            .map(|view| view.in_flight)
            .collect::<Vec<_>>()
    };
    assert_eq!(in_flight(), [1, 1]);
    let idle = first.id();
    drop(first);
    assert_eq!(pool.bind().unwrap().id(), idle);
    drop(second);
    assert_eq!(in_flight(), [0, 0]);
    pool.stop();
}

#[tokio::test]
async fn a_cordoned_replica_finishes_what_it_has_and_gets_nothing_new() {
    let pool = pool(2, false);
    ready(&pool).await;
    let lease = pool.bind().unwrap();
    pool.cordon(lease.id()).unwrap();
    for _ in 0..4 {
        assert_ne!(pool.bind().unwrap().id(), lease.id());
    }
    assert_eq!(ask(&lease, false).await, End::Stop);
    pool.uncordon(lease.id()).unwrap();
    let both = [pool.bind().unwrap(), pool.bind().unwrap(), pool.bind().unwrap()];
    assert!(both.iter().any(|bound| bound.id() == lease.id()));
    pool.stop();
}

#[tokio::test]
async fn a_removed_replica_goes_when_its_last_work_is_done() {
    let pool = pool(1, false);
    ready(&pool).await;
    let lease = pool.bind().unwrap();
    pool.remove(lease.id()).unwrap();
    assert_eq!(pool.bind().unwrap_err(), NoReplica::Closed);
    assert_eq!(ask(&lease, false).await, End::Stop);
    assert_eq!(pool.replicas()[0].state, ReplicaState::Ready);
    let id = lease.id();
    drop(lease);
    until(&pool, |views| views[0].state == ReplicaState::Removed).await;
    assert!(matches!(pool.cordon(id), Err(PoolError::Unknown { .. })));

    // Another takes its place, under another name.
    assert_ne!(pool.add().unwrap(), id);
    until(&pool, |views| {
        views.iter().any(|view| view.state == ReplicaState::Ready)
    })
    .await;
    pool.bind().unwrap();
    pool.stop();
    assert!(matches!(pool.add(), Err(PoolError::Stopped { .. })));
}

#[tokio::test]
async fn a_replica_that_dies_loses_its_work_and_comes_back() {
    let pool = pool(1, false);
    ready(&pool).await;
    let lease = pool.bind().unwrap();
    let end = ask(&lease, true).await;
    assert!(
        matches!(end, End::Lost { stage: "test", ref message } if message.contains("the job says so")),
        "{end:?}"
    );
    ready(&pool).await;
    assert_eq!(ask(&lease, false).await, End::Stop);
    assert_eq!(pool.replicas()[0].stats.deaths, 1);
    pool.stop();
}

#[tokio::test]
async fn a_model_that_cannot_be_built_is_not_tried_again() {
    let pool = pool(1, true);
    until(&pool, |views| {
        matches!(views[0].state, ReplicaState::Failed { .. })
    })
    .await;
    let Err(NoReplica::Failed(message)) = pool.bind().map(drop) else {
        panic!("it is {:?}", pool.check())
    };
    assert_eq!(message, "no weights");
}

#[tokio::test]
async fn only_the_last_removed_replicas_are_shown() {
    let pool = pool(1, false);
    for _ in 0..20 {
        let id = pool.add().unwrap();
        pool.remove(id).unwrap();
        until(&pool, |views| {
            views
                .iter()
                .all(|view| view.id != id || view.state == ReplicaState::Removed)
        })
        .await;
    }
    assert!(pool.replicas().len() <= REMOVED_SHOWN + 1);
    pool.stop();
}

#[tokio::test]
async fn a_removed_replica_that_could_not_be_built_is_forgotten_in_time() {
    let pool = pool(0, true);
    let shown = 2 * REMOVED_SHOWN;
    for _ in 0..shown {
        pool.add().unwrap();
    }
    let failed = |view: &ReplicaView| matches!(view.state, ReplicaState::Failed { .. });
    until(&pool, |views| views.len() == shown && views.iter().all(failed)).await;
    for view in pool.replicas() {
        pool.remove(view.id).unwrap();
    }
    assert_eq!(pool.replicas().len(), REMOVED_SHOWN);
}

#[tokio::test]
async fn a_replica_for_which_there_is_no_thread_gets_one_when_there_is() {
    let clock = Clock::start();
    let threads = Arc::new(AtomicUsize::new(0));
    let started = Arc::clone(&threads);
    // The first replica's thread, then two failures, then as many as are wanted.
    let start = move |_: &str, body: StageBody| match started.fetch_add(1, Ordering::SeqCst) {
        1 | 2 => Err(io::Error::other("there are too many")),
        _ => std::thread::Builder::new().spawn(|| body.run()).map(drop),
    };
    let parts = PoolParts {
        start: Arc::new(start),
        steps: Some(StepLimits {
            timeouts: TurnTimeouts {
                step: Duration::from_secs(1),
                load: Duration::from_secs(1),
            },
            left_behind: 1,
        }),
        ..parts(false, clock)
    };
    let pool = StagePool::new(parts, 1).unwrap();
    ready(&pool).await;
    let watched = pool.clone();
    let watch = tokio::spawn(async move { watched.watch(clock).await });
    let lease = pool.bind().unwrap();
    let (release, hangs) = mpsc::channel();
    let (answer, answered) = oneshot::channel();
    let job = Job {
        deadly: false,
        hangs: Some(hangs),
        answer,
    };
    lease.submit(job).unwrap();
    let message = lease.lost().await;
    assert!(
        message.contains("there are too many") || message.contains("has not returned"),
        "{message}"
    );
    drop((lease, answered));

    // The one that hangs stays where it is, so that nothing changes but time.
    ready(&pool).await;
    assert_eq!(threads.load(Ordering::SeqCst), 4);
    let lease = pool.bind().unwrap();
    assert_eq!(ask(&lease, false).await, End::Stop);
    watch.abort();
    drop(release);
    pool.stop();
}

fn made(clock: Clock) -> MakeReplica<Job> {
    parts(false, clock).make
}

#[tokio::test]
async fn replicas_that_join_have_their_own_numbers_and_work_waits_for_them() {
    let clock = Clock::start();
    let parts = PoolParts {
        joined: true,
        ..parts(false, clock)
    };
    let pool = StagePool::new(parts, 0).unwrap();
    let none = pool.bind().unwrap_err();
    assert!(none == NoReplica::Absent(None) && none.may_pass());
    pool.join(ReplicaId(7), ("f32", None), made(clock)).unwrap();
    pool.join(ReplicaId(2), ("f32", None), made(clock)).unwrap();
    ready(&pool).await;
    let ids = || pool.replicas().iter().map(|view| view.id.0).collect::<Vec<_>>();
    assert_eq!(ids(), [2, 7]);
    let lease = pool.bind().unwrap();
    // It rejoins before its last work is done.
    pool.join(lease.id(), ("f32", None), made(clock)).unwrap();
    assert_eq!(ids(), [2, 7]);
    ready(&pool).await;
    assert_eq!(ask(&lease, false).await, End::Stop);
    assert_eq!(
        pool.replicas().iter().map(|view| view.in_flight).sum::<usize>(),
        0
    );
    for id in [2, 7] {
        pool.remove(ReplicaId(id)).unwrap();
    }
    assert_eq!(pool.bind().unwrap_err(), NoReplica::Absent(None));
    pool.stop();
}

#[tokio::test]
async fn a_replica_that_joins_and_cannot_work_is_waited_for_and_says_why() {
    let clock = Clock::start();
    let parts = PoolParts {
        joined: true,
        ..parts(false, clock)
    };
    let pool = StagePool::new(parts, 0).unwrap();
    let broken = super::tests::parts(true, clock).make;
    pool.join(ReplicaId(0), ("f32", None), broken).unwrap();
    until(&pool, |views| {
        matches!(views[0].state, ReplicaState::Failed { .. })
    })
    .await;
    let why = pool.bind().unwrap_err();
    assert!(
        why == NoReplica::Absent(Some("no weights".to_owned())) && why.may_pass(),
        "{why:?}"
    );
}

#[test]
fn a_pool_whose_replicas_are_elsewhere_loads_no_model_while_one_is_being_reached() {
    let clock = Clock::start();
    let never = |joined| PoolParts {
        joined,
        // It never gets as far as having a model.
        start: Arc::new(|_, _| Ok(())),
        ..parts(false, clock)
    };
    let pool = StagePool::new(never(true), 0).unwrap();
    pool.join(ReplicaId(0), ("f32", None), made(clock)).unwrap();
    let why = pool.bind().unwrap_err();
    assert!(why == NoReplica::Joining && why.may_pass(), "{why:?}");
    assert_eq!(pool.check().unwrap_err(), NoReplica::Joining);
    pool.remove(ReplicaId(0)).unwrap();
    assert_eq!(pool.check().unwrap_err(), NoReplica::Absent(None));

    let own = StagePool::new(never(false), 1).unwrap();
    assert_eq!(own.check().unwrap_err(), NoReplica::Loading);
}

#[tokio::test]
async fn what_was_begun_in_one_number_format_is_bound_to_no_other() {
    let clock = Clock::start();
    let parts = PoolParts {
        joined: true,
        ..parts(false, clock)
    };
    let pool = StagePool::new(parts, 0).unwrap();
    pool.join(ReplicaId(0), ("f32", None), made(clock)).unwrap();
    pool.join(ReplicaId(1), ("int4", None), made(clock)).unwrap();
    ready(&pool).await;
    for _ in 0..3 {
        let lease = pool.bind_like("int4").unwrap();
        assert_eq!((lease.id(), &**lease.format()), (ReplicaId(1), "int4"));
    }
    pool.remove(ReplicaId(1)).unwrap();
    until(&pool, |views| views[1].state == ReplicaState::Removed).await;
    let why = pool.bind_like("int4").unwrap_err();
    assert!(
        matches!(&why, NoReplica::Absent(Some(message)) if message.contains("int4")) && why.may_pass(),
        "{why:?}"
    );
    assert_eq!(
        pool.bind().unwrap().id(),
        ReplicaId(0),
        "what begins is bound to any"
    );
    pool.stop();
}
