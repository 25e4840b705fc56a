//! The examples `tun` and `tokio`: TCP through a tunnel of two such programs, in namespaces of the
//! test. It needs root; without it, it says so and passes.

use linecard::rng::Rng;
use linecard_testkit::lab::{self, Namespace};
use linecard_testkit::{root, say, skip};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes sent in each direction.
const AMOUNT: usize = 8 << 20;
/// Of the tunnel's devices.
const MTU: u64 = 1_400;
/// For each step; all of them together take less than two seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The folder of the examples, which it builds.
fn build() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let profile = program.ancestors().nth(2).expect("cargo's folders");
    let target = profile.parent().expect("a folder for all profiles");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--package", "linecard-tun", "--examples"]);
    cargo.arg("--target-dir").arg(target).current_dir(root());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo is there").success(), "the examples do not build");
    profile.join("examples")
}

/// One end of the tunnel, ended when dropped.
struct End<'a> {
    namespace: &'a Namespace,
    program: Child,
    said: PathBuf,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

impl<'a> End<'a> {
    /// Starts the program in a namespace and sets its device up; `number` is 1 or 2.
    fn new(
        program: &Path,
        namespace: &'a Namespace,
        (number, folder): (u8, &Path),
    ) -> Result<Self, String> {
        let device = namespace.device();
        namespace.ip(&["addr", "add", &format!("192.0.2.{number}/24"), "dev", &device])?;
        let said = folder.join(format!("said{number}"));
        let file = fs::File::create(&said).expect("a file in our folder");
        let mut command = namespace.command(program);
        command.arg("tun0");
        command.args([number, 3 - number].map(|end| format!("192.0.2.{end}:5000")));
        let key = folder.join("key");
        fs::write(&key, [7; 32]).expect("a file in our folder");
        command.arg(key);
        let program = command.stderr(file).spawn().map_err(|error| format!("no `ip`: {error}"))?;
        let mut end = Self { namespace, program, said };
        end.set_up(number)?;
        Ok(end)
    }

    fn set_up(&mut self, number: u8) -> Result<(), String> {
        let begun = Instant::now();
        while let Err(why) = self.namespace.ip(&["link", "set", "tun0", "mtu", "1400", "up"]) {
            let ended = !matches!(self.program.try_wait(), Ok(None));
            if ended || begun.elapsed() > PATIENCE {
                let said = fs::read_to_string(&self.said).unwrap_or_default();
                return Err(format!("the example opens no device: {why} {said}"));
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
    let end = |namespace, device| lab::End { namespace, device, options: &[] };
    lab::cable(end(&near, &devices[0]), end(&far, &devices[1]))?;
    for namespace in [&near, &far] {
        namespace.ip(&["link", "set", &namespace.device(), "up"])?;
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
        let (ready, when_ready) = std::sync::mpsc::channel();
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
            // The listener may wait for ever: a connection that is closed at once ends it.
            scope.spawn(move || {
                ends[1].enter().and_then(|()| TcpStream::connect(address)).map(drop)
            });
        }
        let server = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        client.and(server)
    })
}

#[test]
fn tcp_goes_through_tun() {
    tcp_goes_through(["tun", "tun"]);
}

#[test]
fn tcp_goes_through_tokio() {
    tcp_goes_through(["tokio", "tokio"]);
}

#[test]
fn tun_and_tokio_are_each_others_peers() {
    tcp_goes_through(["tun", "tokio"]);
}

/// A tunnel between these two examples.
fn tcp_goes_through(examples: [&str; 2]) {
    let what = format!("TCP through the examples {examples:?}");
    let [near, far] = match cabled() {
        Ok(namespaces) => namespaces,
        Err(why) => return skip(&what, &why),
    };
    let (built, folder) = (build(), TempDir::new().expect("a folder"));
    let [first, second] = examples.map(|name| built.join(name));
    let ends = End::new(&first, &near, (1, folder.path()))
        .and_then(|first| Ok([first, End::new(&second, &far, (2, folder.path()))?]));
    let ends = match ends {
        Ok(ends) => ends,
        Err(why) => return skip(&what, &why),
    };
    for address in ["198.51.100.2:7000", "[2001:db8::2]:7000"] {
        let address = address.parse().expect("an address");
        let exchanged = connect([&near, &far], address).map_err(|error| error.to_string());
        assert_eq!(exchanged, Ok(()), "{address}");
    }
    for end in &ends {
        // Mean bytes of what the kernel gave and of what it took.
        for direction in ["tx", "rx"] {
            let [bytes, packets] =
                ["bytes", "packets"].map(|unit| end.counter(&format!("{direction}_{unit}")));
            say(&format!("{examples:?}: {direction} {bytes} bytes in {packets} packets"));
            assert!(bytes / packets.max(1) > 2 * MTU, "{direction}: packets are large");
        }
    }
}
