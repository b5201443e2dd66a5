//! Launches that follow one another as one, whose blocks stay: `kernels/persistent.cu`.

use super::{Typed, args, kernels, launch};
use crate::launch::{Address, Float, Kernel, Launch};

kernels! { "persistent":
    typed PERSISTENT = "persistent"("ppu") 128 cooperative;
}

/// Words of a launch in the list.
const WORDS: usize = 32;
const GRID: usize = 1;
const AHEAD: usize = 3;
const ARGS: usize = 8;

/// Threads of a block.
const THREADS: u32 = 128;

/// Products whose weights may be asked for before their turn, most: those of a layer.
const MOST_AHEAD: usize = 4;

/// Positions of a matrix's description in a product's arguments.
#[derive(Debug, Clone, Copy)]
struct Weights {
    /// The matrix, and its width.
    matrix: usize,
    inputs: usize,
    /// Its rows, or half of them.
    outputs: usize,
    halves: u64,
}

const PLAIN: Option<Weights> = Some(Weights {
    matrix: 2,
    inputs: 9,
    outputs: 8,
    halves: 1,
});
const GATED: Option<Weights> = Some(Weights {
    matrix: 2,
    inputs: 6,
    outputs: 5,
    halves: 2,
});

/// Kernels that a program can contain, in the order of the numbers by which the device knows them.
const KINDS: [(&str, Option<Weights>); 21] = [
    ("gemv_1", PLAIN),
    ("gemv_2", PLAIN),
    ("gemv_4", PLAIN),
    ("gemv_8", PLAIN),
    ("normed_gemv_1", PLAIN),
    ("normed_gemv_2", PLAIN),
    ("normed_gemv_4", PLAIN),
    ("normed_gemv_8", PLAIN),
    ("normed_gated_1", GATED),
    ("normed_gated_2", GATED),
    ("normed_gated_4", GATED),
    ("normed_gated_8", GATED),
    ("rotate_and_store", None),
    ("attention_1", None),
    ("attention_2", None),
    ("attention_4", None),
    ("sample", None),
    ("gather", None),
    ("attend_1", None),
    ("attend_2", None),
    ("attend_4", None),
];

/// The number of a launch's kind, if it can stand in a list.
fn kind(launch: &Launch, float: Float) -> Option<usize> {
    let suffix = match float {
        Float::F32 => "_f32",
        Float::Bf16 => "_bf16",
    };
    let name = launch.kernel.name.strip_suffix(suffix)?;
    KINDS.iter().position(|(kind, _)| *kind == name)
}

/// Consecutive launches fused into one: each begins when all of the one before it is done. Results are bit-identical
/// to separate launches.
#[derive(Debug, Clone, Copy)]
pub struct Persistent {
    /// [`Persistent::program`], which must not change while the launch may run.
    pub program: Address,
    /// A `u32`: zero before and after. Two that may run at once need two.
    pub met: Address,
    /// Launches in the program.
    pub count: u32,
    /// Bytes of shared memory, as many as the launch in the program that wants most.
    pub shared: u32,
}

impl Persistent {
    /// Returns true if a launch can be part of a program.
    #[must_use]
    pub fn takes(launch: &Launch, float: Float) -> bool {
        kind(launch, float).is_some()
    }

    /// Words that the device reads, for launches that it [`takes`](Self::takes).
    #[must_use]
    pub fn program(launches: &[Launch], float: Float) -> Vec<u64> {
        let kinds: Vec<usize> = launches.iter().filter_map(|launch| kind(launch, float)).collect();
        debug_assert_eq!(kinds.len(), launches.len(), "a launch of another kind");
        // Address and size of the weights of every launch that reads any.
        let weights = launches.iter().zip(&kinds).enumerate();
        let mut ahead = weights
            .filter_map(|(i, (launch, kind))| {
                let found = KINDS[*kind].1?;
                let bits = launch.args.bits();
                let elements = bits[found.outputs] * found.halves * bits[found.inputs];
                Some((i, bits[found.matrix], elements * float.bytes() as u64))
            })
            .peekable();
        let products: Vec<bool> = kinds.iter().map(|kind| KINDS[*kind].1.is_some()).collect();
        let mut words = Vec::with_capacity(launches.len() * WORDS);
        for (i, (launch, kind)) in launches.iter().zip(&kinds).enumerate() {
            let mut listed = [0; WORDS];
            listed[0] = *kind as u64;
            let [x, y, z] = launch.grid.0;
            listed[GRID] = u64::from(x) | u64::from(y) << 32;
            listed[GRID + 1] = u64::from(z);
            // What runs now reads its own weights itself.
            while ahead.next_if(|(at, ..)| *at <= i).is_some() {}
            let near =
                |at: usize| products[i + 1..at].iter().filter(|product| **product).count() < MOST_AHEAD;
            if let Some((_, address, bytes)) = ahead.next_if(|(at, ..)| near(*at)) {
                listed[AHEAD] = address;
                listed[AHEAD + 1] = bytes;
            }
            let bits = launch.args.bits();
            listed[ARGS..ARGS + bits.len()].copy_from_slice(bits);
            words.extend(listed);
        }
        words
    }

    /// The kernel, for [`Graphs::resident`](crate::Graphs::resident).
    #[must_use]
    pub fn kernel(float: Float) -> &'static Kernel {
        let kernels: &'static Typed = &PERSISTENT;
        super::of(kernels, float)
    }

    /// The launch with `blocks` blocks, which must all be resident.
    #[must_use]
    pub fn launch(&self, float: Float, blocks: u32) -> Launch {
        let args = args![self.program, self.met, self.count];
        let mut launch = launch(Self::kernel(float), [blocks, 1, 1], THREADS, args);
        launch.shared = self.shared;
        launch
    }
}
