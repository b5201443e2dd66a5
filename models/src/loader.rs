//! Gives tensors to the networks' constructors and records which were requested.
//!
//! A checkpoint is loaded in two passes of the same constructors: a dry one ([`DryRun`]) that finds every missing,
//! misshapen or unused tensor without reading, and the real one.

mod signals;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use omni_backend::host::{DType, HostTensor, Reordering};
use omni_backend::{ComputeError, Conv, Depthwise, DryRun, Params, Precision, Snake, Taps};

use crate::checkpoint::{Checkpoint, LoadError, Problem};

/// Source of weights for one pass.
pub(crate) struct Loader<'a, P> {
    checkpoint: &'a Checkpoint,
    params: &'a P,
    /// In a dry run: requested tensors with their shapes.
    asked: RefCell<BTreeMap<String, Vec<usize>>>,
    problems: RefCell<Vec<Problem>>,
    /// Files that were found damaged: once for all their tensors.
    damaged: RefCell<BTreeSet<String>>,
}

impl<'a, P: Params> Loader<'a, P> {
    pub(crate) fn new(checkpoint: &'a Checkpoint, params: &'a P) -> Self {
        Self {
            checkpoint,
            params,
            asked: RefCell::default(),
            problems: RefCell::default(),
            damaged: RefCell::default(),
        }
    }

    /// Returns true if the checkpoint has a tensor.
    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.checkpoint.info(tensor).is_some()
    }

    /// Matrix `{name}.weight` of shape `[out, in]`, with `{name}.bias` if `bias`.
    pub(crate) fn linear(
        &self,
        name: &str,
        out: usize,
        inputs: usize,
        bias: bool,
    ) -> Result<P::Matrix, LoadError> {
        let weight = self.tensor(&format!("{name}.weight"), &[out, inputs])?;
        let bias = bias
            .then(|| self.tensor(&format!("{name}.bias"), &[out]))
            .transpose()?;
        self.made(name, self.params.matrix(&[weight], bias.as_ref()))
    }

    /// Matrix `weight` of shape `[out, in]` with `bias`.
    pub(crate) fn matrix(
        &self,
        weight: &str,
        bias: &str,
        out: usize,
        inputs: usize,
    ) -> Result<P::Matrix, LoadError> {
        let matrix = self.tensor(weight, &[out, inputs])?;
        let bias = self.tensor(bias, &[out])?;
        self.made(weight, self.params.matrix(&[matrix], Some(&bias)))
    }

    /// Output head `{name}.weight` of shape `[out, in]`.
    pub(crate) fn head(&self, name: &str, out: usize, inputs: usize) -> Result<P::Matrix, LoadError> {
        let weight = self.tensor(&format!("{name}.weight"), &[out, inputs])?;
        let params = self.params.with_least(Precision::Int8);
        self.made(name, params.matrix(&[weight], None))
    }

    /// Matrices `{name}.weight` of shape `[out, in]`, stacked into one.
    pub(crate) fn stacked(&self, parts: &[(String, usize)], inputs: usize) -> Result<P::Matrix, LoadError> {
        self.stacked_by(self.params, parts, inputs)
    }

    /// As [`Loader::stacked`], for what decides which experts compute.
    pub(crate) fn router(&self, parts: &[(String, usize)], inputs: usize) -> Result<P::Matrix, LoadError> {
        self.stacked_by(&self.params.with_least(Precision::Stored), parts, inputs)
    }

    fn stacked_by(
        &self,
        params: &P,
        parts: &[(String, usize)],
        inputs: usize,
    ) -> Result<P::Matrix, LoadError> {
        let read = |(name, out): &(String, usize)| self.tensor(&format!("{name}.weight"), &[*out, inputs]);
        let weights = parts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        self.made(parts.first().map_or("", |p| &p.0), params.matrix(&weights, None))
    }

    /// As [`Loader::stacked`], with `{name}.bias` for each.
    pub(crate) fn stacked_biased(
        &self,
        parts: &[(String, usize)],
        inputs: usize,
    ) -> Result<P::Matrix, LoadError> {
        let mut weights = Vec::new();
        let mut biases = Vec::new();
        for (name, out) in parts {
            weights.push(self.tensor(&format!("{name}.weight"), &[*out, inputs])?);
            let bias = self.tensor(&format!("{name}.bias"), &[*out])?;
            if !P::DRY {
                biases.extend(bias.to_f32());
            }
        }
        let bias = HostTensor::from_f32(vec![biases.len()], &biases);
        self.made(
            parts.first().map_or("", |p| &p.0),
            self.params.matrix(&weights, Some(&bias)),
        )
    }

    /// Convolution over two dimensions `{name}.weight` of shape `[out, in, k, k]` (bands, times) with bias, as a matrix
    /// `[out, k (times) * k (bands) * in]`.
    pub(crate) fn conv2d(
        &self,
        name: &str,
        out: usize,
        inputs: usize,
        k: usize,
    ) -> Result<P::Matrix, LoadError> {
        let weight = self.tensor(&format!("{name}.weight"), &[out, inputs, k, k])?;
        let weight = change(weight, HostTensor::conv2d_as_matrix, P::DRY);
        let bias = self.tensor(&format!("{name}.bias"), &[out])?;
        self.made(name, self.params.matrix(&[weight], Some(&bias)))
    }

    /// Matrix `{name}.weight` of shape `[out, channels * bands]`, for inputs whose channels come last.
    pub(crate) fn channels_last(
        &self,
        name: &str,
        out: usize,
        channels: usize,
        bands: usize,
    ) -> Result<P::Matrix, LoadError> {
        let weight = self.tensor(&format!("{name}.weight"), &[out, channels * bands])?;
        let order = Reordering {
            dims: [1, out, bands, channels],
            steps: [0, channels * bands, 1, bands].map(usize::cast_signed),
            start: 0,
        };
        let last = |t: &HostTensor| t.reordered(vec![out, bands * channels], order);
        let weight = change(weight, last, P::DRY);
        self.made(name, self.params.matrix(&[weight], None))
    }

    pub(crate) fn vector(&self, name: &str, len: usize) -> Result<P::Vector, LoadError> {
        let values = self.tensor(name, &[len])?;
        self.made(name, self.params.vector(&values))
    }

    pub(crate) fn table(&self, name: &str, rows: usize, width: usize) -> Result<P::Table, LoadError> {
        #[cfg(unix)]
        if !P::DRY
            && let Some(rows) = self.checkpoint.file_rows(name)?
            && let Some(table) = self.params.table_in_file(rows)
        {
            return Ok(table);
        }
        let values = self.tensor(name, &[rows, width])?;
        self.made(name, self.params.table(values))
    }

    /// Codebook `{name}.{sums}` of shape `[codes, width]`: sums of vectors, to be divided by how many there were
    /// (`{name}.cluster_usage`).
    pub(crate) fn codebook(
        &self,
        name: &str,
        sums: &str,
        codes: usize,
        width: usize,
    ) -> Result<P::Table, LoadError> {
        let table = self.codebook_rows(name, sums, codes, width)?;
        self.made(name, self.params.table(table))
    }

    /// As [`Loader::codebook`], where the host computes with it.
    pub(crate) fn codebook_rows(
        &self,
        name: &str,
        sums: &str,
        codes: usize,
        width: usize,
    ) -> Result<HostTensor, LoadError> {
        /// Divisor of the reference implementation for a code that was never used.
        const LEAST: f32 = 1e-5;
        let values = self.tensor(&format!("{name}.{sums}"), &[codes, width])?;
        let usage = self.tensor(&format!("{name}.cluster_usage"), &[codes])?;
        if P::DRY {
            return Ok(values);
        }
        let mut rows = values.to_f32();
        let usage = usage.to_f32();
        for (row, usage) in rows.chunks_mut(width.max(1)).zip(usage) {
            row.iter_mut().for_each(|v| *v /= usage.max(LEAST));
        }
        Ok(HostTensor::from_f32(vec![codes, width], &rows))
    }

    /// Convolution `{name}.weight` of shape `[out, in, k]` as a matrix over its taps, with `{name}.bias` if `bias`.
    pub(crate) fn conv_matrix(
        &self,
        name: &str,
        out: usize,
        inputs: usize,
        k: usize,
        bias: bool,
    ) -> Result<P::Matrix, LoadError> {
        let weight = self.tensor(&format!("{name}.weight"), &[out, inputs, k])?;
        let weight = change(weight, HostTensor::conv_as_matrix, P::DRY);
        let bias = bias.then(|| self.tensor(&format!("{name}.bias"), &[out]));
        let bias = bias.transpose()?;
        self.made(name, self.params.matrix(&[weight], bias.as_ref()))
    }

    /// Rows that are computed with as a matrix, too.
    pub(crate) fn matrix_of(&self, name: &str, rows: &HostTensor) -> Result<P::Matrix, LoadError> {
        self.made(name, self.params.matrix(std::slice::from_ref(rows), None))
    }

    /// Requires a tensor that is not used.
    pub(crate) fn unused(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        if P::DRY {
            self.tensor(name, shape)?;
        }
        Ok(())
    }

    /// Convolution `{name}.weight` of shape `[out, in, k]` with bias.
    pub(crate) fn conv(
        &self,
        name: &str,
        out: usize,
        inputs: usize,
        k: usize,
        dilation: usize,
    ) -> Result<Conv<P>, LoadError> {
        Ok(Conv {
            matrix: self.conv_matrix(name, out, inputs, k, true)?,
            taps: Taps { taps: k, dilation },
        })
    }

    /// Transposed convolution `{name}.weight` of shape `[in, out, k]` with bias and stride `s`, `k` a multiple of `s`:
    /// a convolution that gives `s` rows (as one of `s * out` channels) per input row.
    pub(crate) fn conv_transpose(
        &self,
        name: &str,
        inputs: usize,
        out: usize,
        k: usize,
        stride: usize,
    ) -> Result<Conv<P>, LoadError> {
        self.conv_transpose_times(name, (inputs, out, k), stride, None)
    }

    /// As [`Loader::conv_transpose`] with the weights times `factor`.
    pub(crate) fn conv_transpose_times(
        &self,
        name: &str,
        (inputs, out, k): (usize, usize, usize),
        stride: usize,
        factor: Option<f32>,
    ) -> Result<Conv<P>, LoadError> {
        let weight = self.tensor(&format!("{name}.weight"), &[inputs, out, k])?;
        let weight = change(weight, |t| t.conv_transpose_as_matrix(stride), P::DRY);
        let weight = match factor {
            Some(factor) => change(weight, |t| mapped(t, |v| v * factor), P::DRY),
            None => weight,
        };
        let bias = self.tensor(&format!("{name}.bias"), &[out])?;
        let bias = change(bias, |t| t.repeated(stride), P::DRY);
        let matrix = self.made(name, self.params.matrix(&[weight], Some(&bias)))?;
        Ok(Conv {
            matrix,
            taps: Taps {
                taps: k / stride,
                dilation: 1,
            },
        })
    }

    /// Depthwise convolution `{name}.weight` of shape `[channels, 1, k]` with bias.
    pub(crate) fn depthwise(&self, name: &str, channels: usize, k: usize) -> Result<Depthwise<P>, LoadError> {
        let weight = self.tensor(&format!("{name}.weight"), &[channels, 1, k])?;
        let weight = change(weight, HostTensor::depthwise_as_matrix, P::DRY);
        Ok(Depthwise {
            weight: self.made(name, self.params.vector(&weight))?,
            bias: self.vector(&format!("{name}.bias"), channels)?,
            taps: Taps { taps: k, dilation: 1 },
        })
    }

    /// The experts of a mixture, from their matrices.
    pub(crate) fn experts(
        &self,
        name: &str,
        experts: Vec<(P::Matrix, P::Matrix)>,
    ) -> Result<P::Experts, LoadError> {
        self.made(name, self.params.experts(experts))
    }

    /// Snake activation: `{name}.alpha` and `{name}.beta` hold logarithms.
    pub(crate) fn snake(&self, name: &str, channels: usize) -> Result<Snake<P>, LoadError> {
        let read = |part: &str, f: fn(f32) -> f32| {
            let values = self.tensor(&format!("{name}.{part}"), &[channels])?;
            let values = change(values, |t| mapped(t, f), P::DRY);
            self.made(name, self.params.vector(&values))
        };
        let reciprocal = |log: f32| 1.0 / (log.exp() + 1e-9);
        Ok(Snake {
            a: read("alpha", f32::exp)?,
            b: read("beta", reciprocal)?,
        })
    }

    fn made<T>(&self, name: &str, result: Result<T, ComputeError>) -> Result<T, LoadError> {
        result.map_err(|e| {
            let reason = format!("tensor {name} cannot be placed: {e}");
            LoadError::one(Problem::Malformed {
                file: self.file_of(name),
                reason,
            })
        })
    }

    fn file_of(&self, name: &str) -> String {
        self.checkpoint
            .info(name)
            .map_or_else(|| self.checkpoint.listing().to_owned(), |i| i.file.clone())
    }

    /// The tensor `name`, which must have `shape`. In a dry run flaws are noted and the tensor is empty.
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<HostTensor, LoadError> {
        let factors = self.factors(name);
        if !P::DRY {
            return match factors {
                None => self.checkpoint.read(name),
                Some([size, direction]) => Ok(folded(
                    &self.checkpoint.read(&size)?,
                    &self.checkpoint.read(&direction)?,
                )),
            };
        }
        if let Some([size, direction]) = factors {
            // A size for every output, or of a transposed convolution for every input.
            let of_size: Vec<usize> = shape
                .iter()
                .enumerate()
                .map(|(i, &n)| if i == 0 { n } else { 1 })
                .collect();
            self.tensor(&size, &of_size)?;
            return self.tensor(&direction, shape);
        }
        self.asked.borrow_mut().insert(name.to_owned(), shape.to_vec());
        let is_news = |flaw: &Problem| {
            let file = flaw.file();
            file.is_none_or(|file| self.damaged.borrow_mut().insert(file.to_owned()))
        };
        let flaw = self.flaw(name, shape).filter(is_news);
        self.problems.borrow_mut().extend(flaw);
        Ok(HostTensor::from_f32(Vec::new(), &[]))
    }

    /// Names of the size and the direction by which a tensor that is not there is said, if they are there.
    fn factors(&self, name: &str) -> Option<[String; 2]> {
        let factors = [format!("{name}_g"), format!("{name}_v")];
        (!self.has(name) && factors.iter().all(|name| self.has(name))).then_some(factors)
    }

    fn flaw(&self, name: &str, expected: &[usize]) -> Option<Problem> {
        let tensor = name.to_owned();
        let expected = expected.to_vec();
        if let Some(problem) = self.checkpoint.absent(name) {
            return Some(problem.clone());
        }
        let Some(info) = self.checkpoint.info(name) else {
            return Some(Problem::MissingTensor {
                file: self.checkpoint.listing().into(),
                tensor,
                expected,
            });
        };
        let file = info.file.clone();
        if let DType::Other(found) = &info.dtype {
            return Some(Problem::Type {
                file,
                tensor,
                found: found.clone(),
            });
        }
        (info.shape != expected).then(|| Problem::Shape {
            file,
            tensor,
            expected,
            found: info.shape.clone(),
        })
    }
}

impl Loader<'_, DryRun> {
    /// As [`Loader::problems`], as an error if there is one.
    pub(crate) fn finish(self) -> Result<(), LoadError> {
        LoadError::unless_empty(self.problems())
    }

    /// Ends a dry run: every flaw found. Tensors that nothing asked for are none.
    pub(crate) fn problems(self) -> Vec<Problem> {
        let checkpoint = self.checkpoint;
        let mut problems = self.problems.into_inner();
        let missing = |problem: &Problem| match problem {
            Problem::MissingTensor { file, tensor, .. } if file == checkpoint.listing() => {
                Some(tensor.clone())
            }
            _ => None,
        };
        let names: Vec<String> = problems.iter().filter_map(missing).collect();
        if let Some(renamed) = renamed(checkpoint, &names) {
            problems.retain(|problem| missing(problem).is_none());
            problems.push(renamed);
        }
        problems
    }

    /// Names of the tensors of its checkpoint that nothing has asked for.
    pub(crate) fn extra(&self) -> Vec<&str> {
        let asked = self.asked.borrow();
        let names = self.checkpoint.tensors().map(|(name, _)| name);
        names.filter(|name| !asked.contains_key(*name)).collect()
    }

    /// Ends a dry run: returns all requested tensors with their shapes.
    pub(crate) fn into_asked(self) -> BTreeMap<String, Vec<usize>> {
        self.asked.into_inner()
    }
}

/// Fewest tensors that are missing where a prefix is looked for.
const FEWEST_RENAMED: usize = 4;

/// True if nearly all of the tensors that are missing are there under other names, which have a prefix too many or
/// lack one.
fn renamed(checkpoint: &Checkpoint, missing: &[String]) -> Option<Problem> {
    if missing.len() < FEWEST_RENAMED {
        return None;
    }
    let expected = missing.first()?;
    let names = || checkpoint.tensors().map(|(name, _)| name);
    let longer = names().filter(|name| {
        name.strip_suffix(expected.as_str())
            .is_some_and(|p| p.ends_with('.'))
    });
    let dots = expected.match_indices('.').map(|(at, _)| &expected[at + 1..]);
    let shorter = dots.filter(|rest| checkpoint.info(rest).is_some());
    let mut candidates = longer.chain(shorter);
    candidates.find_map(|found| {
        let added = found.strip_suffix(expected.as_str());
        let lacking = expected.strip_suffix(found);
        let name_of = |name: &String| match (added, lacking) {
            (Some(prefix), _) => Some(format!("{prefix}{name}")),
            (_, Some(prefix)) => name.strip_prefix(prefix).map(str::to_owned),
            (None, None) => None,
        };
        let there = missing.iter().filter_map(name_of);
        let count = there.filter(|name| checkpoint.info(name).is_some()).count();
        (count * 10 >= missing.len() * 9).then(|| Problem::Renamed {
            file: checkpoint.listing().to_owned(),
            count,
            expected: expected.clone(),
            found: found.to_owned(),
        })
    })
}

/// The tensor of which every part along the first dimension has this size and direction (weight normalisation).
fn folded(size: &HostTensor, direction: &HostTensor) -> HostTensor {
    let mut values = direction.to_f32();
    let sizes = size.to_f32();
    let part = values.len() / sizes.len().max(1);
    for (part, size) in values.chunks_mut(part.max(1)).zip(sizes) {
        let square: f64 = part.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
        #[expect(clippy::cast_possible_truncation, reason = "a root of squares of f32")]
        let factor = (f64::from(size) / square.sqrt()) as f32;
        part.iter_mut().for_each(|v| *v *= factor);
    }
    HostTensor::from_f32(direction.shape.clone(), &values)
}

fn change(tensor: HostTensor, f: impl FnOnce(&HostTensor) -> HostTensor, dry: bool) -> HostTensor {
    if dry { tensor } else { f(&tensor) }
}

fn mapped(tensor: &HostTensor, f: impl Fn(f32) -> f32) -> HostTensor {
    let values: Vec<f32> = tensor.to_f32().into_iter().map(f).collect();
    HostTensor::from_f32(tensor.shape.clone(), &values)
}
