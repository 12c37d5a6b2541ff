//! A process at the end of an epoch as a core file ([`crate::core_file`]).

use std::path::Path;

use serde_json::{Value, json};

use super::{Answer, Page, Snapshots, SnapshotsError, asked};
use crate::core_file::{self, CoreError};

impl Snapshots {
    pub(super) fn dump(&self, epoch: u64, file: &Path, wanted: Option<u32>) -> Answer<Value> {
        let (kernel, harts) = self.machine(epoch)?;
        let mut living = self.living(&kernel, wanted, epoch)?;
        if living.len() > 1 {
            let names = living
                .iter()
                .map(|one| format!("{} ({})", one.id, one.executable));
            return asked(format!(
                "several processes live at the end of epoch {epoch}: {}; name one with --process",
                names.collect::<Vec<_>>().join(", ")
            ));
        }
        let mut process = living.remove(0);
        core_file::put_in_harts(&mut process, &harts);
        let content = |page| {
            let page = self.page_of(&kernel, process.space, page, epoch)?;
            Ok(match page {
                Page::Held(bytes) => bytes,
                Page::Elsewhere | Page::Unmapped => Vec::new(),
            })
        };
        let bytes = match core_file::write(file, &kernel, &process, content) {
            Ok(bytes) => bytes,
            Err(CoreError::Content(error)) => return Err(error),
            Err(CoreError::Pieces(pieces)) => {
                return asked(core_file::too_many_pieces(process.id, pieces));
            }
            Err(CoreError::Host(source)) => {
                let what = format!("writing {}", file.display());
                return Err(SnapshotsError::Host { what, source });
            }
        };
        Ok(json!({
            "epoch": epoch,
            "file": file,
            "process": process.id,
            "executable": process.executable,
            "bytes": bytes,
            "threads": core_file::threads(&kernel, &process),
        }))
    }
}
