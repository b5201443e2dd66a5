//! Text tokens chosen on the device, against the host's choice from the same logits.

use super::*;
use crate::sampling::{Draw, Said, Tally, TextChoice, TextSampling};
use crate::{TextChosen, choose_on_host};

/// Numbers that look drawn.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % below
    }

    /// From 0 to 1.
    fn part(&mut self) -> f32 {
        self.next(1 << 20) as f32 / (1 << 20) as f32
    }

    /// One of three times a setting that says nothing.
    fn or(&mut self, neutral: f32, other: impl Fn(f32) -> f32) -> f32 {
        let part = self.part();
        match self.next(3) {
            0 => neutral,
            _ => other(part),
        }
    }
}

/// A reply in progress.
struct Reply {
    sampling: TextSampling,
    tally: Tally,
    ends: Vec<u32>,
    place: Draw,
    logprob: bool,
}

impl Reply {
    fn new(n: &mut Numbers, vocab: u32) -> Self {
        let sampling = TextSampling {
            temperature: n.or(0.0, |p| 0.2 + 1.5 * p),
            top_k: n.or(0.0, |p| (60.0 * p).floor()) as u32,
            top_p: n.or(1.0, |p| 0.05 + 0.95 * p),
            min_p: n.or(0.0, |p| 0.3 * p * p),
            repetition_penalty: n.or(1.0, |p| 0.8 + 0.7 * p),
            presence_penalty: n.or(0.0, |p| 4.0 * p - 2.0),
            frequency_penalty: n.or(0.0, |p| 4.0 * p - 2.0),
            min_tokens: n.next(30),
        };
        sampling.validate().expect("settings within their ranges");
        let some = |n: &mut Numbers| {
            let count = n.next(40);
            (0..count).map(|_| n.next(vocab)).collect::<Vec<_>>()
        };
        let mut tally = Tally::new(&sampling, &some(n));
        some(n).into_iter().for_each(|token| tally.add(token));
        Self {
            sampling,
            tally,
            ends: vec![n.next(vocab), n.next(vocab), u32::MAX],
            place: Draw {
                seed: u64::from(n.next(u32::MAX)) << 20,
                step: n.next(500),
                group: 1 << 16,
            },
            logprob: n.next(2) == 0,
        }
    }

    fn choice(&self) -> TextChoice<'_> {
        TextChoice {
            sampling: &self.sampling,
            said: Said {
                tally: &self.tally,
                ends: &self.ends,
            },
            place: self.place,
            logprob: self.logprob,
        }
    }
}

fn logits(n: &mut Numbers, count: usize) -> Vec<f32> {
    (0..count)
        .map(|_| 8.0 * (n.part() + n.part() + n.part()) - 12.0)
        .collect()
}

/// Chosen from rows in another order than theirs.
fn choose(b: &Gpu<Emulated>, values: &[f32], vocab: usize, replies: &[&Reply]) -> Vec<TextChosen> {
    let rows = b.rows(vocab, values.to_vec()).expect("logits");
    let choices: Vec<_> = replies.iter().map(|r| r.choice()).collect();
    let index: Vec<u32> = (0..replies.len() as u32).rev().collect();
    b.choose_text(&rows, vocab, &index, &choices).expect("tokens")
}

/// The host adds f32s in sequence, with an error of about 1e-5 of the total where hundreds are kept; the device's
/// sums are exact. So about that share of its draws falls between two tokens: of some thousand, at most two may
/// differ.
#[test]
fn tokens_are_the_hosts() {
    let mut n = Numbers(1);
    let mut different = 0;
    let mut all = 0;
    for vocab in [40, 700, 5000] {
        let b = gpu(true);
        for _ in 0..60 {
            let replies: Vec<Reply> = (0..8).map(|_| Reply::new(&mut n, vocab)).collect();
            let replies: Vec<&Reply> = replies.iter().collect();
            let vocab = vocab as usize;
            let values = logits(&mut n, 8 * vocab);
            let device = choose(&b, &values, vocab, &replies);
            for ((reply, device), row) in replies.iter().zip(device).zip(values.rchunks(vocab)) {
                let host = reply.choice().make(row).expect("finite");
                let device = device.expect("finite");
                assert_eq!(device.logprob.is_some(), reply.logprob);
                all += 1;
                if device.token != host.token {
                    different += 1;
                    continue;
                }
                let pair = device.logprob.zip(host.logprob);
                assert!(pair.is_none_or(|(a, b)| (a - b).abs() < 1e-4), "{pair:?}");
            }
        }
        assert_eq!(b.figures().expect("a GPU").fallbacks, 0);
    }
    assert!(different <= 2, "{different} of {all} tokens are not the host's");
}

fn bits(chosen: &[TextChosen]) -> Vec<Option<(u32, Option<u32>)>> {
    let bits = |c: &TextChosen| c.ok().map(|c| (c.token, c.logprob.map(f32::to_bits)));
    chosen.iter().map(bits).collect()
}

#[test]
fn alone_together_filled_up_and_as_a_graph_they_are_the_same() {
    let mut n = Numbers(2);
    let launched = gpu(false);
    let graphs = gpu(true);
    let vocab = 700;
    for _ in 0..10 {
        // Five are filled up to eight.
        let replies: Vec<Reply> = (0..5).map(|_| Reply::new(&mut n, 700)).collect();
        let replies: Vec<&Reply> = replies.iter().collect();
        let values = logits(&mut n, 5 * vocab);
        let together = bits(&choose(&launched, &values, vocab, &replies));
        assert_eq!(bits(&choose(&graphs, &values, vocab, &replies)), together);
        for ((reply, expected), row) in replies.iter().zip(&together).zip(values.rchunks(vocab)) {
            assert_eq!(bits(&choose(&graphs, row, vocab, &[reply])), [*expected]);
        }
    }
    let figures = graphs.figures().expect("a GPU");
    assert_eq!(figures.fallbacks, 0);
    assert!(figures.replays > figures.graphs, "{figures:?}");
}

#[test]
fn what_cannot_be_chosen_from_fails_as_on_the_host() {
    let b = gpu(true);
    let mut n = Numbers(3);
    let vocab = 300;
    let mut hidden = Reply::new(&mut n, 300);
    hidden.sampling.min_tokens = 1000;
    hidden.ends = (0..300).collect();
    let sound = Reply::new(&mut n, 300);
    let mut values = logits(&mut n, 4 * vocab);
    values[17] = f32::NAN;
    values[vocab..2 * vocab].fill(f32::NAN);
    // Rows are taken from the last on.
    let replies = [&hidden, &sound, &sound, &sound];
    let device = choose(&b, &values, vocab, &replies);
    let rows = b.rows(vocab, values.clone()).expect("logits");
    let choices = replies.map(Reply::choice);
    let host = choose_on_host(&b, &rows, vocab, &[3, 2, 1, 0], &choices).expect("tokens");
    let errors = |all: &[TextChosen]| {
        all.iter()
            .map(|c| c.err().map(|e| e.to_string()))
            .collect::<Vec<_>>()
    };
    assert_eq!(errors(&device), errors(&host));
    assert_eq!(
        errors(&device)[2..],
        [0, 17].map(|id| Some(format!("a logit is not a number or infinite (id {id})")))
    );
    assert_eq!(device[0].map(|c| c.token), Ok(0), "nothing is left");
    assert_eq!(host[0].map(|c| c.token), Ok(0), "nothing is left");
}

#[test]
fn of_more_tokens_than_the_device_takes_the_host_chooses_and_it_is_told_once() {
    let b = gpu(true);
    let vocab = (1 << 18) + 1;
    let mut values = vec![0.5; vocab];
    values[vocab - 1] = 0.75;
    let mut reply = Reply::new(&mut Numbers(4), 9);
    reply.sampling = TextSampling::default();
    reply.tally = Tally::default();
    for _ in 0..2 {
        let chosen = choose(&b, &values, vocab, &[&reply]);
        assert_eq!(chosen[0].map(|c| c.token), Ok(1 << 18));
    }
    let reasons = b.take_fallbacks();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(
        reasons[0].ends_with("of 262145 tokens, more than 262144, the host chooses"),
        "{reasons:?}"
    );
}
