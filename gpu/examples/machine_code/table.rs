//! The table of what each kernel must show.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// By name of the kernel.
pub(crate) type Rows = BTreeMap<String, Figures>;

/// Figures of a kernel's machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Figures {
    /// Per thread.
    pub(crate) registers: u32,
    /// Bytes per thread.
    pub(crate) stack: u32,
    /// Loads from and stores to local memory: spills, and arrays that are indexed at run time.
    pub(crate) local: u32,
    /// Loads and stores without an address space.
    pub(crate) generic: u32,
    /// Most loads of device memory that are under way at once.
    pub(crate) loads: u32,
    /// Loads of 16 bytes among these.
    pub(crate) wide_loads: u32,
    /// `LDSM`.
    pub(crate) matrix_loads: u32,
    /// `LDGSTS`.
    pub(crate) copies: u32,
    /// `HMMA`.
    pub(crate) tensor: u32,
}

/// Permitted direction of a column's figure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    AtMost,
    AtLeast,
}

type Column = (&'static str, Bound, fn(&mut Figures) -> &mut u32);

const COLUMNS: [Column; 9] = [
    ("registers", Bound::AtMost, |f| &mut f.registers),
    ("stack", Bound::AtMost, |f| &mut f.stack),
    ("local", Bound::AtMost, |f| &mut f.local),
    ("generic", Bound::AtMost, |f| &mut f.generic),
    ("loads", Bound::AtLeast, |f| &mut f.loads),
    ("wide", Bound::AtLeast, |f| &mut f.wide_loads),
    ("ldsm", Bound::AtLeast, |f| &mut f.matrix_loads),
    ("ldgsts", Bound::AtLeast, |f| &mut f.copies),
    ("hmma", Bound::AtLeast, |f| &mut f.tensor),
];

/// A table as stored in its file.
#[derive(Debug)]
pub(crate) struct Table {
    /// Compiler whose code the figures describe.
    pub(crate) compiler: String,
    pub(crate) rows: Rows,
}

/// Table row with a kernel's current figures as limits.
pub(crate) fn row(kernel: &str, mut figures: Figures) -> String {
    let mut row = kernel.to_owned();
    for (.., get) in COLUMNS {
        let _ = write!(row, "\t{}", get(&mut figures));
    }
    row
}

/// Reads the table. The first line names the compiler behind `CUDA`, the first line that is no comment names the columns.
pub(crate) fn read(text: &str) -> Result<Table, String> {
    let compiler = text.lines().next().and_then(|line| line.split_once("CUDA "));
    let compiler = compiler
        .ok_or("the first line names no compiler")?
        .1
        .trim()
        .to_owned();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap_or("").split('\t').collect();
    let names: Vec<&str> = std::iter::once("kernel")
        .chain(COLUMNS.map(|(name, ..)| name))
        .collect();
    if head != names {
        return Err(format!("columns {head:?}, expected {names:?}"));
    }
    let mut rows = Rows::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let cells: Vec<&str> = line.split('\t').collect();
        let wrong = || format!("{line:?} is no row of {} cells", names.len());
        if cells.len() != names.len() {
            return Err(wrong());
        }
        let mut figures = Figures::default();
        for ((.., get), cell) in COLUMNS.into_iter().zip(&cells[1..]) {
            *get(&mut figures) = cell.parse().map_err(|_| wrong())?;
        }
        if rows.insert(cells[0].to_owned(), figures).is_some() {
            return Err(format!("{} has two rows", cells[0]));
        }
    }
    Ok(Table { compiler, rows })
}

/// Figures worse than the table's, and notes on those that are better or only in one of the two.
pub(crate) fn compare(asked: &Rows, found: &Rows) -> (Vec<String>, Vec<String>) {
    let mut failures = Vec::new();
    let mut notes = Vec::new();
    for (kernel, wanted) in asked {
        let Some(has) = found.get(kernel) else {
            failures.push(format!("{kernel}: it is in the table and not in the build"));
            continue;
        };
        let mut wanted = *wanted;
        let mut has = *has;
        for (name, bound, get) in COLUMNS {
            let wanted = *get(&mut wanted);
            let has = *get(&mut has);
            let (worse, word) = match bound {
                Bound::AtMost => (has > wanted, "most"),
                Bound::AtLeast => (has < wanted, "least"),
            };
            if worse {
                failures.push(format!("{kernel}: {name} {has}, at {word} {wanted}"));
            } else if step(name, has) != step(name, wanted) {
                notes.push(format!(
                    "{kernel}: {name} {has} is better than the table's {wanted}"
                ));
            }
        }
    }
    let new = found.iter().filter(|(kernel, _)| !asked.contains_key(*kernel));
    failures.extend(new.map(|(kernel, has)| {
        format!(
            "{kernel}: it is not in the table; as it is: {}",
            row(kernel, *has)
        )
    }));
    (failures, notes)
}

/// A figure as far as a difference counts: a device gives registers in steps of eight.
fn step(name: &str, figure: u32) -> u32 {
    match name {
        "registers" => figure.next_multiple_of(8),
        _ => figure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        let figures = Figures {
            registers: 40,
            loads: 8,
            tensor: 16,
            ..Figures::default()
        };
        Rows::from([("dot".to_owned(), figures)])
    }

    fn changed(change: impl FnOnce(&mut Figures)) -> (Vec<String>, Vec<String>) {
        let mut found = rows();
        change(found.get_mut("dot").expect("a row"));
        compare(&rows(), &found)
    }

    const HEAD: &str =
        "# By CUDA 13.0\nkernel\tregisters\tstack\tlocal\tgeneric\tloads\twide\tldsm\tldgsts\thmma\n";

    #[test]
    fn a_row_reads_as_the_figures_it_shows() {
        let text = format!("{HEAD}# of one kind\n\n{}\n", row("dot", rows()["dot"]));
        let table = read(&text).expect("a table");
        assert_eq!((table.compiler.as_str(), table.rows), ("13.0", rows()));
    }

    #[test]
    fn equal_kernels_pass() {
        assert_eq!(changed(|_| {}), (vec![], vec![]));
    }

    #[test]
    fn more_registers_or_fewer_loads_fail() {
        assert_eq!(changed(|f| f.registers = 41).0, ["dot: registers 41, at most 40"]);
        assert_eq!(changed(|f| f.loads = 5).0, ["dot: loads 5, at least 8"]);
        assert_eq!(changed(|f| f.tensor = 0).0, ["dot: hmma 0, at least 16"]);
        assert_eq!(changed(|f| f.stack = 8).0, ["dot: stack 8, at most 0"]);
    }

    #[test]
    fn better_code_passes_and_is_told() {
        let (failures, notes) = changed(|f| f.loads = 12);
        assert!(failures.is_empty());
        assert_eq!(notes, ["dot: loads 12 is better than the table's 8"]);
    }

    #[test]
    fn registers_that_a_device_gives_anyway_are_no_difference() {
        assert_eq!(changed(|f| f.registers = 33), (vec![], vec![]));
        assert_eq!(
            changed(|f| f.registers = 32).1,
            ["dot: registers 32 is better than the table's 40"]
        );
    }

    #[test]
    fn kernels_on_one_side_only_fail() {
        assert_eq!(compare(&rows(), &Rows::new()).0.len(), 1);
        assert_eq!(
            compare(&Rows::new(), &rows()).0,
            ["dot: it is not in the table; as it is: dot\t40\t0\t0\t0\t8\t0\t0\t0\t16"]
        );
    }

    #[test]
    fn a_table_that_cannot_be_meant_is_refused() {
        assert!(read("# CUDA 13.0\nkernel\tregisters\n").is_err());
        let line = row("dot", rows()["dot"]);
        assert!(read(&format!("{HEAD}{}\n", line.replace("\t16", ""))).is_err());
        let twice = read(&format!("{HEAD}{line}\n{line}\n"));
        assert_eq!(twice.expect_err("two rows"), "dot has two rows");
    }
}
