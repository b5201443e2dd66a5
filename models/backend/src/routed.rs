//! A mixture of experts on a machine where looking at scores costs nothing: rows are sorted by expert, and every expert
//! computes its own.

use super::{Backend, Result, Routing};

/// A backend that lets the scores be looked at.
pub(super) trait Routed:
    Backend<
    Experts = Vec<(
        <Self as super::Matrices>::Matrix,
        <Self as super::Matrices>::Matrix,
    )>,
>
{
    /// `acc[index[i]] += weight[i] * x[i]`.
    fn scatter_weighted(
        &self,
        acc: Self::Rows,
        index: &[u32],
        weight: &[f32],
        x: &Self::Rows,
    ) -> Result<Self::Rows>;
}

/// A mixture of experts over rows `hidden` wide.
pub(super) fn mixture<B: Routed>(
    b: &B,
    experts: &[(B::Matrix, B::Matrix)],
    routing: Routing,
    scores: &[f32],
    x: &B::Rows,
    shared: Option<&B::Rows>,
    hidden: usize,
) -> Result<B::Rows> {
    let width = routing.experts + usize::from(shared.is_some());
    let rows = scores.len() / width;
    let mut y = b.zeros(rows, hidden)?;
    if let Some(shared) = shared {
        let gates: Vec<f32> = scores.chunks(width).map(|s| sigmoid(s[width - 1])).collect();
        let all: Vec<u32> = (0..).take(rows).collect();
        y = b.scatter_weighted(y, &all, &gates, shared)?;
    }
    let expert = |(gate_up, down): &(B::Matrix, B::Matrix), x: &B::Rows| -> Result<B::Rows> {
        b.linear(down, &b.gated(gate_up, x)?)
    };
    for (matrices, (index, weight)) in experts.iter().zip(&route(routing, scores, width)) {
        if index.is_empty() {
            continue;
        }
        let out = if index.len() == rows {
            expert(matrices, x)?
        } else {
            expert(matrices, &b.gather(x, index)?)?
        };
        y = b.scatter_weighted(y, index, weight, &out)?;
    }
    Ok(y)
}

/// Rows of each expert, with their weights.
fn route(routing: Routing, scores: &[f32], width: usize) -> Vec<(Vec<u32>, Vec<f32>)> {
    let experts = routing.experts;
    let mut chosen = vec![(Vec::new(), Vec::new()); experts];
    for (row, scores) in (0..).zip(scores.chunks(width)) {
        let mut probabilities = softmax(&scores[..experts]);
        probabilities.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        probabilities.truncate(routing.top_k);
        let sum: f32 = if routing.normalise {
            probabilities.iter().map(|p| p.1).sum()
        } else {
            1.0
        };
        for (expert, p) in probabilities {
            chosen[expert].0.push(row);
            chosen[expert].1.push(p / sum);
        }
    }
    chosen
}

fn softmax(scores: &[f32]) -> Vec<(usize, f32)> {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exps: Vec<f32> = scores.iter().map(|s| (s - max).exp()).collect();
    let sum: f32 = exps.iter().sum();
    exps.into_iter().map(|e| e / sum).enumerate().collect()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
