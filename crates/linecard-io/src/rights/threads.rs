//! The remaining privileges of the threads of this process, according to `/proc`.

use super::{Dropped, RightsError};
use std::{fs, io};

const TASKS: &str = "/proc/self/task";
/// `CapBnd` is only what starting programs could give, and `no_new_privs` forbids that.
const CAPABILITIES: [&str; 4] = ["CapInh", "CapPrm", "CapEff", "CapAmb"];

/// Refuses threads with another user or group, a supplementary group that is not among `groups`,
/// any capability, or a way to gain some.
pub(super) fn check(allowed: Dropped, groups: &[u32]) -> Result<(), RightsError> {
    for entry in fs::read_dir(TASKS).map_err(unseen)? {
        let name = entry.map_err(unseen)?.file_name();
        let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        match fs::read_to_string(format!("{TASKS}/{thread}/status")) {
            Ok(status) => {
                if let Some(what) = left(&status, allowed, groups) {
                    return Err(RightsError::Left { thread, what });
                }
            }
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(unseen(error)),
        }
    }
    Ok(())
}

fn unseen(source: io::Error) -> RightsError {
    RightsError::System { doing: "look at all threads in /proc", source }
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || crate::sys::is(error, libc::ESRCH)
}

/// A privilege that a thread with this status should not have. A privilege that the status does not
/// mention counts as present.
fn left(status: &str, allowed: Dropped, groups: &[u32]) -> Option<&'static str> {
    let are = |field, id: u32| {
        let ids: Vec<&str> = words(status, field).collect();
        ids.len() == 4 && ids.into_iter().all(|other| other.parse() == Ok(id))
    };
    let is_none = |field: &&str| words(status, field).eq(["0000000000000000"]);
    if allowed.uid == 0 || !are("Uid", allowed.uid) {
        Some("the user")
    } else if !are("Gid", allowed.gid) {
        Some("the group")
    } else if !has_field(status, "Groups")
        || !words(status, "Groups")
            .all(|group| group.parse().is_ok_and(|group| groups.contains(&group)))
    {
        Some("supplementary groups")
    } else if !CAPABILITIES.iter().all(is_none) {
        Some("capabilities")
    } else if !words(status, "NoNewPrivs").eq(["1"]) {
        Some("programs that it starts may have more")
    } else {
        None
    }
}

/// Whether there is a field of this name, with or without values.
fn has_field(status: &str, field: &str) -> bool {
    status.lines().any(|line| line.strip_prefix(field).is_some_and(|rest| rest.starts_with(':')))
}

/// The values of a field.
fn words<'s>(status: &'s str, field: &str) -> impl Iterator<Item = &'s str> {
    let mut values = status.lines().filter_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    values.next().unwrap_or_default().split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Name:\tUid: 0\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t\n\
        CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
        CapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n";
    const US: Dropped = Dropped { uid: 7, gid: 8 };

    #[test]
    fn nothing_left_is_nothing_left() {
        assert_eq!(left(GOOD, US, &[]), None);
    }

    #[test]
    fn groups_of_a_user_who_stays_may_stay() {
        let member = GOOD.replace("Groups:\t", "Groups:\t27 44 ");
        assert_eq!(left(&member, US, &[44, 27]), None);
        assert_eq!(left(&member, US, &[44]), Some("supplementary groups"));
    }

    #[test]
    fn every_kind_of_right_is_seen() {
        let cases = [
            ("Uid:\t7\t7\t7", "Uid:\t7\t7\t0", "the user"),
            ("Uid:\t7", "Uid:\t0", "the user"),
            ("Gid:\t8\t8", "Gid:\t8\t0", "the group"),
            ("Groups:\t", "Groups:\t27 ", "supplementary groups"),
            ("Groups:\t", "Groups:\t0 ", "supplementary groups"),
            ("CapInh:\t0", "CapInh:\t1", "capabilities"),
            ("CapPrm:\t0", "CapPrm:\t1", "capabilities"),
            ("CapEff:\t0", "CapEff:\t1", "capabilities"),
            ("CapAmb:\t0", "CapAmb:\t1", "capabilities"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "programs that it starts may have more"),
        ];
        for (from, to, what) in cases {
            assert!(GOOD.contains(from));
            assert_eq!(left(&GOOD.replace(from, to), US, &[]), Some(what), "{to}");
        }
    }

    #[test]
    fn what_is_not_told_is_left() {
        for field in ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs"]
        {
            let without = GOOD.replace(&format!("\n{field}:"), "\nOther:");
            assert!(left(&without, US, &[]).is_some(), "{field}");
        }
        let root = GOOD.replace('7', "0");
        assert_eq!(left(&root, Dropped { uid: 0, gid: 8 }, &[]), Some("the user"));
    }
}
