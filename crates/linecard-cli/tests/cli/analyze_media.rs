//! `linecard jitter analyze` beside EBU LIST: the results that LIST keeps beside its test captures, and facts of its
//! other captures.
//!
//! The results are those of `js/tests/pcaps/*.json` of github.com/ebu/pi-list at
//! beaac28d8fc14d1eefdbfcbb2f96b090fb467568. The captures are in no repository of ours: tests find them by
//! `LINECARD_CAPTURES`.

use crate::analyze::{START_NS, Seen, json, pcap, real, tshark};
use crate::around::is_there;
use crate::folder::Folder;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Where LIST's figure is not ours, exactly: in what, and by how much at most.
struct Near {
    pointer: &'static str,
    list_ns: f64,
    tolerance_ns: f64,
}

/// LIST converts seconds since 1970 in binary64 to nanoseconds: in 2018, its steps are 238 ns.
const BINARY64_NS: f64 = 256.0;
/// Starts of frames are rounded to ticks of 90 kHz before time stamps are compared with them: half a tick, and the above.
const HALF_TICK_NS: f64 = 5_556.0 + BINARY64_NS;

const NEAR: [Near; 9] = [
    Near { pointer: "/media/offset/min_ns", list_ns: 606_720.0, tolerance_ns: BINARY64_NS },
    Near { pointer: "/media/offset/mean_ns", list_ns: 615_145.0, tolerance_ns: BINARY64_NS },
    Near { pointer: "/media/offset/max_ns", list_ns: 621_984.0, tolerance_ns: BINARY64_NS },
    Near { pointer: "/media/behind/min_ns", list_ns: 617_743.0, tolerance_ns: HALF_TICK_NS },
    Near { pointer: "/media/behind/mean_ns", list_ns: 626_246.1, tolerance_ns: HALF_TICK_NS },
    Near { pointer: "/media/behind/max_ns", list_ns: 633_240.0, tolerance_ns: HALF_TICK_NS },
    Near { pointer: "/timing/nominal_ns/ns", list_ns: 7_414.814_814_814_815, tolerance_ns: 1e-6 },
    // LIST's mean has whole microseconds, rounded down.
    Near { pointer: "/gaps/mean/ns", list_ns: 6_000.0, tolerance_ns: 1_500.0 },
    Near { pointer: "/media/rate", list_ns: 59.940_059_940_059_94, tolerance_ns: 1e-9 },
];

/// Promise (Jitter): The figures of a real 1080i59.94 stream are those that EBU LIST stores beside its capture: picture,
/// rate, TRO, `C_inst` and limits, exactly or within a stated tolerance, where `LINECARD_CAPTURES` names it.
#[test]
fn a_real_picture_has_the_figures_of_list() {
    let Some(path) = real("eemebe_t_1080i59.pcap") else { return };
    let found = json(&Folder::new(), &[path.to_str().unwrap()]);
    for (pointer, list) in [
        ("/stream/packets", Json::from(21_600)),
        ("/stream/lost", 0.into()),
        ("/timing/units", 10.into()),
        ("/media/picture/width", 1_920.into()),
        ("/media/picture/height", 1_080.into()),
        ("/media/picture/scan", "interlaced".into()),
        ("/media/sampling/names/0", "YCbCr-4:2:2".into()),
        ("/media/sampling/depths/0", 10.into()),
        ("/media/unit_packets/min", 2_160.into()),
        ("/media/unit_packets/max", 2_160.into()),
        ("/media/default_offset/ns", 652_504.into()),
        ("/gaps/range/min_ns", 6_000.into()),
        ("/gaps/range/max_ns", 11_000.into()),
        ("/buffers/narrow/c_max", 4.into()),
        ("/buffers/narrow/within_c_max", true.into()),
        ("/buffers/narrow/vrx_full", 8.into()),
        ("/buffers/narrow/within_vrx_full", true.into()),
        ("/buffers/wide/c_max", 16.into()),
        ("/buffers/wide/vrx_full", 720.into()),
    ] {
        assert_eq!(found.pointer(pointer), Some(&list), "{pointer}");
    }
    assert_eq!(found["media"]["sampling"]["names"].as_array().map(Vec::len), Some(1));
    for Near { pointer, list_ns, tolerance_ns } in NEAR {
        let ours = found.pointer(pointer).and_then(Json::as_f64).unwrap_or(f64::NAN);
        assert!((ours - list_ns).abs() <= tolerance_ns, "{pointer}: {ours}, LIST {list_ns}");
    }
    // LIST does not count the packet that arrives.
    let list = counts(&[(0, 88.222_221_374_511_72), (1, 11.777_777_671_813_965)], 21_600);
    assert_eq!(levels(&found["buffers"]["c_inst_before"]), list);
}

/// LIST's share of packets at each level, in percent, as numbers of packets.
fn counts(histogram: &[(i64, f64)], packets: u64) -> BTreeMap<i64, u64> {
    let count =
        |(level, percent): &(i64, f64)| (*level, (percent * packets as f64 / 100.0).round() as u64);
    histogram.iter().map(count).collect()
}

fn levels(found: &Json) -> BTreeMap<i64, u64> {
    let pair = |pair: &Json| (pair[0].as_i64().unwrap(), pair[1].as_u64().unwrap());
    found["levels"].as_array().unwrap().iter().map(pair).collect()
}

/// How the occupancy of 1080i59.94 is counted.
#[derive(Clone, Copy)]
struct Rules {
    /// Reading the second field begins with line 563 of 1,125 (ST 2110-21), or half a frame after the first.
    has_line_563: bool,
    /// Before reading begins, packets count as read less than zero times.
    reads_negatively: bool,
    /// The first field is left out.
    skips_first: bool,
}

/// Packets by the occupancy that they met, with each field counted alone, in units of 1/(60 · 1125 · 2160) ns.
fn occupancies(seen: &[Seen], rules: Rules) -> BTreeMap<i64, u64> {
    const UNIT: i128 = 60 * 1_125 * 2_160;
    const FIELD: i128 = 1_001_000_000 * 1_125 * 2_160;
    const HALF_LINE: i128 = FIELD / 1_125;
    const TRO: i128 = 44 * HALF_LINE;
    const TRS: i128 = 1_001_000_000 * 1_080;
    let (mut levels, mut start, mut come) = (BTreeMap::new(), None, 0_i64);
    for (index, packet) in seen.iter().enumerate() {
        let at = i128::from(packet.at_ns) * UNIT;
        if index % 2_160 == 0 {
            come = 0;
            let is_second = index % 4_320 == 2_160;
            let late = if rules.has_line_563 && is_second { HALF_LINE } else { 0 };
            start =
                Some(at / FIELD * FIELD + TRO + late).filter(|_| !rules.skips_first || index > 0);
        }
        let Some(start) = start else { continue };
        come += 1;
        let (since, read_since) = (at - start, at - start + TRS);
        let read = if since >= 0 || rules.reads_negatively { read_since / TRS } else { 0 };
        *levels.entry(come - read as i64).or_insert(0) += 1;
    }
    levels
}

/// Promise (Jitter): EBU LIST's histogram of VRX for a real 1080i59.94 stream differs from ours by three rules, and a
/// counting loop over the output of tshark gives either with them, where `LINECARD_CAPTURES` names the capture and tshark
/// is installed.
///
/// LIST leaves out the first field, counts reads before `T_VD` as less than none, and has the second field read half a
/// frame after the first instead of from line 563 on (docs/design/statistics.md).
#[test]
fn the_vrx_of_list_differs_by_three_rules() {
    let Some(path) = real("eemebe_t_1080i59.pcap") else { return };
    let found = json(&Folder::new(), &[path.to_str().unwrap()]);
    let ours = levels(&found["buffers"]["vrx_arrivals"]);
    assert_eq!(ours.values().sum::<u64>(), 21_600);
    if !is_there("tshark", "the VRX of a real picture") {
        return;
    }
    let seen = tshark(&path, 50_000);
    assert!(seen.iter().enumerate().all(|(at, packet)| packet.marker == (at % 2_160 == 2_159)));
    let list = counts(
        &[
            (4, 0.102_880_656_719_207_76),
            (5, 55.452_674_865_722_656),
            (6, 0.123_456_791_043_281_56),
            (7, 44.320_987_701_416_016),
        ],
        19_440,
    );
    let of_list = Rules { has_line_563: false, reads_negatively: true, skips_first: true };
    assert_eq!(occupancies(&seen, of_list), list);
    let of_standard = Rules { has_line_563: true, reads_negatively: false, skips_first: false };
    assert_eq!(occupancies(&seen, of_standard), ours);
}

/// LIST counts 12 and 6 packets of subtitles. They have 12 and 6 sources (SSRC), so they are no stream of RTP, and that is
/// said.
#[test]
fn subtitles_of_a_source_per_packet_are_refused() {
    for (name, packets) in
        [("ttmlRTP_fourPacketDocs.pcap", 12), ("ttmlRTP-invalid-clock-timing.pcap", 6)]
    {
        let Some(path) = real(name) else { return };
        let others = format!("{} of its {packets} packets", packets - 1);
        let arguments = ["jitter", "analyze", path.to_str().unwrap()];
        Folder::new().refuses(11, &arguments, &[name, &others, "another source (SSRC)"]);
    }
}

/// Promise (Jitter): JPEG XS of ST 2110-22 is recognised in a real capture with its frame rate and packets per frame, where
/// `LINECARD_CAPTURES` names it.
#[test]
fn real_jpeg_xs_has_its_frames() {
    let Some(path) = real("250mbps-JPEGXS.pcap") else { return };
    let found = json(&Folder::new(), &[path.to_str().unwrap()]);
    assert_eq!(found["stream"]["kind"], "ST 2110-22 video, JPEG XS");
    assert_eq!(found["timing"]["schedule"]["name"], "rtp-time");
    let media = &found["media"];
    assert!((media["rate"].as_f64().unwrap() - 59.94).abs() < 0.001, "{media}");
    assert_eq!(
        (&media["unit_packets"]["min"], &media["unit_packets"]["max"]),
        (&433.into(), &433.into())
    );
    assert_eq!(media["packet_octets"]["max"], 1_216);
    // The stream has 250 Mbit/s by its name.
    let octets = media["unit_packets"]["max"].as_f64().unwrap()
        * media["packet_octets"]["max"].as_f64().unwrap();
    let bits_per_second = 8.0 * octets * media["rate"].as_f64().unwrap();
    assert!((bits_per_second / 250e6 - 1.0).abs() < 0.02, "{bits_per_second}");
    assert!(found["media"]["offset"].is_null(), "{media}");
    let text = Folder::new().succeeds(&["jitter", "analyze", path.to_str().unwrap()]);
    assert!(text.contains("does not follow PTP"), "{text}");
}

/// Promise (Jitter): Ancillary data of real captures (ST 2110-40) have their field rate, lines, DID and SDID, and the
/// jitter of the first packets of time stamps, where `LINECARD_CAPTURES` names the captures.
///
/// Field rates by the names of LIST's captures; damaged ones are those whose identification was overwritten.
#[test]
fn real_ancillary_data_have_rates_and_kinds() {
    let kinds = |found: &Json| -> Vec<(String, String)> {
        let all = found["ancillary"].as_array().cloned().unwrap_or_default();
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        all.iter().map(|one| (text(&one["label"]), text(&one["value"]))).collect()
    };
    for (name, rate, damaged) in [
        ("2110-40_5994i.pcap", 60_000.0 / 1_001.0, 0),
        ("empty_data_but_valid.pcap", 50.0, 0),
        ("anc_with_timecode+CC+AFD.pcap", 60_000.0 / 1_001.0, 0),
        ("anc_with_1of4_invalid_DID_SDID.pcap", 60_000.0 / 1_001.0, 37),
    ] {
        let Some(path) = real(name) else { return };
        let found = json(&Folder::new(), &[path.to_str().unwrap()]);
        assert_eq!(found["stream"]["kind"], "ST 2110-40 ancillary data", "{name}");
        assert_eq!(found["timing"]["schedule"]["name"], "rtp-time", "{name}");
        let media = &found["media"];
        assert!((media["rate"].as_f64().unwrap() - rate).abs() < 1e-6, "{name}: {media}");
        assert_eq!(media["damaged"], damaged, "{name}");
        // Jitter of first packets: over all, the packets of one time stamp make it milliseconds.
        let jitter = found["timing"]["jitter_max_ns"].as_f64().unwrap();
        assert!(jitter < 1.1e6, "{name}: {jitter}");
        let most = found["lateness"]["range"]["max_ns"].as_i64().unwrap();
        assert!(most < 17_000_000, "{name}: {most}");
        // LIST's own tests have 5 packets per frame.
        if name == "anc_with_timecode+CC+AFD.pcap" {
            assert_eq!(media["unit_packets"]["max"], 5);
        }
        if name == "2110-40_5994i.pcap" {
            let all = kinds(&found);
            assert_eq!(all.len(), 4, "{all:?}");
            assert_eq!(all[0].0, "line 9");
            assert_eq!(all[0].1, "DID 0x60, SDID 0x60 (timecode, ST 12-2): 15 of them");
            assert_eq!(all[1].1, "DID 0x61, SDID 0x01 (captions, CEA-708): 15 of them");
            assert_eq!((&*all[2].0, &*all[3].0), ("line 10", "line 571"));
        }
    }
}

/// Channels and bits by the content, where the length leaves 2 of 24 and 3 of 16; LIST's own tests have the first.
#[test]
fn real_sound_has_its_channels() {
    for (name, channels, bits) in [
        ("l16_48000_2ch_1ms.pcap", 2, 16),
        ("st2110-30_24bit_48khz_1ms_2ch.pcap", 2, 24),
        ("ST2022-7-Audio.pcap", 1, 24),
    ] {
        let Some(path) = real(name) else { return };
        let found = json(&Folder::new(), &[path.to_str().unwrap()]);
        assert_eq!(found["stream"]["kind"], "ST 2110-30 audio", "{name}");
        let found = &found["media"]["channels"];
        assert_eq!(found["counts"], serde_json::json!([channels]), "{name}");
        assert_eq!(found["bits"], serde_json::json!([bits]), "{name}");
    }
}

/// Packet n of an ST 2110-31 stream of one AES3 signal, a millisecond each.
fn aes3(n: u64) -> (u64, Vec<u8>) {
    let mut payload = vec![0x80, 97];
    payload.extend((n as u16).to_be_bytes());
    payload.extend(((n * 48) as u32).to_be_bytes());
    payload.extend([0, 0, 0, 7]);
    for sample in 0..48 {
        let block = if (n * 48 + sample).is_multiple_of(192) { 0x20 } else { 0 };
        payload.extend([0x10 | block, 1, sample as u8, 3, 0x08, 4, sample as u8, 6]);
    }
    (START_NS + n * 1_000_000, payload)
}

#[test]
fn aes3_is_told_from_pcm() {
    let folder = Folder::new();
    folder.write("aes3.pcap", &pcap((0..1_000).map(aes3)));
    let found = json(&folder, &["aes3.pcap"]);
    assert_eq!(found["stream"]["kind"], "ST 2110-31 audio, AM824");
    assert_eq!(found["media"]["channels"]["counts"], serde_json::json!([2]));
    assert_eq!(
        (&found["audio"]["samples"], &found["audio"]["clock_hz"]),
        (&48.into(), &48_000.into())
    );
    let text = folder.succeeds(&["jitter", "analyze", "aes3.pcap"]);
    assert!(text.contains("2, AES3 subframes of 32 bits"), "{text}");
}

/// A packet of a line in 1280×720, 8 bits, in two pieces, without the clock of PTP.
#[test]
fn a_picture_without_ptp_says_so() {
    let packet = |n: u64| {
        let (frame, line, half) = (n / 1_440, n % 1_440 / 2, n % 2);
        let marker = if n % 1_440 == 1_439 { 0x80 } else { 0 };
        let mut payload = vec![0x80, 96 | marker];
        payload.extend((n as u16).to_be_bytes());
        payload.extend(((frame * 1_800) as u32).to_be_bytes());
        payload.extend([0, 0, 0, 7, 0, 0]);
        for word in [1_280, line, 640 * half] {
            payload.extend((word as u16).to_be_bytes());
        }
        payload.resize(12 + 8 + 1_280, 9);
        (START_NS + frame * 20_000_000 + n % 1_440 * 13_000, payload)
    };
    let folder = Folder::new();
    folder.write("720p.pcap", &pcap((0..1_440 * 5).map(packet)));
    let found = json(&folder, &["720p.pcap"]);
    let picture = &found["media"]["picture"];
    assert_eq!((&picture["width"], &picture["height"]), (&1_280.into(), &720.into()));
    assert_eq!((&picture["scan"], &found["media"]["rate"]), (&"progressive".into(), &50.0.into()));
    assert_eq!(found["media"]["sampling"]["names"], serde_json::json!(["YCbCr-4:2:2", "KEY"]));
    assert!(found["media"]["offset"].is_null() && found["buffers"]["vrx_default"].is_null());
    let text = folder.succeeds(&["jitter", "analyze", "720p.pcap"]);
    assert!(text.contains("YCbCr-4:2:2, 8 bits, or KEY, 16 bits"), "{text}");
    assert!(text.contains("does not follow PTP"), "{text}");
}
