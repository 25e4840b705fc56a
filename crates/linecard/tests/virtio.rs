//! The virtio-net header: a description is read back and gives the same segments, and what
//! a header says is never trusted.

use linecard::offload::coalesce::{ChecksumPolicy, Config};
use linecard::offload::segment::segment;
use linecard::offload::virtio::{
    Device, Endian, FieldError, Format, Header, Identifications, Offload, Undescribable, flag,
    gso_type,
};
use linecard::offload::{complete_checksum, defer_checksum};
use linecard::packet::{ChecksumState, Form, Gso, LayerKind, Layout, LinkType, Meta, Packet};
use linecard::rng::Rng;
use linecard_testkit::packets::frame::{CWR, Field, Frame, TCP, UDP};
use linecard_testkit::packets::ip::Ip;
use linecard_testkit::packets::runner::{Buffer, Real, numbers, whole};
use linecard_testkit::packets::traffic::{Arrival, scenario};
use linecard_testkit::packets::tunnel::Wrap;
use linecard_testkit::packets::{between, for_seeds, is_whole, pick, runner, vxlan};
use linecard_testkit::part;

const FORMATS: [Format; 3] = [Format::Legacy, Format::V1, Format::Tunnel];
const ENDIANS: [Endian; 2] = [Endian::Little, Endian::Big];

/// A frame and the header that describes it.
#[derive(Debug, Clone)]
struct Described {
    link: LinkType,
    header: Header,
    frame: Vec<u8>,
}

impl Described {
    fn new(packet: &mut Packet<Buffer>) -> Result<Self, Undescribable> {
        Self::with(packet, Identifications::default())
    }

    fn with(packet: &mut Packet<Buffer>, ids: Identifications) -> Result<Self, Undescribable> {
        defer_checksum(packet);
        let header = Header::of_with(packet, ids)?;
        Ok(Self { link: packet.buffer().link, header, frame: whole(packet) })
    }

    fn layout(&self) -> Layout {
        Layout::parse(self.link, &self.frame)
    }

    /// Cut as the header says, with complete checksums; one frame where it says nothing.
    fn cut(&self) -> Result<Vec<Vec<u8>>, FieldError> {
        let offload = self.header.check(&self.frame, &self.layout())?;
        let meta = Meta { checksum: ChecksumState::Unknown, ..Meta::default() };
        let mut packet = Packet::new(self.frame.clone(), self.link, meta);
        let Some(gso) = offload.gso else {
            if offload.checksum == ChecksumState::Partial {
                assert!(complete_checksum(&mut packet), "what was checked can be completed");
            }
            return Ok(vec![packet.into_parts().0]);
        };
        Ok(cut(&packet, gso))
    }
}

fn cut<B: AsRef<[u8]>>(packet: &Packet<B>, gso: Gso) -> Vec<Vec<u8>> {
    let mut segments = segment(packet, gso).expect("what was checked can be cut");
    assert_eq!(segments.count(), usize::from(gso.segments));
    let (mut room, mut frames) = (vec![0; segments.max_len()], Vec::new());
    while let Some(written) = segments.write_next(&mut room).expect("there is room") {
        frames.push(room[..written.len].to_vec());
    }
    frames
}

fn read_back(header: &Header) -> bool {
    let tunnel = header.gso_type & gso_type::TUNNELS != 0;
    FORMATS.iter().all(|format| {
        ENDIANS.iter().all(|endian| {
            let mut bytes = [0xEE; Format::MAX_LEN];
            let written = header.write(&mut bytes, *format, *endian);
            if tunnel && *format != Format::Tunnel {
                return written.is_none();
            }
            let short = &bytes[..format.header_len() - 1];
            written == Some(format.header_len())
                && bytes[format.header_len()..].iter().all(|byte| *byte == 0xEE)
                && Header::read(short, *format, *endian).is_none()
                && Header::read(&bytes, *format, *endian) == Some(*header)
        })
    })
}

/// Bulk traffic in and out of a tunnel, TCP and UDP, both versions.
fn bulk(rng: &mut Rng) -> Vec<Arrival> {
    let (v6, udp, fixed) = (rng.chance(0.5), rng.chance(0.4), rng.chance(0.1));
    let (len, count) = (between(rng, 2, 1400) as usize, between(rng, 2, 40) as usize);
    let last = between(rng, 1, len as u64) as usize;
    let field = if udp && !v6 && rng.chance(0.1) { Field::None } else { Field::Good };
    let flags = if rng.chance(0.1) { 0x10 | CWR } else { 0x10 };
    let wrap = rng.chance(0.5).then(|| (rng.chance(0.5), rng.chance(0.5)));
    let arrival = |index: usize| {
        let plain = if udp { Frame::udp(index, len) } else { Frame::bulk(index, len) };
        let mut frame = Frame { v6, field, flags, ..plain };
        if fixed {
            frame.id = 7;
        }
        if index + 1 == count {
            frame.payload.truncate(last);
        }
        let mut arrival = runner::arrival(&frame, 0);
        if let Some((v6, checksum)) = wrap {
            arrival.bytes = vxlan::vxlan(&arrival.bytes, v6, checksum, index as u16);
        }
        arrival
    };
    (0..count).map(arrival).collect()
}

fn merge(arrivals: &[Arrival], config: Config) -> Real {
    let mut real = Real::new(config);
    arrivals.iter().enumerate().for_each(|(number, arrival)| real.push(number, arrival));
    real.stop();
    real
}

/// Whether the packet has what the refusal names.
fn is_justified(why: Undescribable, packet: &Packet<Buffer>) -> bool {
    let gso = packet.meta.gso.unwrap_or_default();
    match why {
        Undescribable::FixedIds => gso.fixed_ids != 0,
        Undescribable::AccurateEcn => gso.accecn,
        Undescribable::Padded => gso.padded,
        Undescribable::Tunnels => packet.layout().tunnels() > 0,
        Undescribable::TooLarge(len) => len > 65_535,
        Undescribable::NoChecksum => {
            let field = packet.layout().checksum_offset().expect("UDP");
            packet.bytes()[field..field + 2] == [0, 0]
        }
        _ => false,
    }
}

/// Promise (Offloads): A merged packet that a virtio header describes is segmented into the
/// original packets: 4,117 random ones by our segmenter.
#[test]
fn what_is_described_is_read_back_and_cut_into_what_came() {
    let (mut described, mut refused, mut tunnels) = (0, 0, 0);
    for_seeds(&[], 0, 400, |seed| {
        let mut rng = Rng::new(seed);
        let mut drawn = scenario(&mut rng, 200);
        // Only what was verified comes back byte for byte.
        drawn.arrivals.iter_mut().for_each(|arrival| arrival.meta.checksum = Default::default());
        let verify = Config { checksum: ChecksumPolicy::Verify, ..drawn.config };
        for arrivals in [bulk(&mut rng), drawn.arrivals] {
            let mut real = merge(&arrivals, verify.clone());
            for (packet, _) in real.out.iter_mut().filter(|(packet, _)| packet.is_merged()) {
                let gso = packet.meta.gso.expect("merged");
                let one = match Described::with(packet, Identifications::Exact) {
                    Ok(one) => one,
                    Err(why) => {
                        assert!(is_justified(why, packet), "{why:?}");
                        refused += 1;
                        continue;
                    }
                };
                assert!(read_back(&one.header), "{:?}", one.header);
                let offload = one.header.check(&one.frame, &one.layout()).expect("it is true");
                assert_eq!(offload.checksum, ChecksumState::Partial);
                let back = offload.gso.expect("to be cut");
                assert_eq!((back.size, back.segments), (gso.size, gso.segments));
                let came = numbers(packet).into_iter().map(|number| &arrivals[number].bytes);
                assert!(one.cut().expect("checked").iter().eq(came), "other segments");
                described += 1;
                tunnels += u32::from(one.layout().tunnels() > 0);
            }
        }
    });
    println!("{described} merged packets described, {tunnels} in tunnels; {refused} refused");
    assert!(described > 2000 && tunnels > 50 && refused > 50 || !is_whole());
}

/// Packets that were not merged: checksum complete, verified, left to the device.
#[test]
fn plain_packets_are_described_by_their_checksum() {
    for v6 in [false, true] {
        let frame = Frame { v6, ..Frame::default() }.bytes();
        let of = |checksum| {
            let meta = Meta { checksum, ..Meta::default() };
            let packet = Packet::new(frame.clone(), LinkType::Ethernet, meta);
            let header = Header::of(&packet).expect("a plain packet");
            let offload = header.check(&frame, packet.layout()).expect("it is true");
            assert_eq!((offload.checksum, offload.gso), (checksum, None));
            (header.flags, header.csum_start, header.csum_offset)
        };
        assert_eq!(of(ChecksumState::Unknown), (0, 0, 0));
        assert_eq!(of(ChecksumState::Valid), (flag::DATA_VALID, 0, 0));
        let start = if v6 { 54 } else { 34 };
        assert_eq!(of(ChecksumState::Partial), (flag::NEEDS_CSUM, start, 16));
    }
}

/// Deferred and completed, a frame is what it was: by layers, and as a device does it.
#[test]
fn a_checksum_deferred_and_completed_is_the_same() {
    let mut rng = Rng::new(1);
    let arrivals: Vec<_> = (0..200).flat_map(|_| bulk(&mut rng)).collect();
    for arrival in arrivals {
        let mut packet = runner::packet(0, &arrival);
        // One segment is not a packet to be segmented.
        let gso = Gso { size: u16::MAX, segments: 1, ..Gso::default() };
        packet.meta.gso = rng.chance(0.5).then_some(gso);
        if !defer_checksum(&mut packet) {
            assert_eq!(packet.bytes(), arrival.bytes);
            continue;
        }
        assert_ne!(packet.bytes(), arrival.bytes);
        let header = Header::of(&packet).expect("a plain packet");
        let mut frame = packet.bytes().to_vec();
        header.complete_checksum(&mut frame).expect("inside");
        assert_eq!(frame, arrival.bytes);
        assert!(complete_checksum(&mut packet));
        assert_eq!(
            (packet.bytes(), packet.meta.checksum),
            (&arrival.bytes[..], ChecksumState::Valid)
        );
    }
}

/// Merged packets that a header describes, of every kind.
fn samples() -> Vec<Described> {
    let (mut rng, mut found) = (Rng::new(7), Vec::new());
    while found.len() < 60 {
        let mut real = merge(&bulk(&mut rng), Config::default());
        let merged = real.out.iter_mut().filter(|(packet, _)| packet.is_merged());
        found.extend(merged.filter_map(|(packet, _)| Described::new(packet).ok()));
    }
    found
}

/// Payload of all segments in order.
fn content(link: LinkType, segments: &[Vec<u8>]) -> Vec<u8> {
    segments.iter().flat_map(|frame| frame[Layout::parse(link, frame).payload()].to_vec()).collect()
}

/// Promise (Offloads): A received virtio header is true of its frame or refused: of 48,828 changed
/// headers of 60 merged packets (10, 12 and 24 bytes, VXLAN included) 33,000 are refused, and the
/// others segment into the same payload.
///
/// Every value of a byte field and many of the others: refused, naming the field or one that it
/// contradicts, or the payload is still the same, and cut by another size at most.
#[test]
fn a_field_that_is_changed_is_refused_or_does_no_harm() {
    let (mut refused, mut harmless) = (0, 0);
    for one in samples() {
        let right = one.cut().expect("it is true");
        let payload = content(one.link, &right);
        for (changed, field) in changed(&one).into_iter().step_by(part()) {
            match changed.cut() {
                Err(error) => {
                    // A sum that is left to a device has to fit the tunnel, too.
                    let named = [field, "flags"].contains(&error.field());
                    assert!(named, "{field} changed, {error} complained of");
                    refused += 1;
                }
                Ok(segments) => {
                    assert_eq!(content(one.link, &segments), payload, "{field}");
                    let same = segments == right || ["gso_size", "gso_type"].contains(&field);
                    let whole = field == "flags" && segments.len() == right.len();
                    assert!(same || whole, "{field}: {:?}", changed.header);
                    harmless += 1;
                }
            }
        }
    }
    println!("{refused} headers refused, {harmless} without harm");
}

fn changed(one: &Described) -> Vec<(Described, &'static str)> {
    let mut all = Vec::new();
    let mut add = |field, change: &dyn Fn(&mut Header)| {
        let mut header = one.header;
        change(&mut header);
        if header != one.header {
            all.push((Described { header, ..one.clone() }, field));
        }
    };
    for value in 0..=255 {
        add("flags", &|header| header.flags = value);
        add("gso_type", &|header| header.gso_type = value);
    }
    let words = (0..16).map(|bit| 1_u16 << bit);
    for value in words.chain([0, 3, 13, 35, 0xFFFF, one.frame.len() as u16]) {
        for value in [value, value.wrapping_add(one.header.csum_start)] {
            add("hdr_len", &|header| header.hdr_len = value);
            add("gso_size", &|header| header.gso_size = value);
            add("csum_start", &|header| header.csum_start = value);
            add("csum_offset", &|header| header.csum_offset = value);
            add("num_buffers", &|header| header.num_buffers = value);
            add("outer_th_offset", &|header| header.outer_th_offset = value);
            add("inner_nh_offset", &|header| header.inner_nh_offset = value);
        }
    }
    all
}

/// Anything at all before anything at all.
#[test]
fn random_headers_never_panic() {
    let samples = samples();
    for_seeds(&[], 0, 30_000, |seed| {
        let mut rng = Rng::new(seed);
        let mut one = samples[rng.below(samples.len() as u64) as usize].clone();
        let mut bytes = [0; Format::MAX_LEN];
        let (format, endian) = (pick(&mut rng, &FORMATS), pick(&mut rng, &ENDIANS));
        if rng.chance(0.5) {
            one.header.write(&mut bytes, Format::Tunnel, endian).expect("there is room");
        } else {
            rng.fill(&mut bytes);
        }
        for _ in 0..rng.below(4) {
            bytes[rng.below(24) as usize] = pick(&mut rng, &[0, 1, 2, 4, 5, 0x21, 0x44, 0xFF]);
        }
        for _ in 0..rng.below(6) {
            let at = rng.below(one.frame.len().min(120) as u64) as usize;
            one.frame[at] ^= 1 << rng.below(8);
        }
        if rng.chance(0.2) {
            one.frame.truncate(rng.below(one.frame.len() as u64) as usize);
        }
        one.header = Header::read(&bytes, format, endian).expect("enough bytes");
        let _ = one.header.complete_checksum(&mut one.frame.clone());
        let len = one.layout().payload().len();
        if let Ok(segments) = one.cut() {
            let cut: usize = segments.iter().map(|segment| segment.len()).sum();
            assert!(cut >= len, "payload is missing");
        }
    });
}

#[test]
fn what_a_device_cannot_cut_is_refused_by_name() {
    let merged = |change: &dyn Fn(usize, &mut Frame)| {
        let frames = (0..3).map(|index| {
            let mut frame = Frame::bulk(index, 100);
            change(index, &mut frame);
            frame
        });
        let frames: Vec<_> = frames.collect();
        let mut real = runner::coalesce(Config::default(), &frames);
        assert_eq!(real.out.len(), 1, "they merge");
        let (packet, _) = &mut real.out[0];
        assert_eq!(
            Header::of(packet),
            Err(match Described::new(&mut packet.clone()) {
                Ok(_) | Err(Undescribable::Checksum) => Undescribable::Checksum,
                Err(other) => other,
            })
        );
        Described::new(packet).map(|one| one.header.gso_type)
    };
    assert_eq!(merged(&|_, _| {}), Ok(gso_type::TCPV4));
    assert_eq!(merged(&|_, frame| frame.v6 = true), Ok(gso_type::TCPV6));
    // Constant identifications mean something only where fragments may be made (RFC 6864).
    assert_eq!(merged(&|_, frame| frame.id = 9), Ok(gso_type::TCPV4));
    let fragmentable = |_, frame: &mut Frame| (frame.id, frame.flags_fragment) = (9, 0);
    assert_eq!(merged(&fragmentable), Err(Undescribable::FixedIds));
    assert_eq!(merged(&|_, frame| frame.flags |= CWR), Err(Undescribable::AccurateEcn));
    let udp = |index: usize, frame: &mut Frame, field| {
        *frame = Frame { field, ..Frame::udp(index, 100) };
    };
    assert_eq!(merged(&|index, frame| udp(index, frame, Field::Good)), Ok(gso_type::UDP_L4));
    let none = merged(&|index, frame| udp(index, frame, Field::None));
    assert_eq!(none, Err(Undescribable::NoChecksum));
    let short = merged(&|index, frame| {
        *frame = Frame::bulk(index, 4);
        frame.behind = linecard_testkit::packets::frame::Behind::Padding;
    });
    assert_eq!(short, Err(Undescribable::Padded));
}

/// A device counts identifications up. Constant ones of atomic datagrams are described all the same,
/// and nothing else of their segments changes; asked to be exact, they are not described.
#[test]
fn constant_identifications_come_back_counting_where_they_mean_nothing() {
    for (v6_outside, tunnel) in [(None, false), (Some(false), true), (Some(true), true)] {
        let frames = |step: u16| {
            (0..5_u16).map(move |index| {
                let id = 40_000 + step * index;
                let frame = Frame { id, ..Frame::bulk(index.into(), 300) };
                let mut arrival = runner::arrival(&frame, 0);
                if let Some(v6) = v6_outside {
                    arrival.bytes = vxlan::vxlan(&arrival.bytes, v6, true, 7 + index);
                }
                arrival
            })
        };
        let constant: Vec<_> = frames(0).collect();
        let mut real = merge(&constant, Config::default());
        assert_eq!(real.out.len(), 1, "they merge");
        let (packet, _) = &mut real.out[0];
        assert_eq!(packet.meta.gso.expect("merged").fixed_ids, 1);
        // Our own segmenter gives back what came.
        let own = cut(packet, packet.meta.gso.expect("merged"));
        assert!(own.iter().eq(constant.iter().map(|arrival| &arrival.bytes)));

        let exact = Described::with(&mut packet.clone(), Identifications::Exact);
        assert_eq!(exact.err(), Some(Undescribable::FixedIds));
        let one = Described::new(packet).expect("atomic datagrams");
        let by_device = one.cut().expect("it is true");
        let counting: Vec<_> = frames(1).collect();
        assert!(by_device.iter().eq(counting.iter().map(|arrival| &arrival.bytes)));
        assert_eq!(one.layout().tunnels() > 0, tunnel);
    }
}

/// CWR on the first segment only is what the bit for ECN means.
#[test]
fn cwr_is_told_by_its_bit() {
    let frame = Frame { flags: 0x10 | CWR, payload: vec![1; 300], ..Frame::default() };
    let gso = Some(Gso { size: 100, segments: 3, ..Gso::default() });
    let meta = Meta { gso, checksum: ChecksumState::Partial, ..Meta::default() };
    let mut packet = Packet::new(frame.bytes(), LinkType::Ethernet, meta);
    assert!(defer_checksum(&mut packet));
    let header = Header::of(&packet).expect("it can be said");
    assert_eq!(header.gso_type, gso_type::TCPV4 | gso_type::ECN);
    assert_eq!(header.check(packet.bytes(), packet.layout()).expect("true").gso, gso);
}

#[test]
fn a_format_is_known_by_its_length() {
    for format in FORMATS {
        assert_eq!(Format::of_len(format.header_len()), Some(format));
    }
    let known = (0..=64).filter(|len| Format::of_len(*len).is_some());
    assert_eq!(known.collect::<Vec<_>>(), [10, 12, 24]);
}

/// The text alone tells the field and its value.
#[test]
fn errors_of_fields_name_the_field_and_its_value() {
    let form = Form::CutShort;
    let errors = [
        FieldError::Flags(0x3C),
        FieldError::GsoType { value: 0x3C, form },
        FieldError::GsoSize(6_007),
        FieldError::HdrLen(6_007),
        FieldError::CsumStart(6_007),
        FieldError::CsumOffset(6_007),
        FieldError::OuterThOffset(6_007),
        FieldError::InnerNhOffset(6_007),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.starts_with(error.field()), "{text}");
        assert!(text.contains("0x3c") != text.contains("6007"), "{text}");
    }
    assert!(errors[1].to_string().contains("CutShort"));
}

#[test]
fn each_refusal_to_describe_has_words_of_its_own() {
    let refusals = [
        Undescribable::NotADatagram(Form::CutShort),
        Undescribable::Checksum,
        Undescribable::NoChecksum,
        Undescribable::FixedIds,
        Undescribable::AccurateEcn,
        Undescribable::Padded,
        Undescribable::Tunnels,
        Undescribable::TooLarge(70_007),
    ];
    let texts: std::collections::BTreeSet<String> =
        refusals.iter().map(Undescribable::to_string).collect();
    assert_eq!(texts.len(), refusals.len());
    assert!(texts.iter().all(|text| text.len() > 30), "{texts:?}");
    assert!(refusals[0].to_string().contains("CutShort"));
    assert!(refusals[7].to_string().contains("70007"));
}

/// Checksum and division come from the header, and nothing else of the metadata changes.
#[test]
fn what_was_checked_is_stored_beside_the_other_metadata() {
    let gso = Some(Gso { size: 9, segments: 3, ..Gso::default() });
    let offload = Offload { checksum: ChecksumState::Partial, gso };
    let meta = Meta { lane: 5, mark: 7, ..Meta::default() };
    let stored = offload.into_meta(meta);
    assert_eq!(stored, Meta { checksum: ChecksumState::Partial, gso, lane: 5, mark: 7, ..meta });
}

/// TCP with 300 bytes in this tunnel, its checksum left to a device.
fn tunnelled(tunnel: Vec<Wrap>) -> Packet<Vec<u8>> {
    let frame = Frame { tunnel, payload: vec![1; 300], field: Field::Partial, ..Frame::default() };
    let gso = Some(Gso { size: 100, segments: 3, ..Gso::default() });
    let meta = Meta { gso, checksum: ChecksumState::Partial, ..Meta::default() };
    Packet::new(frame.bytes(), LinkType::Ethernet, meta)
}

fn outer_ip() -> Wrap {
    Wrap::Ip(Ip::default())
}

fn in_vxlan() -> Vec<Wrap> {
    let udp = Wrap::Udp { source: 0xC001, port: 4789, field: Field::Good };
    let inner = Wrap::Ethernet { mac: 3, tags: Vec::new(), behind: Vec::new(), kind: None };
    vec![outer_ip(), udp, Wrap::Vxlan { flags: 8, vni: 7, reserved: 0 }, inner]
}

fn in_gre() -> Vec<Wrap> {
    vec![outer_ip(), Wrap::Gre { key: None, checksum: Some(Field::Good), sequence: None }]
}

/// GRE with a checksum has as many layers as a UDP tunnel, and a device could divide nothing in it.
#[test]
fn nothing_in_gre_is_divided_by_a_device() {
    let packet = tunnelled(in_gre());
    let layout = packet.layout();
    let [outer, gre, inner, tcp] = layout.layers().collect::<Vec<_>>()[..] else {
        panic!("{layout:?}");
    };
    assert_eq!((outer.kind, gre.kind), (LayerKind::Ipv4, LayerKind::Gre));
    assert_eq!(Header::of(&packet), Err(Undescribable::Tunnels));
    let gso_type = gso_type::TCPV4 | gso_type::UDP_TUNNEL_IPV4;
    for flags in [flag::NEEDS_CSUM, flag::NEEDS_CSUM | flag::UDP_TUNNEL_CSUM] {
        let (csum_start, csum_offset, gso_size) = (tcp.offset, 16, 100);
        let header =
            Header { flags, gso_type, gso_size, csum_start, csum_offset, ..Header::default() };
        let header =
            Header { outer_th_offset: gre.offset, inner_nh_offset: inner.offset, ..header };
        let error = FieldError::GsoType { value: gso_type, form: Form::Datagram };
        assert_eq!(header.check(packet.bytes(), layout), Err(error));
    }
}

/// Virtio 1.3, section 5.1.6.2.1: what was verified is the outermost checksum; and by its own flag that in the tunnel,
/// too. Of a second tunnel, nothing is said.
#[test]
fn a_verified_checksum_counts_as_far_in_as_the_flags_say() {
    let twice = [in_vxlan(), in_vxlan()].concat();
    for (tunnels, wraps) in [Vec::new(), in_vxlan(), twice].into_iter().enumerate() {
        let packet = tunnelled(wraps);
        assert_eq!(packet.layout().tunnels(), tunnels);
        for (flags, verified) in [
            (0, [false, false, false]),
            (flag::UDP_TUNNEL_CSUM, [false, false, false]),
            (flag::DATA_VALID, [true, false, false]),
            (flag::DATA_VALID | flag::UDP_TUNNEL_CSUM, [true, true, false]),
        ] {
            let header = Header { flags, ..Header::default() };
            let offload = header.check(packet.bytes(), packet.layout()).expect("true");
            let valid = offload.checksum == ChecksumState::Valid;
            assert!(valid || offload.checksum == ChecksumState::Unknown);
            assert_eq!(valid, verified[tunnels], "{flags} in {tunnels} tunnels");
        }
    }
}

/// A hint that is too large for the frame is wrong; one that says all of it is none of ours.
#[test]
fn headers_may_be_as_long_as_the_frame_and_no_longer() {
    let packet = tunnelled(Vec::new());
    let (frame, len) = (packet.bytes(), packet.bytes().len() as u16);
    let head = Layout::parse_head(LinkType::Ethernet, &frame[..60], frame.len());
    for (hdr_len, right) in
        [(0, true), (len - 1, true), (len, true), (len + 1, false), (len + 2, false)]
    {
        let header = Header { hdr_len, ..Header::default() };
        let expected =
            if right { Ok(Offload::default()) } else { Err(FieldError::HdrLen(hdr_len)) };
        assert_eq!(header.check(frame, packet.layout()), expected, "{hdr_len}");
        // The rest of the frame may be elsewhere.
        assert_eq!(header.check(&frame[..60], &head), expected, "{hdr_len} in pieces");
    }
}

/// RFC 768: a UDP checksum field of 0 says that there is none, so none is to be completed. In TCP it says nothing.
#[test]
fn a_udp_field_of_zero_is_not_completed() {
    for (protocol, csum_offset, right) in [(UDP, 6, false), (TCP, 16, true)] {
        let mut frame = Frame { protocol, ..Frame::default() }.bytes();
        let field = 34 + usize::from(csum_offset);
        frame[field..field + 2].fill(0);
        let header =
            Header { flags: flag::NEEDS_CSUM, csum_start: 34, csum_offset, ..Header::default() };
        let found = header.check(&frame, &Layout::parse(LinkType::Ethernet, &frame));
        let partial = Offload { checksum: ChecksumState::Partial, gso: None };
        assert_eq!(found, if right { Ok(partial) } else { Err(FieldError::Flags(1)) });
    }
}

/// A coalescer for a device merges nothing that no header could describe to it.
#[test]
fn only_what_the_device_can_divide_is_merged() {
    let merges = |device: Device, tunnel: &[Wrap], (step, flags_fragment): (u16, u16)| {
        let frames = (0..3).map(|index| {
            let id = 7 + step * index;
            let tunnel = tunnel.to_vec();
            Frame { id, flags_fragment, tunnel, ..Frame::bulk(index.into(), 100) }
        });
        let arrivals: Vec<Arrival> = frames.map(|frame| runner::arrival(&frame, 0)).collect();
        let real = merge(&arrivals, Config { device: Some(device), ..Config::default() });
        real.out.len() == 1
    };
    const COUNTING: (u16, u16) = (1, 0x4000);
    let of = |format, identifications| Device { format, identifications };
    for format in FORMATS {
        let device = of(format, Identifications::default());
        assert!(merges(device, &[], COUNTING));
        assert_eq!(merges(device, &in_vxlan(), COUNTING), format == Format::Tunnel);
        assert!(!merges(device, &in_gre(), COUNTING));
    }
    // Identifications that stand still, of datagrams that are atomic and of others.
    for (identifications, atomic) in
        [(Identifications::Rfc6864, true), (Identifications::Exact, false)]
    {
        let device = of(Format::V1, identifications);
        assert_eq!(merges(device, &[], (0, 0x4000)), atomic);
        assert!(!merges(device, &[], (0, 0)));
        assert!(merges(device, &[], (1, 0)));
    }
}

/// A device that is told to divide what is in a tunnel is told the truth about the tunnel.
#[test]
fn what_is_said_of_a_tunnel_has_to_be_true() {
    let mut packet = tunnelled(in_vxlan());
    // The outer checksum of a packet to be divided is that of its pseudo header.
    assert!(defer_checksum(&mut packet));
    let header = Header::of(&packet).expect("a UDP tunnel");
    let (frame, layout) = (packet.bytes(), packet.layout());
    let [_, udp, inner, _] = layout.layers().collect::<Vec<_>>()[..] else {
        panic!("{layout:?}");
    };
    assert_eq!((header.outer_th_offset, header.inner_nh_offset), (udp.offset, inner.offset));
    assert_eq!(header.check(frame, layout).expect("true").gso, packet.meta.gso);
    for flags in 0..16 {
        let right = flags == flag::NEEDS_CSUM | flag::UDP_TUNNEL_CSUM;
        let found = Header { flags, ..header }.check(frame, layout);
        let expected =
            if right { header.check(frame, layout) } else { Err(FieldError::Flags(flags)) };
        assert_eq!(found, expected, "{flags}");
    }
    for off in [header.outer_th_offset - 1, header.outer_th_offset + 1, header.inner_nh_offset] {
        let found = Header { outer_th_offset: off, ..header }.check(frame, layout);
        assert_eq!(found, Err(FieldError::OuterThOffset(off)));
    }
    for off in [header.inner_nh_offset - 1, header.inner_nh_offset + 1, header.outer_th_offset] {
        let found = Header { inner_nh_offset: off, ..header }.check(frame, layout);
        assert_eq!(found, Err(FieldError::InnerNhOffset(off)));
    }
}

/// A packet beyond 65,535 bytes ("BIG TCP") is divided into segments that are not; the link header does not count.
#[test]
fn segments_are_as_long_as_their_length_field_can_say() {
    let payload = vec![7; 200_000];
    let mut frame = Frame { payload, ..Frame::default() }.bytes();
    frame[16..18].fill(0);
    let layout = Layout::parse(LinkType::Ethernet, &frame);
    // 40 bytes of headers that count.
    for (gso_size, segments) in [(65_494, 4), (65_495, 4), (65_496, 0), (65_497, 0), (65_535, 0)] {
        let (flags, gso_type) = (flag::NEEDS_CSUM, gso_type::TCPV4);
        let header = Header { flags, gso_type, gso_size, csum_start: 34, ..Header::default() };
        let found = Header { csum_offset: 16, ..header }.check(&frame, &layout);
        let expected = match segments {
            0 => Err(FieldError::GsoSize(gso_size)),
            _ => Ok(Some(Gso { size: gso_size, segments, ..Gso::default() })),
        };
        assert_eq!(found.map(|offload| offload.gso), expected);
    }
}

/// In a tunnel, the flag would be about the outermost checksum, of which nothing is known.
#[test]
fn a_checksum_that_was_verified_in_a_tunnel_is_not_said_to_be_valid() {
    for (tunnel, flags) in [(Vec::new(), flag::DATA_VALID), (in_vxlan(), 0), (in_gre(), 0)] {
        let mut packet = tunnelled(tunnel);
        packet.meta = Meta { checksum: ChecksumState::Valid, ..Meta::default() };
        assert_eq!(Header::of(&packet), Ok(Header { flags, ..Header::default() }));
    }
}

/// Only some devices take more than an IP datagram.
#[test]
fn packets_up_to_the_largest_datagram_are_described() {
    for len in [65_534, 65_535, 65_536, 65_537] {
        let payload = vec![7; len - 40];
        let mut frame = Frame { payload, field: Field::Partial, ..Frame::default() }.bytes();
        if len > 65_535 {
            frame[16..18].fill(0);
        }
        let gso = Some(Gso { size: 1_448, ..Gso::default() });
        let meta = Meta { gso, checksum: ChecksumState::Partial, ..Meta::default() };
        let described = Header::of(&Packet::new(frame, LinkType::Ethernet, meta));
        let expected = if len > 65_535 { Err(Undescribable::TooLarge(len)) } else { Ok(1_448) };
        assert_eq!(described.map(|header| header.gso_size), expected);
    }
}

/// Without more payload than one segment takes, a packet is one frame, whose checksum may be left or complete.
#[test]
fn what_fits_into_one_segment_is_not_to_be_divided() {
    let mut packet = tunnelled(Vec::new());
    for (size, divided) in [(299, true), (300, false), (301, false)] {
        packet.meta.gso = Some(Gso { size, ..Gso::default() });
        for checksum in [ChecksumState::Partial, ChecksumState::Unknown] {
            packet.meta.checksum = checksum;
            let described = Header::of(&packet).map(|header| (header.gso_type, header.gso_size));
            let expected = match (divided, checksum) {
                (true, ChecksumState::Partial) => Ok((gso_type::TCPV4, size)),
                (true, _) => Err(Undescribable::Checksum),
                (false, _) => Ok((gso_type::NONE, 0)),
            };
            assert_eq!(described, expected);
        }
    }
}

/// The first bit is about the innermost IPv4 header: each of them is looked at with the bit of its own.
#[test]
fn each_identification_that_stands_still_has_to_mean_nothing() {
    const ATOMIC: u16 = 0x4000;
    for fixed_ids in 0..4_u8 {
        for (inner, outer) in [(ATOMIC, ATOMIC), (0, ATOMIC), (ATOMIC, 0), (0, 0)] {
            let mut tunnel = in_vxlan();
            tunnel[0] = Wrap::Ip(Ip { flags_fragment: outer, ..Ip::default() });
            let (flags_fragment, field) = (inner, Field::Partial);
            let frame = Frame { tunnel, flags_fragment, field, ..Frame::default() };
            let gso = Some(Gso { size: 60, segments: 2, fixed_ids, ..Gso::default() });
            let meta = Meta { gso, checksum: ChecksumState::Partial, ..Meta::default() };
            let mut packet = Packet::new(frame.bytes(), LinkType::Ethernet, meta);
            assert!(defer_checksum(&mut packet));
            for ids in [Identifications::Rfc6864, Identifications::Exact] {
                let may = |flags| ids == Identifications::Rfc6864 && flags == ATOMIC;
                let right =
                    (fixed_ids & 1 == 0 || may(inner)) && (fixed_ids & 2 == 0 || may(outer));
                let error = Header::of_with(&packet, ids).err();
                assert_eq!(error, (!right).then_some(Undescribable::FixedIds), "{fixed_ids}");
            }
        }
    }
}
