//! The simulation: events in the order of their time, which drive the engines of all replicas.

mod utterance;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use omni_engine::SeqId;

use crate::cores::Cores;
use crate::cost::micros;
use crate::dice::Dice;
use crate::plan::{Outcome, Plan, Stage};
use crate::pool::{Pools, StepEvent};
use utterance::Utterance;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Asks(usize),
    Arrives(usize, Duration),
    CoreDone(u64),
    Begins(SeqId),
    StepEnds(Stage, usize),
    Wakes(usize),
    Frame(SeqId),
    FramesEnd(SeqId),
    Room(SeqId),
    Audio(SeqId, u32),
    ListenerRoom(SeqId),
    AudioEnds(SeqId),
    Loses(usize),
    Comes(Stage, usize),
    Looks(Stage),
}

/// A thread that shares the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Thread {
    /// All callers are one.
    Callers,
    /// The front end's for one of the stages.
    Front(Stage),
    /// A replica's that hands on what its steps give.
    Passes(Stage, usize),
    Steps(Stage, usize),
}

/// Consequence of work on the cores.
#[derive(Debug)]
struct Then {
    /// Other work, in its order.
    more: VecDeque<(Thread, Duration)>,
    wait: Duration,
    event: Event,
}

/// All of it.
pub(crate) struct World {
    plan: Plan,
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    order: u64,
    next_seq: u64,
    dice: Dice,
    /// None where each stage has its own.
    cores: Option<Cores<Thread, Then>>,
    pools: Pools,
    /// By start, so that a loss takes the oldest first, without chance.
    utterances: BTreeMap<SeqId, Utterance>,
    /// For replicas.
    waiting: VecDeque<Utterance>,
    wakes: HashMap<usize, Duration>,
    wanted: [VecDeque<(Duration, usize)>; 2],
    outcome: Outcome,
    replica_time: [f64; 2],
    counted_at: Duration,
}

impl World {
    /// The world at time 0.
    pub(crate) fn new(plan: Plan) -> Self {
        let mut world = Self {
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            order: 0,
            next_seq: 1,
            dice: Dice::new(plan.seed),
            cores: plan.cores.map(Cores::new),
            pools: Pools::new(&plan),
            utterances: BTreeMap::new(),
            waiting: VecDeque::new(),
            wakes: HashMap::new(),
            wanted: [VecDeque::new(), VecDeque::new()],
            outcome: Outcome::default(),
            replica_time: [0.0; 2],
            counted_at: plan.warm_up,
            plan,
        };
        for caller in 0..world.plan.callers {
            // As a rule not all at once, even without a ramp: an utterance apart at most.
            let utterance = if world.plan.together {
                0.0
            } else {
                world.plan.frames * world.plan.costs.frame_ms / 1e3
            };
            let spread = world.plan.ramp.as_secs_f64().max(utterance);
            let at = spread * (caller as f64 + world.dice.unit()) / world.plan.callers as f64;
            world.at(micros(at * 1e6), Event::Asks(caller));
        }
        for (n, loss) in world.plan.losses.clone().iter().enumerate() {
            world.at(loss.at, Event::Loses(n));
        }
        for stage in [Stage::Talker, Stage::Code2Wav] {
            if let Some(scale) = world.plan.scale[stage as usize] {
                world.at(scale.every, Event::Looks(stage));
            }
        }
        world
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now + wait, event);
    }

    /// An event after `work`, each piece on a thread, and `wait` behind it. Where nothing is shared only the wait takes time.
    fn after_work<const N: usize>(&mut self, work: [(Thread, Duration); N], wait: Duration, event: Event) {
        let then = Then {
            more: work.into(),
            wait,
            event,
        };
        if self.cores.is_some() {
            self.next_work(then);
            self.look_at_cores();
        } else {
            self.after(wait, event);
        }
    }

    /// Starts the next piece of work, or `then` when all is done.
    fn next_work(&mut self, mut then: Then) {
        let now = self.now;
        match (&mut self.cores, then.more.pop_front()) {
            (Some(cores), Some((thread, demand))) => {
                let demand = self.dice.around(demand.as_secs_f64(), self.plan.costs.varies);
                cores.take(now, thread, micros(demand * 1e6), then);
            }
            _ => self.after(then.wait, then.event),
        }
    }

    fn look_at_cores(&mut self) {
        if let Some((at, version)) = self.cores.as_ref().and_then(Cores::next) {
            self.at(at, Event::CoreDone(version));
        }
    }

    fn core_done(&mut self, version: u64) {
        let Some(cores) = &mut self.cores else { return };
        let Some(over) = cores.done(self.now, version) else {
            return;
        };
        for then in over {
            self.next_work(then);
        }
        self.look_at_cores();
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Outcome {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > self.plan.length {
                break;
            }
            self.count_replicas(at);
            self.now = at;
            self.take(event);
        }
        self.count_replicas(self.plan.length);
        let counted = (self.plan.length - self.plan.warm_up).as_secs_f64();
        let mut outcome = self.outcome;
        outcome.first_audio.sort_by(f64::total_cmp);
        outcome.counted = counted;
        outcome.mean = self.replica_time.map(|time| time / counted);
        let busy = self.pools.busy_since(self.plan.warm_up);
        for ((share, busy), time) in outcome.busy.iter_mut().zip(busy).zip(self.replica_time) {
            *share = busy.as_secs_f64() / time.max(1e-9);
        }
        outcome
    }

    fn count_replicas(&mut self, until: Duration) {
        let counts = self.pools.counts();
        let time = until.saturating_sub(self.counted_at).as_secs_f64();
        for (stage, count) in counts.into_iter().enumerate() {
            self.replica_time[stage] += time * count as f64;
            self.outcome.most[stage] = self.outcome.most[stage].max(count);
        }
        self.counted_at = self.counted_at.max(until);
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Asks(caller) => self.asks(caller),
            Event::Arrives(caller, asked) => self.arrives(caller, asked),
            Event::CoreDone(version) => self.core_done(version),
            Event::Begins(seq) => self.begins(seq),
            Event::StepEnds(stage, replica) => self.step_ends(stage, replica),
            Event::Wakes(replica) => {
                self.wakes.remove(&replica);
                self.work(Stage::Code2Wav, replica);
            }
            Event::Frame(seq) => self.frames(seq, false),
            Event::FramesEnd(seq) => self.frames(seq, true),
            Event::Room(seq) => {
                if let Some(utterance) = self.utterances.get(&seq) {
                    let replica = utterance.bound[0];
                    self.pools.talker(replica).set_paused(seq, false);
                    self.work(Stage::Talker, replica);
                }
            }
            Event::Audio(seq, frames) => self.audio(seq, frames),
            Event::ListenerRoom(seq) => {
                if let Some(utterance) = self.utterances.get(&seq) {
                    let replica = utterance.bound[1];
                    self.pools.vocoder(replica).set_paused(seq, false);
                    self.work(Stage::Code2Wav, replica);
                }
            }
            Event::AudioEnds(seq) => self.ends(seq),
            Event::Loses(n) => self.loses(n),
            Event::Comes(stage, replica) => {
                self.pools.comes(stage, replica);
                self.admit();
            }
            Event::Looks(stage) => self.looks(stage),
        }
    }

    /// Begins the next step of a replica, if there is one.
    fn work(&mut self, stage: Stage, replica: usize) {
        if let Some(took) = self.pools.step(stage, replica, self.now) {
            let ends = Event::StepEnds(stage, replica);
            if self.cores.is_some() {
                self.after_work([(Thread::Steps(stage, replica), took)], Duration::ZERO, ends)
            } else {
                self.after(took, ends)
            }
        } else if stage == Stage::Code2Wav
            && let Some(wake) = self.pools.wake_at(replica)
            && self.wakes.get(&replica).is_none_or(|before| wake < *before)
        {
            self.wakes.insert(replica, wake);
            self.at(
                wake.max(self.now + Duration::from_nanos(1)),
                Event::Wakes(replica),
            );
        }
    }

    fn step_ends(&mut self, stage: Stage, replica: usize) {
        for event in self.pools.end_step(stage, replica) {
            match event {
                StepEvent::Frame(seq) => self.made(seq),
                StepEvent::FramesEnd(seq) => self.pass_on(seq, 0, Event::FramesEnd(seq)),
                StepEvent::Audio(seq, frames) => self.decoded(seq, replica, frames),
                StepEvent::AudioEnds(seq) => {
                    let beside = self.plan.costs.beside;
                    // Behind the audio that is on its way.
                    let work = [
                        (Thread::Passes(Stage::Code2Wav, replica), Duration::ZERO),
                        (Thread::Front(Stage::Code2Wav), micros(beside.front_end_us)),
                        (Thread::Callers, micros(beside.caller_end_us)),
                    ];
                    self.after_work(work, self.plan.costs.hop(), Event::AudioEnds(seq));
                }
            }
        }
        self.work(stage, replica);
    }

    fn loses(&mut self, n: usize) {
        let loss = self.plan.losses[n];
        let lost = self.pools.lose(loss.stage, loss.share);
        let stage = loss.stage as usize;
        let hit = self
            .utterances
            .iter()
            .filter(|(_, utterance)| lost.contains(&utterance.bound[stage]));
        let hit: Vec<_> = hit.map(|(seq, _)| *seq).collect();
        for seq in hit {
            self.give_up(seq);
            self.again(seq);
        }
    }

    fn looks(&mut self, stage: Stage) {
        let Some(scale) = self.plan.scale[stage as usize] else {
            return;
        };
        self.after(scale.every, Event::Looks(stage));
        let count = self.pools.counts()[stage as usize];
        let load = self.pools.load(stage) as f64;
        let ratio = load / (scale.target * count.max(1) as f64);
        // The autoscaler's tolerance.
        let wanted = if (ratio - 1.0).abs() <= 0.1 {
            count
        } else {
            (load / scale.target).ceil() as usize
        };
        let wanted = wanted.clamp(scale.bounds.0, scale.bounds.1);
        let wishes = &mut self.wanted[stage as usize];
        wishes.push_back((self.now, wanted));
        while wishes
            .front()
            .is_some_and(|(at, _)| *at + scale.down_after < self.now)
        {
            wishes.pop_front();
        }
        let kept = wishes.iter().map(|(_, wanted)| *wanted).max().unwrap_or(wanted);
        if wanted > count {
            // At most twice as many, or four more, in a quarter of a minute.
            for replica in self.pools.start(stage, (wanted - count).min(count.max(4))) {
                self.after(scale.start, Event::Comes(stage, replica));
            }
        } else if kept < count {
            self.pools.drain(stage, count - kept);
        }
    }
}
