//! Checks that both ports have the same link type.

use super::AttachError;
use super::settings::{PortKind, PortSpec};
use linecard::packet::LinkType;

/// Refuses near and far ports with different link types, as far as those are known.
pub(super) fn check(
    [near, far]: [&PortSpec; 2],
    links: [Option<LinkType>; 2],
) -> Result<(), AttachError> {
    let [Some(near_link), Some(far_link)] = links else { return Ok(()) };
    if near_link == far_link {
        return Ok(());
    }
    let ports = [near, far].map(|port| Box::new(port.clone()));
    Err(AttachError::Links { ports, links: [near_link, far_link] })
}

/// Advice: the device of the other kind, if one of the ports is a device and the other has a link
/// type that devices support.
pub(super) fn advice([near, far]: &[Box<PortSpec>; 2], links: &[LinkType; 2]) -> String {
    let instead = |port: &PortSpec, other: LinkType| match (&port.kind, other) {
        (PortKind::Tun(name), LinkType::Ethernet) => {
            Some(format!("use tap:{name} instead of {port}"))
        }
        (PortKind::Tap(name), LinkType::Raw) => Some(format!("use tun:{name} instead of {port}")),
        _ => None,
    };
    match instead(near, links[1]).or_else(|| instead(far, links[0])) {
        Some(advice) => advice,
        None => {
            "use ports of one link type (tap devices have Ethernet frames, tun devices IP packets)"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_different_links_are_refused_with_the_device_to_use() {
        let spec = |text: &str| text.parse::<PortSpec>().expect("a port");
        let (ethernet, raw) = (Some(LinkType::Ethernet), Some(LinkType::Raw));
        let said = |near: &str, far: &str, links| {
            check([&spec(near), &spec(far)], links).err().map(|error| error.to_string())
        };
        assert_eq!(said("packet:a", "tap:b", [ethernet; 2]), None);
        assert_eq!(said("file:a", "file:b", [raw, None]), None);
        let cases = [
            ("packet:a", "tun:b", [ethernet, raw], "use tap:b instead of tun:b"),
            ("file:a", "tap:b", [raw, ethernet], "use tun:b instead of tap:b"),
            ("file:a", "packet:b", [raw, ethernet], "use ports of one link type"),
            ("file:a", "tap:b", [Some(LinkType::LinuxSll), ethernet], "use ports of one link type"),
            ("tun:a", "xdp:b", [raw, ethernet], "use tap:a instead of tun:a"),
        ];
        for (near, far, links, advice) in cases {
            let text = said(near, far, links).expect("refused");
            let both = text.contains(near) && text.contains(far);
            assert!(both && text.contains(advice), "{text}");
        }
    }
}
