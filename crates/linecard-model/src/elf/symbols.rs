//! Names of addresses.

use super::{LITTLE, text_at};
use crate::rv32::DATA_AT;
use object::read::elf::{ElfFile32, Sym as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use std::collections::BTreeMap;

/// The longest name: names share their bytes in a file, here each has its own.
const MAX_NAME: usize = 4 << 10;
/// Bytes of all names that are kept; the symbols behind them have none.
const MAX_NAMES: usize = 4 << 20;
/// Most symbols kept: four for each instruction that fits the memory.
pub(super) const MAX_SYMBOLS: usize = DATA_AT as usize;

/// The symbol table: functions and labels by address, all symbols by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Symbols {
    functions: Vec<Function>,
    addresses: BTreeMap<String, u32>,
}

#[derive(Debug, Clone)]
struct Function {
    address: u32,
    /// 0 if unknown: up to the next symbol.
    size: u32,
    name: String,
}

impl Symbols {
    pub(super) fn read(elf: &ElfFile32<'_>) -> Self {
        let mut symbols = Self::default();
        let (mut labels, mut kept, mut bytes) = (Vec::new(), 0, 0);
        let strings = elf.section_by_index(elf.elf_symbol_table().string_section());
        let strings = strings.and_then(|section| section.data()).unwrap_or_default();
        for symbol in elf.symbols().filter(|symbol| !symbol.is_undefined()) {
            let name = text_at(strings, symbol.elf_symbol().st_name(LITTLE) as usize, MAX_NAME);
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let (Some(name), Ok(address)) = (name, u32::try_from(symbol.address())) else {
                continue;
            };
            // Marks of the assembler.
            if name.is_empty() || name.starts_with(['$', '.']) {
                continue;
            }
            (kept, bytes) = (kept + 1, bytes + name.len());
            if kept > MAX_SYMBOLS || bytes > MAX_NAMES {
                break;
            }
            let placed = symbol.section_index().is_some();
            let named = Function { address, size: symbol.size() as u32, name: name.to_owned() };
            match symbol.kind() {
                SymbolKind::File | SymbolKind::Section => continue,
                SymbolKind::Text => symbols.functions.push(named),
                SymbolKind::Unknown | SymbolKind::Label if placed && address < DATA_AT => {
                    labels.push(named);
                }
                _ => {}
            }
            symbols.addresses.entry(name.to_owned()).or_insert(address);
        }
        symbols.add_labels(labels);
        symbols
    }

    /// Labels count where no function is: in assembly they are what stands for functions.
    fn add_labels(&mut self, labels: Vec<Function>) {
        self.functions.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        let free: Vec<Function> =
            labels.into_iter().filter(|label| self.function_at(label.address).is_none()).collect();
        self.functions.extend(free);
        self.functions.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    }

    fn function_at(&self, pc: u32) -> Option<&Function> {
        let next = self.functions.partition_point(|function| function.address <= pc);
        let last = self.functions.get(next.checked_sub(1)?)?;
        // Of several names for one address, the first.
        let first = self.functions.partition_point(|function| function.address < last.address);
        let found = self.functions.get(first)?;
        (found.size == 0 || pc - found.address < found.size).then_some(found)
    }

    pub(super) fn place(&self, pc: u32) -> Option<(&str, u32)> {
        let found = self.function_at(pc)?;
        Some((&found.name, pc - found.address))
    }

    /// Symbols and bytes of names that are held.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        let functions = self.functions.iter().map(|function| function.name.len());
        let names = self.addresses.keys().map(String::len);
        (self.functions.len().max(self.addresses.len()), functions.chain(names).sum())
    }

    pub(super) fn address(&self, name: &str) -> Option<u32> {
        self.addresses.get(name).copied()
    }
}
