//! Ids in the host's memory.

/// `[rows, columns]`.
pub(crate) struct HostIds {
    pub(super) values: Vec<u32>,
    pub(super) columns: usize,
}

impl HostIds {
    pub(super) fn column(&self, column: usize) -> impl ExactSizeIterator<Item = u32> {
        self.values.iter().skip(column).step_by(self.columns).copied()
    }

    /// [`IdStore::grow_ids`](super::IdStore::grow_ids).
    pub(super) fn grow(&mut self, rows: usize) {
        let values = self.values.len().max(rows * self.columns);
        self.values.resize(values, 0);
    }

    /// [`IdStore::put_ids`](super::IdStore::put_ids).
    pub(super) fn put(&mut self, rows: &[u32], from: &Self) {
        for (&row, ids) in rows.iter().zip(from.values.chunks(from.columns)) {
            let at = row as usize * self.columns;
            if let Some(to) = self.values.get_mut(at..at + self.columns) {
                to.copy_from_slice(ids);
            }
        }
    }

    /// [`IdStore::take_ids`](super::IdStore::take_ids).
    pub(super) fn take(&self, rows: &[u32]) -> Self {
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
