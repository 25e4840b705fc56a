//! Routes and addresses that prevent a move, because they could not be restored exactly.

use super::heir::MoveError;
use super::plan::{Address, without_states};
use std::collections::BTreeMap;

/// Routes over several interfaces, and by a next hop that others may have too, end with the addresses,
/// and cannot be moved for one interface.
pub(super) fn check_shared(shown: &str, interface: &str) -> Result<(), MoveError> {
    let mut route = "";
    for line in shown.lines() {
        if !line.starts_with(char::is_whitespace) {
            route = line.trim_end();
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_shared = words.first() == Some(&"nexthop") || words.contains(&"nhid");
        if is_shared && value(line, "dev") == Some(interface) {
            return Err(MoveError::Shared(route.to_owned()));
        }
    }
    Ok(())
}

/// Those of these addresses that no interface but these has, by the lines of `ip -o address show`.
pub(super) fn alone(addresses: &[Address], shown: &str, interfaces: [&str; 2]) -> Vec<String> {
    let others = shown.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let interface = words.next()?;
        let address = words.nth(1)?.split('/').next()?;
        (!interfaces.contains(&interface)).then_some(address)
    });
    let others: Vec<&str> = others.collect();
    let own = addresses.iter().map(Address::own).filter(|own| !others.contains(own));
    own.map(str::to_owned).collect()
}

/// With the last address of this kind, the kernel removes routes of IPv4 that send from it, wherever they lead, and takes
/// it from those of IPv6.
pub(super) fn check_sources(
    shown: &str,
    interface: &str,
    addresses: &[String],
) -> Result<(), MoveError> {
    let others = shown.lines().filter(|line| value(line, "dev") != Some(interface));
    let source = |line| value(line, "src").map(|source| (line, source));
    let mut sources = others.filter_map(source);
    let lost = sources.find(|(_, source)| addresses.iter().any(|address| address == source));
    match lost {
        None => Ok(()),
        Some((route, address)) => Err(MoveError::Source {
            route: route.trim_end().to_owned(),
            address: address.to_owned(),
        }),
    }
}

/// The kernel renews, and removes, only what it has itself set from router advertisements; `shown` are routes of IPv6.
pub(super) fn check_advertised(
    shown: &str,
    interface: &str,
    addresses: &[Address],
) -> Result<(), MoveError> {
    let routes = shown.lines().filter(|line| value(line, "dev") == Some(interface));
    let mut routes = routes.filter(|line| value(line, "proto") == Some("ra"));
    let route = routes.next().map(without_states);
    let address = addresses.iter().find(|address| address.is_advertised());
    match route.or_else(|| address.map(|address| address.name.clone())) {
        Some(what) if accepts_advertisements(interface) => {
            Err(MoveError::Advertised { what, interface: interface.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Whether the kernel itself configures the interface from router advertisements: where it forwards, only if that is asked
/// for.
fn accepts_advertisements(interface: &str) -> bool {
    let setting = |name| {
        let path = format!("/proc/sys/net/ipv6/conf/{interface}/{name}");
        std::fs::read_to_string(path).ok()?.trim().parse::<u32>().ok()
    };
    match setting("accept_ra") {
        None | Some(0) => false,
        Some(1) => setting("forwarding").is_none_or(|forwards| forwards == 0),
        Some(_) => true,
    }
}

/// Routes of IPv4 through an interface that come before those of others with the same destination and metric, as
/// [`super::plan::Route::text`]: a route can be added before all others, or behind them.
///
/// # Errors
///
/// One is between others.
pub(super) fn first(shown: &str, interface: &str) -> Result<Vec<String>, MoveError> {
    let mut alike: BTreeMap<[&str; 4], Vec<(bool, &str)>> = BTreeMap::new();
    for line in shown.lines().filter(|line| !line.starts_with(char::is_whitespace)) {
        let is_place = |word: &&str| *word == "default" || word.starts_with(char::is_numeric);
        let place = line.split_whitespace().find(is_place).unwrap_or_default();
        let [table, tos, metric] =
            ["table", "tos", "metric"].map(|key| value(line, key).unwrap_or_default());
        let is_own = value(line, "dev") == Some(interface);
        alike.entry([place, table, tos, metric]).or_default().push((is_own, line));
    }
    let mut first = Vec::new();
    for routes in alike.into_values() {
        let own: Vec<&str> =
            routes.iter().filter(|(is_own, _)| *is_own).map(|(_, line)| *line).collect();
        let is_before = routes.iter().take_while(|(is_own, _)| *is_own).count() == own.len();
        let is_behind = routes.iter().rev().take_while(|(is_own, _)| *is_own).count() == own.len();
        // Routes to routers are set last.
        let by_router = || own.iter().map(|line| line.contains(" via "));
        match own.first() {
            None => {}
            Some(_) if is_behind && by_router().is_sorted() => {}
            Some(_) if is_before && !is_behind && by_router().rev().is_sorted() => {
                first.extend(own.iter().map(|line| without_states(line)));
            }
            Some(route) => return Err(MoveError::Between { route: route.trim_end().to_owned() }),
        }
    }
    Ok(first)
}

/// The word behind another one.
fn value<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    let mut words = line.split_whitespace();
    words.find(|word| *word == key)?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::plan::tests::read;

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
    fn routes_of_others_that_send_from_a_moved_address_are_refused() {
        let held = "1: lo    inet 127.0.0.1/8 scope host lo\\ x\n\
                    2: eth0    inet 192.0.2.7/24 scope global eth0\\ x\n\
                    3: eth1    inet 192.0.2.8/32 scope global eth1\\ x\n";
        let addresses = ["192.0.2.7/24", "192.0.2.8/24"]
            .map(|name| read(&format!("if2:\\    inet {name} scope global eth0\\  x"), 0));
        let own = alone(&addresses, held, ["eth0", "lc0"]);
        assert_eq!(own, ["192.0.2.7"], "eth1 has the other one as well");
        for (route, is_lost) in [
            ("10.0.0.0/8 dev eth1 scope link src 192.0.2.7 ", true),
            ("10.0.0.0/8 dev eth0 scope link src 192.0.2.7 ", false),
            ("10.0.0.0/8 dev eth1 table 7 scope link src 192.0.2.8 ", false),
            ("unreachable 10.0.0.0/8 table 7 src 192.0.2.7 ", true),
            ("10.0.0.0/8 proto static src 192.0.2.7 \n\tnexthop via 203.0.113.1 dev eth1", true),
        ] {
            let checked = check_sources(route, "eth0", &own).map_err(|why| why.to_string());
            assert_eq!(checked.is_err(), is_lost, "{route}");
            if let Err(why) = checked {
                assert!(why.contains("with 192.0.2.7") && !why.contains('\n'), "{why}");
            }
        }
    }

    /// A letter for each route: that of the interface itself is `e`, others are `d`.
    #[test]
    fn routes_before_others_are_known_and_those_between_are_refused() {
        let routes = |order: &str| {
            let line = |(number, kind): (usize, char)| {
                format!("default via 192.0.2.{number} dev {kind} metric 5 linkdown \n")
            };
            let other = "default via 192.0.2.9 dev d metric 6 \n";
            order.chars().enumerate().map(line).collect::<String>() + other
        };
        let via = |number: usize| format!("default via 192.0.2.{number} metric 5");
        for (order, expected) in [
            ("e", Some(vec![])),
            ("de", Some(vec![])),
            ("ed", Some(vec![via(0)])),
            ("eed", Some(vec![via(0), via(1)])),
            ("ede", None),
            ("ded", None),
        ] {
            let found = first(&routes(order), "e");
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{order}");
            let why = found.err().map(|why| why.to_string()).unwrap_or_default();
            assert!(expected.is_some() || why.starts_with("`default via 192"), "{why}");
        }
        let direct = "default via 192.0.2.1 dev e \ndefault dev e \n";
        assert!(first(direct, "e").is_err(), "the route to the router is set first");
    }
}
