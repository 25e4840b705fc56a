//! `linecard._linecard`: what Python calls. Conversions only; the typed face is python/linecard.
#![expect(unreachable_pub, reason = "the macros of classes and functions ask for pub")]
#![expect(missing_debug_implementations, reason = "people see what Python's repr says")]
#![expect(clippy::needless_pass_by_value, reason = "what is made of Python's values is passed so")]

mod capture;
mod detached;
mod failure;
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

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // The first array loads what numpy has for C, which panics if a signal comes meanwhile: now, and not in
        // the midst of a call.
        let _loaded = Vec::<u8>::new().into_pyarray(module.py());
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
