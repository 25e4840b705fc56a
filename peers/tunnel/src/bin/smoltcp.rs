//! TCP by smoltcp over a TAP device, on smoltcp's own device without offloads.

use linecard_peers_tunnel::tcp;
use smoltcp::phy::{Medium, TunTapInterface};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    tcp::run(|name| Ok(TunTapInterface::new(name, Medium::Ethernet)?))
}
