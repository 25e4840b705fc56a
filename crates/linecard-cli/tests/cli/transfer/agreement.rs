//! A transfer over lanes in virtual time and one over real lanes of the same rates.

use super::ends::{Ends, Receiver, Sender, account};
use linecard_io::lab::{Cable, Host, Lab};
use serde_json::Value;
use std::process::Command;

const MEGA: u64 = 1_000_000;
/// A busy machine only makes the real one slower.
const MAX_TRIES: usize = 3;
/// Of the fastest lanes, in Mbit/s. Where a machine is too busy for the latter only, the former still agree.
const RATES: [u64; 2] = [50, 200];
/// Ethernet, IPv4 and UDP, as the lab's token buckets count.
const FRAMING_BYTES: u64 = 42;
const PAYLOAD_BYTES: u64 = 1_408;
/// The queue behind each of the lab's lanes.
const QUEUE_BITS: u64 = 8 * 200_000;

/// Chunks of 16 MiB: some four seconds.
const fn chunks(rates: &[u64]) -> u64 {
    rates[0] / MEGA * 3 / 25
}

fn goodput(account: &Value, section: &str) -> f64 {
    account[section]["goodput_bits_per_second"].as_f64().unwrap_or_else(|| panic!("{account:#}"))
}

/// Goodput in virtual time.
fn simulated(ends: &Ends, rates: &[u64]) -> f64 {
    let (queue_ms, chunks) = (QUEUE_BITS * 1_000 / rates[0], chunks(rates));
    let scenario = format!(
        "model = \"transfer\"\nlanes.rates = {rates:?}\nlanes.congestion = \"bbr\"\n\
         lanes.queue = \"{queue_ms}ms\"\nlanes.framing = {FRAMING_BYTES}\nchunk.count = {chunks}\n\
         packet.bytes = {PAYLOAD_BYTES}\ntransfer.mode = \"auto\"\n"
    );
    ends.folder.write("lanes.toml", scenario.as_bytes());
    let outcome = ends.folder.succeeds(&["model", "run", "lanes.toml", "--json"]);
    goodput(&serde_json::from_str(&outcome).unwrap(), "summary")
}

/// A command as it runs on a host.
fn on(lab: &Lab, host: Host, plain: &Command) -> Command {
    let mut command = lab.command(host, plain.get_program());
    command.args(plain.get_args()).current_dir(plain.get_current_dir().unwrap());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Goodput of one transfer from memory, without options but the names of lanes.
fn measured(ends: &Ends, lab: &Lab, rates: &[u64]) -> f64 {
    let (lanes, sent) = (rates.len(), format!("test:{}M", 16 * chunks(rates)));
    let names = |host: Host| {
        let lanes = (0..lanes as u8).map(move |lane| host.lane_address(lane).to_string());
        lanes.flat_map(|lane| ["--lane".to_owned(), lane]).collect::<Vec<_>>()
    };
    let control = format!("{}:4780", Host::Peer.address());
    let (recv, send) = (names(Host::Peer), names(Host::Own));
    let recv: Vec<&str> = ["recv", "--psk", "psk", "--listen", &control, "--json", "to"]
        .into_iter()
        .chain(recv.iter().map(|word| &**word))
        .collect();
    let send: Vec<&str> = ["send", &sent, &control, "--psk", "psk", "--json"]
        .into_iter()
        .chain(send.iter().map(|word| &**word))
        .collect();
    let receiver = Receiver::start(on(lab, Host::Peer, &ends.command("receiver", &recv)));
    let sent = Sender::start(on(lab, Host::Own, &ends.command("sender", &send))).end();
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    let account = account(&sent);
    assert_eq!(account["lanes"].as_array().map(Vec::len), Some(lanes), "{account:#}");
    assert_eq!(account["transfer"]["payload_bytes"].as_u64(), Some(PAYLOAD_BYTES), "{account:#}");
    goodput(&account, "transfer")
}

/// Promise (Transfer): Over four lanes of 50 and of 200 Mbit/s, and with a quarter of that on one of them, a transfer
/// from memory without options has the goodput that the simulation has, within 5 %, in the best of three tries
/// (`LINECARD_LONG=1`, as root).
#[test]
fn real_lanes_carry_what_simulated_ones_do() {
    let test = "goodput of real lanes beside simulated ones";
    if !linecard_testkit::is_long() {
        return linecard_testkit::skip(test, "it takes a quiet machine: LINECARD_LONG=1");
    }
    let mut wrong = Vec::new();
    for (rate, last) in RATES.into_iter().flat_map(|rate| [(rate, rate), (rate, rate / 4)]) {
        let rates = [rate, rate, rate, last].map(|rate| rate * MEGA);
        let lab = Lab::new(Cable::default()).and_then(|lab| lab.add_lanes(&rates).map(|()| lab));
        let lab = match lab {
            Ok(lab) => lab,
            Err(why) => return linecard_testkit::skip(test, why),
        };
        let ends = Ends::new();
        let simulated = simulated(&ends, &rates);
        let mut ratios = Vec::new();
        let is_equal = |ratio: &f64| (0.95..=1.05).contains(ratio);
        while ratios.len() < MAX_TRIES && !ratios.iter().any(is_equal) {
            ratios.push(measured(&ends, &lab, &rates) / simulated);
        }
        let said = format!("{rates:?}: {simulated:.0} bit/s simulated, really {ratios:.3?} of it");
        eprintln!("{said}");
        // More than the simulation has is as wrong as less, in each of them.
        if ratios.iter().any(|ratio| *ratio > 1.05) || !ratios.iter().any(is_equal) {
            wrong.push(said);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
