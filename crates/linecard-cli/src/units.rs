//! Values with units, as users write them.

use std::path::{Path, PathBuf};

/// A number of things: `16`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no whole number: write for example 16"))
}

/// An output. What is another name for the standard output is treated as it, or the report would
/// end up among the data.
pub(crate) fn output(path: PathBuf) -> PathBuf {
    let standard = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].map(Path::new);
    if standard.contains(&path.as_path()) { PathBuf::from("-") } else { path }
}
