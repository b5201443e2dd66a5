//! Rows picked and put: `kernels/rows.cu`.

use super::{args, kernels, launch, of, threads, wide};
use crate::launch::{Address, Float, Launch};

kernels! { "rows":
    plain COPY = "copy"("ppuu") 256;
    plain FILL = "fill"("puu") 256;
    plain PUT = "put"("pppuu") 256;
    plain TAKE = "take"("pppuu") 256;
    typed GATHER = "gather"("pppuuuu") 1024;
    typed PAIR_ROWS = "pair_rows"("pppppuuuuu") 1024;
    typed SCATTER_ADD = "scatter_add"("ppppuu") 1024;
    typed SCATTER_ADD_IN_ORDER = "scatter_add_in_order"("ppppuuu") 256;
    typed LOOKUP_MEAN = "lookup_mean"("pppuuu") 1024;
    typed LOOKUP_SUM = "lookup_sum"("pppppuuuuu") 1024;
}

/// Blocks of 256 threads for `items`, each thread taking four or more.
fn few_blocks(items: u32) -> [u32; 3] {
    [items.div_ceil(1024).min(1024), 1, 1]
}

/// `to = from`.
#[derive(Debug, Clone, Copy)]
pub struct Copy {
    /// Words of 4 bytes.
    pub to: Address,
    /// Words of 4 bytes, not overlapping `to`.
    pub from: Address,
    /// Number of words.
    pub words: u32,
}

impl Copy {
    /// A few words per thread.
    pub fn launch(&self) -> Launch {
        let wide = self.to.is_wide() && self.from.is_wide();
        let grid = few_blocks(if wide { self.words.div_ceil(4) } else { self.words });
        launch(&COPY[0], grid, 256, args![self.to, self.from, self.words, wide])
    }
}

/// `to = word`.
#[derive(Debug, Clone, Copy)]
pub struct Fill {
    /// Words of 4 bytes.
    pub to: Address,
    /// Value of each word.
    pub word: u32,
    /// Number of words.
    pub words: u32,
}

impl Fill {
    /// A few words per thread.
    pub fn launch(&self) -> Launch {
        let grid = few_blocks(self.words);
        launch(&FILL[0], grid, 256, args![self.to, self.word, self.words])
    }
}

/// `out[i] = x[index[i * stride]]`; zeros where that is not below `rows`.
#[derive(Debug, Clone, Copy)]
pub struct Gather {
    /// `[count, width]`.
    pub out: Address,
    /// `[rows, width]`.
    pub x: Address,
    /// `[count, stride]` of `u32`, of which the first of each row is taken.
    pub index: Address,
    /// Indices from one that is taken to the next.
    pub stride: u32,
    /// Rows that are made.
    pub count: u32,
    /// Rows of `x`.
    pub rows: u32,
    /// Elements of each.
    pub width: u32,
}

impl Gather {
    /// One block per row.
    pub fn launch(&self, float: Float) -> Launch {
        let wide = wide(self.width, &[self.out, self.x]);
        let items = if wide { self.width / 8 } else { self.width };
        launch(
            of(&GATHER, float),
            [self.count, 1, 1],
            threads(items, 256),
            args![
                self.out,
                self.x,
                self.index,
                self.stride,
                self.rows,
                self.width,
                wide
            ],
        )
    }
}

/// Pairs of rows: `out[2 i] = x[index[i]]` and `out[2 i + 1] = table[ids[i * stride]]`; zeros where an index is out
/// of range.
#[derive(Debug, Clone, Copy)]
pub struct PairRows {
    /// `[2 * count, width]`.
    pub out: Address,
    /// `[rows, width]`.
    pub x: Address,
    /// `[table_rows, width]`.
    pub table: Address,
    /// `[count]` of `u32`.
    pub index: Address,
    /// `[count, stride]` of `u32`, of which the first of each row is taken.
    pub ids: Address,
    /// Pairs that are made.
    pub count: u32,
    /// Rows of `x`.
    pub rows: u32,
    /// Rows of the table.
    pub table_rows: u32,
    /// Ids from one that is taken to the next.
    pub stride: u32,
    /// Elements of each.
    pub width: u32,
}

impl PairRows {
    /// One block per row.
    pub fn launch(&self, float: Float) -> Launch {
        let wide = wide(self.width, &[self.out, self.x, self.table]);
        let items = if wide { self.width / 8 } else { self.width };
        launch(
            of(&PAIR_ROWS, float),
            [2 * self.count, 1, 1],
            threads(items, 256),
            args![
                self.out,
                self.x,
                self.table,
                self.index,
                self.ids,
                self.rows,
                self.table_rows,
                self.stride,
                self.width,
                wide
            ],
        )
    }
}

/// `acc[index[i]] += weight[i] * x[i]`. Rows of `acc` that there are not are left out.
#[derive(Debug, Clone, Copy)]
pub struct ScatterAdd {
    /// `[rows, width]`.
    pub acc: Address,
    /// `[count, width]`.
    pub x: Address,
    /// `[count]` of `u32`.
    pub index: Address,
    /// `[count]` of f32, or none for 1.
    pub weight: Address,
    /// Rows of `x`.
    pub count: u32,
    /// Rows of `acc`.
    pub rows: u32,
    /// Elements of each.
    pub width: u32,
    /// `true` promises that no row of `acc` is named twice. If one is, additions are lost.
    pub unique: bool,
}

impl ScatterAdd {
    /// One block per row of `x`, or a thread per column, which is slow for many rows.
    pub fn launch(&self, float: Float) -> Launch {
        if self.unique {
            let args = args![self.acc, self.x, self.index, self.weight, self.rows, self.width];
            let grid = [self.count, 1, 1];
            return launch(of(&SCATTER_ADD, float), grid, threads(self.width, 256), args);
        }
        launch(
            of(&SCATTER_ADD_IN_ORDER, float),
            [self.width.div_ceil(64), 1, 1],
            64,
            args![
                self.acc,
                self.x,
                self.index,
                self.weight,
                self.count,
                self.rows,
                self.width
            ],
        )
    }
}

/// `out[i]` is the mean of the rows of the ids `i * group ..` on; ids that there are not count as zeros.
#[derive(Debug, Clone, Copy)]
pub struct LookupMean {
    /// `[count, width]`.
    pub out: Address,
    /// `[rows, width]`.
    pub table: Address,
    /// `[count, group]` of `u32`.
    pub ids: Address,
    /// Means.
    pub count: u32,
    /// Ids per mean.
    pub group: u32,
    /// Rows of the table.
    pub rows: u32,
    /// Elements of each.
    pub width: u32,
}

impl LookupMean {
    /// One block per mean.
    pub fn launch(&self, float: Float) -> Launch {
        launch(
            of(&LOOKUP_MEAN, float),
            [self.count, 1, 1],
            threads(self.width, 256),
            args![self.out, self.table, self.ids, self.rows, self.width, self.group],
        )
    }
}

/// `acc[index[i]] += sum over g of tables[g][ids[from[i] * stride + g]]`: all embeddings of a frame's codes at once.
#[derive(Debug, Clone, Copy)]
pub struct LookupSum {
    /// `[rows, width]`.
    pub acc: Address,
    /// `[groups, 2]` of `u64`: a table's address and its rows. Ids that a table does not have add nothing.
    pub tables: Address,
    /// `[id_rows, stride]` of `u32`, of which the first `groups` of each row are taken.
    pub ids: Address,
    /// `[count]` of `u32`, none twice, or none for the first `count` rows.
    pub index: Address,
    /// `[count]` of `u32`: which rows of ids, of which those that there are not add nothing; or none for the first
    /// `count`.
    pub from: Address,
    /// Rows that are added.
    pub count: u32,
    /// Rows of `acc`.
    pub rows: u32,
    /// Elements of each.
    pub width: u32,
    /// Tables.
    pub groups: u32,
    /// Ids from one row's first to the next one's.
    pub stride: u32,
    /// Rows of ids.
    pub id_rows: u32,
}

impl LookupSum {
    /// One block per row.
    pub fn launch(&self, float: Float) -> Launch {
        launch(
            of(&LOOKUP_SUM, float),
            [self.count, 1, 1],
            threads(self.width, 256),
            args![
                self.acc,
                self.tables,
                self.ids,
                self.index,
                self.from,
                self.rows,
                self.width,
                self.groups,
                self.stride,
                self.id_rows,
            ],
        )
    }
}

/// `to[index[i]] = from[i]` for rows of words. Rows that there are not are left out.
#[derive(Debug, Clone, Copy)]
pub struct Put {
    /// `[rows, width]` of `u32`.
    pub to: Address,
    /// `[count, width]` of `u32`.
    pub from: Address,
    /// `[count]` of `u32`, no row twice.
    pub index: Address,
    /// Rows that are put.
    pub count: u32,
    /// Rows that there are.
    pub rows: u32,
    /// Words of each.
    pub width: u32,
}

impl Put {
    /// One block per row.
    pub fn launch(&self) -> Launch {
        let args = args![self.to, self.from, self.index, self.rows, self.width];
        launch(&PUT[0], [self.count, 1, 1], threads(self.width, 256), args)
    }
}

/// `to[i] = from[index[i]]` for rows of words; [`NO_ROW`](super::NO_ROW) everywhere in those that there are not.
#[derive(Debug, Clone, Copy)]
pub struct Take {
    /// `[count, width]` of `u32`.
    pub to: Address,
    /// `[rows, width]` of `u32`.
    pub from: Address,
    /// `[count]` of `u32`.
    pub index: Address,
    /// Rows that are taken.
    pub count: u32,
    /// Rows that there are.
    pub rows: u32,
    /// Words of each.
    pub width: u32,
}

impl Take {
    /// One block per row.
    pub fn launch(&self) -> Launch {
        let args = args![self.to, self.from, self.index, self.rows, self.width];
        launch(&TAKE[0], [self.count, 1, 1], threads(self.width, 256), args)
    }
}
