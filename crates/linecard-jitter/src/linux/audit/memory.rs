//! Memory: settings that move pages of a running sink.

use super::{Check, Host, Observed, Remedy, Unreadable};
use crate::linux::setting::Form;

pub(super) const CHECKS: [Check; 4] = [
    Check {
        id: "huge-pages",
        reads: "/sys/kernel/mm/transparent_hugepage/enabled, khugepaged/defrag",
        cause: "pages are gathered and moved, by the sink's own faults or by a thread",
        source: "admin-guide/mm/transhuge.rst",
        remedy: Remedy::Live,
        risk: "programs with much memory get slower",
        weight: 28,
        toggle: Some("thp"),
        look: huge_pages,
    },
    Check {
        id: "same-pages",
        reads: "/sys/kernel/mm/ksm/run",
        cause: "a thread compares pages; a write to a merged one faults",
        source: "admin-guide/mm/ksm.rst",
        remedy: Remedy::Live,
        risk: "more memory is used",
        weight: 27,
        toggle: None,
        look: same_pages,
    },
    Check {
        id: "numa-balancing",
        reads: "/proc/sys/kernel/numa_balancing",
        cause: "pages are unmapped to see which threads use them: faults",
        source: "sysctl/kernel.rst",
        remedy: Remedy::Live,
        risk: "memory may stay on the farther node",
        weight: 43,
        toggle: Some("numa"),
        look: numa_balancing,
    },
    Check {
        id: "swap",
        reads: "/proc/swaps",
        cause: "a page of the sink that was swapped out takes ms to come back",
        source: "mlockall(2)",
        remedy: Remedy::Program,
        risk: "none: lock the sink's memory",
        weight: 29,
        toggle: None,
        look: swap,
    },
];

fn huge_pages(host: &Host) -> Result<Observed, Unreadable> {
    let folder = "/sys/kernel/mm/transparent_hugepage";
    if !host.has(folder) {
        return Ok(Observed::absent("not built into this kernel"));
    }
    let enabled = format!("{folder}/enabled");
    let text = host.text(&enabled)?;
    if !text.contains("[always]") {
        return Ok(Observed::good(text));
    }
    let defrag = format!("{folder}/khugepaged/defrag");
    let seen = Observed::advice(text, "take \"madvise\": only programs that ask for them get them")
        .change(host.setting(&enabled, Form::Choice), "madvise");
    Ok(match host.number(&defrag) {
        Ok(1) => seen.change(host.setting(&defrag, Form::Plain), "0"),
        _ => seen,
    })
}

fn same_pages(host: &Host) -> Result<Observed, Unreadable> {
    let path = "/sys/kernel/mm/ksm/run";
    if !host.has(path) {
        return Ok(Observed::absent("not built into this kernel"));
    }
    Ok(match host.number(path)? {
        1 => Observed::advice("runs", "write 0").change(host.setting(path, Form::Plain), "0"),
        _ => Observed::good("does not run"),
    })
}

fn numa_balancing(host: &Host) -> Result<Observed, Unreadable> {
    let path = "/proc/sys/kernel/numa_balancing";
    if !host.has(path) {
        return Ok(Observed::absent("not built into this kernel"));
    }
    Ok(match host.number(path)? {
        0 => Observed::good("off"),
        _ => Observed::advice("on", "write 0").change(host.setting(path, Form::Plain), "0"),
    })
}

fn swap(host: &Host) -> Result<Observed, Unreadable> {
    let areas = host.text("/proc/swaps")?.lines().skip(1).count();
    if areas == 0 {
        return Ok(Observed::good("none"));
    }
    let plural = if areas == 1 { "" } else { "s" };
    Ok(Observed::advice(
        format!("{areas} area{plural}"),
        "have the sink lock its memory (mlockall), or swapoff -a",
    ))
}
