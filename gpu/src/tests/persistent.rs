//! Fused launches give the results of separate ones, to the bit.

use super::{Lab, each_type, numbers};
use crate::kernels::{
    Attend, Attention, Embedded, Gated, Gather, Linear, Persistent, RotateAndStore, Sample, SampleRow,
    Scratch,
};
use crate::{Address, Launch};

const HIDDEN: usize = 64;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 16;
const INNER: usize = 96;
const CODES: usize = 40;
const KEYS: usize = 3;
const LAYERS: usize = 2;
const EPS: f32 = 1e-6;

/// Passes of a small code predictor over `rows` sequences: what its operations launch, and where the codes, the last hidden rows and the
/// keys are.
struct Passes {
    launches: Vec<Launch>,
    ids: Address,
    x: Address,
    keys: Address,
    rows: usize,
}

impl Passes {
    fn new(lab: &Lab, rows: usize, fused: bool) -> Self {
        let weights = |outputs: usize, inputs: usize, seed: usize| {
            let by = 1.0 / (inputs as f32).sqrt();
            lab.rows(
                &numbers(outputs * inputs, seed)
                    .iter()
                    .map(|w| w * by)
                    .collect::<Vec<_>>(),
            )
        };
        let width = (HEADS + 2 * KV_HEADS) * DIM;
        let kv_width = KV_HEADS * DIM;
        let x = lab.room(rows * HIDDEN);
        let qkv = lab.room(rows * width);
        let heads = lab.room(rows * HEADS * DIM);
        let inner = lab.room(rows * INNER);
        let logits = lab.room(rows * CODES);
        let ids = lab.words(&vec![7; rows * (KEYS + 1)]);
        let norm = lab.floats(&numbers(HIDDEN, 1));
        let q_norm = lab.floats(&numbers(DIM, 2));
        let k_norm = lab.floats(&numbers(DIM, 3));
        let table = lab.rows(&numbers(CODES * HIDDEN, 4));
        let keys = lab.rows(&vec![0.0; LAYERS * rows * KEYS * kv_width]);
        let values = lab.rows(&vec![0.0; LAYERS * rows * KEYS * kv_width]);
        let matrices: Vec<[Address; 4]> = (0..LAYERS)
            .map(|layer| {
                [
                    weights(width, HIDDEN, 10 + layer),
                    weights(HIDDEN, HEADS * DIM, 20 + layer),
                    weights(2 * INNER, HIDDEN, 30 + layer),
                    weights(HIDDEN, INNER, 40 + layer),
                ]
            })
            .collect();
        let head = weights(CODES, HIDDEN, 50);
        let count = rows as u32;
        let linear = |out: Address, x: Address, w: Address, outputs: usize, inputs: usize| Linear {
            eps: EPS,
            ..Linear::product(out, x, w, [count, outputs as u32, inputs as u32])
        };
        let mut launches = Vec::new();
        for pass in 0..KEYS {
            let gather = Gather {
                out: x,
                x: table,
                index: ids.offset(4 * pass),
                stride: KEYS as u32 + 1,
                count,
                rows: CODES as u32,
                width: HIDDEN as u32,
            };
            // After the others the choice has put its row there.
            if pass % 2 == 0 {
                launches.push(gather.launch(lab.float));
            }
            let angles: Vec<f32> = (0..rows * DIM / 2)
                .map(|i| (pass * (i % 8)) as f32 / 3.0)
                .collect();
            let angles = lab.floats(&angles);
            let slots: Vec<u32> = (0..rows).map(|row| (row * KEYS + pass) as u32).collect();
            let slots = lab.words(&slots);
            let ranges: Vec<u32> = (0..rows)
                .flat_map(|row| [(row * KEYS) as u32, 0, pass as u32 + 1])
                .collect();
            let ranges = lab.words(&ranges);
            for (layer, [to_qkv, to_out, to_inner, to_down]) in matrices.iter().enumerate() {
                let at = layer * rows * KEYS * kv_width * lab.float.bytes();
                let k = keys.offset(at);
                let v = values.offset(at);
                let project = Linear {
                    norm,
                    ..linear(qkv, x, *to_qkv, width, HIDDEN)
                };
                let rotate = RotateAndStore {
                    qkv,
                    k,
                    v,
                    q_norm,
                    k_norm,
                    angles,
                    slots,
                    rows: count,
                    heads: HEADS as u32,
                    kv_heads: KV_HEADS as u32,
                    head_dim: DIM as u32,
                    capacity: (rows * KEYS) as u32,
                    eps: EPS,
                };
                let attention = Attention {
                    out: heads,
                    partial: Address::NONE,
                    q: qkv,
                    k,
                    v,
                    table: Address::NONE,
                    ranges,
                    rows: count,
                    heads: HEADS as u32,
                    kv_heads: KV_HEADS as u32,
                    head_dim: DIM as u32,
                    q_stride: width as u32,
                    kv_stride: kv_width as u32,
                    shift: 0,
                    splits: 1,
                    part: 128,
                    scale: 0.25,
                };
                let out = Linear {
                    add: x,
                    ..linear(x, heads, *to_out, HIDDEN, HEADS * DIM)
                };
                let gated = Gated {
                    out: inner,
                    x,
                    w: *to_inner,
                    norm,
                    eps: EPS,
                    scratch: Scratch::default(),
                    rows: count,
                    half: INNER as u32,
                    inputs: HIDDEN as u32,
                };
                let down = Linear {
                    add: x,
                    ..linear(x, inner, *to_down, HIDDEN, INNER)
                };
                launches.push(project.launch(lab.float));
                // Rows are of different sequences.
                if fused {
                    launches.push(Attend { rotate, attention }.launch(lab.float));
                } else {
                    launches.extend([rotate.launch(lab.float), attention.launches(lab.float).0]);
                }
                launches.extend([
                    out.launch(lab.float),
                    gated.launch(lab.float),
                    down.launch(lab.float),
                ]);
            }
            let choose = Linear {
                norm,
                ..linear(logits, x, head, CODES, HIDDEN)
            };
            let settings: Vec<u32> = (0..rows)
                .flat_map(|row| {
                    SampleRow {
                        temperature: if row == 1 { 0.0 } else { 0.9 },
                        top_k: 20,
                        top_p: 0.8,
                        repetition_penalty: 1.0,
                        min_tokens: 0,
                        suppress_from: u32::MAX,
                        end: u32::MAX,
                        generated_from: 0,
                        generated: 0,
                        said: u32::MAX,
                        seed: 40 + row as u64,
                        step: 3,
                        group: pass as u32 + 1,
                        logits: row as u32,
                    }
                    .words()
                })
                .collect();
            let sample = Sample {
                out: ids.offset(4 * (pass + 1)),
                logits,
                settings: lab.words(&settings),
                generated: Address::NONE,
                said: Address::NONE,
                embedded: (pass % 2 == 0 && pass + 1 < KEYS).then_some(Embedded {
                    out: x,
                    table,
                    ids: CODES as u32,
                    width: HIDDEN as u32,
                }),
                rows: count,
                vocab: CODES as u32,
                stride: KEYS as u32 + 1,
            };
            launches.extend([choose.launch(lab.float), sample.launch(lab.float)]);
        }
        Self {
            launches,
            ids,
            x,
            keys,
            rows,
        }
    }

    fn found(&self, lab: &Lab) -> (Vec<u32>, Vec<f32>, Vec<f32>) {
        (
            lab.read_words(self.ids, self.rows * (KEYS + 1)),
            lab.read(self.x, self.rows * HIDDEN),
            lab.read(self.keys, LAYERS * self.rows * KEYS * KV_HEADS * DIM),
        )
    }
}

/// Runs all of them as one launch of three blocks.
pub(super) fn run_listed(lab: &Lab, launches: &[Launch]) {
    let words = Persistent::program(launches, lab.float);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let met = lab.words(&[0]);
    let shared = launches.iter().map(|launch| launch.shared).max();
    let persistent = Persistent {
        program: lab.keep(&bytes),
        met,
        count: launches.len() as u32,
        shared: shared.unwrap_or(0),
    };
    lab.run(&persistent.launch(lab.float, 3));
    assert_eq!(lab.read_words(met, 1), [0], "it can be launched again");
}

#[test]
fn launches_that_stay_on_the_device_give_what_they_give_one_by_one() {
    for (rows, fused) in [(1, true), (2, false), (4, true), (7, true)] {
        let one_by_one = std::cell::RefCell::new(Vec::new());
        each_type(
            |lab| {
                let passes = Passes::new(lab, rows, false);
                passes.launches.iter().for_each(|launch| lab.run(launch));
                passes.found(lab)
            },
            |_, found| one_by_one.borrow_mut().push(found),
        );
        each_type(
            |lab| {
                let passes = Passes::new(lab, rows, fused);
                assert!(
                    passes
                        .launches
                        .iter()
                        .all(|launch| Persistent::takes(launch, lab.float))
                );
                run_listed(lab, &passes.launches);
                passes.found(lab)
            },
            |_, found| {
                let expected = one_by_one.borrow_mut().remove(0);
                assert!(found.1.iter().all(|v| v.is_finite()));
                assert_eq!(found.0, expected.0, "codes of {rows} rows");
                assert_eq!((&found.1, &found.2), (&expected.1, &expected.2), "{rows} rows");
            },
        );
    }
}

/// Checks the prefetches of each launch of a program: a word of its address, and bytes.
#[test]
fn weights_are_asked_for_once_each_before_their_turn() {
    let lab = Lab::new(crate::Float::Bf16, crate::Order::Forwards);
    let passes = Passes::new(&lab, 1, true);
    let words = Persistent::program(&passes.launches, lab.float);
    let listed: Vec<&[u64]> = words.chunks(32).collect();
    let of = |launch: &Launch| launch.args.bits()[2];
    for (i, listed) in listed.iter().enumerate() {
        if listed[4] == 0 {
            continue;
        }
        let later = passes.launches[i + 1..].iter().take(8);
        assert!(
            later.into_iter().any(|launch| of(launch) == listed[3]),
            "launch {i} asks for what is not near"
        );
    }
    let asked = listed.iter().filter(|listed| listed[4] > 0).count();
    // Every pass has a head and four products of each layer, all of which come after a launch without weights.
    assert_eq!(asked, KEYS * (4 * LAYERS + 1));
    let head = listed.iter().find(|l| l[4] == (CODES * HIDDEN * 2) as u64);
    assert!(head.is_some(), "the head is asked for, with all its bytes");
}
