//! `linecard jitter watch`: live streams over loopback whose packets are counted, and every refusal. Nothing here depends
//! on how fast anything is.

use crate::folder::Folder;
use linecard_testkit::lab::Namespace;
use serde_json::Value as Json;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(300);
const PORT: u16 = 5_006;
/// How many packets may wait in a socket without a larger limit.
const WAITING: u64 = 50;

/// An address of this host that no other test of this run uses.
fn free_address() -> String {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{low}.{}:{PORT}", high | 128, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A command that a failed test does not leave behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _running = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A command that watches, and what it tells a scraper.
struct Watch {
    child: Running,
    folder: Folder,
    metrics: String,
}

impl Watch {
    fn begin(arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let fixed = ["jitter", "watch", "--metrics", "0", "--json"];
        let mut command = folder.command(&[&fixed, arguments].concat());
        command.stdout(Stdio::piped()).stderr(File::create(folder.path("err")).unwrap());
        let mut watch =
            Self { child: Running(command.spawn().unwrap()), folder, metrics: String::new() };
        let begun = Instant::now();
        while watch.metrics.is_empty() {
            assert!(begun.elapsed() < PATIENCE && watch.child.0.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(2));
            let line = watch.stderr();
            let address =
                line.split_once("metrics at http://").and_then(|(_, at)| at.split_once("/metrics"));
            watch.metrics = address.map_or(String::new(), |(address, _)| address.to_owned());
        }
        // It answers once its sockets are open: packets that were sent earlier would be lost.
        let _open = watch.metrics();
        watch
    }

    fn stderr(&self) -> String {
        String::from_utf8(self.folder.read("err")).unwrap()
    }

    fn metrics(&self) -> String {
        let mut scraper = TcpStream::connect(&self.metrics).unwrap();
        scraper.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        scraper.read_to_string(&mut text).unwrap();
        text
    }

    /// The value of a metric of a stream.
    fn metric(&self, name: &str, stream: &str) -> u64 {
        let text = self.metrics();
        let start = format!("linecard_{name}{{stream=\"{stream}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&start));
        value.unwrap_or_else(|| panic!("no {start}: {text}")).parse().unwrap()
    }

    /// Waits until it has this many packets of a stream.
    fn has(&self, stream: &str, packets: u64) {
        let begun = Instant::now();
        while self.metric("watch_packets_total", stream) < packets {
            assert!(
                begun.elapsed() < PATIENCE,
                "fewer than {packets} of {stream} after {:?}: {}{}",
                begun.elapsed(),
                self.stderr(),
                self.metrics()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends it by a signal; its figures and its folder.
    fn end(mut self) -> (Json, Folder) {
        let kill = format!("kill -INT {}", self.child.0.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let mut figures = Vec::new();
        self.child.0.stdout.take().unwrap().read_to_end(&mut figures).unwrap();
        assert_eq!(self.child.0.wait().unwrap().code(), Some(0));
        (serde_json::from_slice(&figures).unwrap(), self.folder)
    }
}

/// Packet n of a voice call: G.711 in packets of 20 ms.
fn voice(n: u64) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend((n as u16).to_be_bytes());
    packet.extend((n as u32).wrapping_mul(160).to_be_bytes());
    packet.extend([0, 0, 0, 7]);
    packet.resize(172, 0xD5);
    packet
}

/// Promise (Jitter): `jitter watch` counts every packet of live RTP, and lost, reordered and duplicated ones, across
/// the end of the sequence numbers.
#[test]
fn packets_of_a_live_stream_are_counted() {
    let address = free_address();
    let watch = Watch::begin(&[&address]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sent = 0;
    let mut send = |n: u64| {
        sender.send_to(&voice(65_000 + n), &address).unwrap();
        sent += 1;
        if sent % WAITING == 0 {
            watch.has(&address, sent);
        }
    };
    for n in 0..2_000_u64 {
        match n % 100 {
            7 => {}
            8 => [n, n].into_iter().for_each(&mut send),
            9 => send(n + 1),
            10 => send(n - 1),
            _ => send(n),
        }
    }
    watch.has(&address, 2_000);
    let (figures, _folder) = watch.end();
    let came = &figures["packets"][0]["value"];
    for (key, count) in [
        ("packets", 2_000),
        ("lost", 20),
        ("reordered", 20),
        ("duplicates", 20),
        ("dropped", 0),
        ("others", 0),
        ("restarts", 0),
    ] {
        assert_eq!(came[key], count, "{key}: {came}");
    }
    assert_eq!(
        (&figures["job"], &figures["streams"][0]["label"]),
        (&"jitter watch".into(), &address.into())
    );
    assert_eq!(figures["streams"][0]["value"]["kind"], "RTP", "{figures}");
}

#[test]
fn two_copies_are_compared() {
    let (first, second) = (free_address(), free_address());
    let pair = format!("{first}+{second}");
    let watch = Watch::begin(&[&pair]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut sent, mut came) = ([0; 2], [0; 4]);
    for n in 0..600_u64 {
        let paths =
            if n < 5 { 3 } else { [3, 1, 2, 0][n as usize % 101 % 4 * usize::from(n % 7 == 0)] };
        came[paths] += 1;
        for (path, to) in [&first, &second].into_iter().enumerate() {
            if paths >> path & 1 > 0 {
                sender.send_to(&voice(n), to).unwrap();
                sent[path] += 1;
            }
        }
        if n % WAITING == 0 {
            watch.has(&first, sent[0]);
            watch.has(&second, sent[1]);
        }
    }
    // Numbers at the end are judged once both are beyond them.
    for to in [&first, &second] {
        sender.send_to(&voice(600), to).unwrap();
    }
    watch.has(&first, sent[0] + 1);
    watch.has(&second, sent[1] + 1);
    assert_eq!(watch.metric("watch_pair_packets_total", &pair), came[3] + 1);
    let (figures, _folder) = watch.end();
    let paths = &figures["paths"][0]["value"];
    for (key, count) in [
        ("both", came[3] + 1),
        ("first_only", came[1]),
        ("second_only", came[2]),
        ("neither", came[0]),
    ] {
        assert_eq!(paths[key], count, "{key}: {paths}");
    }
    assert_eq!(paths["delay"]["packets"], came[3] + 1);
    assert_eq!(figures["packets"][1]["label"], second);
}

/// Sends a packet for each millisecond until it is dropped, late ones at once.
struct Stream(Arc<AtomicBool>);

impl Stream {
    fn begin(address: &str) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (address, ended) = (address.to_owned(), over.clone());
        std::thread::spawn(move || {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            let begun = Instant::now();
            for n in 0.. {
                std::thread::sleep(Duration::from_millis(n).saturating_sub(begun.elapsed()));
                // Refused while no socket receives.
                let _sent = sender.send_to(&voice(n), &address);
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        Self(over)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Promise (Jitter): `jitter watch --interface` finds streams that other programs receive, and follows copies of them.
#[test]
fn streams_are_found_at_an_interface() {
    // Other tests have streams on this host's loopback, of which few are followed.
    match Namespace::new() {
        Ok(network) => {
            network.ip(&["link", "set", "lo", "up"]).unwrap();
            network.inside(find_a_stream);
        }
        Err(reason) => linecard_testkit::skip("streams at an interface", reason),
    }
}

fn find_a_stream() {
    let address = format!("127.0.0.1:{PORT}");
    let receiver = UdpSocket::bind(&address).unwrap();
    let _stream = Stream::begin(&address);
    assert_eq!(receiver.recv(&mut [0; 200]).unwrap(), 172, "it sends");
    let watch = Watch::begin(&["--interface", "lo", "--find", "2s"]);
    let name = format!("{address}%lo");
    watch.has(&name, 100);
    let said = watch.stderr();
    let found =
        said.lines().find(|line| line.contains(&format!("found {address} from 127.0.0.1:")));
    let found = found.unwrap_or_else(|| panic!("{said}"));
    assert!(found.contains("RTP, payload type 0"), "{found}");
    let (figures, _folder) = watch.end();
    let packets = figures["packets"].as_array().unwrap();
    let came = packets.iter().find(|one| one["label"] == *name).unwrap();
    assert!(came["value"]["packets"].as_u64() >= Some(100), "{came}");
    // It still has them itself.
    receiver.set_nonblocking(true).unwrap();
    assert_eq!(receiver.recv(&mut [0; 200]).unwrap(), 172);
}

/// Promise (Jitter): `jitter watch --trace` names causes of late packets, in lines, figures and metrics.
#[test]
fn causes_of_late_packets_are_named() {
    let (folder, address) = (Folder::new(), free_address());
    let probe = folder.run(&["jitter", "watch", &address, "--trace", "--time", "1ms"]);
    if probe.code == Some(6) {
        return linecard_testkit::skip("a traced watch", probe.stderr);
    }
    // Nearly all packets are later than a nanosecond.
    let watch = Watch::begin(&[&address, "--trace", "--late", "1ns", "--worst", "3"]);
    let _stream = Stream::begin(&address);
    let begun = Instant::now();
    while watch.metric("watch_late_packets_total", &address) < 100
        || !watch.stderr().contains(" late (")
    {
        assert!(begun.elapsed() < PATIENCE, "{}", watch.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(watch.metrics().contains("linecard_watch_late_packets_by_cause_total{stream="));
    let (figures, folder) = watch.end();
    let late = figures["streams"][0]["value"]["late"].as_u64().unwrap();
    let causes = figures["causes"].as_array().unwrap();
    let named: u64 = causes.iter().map(|one| one["value"]["packets"].as_u64().unwrap()).sum();
    assert!((1..=late).contains(&named), "{figures}");
    // On this host all of their way is traced.
    let is_found =
        |one: &Json| !["untraced", "outside"].contains(&one["value"]["kind"].as_str().unwrap());
    assert!(causes.iter().any(is_found), "{figures}");
    for worst in figures["worst"].as_array().unwrap() {
        assert!(
            worst["value"]["causes"].as_str().is_some_and(|text| text.contains(' ')),
            "{worst}"
        );
    }
    let said = String::from_utf8(folder.read("err")).unwrap();
    let line = said.lines().find(|line| line.contains(" late (")).unwrap();
    assert!(line.split(" in it): ").nth(1).is_some_and(|cause| !cause.is_empty()), "{line}");
}

#[test]
fn a_watch_of_nothing_says_what_to_check() {
    let (folder, address) = (Folder::new(), free_address());
    let arguments = ["jitter", "watch", &address, "--time", "20ms"];
    let outcome = folder.run(&arguments);
    assert_eq!(outcome.code, Some(11), "{outcome:?}");
    assert!(
        outcome.stderr.lines().count() == 1 && outcome.stderr.contains(&address),
        "{outcome:?}"
    );
    assert!(outcome.stdout.contains("too few packets"), "{outcome:?}");
}

#[test]
fn a_page_has_the_answer() {
    let address = free_address();
    let watch = Watch::begin(&[&address, "--report", "page.html"]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for n in 0..20 {
        sender.send_to(&voice(n), &address).unwrap();
    }
    watch.has(&address, 20);
    let (figures, folder) = watch.end();
    assert_eq!(figures["packets"][0]["value"]["packets"], 20);
    let text = String::from_utf8(folder.read("page.html")).unwrap();
    assert!(text.contains(&address) && text.contains("RTP"), "{text}");
}

#[test]
fn wrong_watches_are_refused() {
    let folder = Folder::new();
    let watch = |code, arguments: &[&str], parts: &[&str]| {
        folder.refuses(code, &[&["jitter", "watch"], arguments].concat(), parts);
    };
    watch(2, &[], &["239.0.0.1:5004", "--interface"]);
    watch(
        2,
        &["--interface", "lo", "--source", "192.0.2.1"],
        &["--source", "only a multicast group"],
    );
    watch(6, &["--interface", "no-such"], &["interface no-such", "ip link"]);
    watch(2, &["127.0.0.1"], &["127.0.0.1", "SOURCE@"]);
    watch(2, &["127.0.0.1:5004+"], &["an address and a port"]);
    watch(2, &["127.0.0.1:5004", "127.0.0.1:5004"], &["given twice"]);
    watch(2, &["127.0.0.1:0", "--late", "0s"], &["--late", "0"]);
    watch(2, &["127.0.0.1:0", "--worst", "0"], &["--worst", "0", "1"]);
    watch(2, &["127.0.0.1:0", "--time", "0s"], &["--time", "0"]);
    watch(2, &["127.0.0.1:0", "--source", "192.0.2.1"], &["--source", "only a multicast group"]);
    watch(2, &["192.0.2.1@127.0.0.1:0"], &["only a multicast group", "192.0.2.1@"]);
    watch(2, &["::1@239.0.0.1:5004"], &["both IPv4 or both IPv6"]);
    watch(6, &["192.0.2.1:9"], &["192.0.2.1:9", "an address of this host"]);
    watch(6, &["239.0.0.1:0", "--interface", "no-such"], &["interface no-such", "ip link"]);
    watch(6, &["239.0.0.1:0%no-such"], &["interface no-such", "ip link"]);
    watch(2, &["127.0.0.1:0", "--hardware-stamps"], &["--hardware-stamps", "--interface"]);
    watch(6, &["127.0.0.1:0%lo", "--hardware-stamps"], &["stamping of lo does not exist"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    watch(6, &["127.0.0.1:0", "--metrics", &address], &["--metrics", &address]);
    // Before streams are looked for.
    watch(6, &["--interface", "no-such", "--metrics", &address], &["--metrics", &address]);
}
