//! Devices and sockets that tokio awaits (feature `tokio`). A tunnel's two directions are two tasks, or one:
//!
//! ```no_run
//! use linecard::offload::burst::Room;
//! use linecard_tun::tokio::{AsyncDevice, AsyncSocket};
//! use linecard_tun::udp::{BatchSocket, Batcher, Receiver};
//! use linecard_tun::{BUFFER_LEN, Device, DeviceConfig};
//! use std::io;
//! use std::net::UdpSocket;
//!
//! /// From the device to the peer.
//! async fn upload(device: &AsyncDevice, socket: &AsyncSocket) -> io::Result<()> {
//!     let (mut batcher, mut frame) = (Batcher::new(), vec![0; BUFFER_LEN]);
//!     loop {
//!         device.readable().await?;
//!         // At most 64 reads before other tasks have their turn.
//!         for _ in 0..64 {
//!             let frame = match device.try_read(&mut frame) {
//!                 Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
//!                 read => read?,
//!             };
//!             // A packet that cannot be segmented, or that a full socket does not take, is lost, as in a full queue.
//!             let Ok(mut segments) = frame.cut() else { continue };
//!             let _lost = batcher.push(socket.get_ref(), &mut segments, Room::default(), |_datagram| {});
//!         }
//!         let _lost = batcher.flush(socket.get_ref());
//!     }
//! }
//!
//! /// From the peer to the device.
//! async fn download(device: &AsyncDevice, socket: &AsyncSocket) -> io::Result<()> {
//!     let (mut receiver, mut merger) = (Receiver::new(4), device.get_ref().merger());
//!     loop {
//!         let burst = match socket.receive(&mut receiver).await {
//!             // Nobody listened yet at the peer.
//!             Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
//!             received => received?,
//!         };
//!         let merged = merger.merge_burst(burst.bytes, burst.ranges(), &mut |packet| {
//!             let _full = device.get_ref().write(&packet);
//!         });
//!         merged.map_err(io::Error::other)?;
//!     }
//! }
//!
//! # async fn tunnel() -> Result<(), Box<dyn std::error::Error>> {
//! let device = AsyncDevice::new(Device::open(&DeviceConfig::tun("tun0"))?)?;
//! let socket = UdpSocket::bind("192.0.2.1:5000")?;
//! socket.connect("192.0.2.2:5000")?;
//! let socket = AsyncSocket::new(BatchSocket::new(socket)?)?;
//! tokio::try_join!(upload(&device, &socket), download(&device, &socket))?;
//! # Ok(())
//! # }
//! ```
//!
//! Only reading is awaited. Writing never blocks: what the kernel does not take is an error at once, as in a full
//! queue, and [`Batcher::dropped`](crate::udp::Batcher::dropped) counts it.
//!
//! Every function that waits lets other tasks run first, so that a flood at one end leaves the other its turn. Each is
//! safe to cancel: it reads when there is something, and then returns in the same step.
//!
//! Not supported: waiting until a device or a socket can be written.

use crate::sys::ready::Ready;
use crate::udp::{BatchSocket, Burst, Receiver};
use crate::{Device, Frame};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A [`Device`] that tokio awaits. Several tasks may use it, by `&` or in an `Arc`.
#[derive(Debug)]
pub struct AsyncDevice(Ready<Device>);

impl AsyncDevice {
    /// Registers a device with the runtime in which this is called.
    ///
    /// # Errors
    ///
    /// As the system says: too many descriptors.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio, or in one without I/O (`enable_io`).
    pub fn new(device: Device) -> io::Result<Self> {
        Ready::new(device).map(Self)
    }

    /// The device, to write to it, and for its [`merger`](Device::merger).
    #[must_use]
    pub fn get_ref(&self) -> &Device {
        self.0.get_ref()
    }

    /// The device, no longer registered.
    #[must_use]
    pub fn into_inner(self) -> Device {
        self.0.into_inner()
    }

    /// Waits until a frame can be read, or the device was removed. It may return without either:
    /// [`try_read`](Self::try_read) says.
    ///
    /// # Errors
    ///
    /// The runtime ends.
    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// [`Device::read`], after [`readable`](Self::readable): use it to read what waits as one burst.
    ///
    /// # Errors
    ///
    /// As [`Device::read`]. `WouldBlock` means that [`readable`](Self::readable) will wait.
    pub fn try_read<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Frame<'b>> {
        let (header, len) = self.0.try_read(|device| device.read_into(buffer))?;
        Ok(Frame::of(self.get_ref().link(), header, &mut buffer[..len]))
    }

    /// Waits for a frame and reads it, as [`Device::read`] does.
    ///
    /// # Errors
    ///
    /// As [`Device::read`], except that it waits instead of returning `WouldBlock`.
    pub async fn read<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Frame<'b>> {
        let (header, len) = self.0.read(|device| device.read_into(buffer)).await?;
        Ok(Frame::of(self.get_ref().link(), header, &mut buffer[..len]))
    }
}

impl AsFd for AsyncDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A [`BatchSocket`] that tokio awaits. Several tasks may use it, by `&` or in an `Arc`.
#[derive(Debug)]
pub struct AsyncSocket(Ready<BatchSocket>);

impl AsyncSocket {
    /// Registers a socket with the runtime in which this is called.
    ///
    /// # Errors
    ///
    /// As the system says: too many descriptors.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio, or in one without I/O (`enable_io`).
    pub fn new(socket: BatchSocket) -> io::Result<Self> {
        Ready::new(socket).map(Self)
    }

    /// The socket, to send by it: a [`Batcher`](crate::udp::Batcher) takes it.
    #[must_use]
    pub fn get_ref(&self) -> &BatchSocket {
        self.0.get_ref()
    }

    /// The socket, no longer registered.
    #[must_use]
    pub fn into_inner(self) -> BatchSocket {
        self.0.into_inner()
    }

    /// Waits until a datagram or an error can be received. It may return without either:
    /// [`try_receive`](Self::try_receive) says.
    ///
    /// # Errors
    ///
    /// The runtime ends.
    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// [`Receiver::receive`], after [`readable`](Self::readable).
    ///
    /// # Errors
    ///
    /// As [`Receiver::receive`]. `WouldBlock` means that [`readable`](Self::readable) will wait.
    pub fn try_receive<'r>(&self, receiver: &'r mut Receiver) -> io::Result<Burst<'r>> {
        let is_last = self.0.try_read(|socket| receiver.fill(socket))?;
        Ok(receiver.burst(is_last))
    }

    /// Waits for datagrams and receives all that wait, as [`Receiver::receive`] does.
    ///
    /// # Errors
    ///
    /// As [`Receiver::receive`], except that it waits instead of returning `WouldBlock`.
    pub async fn receive<'r>(&self, receiver: &'r mut Receiver) -> io::Result<Burst<'r>> {
        let is_last = self.0.read(|socket| receiver.fill(socket)).await?;
        Ok(receiver.burst(is_last))
    }
}

impl AsFd for AsyncSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
