//! Names of addresses.

use linecard_model::rv32::DATA_AT;
use object::read::elf::ElfFile32;
use object::{Object as _, ObjectSymbol as _, SymbolKind};
use std::collections::BTreeMap;

/// The symbol table: functions and labels by address, all symbols by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Symbols {
    functions: Vec<Function>,
    addresses: BTreeMap<String, u32>,
}

#[derive(Debug, Clone)]
struct Function {
    address: u32,
    /// 0 if nobody knows: up to the next.
    size: u32,
    name: String,
}

impl Symbols {
    pub(super) fn read(elf: &ElfFile32<'_>) -> Self {
        let mut symbols = Self::default();
        let mut labels = Vec::new();
        for symbol in elf.symbols().filter(|symbol| !symbol.is_undefined()) {
            let (Ok(name), Ok(address)) = (symbol.name(), u32::try_from(symbol.address())) else {
                continue;
            };
            // Marks of the assembler.
            if name.is_empty() || name.starts_with(['$', '.']) {
                continue;
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

    pub(super) fn address(&self, name: &str) -> Option<u32> {
        self.addresses.get(name).copied()
    }
}
