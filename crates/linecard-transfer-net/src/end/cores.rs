//! On which cores an end works: the mapping of a plan.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::io;
use std::str::FromStr;

/// The cores of an end's threads; where none is given, the system chooses, and their number follows from that of lanes and
/// of cores.
///
/// ```
/// use linecard_transfer_net::end::Cores;
/// assert_eq!("2,3".parse(), Ok(Cores { lanes: Some(2), files: Some(3), more: vec![] }));
/// assert_eq!("2".parse(), Ok(Cores { lanes: Some(2), files: None, more: vec![] }));
/// assert_eq!("2,3,4,5".parse(), Ok(Cores { lanes: Some(2), files: Some(3), more: vec![4, 5] }));
/// assert!("2,x".parse::<Cores>().is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cores {
    /// Of the thread that decides, seals and sends, or receives, opens and places.
    pub lanes: Option<usize>,
    /// Of the thread that reads or writes files, and hashes.
    pub files: Option<usize>,
    /// Of threads that seal and send, or receive and open, packets of other lanes beside the first.
    pub more: Vec<usize>,
}

/// As it is read.
impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores: Vec<String> = self.all().map(|core| core.to_string()).collect();
        f.write_str(&cores.join(","))
    }
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let core = |part: &str| {
            let number = part.trim().parse::<usize>().ok().filter(|core| *core < CpuSet::MAX_CPU);
            number.ok_or_else(|| {
                format!("\"{part}\" is not a core: write the number of one, or of several, as 2,3")
            })
        };
        let mut cores = text.split(',').map(core);
        let lanes = cores.next().transpose()?;
        let files = cores.next().transpose()?;
        Ok(Self { lanes, files, more: cores.collect::<Result<_, _>>()? })
    }
}

/// The thread stays on a core until this is dropped; threads that it spawns meanwhile stay pinned.
#[derive(Debug)]
pub(crate) struct Pinned(Option<CpuSet>);

impl Pinned {
    /// Pins this thread, if a core is given.
    pub(crate) fn to(core: Option<usize>) -> io::Result<Self> {
        let Some(core) = core else { return Ok(Self(None)) };
        let before = sched_getaffinity(None)?;
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores).map_err(|error| {
            let why = format!(
                "core {core} cannot be used here: {error}; `nproc --all` says how many there are"
            );
            io::Error::new(io::Error::from(error).kind(), why)
        })?;
        Ok(Self(Some(before)))
    }
}

impl Cores {
    /// Whether all of them can be used.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.all().try_for_each(|core| Pinned::to(Some(core)).map(drop))
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        [self.lanes, self.files].into_iter().flatten().chain(self.more.iter().copied())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It was allowed before.
            let _restored = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_and_released() -> io::Result<()> {
        let before = sched_getaffinity(None)?;
        let core = (0..CpuSet::MAX_CPU).find(|core| before.is_set(*core)).unwrap_or(0);
        let pinned = Pinned::to(Some(core))?;
        let inherited = std::thread::spawn(|| sched_getaffinity(None)).join();
        assert_eq!(inherited.ok().map(|cores| cores.map(|cores| cores.count())), Some(Ok(1)));
        drop(pinned);
        assert_eq!(sched_getaffinity(None)?.count(), before.count());
        let error = Pinned::to(Some(CpuSet::MAX_CPU - 1)).map(|_| ()).map_err(|e| e.to_string());
        assert!(error.is_err_and(|error| error.contains("core 1023 cannot be used")));
        Ok(())
    }
}
