//! Round trips, truncations, damage, limits.

use super::*;
use alloc::vec;
use core::net::{IpAddr, SocketAddr};
use linecard::rng::Rng;

pub(super) fn hello() -> Hello {
    Hello {
        versions: vec![1],
        suites: vec![Suite::Aes128Gcm, Suite::ChaCha20Poly1305],
        fec_kinds: vec![0],
        fec: FecScheme::NONE,
        chunk_bytes: 16 << 20,
        payload_bytes: 1_408,
        lanes: vec![LaneOffer { kind: LaneKind::Udp, rate_bits_per_second: 200_000_000 }; 2],
        spares: 0,
        mode: Mode::Stable,
        sources: Vec::new(),
        dry_run: false,
        delete: false,
        links_out: false,
    }
}

fn random_hello(rng: &mut Rng) -> Hello {
    let k = rng.below(256) as u8;
    let kind = if k == 0 { 0 } else { 1 + rng.below(200) as u8 };
    let m = if k == 0 { 0 } else { rng.below(257 - u64::from(k)).min(255) as u8 };
    let lane = |rng: &mut Rng| LaneOffer {
        kind: if rng.chance(0.5) { LaneKind::Udp } else { LaneKind::Tcp },
        rate_bits_per_second: rng.next_u64(),
    };
    let lanes: Vec<LaneOffer> = (0..=rng.below(63)).map(|_| lane(rng)).collect();
    let sources = if rng.chance(0.5) { 0 } else { 1 + lanes.len() };
    Hello {
        versions: (0..=rng.below(15)).map(|_| rng.next_u64() as u16).collect(),
        suites: (0..=rng.below(15)).map(|_| Suite::of(rng.below(5) as u16)).collect(),
        fec_kinds: (0..rng.below(17)).map(|_| rng.next_u64() as u8).collect(),
        fec: FecScheme { kind, k, m },
        chunk_bytes: MIN_CHUNK_BYTES << rng.below(11),
        payload_bytes: MIN_PAYLOAD_BYTES + rng.below(60_000) as u32,
        spares: if rng.chance(0.5) { 0 } else { rng.below(lanes.len() as u64) as usize },
        lanes,
        sources: (0..sources).map(|_| random_ip(rng)).collect(),
        mode: [Mode::Stable, Mode::LowLatency, Mode::Auto][rng.below(3) as usize],
        dry_run: rng.chance(0.5),
        delete: rng.chance(0.5),
        links_out: rng.chance(0.5),
    }
}

fn random_ip(rng: &mut Rng) -> IpAddr {
    let mut ip = [0; 16];
    rng.fill(&mut ip);
    match rng.chance(0.5) {
        true => IpAddr::from(ip),
        false => IpAddr::from([ip[0], ip[1], ip[2], ip[3]]),
    }
}

fn random_welcome(rng: &mut Rng) -> Welcome {
    let address = |rng: &mut Rng| SocketAddr::new(random_ip(rng), rng.next_u64() as u16);
    Welcome {
        version: rng.next_u64() as u16,
        suite: Suite::of(rng.below(5) as u16),
        connection: rng.next_u64() as u32,
        window_chunks: 1 + rng.below(u64::from(MAX_WINDOW_CHUNKS)) as u32,
        lanes: (0..=rng.below(63)).map(|_| address(rng)).collect(),
    }
}

fn random_hash(rng: &mut Rng) -> Option<[u8; 32]> {
    rng.chance(0.5).then(|| {
        let mut hash = [0; 32];
        rng.fill(&mut hash);
        hash
    })
}

fn random_have(rng: &mut Rng) -> Have {
    let mut ranges = Vec::new();
    let mut free = 0;
    for _ in 0..rng.below(40) {
        let first = free + rng.below(9) as u32;
        let count = 1 + rng.below(100) as u32;
        ranges.push(ChunkRange { first, count });
        free = first + count;
    }
    let [existing, part, proof_key] = [(); 3].map(|()| random_hash(rng));
    let (is_same, replaces) = (rng.chance(0.5), rng.chance(0.5));
    Have { object: rng.next_u64() as u32, ranges, existing, part, is_same, replaces, proof_key }
}

fn random_object(rng: &mut Rng) -> Object {
    let mut name = vec![0; rng.below(60) as usize];
    rng.fill(&mut name);
    Object {
        id: rng.next_u64() as u32,
        name,
        size: rng.chance(0.5).then(|| rng.next_u64()),
        mode: rng.next_u64() as u32,
        has_holes: rng.chance(0.5),
        by_time: rng.chance(0.5),
        has_others: rng.chance(0.5),
        has_links: rng.chance(0.5),
        link_of: rng.chance(0.5).then(|| rng.next_u64() as u32),
        modified_ns: rng.next_u64() as i64,
        first_chunk: rng.next_u64() as u32,
    }
}

fn random(rng: &mut Rng) -> Message {
    let number = rng.next_u64() as u32;
    let text = Text::from(["", "disk full", "naïve \u{1F600}"][rng.below(3) as usize]);
    match rng.below(14) {
        0 => Message::Hello(random_hello(rng)),
        1 => Message::Welcome(random_welcome(rng)),
        2 => Message::Refuse(Refuse {
            code: [RefuseCode::Version, RefuseCode::Fec, RefuseCode::Other(77)]
                [rng.below(3) as usize],
            text,
        }),
        3 => Message::Object(random_object(rng)),
        4 => Message::Have(random_have(rng)),
        5 => Message::Span(Span { chunk: number, bytes: rng.below(64 << 20) as u32 }),
        6 => {
            let mut root = [0; 32];
            rng.fill(&mut root);
            Message::End(End {
                object: number,
                size: rng.next_u64(),
                root,
                proof: random_hash(rng),
            })
        }
        7 => Message::Stored { object: number },
        8 => Message::Failed(Failed {
            object: rng.chance(0.5).then_some(number),
            sent_below: rng.chance(0.5).then_some(number / 2),
            code: number as u16,
            text,
        }),
        9 => {
            Message::List(List { folder: b"a/b".to_vec(), after: vec![b'x'; number as usize % 9] })
        }
        10 => Message::Listed(Listed {
            names: random_names(rng),
            has_more: rng.chance(0.5),
            error: text,
        }),
        11 => Message::Remove(Remove { names: random_names(rng) }),
        12 => Message::Removed(Removed { count: number, failed: number / 3, error: text }),
        _ => Message::Finish,
    }
}

fn random_names(rng: &mut Rng) -> Names {
    let mut names = Names::default();
    while rng.chance(0.8) && names.push(&vec![b'n'; 1 + rng.below(255) as usize], rng.chance(0.5)) {
    }
    names
}

fn written(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes).unwrap();
    bytes
}

/// All messages of `bytes`, given at once.
fn read_all(bytes: &[u8]) -> Result<Vec<Message>, MessageError> {
    let mut reader = Reader::new();
    assert_eq!(reader.push(bytes), bytes.len());
    let mut messages = Vec::new();
    while let Some(message) = reader.read()? {
        messages.push(message);
    }
    Ok(messages)
}

/// A frame of these fields.
fn framed(kind: u16, fields: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (tag, value) in fields {
        body.extend(tag.to_be_bytes());
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(*value);
    }
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn what_is_written_is_read_in_any_pieces() {
    let mut rng = Rng::new(11);
    for _ in 0..300 {
        let messages: Vec<Message> = (0..8).map(|_| random(&mut rng)).collect();
        let bytes: Vec<u8> = messages.iter().flat_map(written).collect();
        let mut reader = Reader::new();
        let mut read = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let piece = rest.len().min(1 + rng.below(200) as usize);
            assert_eq!(reader.push(&rest[..piece]), piece);
            rest = &rest[piece..];
            while let Some(message) = reader.read().unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, messages);
        assert!(!reader.is_amid());
    }
}

#[test]
fn every_truncation_waits_or_is_refused() {
    let mut rng = Rng::new(12);
    for _ in 0..200 {
        let message = random(&mut rng);
        let bytes = written(&message);
        for end in 0..bytes.len() {
            // Cut off on the way: the rest is waited for.
            assert_eq!(read_all(&bytes[..end]), Ok(Vec::new()));
            if end < FRAME_BYTES {
                continue;
            }
            // Cut, with a length that says so: fields are missing, or end too late. Where only fields
            // are gone that need not be there, it is another message.
            let mut short = bytes[..end].to_vec();
            short[2..6].copy_from_slice(&((end - FRAME_BYTES) as u32).to_be_bytes());
            if let Ok(read) = read_all(&short) {
                let has_optional = matches!(
                    message,
                    Message::Failed(_)
                        | Message::Refuse(_)
                        | Message::Hello(_)
                        | Message::Object(_)
                        | Message::Have(_)
                        | Message::End(_)
                        | Message::Listed(_)
                        | Message::Removed(_)
                );
                assert!(has_optional, "{read:?}");
            }
        }
    }
}

/// Promise (Transfer): Whatever the other end sends, with the right keys, causes no panic; fuzz targets `control` and
/// `transfer` look for more.
#[test]
fn damage_never_panics_and_what_is_read_is_sound() {
    let mut rng = Rng::new(13);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..30_000 {
        let mut bytes = written(&random(&mut rng));
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        match read_all(&bytes) {
            Err(_) => refused += 1,
            Ok(messages) => {
                for message in messages {
                    assert_eq!(read_all(&written(&message)), Ok(vec![message]));
                    read += 1;
                }
            }
        }
    }
    assert!(refused > 5_000 && read > 5_000, "{refused} {read}");
}

#[test]
fn noise_never_panics() {
    let mut rng = Rng::new(14);
    for _ in 0..20_000 {
        let mut bytes = vec![0; rng.below(200) as usize];
        rng.fill(&mut bytes);
        if let [_, kind, high, higher, ..] = &mut bytes[..] {
            (*kind, *high, *higher) = (*kind % 12, 0, 0);
        }
        drop(read_all(&bytes));
    }
}

#[test]
fn a_length_beyond_the_limit_is_refused_by_its_head_alone() {
    let mut head = vec![0, 5];
    head.extend((MAX_MESSAGE_BYTES as u32 + 1).to_be_bytes());
    let mut reader = Reader::new();
    assert_eq!(reader.push(&head), FRAME_BYTES);
    let error = MessageError::TooLong(MAX_MESSAGE_BYTES as u32 + 1);
    assert_eq!(reader.read(), Err(error));
    // It stays so, whatever follows, and nothing is held any more.
    assert_eq!(reader.push(&written(&Message::Finish)), 6);
    assert_eq!(reader.read(), Err(error));
    assert!(!reader.is_amid());
}

#[test]
fn a_reader_holds_no_more_than_its_limit() {
    let mut reader = Reader::new();
    let mut head = vec![0, 5];
    head.extend((MAX_MESSAGE_BYTES as u32).to_be_bytes());
    let flood = vec![0; 3 << 20];
    let mut taken = reader.push(&head);
    for piece in flood.chunks(1 << 16) {
        taken += reader.push(piece);
    }
    assert_eq!(taken, Reader::MAX_BYTES);
    // All of that message came: a field of tag 0 and no bytes, again and again.
    assert_eq!(reader.read(), Err(MessageError::Fields));
}

#[test]
fn lists_beyond_their_limit_are_refused_by_their_length() {
    let good = written(&Message::Hello(hello()));
    let body = &good[FRAME_BYTES..];
    let fields = Fields::parse(kind::HELLO, body).unwrap();
    let with = |tag: u16, value: &[u8]| {
        let list: Vec<(u16, &[u8])> = (1..=8)
            .map(|other| match other == tag {
                true => (tag, value),
                false => (other, fields.value((other, "")).unwrap()),
            })
            .collect();
        read_all(&framed(kind::HELLO, &list))
    };
    let count = |result: Result<Vec<Message>, MessageError>| match result {
        Err(MessageError::Count { count, most, .. }) => (count, most),
        other => panic!("{other:?}"),
    };
    assert_eq!(count(with(1, &[0; 34])), (17, 16));
    assert_eq!(count(with(1, &[])), (0, 16));
    assert_eq!(count(with(2, &[0; 200])), (100, 16));
    assert_eq!(count(with(3, &[0; 17])), (17, 16));
    assert_eq!(count(with(7, &[0; 9 * 65])), (65, 64));
    assert_eq!(with(7, &[0; 10]), Err(MessageError::Length { field: "lanes", bytes: 10 }));
    assert!(with(7, &[2; 9]).is_err(), "a kind of lane that is not known");
    assert!(with(5, &[0; 4]).is_err() && with(5, &(3_u32 << 20).to_be_bytes()).is_err());
    assert!(with(6, &511_u32.to_be_bytes()).is_err());
    assert!(with(8, &[3]).is_err());
    assert!(with(4, &[2, 200, 57]).is_err() && with(4, &[2, 200, 56]).is_ok());
    assert!(with(4, &[0, 1, 0]).is_err() && with(4, &[1, 0, 1]).is_err());
    assert!(with(9, &[]).is_ok(), "a tag that is not known");

    let name = vec![b'a'; MAX_NAME_BYTES + 1];
    let object = Object {
        id: 0,
        name,
        size: None,
        mode: 0,
        has_holes: false,
        by_time: false,
        has_others: false,
        has_links: false,
        link_of: None,
        modified_ns: 0,
        first_chunk: 0,
    };
    let mut out = vec![1, 2, 3];
    let error = Message::Object(object).write(&mut out).unwrap_err();
    assert!(matches!(error, MessageError::Count { count: 4_097, most: 4_096, .. }));
    assert_eq!(out, [1, 2, 3], "nothing is left of what cannot be written");
}

#[test]
fn ranges_that_overlap_or_go_too_far_are_refused() {
    let with = |ranges: &[u32]| {
        let value: Vec<u8> = ranges.iter().flat_map(|number| number.to_be_bytes()).collect();
        read_all(&framed(kind::HAVE, &[(1, &[0; 4]), (2, &value)]))
    };
    assert!(with(&[0, 5, 5, 1, u32::MAX, 1]).is_ok());
    assert!(with(&[0, 5, 4, 1]).is_err());
    assert!(with(&[0, 0]).is_err());
    assert!(with(&[u32::MAX, 2]).is_err());
    let most = vec![0_u32; 2 * (MAX_HAVE_RANGES + 1)];
    let refused = matches!(with(&most), Err(MessageError::Count { count: 65_537, .. }));
    assert!(refused, "one range too many");
}

#[test]
fn unknown_fields_and_messages_of_later_versions_are_skipped() {
    let object = 9_u32.to_be_bytes();
    let later: [(u16, &[u8]); 4] = [(700, b"new"), (1, &object), (700, b"twice"), (65_535, b"")];
    let mut bytes = framed(kind::STORED, &later);
    bytes.extend(framed(SKIPPABLE, &[(1, b"?")]));
    bytes.extend([0xFF, 0xFF, 0, 0, 0, 1, 0x99]); // its body need not even be fields
    bytes.extend(written(&Message::Finish));
    assert_eq!(read_all(&bytes), Ok(vec![Message::Stored { object: 9 }, Message::Finish]));
    let next = kind::REMOVED + 1;
    assert_eq!(read_all(&framed(next, &[])), Err(MessageError::Unknown(next)));
    assert_eq!(read_all(&framed(0, &[])), Err(MessageError::Unknown(0)));
    let many = framed(SKIPPABLE, &[]).repeat(10_001);
    assert_eq!(read_all(&many), Err(MessageError::Skipped(10_000)));
}

#[test]
fn one_lane_at_least_is_not_spare() {
    // Nothing is written that would not be read.
    let write = |spares| Message::Hello(Hello { spares, ..hello() }).write(&mut Vec::new());
    assert_eq!(write(1), Ok(()));
    for spares in [2, 3, 65_535] {
        let refused = MessageError::Value { field: "spare lanes", value: spares as u64 };
        assert_eq!(write(spares), Err(refused));
    }
}

#[test]
fn missing_twice_and_trailing_are_refused() {
    let stored = |fields: &[(u16, &[u8])]| read_all(&framed(kind::STORED, fields));
    let (message, field) = (kind::STORED, "object");
    assert_eq!(stored(&[]), Err(MessageError::Missing { message, field }));
    let twice = [(1, &[0; 4][..]), (1, &[0; 4])];
    assert_eq!(stored(&twice), Err(MessageError::Duplicate { message, field }));
    assert_eq!(stored(&[(1, &[0; 3])]), Err(MessageError::Length { field, bytes: 3 }));
    assert_eq!(stored(&[(9, &[][..]); MAX_FIELDS + 1]), Err(MessageError::Fields));

    let mut trailing = framed(kind::STORED, &[(1, &[0; 4])]);
    trailing.push(0);
    trailing[5] += 1;
    assert_eq!(read_all(&trailing), Err(MessageError::Ragged(kind::STORED)));
}

#[test]
fn texts_are_cleaned_when_they_come() {
    let bytes = framed(kind::REFUSE, &[(1, &[0, 4]), (2, b"no\x1b[31m")]);
    let text = Text::from("no [31m");
    let refuse = Refuse { code: RefuseCode::Resources, text };
    assert_eq!(read_all(&bytes), Ok(vec![Message::Refuse(refuse)]));
    let long = vec![b'x'; MAX_TEXT_BYTES + 1];
    assert!(read_all(&framed(kind::REFUSE, &[(1, &[0, 4]), (2, &long)])).is_err());
}
