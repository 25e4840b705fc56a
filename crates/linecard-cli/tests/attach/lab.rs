//! Two network namespaces with a cable between them: the peer's end `lcp`, and the host's end `lcw`,
//! which the command takes as near port. Both namespaces are removed with the test, however it ends.

use linecard_testkit::lab::{End, Namespace, cable, is_root};
use std::fs;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Two transfers at once on two cores say nothing about either.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A network namespace in which nothing sends by itself, as long as it is not dropped.
#[derive(Debug)]
pub(crate) struct Host(Namespace);

impl Host {
    /// Works in a thread that has entered it.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.inside(work)
    }

    /// Moves the calling thread into it, for good.
    pub(crate) fn enter(&self) {
        self.0.enter().expect("root may");
    }

    /// Runs a program there that has to succeed; gives what it prints.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.try_run(line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a program there.
    pub(crate) fn try_run(&self, line: &str) -> Output {
        self.0.run(line)
    }

    /// Whether there is such an interface.
    pub(crate) fn has(&self, interface: &str) -> bool {
        self.try_run(&format!("ip link show {interface}")).status.success()
    }

    /// Waits until there is none.
    pub(crate) fn loses(&self, interface: &str) {
        wait_for(&format!("{interface} to go"), || !self.has(interface));
    }

    /// Packets of an interface: received, transmitted.
    pub(crate) fn packets(&self, interface: &str) -> [u64; 2] {
        self.counted(interface, "packets")
    }

    fn counted(&self, interface: &str, what: &str) -> [u64; 2] {
        let text = self.run(&format!("ip -s -j link show {interface}"));
        let told: serde_json::Value = serde_json::from_str(&text).expect("`ip` writes JSON");
        ["rx", "tx"].map(|way| told[0]["stats64"][way][what].as_u64().expect("it counts"))
    }

    /// The kernel's counter of this name for TCP.
    pub(crate) fn tcp(&self, name: &str) -> u64 {
        let text = self.inside(|| fs::read_to_string("/proc/thread-self/net/netstat"));
        let text = text.expect("Linux says it");
        // A line of names, then one of numbers.
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
        let mut words = || lines.next().expect("there are two").split_whitespace();
        let found = words().zip(words()).find(|(other, _)| *other == name);
        found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
    }

    /// Writes a setting of the network.
    pub(crate) fn set(&self, setting: &str, value: &str) -> bool {
        self.0.sysctl(setting, value)
    }
}

/// Both ends.
#[derive(Debug)]
pub(crate) struct Lab {
    /// Where the command runs, with `lcw`.
    pub(crate) host: Host,
    /// Whom its host talks to, with `lcp` and the addresses 10.9.0.1 and `fd09::1`.
    pub(crate) peer: Host,
}

/// Works with a lab, or says loudly why not.
pub(crate) fn with_lab(what: &str, work: impl FnOnce(&Lab)) {
    with_queues(what, 1, work);
}

/// The same, where both ends of the cable have this many queues.
pub(crate) fn with_queues(what: &str, queues: u32, work: impl FnOnce(&Lab)) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match lab(queues) {
        Ok(lab) => work(&lab),
        Err(why) => linecard_testkit::skip(format_args!("attach: {what}"), why),
    }
}

fn lab(queues: u32) -> Result<Lab, String> {
    if !is_root() {
        return Err("not root, which namespaces and ports need".into());
    }
    let programs = [("ip", "-V"), ("ethtool", "--version"), ("unshare", "-V"), ("setpriv", "-V")];
    for (program, version) in programs {
        let there = Command::new(program).arg(version).output().is_ok();
        there.then_some(()).ok_or_else(|| format!("`{program}` is not installed"))?;
    }
    let lab = Lab { host: Host(Namespace::quiet()?), peer: Host(Namespace::quiet()?) };
    let Lab { host, peer } = &lab;
    lab.cable(queues)?;
    for (place, name) in [(host, "lcw"), (peer, "lcp")] {
        // AF_XDP hands over what the sender has left open.
        place.run(&format!("ethtool -K {name} tso off gso off gro off tx off"));
        place.run(&format!("ip link set {name} up"));
    }
    // A veth with a queue makes senders wait where it has no room (Linux 6.18), else it drops.
    peer.try_run("tc qdisc add dev lcp root pfifo limit 20000");
    // The kernel must not process packets that arrive there: it gets a copy of those of packet sockets.
    host.set("ipv4/conf/lcw/rp_filter", "1");
    host.set("ipv4/conf/lcw/arp_ignore", "8");
    peer.run("ip addr add 10.9.0.1/24 dev lcp");
    peer.set("ipv6/conf/lcp/disable_ipv6", "0");
    peer.try_run("ip addr add fd09::1/64 dev lcp nodad");
    wait_for("a carrier", || peer.run("ip -o link show lcp").contains("LOWER_UP"));
    Ok(lab)
}

impl Lab {
    fn cable(&self, queues: u32) -> Result<(), String> {
        let queues = queues.to_string();
        let options = ["numrxqueues", &queues, "numtxqueues", &queues];
        let near = End { namespace: &self.host.0, device: "lcw", options: &options };
        cable(near, End { namespace: &self.peer.0, device: "lcp", options: &options })
    }

    /// Gives the TAP its addresses, 10.9.0.2 and `fd09::2`.
    pub(crate) fn address(&self) {
        self.host.run("ip addr add 10.9.0.2/24 dev lc0");
        self.host.set("ipv6/conf/lc0/disable_ipv6", "0");
        self.host.try_run("ip addr add fd09::2/64 dev lc0 nodad");
    }

    /// Packets from the peer that the cable itself has lost.
    pub(crate) fn lost(&self) -> u64 {
        self.peer.counted("lcp", "dropped")[1]
    }

    /// Whether packets that reach the near interface are still redirected.
    pub(crate) fn has_program(&self) -> bool {
        self.host.run("ip -d link show lcw").contains("xdp")
    }
}

/// Waits until it is so.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
