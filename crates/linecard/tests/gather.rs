//! Headers and a list of payload slices are the same packet as both in one buffer.

use linecard::offload::segment::segment;
use linecard::packet::{Form, Gso, Layout, LinkType, Meta, Packet, Piece};
use linecard::rng::Rng;
use linecard::time::Instant;
use linecard_testkit::packets::frame::Frame;
use linecard_testkit::packets::traffic::scenario;
use linecard_testkit::packets::{between, for_seeds, is_whole, vxlan};

/// `frame` with all behind `head_len` bytes in pieces of at most `piece_len`.
fn gather(
    frame: &[u8],
    (head_len, piece_len): (usize, usize),
    link: LinkType,
) -> Result<Packet<&[u8]>, Form> {
    let (head, rest) = frame.split_at(head_len);
    let pieces = rest.chunks(piece_len).map(whole_piece).collect();
    Packet::gather(head, pieces, link, Meta::default())
}

fn whole_piece(bytes: &[u8]) -> Piece<&[u8]> {
    Piece::new(bytes, 0..bytes.len(), Instant::ZERO).expect("inside")
}

fn segments<B: AsRef<[u8]>>(packet: &Packet<B>, size: u16) -> Vec<Vec<u8>> {
    let mut segments = segment(packet, Gso { size, ..Gso::default() }).expect("a datagram");
    let (mut room, mut frames) = (vec![0; segments.max_len()], Vec::new());
    while let Some(written) = segments.write_next(&mut room).expect("there is room") {
        frames.push(room[..written.len].to_vec());
    }
    frames
}

/// Promise (Offloads): Payload in pieces is segmented like one buffer, for any split, in tunnels
/// too: 5,285 packets.
#[test]
fn pieces_are_cut_as_one_buffer_is() {
    let mut cut = 0;
    for_seeds(&[], 0, 300, |seed| {
        let mut rng = Rng::new(seed);
        for arrival in scenario(&mut rng, 40).arrivals {
            let mut frame = arrival.bytes;
            let wrapped = arrival.link == LinkType::Ethernet && rng.chance(0.3);
            if wrapped && Layout::parse(arrival.link, &frame).end() == frame.len() {
                frame = vxlan::vxlan(&frame, rng.chance(0.5), rng.chance(0.5), 1);
            }
            let whole = Packet::new(&frame[..], arrival.link, Meta::default());
            let layout = *whole.layout();
            let split = between(&mut rng, 0, frame.len() as u64) as usize;
            let pieces = (split, between(&mut rng, 1, 1500) as usize);
            let gathered = gather(&frame, pieces, arrival.link);
            // Never more is seen than with all bytes in one place.
            let seen = Layout::parse_head(arrival.link, &frame[..split], frame.len());
            assert!(seen.header_len() <= split && seen.header_len() <= layout.header_len());
            let datagram = layout.form() == Form::Datagram;
            if datagram && layout.end() == frame.len() && split >= layout.header_len() {
                let gathered = gathered.expect("all headers are there");
                let size = between(&mut rng, 1, 2000) as u16;
                assert_eq!(segments(&gathered, size), segments(&whole, size));
                cut += 1;
            } else {
                assert!(gathered.is_err() || split >= layout.header_len(), "{layout:?} {split}");
            }
        }
    });
    println!("{cut} packets cut");
    assert!(cut > 500 || !is_whole());
}

#[test]
fn what_is_not_one_datagram_is_refused() {
    let frame = Frame::default().bytes();
    let layout = Layout::parse(LinkType::Ethernet, &frame);
    let of = |frame: &[u8], head| gather(frame, (head, 7), LinkType::Ethernet).map(|_| ());
    assert_eq!(of(&frame, layout.header_len()), Ok(()));
    assert_eq!(of(&frame, layout.header_len() - 1), Err(Form::Malformed));
    assert_eq!(of(&frame, 20), Err(Form::CutShort));
    assert_eq!(of(&frame[..frame.len() - 1], layout.header_len()), Err(Form::CutShort));
    let longer = [&frame[..], &[0]].concat();
    assert_eq!(of(&longer, layout.header_len()), Err(Form::Padded));
    assert!(Piece::new(&frame[..], 0..frame.len() + 1, Instant::ZERO).is_none());
}

/// Whether a datagram to a tunnel's port is one is seen in the 8 bytes behind its header.
#[test]
fn the_port_of_a_tunnel_alone_makes_none() {
    let mut frame = Frame::udp(0, 40).bytes();
    let layout = Layout::parse(LinkType::Ethernet, &frame);
    let destination = layout.transport().expect("UDP").at() + 2;
    frame[layout.header_len()..].fill(0x6E);
    for port in [4789_u16, 8472, 6081, 53] {
        frame[destination..destination + 2].copy_from_slice(&port.to_be_bytes());
        let whole = Layout::parse(LinkType::Ethernet, &frame);
        assert_eq!(whole.form(), Form::Datagram, "{port}");
        for head in whole.header_len()..frame.len() {
            let seen = Layout::parse_head(LinkType::Ethernet, &frame[..head], frame.len());
            let enough = port == 53 || head >= whole.header_len() + 8;
            assert_eq!(seen == whole, enough, "{port}, {head} bytes");
            assert!(seen == whole || seen.form() == Form::OtherTransport);
        }
    }
}

/// A packet beyond 65,535 bytes, whose length field is 0, in pieces.
#[test]
fn big_tcp_is_gathered() {
    let payload = vec![7; 200_000];
    let mut frame = Frame { payload, ..Frame::default() }.bytes();
    frame[16..18].fill(0);
    let whole = Packet::new(&frame[..], LinkType::Ethernet, Meta::default());
    let gathered = gather(&frame, (54, 4096), LinkType::Ethernet).expect("a datagram");
    assert_eq!(segments(&gathered, 1448), segments(&whole, 1448));
}
