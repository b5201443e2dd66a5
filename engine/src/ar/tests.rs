//! The engine against a scripted model that checks every call it gets.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::ids::BlockId;

/// Counts: sequence `s` emits `s * 1000 + n` as output `n`, ends after `life` outputs.
#[derive(Debug, Default)]
struct Script {
    spec: Option<KvSpec>,
    open: HashMap<SeqId, Life>,
    /// Owner of every KV position written, by block and row.
    kv: HashMap<(BlockId, u32), (SeqId, u32)>,
    fail_next: bool,
}

#[derive(Debug)]
struct Life {
    prompt: u32,
    life: u32,
    emitted: u32,
    rows: u32,
    closed: bool,
    needs_rows: bool,
    computed: u32,
}

struct Request {
    prompt: u32,
    life: u32,
    needs_rows: bool,
}

impl ArModel for Script {
    type Request = Request;
    type Row = ();
    type Output = u64;

    fn kv_spec(&self) -> KvSpec {
        self.spec.unwrap_or(KvSpec {
            block_size: 4,
            num_blocks: 16,
            max_len: 48,
        })
    }

    fn open(&mut self, seq: SeqId, r: Request) -> Result<u32, ModelError> {
        let life = Life {
            prompt: r.prompt,
            life: r.life,
            emitted: 0,
            rows: 0,
            closed: false,
            needs_rows: r.needs_rows,
            computed: 0,
        };
        assert!(self.open.insert(seq, life).is_none(), "{seq:?} opened twice");
        Ok(r.prompt)
    }

    fn push(&mut self, seq: SeqId, rows: Vec<()>, last: bool) {
        let life = self.open.get_mut(&seq).expect("push to an open sequence");
        life.rows += rows.len() as u32;
        life.closed |= last;
    }

    fn execute(&mut self, batch: &[SeqStep<'_>]) -> Result<(), ModelError> {
        if std::mem::take(&mut self.fail_next) {
            return Err(ModelError::Compute("scripted".into()));
        }
        let block_size = self.kv_spec().block_size;
        for step in batch {
            let life = self
                .open
                .get_mut(&step.seq)
                .expect("only open sequences are stepped");
            assert!(step.len > 0);
            assert!(
                step.start == life.computed || step.start == 0,
                "positions are computed in order"
            );
            let slot = |p: u32| (step.blocks[(p / block_size) as usize], p % block_size);
            for p in 0..step.start {
                assert_eq!(
                    self.kv.get(&slot(p)),
                    Some(&(step.seq, p)),
                    "KV row lost or overwritten"
                );
            }
            for p in step.start..step.start + step.len {
                self.kv.insert(slot(p), (step.seq, p));
            }
            life.computed = step.start + step.len;
            assert!(
                life.computed <= life.prompt + life.emitted,
                "computed beyond what is known"
            );
            if life.needs_rows && life.computed == life.prompt + life.emitted {
                assert!(life.closed || life.rows > life.emitted, "stepped without its row");
            }
        }
        Ok(())
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<u64>>, ModelError> {
        let mut out = Vec::new();
        for seq in seqs {
            let life = self.open.get_mut(seq).expect("only open sequences are sampled");
            assert_eq!(
                life.computed,
                life.prompt + life.emitted,
                "sampled before it caught up"
            );
            if life.emitted == life.life {
                out.push(Sampled::End);
            } else {
                out.push(Sampled::Item(seq.0 * 1000 + u64::from(life.emitted)));
                life.emitted += 1;
            }
        }
        Ok(out)
    }

    fn close(&mut self, seq: SeqId) {
        self.open.remove(&seq);
        self.kv.retain(|_, (owner, _)| *owner != seq);
    }
}

const NOW: Stamp = Stamp(Duration::ZERO);

fn engine(config: ArConfig, spec: KvSpec) -> ArEngine<Script> {
    ArEngine::new(
        Script {
            spec: Some(spec),
            ..Script::default()
        },
        config,
    )
}

fn small() -> ArEngine<Script> {
    engine(
        ArConfig::default(),
        KvSpec {
            block_size: 4,
            num_blocks: 16,
            max_len: 48,
        },
    )
}

fn free(prompt: u32, life: u32) -> (Request, AddOptions) {
    let options = AddOptions {
        needs_rows: false,
        max_outputs: 1000,
    };
    (
        Request {
            prompt,
            life,
            needs_rows: false,
        },
        options,
    )
}

fn add(engine: &mut ArEngine<Script>, seq: u64, (request, options): (Request, AddOptions)) {
    engine.add(SeqId(seq), request, options, NOW).expect("admitted");
}

fn outputs(events: &[ArEvent<u64>]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|e| {
            if let ArEvent::Output { item, .. } = e {
                Some(*item)
            } else {
                None
            }
        })
        .collect()
}

fn drain(engine: &mut ArEngine<Script>) -> Vec<ArEvent<u64>> {
    let mut events = Vec::new();
    let mut steps = 0;
    while engine.has_work() {
        events.extend(engine.step(NOW).events);
        steps += 1;
        assert!(steps < 10_000, "no progress");
    }
    events
}

#[test]
fn one_sequence_runs_to_its_natural_end() {
    let mut engine = small();
    add(&mut engine, 1, free(5, 3));
    let events = drain(&mut engine);
    assert_eq!(outputs(&events), [1000, 1001, 1002]);
    assert_eq!(
        events.last(),
        Some(&ArEvent::Finished {
            seq: SeqId(1),
            reason: FinishReason::Stop
        })
    );
    assert!(engine.is_empty());
    assert_eq!(engine.step(NOW).stats.kv_usage, 0.0);
}

#[test]
fn a_newcomer_joins_the_very_next_step_and_shares_it_with_decodes() {
    let mut engine = small();
    add(&mut engine, 1, free(5, 9));
    engine.step(NOW);
    add(&mut engine, 2, free(7, 9));
    let report = engine.step(NOW);
    assert_eq!(outputs(&report.events), [1001, 2000]);
    assert_eq!((report.stats.decode_tokens, report.stats.prefill_tokens), (1, 7));
}

#[test]
fn a_long_prompt_is_computed_in_chunks_beside_running_decodes() {
    let config = ArConfig {
        max_prefill_tokens: 8,
        ..ArConfig::default()
    };
    let mut engine = engine(
        config,
        KvSpec {
            block_size: 4,
            num_blocks: 64,
            max_len: 128,
        },
    );
    add(&mut engine, 1, free(2, 99));
    engine.step(NOW);
    add(&mut engine, 2, free(20, 99));
    let per_step: Vec<_> = (0..3).map(|_| outputs(&engine.step(NOW).events)).collect();
    assert_eq!(per_step, [vec![1001], vec![1002], vec![1003, 2000]]);
}

#[test]
fn a_sequence_without_its_row_waits_and_holds_nobody_up() {
    let mut engine = small();
    let options = AddOptions {
        needs_rows: true,
        max_outputs: 1000,
    };
    engine
        .add(
            SeqId(1),
            Request {
                prompt: 3,
                life: 9,
                needs_rows: true,
            },
            options,
            NOW,
        )
        .unwrap();
    assert!(!engine.has_work(), "no row yet");
    add(&mut engine, 2, free(3, 2));
    assert_eq!(outputs(&engine.step(NOW).events), [2000]);
    engine.push(SeqId(1), vec![()], false);
    let report = engine.step(NOW);
    assert_eq!(outputs(&report.events), [2001, 1000]);
    assert_eq!(report.stats.starved, 1);
    drain(&mut engine);
    assert_eq!(engine.len(), 1);
    engine.push(SeqId(1), vec![], true);
    assert_eq!(
        outputs(&drain(&mut engine)).len(),
        8,
        "a closed input needs no more rows"
    );
}

#[test]
fn a_paused_sequence_keeps_its_state() {
    let mut engine = small();
    add(&mut engine, 1, free(3, 4));
    engine.step(NOW);
    engine.set_paused(SeqId(1), true);
    assert!(!engine.has_work());
    engine.set_paused(SeqId(1), false);
    assert_eq!(outputs(&drain(&mut engine)), [1001, 1002, 1003]);
}

#[test]
fn max_outputs_ends_with_length() {
    let mut engine = small();
    let (request, options) = free(3, 99);
    engine
        .add(
            SeqId(1),
            request,
            AddOptions {
                max_outputs: 2,
                ..options
            },
            NOW,
        )
        .unwrap();
    let events = drain(&mut engine);
    assert_eq!(outputs(&events), [1000, 1001]);
    assert_eq!(
        events.last(),
        Some(&ArEvent::Finished {
            seq: SeqId(1),
            reason: FinishReason::Length
        })
    );
}

#[test]
fn the_longest_sequence_of_the_model_bounds_the_outputs() {
    let mut engine = engine(
        ArConfig::default(),
        KvSpec {
            block_size: 4,
            num_blocks: 16,
            max_len: 10,
        },
    );
    add(&mut engine, 1, free(8, 99));
    assert_eq!(
        outputs(&drain(&mut engine)).len(),
        3,
        "positions 8 and 9, and one output that needs none"
    );
}

#[test]
fn what_can_never_fit_is_refused_with_the_numbers() {
    let mut engine = small();
    let (request, options) = free(49, 1);
    let error = engine.add(SeqId(1), request, options, NOW).unwrap_err();
    assert_eq!(
        error.to_string(),
        "prompt of 49 positions does not fit: the model takes 48, its KV cache 64"
    );
    assert!(engine.model().open.is_empty(), "the model was told to forget it");
}

#[test]
fn a_sequence_that_may_produce_nothing_is_refused() {
    let mut engine = small();
    let (request, options) = free(3, 1);
    let error = engine
        .add(
            SeqId(1),
            request,
            AddOptions {
                max_outputs: 0,
                ..options
            },
            NOW,
        )
        .unwrap_err();
    assert!(matches!(error, AddError::NoOutputs(SeqId(1))));
    assert!(engine.is_empty() && engine.model().open.is_empty());
}

#[test]
fn a_full_queue_refuses() {
    let mut engine = engine(
        ArConfig {
            max_waiting: 1,
            ..ArConfig::default()
        },
        KvSpec {
            block_size: 4,
            num_blocks: 16,
            max_len: 48,
        },
    );
    add(&mut engine, 1, free(3, 1));
    let (request, options) = free(3, 1);
    assert!(matches!(
        engine.add(SeqId(2), request, options, NOW),
        Err(AddError::QueueFull { waiting: 1, limit: 1 })
    ));
}

#[test]
fn the_youngest_is_preempted_and_later_gives_the_same_outputs() {
    let mut engine = engine(
        ArConfig::default(),
        KvSpec {
            block_size: 2,
            num_blocks: 6,
            max_len: 12,
        },
    );
    add(&mut engine, 1, free(4, 6));
    add(&mut engine, 2, free(4, 6));
    let events = drain(&mut engine);
    let preempted: Vec<_> = events
        .iter()
        .filter(|e| matches!(e, ArEvent::Preempted { .. }))
        .collect();
    assert!(!preempted.is_empty());
    assert!(
        preempted
            .iter()
            .all(|e| **e == ArEvent::Preempted { seq: SeqId(2) })
    );
    let of = |s: u64| {
        outputs(&events)
            .into_iter()
            .filter(|o| o / 1000 == s)
            .collect::<Vec<_>>()
    };
    assert_eq!(of(1), (1000..1006).collect::<Vec<_>>());
    assert_eq!(of(2), (2000..2006).collect::<Vec<_>>());
}

#[test]
fn a_failed_computation_ends_its_batch_and_nothing_else() {
    let mut engine = small();
    add(&mut engine, 1, free(3, 9));
    engine.step(NOW);
    engine.model.fail_next = true;
    let report = engine.step(NOW);
    let expected = FinishReason::Error("computation failed: scripted".into());
    assert_eq!(
        report.events,
        [ArEvent::Finished {
            seq: SeqId(1),
            reason: expected
        }]
    );
    add(&mut engine, 2, free(3, 2));
    assert_eq!(outputs(&drain(&mut engine)), [2000, 2001]);
    assert_eq!(engine.pool.available(), engine.pool.total());
}

#[derive(Debug, Clone)]
enum Op {
    Add {
        prompt: u32,
        life: u32,
        max_outputs: u32,
        needs_rows: bool,
    },
    Push {
        nth: usize,
        rows: usize,
        last: bool,
    },
    Pause {
        nth: usize,
        paused: bool,
    },
    Abort {
        nth: usize,
    },
    Step,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1..20u32, 0..12u32, 1..12u32, any::<bool>())
            .prop_map(|(prompt, life, max_outputs, needs_rows)| Op::Add { prompt, life, max_outputs, needs_rows }),
        3 => (0..8usize, 0..6usize, any::<bool>()).prop_map(|(nth, rows, last)| Op::Push { nth, rows, last }),
        1 => (0..8usize, any::<bool>()).prop_map(|(nth, paused)| Op::Pause { nth, paused }),
        1 => (0..8usize).prop_map(|nth| Op::Abort { nth }),
        8 => Just(Op::Step),
    ]
}

proptest! {
    /// Any traffic over a tiny pool: budgets hold, blocks are conserved, every sequence ends exactly once with its
    /// outputs complete and in order. (The scripted model asserts the KV contents on every call.)
    #[test]
    fn any_traffic_keeps_the_books(ops in prop::collection::vec(op(), 1..120), blocks in 5..12u32) {
        let config =
            ArConfig { max_num_seqs: 3, max_num_batched_tokens: 8, max_prefill_tokens: 5, max_waiting: 4 };
        let mut engine = engine(config, KvSpec { block_size: 4, num_blocks: blocks, max_len: 30 });
        let mut live: Vec<(SeqId, bool)> = Vec::new();
        let mut next: HashMap<SeqId, u64> = HashMap::new();
        let mut id = 0;
        let check = |engine: &mut ArEngine<Script>,
                         live: &mut Vec<(SeqId, bool)>,
                         next: &mut HashMap<SeqId, u64>| {
            let report = engine.step(NOW);
            prop_assert!(report.stats.running <= 3);
            prop_assert!(report.stats.decode_tokens + report.stats.prefill_tokens <= 8);
            prop_assert!(report.stats.prefill_tokens <= 5);
            for event in report.events {
                match event {
                    ArEvent::Output { seq, item } => {
                        let n = next.entry(seq).or_default();
                        prop_assert_eq!(item, seq.0 * 1000 + *n);
                        *n += 1;
                    }
                    ArEvent::Finished { seq, .. } => {
                        let at = live.iter().position(|(s, _)| *s == seq);
                        prop_assert!(at.is_some(), "ended twice");
                        live.remove(at.unwrap());
                    }
                    ArEvent::Scheduled { .. } | ArEvent::Preempted { .. } => {}
                }
            }
            Ok(())
        };
        for op in ops {
            match op {
                Op::Add { prompt, life, max_outputs, needs_rows } => {
                    id += 1;
                    let options = AddOptions { needs_rows, max_outputs };
                    if engine.add(SeqId(id), Request { prompt, life, needs_rows }, options, NOW).is_ok() {
                        live.push((SeqId(id), false));
                    }
                }
                Op::Push { nth, rows, last } => {
                    if let Some((seq, closed)) = live.get_mut(nth).filter(|l| !l.1) {
                        engine.push(*seq, vec![(); rows], last);
                        *closed |= last;
                    }
                }
                Op::Pause { nth, paused } => {
                    if let Some((seq, _)) = live.get(nth) {
                        engine.set_paused(*seq, paused);
                    }
                }
                Op::Abort { nth } => {
                    if nth < live.len() {
                        let (seq, _) = live.remove(nth);
                        prop_assert!(engine.abort(seq));
                        prop_assert!(!engine.abort(seq));
                    }
                }
                Op::Step => check(&mut engine, &mut live, &mut next)?,
            }
        }
        for (seq, closed) in &live {
            engine.set_paused(*seq, false);
            if !closed {
                engine.push(*seq, vec![], true);
            }
        }
        let mut steps = 0;
        while engine.has_work() {
            check(&mut engine, &mut live, &mut next)?;
            steps += 1;
            prop_assert!(steps < 5_000, "no progress");
        }
        prop_assert!(live.is_empty(), "left behind: {:?}", live);
        prop_assert!(engine.is_empty() && engine.model().open.is_empty());
        prop_assert_eq!(engine.pool.available(), blocks);
    }
}
