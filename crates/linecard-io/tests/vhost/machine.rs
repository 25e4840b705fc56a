//! A guest kernel in QEMU, with nothing but busybox. It needs root, for a TAP device in a namespace of its own, and a
//! kernel with modules in the usual places; without them the tests say so.
//!
//! The guest is emulated, so this shows correctness, not speed.

use linecard::rng::Rng;
use linecard_io::attach::{Attached, MergeStats, Prepared, Settings};
use linecard_io::engine::Scheduling;
use linecard_testkit::lab;
use linecard_tun::Counters;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a guest may take to answer: it boots in some seconds, on a busy machine in a minute.
const BOOT: Duration = Duration::from_secs(180);
/// How long a transfer may stand still.
const STILL: Duration = Duration::from_secs(60);
/// The port at which a guest returns what it receives.
const ECHO: u16 = 5000;
/// Bytes sent and returned.
const BYTES: usize = 8 << 20;
const LONG_BYTES: usize = 1 << 30;
/// Connections at a time to a guest that has many, and for how long they exchange data.
const CONNECTIONS: u64 = 200;
const SOAK: Duration = Duration::from_secs(3);
const LONG_SOAK: Duration = Duration::from_secs(600);
/// Buffers of each port then, and bytes that the process may grow by once all connections have run: these buffers, all
/// of which are used for the first time some day, and what allocators keep.
const BUFFERS: usize = 512;
const GROWTH: u64 = (2 * BUFFERS as u64 * (64 << 10)) + (8 << 20);

const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
# Modules need each other in an order that differs between kernels.
for pass in 1 2 3 4; do for module in /lib/*.ko; do insmod $module 2> /dev/null; done; done
address=$(sed -n 's/.*lc_address=\([^ ]*\).*/\1/p' /proc/cmdline)
peer=$(sed -n 's/.*lc_peer=\([^ ]*\).*/\1/p' /proc/cmdline)
ip link set lo up; ip addr add $address/24 dev eth0; ip link set eth0 up
nc -ll -p 5000 -e cat &
[ -z "$peer" ] && wait
dd if=/dev/urandom of=/tmp/sent bs=64k count=16 2>/dev/null
until ping -c 1 -W 1 $peer > /dev/null; do :; done
nc $peer 5000 < /tmp/sent > /tmp/back
cmp /tmp/sent /tmp/back && echo "linecard: $(ls /sys/class/net/eth0/queues | grep -c rx) same"
wait
"#;

/// The kernel and what it boots into; none if something is missing, which is reported.
struct Image {
    kernel: PathBuf,
    initrd: PathBuf,
    _folder: TempDir,
}

impl Image {
    fn new(what: &str) -> Option<Self> {
        let (Some(qemu), Some(busybox)) = (tool("qemu-system-x86_64"), tool("busybox")) else {
            linecard_testkit::skip(what, "qemu-system-x86_64 or busybox is missing");
            return None;
        };
        drop(qemu);
        let Some((kernel, modules)) = kernel() else {
            linecard_testkit::skip(what, "no kernel in /boot with virtio_net in /lib/modules");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let initrd = folder.path().join("initrd");
        let mut archive = Archive::default();
        ["bin", "lib", "proc", "sys", "dev", "tmp"]
            .iter()
            .for_each(|name| archive.add(name, 0o40755, &[]));
        archive.add("bin/busybox", 0o100_755, &fs::read(busybox).expect("readable"));
        archive.add("init", 0o100_755, INIT.as_bytes());
        for module in modules {
            let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
            archive.add(&format!("lib/{name}"), 0o100_644, &fs::read(module).expect("readable"));
        }
        fs::write(&initrd, archive.finish()).expect("room");
        Some(Self { kernel, initrd, _folder: folder })
    }

    /// Boots a guest with a network card at this socket.
    fn boot(&self, socket: &Path, address: &str, more: &str, queues: usize) -> Machine {
        let log = socket.with_extension("log");
        let cmdline = format!("console=ttyS0 panic=-1 quiet lc_address={address} {more}");
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio", "-m", "256"]);
        command.args(["-accel", "tcg", "-cpu", "max", "-smp", &queues.to_string()]);
        command.args(["-object", "memory-backend-memfd,id=mem,size=256M,share=on"]);
        command.args(["-machine", "q35,memory-backend=mem"]);
        command.args(["-chardev", &format!("socket,id=vm,path={}", socket.display())]);
        command.args(["-netdev", &format!("vhost-user,id=net,chardev=vm,queues={queues}")]);
        // Without MSI-X: QEMU 7.2 crashes when an emulated guest with vhost-user uses it.
        let mq = if queues > 1 { ",mq=on" } else { "" };
        let card = format!("virtio-net-pci,netdev=net,romfile=,vectors=0{mq}");
        command.args(["-device", &card]);
        command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.initrd);
        command.args(["-append", &cmdline]).stdin(Stdio::null());
        command
            .stdout(File::create(&log).expect("room"))
            .stderr(File::options().append(true).open(&log).expect("there"));
        Machine { process: command.spawn().expect("QEMU starts"), log }
    }
}

struct Machine {
    process: Child,
    log: PathBuf,
}

impl Machine {
    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until the guest has said this.
    fn wait_for(&self, what: &str) -> String {
        let begun = Instant::now();
        loop {
            let said = self.said();
            if let Some(line) = said.lines().find(|line| line.contains(what)) {
                return line.to_owned();
            }
            assert!(begun.elapsed() < BOOT, "the guest does not say {what}: {said}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _running = self.process.kill();
        let _ended = self.process.wait();
    }
}

fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.exists())
}

/// A kernel and its modules for virtio, those in compressed form excepted.
fn kernel() -> Option<(PathBuf, Vec<PathBuf>)> {
    let kernels = fs::read_dir("/boot").ok()?.flatten().map(|entry| entry.path());
    kernels.into_iter().find_map(|kernel| {
        let name = kernel.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
        let root = Path::new("/lib/modules").join(name).join("kernel");
        let mut modules = vec![root.join("net/core/failover.ko")];
        modules.extend(
            ["net/net_failover.ko", "net/virtio_net.ko"]
                .map(|file| root.join("drivers").join(file)),
        );
        let virtio = fs::read_dir(root.join("drivers/virtio")).ok()?.flatten();
        modules.extend(virtio.map(|entry| entry.path()));
        modules.retain(|module| {
            module.extension().is_some_and(|kind| kind == "ko") && module.exists()
        });
        let has_card = modules.iter().any(|module| module.ends_with("virtio_net.ko"));
        (has_card && File::open(&kernel).is_ok()).then_some((kernel, modules))
    })
}

/// A cpio archive of the format that Linux unpacks.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        let inode = self.0.len() as u32 + 1;
        let fields =
            [inode, mode, 0, 0, 1, 0, bytes.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.0.extend(b"070701");
        fields.iter().for_each(|field| self.0.extend(format!("{field:08x}").bytes()));
        self.0.extend(name.bytes().chain([0]));
        self.pad();
        self.0.extend(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.0
    }
}

fn attach(near: &str, far: &str) -> Attached {
    attach_with(settings(near, far))
}

fn settings(near: &str, far: &str) -> Settings {
    let mut settings = Settings::new(near.parse().expect("a port"), far.parse().expect("a port"));
    settings.keep_rights = true;
    settings.engine.scheduling = Scheduling::Normal;
    settings
}

fn attach_with(settings: Settings) -> Attached {
    Prepared::new(settings).expect("both open").start()
}

/// Connects to the guest once it answers.
fn connect(address: &str, machine: &Machine) -> TcpStream {
    let address = SocketAddr::new(address.parse().expect("an address"), ECHO);
    let begun = Instant::now();
    loop {
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(stream) => return stream,
            Err(error) => assert!(begun.elapsed() < BOOT, "{error}: {}", machine.said()),
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Sends random bytes, and compares the answer.
fn echo(stream: &TcpStream, seed: u64, len: usize) {
    stream.set_read_timeout(Some(STILL)).expect("a socket");
    stream.set_write_timeout(Some(STILL)).expect("a socket");
    let chunk = |rng: &mut Rng, done: usize| {
        let mut bytes = vec![0; (len - done).min(64 << 10)];
        rng.fill(&mut bytes);
        bytes
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut rng, mut done, mut stream) = (Rng::new(seed), 0, stream);
            while done < len {
                let bytes = chunk(&mut rng, done);
                stream.write_all(&bytes).expect("it goes on");
                done += bytes.len();
            }
        });
        let (mut rng, mut done, mut stream) = (Rng::new(seed), 0, stream);
        while done < len {
            let sent = chunk(&mut rng, done);
            let mut back = vec![0; sent.len()];
            stream.read_exact(&mut back).expect("it goes on");
            assert!(sent == back, "bytes {done} to {}", done + sent.len());
            done += sent.len();
        }
    });
}

/// Promise (Live interfaces): A Linux guest in QEMU exchanges TCP data with a TAP device unchanged, both ways, with
/// offloads, and again after it was killed and has come back.
#[test]
fn a_guest_and_a_tap_exchange_bytes_and_again_after_it_was_killed() {
    let Some(image) = Image::new("a guest in QEMU and a TAP device") else { return };
    lab::inside("a guest in QEMU and a TAP device", |_| {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("vm.sock");
        let attached = attach(&format!("vhost:{}", socket.display()), "tap:lc0");
        lab::ip("addr add 10.9.0.1/24 dev lc0");
        let long = linecard_testkit::is_long();
        for bytes in [if long { LONG_BYTES } else { BYTES }, BYTES / 4] {
            let machine = image.boot(&socket, "10.9.0.2", "", 1);
            let stream = connect("10.9.0.2", &machine);
            echo(&stream, 7, bytes);
            assert!(!attached.is_ending());
        }
        attached.stop();
        let (account, failures) = attached.finish();
        assert!(failures.is_empty(), "{failures:?}");
        let near = account.near[0];
        assert!(near.received_bytes as usize > BYTES && near.transmitted_bytes as usize > BYTES);
        // Large packets passed whole.
        assert!(near.transmitted_bytes / near.transmitted > 1_600, "{near:?}");
        assert_eq!((near.dropped.bad_descriptors, near.dropped.bad_header), (0, 0), "{near:?}");
    });
}

/// Promise (Live interfaces): Two Linux guests in QEMU, with two queue pairs each, exchange TCP data unchanged.
#[test]
fn two_guests_with_two_queues_exchange_bytes() {
    let Some(image) = Image::new("two guests in QEMU") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b] = ["a", "b"].map(|name| folder.path().join(format!("{name}.sock")));
    let port = |path: &Path| format!("vhost:{},queues=2", path.display());
    let attached = attach(&port(&a), &port(&b));
    let _server = image.boot(&a, "10.9.0.2", "", 2);
    let client = image.boot(&b, "10.9.0.3", "lc_peer=10.9.0.2", 2);
    assert!(client.wait_for("linecard: ").contains("linecard: 2 same"));
    attached.stop();
    let (account, failures) = attached.finish();
    assert!(failures.is_empty(), "{failures:?}");
    let far = account.far[0];
    assert!(far.received_bytes > 1 << 20 && far.transmitted_bytes > 1 << 20, "{far:?}");
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

/// Packets that the device has taken from this process and given to it, if it exists.
fn device() -> Option<[u64; 2]> {
    // Of the thread's namespace.
    let devices = fs::read_to_string("/proc/thread-self/net/dev").expect("proc");
    let line = devices.lines().find_map(|line| line.trim_start().strip_prefix("lc0:"))?;
    let counts: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
    Some([counts[1], counts[9]])
}

/// Promise (Live interfaces): Through 200 TCP connections between a TAP device and a Linux guest every byte comes back;
/// afterwards packets received are those sent, merged or counted as dropped, and those that the kernel counts; memory stays
/// within its pools, and nothing is left: 3 seconds, and ten minutes with `LINECARD_LONG=1`.
#[test]
fn many_connections_of_a_guest_lose_nothing() {
    let Some(image) = Image::new("a guest in QEMU with 200 connections") else { return };
    lab::inside("a guest in QEMU with 200 connections", |_| {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("vm.sock");
        let mut settings = settings(&format!("vhost:{}", socket.display()), "tap:lc0");
        settings.buffers = BUFFERS;
        let attached = attach_with(settings);
        lab::ip("addr add 10.9.0.1/24 dev lc0");
        let machine = image.boot(&socket, "10.9.0.2", "", 1);
        let streams: Vec<_> = (0..CONNECTIONS).map(|_| connect("10.9.0.2", &machine)).collect();
        let soak = if linecard_testkit::is_long() { LONG_SOAK } else { SOAK };
        let begun = Instant::now();
        let before = thread::scope(|scope| {
            for (stream, number) in streams.iter().zip(0..) {
                let rounds = (0..).take_while(move |_| begun.elapsed() < soak);
                let seeds = rounds.map(move |round| round * CONNECTIONS + number);
                scope.spawn(move || seeds.for_each(|seed| echo(stream, seed, 64 << 10)));
            }
            // Once whatever is used has been.
            thread::sleep(soak / 5);
            resident()
        });
        let grown = resident().saturating_sub(before);
        assert!(grown < GROWTH, "{before} bytes, and {grown} more");
        assert!(!attached.is_ending());
        drop(streams);
        drop(machine);
        // The host has nothing to send any more.
        lab::ip("addr flush dev lc0");
        let stats = attached.stats_handle();
        let begun = Instant::now();
        loop {
            let now = stats.now();
            let far = now.far[0];
            // Of what the device had no room for, the kernel keeps another count.
            let read = far.received + far.dropped.received() - far.dropped.ring_full;
            let counted = Some([far.transmitted, read]);
            let kernel = device();
            if counted == kernel && now.near[0].received == taken(&now.ingress[0], &far) {
                break;
            }
            assert!(begun.elapsed() < STILL, "{kernel:?}: {now:?}");
            thread::sleep(Duration::from_millis(50));
        }
        attached.stop();
        let (account, failures) = attached.finish();
        assert!(failures.is_empty(), "{failures:?}");
        let (near, far) = (account.near[0], account.far[0]);
        assert_eq!(near.received, taken(&account.ingress[0], &far), "{account:?}");
        assert_eq!(far.received, taken(&account.egress[0], &near), "{account:?}");
        let lost = [near.dropped.received(), far.dropped.transmitted()];
        assert_eq!(lost, [0; 2], "{account:?}");
        assert!(!socket.exists() && device().is_none());
        eprintln!("grown by {grown} of {before} bytes; near {near:?}; far {far:?}");
    });
}

/// Packets that a direction has taken: sent as they were, merged into others, or dropped.
fn taken(merged: &MergeStats, to: &Counters) -> u64 {
    merged.coalesce.merged + merged.held + to.transmitted + to.dropped.transmitted()
}
