//! What a machine shows: threads, their registers, memory as they see it.
//!
//! Always true here: looking costs the machine nothing and changes nothing.

use perdure_hardware::line::{LINE_BYTES, line_of};
use perdure_linux::inspect::PageView;
use perdure_linux::{PAGE_BYTES, SpaceId};
use perdure_riscv::Instruction;

use crate::machine::Machine;

/// The registers that gdb sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    pub x: [u64; 32],
    pub f: [u64; 32],
    pub pc: u64,
    pub fcsr: u32,
    /// `cycle`, `time` and `instret` of the hart that it is on, else zeros.
    pub counters: [u64; 3],
}

/// All threads by process, each with the guest path of the program that it runs.
pub(super) fn threads(machine: &Machine) -> Vec<(u32, String)> {
    let processes = machine.kernel().live_processes().into_iter();
    let threads = processes.flat_map(|process| {
        let executable = process.executable;
        let threads = process.threads.into_iter();
        threads.map(move |thread| (thread.id, executable.clone()))
    });
    threads.collect()
}

/// The hart that a thread is on.
pub(super) fn hart_of(machine: &Machine, thread: u32) -> Option<usize> {
    let mut harts = machine.contexts();
    harts.position(|hart| (hart.running).is_some_and(|running| running.thread.0 == thread))
}

/// A thread's registers: those of the hart that it is on, else the saved ones.
pub(super) fn registers(machine: &Machine, thread: u32) -> Option<Registers> {
    if let Some(number) = hart_of(machine, thread) {
        let hart = machine.registers(number);
        let clock = machine.hart_clock_ns(number);
        return Some(Registers {
            x: hart.x,
            f: hart.f,
            pc: hart.pc,
            fcsr: hart.fcsr,
            counters: [machine.clock(number), clock, hart.retired],
        });
    }
    let view = machine.kernel().thread_view(thread)?;
    Some(Registers {
        x: view.x,
        f: view.f,
        pc: view.pc,
        fcsr: view.fcsr,
        counters: [0; 3],
    })
}

/// Where a thread is.
pub(super) fn pc_of(machine: &Machine, thread: u32) -> Option<u64> {
    match hart_of(machine, thread) {
        Some(hart) => Some(machine.registers(hart).pc),
        None => machine.kernel().thread_pc(thread),
    }
}

/// Where a thread lives.
pub(super) fn space_of(machine: &Machine, thread: u32) -> Option<SpaceId> {
    machine.kernel().space_of_thread(thread)
}

/// The physical address of a program's, if it has a frame.
pub(super) fn physical(machine: &Machine, space: SpaceId, address: u64) -> Option<u64> {
    match machine.kernel().page(space, address / PAGE_BYTES)? {
        PageView::Frame { frame, .. } => Some(frame * PAGE_BYTES + address % PAGE_BYTES),
        PageView::Untouched(_) | PageView::Elsewhere => None,
    }
}

/// Reads a program's memory through the caches, as far as it is mapped; returns how many bytes that was.
pub(super) fn read(machine: &Machine, space: SpaceId, address: u64, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        let Some(at) = address.checked_add(done as u64) else {
            break;
        };
        let in_page = (PAGE_BYTES - at % PAGE_BYTES) as usize;
        let length = in_page.min(bytes.len() - done);
        let Some(page) = machine.kernel().page(space, at / PAGE_BYTES) else {
            break;
        };
        let offset = (at % PAGE_BYTES) as usize;
        let part = &mut bytes[done..done + length];
        match page {
            PageView::Elsewhere => break,
            PageView::Untouched(held) => {
                for (place, byte) in part.iter_mut().enumerate() {
                    *byte = held.get(offset + place).copied().unwrap_or(0);
                }
            }
            PageView::Frame { frame, bytes: held } => {
                let first = frame * PAGE_BYTES;
                if machine.hardware.memory.map().is_device(first) {
                    break; // A device answers loads, and a look is none.
                }
                read_physical(machine, first + offset as u64, part);
                let shown = (held as usize).saturating_sub(offset).min(part.len());
                part[shown..].fill(0);
            }
        }
        done += length;
    }
    done
}

/// Reads physical memory, the newest bytes wherever they are.
fn read_physical(machine: &Machine, physical: u64, bytes: &mut [u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let at = physical + done as u64;
        let offset = (at % LINE_BYTES as u64) as usize;
        let length = (LINE_BYTES - offset).min(bytes.len() - done);
        let line = machine.hardware.peek(&*machine.design, line_of(at));
        bytes[done..done + length].copy_from_slice(&line.0[offset..offset + length]);
        done += length;
    }
}

/// So many bytes of one page of a file in persistent memory, by the guest's path.
pub(super) fn read_file(
    machine: &Machine,
    path: &str,
    offset: u64,
    length: usize,
) -> Option<Vec<u8>> {
    let frame = (machine.kernel()).file_frame(path, offset / PAGE_BYTES)?;
    let physical = frame * PAGE_BYTES + offset % PAGE_BYTES;
    let mut bytes = vec![0; length];
    read_physical(machine, physical, &mut bytes);
    machine.hardware.memory.keeps(physical).then_some(bytes)
}

/// The addresses of the instructions of the block that begins there; see `perdure_riscv::plain` for what a
/// block is.
pub(super) fn block(machine: &Machine, space: SpaceId, pc: u64) -> Vec<u64> {
    let line_end = (pc | (LINE_BYTES as u64 - 1)) + 1;
    let mut addresses = vec![pc];
    let mut at = pc;
    loop {
        let mut bits = [0; 4];
        if read(machine, space, at, &mut bits) < 2 {
            return addresses;
        }
        let Some(instruction) = Instruction::decode(u32::from_le_bytes(bits)) else {
            return addresses;
        };
        let next = at + u64::from(instruction.length);
        if instruction.operation.ends_block() || next >= line_end {
            return addresses;
        }
        // One that reaches into the next line is a block of its own.
        let straddles = next + 2 == line_end && {
            let mut parcel = [0; 2];
            read(machine, space, next, &mut parcel) == 2 && parcel[0] & 3 == 3
        };
        if straddles {
            return addresses;
        }
        addresses.push(next);
        at = next;
    }
}
