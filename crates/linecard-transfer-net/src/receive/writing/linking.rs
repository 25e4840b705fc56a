//! Hard links, which wait until the files are in their places that they are further names of.

use super::{Findings, Target, Writing, Written, failed};
use crate::file::{FileError, FileId, Folder, LinkFolder, Name, Object, Sink};
use std::collections::BTreeMap;

/// How far a file is of which there are hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Coming,
    InPlace,
    /// It will not be stored.
    Failed,
}

/// A file of which there are hard links.
#[derive(Debug)]
struct Linked {
    name: Name,
    state: State,
    /// The file that was stored; of one that was there before, when the sender has proved that it has it.
    id: Option<FileId>,
    /// A key, and the file's hash with it by the sender: a proof that it has the file that was there before.
    key: Option<[u8; 32]>,
    proof: Option<[u8; 32]>,
}

/// Memory for a file of which there are hard links, beside its name: its entry here, its number here and among what was
/// announced (nodes of trees have room for 11 and hold 6 at least), and the allocator's own.
pub(in crate::receive) const LINKED_BYTES: u64 =
    (size_of::<Linked>() + 2 * size_of::<u32>()) as u64 * 11 / 6 + 32;

/// A link, and the number of the file.
type Link = (u32, Box<Object>, u32);

/// Whether a link was made; false if it was there.
type NewLink = Result<bool, FileError>;

impl Linked {
    /// The file that was there before, if the sender has proved that it has it.
    fn prove(&mut self, folder: &Folder, about: &Object) -> Result<FileId, FileError> {
        let proved = match (&self.key, &self.proof) {
            (Some(key), Some(proof)) => folder.prove(&self.name, (key, proof))?,
            _ => None,
        };
        // It is not read again for each of its links, whether or not that was a proof.
        (self.id, self.proof) = (proved, None);
        proved.ok_or_else(|| FileError::Unproven {
            path: folder.path_of(about),
            first: folder.path_of_name(&self.name),
        })
    }
}

/// Hard links of a transfer. Links are made only of files that this transfer has stored or found equal, whatever else is
/// in the folder.
#[derive(Debug, Default)]
pub(super) struct Linking {
    /// By the number of the object. The receiver's memory for lists bounds them.
    files: BTreeMap<u32, Linked>,
    /// Links all of which has come. The bound of open objects bounds them.
    waiting: Vec<Link>,
}

impl Linking {
    /// A file comes of which there are links.
    pub(super) fn expect(&mut self, object: u32, about: &Object) {
        if about.has_links {
            let (name, state) = (about.name.clone(), State::Coming);
            self.files.insert(object, Linked { name, state, id: None, key: None, proof: None });
        }
    }

    /// The sender has read all of an object.
    pub(super) fn prove(&mut self, object: u32, proof: Option<[u8; 32]>) {
        if let Some(file) = self.files.get_mut(&object) {
            file.proof = proof;
        }
    }

    /// An object is going to be put into its place.
    pub(super) fn identify(&mut self, object: u32, sink: &Sink) {
        if let Some(file) = self.files.get_mut(&object) {
            file.id = sink.id();
        }
    }

    /// A result is given for an object, which may be such a file.
    pub(super) fn note(&mut self, written: &Written) {
        match written {
            Written::Object { object, .. } => self.set(*object, State::InPlace),
            Written::Refused { object, .. } => self.set(*object, State::Failed),
            _ => {}
        }
    }

    /// A file will not be stored.
    pub(super) fn abandon(&mut self, object: u32) {
        self.set(object, State::Failed);
    }

    fn set(&mut self, object: u32, state: State) {
        if let Some(file) = self.files.get_mut(&object) {
            file.state = state;
        }
    }

    /// The file that a link is of, unless it will not be stored.
    fn file(
        &mut self,
        folder: &Folder,
        (about, of): (&Object, u32),
    ) -> Result<&mut Linked, FileError> {
        let file = self.files.get_mut(&of).ok_or_else(|| {
            let name = about.name.to_string().chars().take(80).collect();
            FileError::Name { name, why: "it is a hard link of a file that was not announced" }
        })?;
        match file.state {
            State::Failed => Err(FileError::NoFirst {
                path: folder.path_of(about),
                first: folder.path_of_name(&file.name),
            }),
            State::Coming | State::InPlace => Ok(file),
        }
    }

    /// Links whose files are in their places, or will not be: those in one folder behind each other, and of these those
    /// of files in one folder.
    fn ready(&mut self) -> Vec<Link> {
        let is_coming =
            |of: &u32| self.files.get(of).is_some_and(|file| file.state == State::Coming);
        let mut ready: Vec<Link> =
            self.waiting.extract_if(.., |(_, _, of)| !is_coming(of)).collect();
        let first = |of: &u32| self.files.get(of).map(|file| file.name.folder());
        ready.sort_by(|(_, a, of_a), (_, b, of_b)| {
            (a.name.folder(), first(of_a)).cmp(&(b.name.folder(), first(of_b)))
        });
        ready
    }

    /// Makes links in one folder, which is opened once and synchronised once: however many they are, they take no more
    /// descriptors than one.
    fn make_all(&mut self, folder: &Folder, links: &[Link], overwrite: bool) -> Vec<NewLink> {
        let mut to = None;
        let make = |(_, about, of): &Link| {
            let to = match &to {
                Some(to) => to,
                None => to.insert(folder.link_folder(about)?),
            };
            self.make(folder, to, (about, *of), overwrite)
        };
        let mut made: Vec<NewLink> = links.iter().map(make).collect();
        let new = made.iter().position(|made| matches!(made, Ok(true)));
        if let (Some(to), Some(at)) = (&to, new)
            && let Err(error) = folder.sync_links(to, &links[at].1)
        {
            made[at] = Err(error);
        }
        made
    }

    /// Makes a link, unless it was there.
    fn make(
        &mut self,
        folder: &Folder,
        to: &LinkFolder,
        (about, of): (&Object, u32),
        overwrite: bool,
    ) -> NewLink {
        let file = self.file(folder, (about, of))?;
        if folder.is_linked_in(to, about, &file.name)? {
            folder.remove_old_link(about);
            return Ok(false);
        }
        let id = match file.id {
            Some(id) => id,
            None => file.prove(folder, about)?,
        };
        folder.link(to, about, (&file.name, id), overwrite)?;
        Ok(true)
    }
}

impl Writing {
    /// Looks for a link.
    pub(super) fn open_link(
        &mut self,
        (object, about): (u32, Box<Object>),
        of: u32,
    ) -> Result<Written, FileError> {
        // Of a dry run, into a folder that does not exist.
        let Some(folder) = &self.work.folder else {
            self.work.take_nowhere(&about)?;
            return Ok(Written::Opened { object, found: Findings::default() });
        };
        let first = &self.linking.file(folder, (&about, of))?.name;
        let is_same = folder.is_linked(&about, first)?;
        if !is_same {
            self.work.take(&about, 0, folder)?;
        }
        let overwrite = self.work.overwrite;
        let replaces = self.work.is_dry
            && if is_same { overwrite } else { folder.would_replace(&about, overwrite)? };
        if !self.work.is_dry {
            self.targets.insert(object, Target::HardLink(about, of));
        }
        let found = Findings { is_same, replaces, ..Findings::default() };
        Ok(Written::Opened { object, found })
    }

    /// A file is open; of one that exists, and of which there are links, the sender has to prove that it has it.
    pub(super) fn ask_for_proof(
        &mut self,
        object: u32,
        found: Findings,
    ) -> Result<Findings, FileError> {
        match (&self.work.folder, self.linking.files.get_mut(&object)) {
            (Some(folder), Some(file)) if found.existing.is_some() => {
                file.key = Some(folder.proof_key(&file.name)?);
                Ok(Findings { proof_key: file.key, ..found })
            }
            _ => Ok(found),
        }
    }

    /// All of a link has come, which is nothing.
    pub(super) fn finish_link(&mut self, object: u32, (about, of): (Box<Object>, u32)) {
        self.linking.waiting.push((object, about, of));
    }

    /// Makes the links whose files are in their places, one folder after the other.
    pub(super) fn settle_links(&mut self) {
        let ready = self.linking.ready();
        for links in ready.chunk_by(|(_, a, _), (_, b, _)| a.name.folder() == b.name.folder()) {
            let Some(folder) = &self.work.folder else { return };
            let made = self.linking.make_all(folder, links, self.work.overwrite);
            for (&(object, ..), made) in links.iter().zip(made) {
                self.give(match made {
                    Ok(is_new) => Written::Object { object, was_there: !is_new },
                    Err(error) => failed(object, error),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::work_in;
    use super::super::{Job, WriteQueue};
    use super::*;
    use crate::file::{Kind, Quotas};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::process::Command;

    const LINKS: u32 = 500;

    fn link_of(name: &str, of: u32) -> Object {
        Object { kind: Kind::HardLink(of), ..Object::file(name, 0) }
    }

    /// A file, and links of it in the folders `b` and `c` by turns, all of which has come.
    fn waiting(at: &Path) -> (Writing, WriteQueue) {
        let (work, queue) = work_in(at, 1_024);
        let mut writing = Writing::new(work);
        let first = Object { has_links: true, ..Object::file("a/first", 0) };
        let links = (1..=LINKS).map(|object| {
            let folder = if object % 2 == 0 { "b" } else { "c" };
            link_of(&format!("{folder}/link{object}"), 0)
        });
        for (object, about) in (0..).zip(std::iter::once(first).chain(links)) {
            writing.handle(Job::Open { object, about: Box::new(about) });
        }
        for object in (0..=LINKS).rev() {
            let root = *blake3::hash(b"").as_bytes();
            writing.handle(Job::Finish { object, size: 0, root, proof: None });
        }
        (writing, queue)
    }

    #[test]
    fn links_in_one_folder_are_made_together() {
        let at = tempfile::tempdir().unwrap();
        let (mut writing, _queue) = waiting(at.path());
        writing.linking.set(0, State::InPlace);
        let ready = writing.linking.ready();
        let folders = ready.chunk_by(|(_, a, _), (_, b, _)| a.name.folder() == b.name.folder());
        assert_eq!(folders.map(<[Link]>::len).collect::<Vec<_>>(), [LINKS as usize / 2; 2]);
        assert!(writing.linking.ready().is_empty());
    }

    /// They have no bytes, and their number is bounded all the same; one that is there counts no more.
    #[test]
    fn each_new_link_counts_against_a_quota() {
        let at = tempfile::tempdir().unwrap();
        let first = || Object { has_links: true, ..Object::file("first", 0) };
        let opened = |limit: u64, links: &[&str]| {
            let (mut work, queue) = work_in(at.path(), 1_024);
            work.quota =
                Some(Quotas::default().of(&Folder::open(at.path()).unwrap(), limit).unwrap());
            let mut writing = Writing::new(work);
            let root = *blake3::hash(b"").as_bytes();
            let finish = |object| Job::Finish { object, size: 0, root, proof: None };
            writing.handle(Job::Open { object: 0, about: Box::new(first()) });
            writing.handle(finish(0));
            for (object, name) in (1..).zip(links) {
                writing.handle(Job::Open { object, about: Box::new(link_of(name, 0)) });
                writing.handle(finish(object));
            }
            writing.handle(Job::Close);
            let is_refused = |written: &Written| {
                matches!(written, Written::Refused { error: FileError::Quota { .. }, .. })
            };
            let refused = queue.results.try_iter().filter(is_refused).count();
            [fs::metadata(at.path().join("first")).unwrap().nlink() as usize, refused]
        };
        // The file, and two links.
        assert_eq!(opened(3 * 4_096, &["a", "b", "c", "d"]), [3, 2]);
        assert_eq!(opened(3 * 4_096, &["a", "b"]), [3, 0]);
        assert_eq!(opened(3 * 4_096, &["a", "b", "c"]), [3, 1]);
    }

    /// In a process of its own, as the limit is that of all threads.
    #[test]
    fn links_in_other_folders_than_their_file_take_few_descriptors() {
        const ALONE: &str = "LINECARD_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = concat!(
                module_path!(),
                "::links_in_other_folders_than_their_file_take_few_descriptors"
            );
            let (_, name) = name.split_once("::").unwrap();
            let mut command = Command::new(std::env::current_exe().unwrap());
            let output = command.args([name, "--exact"]).env(ALONE, "1").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let at = tempfile::tempdir().unwrap();
        let (mut writing, queue) = waiting(at.path());
        let used = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(used + 8), maximum }).unwrap();
        writing.handle(Job::Close);
        let written = queue.results.try_iter().filter_map(|written| match written {
            Written::Failed(error) | Written::Refused { error, .. } => panic!("{error}"),
            Written::Object { object, was_there: false } => Some(object),
            _ => None,
        });
        assert_eq!(written.count(), LINKS as usize + 1);
        let first = fs::metadata(at.path().join("a/first")).unwrap();
        assert_eq!(first.nlink(), u64::from(LINKS) + 1);
        for folder in ["b", "c"] {
            let names = fs::read_dir(at.path().join(folder)).unwrap().count();
            assert_eq!(names, LINKS as usize / 2, "{folder}");
        }
    }
}
