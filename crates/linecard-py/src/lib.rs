//! `linecard._linecard`, which Python calls: conversions only; the typed interface is python/linecard.
#![expect(unreachable_pub, reason = "the macros of classes and functions ask for pub")]
#![expect(missing_debug_implementations, reason = "people see what Python's repr says")]
#![expect(clippy::needless_pass_by_value, reason = "what is made of Python's values is passed so")]

mod capture;
mod detached;
mod failure;
mod figure;
mod job;
mod merging;
mod offload;
mod packets;
mod points;
mod values;

use pyo3::prelude::*;

/// Functions and classes behind the package `linecard`.
#[pymodule]
mod _linecard {
    #[pymodule_export]
    use crate::capture::{Capture, Packet};
    #[pymodule_export]
    use crate::detached::Stop;
    #[pymodule_export]
    use crate::figure::curves;
    #[pymodule_export]
    use crate::job::{Report, job};
    #[pymodule_export]
    use crate::merging::merging;
    #[pymodule_export]
    use crate::offload::{Coalescer, Merged, fragment, segment};
    #[pymodule_export]
    use crate::packets::{Flow, Packets};
    #[pymodule_export]
    use crate::points::Points;

    use numpy::IntoPyArray;
    use pyo3::exceptions::PyImportError;
    use pyo3::types::PyCapsule;

    use super::{Bound, PyAnyMethods, PyErr, PyModule, PyModuleMethods, PyResult, Python};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        check_numpy(module.py())?;
        // The first array loads that interface, and would panic if a signal came meanwhile: now, and not in the
        // midst of a call.
        let _loaded = Vec::<u8>::new().into_pyarray(module.py());
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    /// Refuses a `NumPy` without its interface for C: the first array would panic.
    fn check_numpy(py: Python<'_>) -> PyResult<()> {
        let interface = || {
            let capsule = numpy::get_array_module(py)?.getattr("_ARRAY_API")?;
            capsule.cast_into::<PyCapsule>().map(drop).map_err(PyErr::from)
        };
        interface().map_err(|why| {
            let text = format!(
                "linecard: this NumPy has no interface for C that can be used ({why}): reinstall it"
            );
            let error = PyImportError::new_err(text);
            error.set_cause(py, Some(why));
            error
        })
    }
}
