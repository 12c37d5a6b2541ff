//! Where a primary copies to: a folder of the host, or a replica that listens.

use std::path::{Path, PathBuf};

use super::log::{self, Log};
use super::wire::{Remote, Secret};
use super::{Destination, Failure};
use crate::error::Error;

/// Where to copy to.
#[derive(Clone)]
pub enum Target {
    /// A directory.
    Directory(PathBuf),
    /// A replica that listens.
    Remote {
        /// `HOST:PORT`.
        address: String,
        /// The shared secret.
        secret: Secret,
    },
}

impl Target {
    /// From what a user wrote: `HOST:PORT`, else a directory.
    pub fn parse(text: &str, secret_file: Option<&Path>) -> Result<Self, Error> {
        let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !text.contains('/') && matches!(port, Some(Ok(_))) {
            let Some(file) = secret_file else {
                return Err(Error::Request(format!(
                    "--to {text}: needs --secret-file FILE, with the secret that the replica has"
                )));
            };
            return Ok(Self::Remote {
                address: text.to_owned(),
                secret: Secret::read(file)?,
            });
        }
        if let Some(file) = secret_file {
            return Err(Error::Request(format!(
                "--secret-file {}: is for a replica that listens, as HOST:PORT; {text} is a folder",
                file.display()
            )));
        }
        Ok(Self::Directory(text.into()))
    }

    /// Reaches it.
    pub(super) fn connect(&self) -> Result<Box<dyn Destination + Send>, Failure> {
        match self {
            Self::Remote { address, secret } => Ok(Box::new(Remote::connect(address, secret)?)),
            Self::Directory(directory) => {
                let foreign = std::fs::read_dir(directory)
                    .is_ok_and(|mut entries| entries.next().is_some())
                    && !log::is_replica(directory);
                if foreign {
                    return Err(Failure::Refused(format!(
                        "--to {}: the folder is not empty and no replica; name another one",
                        directory.display()
                    )));
                }
                Ok(Box::new(Log::open(directory)?))
            }
        }
    }

    /// For people.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Directory(directory) => directory.display().to_string(),
            Self::Remote { address, .. } => address.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_shares_no_secret() {
        let parsed = |text: &str| Target::parse(text, Some(Path::new("secret")));
        let refusal = parsed("folder").err().expect("a refusal").to_string();
        assert!(refusal.contains("--secret-file secret"), "{refusal}");
        assert!(refusal.contains("folder is a folder"), "{refusal}");
        let missing = parsed("host:1").err().expect("there is no such file");
        assert!(!missing.to_string().contains("folder"), "{missing}");
    }
}
