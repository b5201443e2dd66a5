//! The header of a safetensors file: eight bytes of length, then JSON, then the data.
//!
//! Format: <https://github.com/huggingface/safetensors#format>.

use std::borrow::Cow;
use std::collections::BTreeMap;

use omni_backend::host::DType;
use serde::Deserialize;

use super::info::{Content, TensorInfo};
use super::problem::{LoadError, Problem};

/// Longest header accepted, as in the reference implementation.
const MAX_HEADER: u64 = 100_000_000;

/// First bytes of the pointer that a clone without Git LFS leaves in a file's place.
const POINTER: &[u8; 8] = b"version ";

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// The tensors of one file.
pub(super) struct Header {
    pub(super) tensors: BTreeMap<String, TensorInfo>,
}

impl Header {
    /// Reads and checks the header of `file`, which is `len` bytes long.
    ///
    /// The outer error is one of reading; the inner one is a flaw of the file.
    pub(super) fn read(
        file: &str,
        len: u64,
        mut range: impl FnMut(u64, u64) -> Result<Cow<'static, [u8]>, LoadError>,
    ) -> Result<Result<Self, Problem>, LoadError> {
        let truncated = |expected| Problem::Truncated {
            file: file.into(),
            expected,
            found: len,
        };
        if len < 8 {
            return Ok(Err(truncated(8)));
        }
        let mut size = [0; 8];
        size.copy_from_slice(&range(0, 8)?);
        let begins = size;
        let size = u64::from_le_bytes(size);
        if size > MAX_HEADER {
            let reason = if &begins == POINTER {
                "is a Git LFS pointer and not the file that it stands for".to_owned()
            } else {
                format!("its header claims {size} bytes, at most {MAX_HEADER} are allowed")
            };
            return Ok(Err(Problem::Malformed {
                file: file.into(),
                reason,
            }));
        }
        let data = 8 + size;
        if len < data {
            return Ok(Err(truncated(data)));
        }
        Ok(parse(file, &range(8, data)?, data, len))
    }
}

fn parse(file: &str, json: &[u8], data: u64, len: u64) -> Result<Header, Problem> {
    let malformed = |reason: String| Problem::Malformed {
        file: file.into(),
        reason,
    };
    let raw: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(json).map_err(|e| malformed(format!("its header is not JSON: {e}")))?;
    let mut tensors = BTreeMap::new();
    let mut end_of_data = data;
    for (name, value) in raw {
        if name == "__metadata__" {
            continue;
        }
        let entry: Entry =
            serde_json::from_value(value).map_err(|e| malformed(format!("header entry {name:?}: {e}")))?;
        let (begin, end) = entry.data_offsets;
        let place = data
            .checked_add(begin)
            .zip(data.checked_add(end))
            .filter(|(b, e)| b <= e);
        let Some((begin, end)) = place else {
            return Err(malformed(format!(
                "tensor {name} has impossible offsets {begin}..{end}"
            )));
        };
        end_of_data = end_of_data.max(end);
        let dtype = DType::parse(&entry.dtype);
        let elements = entry
            .shape
            .iter()
            .try_fold(1_u64, |n, &d| n.checked_mul(d as u64));
        if let Some(width) = dtype.width()
            && elements.and_then(|n| n.checked_mul(width)) != Some(end - begin)
        {
            let found = end - begin;
            return Err(malformed(format!(
                "tensor {name} of shape {:?} and type {} occupies {found} bytes",
                entry.shape, entry.dtype
            )));
        }
        tensors.insert(
            name,
            TensorInfo {
                file: file.into(),
                dtype,
                shape: entry.shape,
                content: Content::Stored { begin, end },
            },
        );
    }
    if end_of_data > len {
        return Err(Problem::Truncated {
            file: file.into(),
            expected: end_of_data,
            found: len,
        });
    }
    match overlap(&tensors) {
        Some((a, b)) => Err(malformed(format!("tensors {a} and {b} share bytes"))),
        None => Ok(Header { tensors }),
    }
}

/// Two tensors that lie over each other.
fn overlap(tensors: &BTreeMap<String, TensorInfo>) -> Option<(&str, &str)> {
    let mut places: Vec<(u64, u64, &str)> = tensors
        .iter()
        .filter_map(|(name, t)| match t.content {
            Content::Stored { begin, end } => Some((begin, end, name.as_str())),
            Content::Made(_) => None,
        })
        .filter(|(begin, end, _)| begin < end)
        .collect();
    places.sort_unstable();
    let pair = places.windows(2).find(|pair| pair[1].0 < pair[0].1)?;
    Some((pair[0].2, pair[1].2))
}
