//! Ids on the device: brought, looked up, fetched; and rows fetched as numbers.

use half::bf16;
use omni_gpu::kernels::{Gather, LookupMean, LookupSum, PairRows, Put, Take};
use omni_gpu::{Address, Device, Float, Memory};

use super::command_stream::{PendingCopy, Place};
use super::{Gpu, Ids, Rows, Table, small};
use crate::Result;

impl<D: Device> Ids<D> {
    pub(super) fn column(&self, column: usize) -> Address {
        self.place.address().offset(column * 4)
    }
}

impl<D: Device> Gpu<D> {
    /// Row `i` of `out` is row `index[i * stride]` of the `rows` rows at `x`.
    pub(super) fn pick(
        &self,
        out: &Rows<D>,
        x: Address,
        rows: usize,
        index: Address,
        stride: usize,
    ) -> Result<()> {
        let kernel = Gather {
            out: out.address(),
            x,
            index,
            stride: small(stride),
            count: small(out.rows),
            rows: small(rows),
            width: small(out.width),
        };
        self.launch(kernel.launch(self.float))
    }

    pub(super) fn look_up(&self, table: &Table<D>, ids: &Ids<D>, column: usize) -> Result<Rows<D>> {
        let out = self.scratch(ids.rows, table.width)?;
        let x = table.values.address();
        self.pick(&out, x, table.rows, ids.column(column), ids.columns)?;
        Ok(out)
    }

    /// `index`: which rows of `acc`, `from`: which rows of `ids`.
    pub(super) fn look_up_and_add(
        &self,
        acc: Rows<D>,
        tables: &[&Table<D>],
        ids: &Ids<D>,
        (index, from): (Option<&[u32]>, Option<&[u32]>),
    ) -> Result<Rows<D>> {
        let described = tables
            .iter()
            .flat_map(|t| [t.values.address().0, t.rows as u64])
            .flat_map(u64::to_le_bytes);
        let described: Vec<u8> = described.collect();
        let described = self.commands().bring(&described)?;
        let bring = |rows: Option<&[u32]>| rows.map(|rows| self.bring(rows.iter().copied())).transpose();
        let count = from.map_or(ids.rows, <[u32]>::len);
        let index = bring(index)?;
        let from = bring(from)?;
        let kernel = LookupSum {
            acc: acc.address(),
            tables: described.address(),
            ids: ids.place.address(),
            index: index.as_ref().map_or(Address::NONE, Place::address),
            from: from.as_ref().map_or(Address::NONE, Place::address),
            count: small(count),
            rows: small(acc.rows),
            width: small(acc.width),
            groups: small(tables.len()),
            stride: small(ids.columns),
            id_rows: small(ids.rows),
        };
        self.launch(kernel.launch(self.float))?;
        Ok(acc)
    }

    pub(super) fn pair(&self, x: &Rows<D>, index: &[u32], table: &Table<D>, ids: &Ids<D>) -> Result<Rows<D>> {
        let out = self.scratch(2 * index.len(), table.width)?;
        let count = small(index.len());
        let index = self.bring(index.iter().copied())?;
        let kernel = PairRows {
            out: out.address(),
            x: x.address(),
            table: table.values.address(),
            index: index.address(),
            ids: ids.place.address(),
            count,
            rows: small(x.rows),
            table_rows: small(table.rows),
            stride: small(ids.columns),
            width: small(table.width),
        };
        self.launch(kernel.launch(self.float))?;
        Ok(out)
    }

    pub(super) fn look_up_mean(&self, table: &Table<D>, ids: &Ids<D>) -> Result<Rows<D>> {
        let out = self.scratch(ids.rows, table.width)?;
        let kernel = LookupMean {
            out: out.address(),
            table: table.values.address(),
            ids: ids.place.address(),
            count: small(ids.rows),
            group: small(ids.columns),
            rows: small(table.rows),
            width: small(table.width),
        };
        self.launch(kernel.launch(self.float))?;
        Ok(out)
    }

    pub(super) fn fetch_ids(&self, ids: &Ids<D>) -> Result<Vec<u32>> {
        let mut bytes = vec![0; ids.rows * ids.columns * 4];
        self.commands()
            .fetch(ids.place.address(), &mut bytes, &self.watch)?;
        Ok(words(&bytes))
    }

    pub(super) fn download(&self, ids: &Ids<D>) -> Result<PendingCopy<D>> {
        Ok(self
            .commands()
            .download_async(ids.place.address(), ids.rows * ids.columns * 4)?)
    }

    pub(super) fn wait_download(&self, pending: PendingCopy<D>) -> Result<Vec<u32>> {
        let bytes = self.commands().wait_copy(pending, &self.watch)?;
        Ok(words(&bytes))
    }

    pub(super) fn grow_rows_of_ids(&self, ids: &mut Ids<D>, rows: usize) -> Result<()> {
        if rows <= ids.rows && matches!(ids.place, Place::Own(_)) {
            return Ok(());
        }
        let before = ids.rows * ids.columns * 4;
        let bytes = rows.max(1) * ids.columns * 4;
        let memory = self.commands().device.alloc(bytes)?;
        self.fill(memory.address(), bytes)?;
        self.copy(memory.address(), ids.place.address(), before)?;
        let mut commands = self.commands();
        // Until then the old memory is needed.
        commands.wait()?;
        commands.moved();
        ids.place = Place::Own(memory);
        ids.rows = rows;
        Ok(())
    }

    pub(super) fn put(&self, to: &Ids<D>, rows: &[u32], from: &Ids<D>) -> Result<()> {
        let index = self.bring(rows.iter().copied())?;
        let kernel = Put {
            to: to.place.address(),
            from: from.place.address(),
            index: index.address(),
            count: small(rows.len()),
            rows: small(to.rows),
            width: small(to.columns),
        };
        self.launch(kernel.launch())
    }

    pub(super) fn take(&self, from: &Ids<D>, rows: &[u32]) -> Result<Ids<D>> {
        let columns = from.columns;
        let place = self.commands().take(rows.len() * columns * 4)?;
        let index = self.bring(rows.iter().copied())?;
        let kernel = Take {
            to: place.address(),
            from: from.place.address(),
            index: index.address(),
            count: small(rows.len()),
            rows: small(from.rows),
            width: small(columns),
        };
        self.launch(kernel.launch())?;
        let rows = rows.len();
        Ok(Ids { place, rows, columns })
    }

    pub(super) fn fetch_floats(&self, x: &Rows<D>) -> Result<Vec<f32>> {
        let mut bytes = vec![0; x.rows * x.width * self.float.bytes()];
        self.commands().fetch(x.address(), &mut bytes, &self.watch)?;
        Ok(self.numbers(&bytes))
    }

    pub(super) fn download_floats(&self, x: &Rows<D>) -> Result<PendingCopy<D>> {
        let bytes = x.rows * x.width * self.float.bytes();
        Ok(self.commands().download_async(x.address(), bytes)?)
    }

    pub(super) fn wait_floats(&self, pending: PendingCopy<D>) -> Result<Vec<f32>> {
        let bytes = self.commands().wait_copy(pending, &self.watch)?;
        Ok(self.numbers(&bytes))
    }

    fn numbers(&self, bytes: &[u8]) -> Vec<f32> {
        match self.float {
            Float::F32 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect(),
            Float::Bf16 => {
                let wide = |b: &[u8; 2]| bf16::from_le_bytes(*b).to_f32();
                bytes.as_chunks().0.iter().map(wide).collect()
            }
        }
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|b| u32::from_le_bytes(*b)).collect()
}
