//! Commands of `ip` by which an interface gets the addresses and routes of another one, and gets them back.

use super::heir::MoveError;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Runs `ip` with these arguments and this input, and returns what it says.
type Ip = fn(&[&str], &str) -> Result<String, MoveError>;

/// Refuses other names: a batch of `ip` has comments, quotes and lines that go on, which names of interfaces may contain.
pub(super) fn check_name(name: &str) -> Result<(), MoveError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@+".contains(&byte);
    match name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(MoveError::Name(name.to_owned())),
    }
}

/// Addresses, routes and permanent neighbours of an interface.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    addresses: Vec<Address>,
    /// Protocol family, and the route as `ip` prints it, with its table.
    routes: Vec<(&'static str, String)>,
    /// Address and link-layer address.
    neighbours: Vec<(String, String)>,
}

/// An address, in words that `ip` takes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    /// As `192.0.2.7/24`, or with a peer, as `192.0.2.7 peer 192.0.2.8/32`.
    name: String,
    /// Broadcast, scope and the like.
    options: Vec<String>,
    /// Another name of the interface, as `eth0:1`.
    label: Option<String>,
}

impl Plan {
    /// All of these that an interface has.
    ///
    /// # Errors
    ///
    /// `ip` refuses to say it, or routes are shared with other interfaces.
    pub(super) fn of(interface: &str, ip: Ip) -> Result<Self, MoveError> {
        let text = ip(&["-o", "address", "show", "dev", interface], "")?;
        let addresses: Vec<Address> =
            text.lines().filter_map(|line| Address::read(line, interface)).collect();
        let sets_prefixes = addresses.iter().any(Address::is_without_route);
        let mut routes = Vec::new();
        for family in ["-4", "-6"] {
            check_shared(&ip(&[family, "route", "show", "table", "all"], "")?, interface)?;
            let show = [family, "route", "show", "table", "all", "dev", interface];
            let text = ip(&show, "")?;
            routes.extend(own_routes(&text, sets_prefixes).map(|route| (family, route)));
        }
        // A router has to be reachable before there is a way through it.
        routes.sort_by_key(|(_, route)| route.contains(" via "));
        let text = ip(&["neighbour", "show", "dev", interface, "nud", "permanent"], "")?;
        let neighbours = text.lines().filter_map(neighbour).collect();
        Ok(Self { addresses, routes, neighbours })
    }

    /// Its addresses, as `192.0.2.7/24`.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.addresses.iter().map(|address| address.name.as_str())
    }

    /// Number of its routes.
    pub(super) fn routes(&self) -> usize {
        self.routes.len()
    }

    /// Commands that remove the addresses, and the routes with them. The first address of a network
    /// takes the others with it, and goes last.
    pub(super) fn removed(&self, device: &str) -> String {
        let all = self.addresses().collect::<Vec<_>>().into_iter().rev();
        all.map(|address| format!("address del {address} dev {device}\n")).collect()
    }

    /// The same with neighbours, last: `ip` ends a batch where one of them is missing.
    pub(super) fn cleared(&self, device: &str) -> String {
        let neighbours = self.neighbours.iter();
        let neighbours = neighbours.map(|(ip, _)| format!("neighbour del {ip} dev {device}\n"));
        [self.removed(device)].into_iter().chain(neighbours).collect()
    }

    /// Commands that add all of it to a device.
    pub(super) fn added(&self, device: &str) -> String {
        // The kernel lists addresses of IPv6 the newest first, and sends from that.
        let (mut ipv6, ipv4): (Vec<_>, Vec<_>) =
            self.addresses.iter().partition(|address| address.is_ipv6());
        ipv6.reverse();
        let addresses = ipv4.into_iter().chain(ipv6).map(|address| address.added(device));
        let mut places = BTreeSet::new();
        let routes = self.routes.iter().map(|(family, route)| {
            // Another route to the same place is not to replace the first.
            let verb = if places.insert((family, place(route))) { "replace" } else { "append" };
            // A batch has no options: the destination says which protocol it is.
            match (*family, route.strip_prefix("default")) {
                ("-6", Some(way)) => format!("route {verb} ::/0{way} dev {device}\n"),
                _ => format!("route {verb} {route} dev {device}\n"),
            }
        });
        let neighbours = self.neighbours.iter().map(|(ip, lladdr)| {
            format!("neighbour replace {ip} lladdr {lladdr} nud permanent dev {device}\n")
        });
        addresses.chain(routes).chain(neighbours).collect()
    }
}

impl Address {
    /// An address by its line of `ip -o address`; none of those of the link, which each interface has of its own.
    fn read(line: &str, interface: &str) -> Option<Self> {
        let mut words = line.split('\\').next()?.split_whitespace();
        let is_ipv6 = words.find(|word| matches!(*word, "inet" | "inet6"))? == "inet6";
        let mut name = words.next()?.to_owned();
        let local: IpAddr = name.split('/').next()?.parse().ok()?;
        if matches!(local, IpAddr::V6(local) if local.is_unicast_link_local()) {
            return None;
        }
        // Neighbours know the address already: nobody needs to be asked for a double.
        let mut options: Vec<String> = is_ipv6.then(|| "nodad".to_owned()).into_iter().collect();
        let mut label = None;
        while let Some(word) = words.next() {
            let add = match word {
                "peer" => {
                    name = format!("{name} peer {}", words.next()?);
                    continue;
                }
                // IPv6 has its scope by the address.
                "scope" if is_ipv6 => words.next().map(|_| String::new())?,
                "metric" | "brd" | "scope" => format!("{word} {}", words.next()?),
                "proto" => words.next().map(|_| String::new())?,
                "noprefixroute" | "mngtmpaddr" | "home" | "autojoin" => word.to_owned(),
                "deprecated" => "preferred_lft 0".to_owned(),
                // States, which the kernel sets.
                "secondary" | "temporary" | "dynamic" | "tentative" | "optimistic"
                | "dadfailed" | "nodad" | "permanent" | "stable-privacy" => String::new(),
                other => {
                    label = (!is_ipv6 && other != interface).then(|| other.to_owned());
                    String::new()
                }
            };
            options.extend(Some(add).filter(|add| !add.is_empty()));
        }
        Some(Self { name, options, label })
    }

    fn is_ipv6(&self) -> bool {
        self.name.contains(':')
    }

    /// Whether its network is routed by somebody else, as a network manager.
    fn is_without_route(&self) -> bool {
        self.options.iter().any(|option| option == "noprefixroute")
    }

    fn added(&self, device: &str) -> String {
        let Self { name, options, label } = self;
        // A label begins with the name of its interface.
        let mine = label.as_ref().filter(|label| label.starts_with(device));
        let label = mine.map(|label| format!(" label {label}")).unwrap_or_default();
        let options: String = options.iter().map(|option| format!(" {option}")).collect();
        format!("address replace {name}{options}{label} dev {device}\n")
    }
}

/// Destination, table and metric, by which a route replaces another one.
fn place(route: &str) -> Vec<&str> {
    let words: Vec<&str> = route.split_whitespace().collect();
    let of = |key: &str| words.windows(2).find(|pair| pair[0] == key).map(|pair| pair[1]);
    let keys = ["table", "metric", "tos"].into_iter().map(|key| of(key).unwrap_or_default());
    words.first().copied().into_iter().chain(keys).collect()
}

/// A permanent neighbour by its line of `ip neighbour`.
fn neighbour(line: &str) -> Option<(String, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "lladdr")?;
    Some(((*words.first()?).to_owned(), (*words.get(at + 1)?).to_owned()))
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

/// The routes that somebody has set: those of the addresses come and go with them. A network manager that
/// has its own sets them as the kernel would (`sets_prefixes`); where the kernel has set one, too, that
/// makes no difference.
fn own_routes(text: &str, sets_prefixes: bool) -> impl Iterator<Item = String> {
    /// Words that `ip` prints, and does not take.
    const STATES: [&str; 7] =
        ["linkdown", "dead", "offload", "offload_failed", "rt_offload", "trap", "rt_trap"];
    let is_own = move |line: &&str| match format!("{line} ").contains(" proto kernel ") {
        _ if format!("{line} ").contains(" table local ") => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Address {
        Address::read(line, "eth0").expect("an address")
    }

    #[test]
    fn what_is_moved_is_what_somebody_has_set() {
        let text = "default via 192.0.2.1 proto dhcp metric 100 linkdown \n\
                    192.0.2.0/24 proto kernel scope link src 192.0.2.7 \n\
                    10.0.0.0/8 via 192.0.2.2 table 100 \n\
                    local 192.0.2.7 table local proto kernel scope host src 192.0.2.7 \n\
                    default via fe80::1 proto ra metric 1024 expires 1799sec pref medium\n";
        let routes: Vec<String> = own_routes(text, false).collect();
        assert_eq!(
            routes,
            [
                "default via 192.0.2.1 proto dhcp metric 100",
                "10.0.0.0/8 via 192.0.2.2 table 100",
                "default via fe80::1 proto ra metric 1024 pref medium"
            ]
        );
        assert!(own_routes(text, true).all(|route| !route.contains("local")));
        let neighbours = "192.0.2.9 lladdr 02:00:00:00:00:01 PERMANENT \n192.0.2.8 PERMANENT\n";
        let plan = Plan {
            addresses: vec![
                read(
                    "3: eth0    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth0\\  valid_lft forever",
                ),
                read("3: eth0    inet6 2001:db8::7/64 scope global \\  valid_lft forever"),
            ],
            routes: vec![("-4", routes[1].clone()), ("-6", "default via 2001:db8::1".into())],
            neighbours: neighbours.lines().filter_map(neighbour).collect(),
        };
        assert_eq!(
            plan.added("lc0"),
            "address replace 192.0.2.7/24 brd 192.0.2.255 scope global dev lc0\n\
             address replace 2001:db8::7/64 nodad dev lc0\n\
             route replace 10.0.0.0/8 via 192.0.2.2 table 100 dev lc0\n\
             route replace ::/0 via 2001:db8::1 dev lc0\n\
             neighbour replace 192.0.2.9 lladdr 02:00:00:00:00:01 nud permanent dev lc0\n"
        );
        assert_eq!(
            plan.removed("eth0"),
            "address del 2001:db8::7/64 dev eth0\naddress del 192.0.2.7/24 dev eth0\n"
        );
        assert!(plan.cleared("lc0").ends_with("dev lc0\nneighbour del 192.0.2.9 dev lc0\n"));
    }

    #[test]
    fn routes_to_one_place_stay_beside_each_other() {
        let routes =
            ["default via 192.0.2.1", "default via 192.0.2.2", "default via 192.0.2.3 metric 9"];
        let routes = routes.map(|route| ("-4", route.to_owned())).to_vec();
        let ipv6 = ["2001:db8::7/64", "2001:db8::8/64"];
        let ipv6 = ipv6.map(|ip| read(&format!("3: eth0    inet6 {ip} scope global \\\\  x")));
        let plan = Plan { addresses: ipv6.to_vec(), routes, neighbours: Vec::new() };
        assert_eq!(
            plan.added("lc0"),
            "address replace 2001:db8::8/64 nodad dev lc0\naddress replace 2001:db8::7/64 nodad dev lc0\n\
             route replace default via 192.0.2.1 dev lc0\nroute append default via 192.0.2.2 dev lc0\n\
             route replace default via 192.0.2.3 metric 9 dev lc0\n"
        );
    }

    /// All that makes an address is kept, so that it comes back as it was.
    #[test]
    fn addresses_keep_what_they_are() {
        for (line, there, back) in [
            (
                "3: eth0    inet 192.0.2.3/24 metric 500 scope link eth0:1\\  valid_lft forever",
                "192.0.2.3/24 metric 500 scope link dev lc0",
                "192.0.2.3/24 metric 500 scope link label eth0:1 dev eth0",
            ),
            (
                "3: eth0    inet 192.0.2.1 peer 192.0.2.2/32 scope global eth0\\  valid_lft forever",
                "192.0.2.1 peer 192.0.2.2/32 scope global dev lc0",
                "192.0.2.1 peer 192.0.2.2/32 scope global dev eth0",
            ),
            (
                "3: eth0    inet6 2001:db8::5/64 scope global deprecated dynamic mngtmpaddr proto kernel_ra \\  x",
                "2001:db8::5/64 nodad preferred_lft 0 mngtmpaddr dev lc0",
                "2001:db8::5/64 nodad preferred_lft 0 mngtmpaddr dev eth0",
            ),
        ] {
            let address = read(line);
            assert_eq!(address.added("lc0"), format!("address replace {there}\n"));
            assert_eq!(address.added("eth0"), format!("address replace {back}\n"));
        }
        let link = "3: eth0    inet6 fe80::1/64 scope link \\  valid_lft forever";
        assert_eq!(Address::read(link, "eth0"), None);
        assert_eq!(Address::read("3: eth0    link/ether 02:00:00:00:00:01", "eth0"), None);
    }

    #[test]
    fn networks_that_a_manager_routes_stay_so() {
        let manager = "2: eth0    inet 192.0.2.7/24 brd 192.0.2.255 scope global dynamic noprefixroute \
                       eth0\\       valid_lft 100sec preferred_lft 100sec";
        let other = "2: eth0    inet 192.0.2.8/24 scope global secondary eth0\\  valid_lft forever";
        let addresses = [manager, other].map(read).to_vec();
        assert_eq!([true, false], [&addresses[0], &addresses[1]].map(Address::is_without_route));
        let routes = "192.0.2.0/24 proto kernel scope link src 192.0.2.7 metric 100 \n\
                      fe80::/64 proto kernel metric 1024 pref medium\n";
        let own: Vec<String> = own_routes(routes, true).collect();
        assert_eq!(own, ["192.0.2.0/24 proto kernel scope link src 192.0.2.7 metric 100"]);
        assert_eq!(own_routes(routes, false).count(), 0);
        let routes = own.into_iter().map(|route| ("-4", route)).collect();
        assert_eq!(
            Plan { addresses, routes, neighbours: Vec::new() }.added("lc0"),
            "address replace 192.0.2.7/24 brd 192.0.2.255 scope global noprefixroute dev lc0\n\
             address replace 192.0.2.8/24 scope global dev lc0\n\
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
