//! Symbolic links. Unless both ends permit others, only those are sent and made that cannot lead out of the folder that
//! was sent.

use super::dress::times;
use super::{FileError, Name, Object};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Most bytes of the path of a target, as the system has it.
const MAX_TARGET_BYTES: usize = 4_095;

/// The path that a link has in it; empty if that cannot be read.
pub(super) fn target(path: &Path) -> Vec<u8> {
    fs::read_link(path).map(|target| target.into_os_string().into_vec()).unwrap_or_default()
}

/// The same of a link in this folder; none if there is another thing.
pub(super) fn target_at(folder: &OwnedFd, last: &OsStr) -> Option<Vec<u8>> {
    rustix::fs::readlinkat(folder, last, Vec::new()).ok().map(std::ffi::CString::into_bytes)
}

/// Whether a system takes this as the path of a target.
pub(super) fn is_path(target: &[u8]) -> bool {
    (1..=MAX_TARGET_BYTES).contains(&target.len()) && !target.contains(&0)
}

/// Whether a link of this name may lead out of the outermost folder of the name. Each `..` stands in front
/// of everything else in a target that may not: behind other parts, which may be links too, it could leave any
/// folder.
pub(super) fn leads_out(name: &Name, target: &[u8]) -> bool {
    let (folders, _) = name.split();
    // The outermost folder is not to be left.
    let depth = folders.count().saturating_sub(1);
    let mut parts = target.split(|byte| *byte == b'/').filter(|part| !matches!(part, [] | [b'.']));
    let up = parts.by_ref().take_while(|part| part == b"..").count();
    !is_path(target) || target.starts_with(b"/") || up > depth || parts.any(|part| part == b"..")
}

/// Makes the link of an object under the name `new`, where an earlier run may have left one. If it leads out of the
/// folder, only if `may_lead_out`.
pub(super) fn make(
    folder: &OwnedFd,
    new: &str,
    (object, path): (&Object, &Path),
    (target, may_lead_out): (&[u8], bool),
) -> Result<(), FileError> {
    let refused = if !is_path(target) {
        Some("it is a link whose target is no path")
    } else if !may_lead_out && leads_out(&object.name, target) {
        Some("it is a link that leads out of the folder that was sent")
    } else {
        None
    };
    if let Some(why) = refused {
        let name = object.name.to_string().chars().take(80).collect();
        return Err(FileError::Name { name, why });
    }
    match rustix::fs::unlinkat(folder, new, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(FileError::of(error, "make the link", path, 0)),
    }
    rustix::fs::symlinkat(OsStr::from_bytes(target), folder, new)
        .and_then(|()| dress(folder, OsStr::new(new), object))
        .map_err(|error| FileError::of(error, "make the link", path, 0))
}

/// Gives a link the time of the object; links have no mode.
pub(super) fn dress(folder: &OwnedFd, last: &OsStr, object: &Object) -> rustix::io::Result<()> {
    rustix::fs::utimensat(folder, last, &times(object.modified), AtFlags::SYMLINK_NOFOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_in_the_outermost_folder() {
        let out = |name: &str, target: &str| {
            leads_out(&Name::new(name.as_bytes()).expect("a name"), target.as_bytes())
        };
        for target in ["a", "./a", "a/b/c", "../a", "../", ".//.././a", "...", "..a/b"] {
            assert!(!out("top/in/link", target), "{target}");
        }
        for target in ["", "/", "/etc/passwd", "../../a", "../..", "a/../b", "../a/..", "a\0b"] {
            assert!(out("top/in/link", target), "{target:?}");
        }
        assert!(out("top/link", "..") && !out("top/link", "."));
        assert!(out("link", "..") && !out("link", "a"));
        assert!(out("top/in/link", &"a".repeat(4_096)));
    }
}
