//! Values of Python as those of Rust, each refused by its name, and back.

use crate::failure::usage;
use linecard::packet::LinkType;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use serde_json::{Map, Number, Value};
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
        PyTypeError::new_err(format!("{name}: {} is not a whole number", described(value)))
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

/// First header of frames, by name.
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

/// A value of a parameter: a number, a text, a path, a truth value, or a list of such; None is not a value. Whole numbers
/// may be floats.
pub(crate) fn value_of(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Value> {
    let py = value.py();
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(flag.is_true().into());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.extract::<String>()?.into());
    }
    if value.is_instance_of::<PyInt>() {
        let whole = value.extract::<u64>().map(Value::from);
        let whole = whole.or_else(|_| value.extract::<i64>().map(Value::from));
        return whole.map_err(|_| usage(py, &format!("{name}={value}: too large a number")));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        let number = number.value();
        // Up to here, all whole numbers are floats too.
        let is_whole = number.fract() == 0.0 && number.abs() < 2_f64.powi(53);
        let exact = if is_whole { Some((number as i64).into()) } else { Number::from_f64(number) };
        let refuse = || usage(py, &format!("{name}={number}: not a finite number"));
        return exact.map(Value::Number).ok_or_else(refuse);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let pairs = mapping.items()?;
        let pair = |pair: Bound<'_, PyAny>| {
            let (key, value) = pair.extract::<(String, Bound<'_, PyAny>)>()?;
            let value = value_of(&value, name)?;
            Ok((key, value))
        };
        return pairs.iter().map(pair).collect::<PyResult<Map<_, _>>>().map(Value::Object);
    }
    if value.hasattr("tolist")? {
        // Numbers and arrays of NumPy.
        return value_of(&value.call_method0("tolist")?, name);
    }
    if value.hasattr("__fspath__")? {
        return value_of(&value.call_method0("__fspath__")?, name);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let parts = value.try_iter()?.map(|part| value_of(&part?, name));
        return parts.collect::<PyResult<Vec<_>>>().map(Value::Array);
    }
    let what = described(value);
    Err(PyTypeError::new_err(format!("{name}: {what} is not a value: give a number or a text")))
}

/// A value as Python has it.
pub(crate) fn object_of<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => whole.into_pyobject(py)?.into_any(),
            (None, Some(whole)) => whole.into_pyobject(py)?.into_any(),
            _ => number.as_f64().into_pyobject(py)?.into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(values) => {
            let values = values.iter().map(|value| object_of(py, value));
            PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::Object(values) => {
            let dict = PyDict::new(py);
            for (key, value) in values {
                dict.set_item(key, object_of(py, value)?)?;
            }
            dict.into_any()
        }
    })
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
