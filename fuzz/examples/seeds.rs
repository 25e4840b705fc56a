//! Writes the seeds that every run of the fuzzer starts with, into `seeds/TARGET/`:
//! `cargo run --example seeds` in `fuzz/`. Frames come from the captures in `testdata/`; choices,
//! for targets that build their own traffic, from fixed numbers; ELF files from `firmware/` and `testdata/`.

use linecard_config::{Config, Document, parameters};
use linecard_io::capture::{Reader, Record};
use linecard_model::{adapter, npu, path, pci, pcie};
use linecard_transfer::control::{
    ChunkRange, End, Failed, FecScheme, Have, Hello, LaneKind, LaneOffer, List, Listed, Message,
    Mode, Names, Object, Remove, Removed, Span, Suite, Welcome,
};
use linecard_transfer_net::keys::Fingerprint;
use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

/// Targets that draw traffic, and bytes of limits before it.
const DRAWN: [(&str, usize); 10] = [
    ("abi", 9),
    ("journal", 5),
    ("seal", 1),
    ("watch", 2),
    ("coalesce", 3),
    ("resequence", 2),
    ("ack_filter", 1),
    ("reassemble", 3),
    ("media", 3),
    ("fec", 20),
];
/// Bytes of each drawn seed, and of a capture at most.
const DRAWN_LEN: usize = 160;
const CAPTURE_LEN: usize = 1_200;

/// ELF files with debug information: name of the seed, path from the root of the project. `./test` gives the target
/// inputs that are long enough for them, and the tests of `linecard-io` see that each seed is loaded.
const ELF_FILES: [(&str, &str); 3] = [
    ("elf", "firmware/images/best.elf"),
    ("elf-of-c", "firmware/images/lso.elf"),
    ("elf-with-sum", "testdata/firmware/sum.elf"),
];
/// The first byte of inputs of `firmware` that are ELF files.
const IS_ELF: u8 = 0x80;

/// Requests to the endpoint of metrics; the head of the last one does not end.
const REQUESTS: [(&str, &str); 4] = [
    ("metrics", "GET /metrics HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n"),
    ("query", "GET /metrics?name=a HTTP/1.0\n\nbehind it"),
    ("other", "POST /other HTTP/1.1\r\nContent-Length: 3\r\n\r\na=b"),
    ("open", "HEAD /metrics HTTP/1.1\r\nHost: example.com\r\n"),
];
/// Lines of a journal of settings without their checksums, which the target adds; the last one is not whole.
const SETTINGS: &str = "journal 1 5f%00a 4711 900
change 5%0a 7%0a file plain /proc/sys/kernel/threads-max - -
change %5bon%5d%20off%0a on%20%5boff%5d%0a file choice /sys/a%20b /run/netns/lab 4026531840
change 7%0a 9%0a file plain /proc/sys/kernel/threads-max - -
change rx-usecs=3%0a rx-usecs=0%0a coalescing eth0 - -
change on%0a off%0a feature eth0 rx-gro - -
change % rx-filter=1%0a stamps eth0 - -
change 0-3%0a 1%0a thread 812 77 - -
change 1%0a 2";

fn main() -> Result {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = root.join("seeds");
    for (target, limits) in DRAWN {
        for number in 0..6 {
            write(&seeds, target, &format!("traffic-{number}"), &drawn(limits, number))?;
        }
    }
    write(&seeds, "control", "start", &[&[7], &said(&start())[..]].concat())?;
    write(&seeds, "control", "objects", &[&[255], &said(&objects())[..]].concat())?;
    for (name, request) in REQUESTS {
        write(&seeds, "http", name, request.as_bytes())?;
    }
    write(&seeds, "settings", "lines", &[&[1, 0, 90], SETTINGS.as_bytes()].concat())?;
    for number in 0..3 {
        write(
            &seeds,
            "settings",
            &format!("values-{number}"),
            &[&[2], &drawn(0, number)[..]].concat(),
        )?;
    }
    for (name, kind, text) in key_files() {
        write(&seeds, "keys", name, &[&[kind], text.as_bytes()].concat())?;
    }
    scenario::<npu::Config>(&seeds, "npu", "client.connections=2")?;
    scenario::<pci::Config>(&seeds, "pci", "run.seed=3")?;
    scenario::<pcie::Config>(&seeds, "pcie", "load.frame=64")?;
    scenario::<adapter::Config>(&seeds, "adapter", "adapter.mtu=9000")?;
    scenario::<path::Config>(&seeds, "path", "load.period=10us")?;
    for (name, path) in ELF_FILES {
        let file = fs::read(root.join("..").join(path))?;
        write(&seeds, "firmware", name, &[&[IS_ELF], &file[..]].concat())?;
    }
    let mut names: Vec<_> = fs::read_dir(root.join("../testdata/captures"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    names.sort();
    for path in names {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        from_capture(&seeds, &name, &fs::read(&path)?)?;
    }
    Ok(())
}

/// Files of keys: name of the seed, kind of file, text.
fn key_files() -> [(&'static str, u8, String); 6] {
    let [a, b, c] = [b"a", b"b", b"c"].map(|key| Fingerprint::of(key));
    let known = format!("# mine\n\nhost:4100 {a}\n  other {b}\nhost:4100 {b}\n");
    let authorized = format!(
        "# senders\n{a} folder=lab/a quota=500M delete=yes the lab's recorder\n\n{b} quota=2T\n{c} folder=c\n"
    );
    [
        ("known_peers", 0, known),
        ("authorized", 1, authorized),
        ("hexadecimal", 2, "0123456789abcdef".repeat(4) + "\n"),
        ("base64", 2, "Zm9v".repeat(10) + "Zm8=\n"),
        ("fingerprint", 3, a.to_string()),
        ("capitals", 2, "0123456789ABCDEF".repeat(4)),
    ]
}

/// A scenario with all parameters of a model, each with its default, and one that is set beside it.
fn scenario<C: Config>(seeds: &Path, model: &str, set: &str) -> Result {
    let mut text = format!("model = \"{model}\"\n");
    for parameter in parameters::<C>().iter().filter(|parameter| !parameter.default.is_null()) {
        text += &format!("{} = {}\n", parameter.name, parameter.default);
    }
    let mut document = Document::of_text(model, &text[..])?;
    document.take_text("model")?;
    document.set(set)?;
    document.config::<C>()?;
    write(seeds, "scenario", model, &[&[1], set.as_bytes(), b"\n", text.as_bytes()].concat())
}

/// Messages of the control channel, one behind the other.
fn said(messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        message.write(&mut bytes).expect("within its limits");
    }
    bytes
}

fn start() -> [Message; 3] {
    let hello = Hello {
        versions: vec![1, 2],
        suites: vec![Suite::Aes128Gcm, Suite::ChaCha20Poly1305],
        fec_kinds: vec![0, 1, 2],
        fec: FecScheme { kind: 2, k: 28, m: 4 },
        chunk_bytes: 16 << 20,
        payload_bytes: 1_408,
        lanes: vec![LaneOffer { kind: LaneKind::Udp, rate_bits_per_second: 200_000_000 }; 2],
        spares: 1,
        mode: Mode::Auto,
        sources: vec![[10, 9, 1, 1].into(), [10, 9, 1, 1].into(), [10, 9, 2, 1].into()],
        dry_run: true,
        delete: true,
        links_out: true,
    };
    let address = SocketAddr::from(([192, 0, 2, 1], 4_100));
    let welcome = Welcome {
        version: 1,
        suite: Suite::Aes128Gcm,
        connection: 7,
        window_chunks: 16,
        lanes: vec![address; 2],
    };
    let refuse = hello.agree(&[3], &[], &[]).expect_err("another version");
    [Message::Hello(hello), Message::Welcome(welcome), Message::Refuse(refuse)]
}

fn objects() -> [Message; 12] {
    let name = b"folder/file".to_vec();
    let object = Object {
        id: 1,
        name,
        size: Some(5),
        mode: 0o644,
        has_holes: false,
        by_time: true,
        has_others: true,
        has_links: true,
        link_of: None,
        modified_ns: 1,
        first_chunk: 0,
    };
    let link = Object {
        id: 2,
        name: b"folder/link".to_vec(),
        size: Some(0),
        has_links: false,
        link_of: Some(1),
        first_chunk: 1,
        ..object.clone()
    };
    let mut names = Names::default();
    assert!(names.push(b"folder/other", false) && names.push(b"folder/old", true));
    let ranges = vec![ChunkRange { first: 0, count: 2 }, ChunkRange { first: 5, count: 1 }];
    [
        Message::Object(object),
        Message::Object(link),
        Message::Have(Have {
            object: 1,
            ranges,
            existing: Some([7; 32]),
            is_same: false,
            replaces: true,
            proof_key: Some([8; 32]),
            part: Some([9; 32]),
        }),
        Message::Span(Span { chunk: 3, bytes: 100 }),
        Message::End(End { object: 1, size: 5, root: [9; 32], proof: Some([6; 32]) }),
        Message::Stored { object: 1 },
        Message::Failed(Failed {
            object: None,
            sent_below: None,
            code: 2,
            text: "disk full".into(),
        }),
        Message::List(List { folder: b"folder".to_vec(), after: b"file".to_vec() }),
        Message::Listed(Listed { names: names.clone(), has_more: true, error: "denied".into() }),
        Message::Remove(Remove { names }),
        Message::Removed(Removed { count: 2, failed: 1, error: "denied".into() }),
        Message::Finish,
    ]
}

/// The first packets of a capture, as a capture and one by one.
fn from_capture(seeds: &Path, name: &str, bytes: &[u8]) -> Result {
    let mut reader = Reader::new(bytes)?;
    let mut record = Record::default();
    let (mut end, mut frames) = (0, 0);
    while reader.read(&mut record)? {
        if reader.offset() as usize <= CAPTURE_LEN || end == 0 {
            end = reader.offset() as usize;
        }
        if record.is_packet() && frames == 0 && record.data().len() < CAPTURE_LEN {
            frames += 1;
            frame(seeds, name, &reader, &record)?;
        }
        if record.is_packet() && end < reader.offset() as usize && frames > 0 {
            break;
        }
    }
    let start = &bytes[..end.min(bytes.len())];
    if start.len() <= 2 * CAPTURE_LEN {
        write(seeds, "capture", name, start)?;
        write(seeds, "convert", name, &[&[0, 100], start].concat())?;
    }
    Ok(())
}

fn frame(seeds: &Path, name: &str, reader: &Reader<&[u8]>, record: &Record) -> Result {
    // Places in `LINKS`.
    let link = match reader.link_type(record.interface()) {
        Some(1) => 0,
        Some(101) => 1,
        Some(113) => 2,
        Some(276) => 3,
        _ => 4,
    };
    let data = record.data();
    write(seeds, "parse", name, &[&[link, 0, 80], data].concat())?;
    if link < 2 {
        // A header of 10 bytes that says nothing, and a size of 64 bytes.
        write(seeds, "abi", name, &[&[0, 0, link], &[0; 10][..], &[0, 64], data].concat())?;
    }
    // A size of 64 bytes; the frame is given as it is.
    write(seeds, "segment", name, &[&[1, 0, 64, 1, link], data].concat())?;
    write(seeds, "virtio", name, &[&[2, 0, 64, 1, link], data].concat())
}

/// Numbers that look random and are the same everywhere: mostly flows that go on, some changes.
fn drawn(limits: usize, number: u64) -> Vec<u8> {
    let mut state = number + 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let mut bytes: Vec<u8> = (0..limits).map(|_| next()).collect();
    bytes.extend((0..DRAWN_LEN).map(|at| if at % 3 == 0 { next() } else { next() & 0x1F }));
    bytes
}

fn write(seeds: &Path, target: &str, name: &str, bytes: &[u8]) -> Result {
    let folder = seeds.join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)?;
    Ok(())
}
