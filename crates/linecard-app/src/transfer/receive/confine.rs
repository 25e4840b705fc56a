//! A receiver that can open no files but those of its folder and its list of senders (Landlock).

use crate::Failure;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, PathFdError,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, make_bitflags,
};
use std::path::Path;

/// The newest interface of the kernel whose rights are known here. An older kernel restricts what it can.
const KNOWN: ABI = ABI::V6;

/// Rights that a thread keeps, and the threads that it starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confinement<'a> {
    /// Where files are made, changed and removed.
    pub(super) folder: Option<&'a Path>,
    /// A file that may be read, with its folder: one that replaces it is another file.
    pub(super) list: Option<&'a Path>,
}

impl Confinement<'_> {
    /// Takes all other rights on files away from this thread, and those to connect by TCP and to signal others. False
    /// if the kernel has none of this.
    pub(super) fn begin(self) -> Result<bool, crate::Error> {
        // Read once for the whole process, and later not to be read.
        linecard_transfer_net::file::warm_up();
        let status = self.restrict();
        let status = status.map_err(|error| Failure::Attach.with(format!("Landlock: {error}")))?;
        Ok(status.ruleset != RulesetStatus::NotEnforced)
    }

    fn restrict(self) -> Result<RestrictionStatus, RulesetError> {
        let reading = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        let writing = make_bitflags!(AccessFs::{
            WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
        });
        let list = self.list.map(|list| match list.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        });
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(KNOWN))?
            .handle_access(AccessNet::ConnectTcp)?
            .scope(Scope::from_all(KNOWN))?
            .create()?;
        for (path, rights) in [(self.folder, reading | writing), (list, reading)] {
            // A list that is not there yet may not be made later: there is nothing to be allowed.
            if let Some(Ok(rule)) = path.map(|path| beneath(path, rights)) {
                rules = rules.add_rule(rule)?;
            }
        }
        rules.restrict_self()
    }
}

fn beneath(path: &Path, rights: BitFlags<AccessFs>) -> Result<PathBeneath<PathFd>, PathFdError> {
    Ok(PathBeneath::new(PathFd::new(path)?, rights))
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
            let confinement = Confinement { folder: Some(&folder), list: Some(&list) };
            if !confinement.begin().unwrap() {
                linecard_testkit::skip("Landlock", "the kernel has none");
                return;
            }
            let denied = |result: std::io::Result<()>| {
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
            fs::rename(folder.join("inner/a"), folder.join("b")).unwrap();
            std::os::unix::fs::symlink("b", folder.join("link")).unwrap();
            assert_eq!(fs::read(folder.join("link")).unwrap(), b"b");
            fs::remove_file(folder.join("b")).unwrap();
            fs::remove_dir(folder.join("inner")).unwrap();
            // Threads that it starts are no freer.
            let inner = std::thread::spawn(move || fs::read(outside).map(drop));
            denied(inner.join().unwrap());
        })
        .join()
        .unwrap();
    }
}
