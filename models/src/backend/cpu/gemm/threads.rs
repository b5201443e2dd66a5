//! Which threads share a product.

use std::cell::OnceCell;
use std::thread::available_parallelism;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Multiply-adds below which a product of many rows is computed by one thread.
const MANY_ROWS_WORK: usize = 1 << 24;
/// Rows up to which a product waits for its weights, not for the units that multiply.
const FEW_ROWS: usize = 2;
/// Weights below which a product of few rows is computed by one thread: these are read in some twenty microseconds, and waking a thread
/// takes up to ten.
const FEW_ROWS_WEIGHTS: usize = 1 << 20;
/// Threads that a product of few rows is shared by at most: memory is not read faster by more.
const FEW_ROWS_THREADS: usize = 4;
/// Pieces for each of these threads, so that one that comes late holds up the others less.
const PIECES: usize = 2;

/// Calls `run` for every group of panels, on as many threads as pay for a product of `rows` rows with `weights` weights.
pub(super) fn share(groups: usize, rows: usize, weights: usize, run: impl Fn(usize) + Send + Sync) {
    let groups = 0..groups;
    if rows <= FEW_ROWS && weights >= FEW_ROWS_WEIGHTS {
        enter_pool();
        let threads = rayon::current_num_threads().min(FEW_ROWS_THREADS);
        if threads > 1 {
            let piece = groups.len() / (threads * PIECES);
            groups.into_par_iter().with_min_len(piece.max(1)).for_each(run);
            return;
        }
    } else if weights >= FEW_ROWS_WEIGHTS
        && rows * weights >= MANY_ROWS_WORK
        && rayon::current_num_threads() > 1
    {
        groups.into_par_iter().for_each(run);
        return;
    }
    groups.for_each(run);
}

/// Makes the calling thread one of a pool, if it is in none.
///
/// A thread outside a pool sleeps while others compute for it, and is woken at the end: with hundreds of products in a step, that is as long
/// as they take. One that is in the pool computes its part, and the others' parts if they are busy elsewhere.
fn enter_pool() {
    thread_local! {
        static POOL: OnceCell<Option<ThreadPool>> = const { OnceCell::new() };
    }
    if rayon::current_thread_index().is_some() {
        return;
    }
    POOL.with(|pool| {
        pool.get_or_init(|| {
            let threads = available_parallelism().map_or(1, usize::from);
            let builder = ThreadPoolBuilder::new().num_threads(threads);
            // Without the pool, products are computed by the global one's threads.
            builder
                .thread_name(|nth| format!("product-{nth}"))
                .use_current_thread()
                .build()
                .ok()
        });
    });
}
