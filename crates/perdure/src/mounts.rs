//! Folders of the host that users name for the guest.

use std::path::Path;

use perdure_linux::Mount;

use crate::error::Error;

fn refused<T>(message: String) -> Result<T, Error> {
    Err(Error::Request(message))
}

/// A mount as users write it, `HOST:GUEST`.
pub(crate) fn mount(text: &str) -> Result<Mount, Error> {
    folder("--mount", text)
}

/// Folders that the guest may change, as users write them, `HOST:GUEST`.
pub(crate) fn write_through(texts: &[String]) -> Result<Vec<Mount>, Error> {
    let folders = texts.iter().map(|text| folder("--write-through", text));
    folders.collect()
}

fn folder(option: &str, text: &str) -> Result<Mount, Error> {
    match text.rsplit_once(':') {
        Some((host, guest)) if guest.starts_with('/') && Path::new(host).is_dir() => {
            let plain = guest.trim_end_matches('/');
            Ok(Mount {
                host: host.into(),
                guest: if plain.is_empty() { guest } else { plain }.into(),
            })
        }
        _ => refused(format!(
            "{option} {text}: write HOST:GUEST with an existing directory and an absolute guest path"
        )),
    }
}

/// Folders such that all can be seen: of those at one place the last, and none before one that it lies below.
pub(crate) fn visible(folders: Vec<Mount>) -> Vec<Mount> {
    let mut visible: Vec<Mount> = Vec::new();
    for folder in folders {
        visible.retain(|other| other.guest != folder.guest);
        let is_below = |other: &Mount| Path::new(&other.guest).starts_with(&folder.guest);
        let place = visible.iter().position(is_below);
        visible.insert(place.unwrap_or(visible.len()), folder);
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_folder_hides_another() {
        let folders = |guests: &[&str]| -> Vec<Mount> {
            let numbered = guests.iter().enumerate();
            let folder = |(number, guest): (usize, &&str)| Mount {
                host: number.to_string().into(),
                guest: (*guest).to_owned(),
            };
            numbered.map(folder).collect()
        };
        let seen = |guests: &[&str]| -> Vec<(String, String)> {
            let seen = visible(folders(guests)).into_iter();
            seen.map(|one| (one.host.display().to_string(), one.guest))
                .collect()
        };
        let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = pairs.iter();
            pairs
                .map(|(host, guest)| ((*host).to_owned(), (*guest).to_owned()))
                .collect()
        };
        assert_eq!(
            seen(&["/b", "/a/x", "/c"]),
            of(&[("0", "/b"), ("1", "/a/x"), ("2", "/c")])
        );
        assert_eq!(seen(&["/a", "/b", "/a"]), of(&[("1", "/b"), ("2", "/a")]));
        assert_eq!(
            seen(&["/ab", "/a/x/y", "/a/x", "/a"]),
            of(&[("0", "/ab"), ("3", "/a"), ("2", "/a/x"), ("1", "/a/x/y")])
        );
    }
}
