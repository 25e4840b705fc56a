//! Names of threads, interrupts and functions, from /proc at the end of a trace.

use crate::trace::{EventKind, Trace};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};

/// Functions whose names are remembered; a kernel has some hundreds.
const MAX_FUNCTIONS: usize = 4_096;

/// Names of functions, of which a search takes tens of milliseconds.
#[derive(Debug, Default)]
pub(super) struct Functions {
    names: BTreeMap<u64, String>,
    /// Those without a name.
    unknown: BTreeSet<u64>,
}

impl Functions {
    fn find(&mut self, functions: &BTreeSet<u64>) -> BTreeMap<u64, String> {
        let is_new =
            |address: &&u64| !self.names.contains_key(address) && !self.unknown.contains(address);
        let new: BTreeSet<u64> = functions.iter().filter(is_new).copied().collect();
        if !new.is_empty() {
            if self.names.len() + self.unknown.len() + new.len() > MAX_FUNCTIONS {
                *self = Self::default();
            }
            self.names.extend(symbols(&new));
            self.unknown.extend(new.iter().filter(|address| !self.names.contains_key(address)));
        }
        let known = functions.iter().filter_map(|address| self.names.get_key_value(address));
        known.map(|(address, name)| (*address, name.clone())).collect()
    }
}

/// Looks up names for all numbers in the trace.
pub(super) fn collect(trace: &mut Trace, known: &mut Functions) {
    let mut functions = BTreeSet::new();
    let mut has_interrupts = false;
    for event in &trace.events {
        match event.what {
            EventKind::Switch { to, name, .. } => {
                // For a thread that has ended, only the recorded beginning of its name is known.
                trace.names.threads.entry(to).or_insert_with(|| text(&name));
            }
            EventKind::TimerEntry { function } => drop(functions.insert(function)),
            EventKind::InterruptEntry { .. } => has_interrupts = true,
            _ => {}
        }
    }
    for (thread, name) in &mut trace.names.threads {
        if let Ok(whole) = fs::read_to_string(format!("/proc/{thread}/comm")) {
            *name = printable(whole.trim_end());
        }
    }
    if has_interrupts {
        trace.names.interrupts = interrupts();
    }
    trace.names.functions = known.find(&functions);
}

fn text(name: &[u8]) -> String {
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    printable(&String::from_utf8_lossy(&name[..len]))
}

/// A thread chooses its name, which terminals and logs are to show.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}

/// `/proc/interrupts`: number, a count for each core, the chip, the line, the names.
fn interrupts() -> BTreeMap<u32, String> {
    let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let cores = text.lines().next().map_or(0, |line| line.split_whitespace().count());
    let name = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().skip(cores).collect();
        // The chip's name comes first, then the line within it.
        let name = words.get(2..).filter(|name| !name.is_empty())?.join(" ");
        Some((number.trim().parse().ok()?, name))
    };
    text.lines().skip(1).filter_map(name).collect()
}

/// The kernel functions at these addresses. Without rights, `/proc/kallsyms` contains only zeros,
/// and the result is empty.
fn symbols(addresses: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    let Ok(file) = fs::File::open("/proc/kallsyms") else { return found };
    for line in BufReader::with_capacity(1 << 16, file).lines().map_while(Result::ok) {
        if found.len() == addresses.len() {
            break;
        }
        let mut words = line.split_whitespace();
        let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        let Some(address) = address.filter(|address| addresses.contains(address)) else { continue };
        if let Some(name) = words.nth(1) {
            found.insert(address, name.to_owned());
        }
    }
    found
}
