use super::*;
use crate::linux::audit::apply::{apply, verify};
use crate::linux::journal::{Journal, Store};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A machine of four cores as one finds it: nothing is set for the sink.
const FOUND: [(&str, &str); 43] = [
    ("proc/cmdline", "root=/dev/sda1 idle=halt mitigations=auto"),
    (
        "proc/interrupts",
        "      CPU0  CPU3\n 24:  1  7  IO-APIC  ata\n 25:  0  9  MSI eth0-rx-0\nNMI: 0 0\n",
    ),
    ("proc/irq/24/smp_affinity_list", "0-3"),
    ("proc/irq/25/smp_affinity_list", "0"),
    ("proc/irq/default_smp_affinity", "f"),
    ("proc/1/comm", "init"),
    ("proc/77/comm", "irqbalance"),
    ("proc/cpuinfo", "processor : 0\nflags\t\t: fpu tsc"),
    ("proc/stat", "cpu 1 2\ncpu3 10 0 10 80 0 0 0 0 0 0"),
    ("proc/swaps", "Filename Type\n/dev/sda2 partition"),
    ("proc/sys/kernel/osrelease", "6.18.0"),
    ("proc/sys/kernel/sched_rt_runtime_us", "950000"),
    ("proc/sys/kernel/sched_rt_period_us", "1000000"),
    ("proc/sys/kernel/timer_migration", "1"),
    ("proc/sys/kernel/watchdog", "1"),
    ("proc/sys/kernel/watchdog_cpumask", "0-3"),
    ("proc/sys/kernel/numa_balancing", "1"),
    ("proc/sys/net/core/busy_read", "0"),
    ("proc/sys/net/core/busy_poll", "0"),
    ("proc/sys/net/core/rmem_max", "212992"),
    ("proc/sys/net/core/rmem_default", "212992"),
    ("proc/sys/vm/stat_interval", "1"),
    ("boot/config-6.18.0", "CONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_HZ=1000\n"),
    ("sys/devices/system/cpu/online", "0-3"),
    ("sys/devices/system/cpu/isolated", ""),
    ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "schedutil"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state0/latency", "0"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state1/latency", "33"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state1/disable", "0"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state1/name", "C6"),
    ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3"),
    ("sys/devices/system/cpu/cpu3/node0/cpulist", "0-3"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"),
    ("sys/devices/virtual/workqueue/cpumask", "f"),
    ("sys/kernel/debug/sched/preempt", "none (voluntary) full"),
    ("sys/kernel/debug/sched/fair_server/cpu3/runtime", "50000000"),
    ("sys/kernel/mm/ksm/run", "1"),
    ("sys/class/net/eth0/device/numa_node", "1"),
    ("sys/class/net/eth0/operstate", "up"),
    ("sys/class/net/eth0/gro_flush_timeout", "20000"),
    ("sys/class/net/eth0/napi_defer_hard_irqs", "2"),
    ("sys/class/net/eth0/threaded", "1"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "c"),
];

fn tree(changed: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in FOUND.iter().chain(changed) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    folder
}

fn audit(root: &Path) -> Audit {
    Audit::of(&Host::at(root, None, None).unwrap(), &Effects::new())
}

fn verdict(audit: &Audit, id: &str) -> Verdict {
    audit.rows.iter().find(|row| row.check.id == id).unwrap().seen.verdict
}

#[test]
fn a_machine_as_found_has_much_to_change() {
    let folder = tree(&[]);
    let audit = audit(folder.path());
    let advised: Vec<&str> = audit
        .rows
        .iter()
        .filter(|row| row.seen.verdict == Verdict::Advice)
        .map(|row| row.check.id)
        .collect();
    assert_eq!(advised.len(), 26, "{advised:?}");
    let expected_not =
        ["coalescing", "idle-poll", "rcu-nocb-poll", "tick-rate", "hypervisor", "huge-pages"];
    assert!(expected_not.iter().all(|id| !advised.contains(id)), "{advised:?}");
    let weights: Vec<u8> = audit.rows[..advised.len()].iter().map(|row| row.check.weight).collect();
    assert!(weights.is_sorted_by(|left, right| left >= right), "{weights:?}");
    let found = |id: &str| {
        let row = audit.rows.iter().find(|row| row.check.id == id).unwrap();
        format!("{}: {}", row.seen.found, row.seen.advice)
    };
    assert_eq!(found("irq-affinity"), "1 may fire on core 3, and have 7 times: give them to 0-2");
    assert_eq!(
        found("c-states"),
        "C6 (33 µs): disable them for this core, or hold /dev/cpu_dma_latency at 0"
    );
    assert_eq!(
        found("isolcpus"),
        "core 3 takes part in scheduling: boot with isolcpus=managed_irq,domain,3"
    );
}

#[test]
fn a_machine_made_ready_has_none_of_it() {
    let line = "isolcpus=managed_irq,domain,3 nohz_full=2-3 rcu_nocbs=3 rcu_nocb_poll idle=poll";
    let folder = tree(&[
        ("proc/cmdline", line),
        ("sys/devices/system/cpu/isolated", "3"),
        ("proc/irq/24/smp_affinity_list", "0-2"),
        ("proc/irq/25/smp_affinity_list", "3"),
        ("sys/kernel/debug/sched/preempt", "none voluntary (full)"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
        ("sys/devices/system/cpu/cpu3/cpuidle/state1/disable", "1"),
    ]);
    let audit = audit(folder.path());
    let ready = [
        "isolcpus",
        "nohz-full",
        "rcu-nocbs",
        "rcu-nocb-poll",
        "idle-poll",
        "irq-affinity",
        "irq-of-interface",
        "preemption",
        "huge-pages",
        "c-states",
    ];
    for id in ready {
        assert_eq!(verdict(&audit, id), Verdict::Good, "{id}");
    }
}

#[test]
fn what_cannot_be_read_is_unknown_and_never_good() {
    let folder = tempfile::tempdir().unwrap();
    let online = folder.path().join("sys/devices/system/cpu");
    fs::create_dir_all(&online).unwrap();
    fs::write(online.join("online"), "0-1\n").unwrap();
    let audit = audit(folder.path());
    let good: Vec<&str> = audit
        .rows
        .iter()
        .filter(|row| row.seen.verdict == Verdict::Good)
        .map(|row| row.check.id)
        .collect();
    assert_eq!(good, [""; 0]);
    for row in audit.rows.iter().filter(|row| row.seen.verdict == Verdict::Unknown) {
        assert!(!row.seen.found.is_empty(), "{}", row.check.id);
    }
    assert!(audit.plan(&[]).is_empty());
}

#[test]
fn a_plan_is_applied_verified_and_rolled_back() {
    let folder = tree(&[]);
    let before = snapshot(folder.path());
    let store_folder = tempfile::tempdir().unwrap();
    let audit = audit(folder.path());
    let plan = audit.plan(&[]);
    assert!(plan.len() >= 15, "{}", plan.len());
    let mut journal = Journal::begin(&Store::at(store_folder.path().join("journals"))).unwrap();
    let applied = apply(plan, &mut journal);
    let refused: Vec<_> = applied.iter().filter(|one| one.outcome.is_err()).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(verify(&applied).is_empty());
    let after = Audit::of(&Host::at(folder.path(), Some(3), None).unwrap(), &Effects::new());
    assert!(after.plan(&[]).is_empty(), "{:?}", after.plan(&[]));
    // Another process undoes one of them: this is detected.
    fs::write(folder.path().join("proc/sys/vm/stat_interval"), "1\n").unwrap();
    assert_eq!(verify(&applied).len(), 1);
    fs::write(folder.path().join("proc/sys/vm/stat_interval"), "120\n").unwrap();
    assert!(journal.roll_back().unwrap().iter().all(|one| one.fate.is_good()));
    assert_eq!(snapshot(folder.path()), before);
}

fn snapshot(root: &Path) -> Vec<Vec<u8>> {
    FOUND.iter().map(|(path, _)| fs::read(root.join(path)).unwrap()).collect()
}

#[test]
fn only_what_is_named_is_planned() {
    let folder = tree(&[]);
    let plan = audit(folder.path()).plan(&["vm-stat".to_owned()]);
    assert_eq!(plan.len(), 1);
    assert!(plan[0].1.to_string().ends_with("proc/sys/vm/stat_interval = 120"));
    // Settings that can lock a core are changed by name only.
    let names = |plan: Plan| plan.iter().map(|(check, _)| check.id).collect::<Vec<_>>();
    let risky = ["rt-throttling", "fair-server"];
    assert!(risky.iter().all(|id| !names(audit(folder.path()).plan(&[])).contains(id)));
    assert_eq!(names(audit(folder.path()).plan(&risky.map(str::to_owned))), risky);
}

#[test]
fn measured_effects_stand_beside_their_advice() {
    let folder = tree(&[]);
    let measured = Measured {
        figure: "p99 lateness, µs".into(),
        without: 15.5,
        with: 7.4,
        interval: (-9.0, -7.0),
        p: 0.03125,
    };
    let effects = Effects::from([("idle".to_owned(), measured)]);
    let audit = Audit::of(&Host::at(folder.path(), None, None).unwrap(), &effects);
    let row = audit.rows.iter().find(|row| row.check.id == "c-states").unwrap();
    let text = row.measured.as_ref().unwrap().to_string();
    assert_eq!(text, "p99 lateness, µs: 15.50 to 7.40 (-8.10, 95 % -9.00 to -7.00, p 0.031)");
    assert!(
        audit
            .rows
            .iter()
            .filter(|row| row.measured.is_some())
            .all(|row| row.check.toggle == Some("idle"))
    );
}

#[test]
fn checks_say_everything_and_no_two_have_one_name() {
    let mut ids: Vec<&str> = checks().map(|check| check.id).collect();
    assert_eq!(ids.len(), 37);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 37);
    for check in checks() {
        let texts = [check.reads, check.cause, check.source];
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", check.id);
        assert_eq!(
            check.risk.is_empty(),
            check.remedy == Remedy::Nothing && check.id != "mitigations",
            "{}",
            check.id
        );
        assert!(check.weight <= 100);
    }
}

#[test]
fn a_core_that_is_not_there_is_refused() {
    let folder = tree(&[]);
    let error = Host::at(folder.path(), Some(9), None).unwrap_err().to_string();
    assert_eq!(error, "core 9 does not exist: the online cores are 0-3");
    let error = Host::at(folder.path(), Some(1), Some("eth1")).unwrap_err().to_string();
    assert_eq!(error, "interface eth1 does not exist: there are eth0");
    let mut host = Host::at(folder.path(), Some(1), Some("eth0")).unwrap();
    assert_eq!((host.core(), host.interface()), (1, Ok("eth0")));
    fs::remove_file(folder.path().join("sys/class/net/eth0/operstate")).unwrap();
    host = Host::at(folder.path(), None, None).unwrap();
    assert!(host.interface().unwrap_err().contains("--interface"));
}

#[test]
fn masks_are_read_digit_by_digit() {
    for (mask, core, has) in [
        ("f", 3, true),
        ("7", 3, false),
        ("1,00000000", 32, true),
        ("0", 99, false),
        ("x", 0, false),
    ] {
        assert_eq!(interrupts::mask_has(mask, core), has, "{mask} {core}");
    }
}
