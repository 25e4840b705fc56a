//! GRO: one list of frames, merged by the kernel and by us.

use crate::around::{kernel_release, skipped};
use crate::cases::{self, Case};
use crate::compare::Verdict;
use crate::differences::{self, DIFFERENCES, Expected, IN_TUNNELS, Kind, WRITTEN_FOR};
use crate::lab::{self, Lab, Receiver};
use crate::session::{by_kernel, by_us, check_burst};
use linecard_testkit::say;
use std::collections::BTreeMap;

/// The compared results, by case.
pub(crate) type Verdicts = BTreeMap<String, Verdict>;

fn compare(lab: &mut Lab, cases: &[Case]) -> Verdicts {
    let verdict = |case: &Case| {
        let (kernel, ours) = (by_kernel(lab, &case.frames), by_us(&case.frames));
        (case.name.clone(), Verdict::of(&case.frames, &kernel, &ours))
    };
    cases.iter().map(verdict).collect()
}

/// Promise (Offloads): GRO of Linux 6.18 merges what the coalescer merges, byte for byte, in 196 of
/// 226 rule cases; the others are in the table of design/kernel.md with their reasons.
#[test]
fn the_kernel_merges_what_we_merge() {
    let cases = cases::plain();
    let verdicts = match lab::inside(Receiver::Merging, 0, |lab| compare(lab, &cases)) {
        Ok(verdicts) => verdicts,
        Err(why) => return skipped("the kernel's GRO as witness", &why),
    };
    let same = verdicts.values().filter(|verdict| verdict.same).count();
    assert_eq!(verdicts.len(), cases.len(), "two cases have one name");
    say(&format!("GRO: {} cases, {same} the same at the kernel's and at ours", cases.len()));
    check_differences(&verdicts, differences::by_case(DIFFERENCES));
}

/// Promise (Offloads): In each of these rule cases, the burst API gives the packets and the headers that
/// the coalescer gives for the same device, and cutting restores what came.
#[test]
fn both_interfaces_merge_the_same() {
    let cases = cases::plain().into_iter().chain(cases::tunnels(|_, _| true));
    let count = cases.inspect(|case| check_burst(&case.frames)).count();
    say(&format!("{count} cases, the same through both interfaces"));
    assert!(count > 400, "{count} cases");
}

/// Only expected differences occur.
pub(crate) fn check_differences(verdicts: &Verdicts, mut expected: BTreeMap<&str, Expected>) {
    let mut complaints = Vec::new();
    for (case, verdict) in verdicts.iter().filter(|(_, verdict)| !verdict.same) {
        let Verdict { kernel, ours, .. } = verdict;
        match expected.remove(case.as_str()) {
            Some(row) if (&row.kernel, &row.ours) == (kernel, ours) => {
                say(&format!("  {case}: kernel {kernel}, ours {ours}"));
            }
            row => complaints
                .push(format!("{case}: kernel {kernel}, ours {ours}; the table says {row:?}")),
        }
    }
    let gone = expected.iter().filter(|(_, row)| row.kind != Kind::Lacking);
    complaints.extend(gone.map(|(case, _)| format!("{case}: no difference any more")));
    let release = kernel_release();
    if release.starts_with(WRITTEN_FOR) {
        assert!(complaints.is_empty(), "the table is not right:\n{}", complaints.join("\n"));
    } else if !complaints.is_empty() {
        skipped(
            "comparing exactly",
            &format!("the table is of Linux {WRITTEN_FOR}x, this is {release}; here otherwise:"),
        );
        complaints.iter().for_each(|complaint| say(&format!("  {complaint}")));
    }
}

/// Promise (Offloads): GRO of Linux 6.18 merges what the coalescer merges in 176 of 191 tunnel
/// cases; the others are in the table of design/kernel.md with their reasons.
///
/// Packets in packets. What the kernel makes of them is written down in the cases, too.
#[test]
fn the_kernel_merges_tunnels() {
    let compared = lab::inside(Receiver::Merging, 0, |lab| {
        let cases: Vec<Case> = cases::tunnels(|kind, port| {
            let there = lab.add_tunnel(kind, port);
            there.inspect_err(|why| skipped(&format!("{kind} packets"), why)).is_ok()
        });
        let verdicts = compare(lab, &cases);
        (cases, verdicts)
    });
    let (cases, verdicts) = match compared {
        Ok(compared) => compared,
        Err(why) => return skipped("the kernel's GRO of tunnels as witness", &why),
    };
    for (case, kernel) in cases.iter().filter_map(|case| Some((case, case.kernel?))) {
        assert_eq!(verdicts[&case.name].kernel, kernel, "{}, at the kernel's", case.name);
    }
    let same = verdicts.values().filter(|verdict| verdict.same).count();
    say(&format!(
        "GRO of tunnels: {} cases, {same} the same at the kernel's and at ours",
        cases.len()
    ));
    check_differences(&verdicts, differences::by_case(IN_TUNNELS));
}
