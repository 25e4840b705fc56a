//! Common code of the programs with smoltcp: TCP on a TAP device, to or from the kernel.
//!
//! A program is started as `PROGRAM DEVICE LOCAL up|down`: it listens on LOCAL, and sends to the kernel ("up"),
//! or receives until the kernel has sent all ("down").

use crate::ready;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Device, wait};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use std::error::Error;
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;

/// Bytes of each of the socket's two buffers.
const BUFFER: usize = 512 << 10;

/// Runs the program on the device that `open` opens.
pub fn run<D: Device + AsRawFd>(
    open: impl FnOnce(&str) -> Result<D, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, local, direction] = &words[..] else { return Err("wrong arguments".into()) };
    let local: SocketAddrV4 = local.parse()?;
    let mut device = open(name)?;
    let address = HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, 1]));
    let mut interface = Interface::new(Config::new(address), &mut device, Instant::now());
    interface.update_ip_addrs(|addresses| {
        let pushed = addresses.push(IpCidr::new(IpAddress::Ipv4(*local.ip()), 24));
        pushed.expect("an interface has room for one address");
    });
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
    let mut sockets = SocketSet::new(Vec::new());
    let handle = sockets.add(tcp::Socket::new(buffer(), buffer()));
    sockets.get_mut::<tcp::Socket>(handle).listen(local.port())?;
    ready();
    loop {
        interface.poll(Instant::now(), &mut device, &mut sockets);
        let socket = sockets.get_mut::<tcp::Socket>(handle);
        if direction == "up" {
            // The bytes that are in the buffer: what they are does not matter.
            while socket.can_send() {
                socket.send(|room| (room.len(), ()))?;
            }
        } else {
            while socket.can_recv() {
                socket.recv(|data| (data.len(), ()))?;
            }
            if !socket.may_recv() && socket.may_send() {
                socket.close();
            }
        }
        let delay = interface.poll_delay(Instant::now(), &sockets);
        wait(device.as_raw_fd(), delay)?;
    }
}
