//! The replicas of both stages, and which one gets an utterance.

use std::time::Duration;

use omni_engine::{ArConfig, ArEngine, ChunkConfig, ChunkEngine, SeqEvent, SeqId, Stamp};
use omni_pipeline::settings::Routing;
use omni_pipeline::stage::{ReplicaId, Router};

use crate::models::{LastStep, Talker, Vocoder};
use crate::plan::{Plan, Stage};

/// Output of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StepEvent {
    /// A frame.
    Frame(SeqId),
    /// End of frames.
    FramesEnd(SeqId),
    /// Audio of `n` frames.
    Audio(SeqId, u32),
    /// End of audio.
    AudioEnds(SeqId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Coming,
    Up,
    Leaving,
    Gone,
}

struct Replica<E> {
    engine: E,
    last: LastStep,
    life: Life,
    working: bool,
    leases: usize,
    given: Vec<StepEvent>,
    /// Start and length of steps.
    busy: Vec<(Duration, Duration)>,
}

struct Pool<E> {
    replicas: Vec<Replica<E>>,
    router: Router,
    /// Replicas that there are, or will be.
    live: usize,
    make: Box<dyn Fn() -> (E, LastStep)>,
}

impl<E> Pool<E> {
    fn new(routing: Routing, count: usize, make: Box<dyn Fn() -> (E, LastStep)>) -> Self {
        let mut pool = Self {
            replicas: Vec::new(),
            router: Router::new(routing),
            live: 0,
            make,
        };
        for _ in 0..count {
            pool.add(Life::Up);
        }
        pool
    }

    fn add(&mut self, life: Life) -> usize {
        let (engine, last) = (self.make)();
        self.live += 1;
        self.replicas.push(Replica {
            engine,
            last,
            life,
            working: false,
            leases: 0,
            given: Vec::new(),
            busy: Vec::new(),
        });
        self.replicas.len() - 1
    }

    fn pick(&mut self) -> Option<usize> {
        let up = self
            .replicas
            .iter()
            .enumerate()
            .filter(|(_, replica)| replica.life == Life::Up);
        let candidates: Vec<_> = up
            .map(|(n, replica)| (ReplicaId(n as u32), replica.leases))
            .collect();
        self.router.pick(&candidates).map(|id| id.0 as usize)
    }

    fn release(&mut self, replica: usize) {
        let replica = &mut self.replicas[replica];
        replica.leases = replica.leases.saturating_sub(1);
        if replica.life == Life::Leaving && replica.leases == 0 {
            replica.life = Life::Gone;
        }
    }

    fn lose(&mut self, share: f64) -> Vec<usize> {
        let up: Vec<_> = (0..self.replicas.len())
            .filter(|n| self.replicas[*n].life == Life::Up)
            .collect();
        let lost = (up.len() as f64 * share).round() as usize;
        let lost: Vec<_> = up.into_iter().take(lost).collect();
        self.live -= lost.len();
        for replica in &lost {
            self.replicas[*replica].life = Life::Gone;
        }
        lost
    }

    fn drain(&mut self, count: usize) {
        let up = self
            .replicas
            .iter_mut()
            .rev()
            .filter(|replica| replica.life == Life::Up);
        for replica in up.take(count) {
            self.live -= 1;
            replica.life = if replica.leases == 0 {
                Life::Gone
            } else {
                Life::Leaving
            };
        }
    }

    fn busy_since(&self, since: Duration) -> Duration {
        let steps = self.replicas.iter().flat_map(|replica| &replica.busy);
        steps.filter(|(at, _)| *at >= since).map(|(_, took)| *took).sum()
    }

    fn leases(&self) -> usize {
        self.replicas.iter().map(|replica| replica.leases).sum()
    }
}

/// Both stages.
pub(crate) struct Pools {
    talkers: Pool<ArEngine<Talker>>,
    vocoders: Pool<ChunkEngine<Vocoder>>,
}

/// As an engine's instant.
pub(crate) fn stamp(at: Duration) -> Stamp {
    Stamp(at)
}

impl Pools {
    pub(crate) fn new(plan: &Plan) -> Self {
        let routing = || {
            if plan.random_routing {
                Routing::Random(plan.seed)
            } else {
                Routing::LeastQueue
            }
        };
        let costs = plan.costs;
        let talker = move || {
            let last = LastStep::default();
            let model = Talker::new(costs.talker, 8192, LastStep::clone(&last));
            (ArEngine::new(model, ArConfig::default()), last)
        };
        let vocoder = move || {
            let last = LastStep::default();
            let model = Vocoder::new(costs.code2wav, costs.context_frames, LastStep::clone(&last));
            let config = ChunkConfig {
                max_streams: 256,
                ..ChunkConfig::new(costs.frame())
            };
            (ChunkEngine::new(model, config), last)
        };
        Self {
            talkers: Pool::new(routing(), plan.replicas[0], Box::new(talker)),
            vocoders: Pool::new(routing(), plan.replicas[1], Box::new(vocoder)),
        }
    }

    pub(crate) fn talker(&mut self, replica: usize) -> &mut ArEngine<Talker> {
        &mut self.talkers.replicas[replica].engine
    }

    pub(crate) fn vocoder(&mut self, replica: usize) -> &mut ChunkEngine<Vocoder> {
        &mut self.vocoders.replicas[replica].engine
    }

    /// A replica of each stage, if both have one.
    pub(crate) fn bind(&mut self) -> Option<[usize; 2]> {
        let talker = self.talkers.pick()?;
        let vocoder = self.vocoders.pick()?;
        self.talkers.replicas[talker].leases += 1;
        self.vocoders.replicas[vocoder].leases += 1;
        Some([talker, vocoder])
    }

    pub(crate) fn release(&mut self, [talker, vocoder]: [usize; 2]) {
        self.talkers.release(talker);
        self.vocoders.release(vocoder);
    }

    /// Replicas that there are, or will be.
    pub(crate) fn counts(&self) -> [usize; 2] {
        [self.talkers.live, self.vocoders.live]
    }

    /// Utterances that a stage has.
    pub(crate) fn load(&self, stage: Stage) -> usize {
        match stage {
            Stage::Talker => self
                .talkers
                .replicas
                .iter()
                .map(|replica| replica.engine.len())
                .sum(),
            Stage::Code2Wav => self.vocoders.leases(),
        }
    }

    pub(crate) fn lose(&mut self, stage: Stage, share: f64) -> Vec<usize> {
        match stage {
            Stage::Talker => self.talkers.lose(share),
            Stage::Code2Wav => self.vocoders.lose(share),
        }
    }

    pub(crate) fn start(&mut self, stage: Stage, count: usize) -> Vec<usize> {
        let one = |_| match stage {
            Stage::Talker => self.talkers.add(Life::Coming),
            Stage::Code2Wav => self.vocoders.add(Life::Coming),
        };
        (0..count).map(one).collect()
    }

    pub(crate) fn comes(&mut self, stage: Stage, replica: usize) {
        let life = match stage {
            Stage::Talker => &mut self.talkers.replicas[replica].life,
            Stage::Code2Wav => &mut self.vocoders.replicas[replica].life,
        };
        if *life == Life::Coming {
            *life = Life::Up;
        }
    }

    pub(crate) fn drain(&mut self, stage: Stage, count: usize) {
        match stage {
            Stage::Talker => self.talkers.drain(count),
            Stage::Code2Wav => self.vocoders.drain(count),
        }
    }

    pub(crate) fn busy_since(&self, since: Duration) -> [Duration; 2] {
        [self.talkers.busy_since(since), self.vocoders.busy_since(since)]
    }

    /// Begins a step at `now` if there is something to do; how long it takes.
    pub(crate) fn step(&mut self, stage: Stage, replica: usize, now: Duration) -> Option<Duration> {
        match stage {
            Stage::Talker => {
                let replica = &mut self.talkers.replicas[replica];
                let idle = replica.life == Life::Gone || replica.working || !replica.engine.has_work();
                (!idle).then(|| replica.talk(now))
            }
            Stage::Code2Wav => {
                let replica = &mut self.vocoders.replicas[replica];
                let idle =
                    replica.life == Life::Gone || replica.working || !replica.engine.has_work(stamp(now));
                (!idle).then(|| replica.decode(now))
            }
        }
    }

    /// Time at which a vocoder has something to do although nothing comes.
    pub(crate) fn wake_at(&self, replica: usize) -> Option<Duration> {
        let replica = &self.vocoders.replicas[replica];
        let sleeps = !replica.working && replica.life != Life::Gone;
        sleeps.then(|| replica.engine.wake_at()).flatten().map(|at| at.0)
    }

    /// Outputs of the step that ends.
    pub(crate) fn end_step(&mut self, stage: Stage, replica: usize) -> Vec<StepEvent> {
        let (working, given, gone) = match stage {
            Stage::Talker => {
                let replica = &mut self.talkers.replicas[replica];
                (
                    &mut replica.working,
                    &mut replica.given,
                    replica.life == Life::Gone,
                )
            }
            Stage::Code2Wav => {
                let replica = &mut self.vocoders.replicas[replica];
                (
                    &mut replica.working,
                    &mut replica.given,
                    replica.life == Life::Gone,
                )
            }
        };
        *working = false;
        let given = std::mem::take(given);
        if gone { Vec::new() } else { given }
    }
}

/// A clock of two readings: when a step begins, and when its results are there.
fn clock(now: Duration, last: &LastStep) -> impl FnMut() -> Stamp {
    let last = LastStep::clone(last);
    last.set(Duration::ZERO);
    let mut begun = false;
    move || {
        if std::mem::replace(&mut begun, true) {
            stamp(now + last.get())
        } else {
            stamp(now)
        }
    }
}

impl<E> Replica<E> {
    fn took(&mut self, now: Duration) -> Duration {
        let took = self.last.get();
        self.working = true;
        self.busy.push((now, took));
        took
    }
}

impl Replica<ArEngine<Talker>> {
    fn talk(&mut self, now: Duration) -> Duration {
        let report = self.engine.step_with(clock(now, &self.last));
        self.given
            .extend(report.events.iter().filter_map(|event| match event {
                SeqEvent::Output { seq, .. } => Some(StepEvent::Frame(*seq)),
                SeqEvent::Finished { seq, .. } => Some(StepEvent::FramesEnd(*seq)),
                _ => None,
            }));
        self.took(now)
    }
}

impl Replica<ChunkEngine<Vocoder>> {
    fn decode(&mut self, now: Duration) -> Duration {
        let report = self.engine.step_with(clock(now, &self.last));
        self.given
            .extend(report.events.iter().filter_map(|event| match event {
                SeqEvent::Output { seq, item } => Some(StepEvent::Audio(*seq, item.items)),
                SeqEvent::Finished { seq, .. } => Some(StepEvent::AudioEnds(*seq)),
                _ => None,
            }));
        self.took(now)
    }
}
