//! TCP through a tunnel of two programs that each open a TUN device, in namespaces of the test.

use super::{End, Namespace, cable};
use crate::{say, skip};
use linecard::rng::Rng;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const DEVICES: &str = "/dev/net/tun";
/// Bytes sent in each direction.
const AMOUNT: usize = 8 << 20;
/// Of the tunnel's devices.
const MTU: u64 = 1_400;
/// For each step; all of them together take less than two seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The addresses of the two programs, which a cable connects.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

/// A program at one end of the tunnel, ended when dropped.
struct Program<'a> {
    namespace: &'a Namespace,
    child: Child,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Program<'a> {
    /// Starts it, and sets its device `tun0` up; `number` is 1 or 2.
    fn new(namespace: &'a Namespace, mut command: Command, number: usize) -> Result<Self, String> {
        let child = command.stderr(Stdio::piped()).spawn();
        let child = child.map_err(|error| format!("no `ip`: {error}"))?;
        let mut program = Self { namespace, child };
        program.set_up(number)?;
        Ok(program)
    }

    fn set_up(&mut self, number: usize) -> Result<(), String> {
        let (begun, mtu) = (Instant::now(), MTU.to_string());
        while let Err(why) = self.namespace.ip(&["link", "set", "tun0", "mtu", &mtu, "up"]) {
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended || begun.elapsed() > PATIENCE {
                return Err(format!("the program opens no device: {why} {}", self.said()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        for address in [format!("198.51.100.{number}/24"), format!("2001:db8::{number}/64")] {
            let no_detection = address.contains(':').then_some("nodad");
            let add = ["addr", "add", &address, "dev", "tun0"];
            self.namespace.ip(&add.into_iter().chain(no_detection).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Ends the program; returns its output.
    fn said(&mut self) -> String {
        let _ = self.child.kill();
        let mut said = String::new();
        let stderr = self.child.stderr.as_mut();
        let _ = stderr.map(|stderr| stderr.read_to_string(&mut said));
        said
    }

    /// A counter of its device.
    fn counter(&self, name: &str) -> u64 {
        let mut command = self.namespace.command("cat");
        command.arg(format!("/sys/class/net/tun0/statistics/{name}"));
        let output = command.output().expect("`ip` was there before");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
    }
}

/// Two namespaces with a cable between their devices, which are up.
fn cabled() -> Result<[Namespace; 2], String> {
    let (near, far) = (Namespace::new()?, Namespace::new()?);
    let devices = [&near, &far].map(Namespace::device);
    let end = |namespace, device| End { namespace, device, options: &[] };
    cable(end(&near, &devices[0]), end(&far, &devices[1]))?;
    for (namespace, address) in [&near, &far].into_iter().zip(ADDRESSES) {
        let device = namespace.device();
        namespace.ip(&["addr", "add", &format!("{address}/24"), "dev", &device])?;
        namespace.ip(&["link", "set", &device, "up"])?;
    }
    Ok([near, far])
}

fn content(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; AMOUNT];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

/// Sends and then receives, or the other way round.
fn exchange(mut stream: TcpStream, (seed, first): (u64, bool)) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    for sends in [first, !first] {
        if sends {
            stream.write_all(&content(seed + u64::from(!first)))?;
        } else {
            let mut received = vec![0; AMOUNT];
            stream.read_exact(&mut received)?;
            assert!(received == content(seed + u64::from(first)), "other bytes came");
        }
    }
    Ok(())
}

/// Both ends of a connection through the tunnel, each in its namespace.
fn connect(ends: [&Namespace; 2], address: SocketAddr) -> io::Result<()> {
    thread::scope(|scope| {
        let (ready, when_ready) = mpsc::channel();
        let server = scope.spawn(move || {
            ends[1].enter()?;
            let listener = TcpListener::bind(address)?;
            let _ = ready.send(());
            exchange(listener.accept()?.0, (1, false))
        });
        let client = scope.spawn(move || {
            ends[0].enter()?;
            when_ready.recv().map_err(io::Error::other)?;
            exchange(TcpStream::connect_timeout(&address, PATIENCE)?, (1, true))
        });
        let client = client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if client.is_err() && !server.is_finished() {
            // The listener may wait forever: a connection that is closed at once ends it.
            scope.spawn(move || {
                ends[1].enter().and_then(|()| TcpStream::connect(address)).map(drop)
            });
        }
        let server = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        client.and(server)
    })
}

/// Sends TCP, over IPv4 and IPv6, through a tunnel of two programs, and expects the packets that they exchange with
/// their kernels to be large; or says why it cannot. `arguments` are those of a program with an address of its own and
/// a peer's, which is to open the device `tun0`.
///
/// # Panics
///
/// Not all comes through, or in small packets.
pub fn tcp_goes_through(
    what: &str,
    programs: impl FnOnce() -> [PathBuf; 2],
    arguments: impl Fn([&str; 2]) -> Vec<OsString>,
) {
    if let Err(error) = OpenOptions::new().read(true).write(true).open(DEVICES) {
        return skip(what, format!("{DEVICES}: {error}"));
    }
    let namespaces = match cabled() {
        Ok(namespaces) => namespaces,
        Err(why) => return skip(what, why),
    };
    let files = programs();
    let programs = [0, 1].map(|index| {
        let mut command = namespaces[index].command(&files[index]);
        command.args(arguments([ADDRESSES[index], ADDRESSES[1 - index]]));
        let program = Program::new(&namespaces[index], command, index + 1);
        program.expect("the program opens its device")
    });
    for address in ["198.51.100.2:7000", "[2001:db8::2]:7000"] {
        let address = address.parse().expect("an address");
        let result = connect([&namespaces[0], &namespaces[1]], address);
        assert!(result.is_ok(), "{address}: {result:?}");
    }
    for program in &programs {
        // Mean bytes of what the kernel gave and of what it took.
        for direction in ["tx", "rx"] {
            let [bytes, packets] =
                ["bytes", "packets"].map(|unit| program.counter(&format!("{direction}_{unit}")));
            say(&format!("{what}: {direction} {bytes} bytes in {packets} packets"));
            assert!(bytes / packets.max(1) > 2 * MTU, "{direction}: packets are large");
        }
    }
}
