//! tshark as an independent witness: what `coalesce` and `segment` write has no bad checksum and
//! no malformed packet that was not there before, and the restored packets equal the input.
//!
//! Every capture is converted and compared in every run. Outputs that are equal byte for byte need
//! no witness, so tshark reads the outputs in which packets were merged: of the real captures a
//! sample in the normal run, all with `LINECARD_LONG=1`. The real captures are found at
//! `LINECARD_CAPTURES`, or beside the project.
//!
//! A merged UDP packet holds several messages, which a dissector above UDP might call malformed
//! although every layer up to UDP is right. tshark 4.0 says so of none of the merged packets of
//! the real captures (DNS, RTP, QUIC, DTLS, DHCP, VXLAN, GTP and 30 more), so the check is not
//! restricted to the lower layers.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

#[path = "../support/around.rs"]
mod around;
mod conversion;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod tshark;
mod tunnels;

use around::is_there;
use conversion::{Checksum, Conversion};
use linecard_testkit::{captures, is_long, root, say};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tshark::{Fault, Verdict};

/// Number of real captures with merged packets that the normal run shows to tshark.
const SAMPLE: usize = 100;
/// tshark takes most of the time; the machines of the tests have two cores.
const THREADS: usize = 2;

/// Does something for each, on all threads; gives the results in no order.
fn for_each<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut results = Vec::new();
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            results.push(work(one));
        }
        results
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Converts all with both policies; gives what merged, in the order of the names.
fn convert(files: &[PathBuf]) -> Vec<Conversion> {
    let jobs: Vec<_> =
        files.iter().flat_map(|f| [(f, Checksum::Verify), (f, Checksum::Trust)]).collect();
    let made = for_each(&jobs, |(file, checksum)| Conversion::make(file, *checksum));
    let captures = made.iter().flatten().count() / 2;
    let mut merged: Vec<_> = made.into_iter().flatten().filter(|made| made.merged > 0).collect();
    merged.sort_by(|a, b| (&a.input, a.checksum).cmp(&(&b.input, b.checksum)));
    say(&format!(
        "{} files, {captures} captures converted with both policies, all came back equal; {} outputs \
         have merged packets",
        files.len(),
        merged.len()
    ));
    merged
}

/// Shows conversions to tshark; every complaint about an output that its input does not explain.
fn complaints(conversions: &[Conversion]) -> Vec<String> {
    for_each(conversions, |conversion| {
        let (was, is) = (Verdict::of(&conversion.input), Verdict::of(conversion.merged_file()));
        is.complaints(&was, &conversion.origins())
            .into_iter()
            .map(|text| {
                format!("{} ({:?}): {text}", conversion.input.display(), conversion.checksum)
            })
            .collect::<Vec<_>>()
    })
    .concat()
}

/// Promise (Captures): tshark finds no bad checksum and no malformed packet in an output whose
/// input had none.
#[test]
fn tshark_finds_nothing_new_in_our_own_captures() {
    if !is_there("tshark", "the independent witness") {
        return;
    }
    let merged = convert(&captures::own());
    assert!(merged.len() >= 25, "little was merged");
    assert_eq!(complaints(&merged), Vec::<String>::new());
}

#[test]
fn tshark_finds_nothing_new_in_real_captures() {
    let (true, Some(files)) = (is_there("tshark", "the independent witness"), captures::real())
    else {
        return;
    };
    let merged = convert(&files);
    assert!(merged.len() >= 100, "little was merged");
    // Odd, as both policies take turns.
    let step = if is_long() { 1 } else { merged.len().div_ceil(SAMPLE) | 1 };
    let shown: Vec<Conversion> = merged.into_iter().step_by(step).collect();
    say(&format!("{} outputs are shown to tshark; all with LINECARD_LONG=1", shown.len()));
    assert_eq!(complaints(&shown), Vec::<String>::new());
}

/// Every encapsulation, made here: as sent, and with things that go wrong.
#[test]
fn tshark_finds_nothing_new_in_tunnels() {
    if !is_there("tshark", "the independent witness") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [good, odd] = ["good.pcap", "odd.pcap"].map(|name| folder.path().join(name));
    tunnels::write(&good, &tunnels::good());
    tunnels::write(&odd, &tunnels::odd());
    // The witness sees into them.
    let (was, odd_was) = (Verdict::of(&good), Verdict::of(&odd));
    assert_eq!(was.wrong(), None);
    for protocol in ["vxlan", "geneve", "gre", "mpls", "pppoes", "ppp", "vlan", "ip", "ipv6"] {
        assert!(was.with(protocol) >= 20, "{protocol}");
    }
    for fault in [Fault::TcpChecksum, Fault::UdpChecksum, Fault::GreChecksum] {
        assert!(odd_was.with_fault(fault) >= 4, "{fault:?}");
    }
    let merged = convert(&[good.clone(), odd]);
    assert_eq!(merged.len(), 4);
    for conversion in &merged {
        let packets = tunnels::good().len();
        assert!(conversion.merged > packets / 2, "{} of {packets}", conversion.merged);
    }
    assert_eq!(complaints(&merged), Vec::<String>::new());
    for (what, folder) in conversion::cuts_of_merged(&[good]) {
        let cut = Verdict::of(&folder.path().join("cut.pcapng"));
        assert_eq!(cut.wrong(), None, "{what}");
        assert!(cut.with("vxlan") >= 20);
    }
}

/// The output of `segment` is equal byte for byte, but tshark may read it, too.
#[test]
fn tshark_reads_what_comes_back_as_what_went_in() {
    if !is_there("tshark", "the independent witness") {
        return;
    }
    let merged = convert(&captures::own());
    let different = for_each(&merged, |conversion| {
        let (was, is) = (Verdict::of(&conversion.input), Verdict::of(conversion.back_file()));
        (was != is).then(|| conversion.input.display().to_string())
    });
    assert_eq!(different.into_iter().flatten().collect::<Vec<_>>(), Vec::<String>::new());
}

/// Packets that `segment` makes itself, of super-segments as a sender's stack hands them down.
#[test]
fn tshark_finds_nothing_wrong_in_what_segment_cuts() {
    if !is_there("tshark", "the independent witness") {
        return;
    }
    let cuts = conversion::cuts_of_merged(&captures::own());
    assert!(cuts.len() > 20);
    let bad = for_each(&cuts, |(what, folder)| {
        let verdict = Verdict::of(&folder.path().join("cut.pcapng"));
        verdict.wrong().map(|wrong| format!("{what}: {wrong}"))
    });
    assert_eq!(bad.into_iter().flatten().collect::<Vec<_>>(), Vec::<String>::new());
}

/// The bytes of TCP streams as tshark puts them together, before and after.
#[test]
fn streams_have_the_same_bytes() {
    if !is_there("tshark", "the independent witness") {
        return;
    }
    let mut merged = convert(&captures::own());
    merged.retain(|made| made.checksum == Checksum::Verify && made.name().starts_with("tcp"));
    assert!(merged.len() >= 10);
    let compared = for_each(&merged, |conversion| {
        let (was, is) = (streams::of(&conversion.input), streams::of(conversion.merged_file()));
        assert_eq!(was, is, "{}", conversion.name());
        was.values().filter(|stream| !stream.is_empty()).count()
    });
    let streams: usize = compared.into_iter().sum();
    assert!(streams >= 20, "only {streams} streams have data");
}

/// The witness can see: a wrong byte is found.
#[test]
fn the_witness_is_awake() {
    if !is_there("tshark", "the independent witness") {
        return;
    }
    let input = root().join("testdata/captures/tcp4-bulk.pcap");
    let conversion = Conversion::make(&input, Checksum::Verify).unwrap();
    let mut bytes = fs::read(conversion.merged_file()).unwrap();
    // Somewhere in the payload of the largest packet.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(conversion.merged_file(), bytes).unwrap();
    let (was, is) = (Verdict::of(&input), Verdict::of(conversion.merged_file()));
    let complaints = is.complaints(&was, &conversion.origins());
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains("tcp checksum"), "{complaints:?}");
}
