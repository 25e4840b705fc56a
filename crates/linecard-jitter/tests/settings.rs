//! Settings of interfaces in a namespace of the test's own, changed and restored byte for byte,
//! through the kernel.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "what is measured takes its time")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use linecard_jitter::linux::journal::{Change, Journal, RestoreResult, Store};
use linecard_jitter::linux::setting::{Form, Namespace, Setting};
use linecard_jitter::linux::toggle::napi_threads;
use linecard_testkit::lab::{self, End, cable};
use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A namespace with a cable and a TAP device.
struct Host {
    space: lab::Namespace,
    /// Names of interfaces are those of NAPI threads too, which have no namespace.
    wire: String,
    folder: tempfile::TempDir,
}

impl Host {
    fn new(what: &str) -> Option<Self> {
        match Self::wired() {
            Ok(place) => Some(place),
            Err(why) => {
                linecard_testkit::skip(what, why);
                None
            }
        }
    }

    fn wired() -> Result<Self, String> {
        let space = lab::Namespace::new()?;
        let wire = space.device();
        let end = |device| End { namespace: &space, device, options: &[] };
        cable(end(&wire), end("far"))?;
        for device in [&wire, "far"] {
            space.ip(&["link", "set", device, "up"])?;
        }
        Ok(Self { space, wire, folder: tempfile::tempdir().unwrap() })
    }

    fn ip(&self, arguments: &[&str]) -> bool {
        self.space.ip(arguments).is_ok()
    }

    fn namespace(&self) -> Option<Namespace> {
        Some(Namespace::at(self.space.path()).unwrap())
    }

    fn file(&self, file: &str, form: Form) -> Setting {
        let path = format!("/sys/class/net/{}/{file}", self.wire);
        Setting::file(path, form).within(self.namespace())
    }

    fn store(&self) -> Store {
        Store::at(self.folder.path().join("journals"))
    }

    fn journal(&self) -> Journal {
        Journal::begin(&self.store()).unwrap()
    }
}

/// Changes all of them, looks, rolls back and looks again.
fn there_and_back(place: &Host, changes: &[(Setting, &str)]) {
    let read = || changes.iter().map(|(setting, _)| setting.read().unwrap()).collect::<Vec<_>>();
    let before = read();
    let mut journal = place.journal();
    for (setting, value) in changes {
        assert_eq!(journal.change(setting, value).unwrap(), Change::Made, "{setting}");
        assert!(setting.reads(value).unwrap(), "{setting}");
    }
    assert!(read().iter().zip(&before).all(|(now, before)| now != before));
    let restorations = journal.roll_back().unwrap();
    assert!(
        restorations.iter().all(|one| matches!(one.fate, RestoreResult::Restored)),
        "{restorations:?}"
    );
    assert_eq!(read(), before);
}

#[test]
fn files_of_an_interface_in_another_namespace() {
    let Some(place) = Host::new("files of an interface") else { return };
    // NAPI, and so threads for it, comes with GRO.
    let gro = Setting::feature(&place.wire, "rx-gro").within(place.namespace());
    let mut journal = place.journal();
    journal.change(&gro, "on").unwrap();
    there_and_back(
        &place,
        &[
            (place.file("queues/rx-0/rps_cpus", Form::Mask), "1"),
            (place.file("gro_flush_timeout", Form::Plain), "92600"),
            (place.file("napi_defer_hard_irqs", Form::Plain), "1"),
            (place.file("threaded", Form::Plain), "1"),
        ],
    );
}

#[test]
fn features_of_an_interface_in_another_namespace() {
    let Some(place) = Host::new("features of an interface") else { return };
    let feature = |name: &str| Setting::feature(&place.wire, name).within(place.namespace());
    for name in ["tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro"] {
        let to = if feature(name).reads("on").unwrap() { "off" } else { "on" };
        there_and_back(&place, &[(feature(name), to)]);
    }
    // A setting that depends on another one is restored too, when both are.
    let names = ["tx-tcp-segmentation", "tx-generic-segmentation"];
    let states = || names.map(|name| feature(name).read().unwrap());
    let before = states();
    let mut journal = place.journal();
    journal.change(&feature("tx-generic-segmentation"), "off").unwrap();
    journal.roll_back().unwrap();
    assert_eq!(states(), before);
    let error = feature("no-such-feature").read().unwrap_err();
    assert!(error.to_string().contains("no-such-feature"), "{error}");
}

#[test]
fn coalescing_of_a_device_that_has_it() {
    let Some(place) = Host::new("coalescing") else { return };
    if !place.ip(&["tuntap", "add", "dev", "tap0", "mode", "tap"]) {
        linecard_testkit::skip("coalescing", "no TAP device");
        return;
    }
    let tap = Setting::coalescing("tap0").within(place.namespace());
    there_and_back(&place, &[(tap.clone(), "rx-frames=16")]);
    // Values that the driver rejects are refused, and everything is unchanged.
    let before = tap.read().unwrap();
    let mut journal = place.journal();
    assert!(journal.change(&tap, "tx-usecs=5").is_err());
    drop(journal);
    assert_eq!(tap.read().unwrap(), before);
    let wire = Setting::coalescing(&place.wire).within(place.namespace());
    assert!(wire.read().unwrap_err().is_gone(), "a veth has none");
}

#[test]
fn the_cpus_of_a_thread_of_the_kernel() {
    let Some(place) = Host::new("CPUs of a NAPI thread") else { return };
    let mut journal = place.journal();
    let gro = Setting::feature(&place.wire, "rx-gro").within(place.namespace());
    journal.change(&gro, "on").unwrap();
    journal.change(&place.file("threaded", Form::Plain), "1").unwrap();
    let threads = napi_threads(&place.wire);
    assert_eq!(threads.len(), 1, "{threads:?}");
    let setting = Setting::thread(threads[0]).unwrap();
    if setting.reads("0").unwrap() {
        linecard_testkit::skip("CPUs of a NAPI thread", "one core");
        return;
    }
    there_and_back(&place, &[(setting.clone(), "0")]);
    drop(journal);
    assert!(napi_threads(&place.wire).is_empty());
    assert!(setting.read().unwrap_err().is_gone());
}

#[test]
fn what_has_gone_with_its_namespace_is_no_conflict() {
    let Some(place) = Host::new("settings of a namespace that is gone") else { return };
    let setting = place.file("gro_flush_timeout", Form::Plain);
    let mut journal = place.journal();
    journal.change(&setting, "1000").unwrap();
    drop(place.space);
    let restorations = journal.roll_back().unwrap();
    assert!(matches!(restorations[0].fate, RestoreResult::Gone), "{restorations:?}");
    assert!(!place.folder.path().join("journals").exists());
}

/// Where a child finds what to switch: namespace, interface, journals.
const CHILD: &str = "LINECARD_TEST_AB_CHILD";

/// Not a test but the process that the next one kills: it switches arms until then.
#[test]
fn child_that_compares_until_it_is_killed() {
    use linecard_jitter::linux::ab::{Design, Observation, measure};
    use linecard_jitter::linux::toggle::{Target, named};

    let Ok(place) = std::env::var(CHILD) else { return };
    let [namespace, wire, journals] = place.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let target = Target::new(0).by(wire, Some(Namespace::at(namespace).unwrap()));
    let design = Design { blocks: 200, ..Design::of(vec!["nothing".to_owned()]) };
    let toggles = ["napi-defer", "rps"].map(|name| named(name).unwrap());
    let _killed = measure((&toggles, &target), &design, &Store::at(journals), |_| {
        std::thread::sleep(Duration::from_millis(5));
        Ok::<_, std::io::Error>(Observation { figures: vec![1.0], counts: vec![("batch", 1.0)] })
    });
}

#[test]
fn a_comparison_that_is_killed_leaves_nothing_after_the_next_start() {
    let Some(place) = Host::new("a comparison that is killed") else { return };
    let files = ["queues/rx-0/rps_cpus", "gro_flush_timeout", "napi_defer_hard_irqs"];
    let read = || files.map(|file| place.file(file, Form::Plain).read().unwrap());
    let before = read();
    let journals = place.folder.path().join("journals");
    for wait_ms in [0, 3, 11, 40] {
        let own = format!("{} {} {}", place.space.path().display(), place.wire, journals.display());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_compares_until_it_is_killed"])
            .env(CHILD, own)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while read() == before && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let restorations = place.store().recover().unwrap();
        assert!(restorations.iter().all(|one| one.fate.is_good()), "{restorations:?}");
        assert!(!restorations.is_empty(), "it had begun");
        assert_eq!(read(), before, "{wait_ms} ms");
        assert!(!journals.exists());
    }
}

/// The live check of the machinery: toggles of an interface take effect on packets that cross a cable,
/// their witnesses see it, and the host is as before.
#[test]
fn toggles_take_effect_on_packets_of_a_lab() {
    use linecard_io::lab::{CABLE, Cable, Host, Lab};
    use linecard_jitter::linux::ab::{Design, Observation, measure};
    use linecard_jitter::linux::toggle::{Target, named};

    let skip = |why: &dyn std::fmt::Display| {
        linecard_testkit::skip("toggles on packets of a lab", why);
    };
    let lab = match Lab::new(Cable::default()) {
        Ok(lab) => lab,
        Err(error) => return skip(&error),
    };
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return skip(&"one core");
    }
    lab.add_address(Host::Own, CABLE).unwrap();
    let gro = lab.command(Host::Own, "ethtool").args(["-K", CABLE, "gro", "on"]).status();
    assert!(gro.unwrap().success());
    let namespace =
        Namespace::at(format!("/run/netns/linecard-{}-host", std::process::id())).unwrap();
    let target = Target::new(0).by(CABLE, Some(namespace.clone()));
    let bind = |host: Host| lab.enter(host, move || UdpSocket::bind((host.address(), 0)).unwrap());
    let (sender, sink) = (bind(Host::Peer).unwrap(), bind(Host::Own).unwrap());
    sink.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    sender.connect(sink.local_addr().unwrap()).unwrap();
    let files = ["queues/rx-0/rps_cpus", "threaded", "gro_flush_timeout"].map(|file| {
        let path = format!("/sys/class/net/{CABLE}/{file}");
        Setting::file(path, Form::Plain).within(Some(namespace.clone()))
    });
    let read = || files.each_ref().map(|setting| setting.read().unwrap());
    let before = read();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path().join("journals"));
    let toggles = ["aa", "rps", "threaded-napi"].map(|name| named(name).unwrap());
    let design = Design { blocks: 7, ..Design::of(vec!["time of a packet, µs".to_owned()]) };
    let finished = std::thread::scope(|scope| {
        let all = scope.spawn(|| {
            // Not on the sink's core, so that packets have to be handed over.
            let mut core = rustix::thread::CpuSet::new();
            core.set(1);
            rustix::thread::sched_setaffinity(None, &core).unwrap();
            measure((&toggles, &target), &design, &store, |_| {
                let begun = Instant::now();
                for _ in 0..50 {
                    sender.send(&[0; 100])?;
                    sink.recv(&mut [0; 200])?;
                }
                let figures = vec![begun.elapsed().as_secs_f64() * 1e6 / 50.0];
                Ok::<_, std::io::Error>(Observation { figures, counts: Vec::new() })
            })
        });
        all.join().unwrap().unwrap()
    });
    assert!(
        finished.restorations.iter().all(|one| one.fate.is_good()),
        "{:?}",
        finished.restorations
    );
    assert_eq!(read(), before);
    assert!(!folder.path().join("journals").exists());
    for outcome in finished.outcomes.unwrap() {
        let seen = &outcome.manipulation;
        let _ = writeln!(std::io::stderr(), "{}: {seen:?}", outcome.toggle.name);
        assert!(seen.holds, "{}: {seen:?}", outcome.toggle.name);
    }
}
