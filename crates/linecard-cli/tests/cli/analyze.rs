//! `linecard jitter analyze`: streams made here, whose figures are known, and real ones, whose figures
//! are computed again from what tshark says.

use crate::around::is_there;
use crate::folder::{CommandOutput, Folder, one_line};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A capture with nanoseconds, of UDP payloads from 10.0.0.1:5000 to 239.0.0.1:5004.
pub(crate) fn pcap(packets: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Vec<u8> {
    let mut file = 0xA1B2_3C4D_u32.to_le_bytes().to_vec();
    for word in [0x0004_0002_u32, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for (at_ns, payload) in packets {
        let len = 28 + payload.len();
        for word in [at_ns / 1_000_000_000, at_ns % 1_000_000_000, len as u64, len as u64] {
            file.extend((word as u32).to_le_bytes());
        }
        file.extend([0x45, 0]);
        file.extend((len as u16).to_be_bytes());
        file.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 239, 0, 0, 1]);
        for port in [5_000_u16, 5_004, (8 + payload.len()) as u16, 0] {
            file.extend(port.to_be_bytes());
        }
        file.extend(payload);
    }
    file
}

/// Packet n of an ST 2022-6 stream of 1080i59.94.
fn sdi(n: u64) -> Vec<u8> {
    let marker = if n % 4_497 == 4_496 { 0x80 } else { 0 };
    let mut payload = vec![0x80, 98 | marker];
    payload.extend((n as u16).to_be_bytes());
    payload.extend(((n / 4_497 * 900_900) as u32).to_be_bytes());
    payload.extend([0, 0, 0, 7, 8, 0, 0, 0, 2, 1, 0x71, 0]);
    payload.resize(1_396, 0);
    payload
}

pub(crate) const START_NS: u64 = 1_700_000_000_000_000_000;

/// Due at a period of 7,419.761 ns.
fn due_ns(n: u64) -> u64 {
    START_NS + n * 7_419_761 / 1_000
}

/// When packet n came to the wire: on time, but packet 6,000 and those that wait behind it.
fn at_the_wire(n: u64) -> u64 {
    if (6_000..6_014).contains(&n) { due_ns(6_000) + 100_000 } else { due_ns(n) }
}

pub(crate) fn json(folder: &Folder, arguments: &[&str]) -> Json {
    let all = [&["jitter", "analyze"], arguments, &["--json"]].concat();
    serde_json::from_str(&folder.succeeds(&all)).unwrap()
}

#[test]
fn an_sdi_stream_is_what_it_was_made_to_be() {
    let folder = Folder::new();
    let came = (0..20_000).filter(|n| *n != 333).map(|n| (at_the_wire(n), sdi(n)));
    folder.write("sdi.pcap", &pcap(came));
    let found = json(&folder, &["sdi.pcap"]);
    assert_eq!(found["stream"]["kind"], "ST 2022-6");
    assert_eq!(found["stream"]["packets"], 19_999);
    assert_eq!(found["stream"]["lost"], 1);
    assert_eq!(found["timing"]["format"], "1080i59.94");
    assert_eq!(found["timing"]["packets_per_frame"], 4_497);
    assert_eq!(found["timing"]["spikes"]["count"], 1);
    // The schedule has fractions of a nanosecond, the capture none.
    let late = found["lateness"]["range"]["max_ns"].as_i64().unwrap();
    assert!((99_999..=100_001).contains(&late), "{late}");
    assert_eq!(found["lateness"]["p99_99"]["n_needed"], 29_956);
    assert_eq!(found["buffers"]["c_inst_max"], 14);
    assert_eq!(found["buffers"]["vrx_least"]["max"], 14);
    assert_eq!(found["buffers"]["narrow"]["within_c_max"], false);
    assert_eq!(found["buffers"]["wide"]["within_c_max"], true);
    let text = folder.succeeds(&["jitter", "analyze", "sdi.pcap", "--sender", "wide"]);
    assert!(text.contains("2110-21 style") && !text.contains("compliant"), "{text}");
    assert!(!text.contains("narrow sender") && text.contains("Cmax 16: within"), "{text}");
    assert!(text.contains("n too small: 19,999 of 29,956"), "{text}");
    assert!(text.lines().count() < 60, "{text}");
}

/// Delay added by the host: 2 µs each, 50 µs more for each 1,000th, and packet 5 not at all, as it is lost.
#[test]
fn two_captures_are_joined_packet_by_packet() {
    let folder = Folder::new();
    // The first capture starts later, beyond a turn of the 16 bits.
    let wire = (70_000..90_000).map(|n| (at_the_wire(n), sdi(n)));
    let added = |n: u64| if n.is_multiple_of(1_000) { 52_000 } else { 2_000 };
    let host = (1_000..89_000).filter(|n| *n != 80_005);
    let host = host.map(|n| (at_the_wire(n) + added(n), sdi(n)));
    folder.write("wire.pcap", &pcap(wire));
    folder.write("host.pcap", &pcap(host));
    let found = json(&folder, &["wire.pcap", "host.pcap"]);
    assert_eq!(found["join"]["both"], 18_999);
    assert_eq!(found["join"]["first_only"], 1_001);
    assert_eq!(found["join"]["second_only"], 69_000);
    assert_eq!(found["join"]["least_ns"], 2_000.0);
    assert_eq!(found["added"]["range"]["max_ns"], 50_000);
    assert_eq!(found["added"]["p50"]["ns"], 0);
    assert_eq!(found["second"]["lost"]["second"], 1);
    folder.write("none.pcap", &pcap((0..50).map(|n| (due_ns(n), vec![1; 30]))));
    let other = ["jitter", "analyze", "wire.pcap", "none.pcap"];
    folder.refuses(11, &other, &["none.pcap", "no flow of ST 2022-6 to 239.0.0.1:5004"]);
}

#[test]
fn what_is_no_stream_is_said() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let analyze = |name| ["jitter", "analyze", name];
    folder.refuses(11, &analyze("in.pcap"), &["in.pcap", "no UDP flow among 80 packets"]);
    let questions = [0, 1, 900_000_000, 2_000_000_000, 2_000_000_010].map(|t| (t, vec![1; 9]));
    folder.write("dns.pcap", &pcap(questions));
    folder.refuses(11, &analyze("dns.pcap"), &["no RTP stream", "5 packets", "no constant rate"]);
    folder.write("two.pcap", &pcap((0..2).map(|n| (due_ns(n), sdi(n)))));
    folder.refuses(11, &analyze("two.pcap"), &["has 2 packets", "at least 3"]);
    folder.write("text", b"no capture at all");
    folder.refuses(1, &analyze("text"), &["text"]);
    folder.refuses(1, &analyze("absent"), &["cannot open absent"]);
    let format = ["jitter", "analyze", "two.pcap", "--format", "4k"];
    folder.refuses(2, &format, &["--format 4k", "1080i59.94", "auto"]);
    let flow = ["jitter", "analyze", "two.pcap", "--flow", "7"];
    folder.refuses(2, &flow, &["--flow 7", "1 UDP flows", "239.0.0.1:5004"]);
}

/// Ancillary data of ST 2110-40, a packet each 20 ms, whose time stamps do not count 90,000 Hz. "None found" was all
/// that was said.
#[test]
fn a_stream_without_a_schedule_says_why() {
    let folder = Folder::new();
    let ancillary = |n: u64| {
        let mut payload = vec![0x80, 0x80 | 100];
        payload.extend((n as u16).to_be_bytes());
        payload.extend(((n * 777) as u32).to_be_bytes());
        payload.extend([0, 0, 0, 9]);
        // Extended sequence number, no bytes, no data packets, a frame.
        payload.extend([0; 8]);
        payload
    };
    let came = (0..50).map(|n| (START_NS + n * 20_000_000, ancillary(n)));
    folder.write("anc.pcap", &pcap(came));
    let text = folder.succeeds(&["jitter", "analyze", "anc.pcap"]);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["none found (the reason is below)", "50 packets were read", "do not follow 90,000 Hz"]
    {
        assert!(flat.contains(part), "no \"{part}\" in {text}");
    }
}

/// Figures of the packets before the damage, and the exit code that says so.
#[test]
fn a_damaged_capture_is_analysed_up_to_there() {
    let folder = Folder::new();
    let mut file = pcap((0..1_000).map(|n| (due_ns(n), sdi(n))));
    file.truncate(file.len() - 7);
    folder.write("cut.pcap", &file);
    let outcome = folder.run(&["jitter", "analyze", "cut.pcap"]);
    assert_eq!(outcome.code, Some(4));
    one_line(&outcome.stderr, &["cut.pcap"]);
    assert!(outcome.stdout.contains("999"), "{}", outcome.stdout);
}

/// A folder of real captures, named by `LINECARD_CAPTURES` or beside the workspace.
pub(crate) fn real(name: &str) -> Option<PathBuf> {
    real_of("pi-list", name)
}

/// The same of another project.
fn real_of(project: &str, name: &str) -> Option<PathBuf> {
    linecard_testkit::captures::real_named(Path::new(project).join(name))
}

/// A packet as tshark sees it.
pub(crate) struct Seen {
    pub(crate) at_ns: u64,
    sequence: u64,
    timestamp: u64,
    pub(crate) marker: bool,
}

pub(crate) fn tshark(capture: &Path, port: u16) -> Vec<Seen> {
    let fields = ["frame.time_epoch", "rtp.seq", "rtp.timestamp", "rtp.marker"];
    let mut command = Command::new("tshark");
    command.args(["-n", "-d", &format!("udp.port=={port},rtp"), "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field])).arg("-r").arg(capture);
    let output = command.arg("-Y").arg("rtp").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let (seconds, fraction) = columns[0].split_once('.').unwrap();
        let nanoseconds: u64 = format!("{fraction:0<9}")[..9].parse().unwrap();
        Seen {
            at_ns: seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanoseconds,
            sequence: columns[1].parse().unwrap(),
            timestamp: columns[2].parse().unwrap(),
            marker: matches!(columns[3], "1" | "True"),
        }
    };
    text.lines().map(line).collect()
}

/// The bucket, drained one packet at a time, in units of 1/(frames · N · 11) ns.
fn c_inst(seen: &[Seen], n: u128, (frames, seconds): (u128, u128)) -> u64 {
    let (unit, drain) = (frames * n * 11, seconds * 1_000_000_000 * 10);
    let (mut next, mut level, mut highest) = (drain, 0_u64, 0);
    for packet in seen {
        let now = u128::from(packet.at_ns - seen[0].at_ns) * unit;
        while next <= now {
            level = level.saturating_sub(1);
            next += drain;
        }
        level += 1;
        highest = highest.max(level);
    }
    highest
}

/// The buffer of 1080i59.94, read one packet at a time from 22/1125 of a frame after the epoch on, in
/// units of 1/(30 · 1125 · 4320) ns: a frame is 1001/30000 s, 1,080 of 1,125 lines are read, and the
/// second field starts with line 563.
fn vrx(seen: &[Seen]) -> (i64, i64) {
    let unit = 30 * 1_125 * 4_320_u128;
    let frame = 1_001_000_000 * 1_125 * 4_320_u128;
    let line = frame / 1_125;
    let epoch = u128::from(seen[0].at_ns) * unit / frame * frame;
    let read_at = |packet: u128| {
        let (field, place) = (packet % 4_320 / 2_160, packet % 2_160);
        epoch + packet / 4_320 * frame + line * (22 + 563 * field) + place * (line * 1_080 / 4_320)
    };
    let (mut read, mut least, mut most) = (0, i64::MAX, i64::MIN);
    for (index, packet) in seen.iter().enumerate() {
        while read_at(read) < u128::from(packet.at_ns) * unit {
            read += 1;
        }
        least = least.min(index as i64 - read as i64);
        most = most.max(index as i64 + 1 - read as i64);
    }
    (least, most)
}

/// Promise (Jitter): Figures of a real 1080i59.94 capture (`C_inst`, VRX, N, gaps) equal counting
/// loops over the output of tshark, where `LINECARD_CAPTURES` names it and tshark is installed.
///
/// pi-list's picture, as tshark and slow twins have it.
#[test]
fn a_real_picture_is_as_its_twins_say() {
    let Some(path) = real("eemebe_t_1080i59.pcap") else { return };
    let folder = Folder::new();
    let found = json(&folder, &[path.to_str().unwrap()]);
    assert_eq!(found["stream"]["kind"], "ST 2110-20 video");
    assert_eq!(found["stream"]["packets"], 21_600);
    assert_eq!(found["stream"]["lost"], 0);
    assert_eq!(found["stream"]["resolution_ns"], 1_000.0);
    assert_eq!(found["timing"]["packets_per_frame"], 4_320);
    assert_eq!(found["timing"]["units"], 10);
    assert_eq!(found["buffers"]["c_inst_max"], 2);
    assert_eq!(found["buffers"]["vrx_default"]["min"], 0);
    assert_eq!(found["buffers"]["vrx_default"]["max"], 7);
    assert_eq!(found["buffers"]["narrow"]["c_max"], 4);
    assert_eq!(found["buffers"]["narrow"]["vrx_full"], 8);
    assert_eq!(found["gaps"]["range"]["max_ns"], 11_000);
    if !is_there("tshark", "figures of a real picture") {
        return;
    }
    let seen = tshark(&path, 50_000);
    assert_eq!(seen.len(), 21_600);
    let markers: Vec<usize> =
        seen.iter().enumerate().filter(|(_, packet)| packet.marker).map(|(at, _)| at).collect();
    assert!(markers.len() == 10 && markers.windows(2).all(|pair| pair[1] - pair[0] == 2_160));
    assert_eq!(c_inst(&seen, 4_320, (30_000, 1_001)), 2);
    assert_eq!(vrx(&seen), (0, 7));
    let gaps = seen.windows(2).filter(|pair| !pair[0].marker);
    assert_eq!(gaps.map(|pair| pair[1].at_ns - pair[0].at_ns).max(), Some(11_000));
}

/// Promise (Jitter): TS-DF of real sound equals a counting loop over the output of tshark, where
/// `LINECARD_CAPTURES` names a capture of it and tshark is installed.
///
/// pi-list's sound with nanoseconds: TS-DF of each second, again by all pairs of packets.
#[test]
fn real_sound_is_as_its_twin_says() {
    let Some(path) = real("l16_48000_2ch_1ms.pcap") else { return };
    let folder = Folder::new();
    let found = json(&folder, &[path.to_str().unwrap()]);
    assert_eq!(found["stream"]["kind"], "ST 2110-30 audio");
    assert_eq!(found["stream"]["packets"], 10_062);
    assert_eq!(found["audio"]["samples"], 48);
    assert_eq!(found["audio"]["clock_hz"], 48_000);
    assert_eq!(found["audio"]["windows"], 10);
    assert_eq!(found["audio"]["ts_df_ns"], 67_918.0);
    if !is_there("tshark", "figures of real sound") {
        return;
    }
    let seen = tshark(&path, 5_004);
    assert!(
        seen.windows(2).all(|pair| (pair[1].sequence + 65_536 - pair[0].sequence) % 65_536 == 1)
    );
    let (mut from, mut most) = (0, 0);
    for at in 0..seen.len() {
        if seen[at].at_ns - seen[from].at_ns < 1_000_000_000 {
            continue;
        }
        // Transit in 1/48,000 ns.
        let transit = |packet: &Seen| {
            i128::from(packet.at_ns) * 48_000 - i128::from(packet.timestamp) * 1_000_000_000
        };
        for a in &seen[from..at] {
            for b in &seen[from..at] {
                most = most.max(transit(a) - transit(b));
            }
        }
        from = at;
    }
    assert_eq!((most + 24_000) / 48_000, 67_918);
}

/// Packet n of compressed video as T-Rex sends it: 15 pictures a second of two packets each, which come
/// together and have one time stamp of 90 kHz. Picture 200 comes 10 ms late.
fn pictures(n: u64) -> (u64, Vec<u8>) {
    let late = if n / 2 == 200 { 10_000_000 } else { 0 };
    let mut payload = vec![0x80, 97 | if n % 2 == 1 { 0x80 } else { 0 }];
    payload.extend((n as u16).to_be_bytes());
    payload.extend(((n / 2 * 6_000) as u32).to_be_bytes());
    payload.extend([0, 0, 0, 9]);
    payload.resize(1_000, 1);
    (START_NS + n / 2 * 66_666_667 + n % 2 * 15_000 + late, payload)
}

#[test]
fn bursts_of_rtp_are_held_against_rtp_time() {
    let folder = Folder::new();
    folder.write("video.pcap", &pcap((0..1_000).map(pictures)));
    let found = json(&folder, &["video.pcap"]);
    assert_eq!(found["stream"]["kind"], "RTP");
    assert_eq!(found["timing"]["schedule"]["name"], "rtp-time");
    assert!(found["timing"]["period_ns"].is_null() && found["timing"]["spikes"].is_null());
    let late = &found["lateness"];
    assert!(late["p50"]["ns"].as_i64().unwrap() < 1_000, "{late}");
    let most = late["range"]["max_ns"].as_i64().unwrap();
    assert!((9_999_000..=10_001_000).contains(&most), "{late}");
    // The same with time stamps that count packets and not time.
    let strange = (0..1_000).map(pictures).map(|(at_ns, mut payload)| {
        let ticks = u32::from_be_bytes(payload[4..8].try_into().unwrap()) / 6_000 * 777;
        payload[4..8].copy_from_slice(&ticks.to_be_bytes());
        (at_ns, payload)
    });
    folder.write("strange.pcap", &pcap(strange));
    let text = folder.succeeds(&["jitter", "analyze", "strange.pcap"]);
    assert!(text.contains("there is no schedule to compare them with"), "{text}");
    assert!(!text.contains("Lateness"), "{text}");
}

/// A header that names a format whose period is another one.
#[test]
fn a_period_that_is_not_the_formats_is_not_a_clock_that_drifts() {
    let folder = Folder::new();
    folder.write("slow.pcap", &pcap((0..5_000).map(|n| (START_NS + n * 200_000, sdi(n)))));
    let found = json(&folder, &["slow.pcap"]);
    assert!(found["timing"]["skew"].is_null(), "{}", found["timing"]);
    let text = folder.succeeds(&["jitter", "analyze", "slow.pcap"]);
    assert!(text.contains("does not keep the nominal schedule"), "{text}");
    assert!(!text.contains("sender's clock"), "{text}");
}

/// Promise (Jitter): The interarrival jitter of real calls (G.729, G.711) is that of tshark, where `LINECARD_CAPTURES`
/// names captures of them and tshark is installed.
#[test]
fn the_jitter_of_a_call_is_that_of_tshark() {
    // Packets and RTP ports of a direction, as tshark lists it.
    for (project, name, packets, [from, to]) in [
        ("trex-core", "Voice_calls_rtp_only.pcap", 677, ["21.0.0.2 10000", "22.0.0.6 10000"]),
        ("nDPI", "skinny.pcap", 18, ["192.168.195.58 32150", "192.168.193.24 9395"]),
        ("nDPI", "skinny.pcap", 17, ["192.168.195.50 17726", "192.168.193.24 9399"]),
    ] {
        let Some(path) = real_of(project, name) else { return };
        if !is_there("tshark", "the jitter of a call") {
            return;
        }
        let mut command = Command::new("tshark");
        command.args(["-n", "-o", "rtp.heuristic_rtp:TRUE", "--enable-heuristic", "rtp_udp"]);
        let output = command.args(["-q", "-z", "rtp,streams", "-r"]).arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let is_it = |line: &&str| words(line).join(" ").contains(&format!("{from} {to} "));
        let line = words(text.lines().find(is_it).unwrap_or_else(|| panic!("{text}")));
        assert!(line.contains(&packets.to_string()), "{line:?}");
        // Mean and maximum stand last, the one in front depending on the version.
        let mut last: Vec<f64> =
            line.iter().rev().take(2).map(|word| word.parse().unwrap()).collect();
        last.sort_by(f64::total_cmp);
        let flow = to.replace(' ', ":");
        let text = Folder::new().succeeds(&["jitter", "analyze", path.to_str().unwrap()]);
        assert!(!text.contains("no known RTP clock"), "{text}");
        let found = json(&Folder::new(), &[path.to_str().unwrap(), "--flow", &flow]);
        let timing = &found["timing"];
        for (key, ms) in [("jitter_mean_ns", last[0]), ("jitter_max_ns", last[1])] {
            let ours = timing[key].as_f64().unwrap() / 1e6;
            // tshark prints three digits, and its mean is that of all packets, the first one included.
            let tolerance = 0.000_5 + ms / f64::from(packets);
            assert!((ours - ms).abs() <= tolerance, "{name}, {key}: {ours} beside {ms} ms");
        }
    }
}

/// T-Rex's own captures: pictures in bursts, and speech with pauses.
#[test]
fn real_bursts_are_not_a_constant_rate() {
    for (name, late_ns) in [
        ("rtp_160k.pcap", 20_000_000),
        ("rtp_250k_rtp_only_2.pcap", 20_000_000),
        ("video_rtp_1588_0.pcap", 20_000_000),
    ] {
        let Some(path) = real_of("trex-core", name) else { return };
        let found = json(&Folder::new(), &[path.to_str().unwrap()]);
        assert_eq!(found["timing"]["schedule"]["name"], "rtp-time", "{name}");
        let median = found["lateness"]["p50"]["ns"].as_i64().unwrap();
        assert!(median < late_ns, "{name}: {median} ns");
    }
}

#[cfg(target_os = "linux")]
const OWN_PACKETS: usize = 3_000;

/// `jitter send` with a period of one's own, as it arrives at a socket of this test.
#[cfg(target_os = "linux")]
fn own_stream(folder: &Folder) -> Vec<(u64, Vec<u8>)> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
    let target = socket.local_addr().unwrap().to_string();
    let count = OWN_PACKETS.to_string();
    let stream = ["jitter", "send", &target, "--count", &count, "--period", "200us"];
    let mut child = folder.command(&stream).stdout(std::process::Stdio::null()).spawn().unwrap();
    let (mut came, mut has_ended) = (Vec::new(), false);
    while came.len() < OWN_PACKETS {
        let mut payload = vec![0; 2_000];
        if let Ok(len) = socket.recv(&mut payload) {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            came.push((now.as_nanos() as u64, payload[..len].to_vec()));
        } else if has_ended {
            break;
        } else {
            has_ended = child.try_wait().unwrap().is_some();
        }
    }
    assert!(child.wait().unwrap().success());
    came
}

#[cfg(target_os = "linux")]
#[test]
fn the_generators_own_stream_keeps_its_own_period() {
    let folder = Folder::new();
    // Where this test is not given the time to take them, the kernel drops most.
    let mut streams = (0..20).map(|_| own_stream(&folder));
    let came = streams.find(|came| came.len() > OWN_PACKETS / 2).expect("most packets came");
    folder.write("own.pcap", &pcap(came));
    let found = json(&folder, &["own.pcap"]);
    let timing = &found["timing"];
    assert_eq!(timing["nominal_ns"]["ns"], 200_000.0, "{timing}");
    assert!(timing["format"].is_null(), "{timing}");
    // A machine that is busy may keep packets so long that the two clocks cannot be compared.
    let ppm = timing["skew"]["ppm"].as_f64().unwrap_or(0.0);
    assert!(ppm.abs() < 500.0, "{timing}");
    let text = folder.succeeds(&["jitter", "analyze", "own.pcap"]);
    assert!(!text.contains("does not keep"), "{text}");
}

/// Packets of a protocol that is not known have gaps only, and losses with the place of their number.
#[test]
fn numbers_at_a_given_place_count_losses() {
    let folder = Folder::new();
    let stream = linecard_testkit::root().join("testdata/streams/host.pcap");
    let stream = stream.to_str().unwrap();
    let analyze = |more: &[&str]| -> CommandOutput {
        let arguments = [&["jitter", "analyze", stream, "--json"], more].concat();
        folder.command(&arguments).output().unwrap().into()
    };
    let json = |outcome: &CommandOutput| -> Json {
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"))
    };
    // RTP's own sequence number, as if RTP were not known.
    let (known, numbered) = (json(&analyze(&[])), json(&analyze(&["--number", "2:2"])));
    assert_eq!(numbered["stream"]["kind"], "numbered UDP");
    for key in ["packets", "lost", "reordered", "duplicates"] {
        assert_eq!(numbered["stream"][key], known["stream"][key], "{key}");
    }
    assert_eq!(numbered["lateness"]["range"], known["lateness"]["range"]);
    let wrong = analyze(&["--number", "2:3"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("write OFFSET:OCTETS"), "{wrong:?}");
}
