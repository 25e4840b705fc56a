//! Files are opened, checked, hashed and written on a thread of its own: lanes do not wait for disks.

mod findings;
mod linking;
mod storing;

pub(super) use self::findings::Findings;
use self::findings::existing;
pub(super) use self::linking::LINKED_BYTES;
use self::linking::Linking;
use self::storing::Storing;
use super::ReceiveOptions;
use super::open::{Destination, Opened};
use crate::end::Waker;
use crate::file::{
    Bucket, ChunkBytes, Existing, FileError, Folder, Have, Kind, Name, Object, Ordered, PipeFile,
    Quota, SMALL_BYTES, Sink, Upload, standard_output,
};
use linecard_transfer::control::{Listed, Removed, Text};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

/// Files that wait for the disk together before they get their names.
const MAX_BATCH: usize = 64;
/// Most bytes of names in one folder that is listed.
const MAX_LIST_BYTES: usize = 64 << 20;
/// Files that are opened before anything of them comes, though there is nothing of them to resume.
const MAX_EAGER: usize = 32;

/// Where the bytes of an object go.
enum Target {
    /// Into a file. An existing one has this hash, and may be replaced.
    File(Box<Sink>, Option<blake3::Hash>),
    /// Into the file of a pipe, in order.
    Pipe(Ordered<Box<PipeFile>>),
    /// Into a file that is not opened before its first chunk comes: it may not come at all.
    Later(Box<Object>, Option<blake3::Hash>),
    /// Nowhere: a file with this hash exists, and must not be replaced.
    Kept(Box<Object>, blake3::Hash),
    /// Another name of the file of this object.
    HardLink(Box<Object>, u32),
    /// Into an object of an object store, in order.
    Upload(Ordered<Box<dyn Upload>>),
    /// Out, in order.
    Out(Ordered<File>),
    /// Nowhere: a folder, or a test of the way.
    Nowhere,
}

/// Where the bytes of all open objects go: of as many as the receiver keeps open.
#[derive(Default)]
struct Targets {
    all: BTreeMap<u32, Target>,
    /// Of them, files that take a descriptor.
    open_files: usize,
}

/// Requests to the thread. The receiver's window and its bound of open objects bound how much
/// waits.
#[derive(Debug)]
pub(super) enum Job {
    /// A new object.
    Open { object: u32, about: Box<Object> },
    /// A chunk is whole.
    Write { object: u32, chunk: u32, of_object: u32, buffer: Vec<u8>, bytes: u32 },
    /// All chunks of an object have been given: it is that, if its hash is right.
    Finish { object: u32, size: u64, root: [u8; 32], proof: Option<[u8; 32]> },
    /// No more data of an object comes: the received part stays.
    Abandon { object: u32 },
    /// List a folder, behind a name.
    List { folder: Name, after: Vec<u8> },
    /// Remove these; some are folders.
    Remove { names: Vec<(Name, bool)> },
    /// No more objects come.
    Close,
}

/// Its results.
pub(super) enum Written {
    /// An object is open, or was looked for.
    Opened { object: u32, found: Findings },
    /// A chunk is where it belongs.
    Chunk { chunk: u32, buffer: Vec<u8> },
    /// An object is in its place; or was, before anything came.
    Object { object: u32, was_there: bool },
    /// An object cannot be put into its place; others can.
    Refused { object: u32, error: FileError },
    /// Names in a folder.
    Listed(Listed),
    /// How many were removed.
    Removed(Removed),
    /// Folders have their modes and times.
    Closed,
    /// It cannot continue.
    Failed(FileError),
}

/// Channels to and from the thread that writes.
pub(super) struct WriteQueue {
    pub(super) jobs: Sender<Job>,
    pub(super) results: Receiver<Written>,
}

/// Work of the thread.
pub(super) struct Work {
    /// None for the standard output and for an object store.
    folder: Option<Folder>,
    bucket: Option<Arc<dyn Bucket>>,
    /// The quota of the sender.
    quota: Option<Arc<Quota>>,
    overwrite: bool,
    /// Nothing is changed: the sender only asks.
    is_dry: bool,
    chunk_bytes: ChunkBytes,
    window: u32,
    /// Files that are open at once.
    max_files: usize,
    /// The transfer has ended: stored objects are not read any further, and only files that are whole get their names.
    over: Arc<AtomicBool>,
    jobs: Receiver<Job>,
    out: Sender<Written>,
    waker: Waker,
}

/// State of the thread.
pub(super) struct Writing {
    work: Work,
    targets: Targets,
    /// Whole and verified files that are not on the disk yet.
    batch: Vec<(u32, Sink)>,
    storing: Storing,
    linking: Linking,
    /// Requests that would open a file while as many as may be are open: for those that are to come, and for those of
    /// which something has come. The window and the bound of open objects bound them.
    waiting_opens: VecDeque<Job>,
    waiting_writes: VecDeque<Job>,
    /// A folder of which a part was listed last, and its content.
    listing: Option<(Name, Vec<Vec<u8>>)>,
}

impl Work {
    /// For a transfer, with the channels of its lanes' thread, which `waker` wakes for results. It ends early when `over`
    /// is set.
    pub(super) fn new(
        options: &ReceiveOptions,
        opened: &Opened,
        Destination { folder, quota, .. }: Destination,
        (over, waker): (&Arc<AtomicBool>, &Waker),
    ) -> Result<(Self, WriteQueue), FileError> {
        let (jobs, given) = mpsc::channel();
        let (out, results) = mpsc::channel();
        let work = Self {
            folder,
            bucket: options.bucket.clone(),
            quota,
            overwrite: options.overwrite,
            is_dry: opened.is_dry,
            chunk_bytes: ChunkBytes::new(opened.chunk_bytes.into())?,
            window: opened.window,
            max_files: opened.max_files,
            over: Arc::clone(over),
            jobs: given,
            out,
            waker: waker.clone(),
        };
        Ok((work, WriteQueue { jobs, results }))
    }

    /// Handles requests until the channel is closed.
    pub(super) fn run(self) {
        Writing::new(self).run();
    }

    /// The partial file of an object, of which as much as is not there yet counts against the quota.
    fn sink(&self, about: &Object) -> Result<Sink, FileError> {
        let Some(folder) = &self.folder else { unreachable!("stdout takes no files") };
        self.count(about, folder)?;
        folder.sink(about, self.chunk_bytes, self.overwrite)
    }

    /// The file of a pipe, in order.
    fn pipe_file(&self, sink: Sink) -> Ordered<Box<PipeFile>> {
        let path = sink.path().to_path_buf();
        Ordered::new(Box::new(PipeFile::new(sink)), &path, self.chunk_bytes, self.window)
    }

    /// Looks for an object, and gives the error that it would meet if it came. Opens nothing for writing.
    fn look(&self, about: &Object) -> Result<Findings, FileError> {
        let count = self.chunk_bytes.count(about.size.unwrap_or(0))?;
        if about.kind == Kind::Test {
            return Ok(Findings::default());
        }
        let Some(folder) = &self.folder else {
            return self.take_nowhere(about).map(|()| Findings::default());
        };
        let overwrite = self.overwrite;
        Ok(match folder.existing(about)? {
            Existing::Same => {
                Findings { have: Have::all(count), is_same: true, ..Findings::default() }
            }
            Existing::Nothing => {
                self.take(about, 0, folder)?;
                Findings::default()
            }
            Existing::File { hash, .. } => {
                let (have, part) = match overwrite {
                    true => folder.would_take(about, self.chunk_bytes, true)?,
                    false => (Have::default(), None),
                };
                Findings { part, replaces: overwrite, ..Findings::of_file(hash, have) }
            }
            existing => {
                let (have, part) = folder.would_take(about, self.chunk_bytes, overwrite)?;
                self.take(about, folder.there_bytes(about)?, folder)?;
                let replaces = existing == Existing::Other;
                Findings { have, part, replaces, ..Findings::default() }
            }
        })
    }

    /// Counts an object against the quota, less the part that is stored.
    fn count(&self, about: &Object, folder: &Folder) -> Result<(), FileError> {
        match &self.quota {
            Some(_) => self.take(about, folder.there_bytes(about)?, folder),
            None => Ok(()),
        }
    }

    /// The same in a dry run, where the folder is missing.
    fn take_nowhere(&self, about: &Object) -> Result<(), FileError> {
        self.quota.as_ref().map_or(Ok(()), |quota| {
            quota.take_object(about.size.unwrap_or(0), 0, about.name.as_path())
        })
    }

    fn take(&self, about: &Object, there: u64, folder: &Folder) -> Result<(), FileError> {
        self.quota.as_ref().map_or(Ok(()), |quota| {
            quota.take_object(about.size.unwrap_or(0), there, &folder.path_of(about))
        })
    }
}

impl Targets {
    fn insert(&mut self, object: u32, target: Target) {
        self.open_files += usize::from(target.is_open_file());
        let before = self.all.insert(object, target);
        self.open_files -= usize::from(before.is_some_and(|before| before.is_open_file()));
    }

    fn take(&mut self, object: u32) -> Option<Target> {
        let target = self.all.remove(&object)?;
        self.open_files -= usize::from(target.is_open_file());
        Some(target)
    }
}

impl Target {
    const fn is_open_file(&self) -> bool {
        matches!(self, Self::File(..) | Self::Pipe(_))
    }
}

impl Writing {
    pub(super) fn new(work: Work) -> Self {
        Self {
            work,
            targets: Targets::default(),
            batch: Vec::new(),
            storing: Storing::default(),
            linking: Linking::default(),
            waiting_opens: VecDeque::new(),
            waiting_writes: VecDeque::new(),
            listing: None,
        }
    }

    fn run(mut self) {
        while let Ok(job) = self.work.jobs.recv() {
            self.work_off(job);
        }
        let left: Vec<u32> = self.targets.all.keys().copied().collect();
        left.into_iter().for_each(|object| self.abandon(object));
    }

    /// Handles a request and those that wait behind it. Then, before others are waited for, files that are whole get their
    /// names. How many requests it were.
    fn work_off(&mut self, first: Job) -> usize {
        let mut count = 0;
        let mut next = Some(first);
        while let Some(job) = next {
            count += 1;
            self.handle(job);
            next = self.work.jobs.try_recv().ok();
        }
        self.end_looks();
        self.settle();
        count
    }

    /// Handles what was requested so far, without waiting for more; how many requests.
    #[cfg(test)]
    pub(super) fn work_off_waiting(&mut self) -> usize {
        self.work.jobs.try_recv().map_or(0, |first| self.work_off(first))
    }

    fn handle(&mut self, job: Job) {
        // The transfer has failed, for want of room perhaps: files that are whole get their names all the same.
        if self.is_over() && !matches!(job, Job::Finish { .. }) {
            return;
        }
        match self.queue_of(&job) {
            Some(queue) => queue.push_back(job),
            None => self.carry_out(job),
        }
        while let Some(job) = self.next_waiting() {
            self.carry_out(job);
        }
    }

    /// Where a request has to wait for files to be finished.
    fn queue_of(&mut self, job: &Job) -> Option<&mut VecDeque<Job>> {
        if self.work.folder.is_none() || self.work.is_dry {
            return None;
        }
        match job {
            Job::Open { about, .. } if !matches!(about.kind, Kind::Folder | Kind::Test) => {
                let waits = !self.waiting_opens.is_empty() || self.open_files() >= self.max_eager();
                waits.then_some(&mut self.waiting_opens)
            }
            Job::Write { object, .. } => {
                let is_later = matches!(self.targets.all.get(object), Some(Target::Later(..)));
                let waits = is_later && (!self.waiting_writes.is_empty() || self.is_full());
                waits.then_some(&mut self.waiting_writes)
            }
            _ => None,
        }
    }

    /// A request that has waited. Those of what has come are first: it may be the oldest, which moves the window.
    fn next_waiting(&mut self) -> Option<Job> {
        if self.is_over() {
            return None;
        }
        if !self.waiting_writes.is_empty() && !self.is_full() {
            return self.waiting_writes.pop_front();
        }
        let may_open = !self.waiting_opens.is_empty() && self.open_files() < self.max_eager();
        may_open.then(|| self.waiting_opens.pop_front()).flatten()
    }

    /// Files that may be open for one more to be opened before anything of it comes. The others are kept for those of
    /// which something has come: all but the last of these are finished by what the window holds.
    const fn max_eager(&self) -> usize {
        self.work.max_files / 2
    }

    /// Whether as many files are open as may be. Those that only wait for the disk do not wait any longer.
    fn is_full(&mut self) -> bool {
        if self.open_files() + self.batch.len() >= self.work.max_files {
            self.settle();
        }
        self.open_files() >= self.work.max_files
    }

    const fn open_files(&self) -> usize {
        self.targets.open_files
    }

    fn carry_out(&mut self, job: Job) {
        let written = self.work_on(job);
        if self.batch.len() + self.storing.uploads() >= MAX_BATCH {
            self.settle();
        }
        if let Some(written) = written {
            self.give(written);
        }
    }

    fn is_over(&self) -> bool {
        self.work.over.load(Ordering::Relaxed)
    }

    fn give(&mut self, written: Written) {
        self.linking.note(&written);
        if self.work.out.send(written).is_err() {
            self.work.over.store(true, Ordering::Relaxed);
        }
        self.work.waker.wake();
    }

    fn settle(&mut self) {
        let (objects, sinks): (Vec<u32>, Vec<Sink>) = self.batch.drain(..).unzip();
        for (object, sink) in objects.iter().zip(&sinks) {
            self.linking.identify(*object, sink);
        }
        let results = Sink::appear_all(&sinks);
        // Before links take descriptors.
        drop(sinks);
        for (object, result) in objects.into_iter().zip(results) {
            let written = match result {
                Ok(()) => Written::Object { object, was_there: false },
                Err(error) => failed(object, error),
            };
            self.give(written);
        }
        self.settle_stored();
        self.settle_links();
    }

    fn work_on(&mut self, job: Job) -> Option<Written> {
        if let Job::Open { object, about } = &job {
            self.linking.expect(*object, about);
        }
        match (job, self.work.bucket.clone()) {
            (Job::Open { object, about }, Some(bucket)) if !about.is_probe() => self
                .open_stored(&bucket, (object, about))
                .unwrap_or_else(|error| Some(failed(object, error))),
            (job, _) => self.work_on_files(job),
        }
    }

    fn work_on_files(&mut self, job: Job) -> Option<Written> {
        match job {
            Job::Open { object, about } => {
                Some(self.open_file((object, about)).unwrap_or_else(|error| failed(object, error)))
            }
            Job::Write { object, chunk, of_object, mut buffer, bytes } => {
                match self.write((object, of_object), &mut buffer, bytes) {
                    Ok(()) => Some(Written::Chunk { chunk, buffer }),
                    Err(error) => {
                        self.abandon(object);
                        // The chunk is done with, but its object will not be.
                        self.give(failed(object, error));
                        Some(Written::Chunk { chunk, buffer })
                    }
                }
            }
            Job::Finish { object, size, root, proof } => {
                self.linking.prove(object, proof);
                self.finish(object, size, &root.into()).unwrap_or_else(|e| Some(failed(object, e)))
            }
            Job::Abandon { object } => {
                self.abandon(object);
                None
            }
            Job::List { folder, after } => {
                let listed = self.list(folder, &after);
                Some(Written::Listed(listed.unwrap_or_else(|error| Listed {
                    error: text_of(&error),
                    ..Listed::default()
                })))
            }
            Job::Remove { names } => Some(Written::Removed(self.remove(&names))),
            Job::Close => {
                self.settle();
                let closed = self.work.folder.as_mut().map_or(Ok(()), Folder::finish);
                Some(closed.map_or_else(Written::Failed, |()| Written::Closed))
            }
        }
    }

    /// Opens an object; in a dry run, only looks for it.
    fn open_file(&mut self, (object, about): (u32, Box<Object>)) -> Result<Written, FileError> {
        if let Kind::HardLink(of) = about.kind {
            return self.open_link((object, about), of);
        }
        if self.work.is_dry && !about.is_probe() {
            return self.work.look(&about).map(|found| Written::Opened { object, found });
        }
        let found = self.open(object, about)?;
        Ok(Written::Opened { object, found: self.ask_for_proof(object, found)? })
    }

    /// As many names of a folder behind `after` as fit into a message.
    fn list(&mut self, folder: Name, after: &[u8]) -> Result<Listed, FileError> {
        let known = self.listing.take().filter(|(known, _)| *known == folder && !after.is_empty());
        let names = match (known, &self.work.folder) {
            (Some((_, names)), _) => names,
            (None, Some(all)) => all.list(&folder, MAX_LIST_BYTES)?,
            (None, None) => Vec::new(),
        };
        let mut listed = Listed::default();
        for name in &names[names.partition_point(|name| &name[..] <= after)..] {
            let (part, is_folder) =
                name.strip_suffix(b"/").map_or((&name[..], false), |n| (n, true));
            if !listed.names.push(part, is_folder) {
                listed.has_more = true;
                break;
            }
        }
        self.listing = listed.has_more.then_some((folder, names));
        Ok(listed)
    }

    fn remove(&self, names: &[(Name, bool)]) -> Removed {
        let mut removed = Removed::default();
        for (name, is_folder) in names {
            let folder = self.work.folder.as_ref();
            match folder.map_or(Ok(()), |folder| folder.remove(name, *is_folder)) {
                Ok(()) => removed.count += 1,
                Err(error) => {
                    if removed.failed == 0 {
                        removed.error = text_of(&error);
                    }
                    removed.failed += 1;
                }
            }
        }
        removed
    }

    fn open(&mut self, object: u32, about: Box<Object>) -> Result<Findings, FileError> {
        let count = self.work.chunk_bytes.count(about.size.unwrap_or(0))?;
        let is_crowded = self.open_files() >= MAX_EAGER.min(self.max_eager() / 2);
        let is_small = about.size.is_some_and(|size| size <= SMALL_BYTES);
        let is_later = about.kind != Kind::Stream && (is_crowded || (count <= 1 && is_small));
        let (target, found) = match (&mut self.work.folder, about.kind) {
            (_, Kind::Test) => (Target::Nowhere, Findings::default()),
            (Some(folder), Kind::Folder) => {
                folder.make(&about)?;
                (Target::Nowhere, Findings::default())
            }
            (None, Kind::Folder) => (Target::Nowhere, Findings::default()),
            (None, _) => {
                let (out, path) = standard_output()?;
                let ordered = Ordered::new(out, path, self.work.chunk_bytes, self.work.window);
                (Target::Out(ordered), Findings::default())
            }
            (Some(folder), _) => match existing(folder, &about, self.work.chunk_bytes)? {
                Existing::Same => {
                    if self.work.overwrite {
                        folder.dress(&about)?;
                    }
                    return Ok(Findings::settled(count));
                }
                Existing::File { hash, .. } if !self.work.overwrite => {
                    (Target::Kept(about, hash), Findings::of_file(hash, Have::all(count)))
                }
                Existing::File { hash, part: false } => {
                    (Target::Later(about, Some(hash)), Findings::of_file(hash, Have::default()))
                }
                // There is nothing to resume: the file is created when its first data comes.
                Existing::Nothing if is_later => (Target::Later(about, None), Findings::default()),
                _ if about.kind == Kind::Stream => {
                    let sink = self.work.sink(&about)?;
                    (Target::Pipe(self.work.pipe_file(sink)), Findings::default())
                }
                existing => {
                    let sink = self.work.sink(&about)?;
                    let (hash, found) = match existing {
                        Existing::File { hash, .. } => {
                            (Some(hash), Findings::of_file(hash, sink.have()))
                        }
                        _ => (None, Findings { have: sink.have(), ..Findings::default() }),
                    };
                    let found = Findings { part: sink.left(), ..found };
                    (Target::File(Box::new(sink), hash), found)
                }
            },
        };
        self.targets.insert(object, target);
        Ok(found)
    }

    fn write(
        &mut self,
        (object, chunk): (u32, u32),
        buffer: &mut Vec<u8>,
        bytes: u32,
    ) -> Result<(), FileError> {
        let begun = match (self.targets.all.get(&object), &self.work.bucket) {
            (Some(Target::Later(about, _)), Some(_)) => {
                Some(Target::Upload(self.work.upload(about)?))
            }
            (Some(Target::Later(about, existing)), None) => {
                Some(Target::File(Box::new(self.work.sink(about)?), *existing))
            }
            _ => None,
        };
        if let Some(begun) = begun {
            self.targets.insert(object, begun);
        }
        let Some(target) = self.targets.all.get_mut(&object) else { return Ok(()) };
        match target {
            Target::File(sink, _) => sink.write(chunk, &buffer[..bytes as usize]).map(|_hash| ()),
            Target::Pipe(ordered) => {
                if let Some(quota) = &self.work.quota {
                    quota.take(bytes.into(), ordered.path())?;
                }
                ordered.write(chunk, taken(buffer, bytes)).map_err(|error| match error {
                    FileError::DiskFull { path, bytes } => {
                        FileError::DiskFullForPipe { path, bytes }
                    }
                    error => error,
                })
            }
            Target::Out(ordered) => ordered.write(chunk, taken(buffer, bytes)),
            Target::Upload(ordered) => ordered.write(chunk, taken(buffer, bytes)),
            Target::Later(..) | Target::Kept(..) | Target::HardLink(..) | Target::Nowhere => Ok(()),
        }
    }

    /// Nothing more of an object comes. The received part stays, but for a pipe, which cannot be resumed.
    fn abandon(&mut self, object: u32) {
        self.linking.abandon(object);
        if let Some(Target::Pipe(ordered)) = self.targets.take(object) {
            // A rest of it harms nobody, and the reason for the end is another.
            let _left = ordered.into_out().discard();
        }
    }

    /// None if the file has to wait for others before it gets its name.
    fn finish(
        &mut self,
        object: u32,
        size: u64,
        root: &blake3::Hash,
    ) -> Result<Option<Written>, FileError> {
        let done = |was_there| Ok(Some(Written::Object { object, was_there }));
        let Some(target) = self.targets.take(object) else { return done(false) };
        if self.work.bucket.is_some() {
            return self.finish_stored((object, target), size, root);
        }
        let folder = self.work.folder.as_ref();
        let sink = match (target, folder) {
            (Target::HardLink(about, of), _) => {
                self.finish_link(object, (about, of));
                return Ok(None);
            }
            (Target::Kept(about, hash), Some(folder)) if hash == *root => {
                folder.remove_part(&about, self.work.chunk_bytes);
                return done(true);
            }
            (Target::Kept(about, _), Some(folder)) => {
                return Err(FileError::Exists { path: folder.path_of(&about) });
            }
            (Target::Later(about, Some(hash)), Some(folder)) if hash == *root => {
                folder.dress(&about)?;
                return done(true);
            }
            (Target::Later(about, _), _) => self.work.sink(&about)?,
            (Target::File(sink, Some(hash)), Some(folder)) if hash == *root => {
                let about = sink.object().clone();
                sink.discard()?;
                folder.dress(&about)?;
                return done(true);
            }
            (Target::File(sink, _), _) => *sink,
            (Target::Pipe(ordered), _) => {
                let (file, hash) = ordered.end(size)?;
                self.batch.push((object, file.finish(&hash, root)?));
                return Ok(None);
            }
            (Target::Out(ordered), _) => {
                ordered.finish(size, root)?;
                return done(false);
            }
            (Target::Kept(..) | Target::Upload(_) | Target::Nowhere, _) => {
                return done(false);
            }
        };
        sink.verify(root)?;
        self.batch.push((object, sink));
        Ok(None)
    }
}

/// The first bytes of a buffer, without a copy.
fn taken(buffer: &mut Vec<u8>, bytes: u32) -> Vec<u8> {
    let mut taken = std::mem::take(buffer);
    taken.truncate(bytes as usize);
    taken
}

fn text_of(error: &FileError) -> Text {
    Text::of(error.to_string().as_bytes())
}

/// Some errors are about one object only: with them the others continue.
fn failed(object: u32, error: FileError) -> Written {
    match error {
        FileError::Exists { .. }
        | FileError::IsFolder { .. }
        | FileError::Denied { .. }
        | FileError::InTheWay { .. }
        | FileError::Locked { .. }
        | FileError::Quota { .. }
        | FileError::Changed { .. }
        | FileError::HardLink { .. }
        | FileError::NoFirst { .. }
        | FileError::Unproven { .. }
        | FileError::Name { .. } => Written::Refused { object, error },
        error => Written::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Stamp;
    use std::path::Path;

    /// In a folder, with the ends of its channels that others have.
    pub(super) fn work_in(at: &Path, chunk_bytes: u64) -> (Work, WriteQueue) {
        let (jobs, given) = mpsc::channel();
        let (out, results) = mpsc::channel();
        let work = Work {
            folder: Some(Folder::open(at).unwrap()),
            bucket: None,
            quota: None,
            overwrite: false,
            is_dry: false,
            chunk_bytes: ChunkBytes::new(chunk_bytes).unwrap(),
            window: 1,
            max_files: 4,
            over: Arc::default(),
            jobs: given,
            out,
            waker: Waker::new().unwrap(),
        };
        (work, WriteQueue { jobs, results })
    }

    /// A part that cannot be resumed filled the disk on.
    #[test]
    fn nothing_is_left_of_a_pipe_that_ends_early() {
        let at = tempfile::tempdir().unwrap();
        let (work, queue) = work_in(at.path(), 1_024);
        let mut writing = Writing::new(work);
        for (object, kind) in [(0, Kind::File), (1, Kind::Stream)] {
            let size = (kind == Kind::File).then_some(2_000);
            let about = Object { kind, size, ..Object::file(&format!("file{object}"), 0) };
            writing.handle(Job::Open { object, about: Box::new(about) });
            let (buffer, bytes) = (vec![1; 1_024], 1_024);
            let chunk = object * 2;
            writing.handle(Job::Write { object, chunk, of_object: 0, buffer, bytes });
        }
        let parts = || {
            let names =
                std::fs::read_dir(at.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.retain(|name| name.ends_with("part"));
            names.sort();
            names
        };
        assert_eq!(parts(), [".file0.linecard-part", ".file1.linecard-part"]);
        drop(queue.jobs);
        writing.run();
        assert_eq!(parts(), [".file0.linecard-part"]);
    }

    /// They stayed unless files were replaced: nothing looked at them again. A file that counts as the same is not read for
    /// them: it may be another user's.
    #[test]
    fn parts_beside_an_equal_file_are_removed_unless_they_are_used_or_of_another_version() {
        for by_time in [false, true] {
            parts_beside_an_equal_file(by_time);
        }
    }

    fn parts_beside_an_equal_file(by_time: bool) {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(7);
        let modified = Stamp { secs: 7, ns: 0 };
        let content = [7; 2_000];
        let about = Object { by_time, modified, ..Object::file("a", 2_000) };
        let newer = Object { modified: Stamp { secs: 9, ns: 0 }, ..Object::file("a", 5_000) };
        for (of, is_locked, left) in [(&about, false, 0), (&about, true, 2), (&newer, false, 2)] {
            let at = tempfile::tempdir().unwrap();
            let (work, queue) = work_in(at.path(), 1_024);
            let sink = work.sink(of).unwrap();
            std::fs::write(at.path().join("a"), content).unwrap();
            File::options()
                .write(true)
                .open(at.path().join("a"))
                .unwrap()
                .set_modified(time)
                .unwrap();
            let _locked = is_locked.then_some(sink);
            let mut writing = Writing::new(work);
            writing.handle(Job::Open { object: 0, about: Box::new(about.clone()) });
            let root = *blake3::hash(&content).as_bytes();
            if !by_time {
                writing.handle(Job::Finish { object: 0, size: 2_000, root, proof: None });
            }
            let was_there = |written: &Written| match written {
                Written::Object { was_there, .. } => *was_there,
                Written::Opened { found, .. } => found.is_settled,
                _ => false,
            };
            assert_eq!(queue.results.try_iter().filter(was_there).count(), 1);
            let names = std::fs::read_dir(at.path()).unwrap();
            let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
            // The partial file and its journal.
            assert_eq!(names.filter(|name| name != "a").count(), left, "{of:?}");
        }
    }

    /// Promise (Transfer): A transfer has at most 128 files open, or its share of what the process may open; what would
    /// open more waits until others are finished.
    #[test]
    fn files_wait_while_as_many_as_may_be_are_open() {
        let at = tempfile::tempdir().unwrap();
        let (work, queue) = work_in(at.path(), 1_024);
        let (chunk_bytes, mut writing) = (work.chunk_bytes, Writing::new(work));
        let contents: Vec<Vec<u8>> = (0..20).map(|number| vec![number; 2_000]).collect();
        for (object, content) in contents.iter().enumerate() {
            let about = Object::file(&format!("file{object}"), content.len() as u64);
            writing.handle(Job::Open { object: object as u32, about: Box::new(about) });
        }
        let opened = |written: &Written| matches!(written, Written::Opened { .. });
        assert_eq!(queue.results.try_iter().filter(opened).count(), 20);
        let write = |writing: &mut Writing, object: usize, of_object: u32| {
            let range = chunk_bytes.range(of_object, 2_000);
            let buffer = contents[object][range.start as usize..range.end as usize].to_vec();
            let (object, bytes) = (object as u32, buffer.len() as u32);
            let chunk = 2 * object + of_object;
            writing.handle(Job::Write { object, chunk, of_object, buffer, bytes });
            assert!(writing.open_files() + writing.batch.len() <= 4);
        };
        (0..20).for_each(|object| write(&mut writing, object, 0));
        let chunk = |written| match written {
            Written::Chunk { chunk, .. } => Some(chunk),
            _ => None,
        };
        assert_eq!(queue.results.try_iter().filter_map(chunk).collect::<Vec<_>>(), [0, 2, 4, 6]);
        for (object, content) in contents.iter().enumerate() {
            write(&mut writing, object, 1);
            let mut tree = crate::file::Tree::new(chunk_bytes);
            for (number, part) in (0..).zip(content.chunks(1_024)) {
                tree.set(number, &crate::file::ChunkHash::of(number, chunk_bytes, part));
            }
            let root = *tree.root(2_000).unwrap().unwrap().as_bytes();
            writing.handle(Job::Finish { object: object as u32, size: 2_000, root, proof: None });
            assert!(writing.open_files() + writing.batch.len() <= 5);
        }
        writing.handle(Job::Close);
        let all: Vec<Written> = queue.results.try_iter().collect();
        assert!(matches!(all.last(), Some(Written::Closed)));
        assert_eq!(all.iter().filter(|of| matches!(of, Written::Object { .. })).count(), 20);
        for (object, content) in contents.iter().enumerate() {
            assert_eq!(&std::fs::read(at.path().join(format!("file{object}"))).unwrap(), content);
        }
    }

    /// All the names of the last folder were kept until the end of the transfer.
    #[test]
    fn names_are_kept_for_the_next_page_only() {
        let at = tempfile::tempdir().unwrap();
        let tree = at.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let names: Vec<_> = (0..200).map(|number| format!("{number:0200}")).collect();
        names.iter().for_each(|name| std::fs::write(tree.join(name), "").unwrap());
        let (work, _queue) = work_in(at.path(), 1 << 20);
        let mut writing = Writing::new(work);
        let mut list = |after: &[u8]| {
            let listed = writing.list(Name::new(b"tree").unwrap(), after).unwrap();
            assert_eq!(writing.listing.is_some(), listed.has_more);
            let names = listed.names.iter();
            let names: Vec<_> = names.map(|(name, _)| String::from_utf8(name.into())).collect();
            names.into_iter().collect::<Result<Vec<_>, _>>().unwrap()
        };
        let mut all = list(b"");
        assert!(all.len() < names.len(), "more than a page");
        let after = all.last().unwrap().clone();
        all.extend(list(after.as_bytes()));
        assert_eq!(all, names);
    }
}
