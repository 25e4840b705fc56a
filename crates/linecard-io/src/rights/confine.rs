//! Threads that can open no files but those that they still need (Landlock).

use super::RightsError;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use std::io;
use std::path::Path;

/// The newest interface of the kernel whose rights are known here. An older kernel restricts what it can.
const KNOWN: ABI = ABI::V6;

/// Access to files in a folder, and in the folders below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Read them.
    Read,
    /// Read, make, change, rename and remove them.
    Change,
    /// Remove them, and give an open one a name.
    Replace,
    /// Remove them.
    Remove,
}

/// Takes all other rights on files away from the calling thread, and those to connect by TCP, to connect to abstract
/// sockets of others, and to signal them. Open files stay open; threads that it starts later are confined as well. False if the
/// kernel has none of this.
///
/// ```no_run
/// use linecard_io::rights::{Use, confine};
/// use std::path::Path;
/// let is_confined = confine(&[(Path::new("/var/lib/captures"), Use::Change)])?;
/// # Ok::<(), linecard_io::rights::RightsError>(())
/// ```
///
/// # Errors
///
/// [`RightsError::System`] if the kernel refuses. A folder that does not exist is left out: nothing in it may be used.
pub fn confine(files: &[(&Path, Use)]) -> Result<bool, RightsError> {
    let status = restrict(files).map_err(|error| RightsError::System {
        doing: "confine the thread to its files by Landlock",
        source: io::Error::other(error),
    })?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// The folder of a file, as files are replaced by others.
#[must_use]
pub fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn restrict(files: &[(&Path, Use)]) -> Result<RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::ConnectTcp)?
        .scope(Scope::from_all(KNOWN))?
        .create()?;
    for (folder, used) in files {
        if let Ok(folder) = PathFd::new(folder) {
            rules = rules.add_rule(PathBeneath::new(folder, used.rights()))?;
        }
    }
    rules.restrict_self()
}

impl Use {
    fn rights(self) -> BitFlags<AccessFs> {
        let reading = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        match self {
            Self::Read => reading,
            Self::Change => {
                let changing = make_bitflags!(AccessFs::{
                    WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
                });
                reading | changing
            }
            Self::Replace => make_bitflags!(AccessFs::{MakeReg | RemoveFile}),
            Self::Remove => make_bitflags!(AccessFs::{RemoveFile}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    /// Promise (Transfer): `recv` can open no files but those in its folder and beside its list of senders, nor connect by
    /// TCP, where the kernel has Landlock.
    // On a thread of its own, as it has no way back.
    #[test]
    fn a_confined_thread_has_its_folder_and_its_list() {
        let at = tempfile::tempdir().unwrap();
        let (folder, list) = (at.path().join("to"), at.path().join("lists/authorized"));
        fs::create_dir(&folder).unwrap();
        fs::create_dir(at.path().join("lists")).unwrap();
        fs::write(&list, "a").unwrap();
        fs::write(at.path().join("secret"), "b").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let outside = at.path().join("secret");
        std::thread::spawn(move || {
            let missing = at.path().join("missing");
            let files =
                [(&*folder, Use::Change), (folder_of(&list), Use::Read), (&*missing, Use::Read)];
            if !confine(&files).unwrap() {
                linecard_testkit::skip("Landlock", "the kernel has none");
                return;
            }
            let denied = |result: io::Result<()>| {
                let error = result.expect_err("it is forbidden");
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            };
            denied(fs::read(&outside).map(drop));
            denied(fs::write(&outside, "c"));
            denied(fs::write(&list, "c"));
            denied(fs::read_dir("/").map(drop));
            // The kernel has another word for links that would give more rights.
            let linked = fs::hard_link(&outside, folder.join("x"));
            assert!(linked.is_err() && !folder.join("x").exists(), "{linked:?}");
            denied(TcpStream::connect(address).map(drop));
            assert_eq!(fs::read(&list).unwrap(), b"a");
            fs::create_dir(folder.join("inner")).unwrap();
            fs::write(folder.join("inner/a"), "b").unwrap();
            fs::hard_link(folder.join("inner/a"), folder.join("c")).unwrap();
            fs::rename(folder.join("inner/a"), folder.join("b")).unwrap();
            std::os::unix::fs::symlink("b", folder.join("link")).unwrap();
            assert_eq!(fs::read(folder.join("link")).unwrap(), b"b");
            fs::remove_file(folder.join("b")).unwrap();
            fs::remove_dir(folder.join("inner")).unwrap();
            // Threads that it starts are confined as well.
            let inner = std::thread::spawn(move || fs::read(outside).map(drop));
            denied(inner.join().unwrap());
        })
        .join()
        .unwrap();
    }
}
