//! Fresh memory of the host, made ready before somebody needs it.
//!
//! The host clears a page when it is first written to, and who writes waits for that: some milliseconds for
//! a huge page, where a virtual machine has to ask its own host for it. Another thread can do it as well.
//!
//! Always true here: nobody waits for that thread. What it has not come to, and what the host cannot do
//! ahead, is made ready when it is written to. Nor does it keep memory that its owner has given back.

use std::ops::Range;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use memmap2::MmapRaw;

/// So many pieces may wait.
const WAITING: usize = 16;

/// Bytes of a map.
type Piece = (Weak<MmapRaw>, Range<usize>);

/// Has another thread make bytes of a map ready, if it is not behind.
pub(crate) fn make_ready(map: &Arc<MmapRaw>, bytes: Range<usize>) {
    static THREAD: OnceLock<Option<SyncSender<Piece>>> = OnceLock::new();
    if let Some(thread) = THREAD.get_or_init(begin) {
        let _ = thread.try_send((Arc::downgrade(map), bytes)); // One that is behind is not worth to wait for.
    }
}

/// Begins the thread; nothing where there can be none.
fn begin() -> Option<SyncSender<Piece>> {
    let (sender, pieces) = sync_channel::<Piece>(WAITING);
    let work = move || {
        for (map, bytes) in pieces {
            if let Some(map) = map.upgrade() {
                populate(&map, bytes);
            }
        }
    };
    let thread = thread::Builder::new().name("memory".into()).spawn(work);
    thread.ok().map(|_| sender)
}

/// Has the host give the memory. What is there already stays as it is.
#[cfg(target_os = "linux")]
fn populate(map: &MmapRaw, bytes: Range<usize>) {
    // Linux can since 5.14.
    let _ = map.advise_range(memmap2::Advice::PopulateWrite, bytes.start, bytes.len());
}

#[cfg(not(target_os = "linux"))]
fn populate(_: &MmapRaw, _: Range<usize>) {}

#[cfg(test)]
mod tests {
    use memmap2::MmapOptions;

    use super::*;

    #[test]
    fn what_was_written_stays() {
        let mut map = MmapOptions::new().len(5 << 12).map_anon().unwrap();
        map.fill(7);
        let map = MmapRaw::from(map);
        populate(&map, 1 << 12..5 << 12);
        // SAFETY: it is ours, and readable.
        let bytes = unsafe { std::slice::from_raw_parts(map.as_ptr(), map.len()) };
        assert!(bytes.iter().all(|&byte| byte == 7));
    }
}
