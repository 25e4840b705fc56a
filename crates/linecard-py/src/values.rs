//! Python's values as ours, each refused by its name.

use crate::failure::usage;
use linecard::packet::LinkType;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};
use std::ops::RangeInclusive;

/// A whole number in a range.
pub(crate) fn whole(
    value: &Bound<'_, PyAny>,
    name: &str,
    range: RangeInclusive<u64>,
) -> PyResult<u64> {
    let py = value.py();
    // NumPy's integers are none of Python's, and say what they are by `__index__`.
    let number = value.call_method0("__index__").map_err(|_| {
        PyTypeError::new_err(format!("{name}: {} is no whole number", described(value)))
    })?;
    let number = number.cast_into::<PyInt>()?;
    match number.extract::<u64>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => {
            let (low, high) = range.into_inner();
            Err(usage(py, &format!("{name} {number}: choose {low} to {high}")))
        }
    }
}

/// The bytes of anything that has them in one run.
pub(crate) fn bytes(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let buffer = PyBuffer::<u8>::get(value).map_err(|_| {
        let what = described(value);
        PyTypeError::new_err(format!(
            "{name}: {what} has no bytes: give bytes, or a buffer of them"
        ))
    })?;
    if !buffer.is_c_contiguous() {
        let text = format!("{name}: this buffer has gaps between its bytes: copy it with bytes(…)");
        return Err(PyBufferError::new_err(text));
    }
    buffer.to_vec(value.py())
}

/// What frames start with, by name.
pub(crate) fn link(py: Python<'_>, name: &str) -> PyResult<LinkType> {
    match name {
        "ethernet" => Ok(LinkType::Ethernet),
        "raw" => Ok(LinkType::Raw),
        "loopback" => Ok(LinkType::Loopback),
        "linux-sll" => Ok(LinkType::LinuxSll),
        "linux-sll2" => Ok(LinkType::LinuxSll2),
        _ => {
            let text =
                format!("link \"{name}\": choose ethernet, raw, loopback, linux-sll or linux-sll2");
            Err(usage(py, &text))
        }
    }
}

/// A value and its type, short enough for a line.
fn described(value: &Bound<'_, PyAny>) -> String {
    const MOST: usize = 60;
    let text = value.repr().map(|text| text.to_string()).unwrap_or_default();
    let kind = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    let short: String = text.chars().take(MOST).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{short}{dots} ({kind})")
}
