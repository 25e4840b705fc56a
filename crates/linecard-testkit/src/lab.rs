//! Network namespaces for tests beside the real kernel.
//!
//! They are those of the product's own lab, under names of the same form: those that a killed test leaves behind are
//! removed by the next test that makes one.

pub mod tunnel;

use linecard_io::lab;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether this process has the rights of root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A network namespace, removed with all its devices when dropped. Errors name the missing facility.
#[derive(Debug)]
pub struct Namespace {
    inner: lab::Namespace,
    number: u32,
}

impl Namespace {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// No rights, or no `ip`.
    pub fn new() -> Result<Self, String> {
        static LEFTOVERS: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !is_root() {
            return Err("not root, which network namespaces need".to_owned());
        }
        LEFTOVERS.call_once(lab::remove_leftovers);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let inner = lab::Namespace::new(&number.to_string()).map_err(|error| error.to_string())?;
        Ok(Self { inner, number })
    }

    /// Makes one in which nothing is sent but what a test sends.
    ///
    /// # Errors
    ///
    /// As [`Namespace::new`].
    pub fn quiet() -> Result<Self, String> {
        let namespace = Self::new()?;
        for scope in ["all", "default"] {
            // Neighbour discovery; without IPv6 in the kernel there is none.
            namespace.sysctl(&format!("ipv6/conf/{scope}/disable_ipv6"), "1");
        }
        Ok(namespace)
    }

    /// Its name, as `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.inner.file()
    }

    /// A name for a device in it that is unique on this machine, as the kernel's threads for a device are found
    /// by its name. At most 15 bytes.
    #[must_use]
    pub fn device(&self) -> String {
        format!("lc{}n{}", std::process::id(), self.number)
    }

    /// Has `ip` do something in it.
    ///
    /// # Errors
    ///
    /// Output of `ip`.
    pub fn ip(&self, arguments: &[&str]) -> Result<(), String> {
        self.inner.ip(arguments).map_err(|error| error.to_string())
    }

    /// Switches a device's features by `ethtool -K`.
    ///
    /// # Errors
    ///
    /// Output of `ethtool`.
    pub fn ethtool(&self, device: &str, features: &[&str]) -> Result<(), String> {
        self.inner.features(device, features).map_err(|error| error.to_string())
    }

    /// Writes a file of /proc or /sys as it is seen in it.
    ///
    /// # Errors
    ///
    /// No such file, or no such value.
    pub fn write(&self, file: &str, value: &str) -> Result<(), String> {
        self.inner.set(file, value).map_err(|error| error.to_string())
    }

    /// Writes a setting below /proc/sys/net; whether there is one that takes it.
    pub fn sysctl(&self, setting: &str, value: &str) -> bool {
        self.inside(|| fs::write(format!("/proc/sys/net/{setting}"), value)).is_ok()
    }

    /// A program to be run in it, with a /sys of this network.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.inner.command(program)
    }

    /// Runs a program in it, words of `line` being its arguments.
    ///
    /// # Panics
    ///
    /// The program does not exist.
    #[must_use]
    pub fn run(&self, line: &str) -> Output {
        let mut words = line.split(' ');
        let program = words.next().unwrap_or_default();
        let output = self.inside(|| Command::new(program).args(words).output());
        output.expect("the program is there")
    }

    /// Works in it, on a thread of its own. Sockets stay where they were opened.
    ///
    /// # Panics
    ///
    /// When it cannot be entered, and as the work does.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.inner.enter(work).expect("root may enter a namespace that is there")
    }

    /// Moves the calling thread, no other, into it, for good.
    ///
    /// # Errors
    ///
    /// When it cannot be entered.
    pub fn enter(&self) -> io::Result<()> {
        self.inner.enter_for_good()
    }
}

/// One end of a cable.
#[derive(Debug, Clone, Copy)]
pub struct End<'e> {
    /// Where it is.
    pub namespace: &'e Namespace,
    /// The device's name.
    pub device: &'e str,
    /// Further arguments of `ip link add`, as `mtu` and `numtxqueues`.
    pub options: &'e [&'e str],
}

/// Lays a cable (veth) between two devices, which are down.
///
/// # Errors
///
/// Output of `ip`.
pub fn cable(near: End<'_>, far: End<'_>) -> Result<(), String> {
    let add = ["link", "add", near.device, "netns", near.namespace.name()];
    let peer = ["type", "veth", "peer", "name", far.device, "netns", far.namespace.name()];
    near.namespace.ip(&[&add, near.options, &peer, far.options].concat())
}

/// Moves the calling thread into a new namespace in which nothing is sent but what a test sends.
///
/// # Panics
///
/// The privilege is missing, which [`inside`] would have found.
#[must_use]
pub fn new_network() -> Namespace {
    let namespace = Namespace::quiet().expect("there was one before");
    namespace.enter().expect("root may");
    namespace
}

/// Runs `ip` in the namespace of the calling thread.
///
/// # Panics
///
/// It fails.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("`ip` is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

/// Works in a namespace in which nothing is sent but what a test sends, on a thread of its own, or says why not.
pub fn inside(what: impl Display, work: impl FnOnce(&Namespace) + Send) {
    match Namespace::quiet() {
        Ok(namespace) => namespace.inside(|| work(&namespace)),
        Err(why) => crate::skip(what, why),
    }
}
