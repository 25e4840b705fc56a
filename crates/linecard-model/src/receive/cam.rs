//! The content-addressed memory: keys of connections and datagrams, found in a few cycles.

use alloc::collections::BTreeMap;

/// The key of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Addresses and ports.
    Connection([u32; 3]),
    /// Addresses, protocol and identification.
    Datagram([u32; 4]),
}

/// A CAM of `size` entries behind its registers.
#[derive(Debug)]
pub(super) struct Cam {
    entries: BTreeMap<Key, u32>,
    size: usize,
    /// Core cycles of a lookup or an insertion.
    latency: u64,
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) protocol: u32,
    key: Key,
    result: u32,
    /// The first cycle in which it can be read.
    ready: u64,
    /// Keys looked up, found, and not inserted for want of an entry.
    pub(super) lookups: u64,
    pub(super) hits: u64,
    pub(super) overflows: u64,
}

impl Cam {
    pub(super) fn new(size: usize, latency: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            size,
            latency,
            source: 0,
            destination: 0,
            protocol: 0,
            key: Key::Connection([0; 3]),
            result: 0,
            ready: 0,
            lookups: 0,
            hits: 0,
            overflows: 0,
        }
    }

    pub(super) fn size(&self) -> u32 {
        u32::try_from(self.size).unwrap_or(u32::MAX)
    }

    pub(super) fn find_connection(&mut self, cycle: u64, ports: u32) {
        self.find(cycle, Key::Connection([self.source, self.destination, ports]));
    }

    pub(super) fn find_datagram(&mut self, cycle: u64, id: u32) {
        let key = [self.source, self.destination, self.protocol, id];
        self.find(cycle, Key::Datagram(key));
    }

    fn find(&mut self, cycle: u64, key: Key) {
        self.key = key;
        let found = self.entries.get(&key).copied();
        self.lookups += 1;
        self.hits += u64::from(found.is_some());
        self.answer(cycle, found.unwrap_or(0));
    }

    /// The result, and the cycles for which a read in `cycle` waits for it.
    pub(super) fn result(&self, cycle: u64) -> (u32, u64) {
        (self.result, self.ready.saturating_sub(cycle))
    }

    pub(super) fn insert(&mut self, cycle: u64, value: u32) {
        let full = self.entries.len() >= self.size && !self.entries.contains_key(&self.key);
        if full || value == 0 {
            self.overflows += 1;
            self.answer(cycle, 0);
        } else {
            self.entries.insert(self.key, value);
            self.answer(cycle, value);
        }
    }

    pub(super) fn remove(&mut self) {
        self.entries.remove(&self.key);
    }

    fn answer(&mut self, cycle: u64, result: u32) {
        self.result = result;
        self.ready = cycle + self.latency;
    }
}
