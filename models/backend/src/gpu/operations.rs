//! The operations in terms of kernels.

use omni_gpu::kernels::{
    Activate, Activation, Add, LayerNorm, RmsNorm, ScatterAdd, Snake as SnakeKernel, Swiglu,
};
use omni_gpu::{Address, Device, Memory, Priority};

use super::attention::Places;
use super::choices::Draw;
use super::command_stream::{PendingCopy, Place};
use super::{Experts, Gpu, Ids, Kept, Kv, Matrix, Rows, Table, Vector, small};
use crate::angles::Angles;
use crate::layers::Snake;
use crate::ops::*;
use crate::sampling::{Choice, TextChoice};
use crate::{
    AttentionShape, Batch, ComputeError, GpuFigures, Result, Routing, StepKey, TellFallback, TextChosen,
};

/// Largest step that is rounded up to a power of two; beyond it to a multiple of it.
const LARGEST_BUCKET: usize = 64;
/// Fewest keys that room is made for.
const FEWEST_KEYS: usize = 64;
/// Least rows to allocate where rows are kept.
const KEPT_ROWS: usize = 64;

impl<D: Device> Gpu<D> {
    /// Memory of `rows` kept rows, and all rows that it has room for: later operations are the same for any number of
    /// kept rows.
    fn kept_rows(&self, kept: &mut Kept<D>, rows: usize, width: usize) -> Result<(Rows<D>, Rows<D>)> {
        let row = width * self.float.bytes();
        let memory = match kept.0.take() {
            Some(memory) if memory.bytes() >= rows * row => memory,
            _ => {
                let mut commands = self.commands();
                // Work on the old memory may not be over yet.
                commands.device.wait()?;
                commands.moved();
                commands
                    .device
                    .alloc((rows.max(KEPT_ROWS) * row).next_multiple_of(4))?
            }
        };
        let at = memory.address();
        let room = memory.bytes() / row;
        kept.0 = Some(memory);
        let part = |rows: usize| Rows {
            place: Place::Fixed(at),
            rows,
            width,
        };
        Ok((part(rows), part(room)))
    }

    fn normalise(&self, norm: Norm<'_, Self>, x: &Rows<D>, out: &Rows<D>) -> Result<()> {
        let kernel = RmsNorm {
            out: out.address(),
            x: x.address(),
            y: Address::NONE,
            scale: Address::NONE,
            weight: norm.weight.values.address(),
            rows: small(x.rows),
            width: small(x.width),
            eps: norm.eps,
        };
        self.launch(kernel.launch(self.float))
    }

    fn activate(&self, x: Rows<D>, activation: Activation) -> Result<Rows<D>> {
        let kernel = Activate {
            out: x.address(),
            x: x.address(),
            count: x.count(),
            activation,
        };
        self.launch(kernel.launch(self.float))?;
        Ok(x)
    }
}

impl<D: Device> ComputeDevice for Gpu<D> {
    fn replica(&self) -> Result<Self> {
        self.fork(Priority::Usual)
    }

    fn urgent_replica(&self) -> Result<Self> {
        self.fork(Priority::Urgent)
    }

    fn figures(&self) -> Option<GpuFigures> {
        Some(self.watch.figures())
    }

    fn take_fallbacks(&self) -> Vec<String> {
        self.watch.take_reasons()
    }

    fn tell_fallbacks(&self, to: TellFallback) {
        self.watch.tell(to);
    }
}

impl<D: Device> StepSizes for Gpu<D> {
    fn rounds_up(&self) -> bool {
        true
    }

    fn bucket(&self, rows: usize) -> usize {
        if rows > LARGEST_BUCKET {
            return rows.next_multiple_of(LARGEST_BUCKET);
        }
        rows.next_power_of_two()
    }

    fn bucket_keys(&self, keys: usize) -> usize {
        keys.next_power_of_two().max(FEWEST_KEYS)
    }

    fn buckets(&self, rows: usize) -> Vec<usize> {
        self.sizes(rows, |rows| self.bucket(rows))
    }

    fn buckets_of_keys(&self, keys: usize) -> Vec<usize> {
        self.sizes(keys, |keys| self.bucket_keys(keys))
    }
}

impl<D: Device> Steps for Gpu<D> {
    fn step<T>(&self, key: StepKey, step: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.run_step(key, step)
    }

    fn step_once<T>(&self, stage: &'static str, step: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let open = self.commands().begin_once(stage)?;
        self.ended(open, step)
    }

    fn wait(&self) -> Result<()> {
        Ok(self.commands().wait()?)
    }

    fn is_apart(&self) -> bool {
        // Launched kernel by kernel, each upload is waited for.
        self.commands().graphs
    }
}

impl<D: Device> Activations for Gpu<D> {
    type Rows = Rows<D>;
    type Kept = Kept<D>;

    fn rows(&self, width: usize, values: Vec<f32>) -> Result<Rows<D>> {
        let place = self.commands().bring(&self.floats(&values))?;
        let rows = values.len() / width.max(1);
        Ok(Rows { place, rows, width })
    }

    fn zeros(&self, rows: usize, width: usize) -> Result<Rows<D>> {
        let zeros = self.scratch(rows, width)?;
        self.fill(zeros.address(), rows * width * self.float.bytes())?;
        Ok(zeros)
    }

    fn host(&self, x: &Rows<D>) -> Result<Vec<f32>> {
        self.fetch_floats(x)
    }

    fn reshape(&self, x: Rows<D>, width: usize) -> Result<Rows<D>> {
        let rows = x.rows * x.width / width;
        Ok(Rows { rows, width, ..x })
    }
}

impl<D: Device> RowIndexing for Gpu<D> {
    fn gather(&self, x: &Rows<D>, index: &[u32]) -> Result<Rows<D>> {
        let out = self.scratch(index.len(), x.width)?;
        let index = self.bring(index.iter().copied())?;
        self.pick(&out, x.address(), x.rows, index.address(), 1)?;
        Ok(out)
    }

    fn scatter_add(&self, acc: Rows<D>, index: &[u32], x: &Rows<D>) -> Result<Rows<D>> {
        let mut seen = vec![false; acc.rows];
        let twice = |&row: &u32| std::mem::replace(&mut seen[row as usize], true);
        let unique = !index.iter().any(twice);
        let index = self.bring(index.iter().copied())?;
        let kernel = ScatterAdd {
            acc: acc.address(),
            x: x.address(),
            index: index.address(),
            weight: Address::NONE,
            count: small(x.rows),
            rows: small(acc.rows),
            width: small(acc.width),
            unique,
        };
        self.launch(kernel.launch(self.float))?;
        Ok(acc)
    }
}

impl<D: Device> IdTransfer for Gpu<D> {
    type Ids = Ids<D>;
    type PendingIds = PendingCopy<D>;

    fn ids(&self, columns: usize, ids: Vec<u32>) -> Result<Ids<D>> {
        let rows = ids.len() / columns.max(1);
        let place = self.bring(ids.into_iter())?;
        Ok(Ids { place, rows, columns })
    }

    fn host_ids(&self, ids: &Ids<D>) -> Result<Vec<u32>> {
        self.fetch_ids(ids)
    }

    fn known<'a>(&self, _: &'a Ids<D>) -> Option<&'a [u32]> {
        None
    }

    fn download_ids(&self, ids: &Ids<D>) -> Result<PendingCopy<D>> {
        self.download(ids)
    }

    fn wait_ids(&self, pending: PendingCopy<D>) -> Result<Vec<u32>> {
        self.wait_download(pending)
    }
}

impl<D: Device> IdStore for Gpu<D> {
    fn grow_ids(&self, ids: &mut Ids<D>, rows: usize) -> Result<()> {
        self.grow_rows_of_ids(ids, rows)
    }

    fn put_ids(&self, to: &mut Ids<D>, rows: &[u32], from: &Ids<D>) -> Result<()> {
        self.put(to, rows, from)
    }

    fn take_ids(&self, from: &Ids<D>, rows: &[u32]) -> Result<Ids<D>> {
        self.take(from, rows)
    }
}

impl<D: Device> Embedding for Gpu<D> {
    fn lookup(&self, table: &Table<D>, ids: &Ids<D>, column: usize) -> Result<Rows<D>> {
        self.look_up(table, ids, column)
    }

    fn lookup_add(
        &self,
        acc: Rows<D>,
        tables: &[&Table<D>],
        ids: &Ids<D>,
        index: Option<&[u32]>,
    ) -> Result<Rows<D>> {
        self.look_up_and_add(acc, tables, ids, (index, None))
    }

    fn lookup_add_of(
        &self,
        acc: Rows<D>,
        tables: &[&Table<D>],
        ids: &Ids<D>,
        rows: &[u32],
    ) -> Result<Rows<D>> {
        self.look_up_and_add(acc, tables, ids, (None, Some(rows)))
    }

    fn pair_with_lookup(
        &self,
        width: usize,
        x: &Rows<D>,
        index: &[u32],
        table: &Table<D>,
        ids: &Ids<D>,
    ) -> Result<Rows<D>> {
        if [x.width, table.width] != [width; 2] {
            return Err(ComputeError::Failed(format!(
                "pairs of rows of {} and {} elements, expected {width}",
                x.width, table.width
            )));
        }
        self.pair(x, index, table, ids)
    }

    fn lookup_mean(&self, table: &Table<D>, ids: &Ids<D>) -> Result<Rows<D>> {
        self.look_up_mean(table, ids)
    }
}

impl<D: Device> Sampler for Gpu<D> {
    fn sample(
        &self,
        logits: &Rows<D>,
        choices: &[Choice<'_>],
        said: Option<&Ids<D>>,
        ids: &mut Ids<D>,
        column: usize,
    ) -> Result<()> {
        let draw = Draw {
            said,
            ..Draw::of(logits, choices)
        };
        self.choose(&draw, ids, column)
    }

    fn sample_of(
        &self,
        logits: &Rows<D>,
        rows: &[u32],
        choices: &[Choice<'_>],
        said: Option<&Ids<D>>,
        ids: &mut Ids<D>,
        column: usize,
    ) -> Result<()> {
        let draw = Draw {
            rows: Some(rows),
            said,
            ..Draw::of(logits, choices)
        };
        self.choose(&draw, ids, column)
    }

    fn sample_and_lookup(
        &self,
        logits: &Rows<D>,
        choices: &[Choice<'_>],
        ids: &mut Ids<D>,
        column: usize,
        table: &Table<D>,
    ) -> Result<Rows<D>> {
        let rows = self.scratch(choices.len(), table.width)?;
        let draw = Draw {
            embedded: Some((&rows, table)),
            ..Draw::of(logits, choices)
        };
        self.choose(&draw, ids, column)?;
        Ok(rows)
    }

    fn choose_text(
        &self,
        logits: &Rows<D>,
        vocab: usize,
        rows: &[u32],
        choices: &[TextChoice<'_>],
    ) -> Result<Vec<TextChosen>> {
        self.choose_tokens(logits, vocab, rows, choices)
    }
}

impl<D: Device> Products for Gpu<D> {
    fn linear(&self, w: &Matrix<D>, x: &Rows<D>) -> Result<Rows<D>> {
        self.product(w, x, None)
    }

    fn norm_linear(&self, norm: Norm<'_, Self>, w: &Matrix<D>, x: &Rows<D>) -> Result<Rows<D>> {
        self.product(w, x, Some(norm))
    }

    fn linear_add(
        &self,
        x: Rows<D>,
        scale: Option<&Vector<D>>,
        w: &Matrix<D>,
        y: &Rows<D>,
    ) -> Result<Rows<D>> {
        self.product_onto(x, scale, w, y)
    }

    fn linear_silu(&self, w: &Matrix<D>, x: &Rows<D>) -> Result<Rows<D>> {
        self.activated_product(w, x, Activation::Silu)
    }

    fn keep_norm_linear(
        &self,
        norm: Norm<'_, Self>,
        w: &Matrix<D>,
        x: &Rows<D>,
        (normal, product): (&mut Kept<D>, &mut Kept<D>),
    ) -> Result<(Rows<D>, Rows<D>)> {
        let (normal, of_normal) = self.kept_rows(normal, x.rows, x.width)?;
        self.normalise(norm, x, &normal)?;
        let (product, of_product) = self.kept_rows(product, x.rows, w.outputs)?;
        self.launch_linear(Self::times(&product, w, normal.address()))?;
        Ok((of_normal, of_product))
    }

    fn linear_gelu(&self, w: &Matrix<D>, x: &Rows<D>) -> Result<Rows<D>> {
        self.activated_product(w, x, Activation::Gelu)
    }

    fn gated(&self, w: &Matrix<D>, x: &Rows<D>) -> Result<Rows<D>> {
        self.gated_product(w, x, None)
    }

    fn norm_gated(&self, norm: Norm<'_, Self>, w: &Matrix<D>, x: &Rows<D>) -> Result<Rows<D>> {
        self.gated_product(w, x, Some(norm))
    }

    fn mixture(
        &self,
        experts: &Experts<D>,
        routing: Routing,
        scores: &Rows<D>,
        x: &Rows<D>,
        shared: Option<&Rows<D>>,
    ) -> Result<Rows<D>> {
        self.mix(experts, routing, scores, x, shared, None)
    }

    fn mixture_add(
        &self,
        onto: Rows<D>,
        experts: &Experts<D>,
        routing: Routing,
        scores: &Rows<D>,
        x: &Rows<D>,
        shared: Option<&Rows<D>>,
    ) -> Result<Rows<D>> {
        self.mix(experts, routing, scores, x, shared, Some(onto))
    }

    fn norm_mixture_add(
        &self,
        x: Rows<D>,
        norm: Norm<'_, Self>,
        mixture: &Mixture<'_, Self>,
    ) -> Result<Rows<D>> {
        self.normalise_and_mix(x, norm, mixture)
    }
}

impl<D: Device> Normalisation for Gpu<D> {
    fn rms_norm(&self, w: &Vector<D>, eps: f32, x: &Rows<D>) -> Result<Rows<D>> {
        let out = self.scratch(x.rows, x.width)?;
        self.normalise(Norm { weight: w, eps }, x, &out)?;
        Ok(out)
    }

    fn layer_norm(&self, w: &Vector<D>, bias: &Vector<D>, eps: f32, x: &Rows<D>) -> Result<Rows<D>> {
        let out = self.scratch(x.rows, x.width)?;
        let kernel = LayerNorm {
            out: out.address(),
            x: x.address(),
            weight: w.values.address(),
            bias: bias.values.address(),
            rows: small(x.rows),
            width: small(x.width),
            eps,
        };
        self.launch(kernel.launch(self.float))?;
        Ok(out)
    }
}

impl<D: Device> Pointwise for Gpu<D> {
    fn add(&self, x: Rows<D>, y: &Rows<D>, scale: Option<&Vector<D>>) -> Result<Rows<D>> {
        let kernel = Add {
            out: x.address(),
            x: x.address(),
            y: y.address(),
            scale: scale.map_or(Address::NONE, |s| s.values.address()),
            count: x.count(),
            width: small(x.width),
        };
        self.launch(kernel.launch(self.float))?;
        Ok(x)
    }

    fn silu(&self, x: Rows<D>) -> Result<Rows<D>> {
        self.activate(x, Activation::Silu)
    }

    fn gelu(&self, x: Rows<D>) -> Result<Rows<D>> {
        self.activate(x, Activation::Gelu)
    }

    fn swiglu(&self, x: &Rows<D>) -> Result<Rows<D>> {
        let out = self.scratch(x.rows, x.width / 2)?;
        let kernel = Swiglu {
            out: out.address(),
            x: x.address(),
            rows: small(x.rows),
            half: small(out.width),
        };
        self.launch(kernel.launch(self.float))?;
        Ok(out)
    }

    fn snake(&self, snake: &Snake<Self>, x: Rows<D>) -> Result<Rows<D>> {
        let kernel = SnakeKernel {
            out: x.address(),
            x: x.address(),
            a: snake.a.values.address(),
            b: snake.b.values.address(),
            count: x.count(),
            width: small(x.width),
        };
        self.launch(kernel.launch(self.float))?;
        Ok(x)
    }
}

impl<D: Device> Attention for Gpu<D> {
    type Kv = Kv<D>;
    type Places = Places<D>;

    fn places(&self, batch: &Batch, angles: &Angles, shape: &AttentionShape) -> Result<Places<D>> {
        self.prepare(batch, angles, shape.window)
    }

    fn kv(&self, slots: usize, width: usize) -> Result<Kv<D>> {
        Ok(Kv {
            keys: self.zeroed(slots * width, None)?,
            values: self.zeroed(slots * width, None)?,
            slots,
            width,
        })
    }

    fn grow(&self, kv: &mut Kv<D>, slots: usize) -> Result<()> {
        if slots > kv.slots {
            let keep = kv.slots * kv.width * self.float.bytes();
            kv.keys = self.zeroed(slots * kv.width, Some((&kv.keys, keep)))?;
            kv.values = self.zeroed(slots * kv.width, Some((&kv.values, keep)))?;
            kv.slots = slots;
            self.commands().moved();
        }
        Ok(())
    }

    fn attention(
        &self,
        shape: &AttentionShape,
        norms: Option<(&Vector<D>, &Vector<D>)>,
        qkv: Rows<D>,
        places: &Places<D>,
        _: &Batch,
        kv: &mut Kv<D>,
    ) -> Result<Rows<D>> {
        self.attend(shape, norms, &qkv, places, kv)
    }

    fn attention_within(&self, shape: &AttentionShape, qkv: &Rows<D>, lens: &[usize]) -> Result<Rows<D>> {
        self.attend_within(shape, qkv, lens)
    }
}
