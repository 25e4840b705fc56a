//! Routes that the kernel sets with addresses: they appear and disappear with them; all other routes were configured.

use super::plan::{Address, Route};
use std::net::{IpAddr, Ipv4Addr};

/// Metric of the routes of IPv6 that the kernel sets with addresses that name none.
const IPV6_METRIC: u32 = 256;
/// Seconds by which the ends of an address and of its route may differ, since they are read one after the other.
const APART: u32 = 2;

/// The route that the kernel sets with an address.
#[derive(Debug, PartialEq, Eq)]
struct Generated {
    /// By which it is removed. Of IPv4, all addresses of a network have one route.
    key: String,
    /// As [`Route::text`].
    text: String,
    /// Seconds until its end, if it has one.
    ends: Option<u32>,
}

impl Generated {
    fn of(address: &Address) -> Option<Self> {
        if address.is_without_route || address.is_secondary() {
            return None;
        }
        let network = Network::of(address)?.name();
        let is_default = address.is_ipv6() && address.metric == 0;
        let metric = if is_default { IPV6_METRIC } else { address.metric };
        let metric = if metric == 0 { String::new() } else { format!(" metric {metric}") };
        Some(if address.is_ipv6() {
            let key = format!("{network} proto kernel{metric}");
            Self { text: format!("{key} pref medium"), key, ends: address.ends() }
        } else {
            let (key, own) = (format!("{network} proto kernel"), address.own());
            Self { text: format!("{key} scope link src {own}{metric}"), key, ends: None }
        })
    }

    fn is_key_of(&self, route: &Route) -> bool {
        let rest = route.text.strip_prefix(&self.key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

/// Separates routes that were set or changed from those that the kernel sets with addresses, and adds the keys of those
/// that were removed or changed. Routes to networks of addresses that stay do so, too.
pub(super) fn apart(
    routes: Vec<Route>,
    addresses: &[Address],
    staying: &[Address],
) -> (Vec<Route>, Vec<String>) {
    let [set, stay] = [addresses, staying]
        .map(|addresses| addresses.iter().filter_map(Generated::of).collect::<Vec<_>>());
    let (there, own): (Vec<Route>, Vec<Route>) = routes.into_iter().partition(|route| {
        stay.iter().any(|one| one.is_key_of(route)) || (!route.is_first && is_as_set(route, &set))
    });
    let is_there = |one: &Generated| there.iter().any(|route| one.is_key_of(route));
    let mut removed: Vec<String> = Vec::new();
    for one in set.iter().filter(|one| !is_there(one)) {
        if !removed.contains(&one.key) {
            removed.push(one.key.clone());
        }
    }
    (own, removed)
}

/// Whether a route is as the kernel sets it. It has no end if one address of the network has none.
fn is_as_set(route: &Route, set: &[Generated]) -> bool {
    let mut alike = set.iter().filter(|one| one.text == route.text).map(|one| one.ends);
    let Some(first) = alike.next() else { return false };
    let ends = alike.fold(first, |before, ends| before.and(ends));
    match (route.ends(), ends) {
        (Some(route), Some(address)) => route.abs_diff(address) <= APART,
        (route, address) => route == address,
    }
}

/// Entries of the table `local` that the kernel sets with addresses, in the form of [`known`].
pub(super) fn entries(addresses: &[Address], staying: &[Address]) -> Vec<String> {
    let mut entries: Vec<String> = ["multicast ", ""]
        .map(|kind| format!("{kind}ff00::/8 table local proto kernel metric 256 pref medium"))
        .into();
    for address in addresses.iter().chain(staying) {
        let Some(network) = Network::of(address) else { continue };
        let own = address.own();
        if address.is_ipv6() {
            // Of a router, the network's own address, too.
            let addresses =
                [("local", own), ("anycast", &network.first.to_string())].map(|(kind, ip)| {
                    format!("{kind} {ip} table local proto kernel metric 0 pref medium")
                });
            entries.extend(addresses);
            continue;
        }
        // The first address of a network is the source of all its entries.
        let is_source = |other: &&Address| {
            !other.is_secondary() && Network::of(other).is_some_and(|other| other == network)
        };
        let source = addresses.iter().find(is_source).filter(|_| address.is_secondary());
        let source = source.unwrap_or(address).own();
        entries.push(format!("local {own} table local proto kernel scope host src {source}"));
        // Before Linux 5.14, the network's first address is one, too.
        let ends = network.ends().filter(|_| !address.is_secondary() && network.length < 31);
        let broadcasts = ends.into_iter().flatten().chain(address.broadcast());
        entries.extend(
            broadcasts.map(|ip| {
                format!("broadcast {ip} table local proto kernel scope link src {source}")
            }),
        );
    }
    entries
}

/// A route as newer kernels name the program that has set it.
pub(super) fn known(text: &str) -> String {
    [" proto none ", " proto unspec "]
        .iter()
        .fold(text.to_owned(), |text, words| text.replace(words, " proto kernel "))
}

/// Whether a route, or its key, is that of the kernel to a network of the link.
pub(super) fn is_of_link(text: &str) -> bool {
    text.starts_with("fe80::/") && format!("{text} ").contains(" proto kernel ")
}

/// The network of an address.
#[derive(Debug, PartialEq, Eq)]
struct Network {
    first: IpAddr,
    length: u32,
}

impl Network {
    fn of(address: &Address) -> Option<Self> {
        let (ip, length) = address.name.rsplit(' ').next()?.split_once('/')?;
        let (ip, length): (IpAddr, u32) = (ip.parse().ok()?, length.parse().ok()?);
        let first = match ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or(0);
                (u32::from(ip) & mask).to_be_bytes().into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
                (u128::from(ip) & mask).to_be_bytes().into()
            }
        };
        Some(Self { first, length })
    }

    /// As `ip` names it.
    fn name(&self) -> String {
        let Self { first, length } = self;
        let most = if first.is_ipv6() { 128 } else { 32 };
        if *length == most { first.to_string() } else { format!("{first}/{length}") }
    }

    /// The first and the last address of one of IPv4.
    fn ends(&self) -> Option<[Ipv4Addr; 2]> {
        let IpAddr::V4(first) = self.first else { return None };
        let rest = u32::MAX.checked_shr(self.length).unwrap_or(0);
        Some([first, Ipv4Addr::from(u32::from(first) | rest)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::plan::tests::{read, route};

    #[test]
    fn routes_that_the_kernel_sets_are_known() {
        let generated = |line: &str| {
            let Generated { key, text, .. } = Generated::of(&read(line, 0))?;
            Some([key, text])
        };
        for (line, key, rest) in [
            (
                "if2:\\    inet 192.0.2.7/25 brd 192.0.2.127 scope global eth0\\  x",
                "192.0.2.0/25 proto kernel",
                " scope link src 192.0.2.7",
            ),
            (
                "if2:\\    inet 10.7.0.1 peer 10.7.0.2/32 metric 5 scope link eth0\\  x",
                "10.7.0.2 proto kernel",
                " scope link src 10.7.0.1 metric 5",
            ),
            (
                "if2:\\    inet 10.7.0.1/0 scope link eth0\\  x",
                "0.0.0.0/0 proto kernel",
                " scope link src 10.7.0.1",
            ),
            (
                "if2:\\    inet6 2001:db8::7/64 scope global\\  x",
                "2001:db8::/64 proto kernel metric 256",
                " pref medium",
            ),
            (
                "if2:\\    inet6 2001:db8::7/64 metric 55 scope global\\  x",
                "2001:db8::/64 proto kernel metric 55",
                " pref medium",
            ),
        ] {
            assert_eq!(generated(line), Some([key.to_owned(), format!("{key}{rest}")]), "{line}");
        }
        let manager = "if2:\\    inet 192.0.2.7/24 scope global noprefixroute eth0\\  x";
        assert_eq!(generated(manager), None);
        let second = read("if2:\\    inet 192.0.2.8/24 scope global secondary eth0\\  x", 1);
        assert_eq!(Generated::of(&second), None, "the route is of the first address");
    }

    #[test]
    fn entries_of_addresses_are_the_kernels_and_no_others() {
        let addresses = [
            read("if3:\\    inet 10.9.0.1/24 scope global eth0\\  x", 0),
            read("if3:\\    inet 10.9.0.2/24 scope global secondary eth0\\  x", 1),
            read("if3:\\    inet6 2001:db8::7/64 scope global\\  x", 0),
        ];
        let staying = [read("if3:\\    inet6 fe80::7/64 scope link\\  x", 0)];
        let entries = entries(&addresses, &staying);
        for (text, is_of_kernel) in [
            ("local 10.9.0.1 table local proto kernel scope host src 10.9.0.1", true),
            ("local 10.9.0.2 table local proto kernel scope host src 10.9.0.1", true),
            ("local 10.9.0.2 table local proto kernel scope host src 10.9.0.2", false),
            ("broadcast 10.9.0.255 table local proto kernel scope link src 10.9.0.1", true),
            ("broadcast 10.9.9.9 table local proto kernel scope link src 10.9.0.1", false),
            ("local 10.44.0.0/16 table local proto kernel scope host src 10.9.0.1", false),
            ("local 2001:db8::7 table local proto none metric 0 pref medium", true),
            ("anycast 2001:db8:: table local proto kernel metric 0 pref medium", true),
            ("anycast 2001:db8::9 table local proto kernel metric 0 pref medium", false),
            ("local fe80::7 table local proto kernel metric 0 pref medium", true),
            ("multicast ff00::/8 table local proto kernel metric 256 pref medium", true),
            ("multicast ff05::/16 table local proto kernel metric 256 pref medium", false),
        ] {
            assert_eq!(entries.contains(&known(text)), is_of_kernel, "{text}");
        }
    }

    /// The ends of a route and of its address are the same, or the route was changed. [`route`] ends after 13
    /// seconds, and [`read`] after 100.
    #[test]
    fn a_route_with_another_end_is_somebodys() {
        let address = read("if3:\\    inet6 2001:db8::7/64 scope global dynamic\\  x", 0);
        let text = "2001:db8::/64 proto kernel metric 256 pref medium";
        let mut set = vec![Generated::of(&address).expect("a route")];
        let network = route(text, 10);
        assert!(!is_as_set(&network, &set));
        set[0].ends = Some(14);
        assert!(is_as_set(&network, &set));
        set.push(Generated { ends: None, ..Generated::of(&address).expect("a route") });
        assert!(!is_as_set(&network, &set), "another address of the network has no end");
        let (own, removed) = apart(vec![network.clone()], &[address], &[]);
        assert_eq!((own, &*removed), (vec![network], &[text.replace(" pref medium", "")][..]));
    }

    /// The kernel's own address of the link keeps the route to its network, changed or not.
    #[test]
    fn networks_of_addresses_that_stay_are_left_alone() {
        let stays = [read("if3:\\    inet6 fe80::1/64 scope link\\  x", 0x80)];
        let moved = [
            read("if3:\\    inet6 fe80::7/64 scope link\\  x", 0x80),
            read("if3:\\    inet6 fe80::8/10 scope link\\  x", 0x80),
        ];
        let changed = "fe80::/64 proto kernel metric 256 initcwnd 12 pref medium";
        let wide = "fe80::/10 proto kernel metric 256 initcwnd 12 pref medium";
        let routes = || vec![route(changed, 10), route(wide, 10)];
        let (own, removed) = apart(routes(), &moved, &stays);
        assert_eq!(
            (own, &*removed),
            (vec![route(wide, 10)], &["fe80::/10 proto kernel metric 256".to_owned()][..])
        );
        let (own, removed) = apart(routes(), &moved, &[]);
        assert_eq!((own.len(), removed.len()), (2, 2), "nothing of the kernel stays");
        let (_, removed) = apart(Vec::new(), &moved[..1], &stays);
        assert_eq!(removed, ["fe80::/64 proto kernel metric 256"], "somebody has removed it");
    }
}
