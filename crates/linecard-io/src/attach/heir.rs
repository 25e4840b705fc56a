//! Addresses and routes of an interface, moved to the device in its place, and given back.
//!
//! `ip` (iproute2) changes them, as an operator would. A process that has dropped its privileges cannot give them back,
//! and a process that was killed does nothing at all: so a shell that keeps its privileges waits for the end of a pipe
//! that this process holds, and then gives everything back. It has the commands for that from the start, and reads
//! nothing later: batches of `ip` can start programs, and who takes over a process without privileges is not to do so
//! by its pipe.

use super::settings::{PortSpec, Settings};
use linecard_tun::PortError;
use linecard_tun::interface::addresses;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Where `ip` is looked for, whatever the caller's environment says: this runs with its rights.
const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin:/run/current-system/sw/bin";

/// Says that it is ready, waits until its input ends, and then has `ip` run its argument, each command
/// whether or not others succeed. Signals to all processes of a terminal or a service are for others.
const GIVE_BACK: &str = "trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE; echo; cat >/dev/null; exec >/dev/null; \
                         printf '%s' \"$1\" | ip -force -batch -";

/// Why addresses and routes cannot be moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// Ports without addresses that could move.
    #[error(
        "only those of an interface at NEAR that is taken from the kernel (`xdp:NAME`, `packet:NAME`) can \
         move, and only to a device at FAR (`tap:NAME`); the ports are {near} and {far}"
    )]
    Ports {
        /// The near port.
        near: Box<PortSpec>,
        /// The far port.
        far: Box<PortSpec>,
    },
    /// A name with characters that a batch of `ip` reads as something else.
    #[error("{0}: rename it to letters, digits and `.`, `_`, `-`, `@`, `+`")]
    Name(String),
    /// The addresses cannot be read.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A route that other interfaces may share.
    #[error("`{0}` may have several next hops: remove it, or move it by hand")]
    Shared(String),
    /// The shell that gives everything back does not start.
    #[error("sh: {0}")]
    Shell(io::Error),
    /// The shell was killed.
    #[error(
        "the shell that was to give addresses ({addresses}) and routes back to {interface} was killed ({status}): do \
         that by hand"
    )]
    Killed {
        /// The addresses.
        addresses: String,
        /// The interface that had them.
        interface: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// `ip` cannot be run.
    #[error("ip {arguments}: {source}")]
    Run {
        /// Its arguments.
        arguments: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// `ip` refuses.
    #[error("ip {arguments}: {answer}")]
    Refused {
        /// Its arguments.
        arguments: String,
        /// The first line of its answer.
        answer: String,
    },
}

/// Addresses and routes that were moved. On drop they are given back.
#[derive(Debug)]
pub(super) struct Moved {
    shell: Child,
    addresses: String,
    interface: String,
}

impl Moved {
    /// Gives them back.
    ///
    /// # Errors
    ///
    /// If somebody has killed the shell that does it.
    pub(super) fn give_back(mut self) -> Result<(), MoveError> {
        match self.end() {
            // Some commands fail, since the device is gone, and with it what it had.
            Ok(status) if status.code().is_none_or(|code| code > 128) => Err(MoveError::Killed {
                addresses: std::mem::take(&mut self.addresses),
                interface: std::mem::take(&mut self.interface),
                status,
            }),
            _ => Ok(()),
        }
    }

    /// Has the shell give everything back, and waits for it.
    fn end(&mut self) -> io::Result<ExitStatus> {
        drop(self.shell.stdin.take());
        self.shell.wait()
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        // It may be gone, if somebody has ended it.
        let _ended = self.end();
    }
}

/// Moves the addresses of the near interface, and the routes through it, to the device at the far end.
/// Returns what to say, too.
///
/// # Errors
///
/// If the ports are others, there is no `ip`, or it refuses; then everything is as it was.
pub(super) fn take(settings: &Settings) -> Result<(Moved, String), MoveError> {
    let interface = settings.near.interface().filter(|_| !settings.near.mirror);
    let (Some(near), Some(far)) = (interface, settings.far.device()) else {
        let [near, far] = [&settings.near, &settings.far].map(|port| Box::new(port.clone()));
        return Err(MoveError::Ports { near, far });
    };
    for name in [near, far] {
        check_name(name)?;
    }
    let plan = Plan::of(near)?;
    let give_back = [plan.removed(far), plan.added(near)].concat();
    let mut moved = wait_to(&give_back).map_err(MoveError::Shell)?;
    (moved.addresses, moved.interface) = (plan.addresses.join(", "), near.to_owned());
    let take_over = [plan.removed(near), plan.added(far)].concat();
    // If that fails, `moved` is dropped, and gives everything back.
    batch(&take_over)?;
    let Plan { addresses, routes, .. } = &plan;
    let list: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let said = match list.as_slice() {
        [] => format!("{near} has no address to move to {far}"),
        list => format!(
            "{} and {} routes moved from {near} to {far}, until the end",
            list.join(", "),
            routes.len()
        ),
    };
    Ok((moved, said))
}

/// A batch of `ip` has comments, quotes and lines that go on, which names of interfaces may contain.
fn check_name(name: &str) -> Result<(), MoveError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@+".contains(&byte);
    match name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(MoveError::Name(name.to_owned())),
    }
}

/// Addresses and routes of an interface.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    /// As `192.0.2.7/24`.
    addresses: Vec<String>,
    /// Those of them whose network somebody else routes: `noprefixroute`.
    without_route: Vec<String>,
    /// Protocol family, and the route as `ip` prints it.
    routes: Vec<(&'static str, String)>,
}

impl Plan {
    fn of(interface: &str) -> Result<Self, MoveError> {
        let all = addresses(interface)?;
        let kept = all.into_iter().filter(|(address, _)| !is_link_local(address));
        let addresses: Vec<String> =
            kept.map(|(address, bits)| format!("{address}/{bits}")).collect();
        let flags = ip(&["-o", "address", "show", "dev", interface], "")?;
        let without_route: Vec<String> =
            without_route(&flags).filter(|address| addresses.contains(address)).collect();
        let mut routes = Vec::new();
        for family in ["-4", "-6"] {
            check_shared(&ip(&[family, "route", "show"], "")?, interface)?;
            let text = ip(&[family, "route", "show", "dev", interface], "")?;
            routes
                .extend(own_routes(&text, !without_route.is_empty()).map(|route| (family, route)));
        }
        // A router has to be reachable before there is a way through it.
        routes.sort_by_key(|(_, route)| route.contains(" via "));
        Ok(Self { addresses, without_route, routes })
    }

    /// Commands that remove the addresses, and the routes with them. The first address of a network
    /// takes the others with it, and goes last.
    fn removed(&self, device: &str) -> String {
        let all = self.addresses.iter().rev();
        all.map(|address| format!("address del {address} dev {device}\n")).collect()
    }

    fn added(&self, device: &str) -> String {
        // Neighbours know the address already: nobody needs to be asked for a double.
        let addresses = self.addresses.iter().map(|address| {
            let how = if address.contains(':') { "nodad" } else { "brd +" };
            let route = if self.without_route.contains(address) { " noprefixroute" } else { "" };
            format!("address replace {address} {how}{route} dev {device}\n")
        });
        let routes = self.routes.iter();
        // A batch has no options: the destination says which protocol it is.
        let routes = routes.map(|(family, route)| match (*family, route.strip_prefix("default")) {
            ("-6", Some(way)) => format!("route replace ::/0{way} dev {device}\n"),
            _ => format!("route replace {route} dev {device}\n"),
        });
        addresses.chain(routes).collect()
    }
}

/// Routes over several interfaces, and by a next hop that others may have too, end with the addresses,
/// and cannot be moved for one interface.
fn check_shared(text: &str, interface: &str) -> Result<(), MoveError> {
    let mut route = "";
    for line in text.lines() {
        if !line.starts_with(char::is_whitespace) {
            route = line.trim_end();
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_shared = words.first() == Some(&"nexthop") || words.contains(&"nhid");
        if is_shared && words.windows(2).any(|pair| pair == ["dev", interface]) {
            return Err(MoveError::Shared(route.to_owned()));
        }
    }
    Ok(())
}

/// Addresses whose networks the kernel is not to route, as a network manager sets them.
fn without_route(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter_map(|words| {
        let at = words.iter().position(|word| matches!(*word, "inet" | "inet6"))?;
        let address = words.get(at + 1)?;
        words.contains(&"noprefixroute").then(|| (*address).to_owned())
    })
}

/// The routes that somebody has set: those of the addresses come and go with them. A network manager that
/// has its own sets them as the kernel would (`sets_prefixes`); where the kernel has set one, too, that
/// makes no difference.
fn own_routes(text: &str, sets_prefixes: bool) -> impl Iterator<Item = String> {
    /// Words that `ip` prints, and does not take.
    const STATES: [&str; 7] =
        ["linkdown", "dead", "offload", "offload_failed", "rt_offload", "trap", "rt_trap"];
    let is_own = move |line: &&str| match format!("{line} ").contains(" proto kernel ") {
        true => sets_prefixes && !line.starts_with("fe80::"),
        false => true,
    };
    let own = text.lines().filter(is_own);
    own.map(|line| {
        let mut words = line.split_whitespace();
        let mut route = Vec::new();
        while let Some(word) = words.next() {
            if word == "expires" {
                // Its seconds, of which it prints the unit. The router that announced it does so again.
                words.next();
            } else if !STATES.contains(&word) {
                route.push(word);
            }
        }
        route.join(" ")
    })
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Starts the helper that restores the settings once this process ends.
fn wait_to(commands: &str) -> io::Result<Moved> {
    let mut shell = command("/bin/sh");
    shell.args(["-c", GIVE_BACK, "sh", commands]).process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = shell.spawn()?;
    let ready = child.stdout.take();
    let moved = Moved { shell: child, addresses: String::new(), interface: String::new() };
    // From then on a signal to all processes of a service does not end it.
    ready.map_or(Ok(()), |mut ready| ready.read_exact(&mut [0])).map(|()| moved)
}

/// With nothing of this process's environment.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).current_dir("/");
    command
}

fn batch(commands: &str) -> Result<(), MoveError> {
    ip(&["-batch", "-"], commands).map(drop)
}

/// Runs `ip`, and returns what it says.
fn ip(arguments: &[&str], input: &str) -> Result<String, MoveError> {
    let told = |source| MoveError::Run { arguments: arguments.join(" "), source };
    let mut command = command("ip");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(told)?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes()).map_err(told)?;
    }
    let output = child.wait_with_output().map_err(told)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let answer = said.lines().next().unwrap_or("it refuses").to_owned();
    Err(MoveError::Refused { arguments: arguments.join(" "), answer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_is_what_somebody_has_set() {
        let text = "default via 192.0.2.1 proto dhcp metric 100 linkdown \n\
                    192.0.2.0/24 proto kernel scope link src 192.0.2.7 \n\
                    10.0.0.0/8 via 192.0.2.2 \n\
                    default via fe80::1 proto ra metric 1024 expires 1799sec pref medium\n";
        let routes: Vec<String> = own_routes(text, false).collect();
        assert_eq!(
            routes,
            [
                "default via 192.0.2.1 proto dhcp metric 100",
                "10.0.0.0/8 via 192.0.2.2",
                "default via fe80::1 proto ra metric 1024 pref medium"
            ]
        );
        let plan = Plan {
            addresses: vec!["192.0.2.7/24".into(), "2001:db8::7/64".into()],
            without_route: Vec::new(),
            routes: vec![("-4", routes[1].clone()), ("-6", "default via 2001:db8::1".into())],
        };
        assert_eq!(
            plan.added("lc0"),
            "address replace 192.0.2.7/24 brd + dev lc0\n\
             address replace 2001:db8::7/64 nodad dev lc0\n\
             route replace 10.0.0.0/8 via 192.0.2.2 dev lc0\n\
             route replace ::/0 via 2001:db8::1 dev lc0\n"
        );
        assert_eq!(
            plan.removed("eth0"),
            "address del 2001:db8::7/64 dev eth0\naddress del 192.0.2.7/24 dev eth0\n"
        );
    }

    #[test]
    fn networks_that_a_manager_routes_stay_so() {
        let text = "2: eth0    inet 192.0.2.7/24 brd 192.0.2.255 scope global dynamic noprefixroute \
                    eth0\\       valid_lft 100sec preferred_lft 100sec\n\
                    2: eth0    inet 192.0.2.8/24 scope global secondary eth0\\  valid_lft forever\n\
                    2: eth0    inet6 fe80::1/64 scope link noprefixroute \\  valid_lft forever\n";
        let without_route: Vec<String> = without_route(text).collect();
        assert_eq!(without_route, ["192.0.2.7/24", "fe80::1/64"]);
        let addresses = vec!["192.0.2.7/24".into(), "192.0.2.8/24".into()];
        let routes = "192.0.2.0/24 proto kernel scope link src 192.0.2.7 metric 100 \n\
                      fe80::/64 proto kernel metric 1024 pref medium\n";
        let own: Vec<String> = own_routes(routes, true).collect();
        assert_eq!(own, ["192.0.2.0/24 proto kernel scope link src 192.0.2.7 metric 100"]);
        assert_eq!(own_routes(routes, false).count(), 0);
        let routes = own.into_iter().map(|route| ("-4", route)).collect();
        let plan = Plan { addresses, without_route, routes };
        assert_eq!(
            plan.added("lc0"),
            "address replace 192.0.2.7/24 brd + noprefixroute dev lc0\n\
             address replace 192.0.2.8/24 brd + dev lc0\n\
             route replace 192.0.2.0/24 proto kernel scope link src 192.0.2.7 metric 100 dev lc0\n"
        );
    }

    #[test]
    fn routes_that_others_share_are_refused() {
        let text = "default proto static \n\
                    \tnexthop via 192.0.2.1 dev eth0 weight 1 \n\
                    \tnexthop via 198.51.100.1 dev eth1 weight 1 \n\
                    10.0.0.0/8 nhid 7 via 203.0.113.1 dev eth2 \n\
                    192.0.2.0/24 dev eth3 proto kernel scope link src 192.0.2.7 \n";
        for (interface, route) in [
            ("eth0", "`default proto static`"),
            ("eth1", "`default proto static`"),
            ("eth2", "`10.0.0.0/8 nhid 7 via 203.0.113.1 dev eth2`"),
        ] {
            let why = check_shared(text, interface).expect_err("it has such a route").to_string();
            assert!(why.starts_with(route), "{why}");
        }
        assert!(check_shared(text, "eth3").is_ok());
    }

    #[test]
    fn names_that_a_batch_reads_as_something_else_are_refused() {
        for name in ["eth0", "eth0.7", "veth-a@b", "wl_p3s0+"] {
            assert!(check_name(name).is_ok());
        }
        for name in ["eth0#", "eth\\", "e'", "\"", "$(id)", "e;f"] {
            let why = check_name(name).expect_err("it is none of these").to_string();
            assert!(why.starts_with(name) && !why.contains('\n'), "{why}");
        }
    }
}
