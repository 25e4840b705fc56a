//! What has come is hashed and written on a thread of its own: lanes do not wait for disks.

use crate::end::Waker;
use crate::file::{FileError, Ordered, Sink};
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender};

/// Where the bytes of an object go.
pub(super) enum Target {
    /// Into a file.
    File(Sink),
    /// Out, in order.
    Out(Ordered<Box<dyn Write + Send>>),
    /// Nowhere: a test of the way.
    Nowhere,
}

/// What the thread is asked for. The receiver's window bounds how much waits.
pub(super) enum Job {
    /// A new object.
    Open { object: u32, target: Box<Target> },
    /// A chunk is whole.
    Write { object: u32, chunk: u32, of_object: u32, buffer: Vec<u8>, bytes: u32 },
    /// All chunks of an object have been given: it is that, if its hash is right.
    Finish { object: u32, size: u64, root: [u8; 32] },
}

/// What it has done.
pub(super) enum Written {
    /// A chunk is where it belongs.
    Chunk { chunk: u32, buffer: Vec<u8> },
    /// An object is in its place.
    Object { object: u32 },
    /// It cannot go on.
    Failed(FileError),
}

pub(super) struct Work {
    pub(super) jobs: Receiver<Job>,
    pub(super) out: Sender<Written>,
    pub(super) waker: Waker,
}

impl Work {
    /// Does what it is asked for until nobody asks any more.
    pub(super) fn run(self) {
        // Few are open at a time: the sender does not announce many ahead.
        let mut targets: Vec<(u32, Target)> = Vec::new();
        while let Ok(job) = self.jobs.recv() {
            let written = match job {
                Job::Open { object, target } => {
                    targets.push((object, *target));
                    continue;
                }
                Job::Write { object, chunk, of_object, mut buffer, bytes } => {
                    match write(&mut targets, (object, of_object), &mut buffer, bytes) {
                        Ok(()) => Written::Chunk { chunk, buffer },
                        Err(error) => Written::Failed(error),
                    }
                }
                Job::Finish { object, size, root } => {
                    match finish(&mut targets, object, size, &root.into()) {
                        Ok(()) => Written::Object { object },
                        Err(error) => Written::Failed(error),
                    }
                }
            };
            if self.out.send(written).is_err() {
                return;
            }
            self.waker.wake();
        }
    }
}

fn write(
    targets: &mut [(u32, Target)],
    (object, chunk): (u32, u32),
    buffer: &mut Vec<u8>,
    bytes: u32,
) -> Result<(), FileError> {
    let Some((_, target)) = targets.iter_mut().find(|(of, _)| *of == object) else {
        return Ok(());
    };
    match target {
        Target::File(sink) => sink.write(chunk, &buffer[..bytes as usize]).map(|_hash| ()),
        Target::Out(ordered) => {
            let mut bytes_of = std::mem::take(buffer);
            bytes_of.truncate(bytes as usize);
            ordered.write(chunk, bytes_of)
        }
        Target::Nowhere => Ok(()),
    }
}

fn finish(
    targets: &mut Vec<(u32, Target)>,
    object: u32,
    size: u64,
    root: &blake3::Hash,
) -> Result<(), FileError> {
    let Some(at) = targets.iter().position(|(of, _)| *of == object) else { return Ok(()) };
    match targets.swap_remove(at).1 {
        Target::File(sink) => {
            sink.end_at(size)?;
            sink.finish(root)
        }
        Target::Out(ordered) => ordered.finish(size, root).map(|_out| ()),
        Target::Nowhere => Ok(()),
    }
}
