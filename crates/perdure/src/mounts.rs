//! Folders of the host that users name for the guest.

use std::path::Path;

use crate::error::Error;

fn refused<T>(message: String) -> Result<T, Error> {
    Err(Error::Request(message))
}

/// A mount as users write it, `HOST:GUEST`.
pub(crate) fn mount(text: &str) -> Result<perdure_linux::Mount, Error> {
    match text.rsplit_once(':') {
        Some((host, guest)) if guest.starts_with('/') && Path::new(host).is_dir() => {
            Ok(perdure_linux::Mount {
                host: host.into(),
                guest: guest.into(),
            })
        }
        _ => refused(format!(
            "--mount {text}: write HOST:GUEST with an existing directory and an absolute guest path"
        )),
    }
}

/// Folders that the guest may change, as users write them, `HOST:GUEST`.
pub(crate) fn write_through(texts: &[String]) -> Result<Vec<perdure_linux::Mount>, Error> {
    let folder = |text: &String| match text.rsplit_once(':') {
        Some((host, guest)) if guest.starts_with('/') && Path::new(host).is_dir() => {
            Ok(perdure_linux::Mount {
                host: host.into(),
                guest: guest.trim_end_matches('/').into(),
            })
        }
        _ => refused(format!(
            "--write-through {text}: write HOST:GUEST with an existing directory and an absolute guest path"
        )),
    };
    texts.iter().map(folder).collect()
}
