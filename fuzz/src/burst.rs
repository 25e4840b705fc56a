//! Traffic in bursts: the merger on borrowed memory merges and describes what the coalescer does, and
//! cutting restores it.

use crate::draw::Draw;
use crate::traffic::arrivals;
use linecard::offload::burst::Merger;
use linecard::offload::coalesce::{ChecksumPolicy, Config};
use linecard::offload::virtio::{Device, Format, Identifications};
use linecard::packet::{BATCH, ChecksumState, LinkType, Meta};
use linecard::rng::Rng;
use linecard_testkit::packets::burst::compare;
use linecard_testkit::packets::traffic::Arrival;

/// Input: limits and policies, size of bursts, then traffic.
pub fn burst(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let (mode, choice) = (draw.byte(), draw.byte());
    let format = if mode & 1 == 0 { Format::V1 } else { Format::Tunnel };
    let exact = mode & 2 != 0;
    let identifications = if exact { Identifications::Exact } else { Identifications::Rfc6864 };
    let trusted = mode & 0x80 != 0;
    let checksum = if trusted { ChecksumState::Valid } else { ChecksumState::Unknown };
    let meta = Meta { checksum, ..Meta::default() };
    let config = Config {
        checksum: if trusted { ChecksumPolicy::Trust } else { ChecksumPolicy::Verify },
        device: Some(Device { format, identifications }),
        max_segments: [1_024, 1, 2, 17][usize::from(choice >> 5 & 3)],
        max_datagrams: [64, 2][usize::from(choice >> 7)],
        max_bytes: [65_535, 100, 700, usize::MAX][usize::from(mode >> 3 & 3)],
        max_tunnels: usize::from(choice & 3),
        restore_order: mode & 4 != 0,
        ..Config::burst()
    };
    let (size, rng) = (1 + draw.below(BATCH), &mut Rng::new(u64::from(mode)));
    let all = arrivals(draw);
    let mut links: Vec<LinkType> = Vec::new();
    for arrival in &all {
        if !links.contains(&arrival.link) {
            links.push(arrival.link);
        }
    }
    for link in links {
        let own = all.iter().filter(|arrival| arrival.link == link);
        let own = own.map(|arrival| Arrival { meta, ..arrival.clone() });
        let mut merger = Merger::new(link, config.clone());
        for burst in own.collect::<Vec<_>>().chunks(size) {
            compare(rng, (&mut merger, &config), burst);
        }
    }
}
