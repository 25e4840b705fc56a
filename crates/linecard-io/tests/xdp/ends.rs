//! The end of a port: dropped, killed, its interface removed; and conflicts with other programs.

use crate::cable::{Cable, frame, now, receive, until, with_cable};
use linecard::packet::Batch;
use linecard::port::{Port, PortState};
use linecard_io::port::xdp::{Attachment, Config, Mode, XdpBuffer, XdpError, XdpPort};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Names the interface that the child process is to take.
const HELD: &str = "LINECARD_TEST_XDP_HELD";

/// Whether `ip` shows a program on the interface.
fn is_attached(cable: &Cable) -> bool {
    let arguments = ["-n", cable.near.name(), "link", "show", "dev", &cable.near.device()];
    let output = Command::new("ip").args(arguments).output().expect("`ip` runs");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).contains("prog/xdp")
}

#[test]
fn the_program_is_gone_when_the_last_port_is() {
    with_cable("detached when dropped", "1500", |cable| {
        for mode in [Mode::Native, Mode::Generic] {
            assert!(!is_attached(cable));
            let attachment = cable.attach(mode);
            let port = XdpPort::open(&attachment, 0, &Config::default()).expect("it is free");
            drop(attachment);
            assert!(is_attached(cable));
            drop(port);
            // The kernel frees a socket some time after its last descriptor.
            until("the program is gone", || !is_attached(cable));
        }
    });
}

/// Promise (Live interfaces): The program of an AF_XDP port leaves the interface with its process,
/// however that ends.
#[test]
fn the_program_is_gone_when_its_process_is_killed() {
    with_cable("detached when killed", "1500", |cable| {
        let program = std::env::current_exe().expect("this test");
        let mut child = Command::new(program)
            .args(["--ignored", "--exact", "ends::holds_an_interface", "--nocapture"])
            .env(HELD, cable.near.device())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test runs");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let holds = lines.any(|line| line.is_ok_and(|line| line.contains("holding")));
        assert!(holds && is_attached(cable));
        let error = Attachment::new(&cable.near.device()).expect_err("another process has it");
        assert!(matches!(error, XdpError::Occupied { .. }), "{error}");
        child.kill().expect("it is still there");
        child.wait().expect("it was killed");
        until("the program is gone", || !is_attached(cable));
        let mut port = cable.port(Mode::Native, &Config::default());
        cable.send(&frame(1, 60));
        assert_eq!(receive(&mut port, 1).len(), 1);
    });
}

/// The child of the test above.
#[test]
#[ignore = "started by the_program_is_gone_when_its_process_is_killed"]
fn holds_an_interface() {
    let Some(interface) = std::env::var_os(HELD) else { return };
    let interface = interface.to_str().expect("a name of ours");
    let attachment = Attachment::new(interface).expect("nothing else is attached");
    let _port = XdpPort::open(&attachment, 0, &Config::default()).expect("the queue is free");
    println!("holding");
    std::thread::sleep(crate::cable::PATIENCE);
}

#[test]
fn a_removed_interface_ends_its_port() {
    for mode in [Mode::Native, Mode::Generic] {
        with_cable("interface removed", "1500", |cable| {
            let mut port = cable.port(mode, &Config::default());
            cable.send(&frame(1, 60));
            until("the frame is there", || port.wait(crate::cable::PATIENCE).expect("it polls"));
            let device = cable.near.device();
            cable.near.ip(&["link", "del", &device]).expect("it is ours");
            // Packets that were received before can still be taken.
            let mut batch = Batch::new();
            assert_eq!(port.receive(&mut batch, now()), PortState::Open);
            assert_eq!(batch.drain().count(), 1);
            until("the port ends", || port.receive(&mut batch, now()) == PortState::Ended);
            assert_eq!(port.receive(&mut batch, now()), PortState::Ended);
            // Sending goes nowhere, and ends.
            let own = port.buffer(60).expect("one is free");
            batch.push(crate::cable::packet(own)).expect("there is room");
            port.transmit(&mut batch, now());
        });
    }
}

#[test]
fn an_interface_moved_away_ends_its_port() {
    with_cable("interface moved", "1500", |cable| {
        let mut port = cable.port(Mode::Native, &Config::default());
        let device = cable.near.device();
        cable.near.ip(&["link", "set", &device, "netns", cable.far.name()]).expect("it is ours");
        let mut batch = Batch::<XdpBuffer>::new();
        until("the port ends", || port.receive(&mut batch, now()) == PortState::Ended);
    });
}

#[test]
fn a_port_that_never_looks_at_the_time_ends_too() {
    with_cable("interface removed, no clock", "1500", |cable| {
        let mut port = cable.port(Mode::Generic, &Config::default());
        let device = cable.near.device();
        cable.near.ip(&["link", "del", &device]).expect("it is ours");
        let mut batch = Batch::<XdpBuffer>::new();
        let start = linecard::time::Instant::ZERO;
        assert!((0..300).any(|_| port.receive(&mut batch, start) == PortState::Ended));
    });
}

#[test]
fn an_interface_that_is_down_takes_nothing_and_goes_on_later() {
    with_cable("interface down", "1500", |cable| {
        let config = Config { tx_slots: 64, ..Config::default() };
        let mut port = cable.port(Mode::Generic, &config);
        let device = cable.near.device();
        cable.near.ip(&["link", "set", &device, "down"]).expect("it is ours");
        let mut batch = Batch::new();
        let mut next = 0;
        for _ in 0..4 {
            while batch.push(crate::cable::packet(frame(next, 60))).is_ok() {
                next += 1;
            }
            port.send(&mut batch, now());
        }
        assert_eq!((batch.len(), port.detailed_counters().sent), (64, 64), "the TX ring is full");
        cable.near.ip(&["link", "set", &device, "up"]).expect("it is ours");
        crate::cable::transmit(&mut port, &mut batch);
        for number in 0..128 {
            assert!(cable.next() == frame(number, 60), "{number}");
        }
        crate::cable::nothing_leaks(&mut port, &config);
    });
}

#[test]
fn what_is_in_the_way_is_said() {
    with_cable("errors", "1500", |cable| {
        let device = cable.near.device();
        let attachment = cable.attach(Mode::Native);
        for mode in [Mode::Native, Mode::Generic] {
            let said = Attachment::in_mode(&device, mode).expect_err("it is taken").to_string();
            let wanted = format!(
                "interface `{device}` has another XDP program: end its owner, or detach it by \
                 `ip link set dev {device} xdp off`"
            );
            assert_eq!(said, wanted);
        }
        let open = |queue, config: &Config| XdpPort::open(&attachment, queue, config);
        let port = open(0, &Config::default()).expect("the queue is free");
        let said = open(0, &Config::default()).expect_err("it is taken").to_string();
        let wanted = format!("queue 0 of `{device}` has another AF_XDP socket");
        assert!(said.starts_with(&wanted), "{said}");
        drop(port);
        let said = open(77, &Config::default()).expect_err("there is one").to_string();
        assert!(said.starts_with(&format!("cannot bind to queue 77 of `{device}`")), "{said}");
        let said = open(1024, &Config::default()).expect_err("too high").to_string();
        assert_eq!(said, "queue is 1024: choose 0 to 1,023");
        let small = Config { rx_slots: 100, ..Config::default() };
        assert!(matches!(open(0, &small), Err(XdpError::Config { what: "rx_slots", .. })));
        let said = Attachment::new("nowhere0").expect_err("there is none").to_string();
        assert!(said.starts_with("no interface `nowhere0`"), "{said}");
    });
}
