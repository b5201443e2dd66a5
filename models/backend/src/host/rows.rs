//! Rows of a tensor that stay in their file: of a large table a request looks up a few.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use super::tensor::{DType, HostTensor};

/// A tensor `[rows, width]` in an open file, which is read row by row. The file may be renamed or unlinked meanwhile;
/// one that is overwritten in place gives errors instead of the rows of another checkpoint.
#[derive(Debug)]
pub struct FileRows {
    pub file: File,
    /// Byte at which the tensor begins.
    pub begin: u64,
    pub dtype: DType,
    pub rows: usize,
    pub width: usize,
    /// Stamp of the file at the time when its header was read.
    pub stamp: FileStamp,
}

/// Size and time of the last change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    size: u64,
    changed: SystemTime,
}

impl FileStamp {
    pub fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            size: found.len(),
            changed: found.modified()?,
        })
    }
}

impl FileRows {
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Bytes of all rows.
    pub fn size(&self) -> u64 {
        self.rows as u64 * self.row_size()
    }

    fn row_size(&self) -> u64 {
        self.width as u64 * self.dtype.width().unwrap_or_default()
    }

    /// Appends row `row`, which must exist, widened to f32.
    ///
    /// # Errors
    /// If it cannot be read, or the file has changed.
    pub(crate) fn widen(&self, row: usize, out: &mut Vec<f32>) -> io::Result<()> {
        if FileStamp::of(&self.file)? != self.stamp {
            return Err(io::Error::other(
                "the file of the checkpoint was changed while it is served: restart the server",
            ));
        }
        let size = self.row_size();
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        self.read(self.begin + row as u64 * size, &mut bytes)?;
        HostTensor::stored(self.dtype.clone(), vec![self.width], bytes.into()).widen(0, self.width, out);
        Ok(())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_that_is_overwritten_gives_errors_and_no_rows_of_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.safetensors");
        let numbers = |from: u8| -> Vec<u8> {
            (from..from + 4)
                .flat_map(|n| f32::from(n).to_le_bytes())
                .collect()
        };
        std::fs::write(&path, numbers(1)).expect("it is written");
        let file = File::open(&path).expect("it is there");
        let rows = FileRows {
            stamp: FileStamp::of(&file).expect("it can be asked"),
            file,
            begin: 0,
            dtype: DType::F32,
            rows: 2,
            width: 2,
        };
        let mut out = Vec::new();
        rows.widen(1, &mut out).expect("it is as it was");
        assert_eq!(out, [3.0, 4.0]);
        let mut other = File::options().append(true).open(&path).expect("it is there");
        other.write_all(&numbers(5)).expect("it is written");
        let error = rows.widen(1, &mut out).expect_err("it was changed");
        assert!(
            error.to_string().contains("changed while it is served"),
            "{error}"
        );
    }
}
