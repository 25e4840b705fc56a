//! Failures as exceptions of python/linecard/errors.py, with the texts of the command.

use linecard_app::Error;
use linecard_io::capture::CaptureError;
use pyo3::prelude::*;
use std::path::Path;

/// Exit codes of the command for errors outside a job.
const USAGE: u8 = 2;
const READING: u8 = 1;
const DAMAGED: u8 = 4;

/// The exception for a failure with this exit code.
pub(crate) fn raise(py: Python<'_>, text: &str, code: u8) -> PyErr {
    exception(py, "of", text, code)
}

/// The value that this function or class of the module makes.
fn exception(py: Python<'_>, maker: &str, text: &str, code: u8) -> PyErr {
    let errors = py.import("linecard.errors");
    match errors.and_then(|errors| errors.call_method1(maker, (text, code))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// A job's.
pub(crate) fn refused(py: Python<'_>, error: &Error) -> PyErr {
    raise(py, &error.to_string(), error.code())
}

/// A wrong value.
pub(crate) fn usage(py: Python<'_>, text: &str) -> PyErr {
    raise(py, text, USAGE)
}

/// A capture's.
pub(crate) fn of_capture(py: Python<'_>, path: &Path, error: &CaptureError) -> PyErr {
    let code = if error.is_damage() { DAMAGED } else { READING };
    exception(py, "CaptureError", &format!("{}: {error}", path.display()), code)
}

/// A file that cannot be opened: `OSError` with the system's number, as Python's own `open` has it.
pub(crate) fn of_open(path: &Path, error: std::io::Error) -> PyErr {
    let number = error.raw_os_error();
    match number {
        Some(number) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            pyo3::exceptions::PyOSError::new_err((number, text, path.to_path_buf()))
        }
        None => error.into(),
    }
}
