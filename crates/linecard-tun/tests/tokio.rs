//! Sockets and devices that tokio awaits. The test of a device needs root; without it, it says so and passes.

use linecard::packet::LinkType;
use linecard_testkit::lab::{inside, ip};
use linecard_tun::tokio::{AsyncDevice, AsyncSocket};
use linecard_tun::udp::{BatchSocket, Receiver};
use linecard_tun::{BUFFER_LEN, Device, DeviceConfig, interface};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;
use tokio::time::timeout;

/// How long something may take that happens.
const PATIENCE: Duration = Duration::from_secs(30);

fn socket() -> BatchSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    BatchSocket::new(socket).expect("it is a socket")
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_received_is_awaited_and_nothing_is_lost_by_cancelling() {
    let (server, client) = (AsyncSocket::new(socket()).expect("a runtime runs"), socket());
    let address = server.get_ref().socket().local_addr().expect("it is bound");
    let mut receiver = Receiver::new(1);
    // Nothing waits: cancelled.
    let cancelled = timeout(Duration::from_millis(5), server.receive(&mut receiver)).await;
    assert!(cancelled.is_err());
    let nothing = server.try_receive(&mut receiver).map(|_| ());
    assert_eq!(nothing.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
    for round in 0..100_u8 {
        // The other task sends once this one waits.
        let send = async { client.send_to(&[round; 10], 4, address).expect("it is near") };
        let receive = async {
            let mut bytes = Vec::new();
            while bytes.len() < 10 {
                let received = timeout(PATIENCE, server.receive(&mut receiver)).await;
                let burst = received.expect("it was sent").expect("no error");
                bytes.extend(burst.ranges().flat_map(|place| burst.bytes[place].to_vec()));
            }
            bytes
        };
        let (bytes, sent) = tokio::join!(receive, send);
        assert_eq!((bytes, sent), (vec![round; 10], 10));
    }
    assert!(server.into_inner().receives_batches());
}

/// The kernel reports such an error without anything to read.
#[tokio::test(flavor = "current_thread")]
async fn an_error_of_an_earlier_datagram_is_awaited() {
    let (client, peer) = (AsyncSocket::new(socket()).expect("a runtime runs"), socket());
    let address = peer.socket().local_addr().expect("it is bound");
    client.get_ref().socket().connect(address).expect("it is near");
    drop(peer);
    // The other task sends while this one waits: again, if it is lost on a busy machine.
    let send = || async {
        loop {
            let _refused = client.get_ref().send(b"nobody", 6);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let mut receiver = Receiver::new(1);
    for _ in 0..3 {
        let error = tokio::select! {
            biased;
            received = timeout(PATIENCE, client.receive(&mut receiver)) => {
                received.expect("nobody listens").map(|_| ()).map_err(|error| error.kind())
            }
            () = send() => Ok(()),
        };
        assert_eq!(error, Err(ErrorKind::ConnectionRefused));
    }
    // The same by the function that does not wait.
    let awaited = async {
        loop {
            client.readable().await.expect("the runtime runs");
            match client.try_receive(&mut receiver).map(|_| ()) {
                // It may return without either.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => break result.map_err(|error| error.kind()),
            }
        }
    };
    tokio::select! {
        biased;
        refused = timeout(PATIENCE, awaited) => {
            assert_eq!(refused.expect("nobody listens"), Err(ErrorKind::ConnectionRefused));
        }
        () = send() => {}
    }
    // Then datagrams arrive as before.
    let peer = BatchSocket::new(UdpSocket::bind(address).expect("it is free")).expect("a socket");
    let own = client.get_ref().socket().local_addr().expect("it is bound");
    peer.send_to(b"line", 4, own).expect("it is near");
    loop {
        match timeout(PATIENCE, client.receive(&mut receiver)).await.expect("it was sent") {
            // Of a datagram that was sent again.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            received => break assert_eq!(received.expect("no other").bytes, b"line"),
        }
    }
}

/// A socket that always has something to read leaves other tasks their turn.
#[tokio::test(flavor = "current_thread")]
async fn a_flood_leaves_other_tasks_their_turn() {
    let (server, client) = (AsyncSocket::new(socket()).expect("a runtime runs"), socket());
    let address = server.get_ref().socket().local_addr().expect("it is bound");
    let (turns, mut receiver) = (std::cell::Cell::new(0), Receiver::new(1));
    let flooded = async {
        for _ in 0..100 {
            client.send_to(b"more", 4, address).expect("it is near");
            server.readable().await.expect("the runtime runs");
            // Nothing is read: it stays readable.
        }
        let _burst = server.try_receive(&mut receiver).expect("all are there");
    };
    let other = async {
        while turns.get() < 100 {
            turns.set(turns.get() + 1);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = flooded => assert!(turns.get() > 50, "{} turns", turns.get()),
        () = async { other.await; std::future::pending().await } => {}
    }
}

/// Promise (Live interfaces): with the feature `tokio` of `linecard-tun`, tokio awaits the frames of a
/// device.
#[test]
fn a_device_is_awaited() {
    inside("a device that tokio awaits", |_| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let device = Device::open(&DeviceConfig::tun("tun0")).expect("root in a namespace");
            let device = AsyncDevice::new(device).expect("a runtime runs");
            interface::set_up("tun0", true).expect("it is there");
            ip("addr add 10.7.0.1/24 dev tun0");
            let sender = UdpSocket::bind("10.7.0.1:0").expect("the address is there");
            sender.send_to(b"linecard", "10.7.0.2:7").expect("the device is up");
            let mut buffer = vec![0; BUFFER_LEN];
            loop {
                let read = timeout(PATIENCE, device.read(&mut buffer)).await;
                let frame = read.expect("a datagram was sent").expect("no error");
                if frame.bytes.ends_with(b"linecard") {
                    break;
                }
            }
            assert_eq!(device.get_ref().link(), LinkType::Raw);
            // Then the queue is emptied by reads that do not wait.
            device.readable().await.expect("the runtime runs");
            while device.try_read(&mut buffer).is_ok() {}
            let end = device.try_read(&mut buffer).map(|_| ());
            assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
        });
    });
}

#[test]
fn the_removal_of_a_device_is_awaited() {
    inside("the removal of a device that tokio awaits", |_| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let device = Device::open(&DeviceConfig::tun("tun0")).expect("root in a namespace");
            let device = AsyncDevice::new(device).expect("a runtime runs");
            let mut buffer = vec![0; BUFFER_LEN];
            // The other task removes it once this one waits.
            let read = async {
                let read = timeout(PATIENCE, device.read(&mut buffer)).await;
                read.expect("it was removed").map(|_| ()).expect_err("it was removed")
            };
            let (error, ()) = tokio::join!(read, async { ip("link del tun0") });
            assert_eq!(error.kind(), ErrorKind::NotFound);
            timeout(PATIENCE, device.readable()).await.expect("as before").expect("it runs");
            let again = device.try_read(&mut buffer).map(|_| ()).expect_err("as before");
            assert_eq!(again.to_string(), error.to_string());
        });
    });
}
