//! Damaged captures: all before the damage is in the output, the line names the byte, exit code 4.

use crate::entries::{offsets, packets};
use crate::folder::{Folder, one_line};

/// Runs both commands; gives the line and what `segment` makes of what `coalesce` wrote.
fn damaged(folder: &Folder, input: &str, parts: &[&str]) -> Vec<u8> {
    for (command, out) in [("coalesce", "mid.pcapng"), ("segment", "direct.pcapng")] {
        let outcome = folder.run(&[command, input, out]);
        assert_eq!(outcome.code, Some(4), "{outcome:?}");
        one_line(&outcome.stderr, &[&[input, "everything before it"], parts].concat());
        assert!(outcome.stdout.contains("packets in"), "the statistics are printed all the same");
    }
    folder.succeeds(&["segment", "mid.pcapng", "back.pcapng"]);
    let (back, direct) = (folder.read("back.pcapng"), folder.read("direct.pcapng"));
    assert_eq!(packets(&back), packets(&direct));
    assert!(folder.names().iter().all(|name| !name.contains("partial")));
    back
}

/// Promise (Command): Bad input gives one line and its documented exit code, and no half-written
/// output; each case is a test.
#[test]
fn a_pcap_file_cut_short() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let whole = folder.read("in.pcap");
    let offsets = offsets(&whole);
    let all = packets(&whole);
    assert_eq!((offsets.len(), *offsets.last().unwrap()), (81, whole.len()));
    for (number, more) in [(0, 1), (0, 15), (1, 16), (40, 17), (79, 30)] {
        folder.write("cut.pcap", &whole[..offsets[number] + more]);
        let place = format!("damaged at byte {}:", offsets[number]);
        let got = packets(&damaged(&folder, "cut.pcap", &[&place]));
        assert_eq!(got[..], all[..number], "cut in packet {number}");
    }
    // Between two packets nothing is missing that could be known of.
    folder.write("cut.pcap", &whole[..offsets[40]]);
    folder.succeeds(&["coalesce", "cut.pcap", "out.pcapng"]);
}

#[test]
fn a_pcapng_file_cut_short() {
    let folder = Folder::with_capture("tcp4-two-interfaces.pcapng");
    let whole = folder.read("in.pcap");
    let all = packets(&whole);
    for cut in [whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        folder.write("cut.pcapng", &whole[..cut]);
        let got = packets(&damaged(&folder, "cut.pcapng", &["damaged at byte "]));
        assert_eq!(got[..], all[..got.len()]);
        assert_eq!(got.len(), packets(&whole[..cut]).len());
        assert!(got.len() > 10 && got.len() < all.len());
    }
}

/// A length that nothing can have.
#[test]
fn a_record_that_claims_too_much() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let mut bytes = folder.read("in.pcap");
    let at = offsets(&bytes)[30];
    bytes[at + 8..at + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    folder.write("bad.pcap", &bytes);
    let place = format!("damaged at byte {at}: record claims 4294967295 bytes");
    let got = packets(&damaged(&folder, "bad.pcap", &[&place]));
    assert_eq!(got.len(), 30);
}

/// So does what arrives on stdin.
#[test]
fn a_damaged_stream() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let whole = folder.read("in.pcap");
    folder.write("cut.pcap", &whole[..whole.len() - 1]);
    let stdin = std::fs::File::open(folder.path("cut.pcap")).unwrap();
    let output = folder.command(&["segment", "-", "-"]).stdin(stdin).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(packets(&output.stdout)[..], packets(&whole)[..79]);
    let last = offsets(&whole)[79];
    let stderr = String::from_utf8(output.stderr).unwrap();
    let line = stderr.lines().last().unwrap();
    assert!(line.starts_with(&format!("linecard: -: damaged at byte {last}:")), "{stderr}");
}

/// A header that is cut leaves nothing to write, and nothing is written.
#[test]
fn a_file_header_cut_short() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    folder.write("head.pcap", &folder.read("in.pcap")[..20]);
    folder.write("old.pcapng", b"precious");
    for out in ["new.pcapng", "old.pcapng"] {
        folder.refuses(4, &["coalesce", "head.pcap", out], &["head.pcap", "damaged at byte 0"]);
    }
}
