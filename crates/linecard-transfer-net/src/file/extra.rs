//! Files in the receiving folder that were not sent: listed and removed by name, without following links.

use super::{FileError, Folder, MAX_OBJECTS, Name, dress};
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

impl Folder {
    /// Names in a folder, of at most `max_bytes` together, in order, each folder's with `/` behind it; none if it is
    /// missing.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] where a link or another file system is in the way, [`FileError::TooMuch`], and what the
    /// system says.
    pub fn list(&self, folder: &Name, max_bytes: usize) -> Result<Vec<Vec<u8>>, FileError> {
        let path = &self.path_of_name(folder);
        let failed = |error: Errno| FileError::of(error, "list", path, 0);
        let too_much = |limit, what| Err(FileError::TooMuch { path: path.clone(), limit, what });
        let (folders, last) = folder.split();
        let Some(opened) = self.find_here(folder, folders.chain([last]))? else {
            return Ok(Vec::new());
        };
        let (mut names, mut bytes) = (Vec::new(), 0);
        for entry in Dir::read_from(&opened).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            bytes += name.to_bytes().len();
            if bytes > max_bytes {
                return too_much(max_bytes, "bytes of names");
            }
            if names.len() >= MAX_OBJECTS {
                return too_much(MAX_OBJECTS, "files and folders");
            }
            let kind = match entry.file_type() {
                // A file system that does not say.
                FileType::Unknown => {
                    match rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                        Err(Errno::NOENT) => continue,
                        Err(error) => return Err(failed(error)),
                    }
                }
                kind => kind,
            };
            let end: &[u8] = if kind == FileType::Directory { b"/" } else { b"" };
            names.push([name.to_bytes(), end].concat());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Removes a file, a link, or an empty folder; a missing one is not an error.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] where a link or another file system is in the way, [`FileError::Denied`], and what the
    /// system says.
    pub fn remove(&self, name: &Name, is_folder: bool) -> Result<(), FileError> {
        let (folders, last): (_, &OsStr) = name.split();
        let Some(folder) = self.find_here(name, folders)? else { return Ok(()) };
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let unlink = || rustix::fs::unlinkat(&folder, last, flags);
        let removed = match unlink() {
            Err(Errno::ACCESS) => dress::opened_up(&folder, unlink),
            removed => removed,
        };
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(FileError::of(error, "remove", &self.path_of_name(name), 0)),
        }
    }

    /// Opens a folder in the file system of the outermost of `folders`; none if one is missing.
    fn find_here<'a>(
        &self,
        name: &Name,
        folders: impl Iterator<Item = &'a OsStr>,
    ) -> Result<Option<OwnedFd>, FileError> {
        let mut folders = folders.peekable();
        let Some(outermost) = folders.peek().copied() else { return self.find(name, folders) };
        let failed = |error: Errno| FileError::of(error, "look at", &self.path_of_name(name), 0);
        let Some(found) = self.find(name, folders)? else { return Ok(None) };
        let (outer, inner) = (self.find(name, [outermost].into_iter())?, rustix::fs::fstat(&found));
        let outer = outer.map_or(Err(Errno::NOENT), rustix::fs::fstat).map_err(failed)?;
        if outer.st_dev != inner.map_err(failed)?.st_dev {
            let name = name.to_string().chars().take(80).collect();
            let why = "it is in another file system than the folder that was sent";
            return Err(FileError::Name { name, why });
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// The contents of a disk that is mounted below a folder would be removed with those of the folder.
    #[test]
    fn what_is_mounted_in_a_folder_is_neither_listed_nor_removed() {
        let device = |name: &str| Path::new("/").join(name).metadata().map(|about| about.dev());
        let mounts = [("dev", "dev/pts"), ("dev", "dev/shm"), ("sys", "sys/fs/cgroup")];
        let is_mounted = |(outer, inner): &(&str, &str)| matches!((device(outer), device(inner)), (Ok(outer), Ok(inner)) if outer != inner);
        let Some((outer, inner)) = mounts.into_iter().find(is_mounted) else {
            return linecard_testkit::skip(
                "mounts below folders",
                "none is mounted in /dev or /sys",
            );
        };
        let root = Folder::look(Path::new("/")).unwrap().unwrap();
        let name = |name: &str| Name::new(name.as_bytes()).unwrap();
        assert!(!root.list(&name(outer), usize::MAX).unwrap().is_empty());
        let none = name(&format!("{inner}/there-is-no-such-file"));
        let refused = [root.list(&name(inner), usize::MAX).map(drop), root.remove(&none, false)];
        for refused in refused {
            assert!(refused.is_err_and(|error| error.to_string().contains("another file system")));
        }
    }

    #[test]
    fn names_take_a_share_of_the_memory_only() {
        let at = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(at.path().join("tree/abc/de")).unwrap();
        std::fs::write(at.path().join("tree/f"), "").unwrap();
        let folder = Folder::open(at.path()).unwrap();
        let list = |max_bytes| folder.list(&Name::new(b"tree").unwrap(), max_bytes);
        assert_eq!(list(4).unwrap(), [&b"abc/"[..], b"f"]);
        let refused = list(3).unwrap_err();
        assert!(matches!(refused, FileError::TooMuch { limit: 3, what: "bytes of names", .. }));
    }
}
