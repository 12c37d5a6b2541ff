//! Everything that can go wrong before a result: one clear message for the user, exit status 2.

use perdure_hardware::time::Cycles;
use serde::de::DeserializeOwned;

/// A request that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("configuration: {0}")]
    Configuration(String),
    /// The program cannot be started.
    #[error("{0}")]
    Boot(#[from] perdure_linux::BootError),
    /// The request itself is wrong.
    #[error("{0}")]
    Request(String),
    /// The design cannot go on.
    #[error("design {design}: {message}")]
    Design {
        /// The design.
        design: &'static str,
        /// Why.
        message: String,
    },
    /// The design broke its contract with the hardware.
    #[error("design {design}: {message}")]
    Contract {
        /// The design.
        design: &'static str,
        /// Which hook, and how.
        message: String,
    },
    /// The guest can never run again.
    #[error(
        "the program is deadlocked at cycle {cycle}: {}, and nothing will ever wake one",
        who_waits(.stopped)
    )]
    Deadlock {
        /// When.
        cycle: u64,
        /// The processes that are stopped.
        stopped: Vec<u32>,
    },
    /// The host refused something.
    #[error("{what}: {source}")]
    Host {
        /// What was tried.
        what: String,
        /// The host's words.
        source: std::io::Error,
    },
    /// From a snapshot store or a replica.
    #[error(transparent)]
    Snapshots(Box<dyn std::error::Error + Send + Sync>),
    /// The user has stopped something of which half is nothing.
    #[error("interrupted")]
    Interrupted,
    /// The design, or the simulator, panicked.
    #[error("this is a defect of the design's, or of the simulator's: it {said}")]
    Panicked {
        /// With what words, and where in the source.
        said: String,
        /// The cut at which it did, if it was one.
        at: Option<Cycles>,
    },
    /// The simulator contradicts itself: a defect.
    #[error("this is a defect in the simulator: {0}")]
    Defect(String),
}

/// A request from its JSON.
pub(crate) fn parsed<T: DeserializeOwned>(request: &str) -> Result<T, Error> {
    let mut document = serde_json::Deserializer::from_str(request);
    serde_path_to_error::deserialize(&mut document).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." {
            "request".to_owned()
        } else {
            format!("request: {path}")
        };
        let text = error.inner().to_string();
        // It is in one line, which nobody has written.
        let text = text
            .rsplit_once(" at line ")
            .map_or(text.as_str(), |(text, _)| text);
        // What a shell hands on may be any bytes, for which Python has surrogates.
        let text = match text {
            "lone leading surrogate in hex escape" => {
                "it is no UTF-8, as all of a request has to be"
            }
            other => other,
        };
        Error::Request(format!("{place}: {text}"))
    })
}

/// What every thread of a deadlocked program does.
fn who_waits(stopped: &[u32]) -> String {
    let numbers: Vec<String> = stopped.iter().map(ToString::to_string).collect();
    match numbers.as_slice() {
        [] => "every thread waits".to_owned(),
        [one] => format!("process {one} is stopped (as by SIGSTOP), every other thread waits"),
        all => format!(
            "the processes {} are stopped (as by SIGSTOP), every other thread waits",
            all.join(", ")
        ),
    }
}
