//! Pools between a folder of the host and a machine's persistent memory.
//!
//! Always true here: what the folder gets is what persistent memory has when the power is gone and recovery
//! is done: no cache, no queue outside the persistence domain and no state of the kernel has a part in it.

mod folder;

use std::io;
use std::ops::Range;

use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::time::Cycles;
use perdure_linux::PAGE_BYTES;
use perdure_linux::pools::{Pool, surviving};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::machine::Machine;
use crate::mistakes::Mistake;
use crate::verify;

pub use folder::{Folder, given};

/// Gives a folder, if there is one, what survives when the run is over: the machine is left to itself until
/// its memory is done, and then loses its power. The result says what.
pub fn keep(
    machine: &mut Machine,
    folder: Option<&Folder>,
    result: &mut Map<String, Value>,
) -> Result<(), Error> {
    let at = machine.time().max(machine.hardware.memory.quiet_at());
    let Some(survived) = Survived::cut(machine, at, 0)? else {
        return Ok(());
    };
    if let Some(folder) = folder {
        folder.put(&survived)?;
    }
    let changed = machine.kernel().pools().map(|(_, changed)| changed);
    let told = json!({"survived": survived.to_json(), "not_synchronised": changed});
    result.insert("pools".into(), told);
    Ok(())
}

/// What survived: the memory, and the pools that it has.
#[derive(Debug)]
pub struct Survived {
    memory: Arena,
    pools: Vec<Pool>,
}

impl Survived {
    /// The pools of a memory whose power was cut.
    pub fn of(memory: Arena, addresses: &Range<u64>) -> Result<Self, Error> {
        let pools = surviving(addresses, &mut |address, buffer| {
            buffer.copy_from_slice(&memory.slice(address, buffer.len()));
        });
        let pools = pools.map_err(|error| Error::Defect(format!("after the cut: {error}")))?;
        Ok(Self { memory, pools })
    }

    /// Those of a machine whose power is cut, which is as before then; `None` if it has none.
    pub fn cut(machine: &mut Machine, at: Cycles, tear_seed: u64) -> Result<Option<Self>, Error> {
        let Some((addresses, _)) = machine.kernel().pools() else {
            return Ok(None);
        };
        let mut memory = verify::recovered_image(machine, at, tear_seed)?.memory;
        if machine.mistake == Some(Mistake::ReadsPoolsBack) {
            let overwrite = &mut |line: u64, newest: &Line| {
                memory.write_line(line * LINE_BYTES as u64, newest);
            };
            machine.hardware.newer_lines(&*machine.design, overwrite);
        }
        Self::of(memory, &addresses).map(Some)
    }

    /// All bytes of a pool.
    pub fn bytes(&self, pool: &Pool) -> Vec<u8> {
        let mut bytes = vec![0; pool.size as usize];
        self.each_piece(pool, |offset, piece| {
            bytes[offset as usize..offset as usize + piece.len()].copy_from_slice(piece);
            Ok(())
        })
        .expect("nothing refuses a piece");
        bytes
    }

    /// The pools.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Calls `take(offset, bytes)` for what a pool's pages have within its length.
    fn each_piece(
        &self,
        pool: &Pool,
        mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for extent in &pool.extents {
            for number in 0..extent.pages {
                let offset = (extent.page + number) * PAGE_BYTES;
                let length = pool.size.saturating_sub(offset).min(PAGE_BYTES);
                let frame = (extent.frame + number) * PAGE_BYTES;
                take(offset, &self.memory.slice(frame, length as usize))?;
            }
        }
        Ok(())
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let pool = |pool: &Pool| json!({"name": pool.name, "size": pool.size});
        self.pools.iter().map(pool).collect()
    }
}
