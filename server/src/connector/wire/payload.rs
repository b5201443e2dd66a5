//! Plain data as bytes, and back.

use std::sync::Arc;

use super::{WireError, value};

/// Data with an encoding of its own. What was encoded is decoded as the same, bit for bit.
pub trait Wire: Sized {
    /// Appends it.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads it from exactly these bytes.
    ///
    /// # Errors
    /// [`WireError`], for any bytes that [`encode`](Self::encode) does not write.
    fn decode(bytes: &[u8]) -> Result<Self, WireError>;
}

/// Nothing.
impl Wire for () {
    fn encode(&self, _out: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        Fields::new("an empty payload", bytes).end()
    }
}

/// Reads the fields of a payload one after the other.
#[derive(Debug)]
pub struct Fields<'a> {
    what: &'static str,
    bytes: &'a [u8],
    read: usize,
}

impl<'a> Fields<'a> {
    /// `what` is being read, for messages.
    #[must_use]
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes, read: 0 }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        match self.bytes.split_at_checked(length) {
            Some((taken, rest)) => {
                self.bytes = rest;
                self.read += length;
                Ok(taken)
            }
            None => Err(WireError::Short {
                what: self.what,
                got: self.read + self.bytes.len(),
                expected: self.read.saturating_add(length),
            }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let taken = self.take(N)?;
        Ok(std::array::from_fn(|i| taken[i]))
    }

    /// One byte.
    ///
    /// # Errors
    /// [`WireError::Short`], as for all that follow.
    pub fn byte(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number of 4 bytes.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of 8 bytes.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes behind their count.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    /// Text behind its length.
    ///
    /// # Errors
    /// [`WireError::Short`], or [`WireError::Value`] if it is not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, WireError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|error| value(self.what, &error, "UTF-8 text"))
    }

    /// Something that may be absent.
    ///
    /// # Errors
    /// What `read` returns, or [`WireError::Value`].
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            other => Err(self.wrong(&other, "0 (absent) or 1 (present)")),
        }
    }

    /// All that is left, in words of `N` bytes.
    ///
    /// # Errors
    /// [`WireError::Short`] if the last word is not complete.
    pub fn words<const N: usize>(&mut self) -> Result<impl Iterator<Item = [u8; N]> + use<'a, N>, WireError> {
        let (words, rest) = self.bytes.as_chunks::<N>();
        if !rest.is_empty() {
            return Err(WireError::Short {
                what: self.what,
                got: self.read + self.bytes.len(),
                expected: self.read + (words.len() + 1) * N,
            });
        }
        self.read += self.bytes.len();
        self.bytes = &[];
        Ok(words.iter().copied())
    }

    /// Things behind their count, of at least one byte each.
    ///
    /// # Errors
    /// What `read` returns, or [`WireError::Short`].
    pub fn list<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, WireError>) -> Result<Vec<T>, WireError> {
        let count = self.u32()? as usize;
        // Never more than the bytes that are there can be.
        let mut list = Vec::with_capacity(count.min(self.bytes.len()) / size_of::<T>().max(1));
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// Numbers behind their count.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn reals(&mut self) -> Result<Arc<[f32]>, WireError> {
        let count = self.u32()? as usize;
        let bytes = self.take(count.saturating_mul(4))?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().copied().map(f32::from_le_bytes).collect())
    }

    /// All that is left.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether all is read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// [`WireError::Trailing`].
    pub fn end(self) -> Result<(), WireError> {
        match self.bytes.len() {
            0 => Ok(()),
            extra => Err(WireError::Trailing {
                what: self.what,
                extra,
            }),
        }
    }

    /// What was read makes no sense.
    #[must_use]
    pub fn wrong(&self, got: &(impl ToString + ?Sized), expected: &'static str) -> WireError {
        value(self.what, got, expected)
    }
}

/// Appends bytes behind their count. What is longer than a frame may be is refused with the frame.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend(length.to_le_bytes());
    out.extend(bytes);
}

/// Appends something that may be absent.
pub(super) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

/// Appends words of 4 bytes.
pub(super) fn put_words<T: Copy>(out: &mut Vec<u8>, words: &[T], bytes: impl Fn(T) -> [u8; 4]) {
    let start = out.len();
    out.resize(start + 4 * words.len(), 0);
    // Chunk by chunk, so that this becomes one copy where the machine is little endian itself.
    for (to, word) in out[start..].as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = bytes(*word);
    }
}
