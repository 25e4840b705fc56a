//! Files with secrets: made whole or not at all, and only for their owner.

use super::{KeyError, MAX_FILE_BYTES};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Permissions of group and others.
const OTHERS: u32 = 0o077;
/// Permissions of group and others to write.
const WRITERS: u32 = 0o022;
/// In such a folder, only the owner of a file may exchange it.
const STICKY: u32 = 0o1000;

/// Writes a new file of mode 0600 that appears with all its content; never replaces an existing one.
pub(super) fn create(path: &Path, content: &[u8]) -> Result<(), KeyError> {
    let failed = |cause| KeyError::file(path, cause);
    make_parent(path).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // A link, as renaming would replace a file that another process has just made.
    let link = || {
        fs::hard_link(&draft, path).map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists { path: path.to_owned() },
            _ => failed(cause),
        })
    };
    let written = write_new(&draft, content).map_err(failed).and_then(|()| link());
    let removed = fs::remove_file(&draft).map_err(failed);
    written.and(removed)
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Makes the folder of a file of keys if it is missing, for its owner only.
///
/// # Errors
///
/// [`KeyError::File`].
pub fn make_folder_of(path: &Path) -> Result<(), KeyError> {
    make_parent(path).map_err(|cause| KeyError::file(path, cause))
}

/// The folder of `path`, for its owner only where it is new.
pub(super) fn make_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)
        }
        _ => Ok(()),
    }
}

/// All of a file that nobody but its owner, who runs this, can read or change.
pub(super) fn read(path: &Path) -> Result<String, KeyError> {
    let file = File::open(path).map_err(|cause| KeyError::file(path, cause))?;
    // Of the open file, which cannot be exchanged any more.
    let about = file.metadata().map_err(|cause| KeyError::file(path, cause))?;
    if about.mode() & OTHERS != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode: about.mode() & 0o777 });
    }
    let user = rustix::process::geteuid().as_raw();
    if about.uid() != user {
        return Err(KeyError::Owner { path: path.to_owned(), owner: about.uid(), user });
    }
    read_open(path, &file)
}

/// Refuses a folder in which others could exchange the file at `path`. In one with the sticky bit, as /tmp,
/// they cannot.
pub(super) fn check_folder(path: &Path) -> Result<(), KeyError> {
    // Where the name is, and where a link leads to.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    for file in [path, &real] {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) => Path::new("."),
            None => continue,
        };
        match fs::metadata(folder) {
            Ok(about) if about.mode() & STICKY != 0 => check_owner(folder, &about)?,
            Ok(about) => check_writers(folder, &about)?,
            // The file does not exist then, either.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(KeyError::file(folder, cause)),
        }
    }
    Ok(())
}

/// Refuses what others than its owner, and another owner than this user and root, may write.
fn check_writers(path: &Path, about: &Metadata) -> Result<(), KeyError> {
    if about.mode() & WRITERS != 0 {
        return Err(KeyError::Writable { path: path.to_owned(), mode: about.mode() & 0o777 });
    }
    check_owner(path, about)
}

fn check_owner(path: &Path, about: &Metadata) -> Result<(), KeyError> {
    let user = rustix::process::geteuid().as_raw();
    match about.uid() == user || about.uid() == 0 {
        true => Ok(()),
        false => Err(KeyError::Foreign { path: path.to_owned(), owner: about.uid(), user }),
    }
}

/// All of a file that need not be secret, but that nobody else may change; nothing of one that is missing.
///
/// # Errors
///
/// A file that cannot be read, or that others can change.
pub fn read_trusted(path: &Path) -> Result<Option<String>, KeyError> {
    match File::open(path) {
        Ok(file) => read_open(path, &file).map(Some),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(KeyError::file(path, cause)),
    }
}

/// The same of an open file.
pub(super) fn read_open(path: &Path, file: &File) -> Result<String, KeyError> {
    let about = file.metadata().map_err(|cause| KeyError::file(path, cause))?;
    if !about.is_file() {
        return Err(KeyError::NotAFile { path: path.to_owned() });
    }
    check_writers(path, &about)?;
    check_folder(path)?;
    if about.len() > MAX_FILE_BYTES {
        return Err(KeyError::NotAFile { path: path.to_owned() });
    }
    let mut text = String::new();
    let read = file.take(MAX_FILE_BYTES).read_to_string(&mut text);
    read.map_err(|cause| KeyError::file(path, cause))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_is_made_once_and_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/key");
        create(&path, b"secret").unwrap();
        assert_eq!(read(&path).unwrap(), "secret");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        let again = create(&path, b"other").unwrap_err();
        assert!(again.to_string().contains("exists"), "{again}");
        assert_eq!(read(&path).unwrap(), "secret");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create(&path, b"secret").unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let refused = read(&path).unwrap_err();
            assert!(matches!(refused, KeyError::Exposed { mode: found, .. } if found == mode));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(read(&path).is_ok());
    }

    #[test]
    fn what_others_can_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("linecard");
        let path = inner.join("authorized");
        create(&path, b"list").unwrap();
        let read = || read_open(&path, &File::open(&path).unwrap());
        let chmod = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (which, good) in [(&path, 0o644), (&inner, 0o755)] {
            for mode in [good | 0o020, good | 0o002] {
                chmod(which, mode);
                let refused = read().unwrap_err();
                let KeyError::Writable { path, mode: found } = &refused else {
                    panic!("{refused}")
                };
                assert_eq!((path, *found), (which, mode));
                assert!(refused.to_string().contains("chmod go-w"), "{refused}");
            }
            chmod(which, good);
            assert_eq!(read().unwrap(), "list");
        }
        // There, users may not replace files of others.
        chmod(&inner, 0o1777);
        assert!(read().is_ok());
        assert_eq!(read_trusted(&path).unwrap().as_deref(), Some("list"));
        assert_eq!(read_trusted(&inner.join("none")).unwrap(), None);
        chmod(&path, 0o666);
        assert!(matches!(read_trusted(&path), Err(KeyError::Writable { .. })));
        chmod(&path, 0o644);
        chmod(&inner, 0o755);
        // Through a link, both folders count.
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        chmod(&open, 0o777);
        let link = open.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let refused = read_open(&link, &File::open(&link).unwrap());
        assert!(matches!(refused, Err(KeyError::Writable { .. })), "{refused:?}");
    }

    #[test]
    fn what_belongs_to_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorized");
        create(&path, b"list").unwrap();
        let read = || read_open(&path, &File::open(&path).unwrap());
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            linecard_testkit::skip(
                "a list that belongs to another user",
                "only root can give one away",
            );
            return;
        }
        let refused = read().unwrap_err();
        assert!(matches!(refused, KeyError::Foreign { owner: 65_534, .. }), "{refused}");
        assert!(refused.to_string().contains("chown"), "{refused}");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
        assert!(matches!(read(), Err(KeyError::Foreign { .. })));
    }

    #[test]
    fn what_is_no_plain_file_or_too_long_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| read_open(path, &File::open(path).unwrap());
        assert!(matches!(open(folder.path()), Err(KeyError::NotAFile { .. })));
        let path = folder.path().join("long");
        File::create(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(open(&path), Err(KeyError::NotAFile { .. })));
        assert!(matches!(open(Path::new("/dev/null")), Err(KeyError::NotAFile { .. })));
    }
}
