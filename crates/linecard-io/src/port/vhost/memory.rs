//! The memory of a guest: regions of files, which its front end shares and this process maps.
//!
//! Regions are found once: a [`Cursor`] keeps the one it used last, so that an access costs one
//! comparison with its bounds. Nothing outside of the regions can be reached.

use super::ring::Broken;
use linecard::packet::{prefetch_line, prefetch_to_write};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use vm_memory::mmap::MmapRegion;
use vm_memory::{
    GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionCollectionError,
    GuestRegionMmap, VolatileMemory, VolatileSlice,
};

/// Bytes of a cache line on the CPUs that matter here.
const LINE: usize = 64;

/// The regions of a guest, at least one, by address.
#[derive(Debug)]
pub(super) struct Memory(Box<[Region]>);

#[derive(Debug)]
struct Region {
    start: u64,
    mapping: Arc<MmapRegion>,
}

impl Region {
    /// The offset of an address that lies in this region.
    #[inline]
    fn offset(&self, at: u64) -> Option<usize> {
        let offset = usize::try_from(at.checked_sub(self.start)?).ok()?;
        (offset < self.mapping.size()).then_some(offset)
    }
}

/// An area in one region of a [`Memory`], of which others than that know nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    region: usize,
    offset: usize,
    len: usize,
}

impl Memory {
    /// These regions, which must not overlap.
    pub(super) fn new(
        mut regions: Vec<GuestRegionMmap>,
    ) -> Result<Self, GuestRegionCollectionError> {
        regions.sort_by_key(GuestMemoryRegion::start_addr);
        let regions = GuestMemoryMmap::from_regions(regions)?;
        let region = |region: &GuestRegionMmap| Region {
            start: region.start_addr().0,
            mapping: region.get_mmap(),
        };
        Ok(Self(regions.iter().map(region).collect()))
    }

    /// The area of `len` bytes from `at` on, if one region has all of it.
    pub(super) fn find(&self, at: u64, len: usize) -> Result<Area, Broken> {
        let found = |(region, here): (usize, &Region)| Some((region, here.offset(at)?));
        let (region, offset) = self.0.iter().enumerate().find_map(found).ok_or(Broken)?;
        let area = Area { region, offset, len };
        self.area(area).map(|_| area)
    }

    /// The bytes of an area that was found here.
    #[inline]
    pub(super) fn area(&self, area: Area) -> Result<VolatileSlice<'_>, Broken> {
        let region = self.0.get(area.region).ok_or(Broken)?;
        Ok(region.mapping.get_slice(area.offset, area.len)?)
    }

    /// Reads and writes anywhere.
    pub(super) fn cursor(&self) -> Result<Cursor<'_>, Broken> {
        let first = self.0.first().ok_or(Broken)?;
        Ok(Cursor {
            regions: &self.0,
            start: first.start,
            bytes: first.mapping.as_volatile_slice(),
        })
    }
}

/// Reads and writes a [`Memory`].
pub(super) struct Cursor<'m> {
    regions: &'m [Region],
    /// The region that was used last.
    start: u64,
    bytes: VolatileSlice<'m>,
}

impl<'m> Cursor<'m> {
    /// The bytes from `at` on, up to `len` of them: as many as their region has, at least one.
    #[inline]
    fn slice(&mut self, at: u64, len: usize) -> Result<VolatileSlice<'m>, Broken> {
        if at.wrapping_sub(self.start) >= self.bytes.len() as u64 {
            self.seek(at)?;
        }
        // Below the length of the region.
        let offset = at.wrapping_sub(self.start) as usize;
        Ok(self.bytes.subslice(offset, len.min(self.bytes.len() - offset))?)
    }

    #[cold]
    fn seek(&mut self, at: u64) -> Result<(), Broken> {
        let found = self.regions.iter().find(|region| region.offset(at).is_some());
        let region = found.ok_or(Broken)?;
        (self.start, self.bytes) = (region.start, region.mapping.as_volatile_slice());
        Ok(())
    }

    /// Reads as many bytes as `to` has, across regions that follow each other.
    #[inline]
    pub(super) fn read(&mut self, mut at: u64, mut to: &mut [u8]) -> Result<(), Broken> {
        while !to.is_empty() {
            let slice = self.slice(at, to.len())?;
            let (now, later) = to.split_at_mut(slice.len());
            slice.copy_to(now);
            // The end of a region is an address.
            at += now.len() as u64;
            to = later;
        }
        Ok(())
    }

    /// Writes these bytes, across regions that follow each other.
    #[inline]
    pub(super) fn write(&mut self, mut at: u64, mut from: &[u8]) -> Result<(), Broken> {
        while !from.is_empty() {
            let slice = self.slice(at, from.len())?;
            let (now, later) = from.split_at(slice.len());
            slice.copy_from(now);
            // The end of a region is an address.
            at += now.len() as u64;
            from = later;
        }
        Ok(())
    }

    /// Prefetches the two lines in which a buffer begins, if there is one, to be read or written.
    #[inline]
    pub(super) fn prefetch(&mut self, at: u64, is_writable: bool) {
        let Ok(slice) = self.slice(at, 2 * LINE) else { return };
        for offset in [0, LINE] {
            if let Ok(byte) = slice.get_atomic_ref::<AtomicU8>(offset) {
                if is_writable { prefetch_to_write(byte) } else { prefetch_line(byte) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;
    use vm_memory::{Bytes, GuestAddress};

    const LEN: u64 = 4_096;
    /// Two that follow each other, one behind a gap, and one that ends where addresses do.
    const STARTS: [u64; 4] = [LEN, 2 * LEN, 4 * LEN, u64::MAX - LEN];

    fn regions(mappings: &[Arc<MmapRegion>]) -> Vec<GuestRegionMmap> {
        let pairs = STARTS.iter().zip(mappings);
        let region = |(start, mapping): (&u64, &Arc<MmapRegion>)| {
            GuestRegionMmap::with_arc(Arc::clone(mapping), GuestAddress(*start)).expect("an end")
        };
        pairs.map(region).collect()
    }

    /// An address near an end of a region, and a length.
    fn access(rng: &mut Rng) -> (u64, usize) {
        let start = STARTS[rng.below(STARTS.len() as u64) as usize];
        let at =
            start.wrapping_add(LEN * rng.below(2)).wrapping_add(rng.below(64)).wrapping_sub(32);
        let most = [8, 64, 3 * LEN][rng.below(3) as usize];
        (at, rng.below(most) as usize)
    }

    /// Promise (Live interfaces): A virtual machine's memory is read and written as by vm-memory's own access: 20,000
    /// accesses around the ends of regions have the same result.
    #[test]
    fn memory_is_that_of_the_slow_twin() {
        let map = || Arc::new(MmapRegion::new(LEN as usize).expect("memory"));
        let mappings: Vec<_> = STARTS.iter().map(|_| map()).collect();
        let twin = GuestMemoryMmap::from_regions(regions(&mappings)).expect("apart");
        let mut shuffled = regions(&mappings);
        shuffled.rotate_left(2);
        let memory = Memory::new(shuffled).expect("apart");
        let mut cursor = memory.cursor().expect("regions");
        let mut rng = Rng::new(1);
        let mut inside = 0;
        for turn in 0..20_000 {
            let (at, len) = access(&mut rng);
            let mut bytes = vec![0; len];
            rng.fill(&mut bytes);
            let is_inside =
                twin.read_slice(&mut bytes.clone(), GuestAddress(at)).is_ok() || len == 0;
            if rng.below(2) == 0 {
                assert_eq!(cursor.write(at, &bytes).is_ok(), is_inside, "{turn}: {at:#x} {len}");
            } else if is_inside {
                twin.write_slice(&bytes, GuestAddress(at)).unwrap_or_default();
            }
            cursor.prefetch(at, turn % 2 == 0);
            let mut read = [vec![0; len], vec![0; len]];
            let results = [
                cursor.read(at, &mut read[0]).is_ok(),
                twin.read_slice(&mut read[1], GuestAddress(at)).is_ok() || len == 0,
            ];
            assert_eq!(results, [is_inside; 2], "{turn}: {at:#x} {len}");
            if is_inside {
                assert!(read[0] == bytes && read[1] == bytes, "{turn}: {at:#x} {len}");
                inside += 1;
            }
        }
        assert!((4_000..16_000).contains(&inside), "{inside}");
    }

    #[test]
    fn an_area_lies_in_one_region() {
        let map = |_: &u64| Arc::new(MmapRegion::new(LEN as usize).expect("memory"));
        let mappings: Vec<_> = STARTS.iter().map(map).collect();
        let memory = Memory::new(regions(&mappings)).expect("apart");
        let mut rng = Rng::new(2);
        for _ in 0..10_000 {
            let (at, len) = access(&mut rng);
            let has_all = |start: &u64| {
                at.checked_sub(*start)
                    .is_some_and(|offset| offset < LEN && len as u64 <= LEN - offset)
            };
            assert_eq!(memory.find(at, len).is_ok(), STARTS.iter().any(has_all), "{at:#x} {len}");
        }
    }
}
