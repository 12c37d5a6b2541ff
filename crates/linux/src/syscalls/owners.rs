//! Who is told of an open file's news: `F_SETOWN` and its kin.

use super::{Answer, Call};
use crate::errno::Errno;
use crate::machine::ThreadId;
use crate::owners::Owner;
use crate::process::ProcessId;
use crate::vfs::descriptor::{O_ASYNC, Object};

/// A terminal that is to tell of input has an owner from then on: who is in the foreground, else who
/// asked.
pub(crate) fn own_terminal(call: &mut Call, number: u64) -> Result<(), Errno> {
    let id = call.descriptor(number)?.file;
    let file = call.file(number)?;
    let Object::Terminal {
        terminal, master, ..
    } = file.object
    else {
        return Ok(());
    };
    if file.flags & O_ASYNC == 0 {
        return Ok(());
    }
    let foreground = call.kernel.open.terminals.get(terminal);
    let foreground = foreground.map_or(0, |terminal| terminal.foreground);
    let owner = match foreground {
        group if group != 0 && !master => Owner::Group(group),
        _ => Owner::Process(call.process),
    };
    call.kernel.rare.owners.entry(id).or_insert(owner);
    Ok(())
}

/// `F_SETOWN`: a process, or a group as its negative number.
pub(crate) fn set_owner(call: &mut Call, number: u64, who: i32) -> Answer {
    let file = call.descriptor(number)?.file;
    let wished = who.unsigned_abs();
    if who == i32::MIN {
        return Err(Errno::EINVAL.into());
    }
    let processes = &call.kernel.processes;
    let owner = if who >= 0 {
        let id = ProcessId(wished);
        let lives = processes.live.contains_key(&id);
        // One that has ended and is not waited for is there, but hears nothing any more.
        if who > 0 && !processes.exists(id) {
            return Err(Errno::ESRCH.into());
        }
        lives.then_some(Owner::Process(id))
    } else {
        let mut live = processes.live.values();
        if !live.any(|process| process.group == wished) {
            return Err(Errno::ESRCH.into());
        }
        Some(Owner::Group(wished))
    };
    set_or_clear(call, file, owner);
    Ok(0)
}

fn set_or_clear(call: &mut Call, file: u32, owner: Option<Owner>) {
    let owners = &mut call.kernel.rare.owners;
    match owner {
        Some(owner) => {
            owners.insert(file, owner);
        }
        None => {
            owners.remove(&file);
        }
    }
}

/// `F_GETOWN`: the number that `F_SETOWN` takes, and 0 for nobody.
pub(crate) fn owner_number(call: &Call, number: u64) -> Result<i64, Errno> {
    let file = call.descriptor(number)?.file;
    Ok(match call.kernel.rare.owners.get(&file) {
        None => 0,
        Some(Owner::Thread(id)) => i64::from(id.0),
        Some(Owner::Process(id)) => i64::from(id.0),
        Some(Owner::Group(group)) => -i64::from(*group),
    })
}

const F_OWNER_TID: u32 = 0;
const F_OWNER_PID: u32 = 1;
const F_OWNER_PGRP: u32 = 2;

/// `F_SETOWN_EX`.
pub(crate) fn set_owner_exactly(call: &mut Call, number: u64, address: u64) -> Answer {
    let kind = call.read_u32(address)?;
    let who = call.read_u32(address.wrapping_add(4))? as i32;
    match (kind, who) {
        (F_OWNER_TID, 1..) => {
            let file = call.descriptor(number)?.file;
            let thread = ThreadId(who as u32);
            if !call.kernel.threads.contains_key(&thread) {
                return Err(Errno::ESRCH.into());
            }
            set_or_clear(call, file, Some(Owner::Thread(thread)));
            Ok(0)
        }
        (F_OWNER_PGRP, 1..) => set_owner(call, number, -who),
        (F_OWNER_PID, 0..) | (F_OWNER_TID | F_OWNER_PGRP, 0) => set_owner(call, number, who),
        (F_OWNER_TID..=F_OWNER_PGRP, _) => Err(Errno::ESRCH.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `F_GETOWN_EX`.
pub(crate) fn owner_exactly(call: &mut Call, number: u64, address: u64) -> Answer {
    let file = call.descriptor(number)?.file;
    let (kind, who) = match call.kernel.rare.owners.get(&file) {
        None => (F_OWNER_TID, 0),
        Some(Owner::Thread(id)) => (F_OWNER_TID, id.0),
        Some(Owner::Process(id)) => (F_OWNER_PID, id.0),
        Some(Owner::Group(group)) => (F_OWNER_PGRP, *group),
    };
    call.write(address, &kind.to_le_bytes())?;
    call.write(address.wrapping_add(4), &who.to_le_bytes())?;
    Ok(0)
}
