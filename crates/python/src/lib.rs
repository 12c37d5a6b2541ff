//! The Python module `perdure._core`: the core's functions, JSON text in and
//! out, and nothing else. What the JSON means is said in `perdure::api` and,
//! typed, in `python/perdure/api.py`.
//!
//! Always true here: the core runs in a thread of its own without the GIL, and
//! the calling thread waits for it, awake a few times a second. So the core's
//! [`Observer`] costs two plain memory accesses and never waits for Python,
//! progress reaches Python in the thread that asked for the work, and Ctrl-C is
//! seen (`CPython` runs signal handlers in its main thread only) however many
//! threads the core has started.
#![warn(
    clippy::cast_lossless,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

mod task;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use perdure::Error;
use perdure::api::{self, Observer};
use pyo3::prelude::*;

pyo3::create_exception!(
    perdure,
    PerdureError,
    pyo3::exceptions::PyException,
    "A request that cannot be carried out. Its text is one message for the \
     user: what is wrong, where, and what to do."
);

/// Runs a program. `request` and the result are JSON; `progress` is called as
/// `progress(done, total, unit, message)`, `total` being 0 when unknown, and
/// `output(descriptor, bytes)` with what programs wrote to a standard stream.
#[pyfunction]
#[pyo3(signature = (request, progress=None, output=None))]
fn run(
    py: Python<'_>,
    request: String,
    progress: Option<Py<PyAny>>,
    output: Option<Py<PyAny>>,
) -> PyResult<String> {
    task::wait_for(py, (progress, output), move |observer| {
        api::run(&request, observer)
    })
}

/// Runs a program, cuts its power, and judges every recovery.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
fn cut(py: Python<'_>, request: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| api::cut(&request, observer))
}

/// Sends what a replica in a directory holds on to another one.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
fn forward(py: Python<'_>, request: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| {
        api::forward(&request, observer)
    })
}

/// Receives epochs until Ctrl-C.
#[pyfunction]
fn serve(py: Python<'_>, request: String) -> PyResult<String> {
    task::wait_for(py, None, move |observer| api::serve(&request, observer))
}

/// Restores an epoch that a replica holds, and goes on there; calls back as `run` does.
#[pyfunction]
#[pyo3(signature = (request, progress=None, output=None))]
fn resume(
    py: Python<'_>,
    request: String,
    progress: Option<Py<PyAny>>,
    output: Option<Py<PyAny>>,
) -> PyResult<String> {
    task::wait_for(py, (progress, output), move |observer| {
        api::resume(&request, observer)
    })
}

/// Repeats the one power cut that a token names.
#[pyfunction]
#[pyo3(signature = (token, progress=None))]
fn replay(py: Python<'_>, token: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| api::replay(&token, observer))
}

/// Serves a debugger until it ends the session, the program has ended, or Ctrl-C.
#[pyfunction]
fn debug(py: Python<'_>, request: String) -> PyResult<String> {
    task::wait_for(py, None, move |observer| api::debug(&request, observer))
}

/// Checks that every planted bug is caught and no clean design accused.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
fn mutants(py: Python<'_>, request: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| {
        api::mutants(&request, observer)
    })
}

/// Cuts machines drawn by seeds until something fails.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
fn hunt(py: Python<'_>, request: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| api::hunt(&request, observer))
}

/// Runs a program for so many instructions, and times forks of the machine.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
fn forks(py: Python<'_>, request: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| {
        perdure::forks::time(&request, observer)
    })
}

/// Looks for the crash-consistency bugs of a program.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
fn check(py: Python<'_>, request: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| {
        perdure::crash_check::check(&request, observer)
    })
}

/// Does one share of a check.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
fn check_share(py: Python<'_>, request: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| {
        perdure::crash_check::check_share(&request, observer)
    })
}

/// The report of a check whose shares were done elsewhere.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
fn check_together(
    py: Python<'_>,
    request: String,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| {
        perdure::crash_check::check_together(&request, observer)
    })
}

/// Lets recovery run again on the state that a token of a check names.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
fn check_again(py: Python<'_>, request: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    task::wait_for(py, progress, move |observer| {
        perdure::crash_check::check_again(&request, observer)
    })
}

/// Decides litmus tests by their memory models.
#[pyfunction]
fn litmus(py: Python<'_>, request: String) -> PyResult<String> {
    task::wait_for(py, None, move |observer| {
        perdure::litmus::decide(&request, observer)
    })
}

/// A function's name as its author wrote it: what C++ and Rust have mangled, or the same.
#[pyfunction]
fn demangled(name: &str) -> String {
    perdure::demangle::demangled(name)
}

/// The effective configuration of a machine under a design, with its hash.
#[pyfunction]
fn configuration(request: &str) -> PyResult<String> {
    api::configuration(request).map_err(|error| refusal(&error))
}

/// The designs and machines that this build knows.
#[pyfunction]
fn catalogue() -> String {
    api::catalogue()
}

/// An open snapshot store.
#[pyclass(frozen)]
struct Snapshots(Mutex<perdure::snapshots::Snapshots>);

#[pymethods]
impl Snapshots {
    /// Opens the store in a directory.
    #[new]
    fn new(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        let opened = py.detach(move || perdure::snapshots::Snapshots::open(&directory));
        let store = opened.map_err(|error| PerdureError::new_err(error.to_string()))?;
        Ok(Self(Mutex::new(store)))
    }

    /// Answers a question; both are JSON.
    fn ask(&self, py: Python<'_>, question: &str) -> PyResult<String> {
        let answer = py.detach(|| {
            // Nothing of a store changes by a question, so a poisoned lock still guards a whole one.
            let store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            store.ask(question)
        });
        answer.map_err(|error| PerdureError::new_err(error.to_string()))
    }
}

/// The core's error as Python sees it.
fn refusal(error: &Error) -> PyErr {
    PerdureError::new_err(error.to_string())
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PerdureError", module.py().get_type::<PerdureError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("TIMING_VERSION", perdure::version::TIMING)?;
    module.add_class::<Snapshots>()?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(cut, module)?)?;
    module.add_function(wrap_pyfunction!(replay, module)?)?;
    module.add_function(wrap_pyfunction!(forward, module)?)?;
    module.add_function(wrap_pyfunction!(serve, module)?)?;
    module.add_function(wrap_pyfunction!(resume, module)?)?;
    module.add_function(wrap_pyfunction!(debug, module)?)?;
    module.add_function(wrap_pyfunction!(mutants, module)?)?;
    module.add_function(wrap_pyfunction!(hunt, module)?)?;
    module.add_function(wrap_pyfunction!(forks, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(check_share, module)?)?;
    module.add_function(wrap_pyfunction!(check_together, module)?)?;
    module.add_function(wrap_pyfunction!(check_again, module)?)?;
    module.add_function(wrap_pyfunction!(litmus, module)?)?;
    module.add_function(wrap_pyfunction!(demangled, module)?)?;
    module.add_function(wrap_pyfunction!(configuration, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue, module)?)
}
