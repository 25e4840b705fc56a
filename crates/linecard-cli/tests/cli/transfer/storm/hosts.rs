//! Two hosts with two links between them, and what can be done to these.

use linecard_testkit::lab::{self, End, Namespace};
use std::process::Command;

/// Where the receiver listens: over link 1.
pub(super) const CONTROL: &str = "10.9.1.2:4780";
/// How long a fault lasts that ends by itself.
const WHILE: std::time::Duration = std::time::Duration::from_millis(800);

/// The sender's host and the receiver's. Link n has the interface `link<n>` on both, with the addresses 10.9.n.1 and
/// 10.9.n.2, and the lane over it has port 700n at both ends.
pub(super) struct Hosts {
    near: Namespace,
    far: Namespace,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Protocol {
    Udp,
    Tcp,
}

/// Options that name the lanes, of the receiver and of the sender.
pub(super) fn lanes(protocol: Protocol) -> (Vec<&'static str>, Vec<&'static str>) {
    let send = match protocol {
        Protocol::Udp => ["10.9.1.1", "10.9.2.1"],
        Protocol::Tcp => ["tcp:10.9.1.1", "tcp:10.9.2.1"],
    };
    let recv = ["10.9.1.2:7001", "10.9.2.2:7002"];
    let options =
        |lanes: [&'static str; 2]| lanes.iter().flat_map(|lane| ["--lane", lane]).collect();
    (options(recv), options(send))
}

impl Hosts {
    /// None, which is said, where namespaces cannot be made.
    pub(super) fn new(test: &str) -> Option<Self> {
        match Self::make() {
            Ok(hosts) => Some(hosts),
            Err(why) => {
                linecard_testkit::skip(test, why);
                None
            }
        }
    }

    fn make() -> Result<Self, String> {
        let hosts = Self { near: Namespace::new()?, far: Namespace::new()? };
        for device in ["link1", "link2"] {
            let end = |namespace| End { namespace, device, options: &[] };
            lab::cable(end(&hosts.near), end(&hosts.far))?;
        }
        for (host, number) in [(&hosts.near, 1), (&hosts.far, 2)] {
            host.ip(&["link", "set", "lo", "up"])?;
            for link in 1..=2 {
                let (device, address) = (format!("link{link}"), format!("10.9.{link}.{number}/24"));
                host.ip(&["address", "add", &address, "dev", &device])?;
                host.ip(&["link", "set", &device, "up"])?;
            }
        }
        Ok(hosts)
    }

    /// A command of this host as one of theirs. `ip netns exec` becomes the command, so signals reach it.
    pub(super) fn on(&self, is_receiver: bool, plain: &Command) -> Command {
        let host = if is_receiver { &self.far } else { &self.near };
        let mut command = host.command(plain.get_program());
        command.args(plain.get_args());
        if let Some(folder) = plain.get_current_dir() {
            command.current_dir(folder);
        }
        for (name, value) in plain.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command
    }

    /// Does something on the sender's host.
    pub(super) fn visit(&self, visit: impl FnOnce() + Send) {
        self.near.inside(visit);
    }

    /// Takes links down at the sender, or up again.
    pub(super) fn set(&self, links: &[&str], state: &str) {
        for link in links {
            self.near.ip(&["link", "set", link, state]).unwrap();
        }
    }

    /// Links are down for a while.
    pub(super) fn interrupt(&self, links: &[&str]) {
        self.set(links, "down");
        std::thread::sleep(WHILE);
        self.set(links, "up");
    }

    /// Both hosts drop those packets that come to them and match a rule of nftables; all, without one.
    pub(super) fn drop_packets(&self, rule: &str) {
        let script = format!(
            "add table inet storm; \
             add chain inet storm in {{ type filter hook input priority 0; policy accept; }}; \
             add rule inet storm in {rule} counter drop"
        );
        self.nft(&script);
    }

    /// Drops for a while; how many were dropped.
    pub(super) fn drop_for_a_while(&self, rule: &str) -> u64 {
        self.drop_packets(rule);
        std::thread::sleep(WHILE);
        let dropped = self.dropped();
        self.nft("delete table inet storm");
        dropped
    }

    /// Packets that both hosts have dropped by the rule that they have.
    fn dropped(&self) -> u64 {
        let count = |host: &Namespace| -> u64 {
            let output = host.command("nft").arg("list table inet storm").output().unwrap();
            let rules = String::from_utf8_lossy(&output.stdout).into_owned();
            let counter = rules.split("counter packets ").nth(1);
            counter.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0)
        };
        count(&self.near) + count(&self.far)
    }

    fn nft(&self, script: &str) {
        for host in [&self.near, &self.far] {
            let output = host.command("nft").arg(script).output().unwrap();
            assert!(output.status.success(), "{script}: {output:?}");
        }
    }

    /// Ends what is done to packets and links, and checks that a rule, if there is one, has dropped any.
    pub(super) fn mend(&self) {
        let list = self.far.command("nft").arg("list table inet storm").output();
        if list.is_ok_and(|output| output.status.success()) {
            assert!(self.dropped() > 0, "nothing was dropped");
            self.nft("delete table inet storm");
        }
        self.set(&["link1", "link2"], "up");
    }

    /// Whether packets can be dropped here; it is said if not.
    pub(super) fn can_drop(&self, test: &str) -> bool {
        let made = self.far.command("nft").arg("add table inet probe").output();
        let can = made.is_ok_and(|output| output.status.success());
        if !can {
            linecard_testkit::skip(
                test,
                "it needs `nft` (nftables) and the kernel's tables to drop packets",
            );
        }
        can
    }

    /// Has the kernel break the established TCP connections of these ports of the receiver; how many there were.
    pub(super) fn break_connections(&self, ports: &[u16]) -> usize {
        ports
            .iter()
            .map(|port| {
                let mut ss = self.far.command("ss");
                ss.args(["-K", "-H", "-t", "-n", "state", "established", "sport", "="]);
                let output = ss.arg(format!(":{port}")).output().unwrap();
                String::from_utf8_lossy(&output.stdout).lines().count()
            })
            .sum()
    }

    /// Whether connections can be broken here; it is said if not.
    pub(super) fn can_break(&self, test: &str) -> bool {
        let _connections = self.far.inside(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:7009").unwrap();
            let connection = std::net::TcpStream::connect("127.0.0.1:7009").unwrap();
            (listener, connection)
        });
        // A connection that is broken is not shown again.
        let can = self.break_connections(&[7009]) > 0 && self.break_connections(&[7009]) == 0;
        if !can {
            linecard_testkit::skip(
                test,
                "it needs `ss` and CONFIG_INET_DIAG_DESTROY to break sockets",
            );
        }
        can
    }
}
