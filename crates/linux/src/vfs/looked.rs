//! The host's files for somebody outside, who looks at a guest.
//!
//! Always true here: nothing is noted of what is read so, and nothing of it counts against what the guest may
//! read.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use super::HostView;
use super::host_view::READS;

impl HostView {
    /// A file's bytes: those that the guest was shown, if it was; else as they are now.
    pub(crate) fn look_into(&self, mount: u32, path: &str) -> Option<Arc<[u8]>> {
        let key = (mount, path.to_owned());
        if let Some(shown) = self.with_seen(|seen| seen.contents.get(&key).cloned()) {
            return shown;
        }
        let mut bytes = Vec::new();
        let file = self.open(mount, path, READS)?;
        File::from(file).read_to_end(&mut bytes).ok()?;
        Some(bytes.into())
    }
}
