//! `coalesce` and `segment` on captures of real kernel traffic.

use crate::entries::packets;
use crate::folder::{Folder, capture, one_line};
use linecard_testkit::root;
use serde_json::Value as Json;
use std::fs;

/// Every capture, through both commands and back, in the format that the name asks for.
#[test]
fn what_was_merged_comes_back() {
    let mut merged = 0;
    for entry in fs::read_dir(root().join("testdata/captures")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let folder = Folder::with_capture(&name);
        let json: Json =
            serde_json::from_str(&folder.succeeds(&["coalesce", "in.pcap", "mid", "--json"]))
                .unwrap();
        merged += json["merging"]["merged"].as_u64().unwrap();
        let back = format!("back-{name}");
        folder.succeeds(&["segment", "mid", &back]);
        let (was, is) = (folder.read("in.pcap"), folder.read(&back));
        assert_eq!(packets(&is), packets(&was), "{name}");
        let middle = packets(&folder.read("mid"));
        assert_eq!(middle.len() as u64, json["merging"]["packets_out"], "{name}");
        assert_eq!(is[..4], was[..4], "{name}: another format or byte order");
    }
    assert!(merged > 300, "only {merged} packets were merged");
}

#[test]
fn the_name_of_the_output_decides_its_format() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    for (name, magic) in [
        ("out.pcap", [0xd4, 0xc3, 0xb2, 0xa1]),
        ("out.PCAP", [0xd4, 0xc3, 0xb2, 0xa1]),
        ("out.pcapng", [0x0a, 0x0d, 0x0d, 0x0a]),
        ("out", [0x0a, 0x0d, 0x0d, 0x0a]),
    ] {
        for command in ["coalesce", "segment"] {
            folder.succeeds(&[command, "in.pcap", name]);
            assert_eq!(folder.read(name)[..4], magic, "{command} {name}");
        }
    }
}

/// pcap has no place for segment sizes: a line says so, with the remedy.
#[test]
fn pcap_output_says_what_it_cannot_hold() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let text = folder.succeeds(&["coalesce", "in.pcap", "out.pcap"]);
    assert!(text.contains("cannot hold the segment sizes of 5 merged packets"), "{text}");
    assert!(text.contains("name it .pcapng"), "{text}");
    let text = folder.succeeds(&["coalesce", "in.pcap", "out.pcapng"]);
    assert!(!text.contains("cannot hold"), "{text}");
}

#[test]
fn checksum_offload_is_noticed() {
    let folder = Folder::with_capture("tcp4-offload.pcap");
    let text = folder.succeeds(&["coalesce", "in.pcap", "out.pcapng"]);
    assert!(text.contains("24 packets hold only the pseudo header's sum"), "{text}");
    assert!(text.contains("taken on their sender, with checksum offload"), "{text}");
    assert!(text.contains("`--checksum trust`"), "{text}");
    let trusted = folder.succeeds(&["coalesce", "in.pcap", "out.pcapng", "--checksum", "trust"]);
    assert!(!trusted.contains("partial-checksum"), "{trusted}");
    assert!(!trusted.contains("pseudo header"), "{trusted}");
}

/// Super-segments of a sender become what its card would have sent.
#[test]
fn mss_and_mtu_bound_every_packet() {
    let folder = Folder::with_capture("tcp4-offload.pcap");
    let longest = |bytes: &[u8]| packets(bytes).iter().map(|p| p.data.len()).max().unwrap();
    assert!(longest(&folder.read("in.pcap")) > 40_000);
    folder.succeeds(&["segment", "in.pcap", "mtu.pcap", "--mtu", "1500"]);
    assert_eq!(longest(&folder.read("mtu.pcap")), 14 + 1500);
    // The timestamps option takes 12 bytes.
    folder.succeeds(&["segment", "in.pcap", "mss.pcap", "--mss", "1000"]);
    assert_eq!(longest(&folder.read("mss.pcap")), 14 + 20 + 32 + 1000);
    let text = folder.succeeds(&["segment", "in.pcap", "same.pcap"]);
    assert!(text.contains("larger than 1500 bytes"), "{text}");
    assert!(text.contains("use --mss or --mtu"), "{text}");
    assert_eq!(packets(&folder.read("same.pcap")), packets(&folder.read("in.pcap")));
}

/// A pcap file of Ethernet frames, each with the length that it had on the wire.
fn pcap(frames: &[(&[u8], usize)]) -> Vec<u8> {
    let mut bytes = 0xA1B2_C3D4_u32.to_le_bytes().to_vec();
    bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    for (number, (kept, len)) in frames.iter().enumerate() {
        for field in [number, 0, kept.len(), *len] {
            bytes.extend((field as u32).to_le_bytes());
        }
        bytes.extend(*kept);
    }
    bytes
}

/// No segment is longer than the 16 bits of its length field: the packet stays as it is, and the user
/// hears which field, by how much, and what to do.
#[test]
fn a_segment_size_beyond_a_length_field_is_refused() {
    let folder = Folder::new();
    // TCP over IPv4, 70,000 bytes, whose total length does not fit and is 0 ("BIG TCP").
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.resize(frame.len() + 70_000, 7);
    folder.write("in.pcap", &pcap(&[(&frame, frame.len())]));
    let text = folder.succeeds(&["segment", "in.pcap", "out.pcap", "--mss", "65535"]);
    assert!(text.contains("length-field"), "{text}");
    assert!(text.contains("IPv4 total length 65575 exceeds 65535"), "{text}");
    assert!(text.contains("choose smaller segments"), "{text}");
    assert_eq!(packets(&folder.read("out.pcap")), packets(&folder.read("in.pcap")));
    // The longest that fits.
    let text = folder.succeeds(&["segment", "in.pcap", "out.pcap", "--mss", "65495"]);
    assert!(!text.contains("length-field"), "{text}");
    let lens: Vec<_> = packets(&folder.read("out.pcap")).iter().map(|p| p.data.len()).collect();
    assert_eq!(lens, [14 + 65_535, 14 + 40 + 70_000 - 65_495]);
}

/// The first bytes of each packet of a pcap file, as with a snap length.
fn snapped(bytes: &[u8], most: usize) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    let (mut out, mut at) = (bytes[..24].to_vec(), 24);
    while at < bytes.len() {
        let len = number(at + 8);
        let kept = len.min(most);
        out.extend(&bytes[at..at + 8]);
        out.extend((kept as u32).to_le_bytes());
        out.extend(&bytes[at + 12..at + 16 + kept]);
        at += 16 + len;
    }
    out
}

/// Promise (Captures): Of captures that are cut short behind the headers, `coalesce` finds the same
/// figures and reasons as of the whole ones, and leaves their packets as they are.
#[test]
fn a_snapped_capture_is_examined_by_its_headers() {
    let names =
        ["8flows", "bidir", "bulk", "loss", "ns", "qinq", "rawip", "reorder", "sll1", "sll2"];
    let mut merged = 0;
    for name in
        names.map(|name| format!("tcp4-{name}")).iter().map(String::as_str).chain(["tcp6-bulk"])
    {
        let folder = Folder::with_capture(&format!("{name}.pcap"));
        let short = snapped(&folder.read("in.pcap"), 96);
        folder.write("short.pcap", &short);
        let account = |input: &str| -> Json {
            let text = folder.succeeds(&["coalesce", input, "out.pcapng", "--json"]);
            serde_json::from_str(&text).unwrap()
        };
        let (whole, by_headers) = (account("in.pcap"), account("short.pcap"));
        for section in ["merging", "flushed", "refused"] {
            assert_eq!(by_headers[section], whole[section], "{name}: {section}");
        }
        merged += by_headers["merging"]["merged"].as_u64().unwrap();
        assert_eq!(packets(&folder.read("out.pcapng")), packets(&short), "{name}");
    }
    assert!(merged > 200, "{merged}");
}

/// With a snap length packets are examined by their headers, or cannot be at all, and the user hears why.
#[test]
fn a_snapped_capture_says_what_its_figures_mean() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let whole = flat(folder.succeeds(&["coalesce", "in.pcap", "out.pcapng"]));
    assert!(!whole.contains("snap length"), "{whole}");
    for (len, says) in [(96, "of them were examined by their headers"), (40, "cannot be merged")] {
        folder.write("short.pcap", &snapped(&folder.read("in.pcap"), len));
        let text = flat(folder.succeeds(&["coalesce", "short.pcap", "out.pcapng"]));
        let snap = format!("were cut short by the capture's snap length of {len} bytes.");
        assert!([&snap, says, "`tcpdump -s 0`"].iter().all(|part| text.contains(part)), "{text}");
        let text = flat(folder.succeeds(&["segment", "short.pcap", "out.pcapng"]));
        assert!(text.contains(&snap) && text.contains("cannot be segmented"), "{text}");
    }
}

/// Real ones of 68, 96, 128 and 200 bytes.
#[test]
fn real_snapped_captures_merge_by_their_headers() {
    for (name, least) in [("tcptrace/dsack.dmp", 1_000), ("tcptrace/urgent.dmp", 10)] {
        let Some(path) = linecard_testkit::captures::real_named(name) else { return };
        let folder = Folder::new();
        let input = path.to_str().unwrap();
        let text = folder.succeeds(&["coalesce", input, "out.pcapng", "--hold", "100ms", "--json"]);
        let json: Json = serde_json::from_str(&text).unwrap();
        assert!(json["merging"]["merged"].as_u64().unwrap() >= least, "{name}: {json:#}");
        assert_eq!(
            packets(&folder.read("out.pcapng")),
            packets(&fs::read(&path).unwrap()),
            "{name}"
        );
    }
}

/// Compressed by common tools, and by this command.
#[test]
fn compressed_captures_are_read_and_written() {
    let folder = Folder::with_capture("tcp4-8flows.pcap");
    let account = |input: &str, output: &str| -> Json {
        let text = folder.succeeds(&["coalesce", input, output, "--json"]);
        let mut json: Json = serde_json::from_str(&text).unwrap();
        json["config"].take();
        json
    };
    let whole = account("in.pcap", "plain.pcapng");
    for (tool, ending) in [("gzip", "gz"), ("zstd", "zst"), ("lz4", "lz4")] {
        let (input, output) = (format!("in.pcap.{ending}"), format!("out.pcapng.{ending}"));
        let run = |arguments: &[&str]| {
            let mut tool = std::process::Command::new(tool);
            tool.args(arguments).current_dir(folder.path(".")).output()
        };
        let Ok(packed) = run(&["-kc", "in.pcap"]) else {
            linecard_testkit::skip(format_args!("{tool} of captures"), "it is not installed");
            continue;
        };
        folder.write(&input, &packed.stdout);
        assert_eq!(account(&input, &output), whole, "{tool}");
        assert!(folder.read(&output).len() < folder.read("plain.pcapng").len(), "{tool}");
        let unpacked = run(&["-dc", &output]).unwrap();
        assert!(
            unpacked.status.success() && unpacked.stdout == folder.read("plain.pcapng"),
            "{tool}"
        );
        // Back, from one end to the other, and by `attach`.
        let back = format!("back.pcap.{ending}");
        folder.succeeds(&["segment", &output, &back]);
        let back = run(&["-dc", &back]).unwrap().stdout;
        assert_eq!(packets(&back), packets(&folder.read("in.pcap")), "{tool}");
        let attached = format!("file:attached.pcap.{ending}");
        let arguments = ["attach", &format!("file:{input}"), &attached, "--merge", "none"];
        assert_eq!(folder.run(&arguments).code, Some(0), "{tool}");
        let attached = run(&["-dc", &format!("attached.pcap.{ending}")]).unwrap().stdout;
        assert_eq!(packets(&attached).len(), packets(&folder.read("in.pcap")).len(), "{tool}");
        // The intact part of a truncated file is in the output.
        let half = &packed.stdout[..packed.stdout.len() * 3 / 4];
        folder.write(&input, half);
        let outcome = folder.run(&["segment", &input, "cut.pcap"]);
        assert_eq!(outcome.code, Some(4), "{outcome:?}");
        one_line(&outcome.stderr, &["compressed data is damaged or cut short"]);
    }
}

const FLOW: &str = "192.0.2.1:55090-192.0.2.2:5201";

#[test]
fn one_flow_is_explained_packet_by_packet() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let arguments = ["coalesce", "in.pcap", "out.pcapng", "--explain-flow", FLOW];
    let text = folder.succeeds(&arguments);
    let title = "Flow 192.0.2.1:55090 to 192.0.2.2:5201, packet by packet";
    let lines: Vec<&str> = text.lines().skip_while(|line| *line != title).skip(1).collect();
    // The flow has 46 packets; lines about flushes come on top.
    let decided = |line: &&&str| line.contains(" B  ") && line.contains("+0.");
    assert_eq!(lines.iter().filter(decided).count(), 46, "{text}");
    let merged = lines.iter().filter(|line| line.ends_with("  merged")).count();
    let opened = lines.iter().filter(|line| line.contains("opens a merged packet")).count();
    assert!(merged > 30 && opened > 3, "{text}");
    assert!(text.contains("flushed 14 packets from #"), "{text}");
    assert!(text.contains("(end-flag)") && text.contains("(no-payload)"), "{text}");
    let text = folder.succeeds(&[&arguments[..], &["--json"]].concat());
    let json: Json = serde_json::from_str(&text).unwrap();
    let rows = json["flow"].as_array().unwrap();
    assert_eq!(rows.len(), lines.len());
    assert!(lines[0].contains(rows[0]["value"].as_str().unwrap()));
}

#[test]
fn the_largest_flows_are_listed_with_the_reason_why_they_do_not_merge() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let arguments = ["coalesce", "in.pcap", "out.pcapng", "--flows", "2", "--json"];
    let json: Json = serde_json::from_str(&folder.succeeds(&arguments)).unwrap();
    let flows = json["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2, "{json}");
    let data = flows.iter().find(|flow| flow["label"] == format!("tcp {FLOW}")).unwrap();
    assert_eq!(data["value"]["packets"], 46);
    assert!(data["value"]["merged"].as_u64().unwrap() > 30, "{data}");
    // Acknowledgments have nothing to merge.
    let back = flows.iter().find(|flow| *flow != data).unwrap();
    assert_eq!(
        (&back["value"]["merged"], &back["value"]["reason"]),
        (&0.into(), &"no-payload".into())
    );
    assert_eq!(back["value"]["refused"], back["value"]["packets"]);
    let text = folder.succeeds(&arguments[..5]);
    assert!(text.contains(FLOW) && text.contains("did not merge: no-payload"), "{text}");
    assert!(!folder.succeeds(&arguments[..3]).contains(FLOW));
}

/// As with all wrong arguments, nothing is written.
#[test]
fn an_unknown_flow_names_the_largest_ones() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let flow = "10.9.8.7:1-10.9.8.6:2";
    let outcome = folder.run(&["coalesce", "in.pcap", "out.pcapng", "--explain-flow", flow]);
    assert_eq!(outcome.code, Some(2));
    one_line(&outcome.stderr, &[flow, "no such flow", "192.0.2.1:55090-192.0.2.2:5201 (46)"]);
    assert_eq!((outcome.stdout.as_str(), folder.path("out.pcapng").exists()), ("", false));
}

#[test]
fn an_unknown_flow_of_a_capture_without_flows() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    folder.write("none.pcap", &folder.read("in.pcap")[..24]);
    let flow = "[fd00::1]:1-[fd00::2]:2";
    let outcome = folder.run(&["coalesce", "none.pcap", "out.pcapng", "--explain-flow", flow]);
    assert_eq!(outcome.code, Some(2));
    one_line(&outcome.stderr, &[flow, "it has no TCP or UDP flow"]);
}

/// Known link types are listed, and every packet is passed as it was.
#[test]
fn an_unknown_link_type_is_copied_and_said() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let mut bytes = folder.read("in.pcap");
    bytes[20] = 147;
    folder.write("user.pcap", &bytes);
    for (command, out) in [("coalesce", "a.pcap"), ("segment", "b.pcap"), ("coalesce", "c.pcapng")]
    {
        let outcome = folder.run(&[command, "user.pcap", out]);
        assert_eq!(outcome.code, Some(3), "{outcome:?}");
        one_line(&outcome.stderr, &["user.pcap", "link type 147 (80 packets)", "Ethernet"]);
        assert_eq!(packets(&folder.read(out)), packets(&bytes));
    }
    assert_eq!(folder.read("b.pcap"), bytes);
    // Packets may grow when they merge, which the header's snapshot length has to allow.
    let mut copy = folder.read("a.pcap");
    copy[16..20].copy_from_slice(&bytes[16..20]);
    assert_eq!(copy, bytes);
}

/// An existing output is replaced, through a link as well.
#[test]
fn an_existing_output_is_replaced() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    folder.write("old.pcapng", b"old");
    std::os::unix::fs::symlink("old.pcapng", folder.path("link.pcapng")).unwrap();
    folder.succeeds(&["coalesce", "in.pcap", "link.pcapng"]);
    assert!(folder.path("link.pcapng").is_symlink());
    assert_eq!(packets(&folder.read("old.pcapng")).len(), 43);
    assert_eq!(folder.names(), ["in.pcap", "link.pcapng", "old.pcapng"]);
}

/// A device, which has no name to take later, is written as it is.
#[test]
fn a_device_is_written_directly() {
    let input = capture("tcp4-bulk.pcap");
    Folder::new().succeeds(&["coalesce", input.to_str().unwrap(), "/dev/null"]);
}
