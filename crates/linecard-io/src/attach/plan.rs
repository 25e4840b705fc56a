//! Addresses, routes and neighbours of an interface, and the steps that move them to another interface and back.

use super::generated;
use super::heir::MoveError;
use super::iproute::{ip, saved};
use super::netlink::{Message, Object};
use super::unmovable;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Attributes of an address (`linux/if_addr.h`).
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_PROTO: u16 = 11;
/// `IFA_F_NODAD`: neighbours know the address already, and need not be asked whether it is a double.
const NODAD: u32 = 0x02;
/// `IFA_F_SECONDARY`, of IPv4: another address of the network came first.
const SECONDARY: u32 = 0x01;
/// `IFA_F_TEMPORARY`, of IPv6: for privacy, and only the kernel sets it.
const TEMPORARY: u32 = 0x01;
/// `IFA_F_DADFAILED`: a neighbour has the address.
const DOUBLE: u32 = 0x08;
/// `IFA_F_TENTATIVE`: the kernel asks neighbours whether they have the address.
const TENTATIVE: u32 = 0x40;
/// How long the kernel may ask: by default it takes up to two seconds.
const ASKING: Duration = Duration::from_secs(4);
/// `IFAPROT_KERNEL_LL`: the kernel's own address of the link.
const KERNEL_LL: u8 = 3;
/// `IFAPROT_KERNEL_RA`: an address from a router advertisement.
const KERNEL_RA: u8 = 2;
/// A lifetime without an end.
const FOREVER: u32 = u32::MAX;
/// Attributes of a route (`linux/rtnetlink.h`).
const RTA_OIF: u16 = 4;
const RTA_CACHEINFO: u16 = 12;
const RTA_EXPIRES: u16 = 23;
/// The flags of a route that can be configured: `RTNH_F_PERVASIVE`, `RTNH_F_ONLINK`. Others are states.
const SET_FLAGS: u32 = 0x02 | 0x04;
/// `AF_INET6`.
const IPV6: u8 = 10;
/// Units of a second in which the kernel counts the age of a route (`USER_HZ`).
const USER_HZ: u32 = 100;

/// Refuses other names: words of a command are separated by blanks, and names of interfaces may contain whatever a
/// shell reads as something else.
pub(super) fn check_name(name: &str) -> Result<(), MoveError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@+".contains(&byte);
    match name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(MoveError::Name(name.to_owned())),
    }
}

/// A call of `ip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) action: Action,
    /// The object, as errors name it; `None` for a step that need not succeed.
    pub(super) object: Option<String>,
}

/// Arguments or input of `ip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// These words, and `dev` with this device.
    Words { words: String, device: String },
    /// This message, to be restored.
    Restore(Message),
}

impl Step {
    /// A step that may find its work done.
    fn tried(words: String, device: &str) -> Self {
        Self { action: Action::Words { words, device: device.to_owned() }, object: None }
    }

    fn words(words: String, device: &str) -> Self {
        Self { object: Some(words.clone()), ..Self::tried(words, device) }
    }
}

/// Configured addresses, routes and neighbours of an interface.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    addresses: Vec<Address>,
    routes: Vec<Route>,
    /// Without the interface, as `192.0.2.9 lladdr 02:00:00:00:00:01 nud permanent`.
    neighbours: Vec<String>,
    /// Routes that the kernel sets with the addresses, where they were removed or changed.
    removed: Vec<String>,
}

/// An address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    message: Message,
    /// As `192.0.2.7/24`, or with a peer, as `192.0.2.7 peer 192.0.2.8/32`.
    pub(super) name: String,
    /// Its network is routed by another program, such as a network manager.
    pub(super) is_without_route: bool,
    /// Of the route to its network.
    pub(super) metric: u32,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    message: Message,
    /// As `ip` prints it, without the interface, states, and words that it does not take.
    pub(super) text: String,
    /// It comes before routes of other interfaces with the same destination and metric.
    pub(super) is_first: bool,
}

/// The device at the far end: its name and its number.
pub(super) type Device<'d> = (&'d str, u32);

impl Plan {
    /// All of these that an interface has. The device at the far end is another one.
    ///
    /// # Errors
    ///
    /// `ip` refuses to say it, or something cannot be given back as it is.
    pub(super) fn of(interface: &str, far: &str) -> Result<Self, MoveError> {
        let (addresses, staying) = settled(interface)?;
        let [ipv4, ipv6] =
            ["-4", "-6"].map(|family| ip(&[family, "route", "show", "table", "all"]));
        let (ipv4, ipv6) = (ipv4?, ipv6?);
        let held = ip(&["-o", "address", "show"])?;
        for shown in [&ipv4, &ipv6] {
            unmovable::check_shared(shown, interface)?;
            let own = unmovable::alone(&addresses, &held, [interface, far]);
            unmovable::check_sources(shown, interface, &own)?;
        }
        unmovable::check_advertised(&ipv6, interface, &addresses)?;
        let first = unmovable::first(&ipv4, interface)?;
        let routes = saved(Object::Route, &["table", "all", "dev", interface])?;
        let routes = routes.into_iter().map(|(message, line)| Route::read(message, &line, &first));
        let entries = generated::entries(&addresses, &staying);
        let routes = routes.filter(|route| !entries.contains(&generated::known(&route.text)));
        let (mut routes, removed) = generated::apart(routes.collect(), &addresses, &staying);
        sort(&mut routes);
        Ok(Self { addresses, routes, neighbours: neighbours(interface)?, removed })
    }

    /// Its addresses, as `192.0.2.7/24`.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.addresses.iter().map(|address| address.name.as_str())
    }

    /// Number of its temporary addresses.
    pub(super) fn temporary(&self) -> usize {
        self.addresses.iter().filter(|address| address.is_temporary()).count()
    }

    /// Number of its routes.
    pub(super) fn routes(&self) -> usize {
        self.routes.len()
    }

    /// Steps that remove these routes, and then addresses, from a device. The first address of a network takes the others
    /// with it, and goes last. Without its addresses, a device would keep routes of IPv6.
    fn removed<'p>(
        &'p self,
        routes: impl DoubleEndedIterator<Item = &'p Route>,
        device: &str,
    ) -> Vec<Step> {
        let routes = routes.rev();
        let routes = routes.map(|route| Step::tried(route.removed(), device));
        let addresses = self.addresses.iter().rev();
        let addresses =
            addresses.map(|address| Step::words(format!("address del {}", address.name), device));
        routes.chain(addresses).collect()
    }

    /// The routes that a device at the far end gets. The network of the link is that of its own address, too.
    fn routes_there(&self) -> impl DoubleEndedIterator<Item = &Route> {
        self.routes.iter().filter(|route| !generated::is_of_link(&route.text))
    }

    /// Steps that leave nothing of it at the interface that it is of. Of an address with an end, the kernel keeps the route
    /// to its network for as long.
    pub(super) fn left(&self, interface: &str) -> Vec<Step> {
        // That of an address of the link may be of the kernel's own address, which stays.
        let is_apart = |address: &&Address| address.is_ipv6() && !address.is_of_link();
        let ipv6 = self.addresses.iter().filter(is_apart);
        let prefix =
            |address: &Address| format!("-6 route flush root {} proto kernel", address.name);
        let prefixes = ipv6.map(|address| Step::tried(prefix(address), interface));
        self.removed(self.routes.iter(), interface).into_iter().chain(prefixes).collect()
    }

    /// The same with neighbours; each may have been removed already.
    pub(super) fn cleared(&self, device: &str) -> Vec<Step> {
        let neighbours = self.neighbours.iter().filter_map(|words| {
            let address = words.split(" lladdr ").next()?.split(" nud ").next()?;
            let address = address.split(" protocol ").next()?;
            Some(Step::tried(format!("neighbour del {address}"), device))
        });
        let removed = self.removed(self.routes_there(), device).into_iter();
        removed.map(|step| Step { object: None, ..step }).chain(neighbours).collect()
    }

    /// Steps that add all of it to the device at the far end, where nothing has an end: who would prolong it does so at
    /// the interface.
    pub(super) fn taken(&self, device: Device<'_>) -> Vec<Step> {
        let addresses = self.addresses.iter().map(|address| address.at(device.1));
        let routes = self.routes_there().map(|route| route.at(device.1));
        let removed = self.removed.iter().filter(|key| !generated::is_of_link(key));
        let with_networks = addresses.chain(without(removed, device.0));
        with_networks.chain(routes).chain(self.neighbours(device.0)).collect()
    }

    /// Steps that add all of it to the interface that it is of.
    pub(super) fn added(&self, interface: &str) -> Vec<Step> {
        let addresses = self.addresses.iter().flat_map(Address::back);
        let with_networks = addresses.chain(without(self.removed.iter(), interface));
        with_networks.chain(self.routes_back()).chain(self.neighbours(interface)).collect()
    }

    /// Steps that add its routes, and that change nothing where they are. The kernel keeps routes that it would not accept
    /// again, such as one through a router whose network is gone.
    pub(super) fn routes_back(&self) -> impl Iterator<Item = Step> {
        self.routes.iter().map(Route::back)
    }

    fn neighbours(&self, device: &str) -> impl Iterator<Item = Step> {
        let words = |words| format!("neighbour replace {words}");
        self.neighbours.iter().map(move |neighbour| Step::words(words(neighbour), device))
    }
}

/// Steps that remove routes which the kernel sets with addresses, where they had been removed or changed.
fn without<'k>(keys: impl Iterator<Item = &'k String>, device: &str) -> impl Iterator<Item = Step> {
    keys.map(move |key| Step::tried(format!("route del {key}"), device))
}

/// Configured addresses of an interface, in the order in which they come back, and those of the kernel, which
/// stay.
type Addresses = (Vec<Address>, Vec<Address>);

/// The addresses, once the kernel has asked neighbours whether they have them.
fn settled(interface: &str) -> Result<Addresses, MoveError> {
    let until = Instant::now() + ASKING;
    loop {
        let found = addresses(interface)?;
        let unsettled = found.0.iter().find(|address| address.state().is_some());
        let Some(address) = unsettled else { return Ok(found) };
        if address.state() == Some("dadfailed") || Instant::now() >= until {
            return Err(MoveError::Unsettled {
                address: address.name.clone(),
                interface: interface.to_owned(),
                state: address.state().unwrap_or_default(),
            });
        }
        sleep(Duration::from_millis(50));
    }
}

fn addresses(interface: &str) -> Result<Addresses, MoveError> {
    let found = saved(Object::Address, &["dev", interface])?;
    let found = found.into_iter().filter_map(|(message, line)| Address::read(message, &line));
    let says_origin = says_origin();
    let (mut moved, staying): (Vec<Address>, _) =
        found.partition(|address| !address.is_of_kernel(says_origin));
    // The kernel lists addresses of IPv6 the newest first, and sends from that.
    let first_ipv6 = moved.iter().position(Address::is_ipv6).unwrap_or(moved.len());
    moved[first_ipv6..].reverse();
    Ok((moved, staying))
}

/// Whether the kernel says which addresses are its own: since Linux 5.18.
fn says_origin() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    let version: [u32; 2] = [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)];
    version >= [5, 18]
}

/// An address that is the host's by a route has to be so before others use it, and a router has to be reachable. Routes that
/// are set before others come in reverse.
fn sort(routes: &mut Vec<Route>) {
    let (mut first, others): (Vec<Route>, Vec<Route>) =
        std::mem::take(routes).into_iter().partition(|route| route.is_first);
    first.reverse();
    routes.extend(first.into_iter().chain(others));
    routes.sort_by_key(|route| match route.text.starts_with("local ") {
        true => 0,
        false => 1 + u8::from(route.text.contains(" via ")),
    });
}

/// Configured neighbours and proxies.
fn neighbours(interface: &str) -> Result<Vec<String>, MoveError> {
    let mut neighbours = Vec::new();
    for (state, add) in [("permanent", " nud permanent"), ("noarp", " nud noarp")] {
        let text = ip(&["neighbour", "show", "dev", interface, "nud", state])?;
        // The kernel lists those that another program learned with every state.
        let state = state.to_uppercase();
        let has_state = |line: &&str| line.split_whitespace().any(|word| word == state);
        let found = text.lines().filter(has_state).filter_map(neighbour);
        neighbours.extend(found.map(|words| words + add));
    }
    let text = ip(&["neighbour", "show", "proxy", "dev", interface])?;
    neighbours.extend(text.lines().filter_map(proxy));
    Ok(neighbours)
}

impl Address {
    /// An address with its line of `ip -o address showdump`.
    fn read(message: Message, line: &str) -> Option<Self> {
        // Its number and its lifetimes are before and behind.
        let mut words = line.get(line.find("inet")?..)?.split('\\').next()?.split_whitespace();
        words.find(|word| matches!(*word, "inet" | "inet6"))?;
        let mut name = words.next()?.to_owned();
        if words.clone().next() == Some("peer") {
            name = format!("{name} peer {}", words.nth(1)?);
        }
        let words: Vec<&str> = words.collect();
        let is_without_route = words.contains(&"noprefixroute");
        let metric = words.iter().position(|word| *word == "metric");
        let metric = metric.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(0);
        Some(Self { message, name, is_without_route, metric })
    }

    /// Itself, without its network.
    pub(super) fn own(&self) -> &str {
        self.name.split(['/', ' ']).next().unwrap_or_default()
    }

    fn flags(&self) -> u32 {
        self.message.attribute_number(IFA_FLAGS).unwrap_or(0)
    }

    /// The kernel has an address of the link by itself.
    fn is_of_kernel(&self, says_origin: bool) -> bool {
        self.name.starts_with("fe80:") && (!says_origin || self.origin() == Some(KERNEL_LL))
    }

    /// The kernel has made it from a router advertisement.
    pub(super) fn is_advertised(&self) -> bool {
        self.is_ipv6() && self.origin() == Some(KERNEL_RA)
    }

    fn origin(&self) -> Option<u8> {
        self.message.attribute(IFA_PROTO).and_then(|origin| origin.first().copied())
    }

    /// Why it is not in use yet, as `ip` calls it.
    fn state(&self) -> Option<&'static str> {
        match self.flags() {
            _ if !self.is_ipv6() => None,
            flags if flags & DOUBLE != 0 => Some("dadfailed"),
            flags if flags & TENTATIVE != 0 => Some("tentative"),
            _ => None,
        }
    }

    pub(super) fn is_secondary(&self) -> bool {
        !self.is_ipv6() && self.flags() & SECONDARY != 0
    }

    fn is_temporary(&self) -> bool {
        self.is_ipv6() && self.flags() & TEMPORARY != 0
    }

    /// Seconds that it is valid, if it has an end.
    pub(super) fn ends(&self) -> Option<u32> {
        let times = self.message.attribute(IFA_CACHEINFO)?;
        let valid = u32::from_ne_bytes(times.get(4..8)?.try_into().ok()?);
        (valid != FOREVER).then_some(valid)
    }

    pub(super) fn broadcast(&self) -> Option<Ipv4Addr> {
        let bytes: [u8; 4] = self.message.attribute(IFA_BROADCAST)?.try_into().ok()?;
        Some(bytes.into())
    }

    fn is_of_link(&self) -> bool {
        self.own().parse().is_ok_and(|ip: Ipv6Addr| ip.is_unicast_link_local())
    }

    pub(super) fn is_ipv6(&self) -> bool {
        self.name.contains(':')
    }

    fn step(&self, message: Message) -> Step {
        let object = Some(format!("address {}", self.name));
        Step { action: Action::Restore(message), object }
    }

    /// The address at the far end, of which this is the interface's number.
    fn at(&self, index: u32) -> Step {
        let mut message = self.without_detection().unwrap_or_else(|| self.message.clone());
        message.set_number(4, index);
        message.remove(IFA_LABEL);
        if let Some(times) = message.attribute(IFA_CACHEINFO) {
            // A deprecated address stays so.
            let is_deprecated = times.starts_with(&0_u32.to_ne_bytes());
            let preferred: u32 = if is_deprecated { 0 } else { FOREVER };
            let times = [preferred, FOREVER, 0, 0].map(u32::to_ne_bytes).concat();
            message.set(IFA_CACHEINFO, &times);
        }
        self.step(message)
    }

    /// The address at its interface.
    fn back(&self) -> Vec<Step> {
        let Some(at_once) = self.without_detection() else {
            return vec![self.step(self.message.clone())];
        };
        // It is there at once, and then gets its own flags.
        let own = Action::Restore(self.message.clone().replacing());
        vec![self.step(at_once), Step { action: own, object: None }]
    }

    /// The address without duplicate address detection, if it is one of IPv6 with it.
    fn without_detection(&self) -> Option<Message> {
        let flags = self.message.attribute_number(IFA_FLAGS).unwrap_or(0);
        if !self.is_ipv6() || flags & NODAD != 0 {
            return None;
        }
        let mut message = self.message.clone();
        message.set(IFA_FLAGS, &(flags | NODAD).to_ne_bytes());
        Some(message)
    }
}

impl Route {
    /// A route with its line of `ip -o route showdump`; these are before routes of other interfaces.
    fn read(message: Message, line: &str, first: &[String]) -> Self {
        let text = without_states(line);
        let is_first = message.byte(0) != IPV6 && first.contains(&text);
        Self { message, text, is_first }
    }

    /// Words that remove it: those by which the kernel tells routes apart. They have no options: the destination says
    /// which protocol it is.
    fn removed(&self) -> String {
        const KEYS: [&str; 6] = ["table", "metric", "tos", "proto", "src", "from"];
        let is_place = |word: &str| word == "default" || word.contains(['.', ':', '/']);
        let mut words = self.text.split_whitespace();
        // The type, as in `blackhole`, and the destination.
        let mut kept: Vec<&str> = words.next().into_iter().collect();
        if kept.iter().any(|word| !is_place(word)) {
            kept.extend(words.next());
        }
        while let Some(word) = words.next() {
            let values = match word {
                "via" if words.clone().next().is_some_and(|next| !is_place(next)) => 2,
                "via" => 1,
                key => usize::from(KEYS.contains(&key)),
            };
            if values > 0 {
                kept.push(word);
                kept.extend(words.by_ref().take(values));
            }
        }
        if kept.first() == Some(&"default") && self.message.byte(0) == IPV6 {
            kept[0] = "::/0";
        }
        format!("route del {}", kept.join(" "))
    }

    /// The route at the far end, of which this is the interface's number.
    fn at(&self, index: u32) -> Step {
        let mut message = self.set();
        message.set(RTA_OIF, &index.to_ne_bytes());
        message.remove(RTA_EXPIRES);
        self.step(message)
    }

    /// The route at its interface.
    fn back(&self) -> Step {
        self.step(self.set())
    }

    fn step(&self, message: Message) -> Step {
        Step { action: Action::Restore(message), object: Some(format!("route {}", self.text)) }
    }

    /// Seconds until its end, if it has one.
    pub(super) fn ends(&self) -> Option<u32> {
        // `struct rta_cacheinfo`: two other numbers come before.
        let times = self.message.attribute(RTA_CACHEINFO)?;
        let ends = i32::from_ne_bytes(times.get(8..12)?.try_into().ok()?);
        (ends > 0).then(|| ends.unsigned_abs().div_ceil(USER_HZ))
    }

    /// The message without states, and with its end.
    fn set(&self) -> Message {
        let message = self.message.clone();
        let mut message = if self.is_first { message.prepending() } else { message.appending() };
        message.set_number(8, message.number(8) & SET_FLAGS);
        message.remove(RTA_CACHEINFO);
        if let Some(seconds) = self.ends() {
            message.set(RTA_EXPIRES, &seconds.to_ne_bytes());
        }
        message
    }
}

/// A neighbour by its line of `ip neighbour`: its address, its link-layer address, and whether it is a router. None of a
/// group, which the kernel has by itself.
fn neighbour(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ip: IpAddr = words.first()?.parse().ok()?;
    let at = words.iter().position(|word| *word == "lladdr");
    let link = at.and_then(|at| words.get(at + 1)).map(|link| format!(" lladdr {link}"));
    let flags = words.iter().filter(|word| matches!(**word, "router" | "extern_learn"));
    let mut flags: String = flags.map(|flag| format!(" {flag}")).collect();
    flags.extend(protocol(&words));
    let is_of_kernel = ip.is_multicast() || matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    (!is_of_kernel).then(|| format!("{ip}{}{flags}", link.unwrap_or_default()))
}

/// A proxy by its line of `ip neighbour show proxy`.
fn proxy(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Some(format!("proxy {}{}", words.first()?, protocol(&words).unwrap_or_default()))
}

/// The program that has set a neighbour, as `ip` takes it.
fn protocol(words: &[&str]) -> Option<String> {
    let at = words.iter().position(|word| *word == "proto")?;
    Some(format!(" protocol {}", words.get(at + 1)?))
}

/// Rules of `ip rule` that name an interface, and keep its name.
pub(super) fn rules(interface: &str) -> usize {
    let text =
        ["-4", "-6"].map(|family| ip(&[family, "rule", "show"]).unwrap_or_default()).concat();
    let names = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).any(|pair| ["iif", "oif"].contains(&pair[0]) && pair[1] == interface)
    };
    text.lines().filter(names).count()
}

/// A route as errors name it: without its interface, states, its end, and the lock that `ip` prints in front of a value.
pub(super) fn without_states(line: &str) -> String {
    const STATES: [&str; 8] =
        ["linkdown", "dead", "offload", "offload_failed", "rt_offload", "trap", "rt_trap", "lock"];
    let mut words = line.split_whitespace();
    let mut route = Vec::new();
    while let Some(word) = words.next() {
        if matches!(word, "expires" | "dev") {
            words.next();
        } else if !STATES.contains(&word) {
            route.push(word);
        }
    }
    route.join(" ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::attach::netlink::tests::message;

    /// An address with these flags, of interface 7, that ends.
    pub(crate) fn read(line: &str, flags: u32) -> Address {
        let family = if line.contains("inet6") { IPV6 } else { 2 };
        let fixed = [&[family, 24, 0, 0][..], &7_u32.to_ne_bytes()].concat();
        let times = [50_u32, 100, 3, 3].map(u32::to_ne_bytes).concat();
        let flags = flags.to_ne_bytes();
        let attributes =
            [(IFA_LABEL, &b"eth0:1\0"[..]), (IFA_CACHEINFO, &times), (IFA_FLAGS, &flags)];
        let message = message(Object::Address, &fixed, &attributes);
        Address::read(message, line).expect("an address")
    }

    pub(crate) fn route(text: &str, family: u8) -> Route {
        let fixed = [&[family, 0, 0, 0, 254, 3, 0, 1][..], &0x15_u32.to_ne_bytes()].concat();
        let ends = [0_u32, 0, 1_234, 0, 0].map(u32::to_ne_bytes).concat();
        let index = 7_u32.to_ne_bytes();
        let message = message(Object::Route, &fixed, &[(RTA_OIF, &index), (RTA_CACHEINFO, &ends)]);
        Route::read(message, text, &[])
    }

    fn objects(steps: &[Step]) -> Vec<&str> {
        steps.iter().filter_map(|step| step.object.as_deref()).collect()
    }

    fn restored(step: &Step) -> &Message {
        match &step.action {
            Action::Restore(message) => message,
            Action::Words { words, .. } => panic!("{words}"),
        }
    }

    #[test]
    fn routes_are_named_without_states() {
        for (line, text) in [
            (
                "default via 192.0.2.1 dev eth0 proto dhcp metric 100 linkdown ",
                "default via 192.0.2.1 proto dhcp metric 100",
            ),
            (
                "10.0.0.0/8 via 192.0.2.2 dev eth0 table 100 rto_min lock 50ms ",
                "10.0.0.0/8 via 192.0.2.2 table 100 rto_min 50ms",
            ),
            (
                "default via fe80::1 dev eth0 proto ra metric 1024 expires 1799sec pref medium",
                "default via fe80::1 proto ra metric 1024 pref medium",
            ),
        ] {
            assert_eq!(without_states(line), text);
        }
    }

    #[test]
    fn neighbours_are_what_somebody_has_set() {
        let neighbours = [
            (
                "192.0.2.9 lladdr 02:00:00:00:00:01 router PERMANENT ",
                Some("192.0.2.9 lladdr 02:00:00:00:00:01 router"),
            ),
            ("192.0.2.8 NOARP proto zebra ", Some("192.0.2.8 protocol zebra")),
            ("ff02::1 lladdr 33:33:00:00:00:01 NOARP", None),
            ("255.255.255.255 lladdr ff:ff:ff:ff:ff:ff NOARP", None),
            ("", None),
        ];
        for (line, found) in neighbours {
            assert_eq!(neighbour(line).as_deref(), found, "{line}");
        }
        let proxies = ["192.0.2.3 proxy proto zebra ", "2001:db8::1 proxy ", ""].map(proxy);
        let expected = ["proxy 192.0.2.3 protocol zebra", "proxy 2001:db8::1"];
        assert_eq!(proxies.into_iter().flatten().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_device_gets_all_of_it_and_leaves_all_of_it() {
        let plan = Plan {
            addresses: vec![
                read("if3:\\    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth0\\  x", 0),
                read("if3:\\    inet6 2001:db8::7/64 scope global \\  x", 0x80),
            ],
            routes: vec![
                route(
                    "blackhole 10.0.0.0/8 via 192.0.2.2 dev eth0 table 100 window 8000 onlink",
                    2,
                ),
                route("default via 2001:db8::1 dev eth0 metric 1024 pref medium", IPV6),
            ],
            neighbours: vec![
                "192.0.2.9 lladdr 02:00:00:00:00:01 nud permanent".into(),
                "proxy 192.0.2.3".into(),
            ],
            removed: vec!["192.0.2.0/24 proto kernel".into()],
        };
        let taken = plan.taken(("lc0", 9));
        assert_eq!(
            objects(&taken),
            [
                "address 192.0.2.7/24",
                "address 2001:db8::7/64",
                "route blackhole 10.0.0.0/8 via 192.0.2.2 table 100 window 8000 onlink",
                "route default via 2001:db8::1 metric 1024 pref medium",
                "neighbour replace 192.0.2.9 lladdr 02:00:00:00:00:01 nud permanent",
                "neighbour replace proxy 192.0.2.3",
            ]
        );
        let encap = route(
            "2001:db8:5::/48 encap seg6 mode encap segs 1 [ fd00::1 ] via inet6 fd00::2 dev eth0 src fd00::3 proto bird",
            IPV6,
        );
        assert_eq!(
            encap.removed(),
            "route del 2001:db8:5::/48 via inet6 fd00::2 src fd00::3 proto bird"
        );
        let left = plan.left("eth0");
        let words = left.iter().map(|step| match &step.action {
            Action::Words { words, device } if device == "eth0" => words.as_str(),
            _ => "another",
        });
        assert_eq!(
            words.collect::<Vec<_>>(),
            [
                "route del ::/0 via 2001:db8::1 metric 1024",
                "route del blackhole 10.0.0.0/8 via 192.0.2.2 table 100",
                "address del 2001:db8::7/64",
                "address del 192.0.2.7/24",
                "-6 route flush root 2001:db8::7/64 proto kernel",
            ]
        );
        assert_eq!(
            objects(&left).len(),
            2,
            "an address that is not there is no longer to be moved"
        );
        let cleared = plan.cleared("lc0");
        assert!(objects(&cleared).is_empty());
        let last = [&cleared[cleared.len() - 2], &cleared[cleared.len() - 1]];
        assert_eq!(*last[0], Step::tried("neighbour del 192.0.2.9".into(), "lc0"));
        assert_eq!(*last[1], Step::tried("neighbour del proxy 192.0.2.3".into(), "lc0"));
    }

    /// At the far end nothing ends, and no address is asked for; back at the interface, all is as it was.
    #[test]
    fn messages_are_moved_and_come_back() {
        let ipv4 = read("if3:\\    inet 192.0.2.3/24 metric 500 scope link eth0:1\\  x", 0x80);
        let there = ipv4.at(9);
        let moved = restored(&there);
        assert_eq!((moved.number(4), moved.attribute(IFA_LABEL)), (9, None));
        assert_eq!(moved.attribute_number(IFA_CACHEINFO), Some(FOREVER));
        assert_eq!(
            moved.attribute_number(IFA_FLAGS),
            Some(0x80),
            "IPv4 has no detection of doubles"
        );
        assert_eq!(ipv4.back().iter().map(restored).collect::<Vec<_>>(), [&ipv4.message]);

        let mut ipv6 =
            read("if3:\\    inet6 2001:db8::5/64 scope global deprecated dynamic \\  x", 0x80);
        let mut times = ipv6.message.attribute(IFA_CACHEINFO).expect("times").to_vec();
        times[..4].fill(0);
        ipv6.message.set(IFA_CACHEINFO, &times);
        let there = ipv6.at(9);
        assert_eq!(restored(&there).attribute_number(IFA_FLAGS), Some(0x80 | NODAD));
        assert_eq!(restored(&there).attribute_number(IFA_CACHEINFO), Some(0), "deprecated");
        let back = ipv6.back();
        assert_eq!(restored(&back[0]).attribute_number(IFA_FLAGS), Some(0x80 | NODAD));
        assert_eq!(*restored(&back[1]), ipv6.message.clone().replacing());
        assert_eq!(restored(&back[1]).attribute(IFA_CACHEINFO), Some(&times[..]));

        let ends = route("2001:db8:a::/48 via fe80::1 dev eth0 expires 12sec", IPV6);
        let there = ends.at(9);
        assert_eq!(restored(&there).attribute_number(RTA_OIF), Some(9));
        assert_eq!(restored(&there).attribute(RTA_EXPIRES), None);
        assert_eq!(restored(&there).number(8), 0x04, "onlink, and no states");
        let back = ends.back();
        assert_eq!(restored(&back).attribute_number(RTA_EXPIRES), Some(13));
        assert_eq!(restored(&back).attribute_number(RTA_OIF), Some(7));
    }

    /// Those that come before routes of others are set before them, the last one first.
    #[test]
    fn routes_are_set_in_the_order_in_which_they_can_be() {
        let lines =
            ["default via 192.0.2.1", "default via 192.0.2.2", "192.0.2.0/24", "local 192.0.2.9"];
        let first = [lines[0].to_owned(), lines[1].to_owned()];
        let read = |line: &str| Route::read(route(line, 2).message, line, &first);
        let mut routes: Vec<Route> = lines.map(read).into();
        assert_ne!(routes[0].back(), route(lines[0], 2).back(), "it is not appended");
        sort(&mut routes);
        let texts: Vec<&str> = routes.iter().map(|route| &*route.text).collect();
        assert_eq!(texts, [lines[3], lines[2], lines[1], lines[0]]);
    }

    #[test]
    fn addresses_of_the_link_are_the_kernels_if_it_says_so() {
        let mut address = read("if2:\\    inet6 fe80::7/64 scope link \\  x", 0x80);
        let is_of_kernel = |address: &Address| [true, false].map(|says| address.is_of_kernel(says));
        assert_eq!(is_of_kernel(&address), [false, true]);
        address.message.set(IFA_PROTO, &[KERNEL_LL]);
        assert_eq!(is_of_kernel(&address), [true, true]);
        assert_eq!(is_of_kernel(&read("if2:\\    inet6 fd00::7/64 scope x\\  x", 0)), [false; 2]);
    }

    #[test]
    fn addresses_that_are_not_in_use_are_known() {
        let state = |line: &str, flags| read(line, flags).state();
        let ipv6 = "if2:\\    inet6 2001:db8::7/64 scope global\\  x";
        let flags = [0x80, 0x80 | TENTATIVE, DOUBLE | TENTATIVE];
        assert_eq!(flags.map(|f| state(ipv6, f)), [None, Some("tentative"), Some("dadfailed")]);
        assert_eq!(state("if2:\\    inet 192.0.2.7/24 scope global\\  x", 0x48), None);
        assert!(read(ipv6, TEMPORARY).is_temporary() && !read(ipv6, 0x80).is_temporary());
    }

    #[test]
    fn managers_have_routes_of_their_own() {
        let any = message(Object::Address, &[0; 8], &[]);
        assert_eq!(Address::read(any, "3: eth0    link/ether 02:00:00:00:00:01"), None);
        let manager = "if2:\\    inet 192.0.2.7/24 scope global dynamic noprefixroute eth0\\  x";
        let other = "if2:\\    inet 192.0.2.8/24 scope global secondary eth0\\  x";
        let without = [manager, other].map(|line| read(line, 0).is_without_route);
        assert_eq!(without, [true, false]);
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
