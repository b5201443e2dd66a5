//! Rows of a tensor that stay in their file: of a large table a request looks up a few.

use std::fs::File;

use super::tensor::{DType, HostTensor};

/// A tensor `[rows, width]` in an open file, which is read row by row. The file may be renamed or unlinked meanwhile.
#[derive(Debug)]
pub(crate) struct FileRows {
    pub(super) file: File,
    /// Byte at which the tensor begins.
    pub(super) begin: u64,
    pub(super) dtype: DType,
    pub(super) rows: usize,
    pub(super) width: usize,
}

impl FileRows {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers of a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Bytes of all rows.
    pub(crate) fn size(&self) -> u64 {
        self.rows as u64 * self.row_size()
    }

    fn row_size(&self) -> u64 {
        self.width as u64 * self.dtype.width().unwrap_or_default()
    }

    /// Appends row `row`, which must be there, widened to f32.
    ///
    /// # Errors
    /// If it cannot be read, such as from a file that was cut short.
    pub(crate) fn widen(&self, row: usize, out: &mut Vec<f32>) -> std::io::Result<()> {
        let size = self.row_size();
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        self.read(self.begin + row as u64 * size, &mut bytes)?;
        HostTensor::stored(self.dtype.clone(), vec![self.width], bytes.into()).widen(0, self.width, out);
        Ok(())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, at)
    }
}
