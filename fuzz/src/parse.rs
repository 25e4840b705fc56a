//! Any bytes as a frame: the layout is that of a plain parser, and lies inside.

use crate::draw::{Draw, LINKS};
use linecard::packet::{Form, LayerKind, Layout, LinkType, MAX_LAYERS, MAX_TUNNELS};
use linecard_testkit::packets::plain;

/// Input: link type, where the head ends (2 bytes), the frame.
pub fn parse(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let (link, head) = (draw.pick(&LINKS), usize::from(draw.word()));
    let frame = draw.rest();
    plain::same_layout(link, frame);
    let layout = Layout::parse(link, frame);
    check(&layout, frame);
    same_head(link, frame, head, &layout);
}

fn check(layout: &Layout, frame: &[u8]) {
    let (form, end) = (layout.form(), layout.end());
    assert!(layout.layer_count() <= MAX_LAYERS && layout.tunnels() <= MAX_TUNNELS);
    assert!(layout.header_len() <= end && end <= frame.len());
    let offsets: Vec<usize> = layout.layers().map(|layer| usize::from(layer.offset)).collect();
    assert!(offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
    assert!(offsets.iter().all(|offset| *offset < frame.len()));
    assert_eq!(layout.network().is_some(), layout.outer_network().is_some());
    assert!(form != Form::NotIp || layout.network().is_none());
    if matches!(form, Form::Datagram | Form::Padded) {
        assert!(layout.transport().is_some());
        for field in layout.checksum_fields() {
            assert!(field + 2 <= layout.header_len(), "a checksum outside of the headers");
        }
    }
    // Bytes behind the end do not count, unless a tunnel gives their length.
    if form == Form::Datagram {
        let other = Layout::parse_head(LinkType::Other, frame, frame.len());
        assert_eq!(other.form(), Form::NotIp);
    }
}

/// A head with all headers, and what may be one, gives the layout of the whole; a shorter one never gives
/// another datagram.
fn same_head(link: LinkType, frame: &[u8], head: usize, layout: &Layout) {
    let head = head.min(frame.len());
    let front = Layout::parse_head(link, &frame[..head], frame.len());
    assert!(front.layer_count() <= layout.layer_count() || front.form() != Form::Datagram);
    let may_be_tunnel = layout.transport().is_some_and(|transport| {
        let port = &frame[transport.at() + 2..][..2];
        transport.kind == LayerKind::Udp
            && [4789, 8472, 6081].contains(&u16::from_be_bytes([port[0], port[1]]))
    });
    let needed = layout.header_len() + if may_be_tunnel { 8 } else { 0 };
    if layout.form() == Form::Datagram && head >= needed {
        assert_eq!(front, *layout, "the head of {head} bytes");
    }
    if front.form() == Form::Datagram {
        assert_eq!(front, *layout, "the head of {head} bytes");
    }
    assert_eq!(Layout::parse_head(link, frame, frame.len()), *layout);
}
