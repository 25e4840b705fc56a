//! Output files: never incomplete under their final name, never over the input.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::{Builder, NamedTempFile};

use super::CaptureError;
use super::compressed::{Compression, Encoder};
use crate::rights::folder_of;

/// Bytes gathered before a system call.
const BUFFER: usize = 1 << 20;
/// Permissions of a new file, before the umask.
const CREATE_MODE: u32 = 0o666;

/// An output that is named by the user.
///
/// - `-` is the standard output;
/// - an existing pipe or device is written directly;
/// - otherwise bytes go to `NAME.XXXX.partial` beside the target, which takes the target's name
///   at [`commit`](Self::commit) and is removed if that does not happen. A killed process leaves
///   it behind. An existing target keeps its permissions (not its owner); a link keeps pointing to
///   it.
#[derive(Debug)]
pub struct OutputFile {
    named: PathBuf,
    out: Encoder<BufWriter<Sink>>,
}

/// Where the bytes go.
#[derive(Debug)]
enum Sink {
    Direct(File),
    Partial { file: NamedTempFile, target: PathBuf, _listed: Listed },
}

/// Files of this process that are not complete: who ends it has to know them, as nothing is dropped
/// then. By the name of the incomplete file, which is unique, and with that of the output.
static INCOMPLETE: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());

fn incomplete() -> MutexGuard<'static, BTreeMap<PathBuf, PathBuf>> {
    INCOMPLETE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file's place in that list, until it has its final name or is gone.
#[derive(Debug)]
struct Listed(PathBuf);

impl Drop for Listed {
    fn drop(&mut self) {
        incomplete().remove(&self.0);
    }
}

/// An output that was not complete, and the state of its file.
#[derive(Debug)]
pub struct Incomplete {
    /// The output.
    pub output: PathBuf,
    /// The file beside it.
    pub partial: PathBuf,
    /// Why that could not be removed.
    pub left: Option<io::Error>,
}

/// The result of [`OutputFile::remove_incomplete`]. No output takes its final name as long as this
/// is held: end the process meanwhile.
#[derive(Debug)]
pub struct Removed {
    files: Vec<Incomplete>,
    _held: MutexGuard<'static, BTreeMap<PathBuf, PathBuf>>,
}

impl Removed {
    /// The outputs that were not complete.
    #[must_use]
    pub fn files(&self) -> &[Incomplete] {
        &self.files
    }
}

impl OutputFile {
    /// Opens the output; nothing is changed under its name yet. It must not be one of `inputs`
    /// (`-` among them is the standard input), however they are linked.
    pub fn create(path: &Path, inputs: &[&Path]) -> Result<Self, CaptureError> {
        Self::open(path, inputs, Compression::None)
    }

    /// The same, compressed as the name asks for.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create), and [`CaptureError::Ending`].
    pub fn create_capture(path: &Path, inputs: &[&Path]) -> Result<Self, CaptureError> {
        if Compression::is_unknown(path) {
            return Err(CaptureError::Ending { path: path.into() });
        }
        Self::open(path, inputs, Compression::of_name(path))
    }

    fn open(path: &Path, inputs: &[&Path], how: Compression) -> Result<Self, CaptureError> {
        refuse_input(path, inputs)?;
        let sink = Sink::open(path)
            .map_err(|source| CaptureError::Output { path: path.into(), source })?;
        let out = Encoder::new(BufWriter::with_capacity(BUFFER, sink), how);
        Ok(Self { named: path.into(), out })
    }

    /// The folder in which an output of this name is completed, links followed; none for pipes and devices, and for `-`,
    /// which are written as they are.
    #[must_use]
    pub fn folder(path: &Path) -> Option<PathBuf> {
        let target = match fs::metadata(path) {
            _ if path == Path::new("-") => return None,
            Ok(existing) if !existing.is_file() => return None,
            Ok(_) => fs::canonicalize(path).ok()?,
            Err(_) => path.into(),
        };
        Some(folder_of(&target).into())
    }

    /// Removes the files of all outputs of this process that are not complete: for a process that is
    /// about to end without dropping them.
    #[must_use]
    pub fn remove_incomplete() -> Removed {
        let mut held = incomplete();
        let remove = |(partial, output): (PathBuf, PathBuf)| {
            let left = fs::remove_file(&partial).err();
            Incomplete { output, partial, left }
        };
        let files = std::mem::take(&mut *held).into_iter().map(remove).collect();
        Removed { files, _held: held }
    }

    /// Gives a file that is not visible yet to a user and a group, who may then complete it. Pipes and
    /// devices stay whose they are.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Output`] when the system refuses, as it does to all but root.
    pub fn give_to(&self, uid: u32, gid: u32) -> Result<(), CaptureError> {
        let Sink::Partial { file, .. } = self.out.get_ref().get_ref() else { return Ok(()) };
        fchown(file.as_file(), Some(uid), Some(gid))
            .map_err(|source| CaptureError::Output { path: self.named.clone(), source })
    }

    /// Writes buffered data and makes the file visible under its name.
    pub fn commit(self) -> Result<(), CaptureError> {
        let result = self.out.finish().and_then(|mut out| {
            out.flush()?;
            let (sink, _) = out.into_parts();
            sink.commit()
        });
        result.map_err(|source| CaptureError::Output { path: self.named, source })
    }
}

impl Write for OutputFile {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| named(&self.named, &error))
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes).map_err(|error| named(&self.named, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| named(&self.named, &error))
    }
}

impl Sink {
    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            // A copy of the descriptor: `Stdout` would search every block for line ends.
            return Ok(Self::Direct(File::from(io::stdout().as_fd().try_clone_to_owned()?)));
        }
        match fs::metadata(path) {
            Ok(existing) if existing.is_file() => Self::replace(path, &existing),
            // A folder fails here with the system's own words.
            Ok(_) => Ok(Self::Direct(OpenOptions::new().write(true).open(path)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::partial(path.into()),
            Err(error) => Err(error),
        }
    }

    fn replace(path: &Path, existing: &Metadata) -> io::Result<Self> {
        // A rename does not ask whether the old file may be written: opening it does.
        drop(OpenOptions::new().write(true).open(path)?);
        let sink = Self::partial(fs::canonicalize(path)?)?;
        if let Self::Partial { file, .. } = &sink {
            file.as_file().set_permissions(existing.permissions())?;
        }
        Ok(sink)
    }

    fn partial(target: PathBuf) -> io::Result<Self> {
        let Some(name) = target.file_name() else {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "this names no file"));
        };
        let folder = folder_of(&target);
        let mut prefix = OsString::from(name);
        prefix.push(".");
        let file = Builder::new()
            .prefix(&prefix)
            .suffix(".partial")
            .rand_bytes(4)
            // Not `tempfile_in`: its errors speak of the random name that the user never chose.
            .make_in(folder, |path| {
                OpenOptions::new().write(true).create_new(true).mode(CREATE_MODE).open(path)
            })?;
        let partial = file.path().to_owned();
        incomplete().insert(partial.clone(), target.clone());
        Ok(Self::Partial { file, target, _listed: Listed(partial) })
    }

    fn commit(self) -> io::Result<()> {
        match self {
            Self::Direct(_) => Ok(()),
            Self::Partial { file, target, _listed } => {
                let mut all = incomplete();
                let done = file.persist(target).map(drop).map_err(|failed| failed.error);
                all.remove(&_listed.0);
                drop(all);
                done
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Direct(file) => file.write(bytes),
            Self::Partial { file, .. } => file.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same error, saying which file it is about.
fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn refuse_input(output: &Path, inputs: &[&Path]) -> Result<(), CaptureError> {
    let Some(target) = identity(output, "/dev/stdout") else { return Ok(()) };
    match inputs.iter().find(|input| identity(input, "/dev/stdin") == Some(target)) {
        Some(&input) => Err(CaptureError::SameFile { output: output.into(), input: input.into() }),
        None => Ok(()),
    }
}

/// Device and inode. None for what does not exist, and for terminals, sockets and the like, which
/// may well be both input and output.
fn identity(path: &Path, standard: &str) -> Option<(u64, u64)> {
    let path = if path == Path::new("-") { Path::new(standard) } else { path };
    let metadata = fs::metadata(path).ok()?;
    let kind = metadata.file_type();
    let one_way = kind.is_file() || kind.is_fifo() || kind.is_block_device();
    one_way.then(|| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn the_name_appears_when_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        let mut file = OutputFile::create(&path, &[]).unwrap();
        file.write_all(b"abc").unwrap();
        let during = names(folder.path());
        assert_eq!(during.len(), 1);
        assert!(during[0].starts_with("out.pcap.") && during[0].ends_with(".partial"));
        file.commit().unwrap();
        assert_eq!(names(folder.path()), ["out.pcap"]);
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        let plain = folder.path().join("plain");
        fs::write(&plain, b"").unwrap();
        assert_eq!(mode(&path), mode(&plain), "permissions as any new file has");
    }

    #[test]
    fn nothing_stays_without_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        fs::write(&path, b"old").unwrap();
        let mut file = OutputFile::create(&path, &[]).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(names(folder.path()), ["out.pcap"]);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn an_existing_target_keeps_its_mode_and_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&path, b"old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        let mut file = OutputFile::create(&link, &[]).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"new".to_vec(), 0o640));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn the_input_is_refused_under_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let [input, soft, hard] = ["in", "soft", "hard"].map(|name| folder.path().join(name));
        fs::write(&input, b"packets").unwrap();
        symlink(&input, &soft).unwrap();
        fs::hard_link(&input, &hard).unwrap();
        for output in [&input, &soft, &hard] {
            let error = OutputFile::create(output, &[Path::new("-"), &input]).unwrap_err();
            assert!(matches!(error, CaptureError::SameFile { .. }));
            assert!(error.to_string().ends_with("/in: choose another name"), "{error}");
        }
        let other = folder.path().join("other");
        OutputFile::create(&other, &[&input]).unwrap().commit().unwrap();
        assert_eq!(fs::read(&input).unwrap(), b"packets");
    }

    #[test]
    fn devices_are_written_directly() {
        let null = Path::new("/dev/null");
        let mut file = OutputFile::create(null, &[null]).unwrap();
        file.write_all(b"abc").unwrap();
        file.commit().unwrap();
        assert!(fs::metadata(null).unwrap().file_type().is_char_device());
    }

    #[test]
    fn errors_name_the_path() {
        let missing = Path::new("/nonexistent-folder/out");
        let error = OutputFile::create(missing, &[]).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot write /nonexistent-folder/out: No such file or directory (os error 2)"
        );
        let error = OutputFile::create(Path::new("/"), &[]).unwrap_err().to_string();
        assert_eq!(error, "cannot write /: Is a directory (os error 21)");
        let mut full = OutputFile::create(Path::new("/dev/full"), &[]).unwrap();
        let error = full.write_all(&vec![0; BUFFER + 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(error.to_string(), "/dev/full: No space left on device (os error 28)");
        let mut full = OutputFile::create(Path::new("/dev/full"), &[]).unwrap();
        full.write_all(b"abc").unwrap();
        let error = full.commit().unwrap_err().to_string();
        assert_eq!(error, "cannot write /dev/full: No space left on device (os error 28)");
    }
}
