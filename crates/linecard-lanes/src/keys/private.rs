//! Files with secrets: made whole or not at all, and only for their owner.

use super::{KeyError, MAX_FILE_BYTES};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Permissions of group and others.
const OTHERS: u32 = 0o077;

/// Writes a new file of mode 0600 that appears with all its content; never over one that is there.
pub(super) fn create(path: &Path, content: &[u8]) -> Result<(), KeyError> {
    let failed = |cause| KeyError::file(path, cause);
    make_parent(path).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = write_new(&draft, content)
        // A link, as renaming would replace what somebody else has just made.
        .and_then(|()| fs::hard_link(&draft, path));
    let removed = fs::remove_file(&draft);
    written.and(removed).map_err(failed)
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
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

/// All of a file that need not be secret.
pub(super) fn read_open(path: &Path, file: &File) -> Result<String, KeyError> {
    let about = file.metadata().map_err(|cause| KeyError::file(path, cause))?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
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
