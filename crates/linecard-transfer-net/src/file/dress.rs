//! Gives received files the mode and time of the sent ones.

use super::Stamp;
use rustix::fs::{Access, AtFlags, Mode, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::fs;
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// Reading and entering a folder. Without them its owner could neither count, resume nor remove what is in it.
const OWNER_KEEPS: u32 = 0o500;
/// Writing into it, too.
const OWNER_ALL: u32 = 0o700;

/// Mode and time of what was sent.
pub(super) fn dress(made: impl AsFd, mode: u32, modified: Stamp) -> rustix::io::Result<()> {
    let times = times(modified);
    rustix::fs::fchmod(&made, left_of(mode))?;
    rustix::fs::futimens(made, &times)
}

/// Of a mode, the permissions that the umask of this process leaves.
pub(super) fn left_of(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o777 & !umask())
}

/// Lets this process write into a folder of its user that is sent: what is new in it comes, and its mode comes last. An
/// error shows as that of the first file.
pub(super) fn open_up(folder: impl AsFd) {
    let rights = Access::WRITE_OK | Access::EXEC_OK;
    if rustix::fs::accessat(&folder, ".", rights, AtFlags::empty()).is_err() {
        let _left = let_owner(folder);
    }
}

/// Does something in a folder of this user for which its mode was changed before, and is put back.
pub(super) fn opened_up(
    folder: impl AsFd,
    act: impl FnOnce() -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let before = let_owner(&folder)?;
    let done = act();
    let _left = rustix::fs::fchmod(folder, before);
    done
}

/// Gives the owner of a folder all rights, if that is the user of this process; the mode before.
fn let_owner(folder: impl AsFd) -> rustix::io::Result<Mode> {
    let stat = rustix::fs::fstat(&folder)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::ACCESS);
    }
    rustix::fs::fchmod(folder, Mode::from_raw_mode(stat.st_mode | OWNER_ALL))?;
    Ok(Mode::from_raw_mode(stat.st_mode))
}

/// The mode that a folder gets for that of the sender's: root may do all with any.
pub(super) fn of_folder(mode: u32) -> u32 {
    if rustix::process::geteuid().is_root() { mode } else { readable(mode) }
}

const fn readable(mode: u32) -> u32 {
    mode | OWNER_KEEPS
}

/// Reads once what needs files of the system: for a process that may not open them later.
pub fn warm_up() {
    let _known = umask();
}

/// The umask of this process: read once, as changing it to find out would change it for other
/// threads as well. Without /proc, that others write.
fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let digits = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let umask = digits.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok());
        umask.unwrap_or(0o022) & 0o777
    })
}

/// The time of its last change, and not that of its last reading.
pub(super) fn times(modified: Stamp) -> Timestamps {
    let ns = i64::from(modified.ns.min(999_999_999));
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.secs, tv_nsec: ns },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of mode 000 was not counted against a quota, and refused all others that share the folder.
    #[test]
    fn the_owner_of_a_folder_may_read_it() {
        assert_eq!([0, 0o300, 0o555, 0o755].map(readable), [0o500, 0o700, 0o555, 0o755]);
    }
}
