//! Memory that a tensor is read into before it is packed.
//!
//! The system zeroes a page before it gives it, which takes as long as reading a tensor into it does. So while weights
//! are loaded, the pages of one tensor are the next one's. An allocator would keep them for ever; here the system has
//! them back with the last [`KeptPages`].

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memmap2::MmapMut;

/// Bytes of a tensor from which on it is staged in pages of its own.
const PAGED: usize = 1 << 20;
/// Areas that wait for a tensor, at most: a stack of three matrices is being read while another is packed.
const WAITING: usize = 6;
/// Their bytes, at most.
const WAITING_BYTES: usize = 256 << 20;

/// Areas that no tensor has, and how many want them to be kept.
struct Staging(Mutex<Idle>);

struct Idle {
    keepers: usize,
    areas: Vec<MmapMut>,
}

/// The process's areas.
static STAGING: Staging = Staging::new();

/// Keeps pages for the tensors to come, until it is dropped.
pub struct KeptPages(&'static Staging);

impl KeptPages {
    pub fn keep() -> Self {
        STAGING.keep()
    }
}

impl Drop for KeptPages {
    fn drop(&mut self) {
        let mut idle = self.0.idle();
        idle.keepers -= 1;
        if idle.keepers == 0 {
            idle.areas.clear();
        }
    }
}

/// Pages for `len` bytes, where that is worth it and the system gives them.
pub fn pages(len: usize) -> Option<Pages> {
    STAGING.pages(len)
}

impl Staging {
    const fn new() -> Self {
        Self(Mutex::new(Idle {
            keepers: 0,
            areas: Vec::new(),
        }))
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&'static self) -> KeptPages {
        self.idle().keepers += 1;
        KeptPages(self)
    }

    fn pages(&'static self, len: usize) -> Option<Pages> {
        if len < PAGED {
            return None;
        }
        let area = Some(self.waiting(len).or_else(|| mapped(len))?);
        Some(Pages {
            area,
            len,
            from: self,
        })
    }

    /// Takes the smallest idle area that is large enough but not much larger, because a table keeps the area it was
    /// read into.
    fn waiting(&self, len: usize) -> Option<MmapMut> {
        let areas = &mut self.idle().areas;
        let fits = len..=len.saturating_mul(2);
        let fitting = areas
            .iter()
            .enumerate()
            .filter(|(_, area)| fits.contains(&area.len()));
        let (smallest, _) = fitting.min_by_key(|(_, area)| area.len())?;
        Some(areas.swap_remove(smallest))
    }

    fn give_back(&self, area: MmapMut) {
        let mut idle = self.idle();
        if idle.keepers == 0 || area.len() > WAITING_BYTES {
            return;
        }
        let bytes: usize = idle.areas.iter().map(|area| area.len()).sum();
        let mut over = (bytes + area.len()).saturating_sub(WAITING_BYTES);
        // The oldest go: tensors of one size follow each other.
        while over > 0 || idle.areas.len() >= WAITING {
            let oldest = idle.areas.remove(0);
            over = over.saturating_sub(oldest.len());
        }
        idle.areas.push(area);
    }
}

fn mapped(len: usize) -> Option<MmapMut> {
    let area = MmapMut::map_anon(len).ok()?;
    // Without huge pages everything works, only slower.
    #[cfg(target_os = "linux")]
    let _ = area.advise(memmap2::Advice::HugePage);
    Some(area)
}

/// Pages of a tensor, with arbitrary content until written.
#[derive(derive_more::Debug)]
#[debug("Pages {{ len: {:?}, .. }}", self.len)]
pub struct Pages {
    /// As long as the tensor or longer; there until it is dropped.
    area: Option<MmapMut>,
    len: usize,
    from: &'static Staging,
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(area) = self.area.take() {
            self.from.give_back(area);
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.area.as_ref().map_or(&[], |area| &area[..self.len])
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.area.as_mut().map_or(&mut [], |area| &mut area[..self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_wait_for_the_next_tensor_while_weights_are_loaded_and_no_longer() {
        static STAGING: Staging = Staging::new();
        let waiting = || STAGING.idle().areas.len();
        assert!(
            STAGING.pages(PAGED - 1).is_none(),
            "small tensors are on the heap"
        );
        let kept = STAGING.keep();
        let mut first = STAGING.pages(PAGED + 5).expect("the system maps");
        assert_eq!(first.len(), PAGED + 5);
        first[PAGED + 4] = 7;
        let address = first.as_ptr();
        drop(first);
        let second = STAGING.pages(PAGED).expect("it waits");
        assert_eq!(second.len(), PAGED);
        assert_eq!(second.as_ptr(), address, "no new pages");
        let many: Vec<_> = (0..2 * WAITING)
            .filter_map(|i| STAGING.pages(PAGED + i))
            .collect();
        drop(many);
        assert_eq!(waiting(), WAITING);
        let far_smaller = STAGING.pages(PAGED).expect("the system maps");
        let large = STAGING.pages(WAITING_BYTES).expect("the system maps");
        drop((far_smaller, large));
        assert_eq!(waiting(), 1, "bytes are bounded, too");
        drop(STAGING.pages(WAITING_BYTES / 4));
        assert!(waiting() <= 2, "what is much larger is for larger tensors");
        drop(kept);
        assert_eq!(waiting(), 0);
        drop(second);
        assert_eq!(waiting(), 0, "nothing is loaded any more");
    }
}
