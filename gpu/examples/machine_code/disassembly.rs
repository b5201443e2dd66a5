//! Instruction counts of a disassembly, per kernel.

use std::collections::BTreeSet;

use crate::table::{Figures, Rows};

/// Adds the kernels of one binary: `usage` is what `cuobjdump -res-usage` says of it, `code` what `-sass` says.
pub(crate) fn read(usage: &str, code: &str, into: &mut Rows) -> Result<(), String> {
    let mut name = "";
    for line in usage.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("Function ") {
            name = rest.trim_end_matches(':');
        } else if line.starts_with("REG:") && !name.is_empty() {
            let figures = into.entry(name.to_owned()).or_default();
            figures.registers = resource(line, "REG:")?;
            figures.stack = resource(line, "STACK:")?;
            name = "";
        }
    }
    let mut kernel: Option<(&str, Counter)> = None;
    for line in code.lines().map(str::trim) {
        if let Some((_, name)) = line.split_once("Function : ") {
            finish(kernel.take(), into)?;
            kernel = Some((name.trim(), Counter::default()));
        } else if let (Some((_, counter)), Some(instruction)) = (&mut kernel, instruction(line)) {
            counter.count(instruction);
        }
    }
    finish(kernel, into)
}

fn resource(line: &str, name: &str) -> Result<u32, String> {
    let value = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix(name))
        .and_then(|value| value.parse().ok());
    value.ok_or_else(|| format!("no {name} in {line:?}"))
}

fn finish(kernel: Option<(&str, Counter)>, into: &mut Rows) -> Result<(), String> {
    let Some((name, counter)) = kernel else {
        return Ok(());
    };
    let figures = into
        .get_mut(name)
        .ok_or_else(|| format!("kernel {name} has code and no resources"))?;
    let Figures { registers, stack, .. } = *figures;
    *figures = Figures {
        registers,
        stack,
        ..counter.figures
    };
    Ok(())
}

/// The instruction of a line `/*0000*/ LDG.E R2, [R4.64] ; /* code */`, without its address and its guard.
fn instruction(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("/*")?;
    let (address, rest) = rest.split_once("*/")?;
    u32::from_str_radix(address, 16).ok()?;
    let text = rest.split_once(';')?.0.trim();
    Some(match text.strip_prefix('@') {
        Some(guarded) => guarded.split_once(' ')?.1.trim(),
        None => text,
    })
}

#[derive(Default)]
struct Counter {
    figures: Figures,
    /// Registers that loads under way will write, and how many loads those are.
    pending: BTreeSet<u32>,
    under_way: u32,
    /// Those of 16 bytes.
    wide_under_way: u32,
}

impl Counter {
    fn count(&mut self, instruction: &str) {
        let (operation, operands) = instruction.split_once(' ').unwrap_or((instruction, ""));
        let word = operation.split('.').next().unwrap_or(operation);
        match word {
            "LDL" | "STL" => self.figures.local += 1,
            "LDSM" => self.figures.matrix_loads += 1,
            "LDGSTS" => self.figures.copies += 1,
            "HMMA" | "HGMMA" => self.figures.tensor += 1,
            // A load without an address space: the compiler did not know that it reads shared or global memory.
            "LD" | "ST" => self.figures.generic += 1,
            _ => {}
        }
        let mut parts = operands.splitn(2, ',');
        let first = parts.next().unwrap_or("");
        let is_load = matches!(word, "LDG" | "LD");
        // A load writes its first operand; every other instruction may wait for each register that it names.
        let used = if is_load {
            parts.next().unwrap_or("")
        } else {
            operands
        };
        if registers(used).any(|r| self.pending.contains(&r)) {
            self.arrived();
        }
        if matches!(word, "EXIT" | "RET" | "BRA") && !instruction_is_guarded(operands) {
            self.arrived();
        }
        if is_load && let Some(to) = registers(first).next() {
            self.pending.extend(to..to + width(operation));
            self.under_way += 1;
            self.wide_under_way += u32::from(width(operation) == 4);
            self.figures.loads = self.figures.loads.max(self.under_way);
            self.figures.wide_loads = self.figures.wide_loads.max(self.wide_under_way);
        }
    }

    fn arrived(&mut self) {
        self.pending.clear();
        self.under_way = 0;
        self.wide_under_way = 0;
    }
}

/// Returns true if a branch has a condition of its own (`BRA P0, ...`); that of `@P0 BRA` is gone with the guard and
/// counts as none.
fn instruction_is_guarded(operands: &str) -> bool {
    operands.trim_start().starts_with(['P', '!', 'U'])
}

/// Registers that a load of this operation writes.
fn width(operation: &str) -> u32 {
    if operation.contains(".128") {
        4
    } else if operation.contains(".64") {
        2
    } else {
        1
    }
}

/// The numbers of the registers R0, R1 ... that operands name.
fn registers(operands: &str) -> impl Iterator<Item = u32> + '_ {
    let words = operands.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(|word| word.strip_prefix('R')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: &str = "Fatbin elf code:\nResource usage:\n Common:\n  GLOBAL:0\n Function dot:\n  REG:38 STACK:8 SHARED:64 LOCAL:0 CONSTANT[0]:588 TEXTURE:0\n";

    fn figures(body: &[&str]) -> Figures {
        let mut code = String::from("\tcode for sm_90\n\t\tFunction : dot\n\t.headerflags\t@\"EF\"\n");
        for (i, line) in body.iter().enumerate() {
            code += &format!(
                "        /*{:04x}*/                   {line} ;    /* 0x00000a00ff017b82 */\n",
                16 * i
            );
            code += "                                                        /* 0x000fe20000000800 */\n";
        }
        let mut rows = Rows::new();
        read(USAGE, &code, &mut rows).expect("a disassembly");
        assert_eq!(rows.len(), 1);
        rows["dot"]
    }

    #[test]
    fn resources_are_read_beside_the_code() {
        let figures = figures(&["MOV R1, c[0x0][0x28]", "EXIT"]);
        assert_eq!((figures.registers, figures.stack), (38, 8));
    }

    #[test]
    fn loads_are_under_way_until_one_is_used() {
        let apart = figures(&[
            "LDG.E.128.CONSTANT R4, desc[UR4][R2.64]",
            "LDG.E.128.CONSTANT R8, desc[UR4][R2.64+0x200]",
            "FFMA R20, R7, R12, RZ",
            "LDG.E.128.CONSTANT R12, desc[UR4][R2.64+0x400]",
            "FFMA R20, R12, R8, R20",
        ]);
        assert_eq!(apart.loads, 2);
        let together = figures(&[
            "LDG.E.128 R4, desc[UR4][R2.64]",
            "@P0 LDG.E.128 R8, desc[UR4][R2.64]",
            "LDG.E.64 R12, desc[UR4][R2.64]",
            "IADD3 R2, R2, 0x1, RZ",
            "FFMA R20, R11, R12, RZ",
        ]);
        assert_eq!((together.loads, together.wide_loads), (3, 2));
    }

    #[test]
    fn an_address_that_was_loaded_ends_what_is_under_way() {
        let figures = figures(&["LDG.E.64 R4, desc[UR4][R2.64]", "LDG.E R8, desc[UR4][R4.64]"]);
        assert_eq!(figures.loads, 1);
    }

    #[test]
    fn code_behind_an_end_is_not_under_way_with_what_stands_before() {
        let figures = figures(&["LDG.E R4, desc[UR4][R2.64]", "EXIT", "LDG.E R5, desc[UR4][R2.64]"]);
        assert_eq!(figures.loads, 1);
    }

    #[test]
    fn every_kind_of_instruction_is_counted() {
        let figures = figures(&[
            "LDSM.16.M88.4 R4, [R2]",
            "HMMA.16816.F32.BF16 R4, R8, R2, R4",
            "LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64]",
            "STL [R1], R4",
            "@!P1 LDL R4, [R1]",
            "LD.E R4, desc[UR4][R2.64]",
        ]);
        assert_eq!(
            (
                figures.matrix_loads,
                figures.tensor,
                figures.copies,
                figures.local,
                figures.generic
            ),
            (1, 1, 1, 2, 1)
        );
    }

    #[test]
    fn code_without_resources_is_an_error() {
        let mut rows = Rows::new();
        assert!(read("", "\t\tFunction : dot\n", &mut rows).is_err());
    }
}
