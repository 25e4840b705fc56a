//! The device that a front end configures by messages: its rings, and the memory of its guest.

use super::features::Features;
use super::memory::Memory;
use super::ring::{Addresses, Kick, Ring};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vhost::vhost_user::message as wire;
use vhost::vhost_user::{Error, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures};
use vm_memory::mmap::MmapRegion;
use vm_memory::{FileOffset, GuestAddress, GuestRegionMmap};

/// Queue pairs of a device, and the threads that serve them: pair `p` belongs to worker
/// `p % workers`. The receive queue of the guest is ring `2 p`, its transmit queue the next.
#[derive(Debug)]
pub(super) struct Device {
    rings: Box<[Mutex<Ring>]>,
    /// By which each worker waits.
    pollers: Box<[Arc<OwnedFd>]>,
    offered: Features,
    /// Bits that the front end has accepted.
    accepted: AtomicU64,
    /// Pairs whose receive queues run and are enabled: the first ones, as drivers have it.
    active: AtomicUsize,
}

impl Device {
    pub(super) fn new(pairs: usize, offloads: bool, pollers: Box<[Arc<OwnedFd>]>) -> Self {
        Self {
            rings: (0..2 * pairs).map(|_| Mutex::new(Ring::new())).collect(),
            pollers,
            offered: Features::offered(offloads, pairs),
            accepted: AtomicU64::new(0),
            active: AtomicUsize::new(0),
        }
    }

    pub(super) fn pairs(&self) -> usize {
        self.rings.len() / 2
    }

    pub(super) fn workers(&self) -> usize {
        self.pollers.len()
    }

    pub(super) fn poller(&self, worker: usize) -> &Arc<OwnedFd> {
        &self.pollers[worker]
    }

    /// Features that the front end has accepted.
    pub(super) fn accepted(&self) -> Features {
        Features::of(self.accepted.load(Ordering::Relaxed))
    }

    /// Pairs that take packets, from the first on.
    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// The ring from which the guest receives.
    pub(super) fn receive_queue(&self, pair: usize) -> MutexGuard<'_, Ring> {
        lock(&self.rings[2 * pair])
    }

    /// The ring by which the guest sends.
    pub(super) fn transmit_queue(&self, pair: usize) -> MutexGuard<'_, Ring> {
        lock(&self.rings[2 * pair + 1])
    }

    /// Forgets a front end that is gone; its memory is unmapped once no ring is in use.
    pub(super) fn reset(&self) {
        self.active.store(0, Ordering::Relaxed);
        self.accepted.store(0, Ordering::Relaxed);
        self.rings.iter().for_each(|ring| lock(ring).reset());
    }

    fn ring(&self, index: u32) -> Result<MutexGuard<'_, Ring>> {
        let ring = usize::try_from(index).ok().and_then(|index| self.rings.get(index));
        ring.map(lock).ok_or(Error::InvalidParam)
    }

    /// Counts the pairs that take packets, after something has changed; no ring may be locked.
    pub(super) fn count_active(&self) {
        let runs = |pair: &usize| {
            let ring = self.receive_queue(*pair);
            ring.is_enabled() && ring.running().is_some()
        };
        let active = (0..self.pairs()).take_while(runs).count();
        self.active.store(active, Ordering::Relaxed);
    }
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    // A ring that a thread left while it panicked is checked as any other.
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A region of the guest's memory at the addresses that its front end has for it.
#[derive(Debug, Clone, Copy)]
struct Region {
    user: u64,
    guest: u64,
    len: u64,
}

/// A connection of a front end, as its messages configure it.
#[derive(Debug)]
pub(super) struct Session {
    device: Arc<Device>,
    regions: Vec<Region>,
    accepted: Features,
}

impl Session {
    pub(super) fn new(device: Arc<Device>) -> Self {
        Self { device, regions: Vec::new(), accepted: Features::default() }
    }

    /// Whether the front end has accepted features.
    pub(super) fn has_features(&self) -> bool {
        self.accepted != Features::default()
    }

    /// The guest's address of one of the front end.
    fn guest(&self, user: u64) -> Result<u64> {
        let within =
            |region: &Region| user.checked_sub(region.user).filter(|offset| *offset < region.len);
        let mut found = self
            .regions
            .iter()
            .filter_map(|region| within(region).map(|offset| region.guest + offset));
        found.next().ok_or(Error::InvalidOperation("a ring outside of the shared memory"))
    }

    fn stop_all(&self) {
        self.device.active.store(0, Ordering::Relaxed);
        for ring in &self.device.rings {
            let mut ring = lock(ring);
            ring.stop();
            ring.set_enabled(false);
        }
    }
}

/// Sets a descriptor of the front end to not block, whatever it is: events are dropped rather.
fn nonblocking(file: Option<File>) -> Result<Option<File>> {
    if let Some(file) = &file {
        rustix::io::ioctl_fionbio(file, true)
            .map_err(|error| Error::ReqHandlerError(error.into()))?;
    }
    Ok(file)
}

fn map(region: &wire::VhostUserMemoryRegion, file: File) -> Result<GuestRegionMmap<()>> {
    let len = usize::try_from(region.memory_size).map_err(|_| Error::InvalidParam)?;
    let failed = |error| Error::ReqHandlerError(std::io::Error::other(error));
    let data = file.metadata().map_err(Error::ReqHandlerError)?;
    // Access beyond the end of a file would end this process.
    let is_inside =
        region.mmap_offset.checked_add(region.memory_size).is_some_and(|end| end <= data.len());
    if !data.is_file() || !is_inside {
        return Err(Error::InvalidOperation("memory beyond the end of its file"));
    }
    let mapping = MmapRegion::from_file(FileOffset::new(file, region.mmap_offset), len);
    let mapping = mapping.map_err(failed)?;
    GuestRegionMmap::new(mapping, GuestAddress(region.guest_phys_addr)).ok_or(Error::InvalidParam)
}

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.stop_all();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop_all();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.device.offered.bits())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let accepted = self.device.offered.accepted(features).ok_or(Error::FeatureMismatch)?;
        self.accepted = accepted;
        self.device.accepted.store(features, Ordering::Relaxed);
        self.device.rings.iter().for_each(|ring| lock(ring).set_features(accepted));
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[wire::VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        let mut mapped = Vec::with_capacity(regions.len());
        for (region, file) in regions.iter().zip(files) {
            mapped.push(map(region, file)?);
        }
        let memory = Memory::new(mapped)
            .map_err(|error| Error::ReqHandlerError(std::io::Error::other(error)))?;
        let memory = Arc::new(memory);
        self.regions = regions
            .iter()
            .map(|region| Region {
                user: region.user_addr,
                guest: region.guest_phys_addr,
                len: region.memory_size,
            })
            .collect();
        for ring in &self.device.rings {
            lock(ring).set_memory(Some(Arc::clone(&memory)));
        }
        self.device.count_active();
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, entries: u32) -> Result<()> {
        let is_set = self.device.ring(index)?.set_size(entries);
        is_set
            .then_some(())
            .ok_or(Error::InvalidOperation("a ring whose size is not a power of two"))
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: wire::VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let addresses = Addresses {
            descriptors: self.guest(descriptor)?,
            available: self.guest(available)?,
            used: self.guest(used)?,
        };
        let set = self.device.ring(index)?.set_addresses(&addresses);
        set.map_err(|_| Error::InvalidOperation("a ring that is not aligned"))
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.device.ring(index)?.set_next(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<wire::VhostUserVringState> {
        let mut ring = self.device.ring(index)?;
        ring.stop();
        let next = ring.next();
        drop(ring);
        self.device.count_active();
        Ok(wire::VhostUserVringState::new(index, next.into()))
    }

    /// Starts a ring. Of those from which the guest receives nothing is awaited: a thread with
    /// packets for a full ring looks at it again soon.
    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let ring = usize::from(index);
        let file = nonblocking(file)?.filter(|_| ring % 2 == 1);
        let poller = self.device.poller(ring / 2 % self.device.workers());
        let kick = file.map(|file| Kick::new(file, Arc::clone(poller))).transpose();
        let kick = kick.map_err(|error| Error::ReqHandlerError(error.into()))?;
        let mut ring = self.device.ring(index.into())?;
        if !self.accepted.enables_rings() {
            ring.set_enabled(true);
        }
        let started = ring.start(kick);
        drop(ring);
        self.device.count_active();
        started.map_err(|_| Error::InvalidOperation("a ring that is not in the shared memory"))
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let file = nonblocking(file)?;
        self.device.ring(index.into())?.set_call(file);
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let file = nonblocking(file)?;
        self.device.ring(index.into())?.set_error(file);
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        let offered = self.get_protocol_features()?.bits();
        (features & !offered == 0).then_some(()).ok_or(Error::FeatureMismatch)
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.device.pairs() as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.device.ring(index)?.set_enabled(enable);
        self.device.count_active();
        Ok(())
    }

    fn get_config(
        &mut self,
        _offset: u32,
        _size: u32,
        _flags: wire::VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        Err(NOT_OFFERED)
    }

    fn set_config(
        &mut self,
        _offset: u32,
        _bytes: &[u8],
        _flags: wire::VhostUserConfigFlags,
    ) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_gpu_socket(&mut self, _backend: vhost::vhost_user::GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _object: wire::VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(
        &mut self,
        _inflight: &wire::VhostUserInflight,
    ) -> Result<(wire::VhostUserInflight, File)> {
        Err(NOT_OFFERED)
    }

    fn set_inflight_fd(&mut self, _inflight: &wire::VhostUserInflight, _file: File) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(NOT_OFFERED)
    }

    fn add_mem_region(
        &mut self,
        _region: &wire::VhostUserSingleMemoryRegion,
        _file: File,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<u64>> {
        Err(NOT_OFFERED)
    }

    fn remove_mem_region(&mut self, _region: &wire::VhostUserSingleMemoryRegion) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &mut self,
        _direction: wire::VhostTransferStateDirection,
        _phase: wire::VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<wire::VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _log: &wire::VhostUserLog, _file: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}

/// A request of a protocol feature that was not offered.
const NOT_OFFERED: Error = Error::InvalidOperation("it was not offered");
