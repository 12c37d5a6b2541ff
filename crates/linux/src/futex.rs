//! Futexes: threads waiting for a word in memory to change.

use crate::address_space::Backing;
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, SpaceId, ThreadId};
use crate::syscalls::{Answer, Call, Stop};
use crate::thread::{FutexKey, ThreadState, Wait};

const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_REQUEUE: u64 = 3;
const FUTEX_CMP_REQUEUE: u64 = 4;
const FUTEX_WAKE_OP: u64 = 5;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX_PRIVATE: u64 = 128;
const FUTEX_CLOCK_REALTIME: u64 = 256;

impl Kernel {
    /// What identifies the futex at an address: the file behind a shared mapping, so that two
    /// mappings of one file meet, else the address.
    fn futex_key(&self, space: SpaceId, address: u64, private: bool) -> FutexKey {
        if !private
            && let Some((start, mapping)) = self.spaces[space].find(address)
            && let (true, Backing::File { inode, offset, .. }) = (mapping.shared, mapping.backing)
        {
            return FutexKey::File(inode, offset + (address - start));
        }
        FutexKey::Private(space, address)
    }

    /// Wakes up to `count` waiters whose bits meet `bitset`, first come first served.
    fn futex_wake(&mut self, key: FutexKey, count: u64, bitset: u32) -> u64 {
        let Some(queue) = self.futexes.get(&key) else {
            return 0;
        };
        let meets = |id: &&ThreadId| {
            let state = self.threads.get(id).map(|thread| thread.state);
            matches!(state, Some(ThreadState::Blocked { wait: Wait::Futex { bitset: b, .. }, .. })
                if b & bitset != 0)
        };
        let woken: Vec<ThreadId> = queue
            .iter()
            .filter(meets)
            .take(count as usize)
            .copied()
            .collect();
        for &id in &woken {
            self.unblock(id, Some(0));
        }
        woken.len() as u64
    }

    /// Wakes one waiter of the word at an address, whatever it waits for.
    pub(crate) fn futex_wake_at(&mut self, space: SpaceId, address: u64) {
        let key = self.futex_key(space, address, false);
        self.futex_wake(key, 1, u32::MAX);
    }

    /// Moves up to `count` waiters to another futex without waking them.
    fn futex_move(&mut self, from: FutexKey, to: FutexKey, count: u64) -> u64 {
        let Some(queue) = self.futexes.get_mut(&from) else {
            return 0;
        };
        let moved: Vec<ThreadId> = queue.drain(..queue.len().min(count as usize)).collect();
        if queue.is_empty() {
            self.futexes.remove(&from);
        }
        for &id in &moved {
            if let Some(thread) = self.threads.get_mut(&id)
                && let ThreadState::Blocked {
                    wait: Wait::Futex { key, .. },
                    ..
                } = &mut thread.state
            {
                *key = to;
            }
            self.futexes.entry(to).or_default().push_back(id);
        }
        moved.len() as u64
    }

    fn futex_word(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        address: u64,
    ) -> Result<u32, Errno> {
        if !address.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        self.u32_in(machine, space, address)
    }
}

/// `futex`.
pub(crate) fn futex(call: &mut Call) -> Answer {
    let [address, operation, value, fourth, second_address, sixth] = call.arguments;
    let private = operation & FUTEX_PRIVATE != 0;
    let key = call.kernel.futex_key(call.space, address, private);
    let command = operation & 0x7f & !FUTEX_PRIVATE;
    let bitset = if command == FUTEX_WAIT_BITSET || command == FUTEX_WAKE_BITSET {
        sixth as u32
    } else {
        u32::MAX
    };
    if bitset == 0 {
        return Err(Errno::EINVAL.into());
    }
    match command {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => {
            let deadline = if fourth == 0 {
                None
            } else {
                let time = call.duration_at(fourth)?;
                let absolute = command == FUTEX_WAIT_BITSET;
                let start = call.kernel.settings.clock_start_ns;
                let now = call.machine.clock_ns();
                Some(match (absolute, operation & FUTEX_CLOCK_REALTIME != 0) {
                    (false, _) => now.saturating_add(time),
                    (true, false) => time,
                    (true, true) => time.saturating_sub(start),
                })
            };
            if call.kernel.futex_word(call.machine, call.space, address)? != value as u32 {
                return Err(Errno::EAGAIN.into());
            }
            if deadline.is_some_and(|at| at <= call.machine.clock_ns()) {
                return Err(Errno::ETIMEDOUT.into());
            }
            Err(Stop::Wait(Wait::Futex { key, bitset }, deadline))
        }
        FUTEX_WAKE | FUTEX_WAKE_BITSET => {
            if address % 4 != 0 {
                return Err(Errno::EINVAL.into());
            }
            Ok(call
                .kernel
                .futex_wake(key, value.min(i32::MAX as u64), bitset))
        }
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => {
            if command == FUTEX_CMP_REQUEUE
                && call.kernel.futex_word(call.machine, call.space, address)? != sixth as u32
            {
                return Err(Errno::EAGAIN.into());
            }
            let second = call.kernel.futex_key(call.space, second_address, private);
            let woken = call
                .kernel
                .futex_wake(key, value.min(i32::MAX as u64), u32::MAX);
            let moved = call
                .kernel
                .futex_move(key, second, fourth.min(i32::MAX as u64));
            // FUTEX_REQUEUE tells how many were woken, FUTEX_CMP_REQUEUE both.
            Ok(if command == FUTEX_REQUEUE {
                woken
            } else {
                woken + moved
            })
        }
        FUTEX_WAKE_OP => {
            let second = call.kernel.futex_key(call.space, second_address, private);
            let old = call
                .kernel
                .futex_word(call.machine, call.space, second_address)?;
            let (new, compares) = wake_operation(sixth as u32, old);
            call.kernel
                .copy_out(call.machine, call.space, second_address, &new.to_le_bytes())?;
            let mut woken = call
                .kernel
                .futex_wake(key, value.min(i32::MAX as u64), u32::MAX);
            if compares {
                woken += call
                    .kernel
                    .futex_wake(second, fourth.min(i32::MAX as u64), u32::MAX);
            }
            Ok(woken)
        }
        // The priority-inheriting operations.
        _ => Err(Errno::ENOSYS.into()),
    }
}

/// The new word of `FUTEX_WAKE_OP`, and whether the old one passes the comparison.
fn wake_operation(encoded: u32, old: u32) -> (u32, bool) {
    let sign_extend = |value: u32| ((value << 20) as i32 >> 20) as u32;
    let comparand = sign_extend(encoded & 0xfff);
    let mut operand = sign_extend(encoded >> 12 & 0xfff);
    if encoded >> 31 != 0 {
        operand = 1 << (operand & 31);
    }
    let new = match encoded >> 28 & 7 {
        0 => operand,
        1 => old.wrapping_add(operand),
        2 => old | operand,
        3 => old & !operand,
        _ => old ^ operand,
    };
    let (signed, against) = (old as i32, comparand as i32);
    let compares = match encoded >> 24 & 15 {
        0 => signed == against,
        1 => signed != against,
        2 => signed < against,
        3 => signed <= against,
        4 => signed > against,
        _ => signed >= against,
    };
    (new, compares)
}
