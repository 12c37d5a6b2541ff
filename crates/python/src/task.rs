//! One piece of the core's work, seen from Python: started in its own thread,
//! waited for without the GIL, interrupted by Ctrl-C.
//!
//! Always true here: the thread shares only [`Shared`] with its waiter and
//! touches no Python object, so the waiter may leave it behind.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::{Error, Observer, PerdureError, refusal};

/// How often the waiter looks for Ctrl-C and hands progress on.
const WAKE_UP: Duration = Duration::from_millis(50);

/// The stack of the core's thread: as large as a main thread's usual one.
const STACK_BYTES: usize = 8 << 20;

/// The last progress that the core announced.
#[derive(Clone, Default, PartialEq, Eq)]
struct Progress {
    done: u64,
    total: u64,
    unit: String,
    message: String,
}

/// What standard streams got: descriptors and bytes.
type Output = Vec<(u8, Vec<u8>)>;

/// What Python is called with on the way.
pub(crate) struct Told {
    progress: Option<Py<PyAny>>,
    output: Option<Py<PyAny>>,
}

impl From<Option<Py<PyAny>>> for Told {
    fn from(progress: Option<Py<PyAny>>) -> Self {
        Self::from((progress, None))
    }
}

impl From<(Option<Py<PyAny>>, Option<Py<PyAny>>)> for Told {
    fn from((progress, output): (Option<Py<PyAny>>, Option<Py<PyAny>>)) -> Self {
        Self { progress, output }
    }
}

impl Told {
    /// Calls back with progress.
    fn progress(&self, py: Python<'_>, latest: &Progress) -> PyResult<()> {
        let Progress {
            done,
            total,
            unit,
            message,
        } = latest;
        if let Some(callback) = &self.progress {
            callback.call1(py, (*done, *total, unit, message))?;
        }
        Ok(())
    }

    /// Calls back with what was written since the last time.
    fn output(&self, py: Python<'_>, output: Output) -> PyResult<()> {
        for (descriptor, bytes) in output {
            if let Some(callback) = &self.output {
                callback.call1(py, (descriptor, PyBytes::new(py, &bytes)))?;
            }
        }
        Ok(())
    }
}

/// What the core's thread and its waiter share.
#[derive(Default)]
struct Shared {
    interrupted: AtomicBool,
    progress: Mutex<Progress>,
    listens: bool,
    output: Mutex<Output>,
}

impl Shared {
    /// A copy of the last announced progress.
    fn latest(&self) -> Progress {
        // A poisoned lock still guards whole values: they are plain data.
        self.progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What came since the last time.
    fn output(&self) -> Output {
        std::mem::take(&mut *self.output.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Shared {
    fn progress(&self, done: u64, total: u64, unit: &str, message: &str) {
        let mut latest = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        latest.done = done;
        latest.total = total;
        if latest.unit != unit {
            unit.clone_into(&mut latest.unit);
        }
        if latest.message != message {
            message.clone_into(&mut latest.message);
        }
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn listens(&self) -> bool {
        self.listens
    }

    fn released(&self, descriptor: u8, bytes: Vec<u8>) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.push((descriptor, bytes));
    }
}

/// Carries out `work` and returns its JSON.
///
/// The first Ctrl-C asks the core to stop and return what is finished; its
/// result says so. A second one raises `KeyboardInterrupt` at once and leaves
/// the core's thread to the end of the process. An exception of what Python is
/// told with stops the core and is raised when it has stopped.
pub(crate) fn wait_for(
    py: Python<'_>,
    told: impl Into<Told>,
    work: impl FnOnce(&dyn Observer) -> Result<String, Error> + Send + 'static,
) -> PyResult<String> {
    let told = told.into();
    let shared = Arc::new(Shared {
        listens: told.output.is_some(),
        ..Shared::default()
    });
    let (sender, receiver) = mpsc::channel();
    let observer = Arc::clone(&shared);
    let worker = thread::Builder::new()
        .name("perdure".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // The waiter is gone only after a second Ctrl-C.
            let _ = sender.send(work(observer.as_ref()));
        })
        .map_err(|error| {
            PerdureError::new_err(format!("cannot start the simulator's thread: {error}"))
        })?;

    let mut reported = Progress::default();
    let mut raised: Option<PyErr> = None;
    py.detach(move || {
        loop {
            match receiver.recv_timeout(WAKE_UP) {
                Ok(result) => {
                    if let Some(error) = raised {
                        return Err(error);
                    }
                    Python::attach(|py| told.output(py, shared.output()))?;
                    return result.map_err(|error| refusal(&error));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let cause = worker.join().err();
                    return Err(PerdureError::new_err(format!(
                        "the simulator failed, which is a defect in it: {}",
                        cause.as_deref().map_or("no reason given", reason)
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let (latest, output) = (shared.latest(), shared.output());
            Python::attach(|py| {
                if let Err(error) = py.check_signals() {
                    let first = !shared.interrupted.swap(true, Ordering::Relaxed);
                    if !first || !error.is_instance_of::<PyKeyboardInterrupt>(py) {
                        return Err(error);
                    }
                }
                if raised.is_none() {
                    let mut called = told.output(py, output);
                    if latest != reported {
                        called = called.and_then(|()| told.progress(py, &latest));
                    }
                    raised = called.err();
                    if raised.is_some() {
                        shared.interrupted.store(true, Ordering::Relaxed);
                    }
                }
                Ok(())
            })?;
            reported = latest;
        }
    })
}

/// The text of a panic.
fn reason(cause: &(dyn Any + Send)) -> &str {
    cause
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| cause.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}
