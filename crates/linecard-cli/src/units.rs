//! Values with units, as users write them.

use linecard_app::captures::is_stdout;
use std::path::PathBuf;

/// A number of things: `16`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a whole number: write for example 16"))
}

/// An output. Other names of the standard output are treated like it, or the report would be mixed
/// with the data.
pub(crate) fn output(path: PathBuf) -> PathBuf {
    if is_stdout(&path) { PathBuf::from("-") } else { path }
}
