//! The matrix products of what speaks, by the shapes of a checkpoint's tensors.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError};
use crate::family::Family;
use crate::floor::rates;

/// A product as the networks compute it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Product {
    /// `text` (what projects it), `talker`, `predictor` or `vocoder`.
    pub part: &'static str,
    /// Rows of a frame of one sequence.
    pub rows: usize,
    /// Numbers of each row that are made.
    pub outputs: usize,
    /// Products per output: for a convolution those of its window.
    pub inputs: usize,
}

/// Tensors whose rows follow those of another in one matrix, and that other.
const STACKED: [(&str, &str); 4] = [
    (".k_proj.", ".q_proj."),
    (".v_proj.", ".q_proj."),
    (".up_proj.", ".gate_proj."),
    (".shared_expert_gate.", ".gate."),
];

/// Name parts of tensors that are no plain product: tables, experts, per-channel weights, the quantizer's encoder.
const OTHERS: [&str; 6] = [
    "embed",
    "_codebook",
    ".mlp.experts.",
    ".dwconv.",
    "quantizer.rvq_first.input_proj",
    "quantizer.rvq_rest.input_proj",
];

fn part(tensor: &str) -> Option<&'static str> {
    // The first that fits counts.
    let parts = [
        ("talker.code_predictor.", "predictor"),
        ("talker.text_projection.", "text"),
        ("talker.hidden_projection.", "text"),
        ("talker.", "talker"),
        ("code2wav.", "vocoder"),
        ("decoder.", "vocoder"),
    ];
    let found = parts.into_iter().find(|(prefix, _)| tensor.starts_with(prefix));
    found.map(|(_, part)| part)
}

/// The products of a checkpoint's talker, predictor and vocoder, each shape once. Nothing is read but the list of tensors.
///
/// # Errors
/// [`LoadError`] if the checkpoint's configuration or its list of tensors cannot be read.
pub fn products(source: CheckpointSource) -> Result<BTreeSet<Product>, LoadError> {
    let checkpoint = Checkpoint::open(source)?;
    let family = Family::of(&checkpoint.required("config.json")?)?;
    let config = family.config(&checkpoint)?.code2wav;
    let shapes = |checkpoint: &Checkpoint| -> Vec<(String, Vec<usize>)> {
        let tensors = checkpoint.tensors();
        tensors
            .map(|(name, info)| (name.to_owned(), info.shape.to_vec()))
            .collect()
    };
    let mut tensors = shapes(&checkpoint);
    if let Some(codec) = family
        .codec_folder()
        .map(|folder| checkpoint.folder(folder))
        .transpose()?
    {
        tensors.extend(shapes(&codec));
    }
    let mut found: BTreeMap<String, Product> = BTreeMap::new();
    for (name, shape) in &tensors {
        let Some(part) = part(name) else { continue };
        if !name.ends_with(".weight") || OTHERS.iter().any(|other| name.contains(other)) {
            continue;
        }
        let (rows, more) = if part == "vocoder" {
            rates(name, &config)
        } else {
            (1, 1)
        };
        let (outputs, inputs) = match shape[..] {
            [outputs, inputs] => (outputs, inputs),
            // A transposed convolution: each row becomes `more`, of itself and, where the kernel is twice as long, of the row before it.
            [inputs, outputs, taps] if more > 1 => (more * outputs, taps / more * inputs),
            [outputs, inputs, taps] => (outputs, taps * inputs),
            _ => continue,
        };
        let stacked = |name: String, (follows, first): &(&str, &str)| name.replace(follows, first);
        let product = Product {
            part,
            rows,
            outputs: 0,
            inputs,
        };
        let matrix = STACKED.iter().fold(name.clone(), stacked);
        found.entry(matrix).or_insert(product).outputs += outputs;
    }
    Ok(found.into_values().collect())
}
