//! A process that drops its privileges, and checks that they are gone.

use linecard::packet::{Batch, LinkType, Meta, Packet, Pool};
use linecard::port::Port;
use linecard::time::Instant;
use linecard_io::port::{PacketConfig, PacketSocket};
use linecard_io::rights::{self, Account, RightsError};
use linecard_tun::{BUFFER_LEN, DeviceConfig, Tap};
use std::io::{Write, stdout};
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

/// Threads that open ports before.
const WORKERS: usize = 3;
/// An Ethernet frame of local experiments, which has no answer.
const FRAME: [u8; 60] = {
    let mut frame = [0x5A; 60];
    (frame[12], frame[13]) = (0x88, 0xB5);
    frame
};

pub(crate) fn run(role: &str) -> ExitCode {
    // The others would wait for a thread that has panicked.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
    match role {
        "root" => with_a_tap(),
        "root-keeps" | "capable-keeps" => keeping(),
        "capable" => all_give_up(),
        _ => {
            say(&rights::drop_all(Account::invoking()).expect("nothing is in the way"));
            rights_are_gone();
        }
    }
    ExitCode::SUCCESS
}

fn say(what: &dyn std::fmt::Display) {
    writeln!(stdout(), "{what}").expect("somebody reads it");
}

fn with_a_tap() {
    let pool = Pool::new(8, BUFFER_LEN);
    let mut tap = Tap::open(&DeviceConfig::tap("tap%d"), pool.clone()).expect("root may");
    linecard_tun::interface::set_up(tap.name(), true).expect("root may");
    all_give_up();
    transmit(&mut tap, &pool);
    assert_eq!(tap.counters().transmitted, 1);
    assert_eq!(lines("Groups").trim(), "", "no other groups");
}

/// Workers open ports and forget; this thread drops all privileges; then every thread checks.
fn all_give_up() {
    let barrier = Barrier::new(WORKERS + 1);
    let dropped = thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| work(&barrier));
        }
        barrier.wait();
        let dropped = rights::drop_all(Account::invoking()).expect("nothing is in the way");
        say(&dropped);
        say(&format!("groups of {} threads: {}", WORKERS + 1, groups_of_threads()));
        barrier.wait();
        dropped
    });
    rights_are_gone();
    thread::spawn(rights_are_gone).join().expect("no panic");
    let again = rights::drop_all(Account::invoking()).expect("twice is as good as once");
    assert_eq!(again, dropped);
}

fn work(barrier: &Barrier) {
    let pool = Pool::new(64, BUFFER_LEN);
    let mut socket = open(&pool).expect("it has the right");
    rights::forget().expect("nothing is in the way");
    barrier.wait();
    barrier.wait();
    rights_are_gone();
    rights::forget().expect("twice is as good as once");
    // Open ports still work: its own frame comes back by the loopback interface.
    transmit(&mut socket, &pool);
    let (mut batch, mut came) = (Batch::new(), Vec::new());
    while !came.contains(&FRAME.to_vec()) {
        socket.receive(&mut batch, Instant::ZERO);
        came.extend(batch.drain().map(|packet| packet.bytes().to_vec()));
        thread::sleep(Duration::from_millis(1));
    }
}

/// A thread that has not forgotten is named.
fn keeping() {
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            barrier.wait();
        });
        barrier.wait();
        let error = rights::drop_all(Account::invoking()).expect_err("a thread has rights");
        assert!(matches!(error, RightsError::Left { .. }), "{error}");
        say(&error);
        barrier.wait();
    });
}

fn open(pool: &Pool) -> Result<PacketSocket, linecard_tun::PortError> {
    PacketSocket::open(
        &PacketConfig { receive_buffer: 2 << 20, ..PacketConfig::new("lo") },
        pool.clone(),
    )
}

fn transmit(port: &mut impl Port<linecard::packet::PoolBuffer>, pool: &Pool) {
    let mut buffer = pool.take().expect("one is free");
    buffer.as_mut()[..FRAME.len()].copy_from_slice(&FRAME);
    buffer.truncate(FRAME.len());
    let mut batch = Batch::new();
    assert!(batch.push(Packet::new(buffer, LinkType::Ethernet, Meta::default())).is_ok());
    port.transmit(&mut batch, Instant::ZERO);
    assert!(batch.is_empty());
}

/// The supplementary groups that any thread of this process has.
fn groups_of_threads() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc is there");
    let mut groups = std::collections::BTreeSet::new();
    let mut threads = 0;
    for task in tasks {
        let path = task.expect("a thread").path().join("status");
        let status = std::fs::read_to_string(path).expect("it waits at the barrier");
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        groups.extend(line.expect("Linux says it").split_whitespace().map(str::to_owned));
        threads += 1;
    }
    assert_eq!(threads, WORKERS + 1);
    groups.into_iter().collect::<Vec<_>>().join(",")
}

/// Of the calling thread.
fn lines(field: &str) -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("/proc is there");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.expect("Linux says it").to_owned()
}

fn rights_are_gone() {
    for field in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(lines(field).trim(), "0000000000000000", "{field}");
    }
    assert_eq!(lines("NoNewPrivs").trim(), "1");
    for field in ["Uid", "Gid"] {
        assert!(lines(field).split_whitespace().all(|id| id != "0"), "{field}: {}", lines(field));
    }
    let pool = Pool::new(2, BUFFER_LEN);
    assert!(matches!(open(&pool), Err(linecard_tun::PortError::NoPermission { .. })));
    assert!(Tap::open(&DeviceConfig::tap("tap%d"), pool).is_err());
    assert!(linecard_tun::interface::set_up("lo", false).is_err());
}
