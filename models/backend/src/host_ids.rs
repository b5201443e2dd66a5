//! Ids in the host's memory, for backends that compute there or can wait for a copy.

use super::ops::{IdStore, IdTransfer};
use super::{Params, Result};

/// A backend whose ids are in the host's memory.
pub(super) trait HostIdBackend: Params {}

impl<B: HostIdBackend> IdTransfer for B {
    type Ids = HostIds;
    type PendingIds = Vec<u32>;

    fn ids(&self, columns: usize, ids: Vec<u32>) -> Result<HostIds> {
        Ok(HostIds { values: ids, columns })
    }

    fn host_ids(&self, ids: &HostIds) -> Result<Vec<u32>> {
        Ok(ids.values.clone())
    }

    fn known<'a>(&self, ids: &'a HostIds) -> Option<&'a [u32]> {
        Some(&ids.values)
    }

    fn download_ids(&self, ids: &HostIds) -> Result<Vec<u32>> {
        self.host_ids(ids)
    }

    fn wait_ids(&self, pending: Vec<u32>) -> Result<Vec<u32>> {
        Ok(pending)
    }
}

impl<B: HostIdBackend> IdStore for B {
    fn grow_ids(&self, ids: &mut HostIds, rows: usize) -> Result<()> {
        ids.grow(rows);
        Ok(())
    }

    fn put_ids(&self, to: &mut HostIds, rows: &[u32], from: &HostIds) -> Result<()> {
        to.put(rows, from);
        Ok(())
    }

    fn take_ids(&self, from: &HostIds, rows: &[u32]) -> Result<HostIds> {
        Ok(from.take(rows))
    }
}

/// `[rows, columns]`.
pub struct HostIds {
    pub(super) values: Vec<u32>,
    pub(super) columns: usize,
}

impl HostIds {
    pub(super) fn column(&self, column: usize) -> impl ExactSizeIterator<Item = u32> {
        self.values.iter().skip(column).step_by(self.columns).copied()
    }

    /// [`IdStore::grow_ids`].
    fn grow(&mut self, rows: usize) {
        let values = self.values.len().max(rows * self.columns);
        self.values.resize(values, 0);
    }

    /// [`IdStore::put_ids`].
    fn put(&mut self, rows: &[u32], from: &Self) {
        for (&row, ids) in rows.iter().zip(from.values.chunks(from.columns)) {
            let at = row as usize * self.columns;
            if let Some(to) = self.values.get_mut(at..at + self.columns) {
                to.copy_from_slice(ids);
            }
        }
    }

    /// [`IdStore::take_ids`].
    fn take(&self, rows: &[u32]) -> Self {
        let none = vec![u32::MAX; self.columns];
        let row = |&row: &u32| {
            let at = row as usize * self.columns;
            self.values.get(at..at + self.columns).unwrap_or(&none)
        };
        Self {
            values: rows.iter().flat_map(row).copied().collect(),
            columns: self.columns,
        }
    }
}
