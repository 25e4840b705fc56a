//! Files in the folder that receives and were not sent: listed and removed by name, through no link.

use super::{FileError, Folder, MAX_OBJECTS, Name};
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::ffi::OsStr;

impl Folder {
    /// Names in a folder, in order, each folder's with `/` behind it; none if it is missing.
    ///
    /// # Errors
    ///
    /// [`FileError::Name`] where a link is in the way, [`FileError::TooMuch`], and what the system says.
    pub fn list(&self, folder: &Name) -> Result<Vec<Vec<u8>>, FileError> {
        let path = &self.path_of_name(folder);
        let failed = |error: Errno| FileError::of(error, "list", path, 0);
        let (folders, last) = folder.split();
        let Some(opened) = self.find(folder, folders.chain([last]))? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&opened).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if names.len() >= MAX_OBJECTS {
                let what = "files and folders";
                return Err(FileError::TooMuch { path: path.clone(), limit: MAX_OBJECTS, what });
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
    /// [`FileError::Name`] where a link is in the way, [`FileError::Denied`], and what the system says.
    pub fn remove(&self, name: &Name, is_folder: bool) -> Result<(), FileError> {
        let (folders, last): (_, &OsStr) = name.split();
        let Some(folder) = self.find(name, folders)? else { return Ok(()) };
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match rustix::fs::unlinkat(&folder, last, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(FileError::of(error, "remove", &self.path_of_name(name), 0)),
        }
    }
}
