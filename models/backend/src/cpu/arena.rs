//! Memory for weights, in huge pages where the system has them.
//!
//! A step reads every weight once and finds none in a cache, so it is bound by memory bandwidth. With pages of 4 KiB
//! a core stalls on address translation (twice as long in a virtual machine) and stops prefetching at every page end.
//! Matrices are therefore packed one after another into chunks of many huge pages.
#![expect(
    unsafe_code,
    reason = "pieces of one chunk are written and read on their own; they never overlap"
)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use memmap2::MmapMut;

/// Words per allocation (32 MiB): a multiple of every huge page size.
const CHUNK: usize = 8 << 20;
/// Pieces begin at multiples of this many words: a cache line.
const LINE: usize = 16;

/// Numbers of 32 bits, all of whose patterns are values.
pub(super) trait Word: Copy + Send + Sync + 'static {}

impl Word for u32 {}
impl Word for f32 {}

/// Memory of many pieces; given back when the last of them is dropped.
struct Chunk {
    words: *mut u32,
    len: usize,
    _memory: Memory,
}

enum Memory {
    Mapped {
        _map: MmapMut,
    },
    /// Memory of the allocator, where the system does not map: with or without large pages, as the system decides.
    Own {
        _words: Vec<u32>,
    },
}

// SAFETY: the pointer is to memory that the chunk owns; `take` gives every part of it to one `Words` only, which is
// written before it is shared and only read from then on.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Zeros.
    fn of(len: usize) -> Self {
        let Ok(mut map) = MmapMut::map_anon(len * size_of::<u32>()) else {
            let mut words = vec![0; len];
            return Self {
                words: words.as_mut_ptr(),
                len,
                _memory: Memory::Own { _words: words },
            };
        };
        // Without huge pages everything works, only slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Self {
            words: map.as_mut_ptr().cast(),
            len,
            _memory: Memory::Mapped { _map: map },
        }
    }
}

/// The chunk that is not full yet, and how many of its words are taken.
static OPEN: Mutex<(Weak<Chunk>, usize)> = Mutex::new((Weak::new(), 0));

/// `len` words that nothing else has: their chunk, and where they begin.
fn take(len: usize) -> (Arc<Chunk>, usize) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let used = open.1;
    if let Some(chunk) = open.0.upgrade()
        && used + len <= chunk.len
    {
        open.1 = (used + len).next_multiple_of(LINE);
        return (chunk, used);
    }
    let chunk = Arc::new(Chunk::of(len.next_multiple_of(CHUNK)));
    *open = (Arc::downgrade(&chunk), len.next_multiple_of(LINE));
    (chunk, 0)
}

/// Numbers of a matrix.
pub(super) struct Words<T> {
    chunk: Arc<Chunk>,
    at: usize,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Word> Words<T> {
    /// `len` numbers, zeros until `write` has written them.
    pub(super) fn written(len: usize, write: impl FnOnce(&mut [T])) -> Self {
        let (chunk, at) = take(len);
        // SAFETY: `take` hands these words of the chunk to this call only; any bits are a valid `T` of the same size
        // and alignment; the chunk outlives the slice.
        write(unsafe { std::slice::from_raw_parts_mut(chunk.words.add(at).cast(), len) });
        let of = PhantomData;
        Self { chunk, at, len, of }
    }
}

impl<T: Word> Deref for Words<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as in `written`; after it nothing writes these words.
        unsafe { std::slice::from_raw_parts(self.chunk.words.add(self.at).cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_what_was_written_while_others_come_and_go() {
        let piece = |i: u32, len: usize| Words::<u32>::written(len, |words| words.fill(i));
        let mut pieces: Vec<(u32, Words<u32>)> = Vec::new();
        for i in 0..200 {
            pieces.push((i, piece(i, 1 + (i as usize * 7919) % 300_000)));
            if i % 3 == 0 {
                pieces.remove(pieces.len() / 2);
            }
        }
        for (i, words) in &pieces {
            assert!(words.iter().all(|word| word == i), "piece {i}");
            assert!((words.as_ptr() as usize).is_multiple_of(LINE * size_of::<u32>()));
        }
    }

    #[test]
    fn numbers_begin_as_zeros_even_where_others_were() {
        for _ in 0..3 {
            let zeros = Words::<f32>::written(CHUNK / 2 + 1, |words| {
                assert!(words.iter().all(|word| *word == 0.0));
                words.fill(1.0);
            });
            assert_eq!(zeros.iter().sum::<f32>(), (CHUNK / 2 + 1) as f32);
        }
    }

    #[test]
    fn nothing_and_more_than_a_chunk_can_be_held() {
        let none = Words::<u32>::written(0, |words| assert!(words.is_empty()));
        let many = Words::<u32>::written(CHUNK + 5, |words| words[CHUNK + 4] = 7);
        assert_eq!((none.len(), many[CHUNK + 4], many.len()), (0, 7, CHUNK + 5));
    }
}
