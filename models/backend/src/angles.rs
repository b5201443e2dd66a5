//! Rotary positions: by what angle each pair of a head's numbers turns.

use crate::Batch;

/// Frequencies of a head's rotations, and the axis whose position each turns with.
///
/// With sections the axes interleave: frequency `j` turns with height if `j % 3 == 1` and `j < 3 * sections[1]`, with
/// width if `j % 3 == 2` and `j < 3 * sections[2]`, else with time. (transformers, `apply_interleaved_mrope`.)
pub struct Angles {
    /// Frequency and axis.
    turns: Vec<(f32, usize)>,
}

impl Angles {
    pub fn new(head_dim: usize, theta: f32, sections: Option<[usize; 3]>) -> Self {
        let frequency = |j: usize| 1.0 / theta.powf((2 * j) as f32 / head_dim as f32);
        let axis = |j: usize| match sections {
            Some(sections) if j < 3 * sections[j % 3] => j % 3,
            _ => 0,
        };
        Self {
            turns: (0..head_dim / 2).map(|j| (frequency(j), axis(j))).collect(),
        }
    }

    /// Angles `[rows, head_dim / 2]` of a batch's rows.
    pub fn of(&self, batch: &Batch) -> Vec<f32> {
        let mut angles = Vec::with_capacity(batch.rows() * self.turns.len());
        for axes in batch.axes() {
            angles.extend(self.turns.iter().map(|&(f, axis)| axes[axis] as f32 * f));
        }
        angles
    }
}
