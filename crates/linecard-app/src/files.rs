//! Files that jobs read and write.

use super::{Context, Error};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens an input, whose length is the progress that is expected; `-` is stdin. Reading fails once the job is
/// cancelled.
pub(crate) fn open(path: &Path, context: &Context<'_>) -> Result<Box<dyn Read>, Error> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let failed = |source| Error::Open { path: path.into(), source };
    let file = File::open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if data.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    context.progress.expect(data.len() as usize);
    Ok(Box::new(context.input(file)))
}

/// Whether a path names the standard output: a report would end up among the data there.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].map(Path::new).contains(&path)
}
