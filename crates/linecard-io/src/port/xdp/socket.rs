//! An AF_XDP socket with its four rings, bound to a queue in the best mode that the kernel
//! supports.

use super::config::Config;
use super::error::XdpError;
use super::ring::{Consumer, Descriptor, Entry, Offsets, Producer};
use super::sys::{self, Mapping};
use super::umem::Umem;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The modes of a socket with its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Zero-copy: the driver receives into the frames and sends from them; otherwise the kernel
    /// copies each packet once.
    pub zero_copy: bool,
    /// The kernel signals when it has to be woken; otherwise it is woken each time.
    pub need_wakeup: bool,
    /// Packets may be longer than a frame.
    pub multi_buffer: bool,
}

/// A bound socket. The rings also keep the socket open: everything is closed together.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) rx: Consumer<Descriptor>,
    pub(super) tx: Producer<Descriptor>,
    pub(super) binding: Binding,
    fd: OwnedFd,
}

/// Binding modes, best first.
const BINDINGS: [Binding; 6] = [
    Binding { zero_copy: true, need_wakeup: true, multi_buffer: true },
    Binding { zero_copy: true, need_wakeup: true, multi_buffer: false },
    Binding { zero_copy: true, need_wakeup: false, multi_buffer: false },
    Binding { zero_copy: false, need_wakeup: true, multi_buffer: true },
    Binding { zero_copy: false, need_wakeup: true, multi_buffer: false },
    Binding { zero_copy: false, need_wakeup: false, multi_buffer: false },
];

/// Why no binding mode was accepted: the error of the last one tried.
pub(super) struct Unbound(pub(super) io::Error);

impl Socket {
    /// A socket over `umem` with its rings, not bound yet.
    pub(super) fn new(umem: &Umem, config: &Config) -> Result<Self, XdpError> {
        let fd = sys::socket().map_err(XdpError::of_socket)?;
        sys::register(fd.as_fd(), umem.memory(), umem.frame_len()).map_err(
            |source| match source.raw_os_error() {
                Some(libc::ENOBUFS) => {
                    XdpError::PinnedMemory { bytes: config.bytes(), limit: sys::memlock_limit() }
                }
                _ => XdpError::System { what: "register the memory of the port", source },
            },
        )?;
        Self::with_rings(fd, config)
            .map_err(|source| XdpError::System { what: "set up the rings of the socket", source })
    }

    fn with_rings(fd: OwnedFd, config: &Config) -> io::Result<Self> {
        let (rx_slots, tx_slots) = (config.rx_slots, config.tx_slots);
        for (ring, slots) in [
            (libc::XDP_UMEM_FILL_RING, rx_slots),
            (libc::XDP_UMEM_COMPLETION_RING, tx_slots),
            (libc::XDP_RX_RING, rx_slots),
            (libc::XDP_TX_RING, tx_slots),
        ] {
            sys::set_slots(fd.as_fd(), ring, slots)?;
        }
        // Older kernels do not have the option: then a call sends 32 frames, and more calls are
        // made.
        let _known = sys::set_budget(fd.as_fd(), tx_slots);
        let at = sys::offsets(fd.as_fd())?;
        let (fill_at, rx_at) = (libc::XDP_UMEM_PGOFF_FILL_RING, libc::XDP_PGOFF_RX_RING as u32);
        let completion_at = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let fill = map::<u64>(fd.as_fd(), fill_at, &at.fr, rx_slots)?;
        let completion = map::<u64>(fd.as_fd(), completion_at, &at.cr, tx_slots)?;
        let rx = map::<Descriptor>(fd.as_fd(), rx_at.into(), &at.rx, rx_slots)?;
        let tx = map::<Descriptor>(
            fd.as_fd(),
            u64::from(libc::XDP_PGOFF_TX_RING as u32),
            &at.tx,
            tx_slots,
        )?;
        let wrong = || io::Error::other("the kernel describes a ring that does not fit");
        Ok(Self {
            fill: Producer::new(&fill, &at.fr, rx_slots).ok_or_else(wrong)?,
            completion: Consumer::new(&completion, &at.cr, tx_slots).ok_or_else(wrong)?,
            rx: Consumer::new(&rx, &at.rx, rx_slots).ok_or_else(wrong)?,
            tx: Producer::new(&tx, &at.tx, tx_slots).ok_or_else(wrong)?,
            binding: BINDINGS[BINDINGS.len() - 1],
            fd,
        })
    }

    /// Binds to a queue, in the best mode that `allowed` and the kernel accept.
    pub(super) fn bind(
        &mut self,
        interface: u32,
        queue: u32,
        allowed: impl Fn(&Binding) -> bool,
    ) -> Result<(), Unbound> {
        let mut last = io::Error::from(io::ErrorKind::Unsupported);
        for binding in BINDINGS.into_iter().filter(allowed) {
            let error = match sys::bind(self.fd.as_fd(), interface, queue, binding.flags()) {
                Ok(()) => {
                    self.binding = binding;
                    return Ok(());
                }
                Err(error) => error,
            };
            // No other mode helps if another socket has the queue, or the interface is gone.
            let is_final = matches!(error.raw_os_error(), Some(libc::EBUSY | libc::ENODEV));
            last = error;
            if is_final {
                break;
            }
        }
        Err(Unbound(last))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Binding {
    fn flags(self) -> u16 {
        let copy = if self.zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
        let wakeup = if self.need_wakeup { libc::XDP_USE_NEED_WAKEUP } else { 0 };
        copy | wakeup | if self.multi_buffer { libc::XDP_USE_SG } else { 0 }
    }
}

/// Maps the ring at `offset`; its entries follow its other parts.
fn map<T: Entry>(
    socket: BorrowedFd<'_>,
    offset: u64,
    parts: &Offsets,
    slots: u32,
) -> io::Result<Rc<Mapping>> {
    let entries_len = u64::from(slots) * size_of::<T>() as u64;
    let len = usize::try_from(parts.desc.saturating_add(entries_len)).map_err(io::Error::other)?;
    Mapping::of_socket(socket, offset, len).map(Rc::new)
}
