//! The model of these tests, and short ways to drive an engine over it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use crate::ar::*;
use crate::content::ContentKey;
use crate::ids::BlockId;
use crate::model::{
    AsyncExecutor, KvCache, KvSpec, ModelError, Sampled, SeqStep, Sequences, StepExecutor, Warmup,
};
use crate::step::SeqRecord;

pub(super) const NOW: Stamp = Stamp(Duration::ZERO);

pub(super) fn at(millis: u64) -> Stamp {
    Stamp(Duration::from_millis(millis))
}

/// Folds a number into a hash.
fn mix(hash: u64, x: u64) -> u64 {
    let mixed = (hash ^ x.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 29)
}

/// A request for the [`Oracle`].
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) prompt: Vec<u32>,
    /// Outputs before the model ends it.
    pub(super) life: u32,
    /// Its tokens are these, in turn; from the hashes if empty.
    pub(super) tokens: Vec<u32>,
    /// Outputs that were made before.
    pub(super) prior: Vec<Out>,
    /// `true` if it names the content of its positions.
    pub(super) shares: bool,
}

/// Output `n` of sequence `s` has the name `1000 * s + n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Out {
    pub(super) name: u64,
    pub(super) value: u64,
    pub(super) token: u32,
}

/// Row `p` of a sequence is a hash of row `p - 1` as found in the cache and of what stands at `p`. So an output is
/// right only if every row before it was.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    spec: Option<KvSpec>,
    pub(super) open: HashMap<SeqId, Life>,
    kv: HashMap<(BlockId, u32), u64>,
    pub(super) fail_next: bool,
    /// `true` once nothing can be computed any more.
    pub(super) lost: bool,
    /// Samples when it is asked and gives them when it is to answer.
    pub(super) apart: bool,
    pub(super) fail_answer: bool,
    asked: VecDeque<Vec<(SeqId, Sampled<Out>)>>,
    /// Entries of the last `execute`: sequence, start, length.
    pub(super) batch: Vec<(SeqId, u32, u32)>,
}

#[derive(Debug)]
pub(super) struct Life {
    request: Request,
    needs_rows: bool,
    rows: Vec<u32>,
    closed: bool,
    values: Vec<u64>,
    tokens: Vec<u32>,
    /// So many of them have been told.
    told: usize,
    computed: u32,
    /// It has given its end: what is computed of it after that is nothing.
    over: bool,
}

impl Life {
    fn known(&self) -> u32 {
        (self.request.prompt.len() + self.tokens.len()) as u32
    }

    fn content(&self, p: u32) -> u32 {
        let p = p as usize;
        let prompt = &self.request.prompt;
        prompt
            .get(p)
            .copied()
            .unwrap_or_else(|| self.tokens[p - prompt.len()])
    }

    /// Expected row `p`, computed without a cache.
    fn row(&self, p: u32) -> u64 {
        (0..=p).fold(0, |hash, p| mix(hash, u64::from(self.content(p))))
    }

    fn next(&self, seq: SeqId, row: u64) -> Out {
        let n = self.tokens.len();
        let value = mix(row, u64::from(self.rows.get(n).copied().unwrap_or(0)));
        let scripted = &self.request.tokens;
        let token = if scripted.is_empty() {
            (value % 97) as u32
        } else {
            scripted[n % scripted.len()]
        };
        Out {
            name: seq.0 * 1000 + n as u64,
            value,
            token,
        }
    }
}

/// Outputs of a sequence that runs alone and undisturbed.
pub(super) fn alone(seq: SeqId, request: &Request, rows: &[u32], outputs: usize) -> Vec<Out> {
    let mut life = Life {
        request: request.clone(),
        needs_rows: false,
        rows: rows.to_vec(),
        closed: true,
        values: Vec::new(),
        tokens: Vec::new(),
        told: 0,
        computed: 0,
        over: false,
    };
    let next = |_| {
        let out = life.next(seq, life.row(life.known() - 1));
        life.tokens.push(out.token);
        out
    };
    (0..outputs).map(next).collect()
}

impl Sequences for Oracle {
    /// `true` if it needs rows, and the request itself.
    type Request = (bool, Request);
    type Row = u32;

    fn open(&mut self, seq: SeqId, (needs_rows, request): (bool, Request)) -> Result<u32, ModelError> {
        let prompt = request.prompt.len() as u32;
        let tokens: Vec<u32> = request.prior.iter().map(|out| out.token).collect();
        let life = Life {
            needs_rows,
            rows: Vec::new(),
            closed: false,
            values: Vec::new(),
            told: tokens.len(),
            tokens,
            request,
            computed: 0,
            over: false,
        };
        assert!(self.open.insert(seq, life).is_none(), "{seq:?} opened twice");
        Ok(prompt)
    }

    fn push(&mut self, seq: SeqId, rows: Vec<u32>, last: bool) {
        let life = self.open.get_mut(&seq).expect("push to an open sequence");
        life.rows.extend(rows);
        life.closed |= last;
    }

    fn close(&mut self, seq: SeqId) {
        self.open.remove(&seq);
    }
}

impl StepExecutor for Oracle {
    type Output = Out;

    fn execute(&mut self, batch: &[SeqStep<'_>]) -> Result<(), ModelError> {
        self.batch = batch
            .iter()
            .map(|step| (step.seq, step.start, step.len))
            .collect();
        if self.lost {
            return Err(ModelError::Lost("scripted".into()));
        }
        if std::mem::take(&mut self.fail_next) {
            return Err(ModelError::Compute("scripted".into()));
        }
        let size = self.kv_spec().block_size;
        let mut written = HashSet::new();
        for step in batch {
            let life = self.open.get_mut(&step.seq).expect("an open sequence");
            assert!(step.len > 0, "an empty step");
            if life.over {
                for p in step.start..step.start + step.len {
                    let slot = (step.blocks[(p / size) as usize], p % size);
                    assert!(written.insert(slot), "two sequences write one row");
                    self.kv.insert(slot, 0);
                }
                continue;
            }
            assert!(
                step.start + step.len <= life.known(),
                "computed beyond what is known"
            );
            let slot = |p: u32| (step.blocks[(p / size) as usize], p % size);
            for p in 0..step.start {
                assert_eq!(
                    self.kv.get(&slot(p)),
                    Some(&life.row(p)),
                    "row {p} of {:?}",
                    step.seq
                );
            }
            for p in step.start..step.start + step.len {
                assert!(slot(p).0 != BlockId(0), "the model's own block was handed out");
                assert!(written.insert(slot(p)), "two sequences write one row");
                let before = p.checked_sub(1).map_or(0, |before| self.kv[&slot(before)]);
                self.kv.insert(slot(p), mix(before, u64::from(life.content(p))));
            }
            life.computed = step.start + step.len;
            life.values = vec![self.kv[&slot(life.computed - 1)]];
            if life.needs_rows && life.computed == life.known() {
                assert!(
                    life.closed || life.rows.len() > life.tokens.len(),
                    "stepped without its row"
                );
            }
        }
        Ok(())
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<Out>>, ModelError> {
        let sampled = self.draw(seqs);
        Ok(self.tell(seqs.iter().copied().zip(sampled).collect()))
    }

    fn prior_outputs(&self, seq: SeqId) -> Vec<Out> {
        self.open[&seq].request.prior.clone()
    }

    fn token(&self, output: &Out) -> Option<u32> {
        Some(output.token)
    }
}

impl AsyncExecutor for Oracle {
    fn submit_sample(&mut self, seqs: &[SeqId]) -> Result<bool, ModelError> {
        if self.apart {
            let sampled = self.draw(seqs);
            self.asked.push_back(seqs.iter().copied().zip(sampled).collect());
        }
        Ok(self.apart)
    }

    fn wait_sample(&mut self) -> Result<Vec<Sampled<Out>>, ModelError> {
        let asked = self.asked.pop_front().expect("it was asked");
        if std::mem::take(&mut self.fail_answer) {
            return Err(ModelError::Compute("scripted, late".into()));
        }
        Ok(self.tell(asked))
    }

    fn can_run_ahead(&self, seqs: &[SeqId]) -> bool {
        let last = self.asked.back().expect("it was asked");
        assert!(seqs.iter().all(|seq| last.iter().any(|(asked, _)| asked == seq)));
        self.apart
    }
}

impl KvCache for Oracle {
    fn kv_spec(&self) -> KvSpec {
        self.spec.expect("set by the test")
    }

    fn content_keys(&self, seq: SeqId, positions: Range<u32>) -> Option<Vec<ContentKey>> {
        let life = &self.open[&seq];
        let told = (life.request.prompt.len() + life.told) as u32;
        assert!(positions.end <= told, "what stands there was not told yet");
        life.request
            .shares
            .then(|| positions.map(|p| ContentKey::token(life.content(p))).collect())
    }
}

impl Warmup for Oracle {}

impl Oracle {
    fn draw(&mut self, seqs: &[SeqId]) -> Vec<Sampled<Out>> {
        let mut sampled = Vec::new();
        for seq in seqs {
            let life = self.open.get_mut(seq).expect("an open sequence");
            assert!(
                life.over || life.computed == life.known(),
                "sampled before it caught up"
            );
            if life.tokens.len() as u32 == life.request.life {
                life.over = true;
                sampled.push(Sampled::End);
                continue;
            }
            let out = life.next(*seq, life.values[0]);
            life.tokens.push(out.token);
            sampled.push(Sampled::Item(out));
        }
        sampled
    }

    fn tell(&mut self, drawn: Vec<(SeqId, Sampled<Out>)>) -> Vec<Sampled<Out>> {
        let one = |(seq, sampled)| {
            let life = self.open.get_mut(&seq).expect("open until its answer");
            life.told += usize::from(matches!(sampled, Sampled::Item(_)));
            sampled
        };
        drawn.into_iter().map(one).collect()
    }
}

pub(super) type Engine = ArEngine<Oracle>;

pub(super) fn engine(config: ArConfig, block_size: u32, blocks: u32, max_len: u32) -> Engine {
    let spec = KvSpec {
        block_size,
        // Block 0 is not for sequences.
        num_blocks: blocks + 1,
        max_len,
    };
    let oracle = Oracle {
        spec: Some(spec),
        ..Oracle::default()
    };
    ArEngine::new(oracle, config)
}

/// 16 blocks of 4, sequences of up to 48 positions.
pub(super) fn small() -> Engine {
    engine(ArConfig::default(), 4, 16, 48)
}

/// A request whose prompt no other has.
pub(super) fn request(seq: u64, prompt: u32, life: u32) -> Request {
    Request {
        prompt: (0..prompt).map(|p| 10_000 * seq as u32 + p).collect(),
        life,
        tokens: Vec::new(),
        prior: Vec::new(),
        shares: true,
    }
}

pub(super) fn add(engine: &mut Engine, seq: u64, prompt: u32, life: u32) {
    add_with(engine, seq, request(seq, prompt, life), AddOptions::default());
}

pub(super) fn add_with(engine: &mut Engine, seq: u64, request: Request, options: AddOptions) {
    try_add(engine, seq, request, options).expect("admitted");
}

pub(super) fn try_add(
    engine: &mut Engine,
    seq: u64,
    request: Request,
    options: AddOptions,
) -> Result<(), AddError> {
    engine.add(SeqId(seq), (options.needs_rows, request), options, NOW)
}

/// Options of a sequence that is fed from upstream.
pub(super) fn fed() -> AddOptions {
    AddOptions {
        needs_rows: true,
        ..AddOptions::default()
    }
}

pub(super) fn names(events: &[SeqEvent<Out>]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|event| match event {
            SeqEvent::Output { item, .. } => Some(item.name),
            _ => None,
        })
        .collect()
}

/// Sequences and reasons of the ends.
pub(super) fn ends(events: &[SeqEvent<Out>]) -> Vec<(u64, FinishReason)> {
    events
        .iter()
        .filter_map(|event| match event {
            SeqEvent::Finished { seq, reason, .. } => Some((seq.0, reason.clone())),
            _ => None,
        })
        .collect()
}

pub(super) fn record(events: &[SeqEvent<Out>], of: u64) -> SeqRecord {
    let found = events.iter().find_map(|event| match event {
        SeqEvent::Finished { seq, record, .. } if seq.0 == of => Some(*record),
        _ => None,
    });
    found.expect("it has ended")
}

pub(super) fn scheduled(events: &[SeqEvent<Out>]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|event| match event {
            SeqEvent::Scheduled { seq, .. } => Some(seq.0),
            _ => None,
        })
        .collect()
}

pub(super) fn preempted(events: &[SeqEvent<Out>]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|event| match event {
            SeqEvent::Preempted { seq, .. } => Some(seq.0),
            _ => None,
        })
        .collect()
}

pub(super) fn drain(engine: &mut Engine) -> Vec<SeqEvent<Out>> {
    let mut events = Vec::new();
    let mut steps = 0;
    while engine.has_work() {
        events.extend(engine.step(NOW).events);
        engine.audit();
        steps += 1;
        assert!(steps < 10_000, "no progress");
    }
    events
}

impl Engine {
    /// Checks everything that is kept twice.
    pub(super) fn audit(&self) {
        let all = self.slots.all();
        self.pool.audit(all.iter().map(|slot| &*self.slots[*slot].blocks));
        let order = |slot: &Slot| self.slots[*slot].arrival;
        assert!(self.running.is_sorted_by_key(order), "places are out of order");
        let mut running = 0;
        let mut ready = 0;
        let mut tokens = 0;
        for slot in all {
            let sequence = &self.slots[slot];
            if sequence.has_place() {
                running += 1;
                assert!(self.running.contains(&slot), "{:?} lost its place", sequence.id);
                assert_eq!(sequence.held_since.is_none(), sequence.is_runnable());
            } else {
                assert!(sequence.blocks.is_empty(), "{:?} waits with blocks", sequence.id);
                let queued = self.ready.contains(&(sequence.arrival, slot));
                assert_eq!((queued, queued), (sequence.queued, sequence.is_runnable()));
                ready += usize::from(queued);
                tokens += u64::from(sequence.known);
            }
        }
        assert_eq!(
            (running, ready, tokens),
            (self.running.len(), self.ready.len(), self.waiting_tokens)
        );
        assert_eq!(
            self.model.open.len(),
            self.slots.len() + self.gone.len(),
            "sequences the model has open"
        );
    }
}
