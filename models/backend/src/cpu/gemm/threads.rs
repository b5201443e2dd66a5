//! Threads that share a product.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Weights below which one thread computes a product: reading them takes about 20 microseconds (int4).
const SHARED_WEIGHTS: usize = 1 << 20;
/// Multiply-adds below which one thread computes a product of many rows.
const MANY_ROWS_WORK: usize = 1 << 24;
/// Rows up to which a product waits for its weights, not for the units that multiply.
const FEW_ROWS: usize = 2;
/// Threads that share a product of few rows at most. It was measured with two; few memories deliver more than four
/// cores take.
const FEW_ROWS_THREADS: usize = 4;

thread_local! {
    /// `true` if this thread may have a pool.
    static SHARES: Cell<bool> = const { Cell::new(false) };
    /// Its pool, once there was a product to share; `None` inside where the system gave no threads.
    static POOL: OnceCell<Option<ThreadPool>> = const { OnceCell::new() };
}

/// Lets this thread share products of one or two rows with a pool of threads, which is made when there is the first
/// such product. For threads that compute steps as long as the process lives: the pool's memory is not given back when
/// its threads end with this one.
pub fn share_small_products() {
    SHARES.set(true);
}

/// Calls `run` for every group of panels, on as many threads as pay for a product of `rows` rows with `weights`
/// weights.
pub(super) fn share(groups: usize, rows: usize, weights: usize, run: impl Fn(usize) + Send + Sync) {
    let large = weights >= SHARED_WEIGHTS;
    if large && rows <= FEW_ROWS && enter_pool() {
        let threads = rayon::current_num_threads().min(FEW_ROWS_THREADS);
        let next = AtomicUsize::new(0);
        (0..threads).into_par_iter().with_max_len(1).for_each(|_| {
            loop {
                let group = next.fetch_add(1, Ordering::Relaxed);
                if group >= groups {
                    break;
                }
                run(group);
            }
        });
    } else if large && rows * weights >= MANY_ROWS_WORK && rayon::current_num_threads() > 1 {
        (0..groups).into_par_iter().for_each(run);
    } else {
        (0..groups).for_each(run);
    }
}

/// Returns true if the calling thread is in a pool of several threads; creates the pool if the thread may have one.
///
/// A thread outside a pool sleeps while others compute for it, and is woken at the end: with hundreds of products in a
/// step, that is as long as they take. One that is in the pool computes its part, and the others' parts if they are
/// busy elsewhere.
fn enter_pool() -> bool {
    if SHARES.get() && rayon::current_thread_index().is_none() {
        POOL.with(|pool| {
            pool.get_or_init(|| {
                let builder = ThreadPoolBuilder::new().num_threads(rayon::current_num_threads());
                // If the system refuses threads, this thread computes everything.
                builder
                    .thread_name(|nth| format!("product-{nth}"))
                    .use_current_thread()
                    .build()
                    .ok()
            });
        });
    }
    rayon::current_thread_index().is_some() && rayon::current_num_threads() > 1
}
