//! GSO in UDP tunnels: one large packet, segmented by the kernel and by us.
//!
//! Only a TAP device takes a virtio header that describes a tunnel (since Linux 6.17), and only of
//! UDP tunnels. What it receives goes over a bridge to the veth device that can neither segment nor
//! compute checksums.

use crate::around::skipped;
use crate::cases;
use crate::frame::{Frame, Ip, TCP, Tunnel, UDP, content, sum16};
use crate::gso::{cut_by_us, receive};
use crate::lab::{self, Lab, Receiver};
use crate::session::{by_us, origins};
use crate::sys::Tap;
use linecard_testkit::say;

/// Bytes of the virtio header with tunnel fields, behind those of the hash.
const HEADER: usize = 24;
/// `TUN_F_CSUM`, `_TSO4`, `_TSO6`, `_USO4`, `_USO6`, `_UDP_TUNNEL_GSO`, `_UDP_TUNNEL_GSO_CSUM`.
const OFFLOADS: u32 = 1 | 2 | 4 | 0x20 | 0x40 | 0x80 | 0x100;

/// A packet in one UDP tunnel, to be cut.
#[derive(Debug)]
struct Large {
    name: String,
    frame: Vec<u8>,
    template: Frame,
    size: u16,
}

/// Where headers start: outer UDP, inner IP, inner transport, payload.
#[derive(Debug, Clone, Copy)]
struct Offsets {
    outer: usize,
    network: usize,
    transport: usize,
    payload: usize,
}

impl Large {
    fn tunnel(&self) -> &(Ip, Tunnel) {
        &self.template.outer[0]
    }

    fn offsets(&self) -> Offsets {
        let ip_len = |v6| if v6 { 40 } else { 20 };
        let (ip, tunnel) = self.tunnel();
        let outer = 14 + ip_len(ip.v6);
        let ethernet = if matches!(tunnel, Tunnel::Vxlan { .. }) { 14 } else { 0 };
        let network = outer + 16 + ethernet;
        let transport = network + ip_len(self.template.ip.v6);
        let payload = transport + self.template.transport_header_len();
        Offsets { outer, network, transport, payload }
    }

    /// The frame behind its virtio header (`struct virtio_net_hdr_v1_hash_tunnel`), all checksums
    /// over payload left to hardware.
    fn with_virtio_header(&self) -> Vec<u8> {
        const NEEDS_CHECKSUM: u8 = 1;
        const OUTER_CHECKSUM: u8 = 8;
        let at = self.offsets();
        let (tcp, v6) = (self.template.protocol == TCP, self.template.ip.v6);
        let kind = match (tcp, v6) {
            (true, false) => 1,
            (true, true) => 4,
            (false, _) => 5,
        };
        let outer_v6 = self.tunnel().0.v6;
        let in_tunnel = if outer_v6 { 0x40 } else { 0x20 };
        let field = if tcp { 16 } else { 6 };
        let summed = self.frame[at.outer + 6..at.outer + 8] != [0, 0];
        let flags = NEEDS_CHECKSUM | if summed { OUTER_CHECKSUM } else { 0 };
        let mut bytes = vec![flags, kind | in_tunnel];
        for value in [at.payload, self.size.into(), at.transport, field] {
            bytes.extend((value as u16).to_ne_bytes());
        }
        bytes.resize(20, 0);
        // These two are little-endian on every machine.
        bytes.extend((at.outer as u16).to_le_bytes());
        bytes.extend((at.network as u16).to_le_bytes());
        let mut frame = self.frame.clone();
        let inner = self.template.pseudo_sum(frame.len() - at.transport);
        frame[at.transport + field..][..2].copy_from_slice(&inner.to_be_bytes());
        if summed {
            let addresses = if outer_v6 { 22..54 } else { 26..34 };
            let len = (frame.len() - at.outer) as u16;
            let pseudo = [&frame[addresses], &len.to_be_bytes(), &[0, UDP]].concat();
            frame[at.outer + 6..][..2].copy_from_slice(&sum16(&pseudo).to_be_bytes());
        }
        [bytes, frame].concat()
    }

    fn by_kernel(&self, lab: &mut Lab, tap: &Tap) -> Vec<Vec<u8>> {
        let sent = tap.write(&self.with_virtio_header());
        sent.unwrap_or_else(|error| panic!("{}: the kernel refuses it: {error}", self.name));
        let payload = self.frame.len() - self.offsets().payload;
        receive(lab, payload.div_ceil(self.size.into()), &self.name)
    }
}

/// Tunnels around TCP and UDP, with and without an outer checksum.
fn large() -> Vec<Large> {
    let mut large = Vec::new();
    for checksum in [false, true] {
        for tunnel in [Tunnel::Vxlan { checksum }, Tunnel::Geneve { checksum }] {
            for bits in 0..8 {
                let (outside, inside, tcp) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
                let outer = Ip { v6: outside, ends: (21, 22), id: 65_530, ..Ip::default() };
                let protocol = if tcp { TCP } else { UDP };
                for (len, size) in [(300, 100), (301, 100), (64, 1), (9000, 1448), (60_001, 8800)] {
                    let ip = Ip { v6: inside, id: 65_533, ..Ip::default() };
                    let outer = vec![(outer.clone(), tunnel)];
                    let payload = content(len, len);
                    let template = Frame { outer, ip, protocol, payload, ..Frame::default() };
                    let name =
                        format!("{protocol} in {tunnel:?}, {outside} {inside}, {len} by {size}");
                    large.push(Large { name, frame: template.bytes(), template, size });
                }
            }
        }
    }
    large
}

/// Our merged packets of all cases in UDP tunnels, unless an identification stands still, which the
/// header cannot say.
fn merged() -> Vec<Large> {
    let mut large = Vec::new();
    for case in cases::tunnels(|_, _| true) {
        let merged = by_us(&case.frames);
        let origins = origins(&case.frames, &merged).expect("all can be told");
        for (one, origins) in merged.iter().zip(&origins).filter(|(_, origins)| origins.len() > 1) {
            let [first, second] = [&case.frames[origins[0]], &case.frames[origins[1]]];
            let fixed = |one: &Ip, next: &Ip| !one.v6 && one.id == next.id;
            let [(outer, Tunnel::Vxlan { .. } | Tunnel::Geneve { .. })] = &first.outer[..] else {
                continue;
            };
            if fixed(outer, &second.outer[0].0) || fixed(&first.ip, &second.ip) {
                continue;
            }
            let name = format!("merged of {}", case.name);
            let (frame, template) = (one.frame.clone(), first.clone());
            large.push(Large { name, frame, template, size: one.gso_size });
        }
    }
    large
}

#[test]
fn the_kernel_cuts_tunnels_as_we_do() {
    let mut large = large();
    large.extend(merged());
    let cut = lab::inside(Receiver::Plain, 0, |lab| {
        let tap = lab.add_tap(HEADER, OFFLOADS)?;
        for one in &large {
            let (kernel, ours) = (one.by_kernel(lab, &tap), cut_by_us(&one.frame, one.size));
            assert_eq!(kernel.len(), ours.len(), "{}", one.name);
            for (number, (kernel, ours)) in kernel.iter().zip(&ours).enumerate() {
                assert_eq!(kernel, ours, "{}: segment {}", one.name, number + 1);
            }
        }
        Ok(())
    });
    match cut.and_then(|cut| cut) {
        Ok(()) => say(&format!("GSO: {} packets in tunnels cut alike", large.len())),
        Err(why) => skipped("the kernel's GSO of tunnels as witness", &why),
    }
}
