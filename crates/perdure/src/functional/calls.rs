//! Functions whose calls are operations, as if they had said so themselves.
//!
//! A thread of Go is a goroutine, which the hart's register g points to: its stack grows by moving, so that
//! what stays is how far a call is from the stack's upper end; and it runs on whichever thread of the kernel.
//!
//! Always true here: a thread has one such call under way at most, the outermost; it is over where the hart
//! comes to its return address, as deep in the stack as it was at the entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use perdure_linux::ThreadId;
use perdure_riscv::{Class, Hart, Mark};

const RETURN_ADDRESS: usize = 1;
const STACK_POINTER: usize = 2;
/// Go's g, and where the upper end of its stack stands there.
const GOROUTINE: usize = 27;
const UPPER_END: u64 = 8;
/// Numbers of goroutines begin behind those of the kernel's threads.
const GOROUTINES: u32 = 1 << 30;

/// A call that is under way.
#[derive(Clone, Copy, Debug)]
struct Activation {
    /// Where it returns to.
    back: u64,
    /// How deep the stack is at its entry, and behind its return.
    depth: u64,
}

/// Functions of a program's file whose calls are operations.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// Where they begin in the file.
    pub entries: Vec<u64>,
    /// The program is in Go.
    pub of_go: bool,
}

/// Which functions, and who is in one.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Where they begin, in order.
    entries: Arc<[u64]>,
    /// In the order in which they were seen, by their addresses, if the program is in Go.
    goroutines: Option<BTreeMap<u64, u32>>,
    under_way: BTreeMap<ThreadId, Activation>,
    /// Where something happens if a hart comes there: all entries and return addresses, in order.
    watched: Vec<u64>,
    begun: u64,
}

/// How a hart has come to a watched address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// By a call, and not by a jump or a return.
    by_call: bool,
}

impl Calls {
    /// Calls of functions of a file that is loaded so far behind its own addresses.
    pub fn of(functions: &Functions, bias: u64) -> Self {
        let entries = functions.entries.iter();
        let mut entries: Vec<u64> = entries.map(|entry| entry.wrapping_add(bias)).collect();
        entries.sort_unstable();
        entries.dedup();
        Self {
            watched: entries.clone(),
            entries: entries.into(),
            goroutines: functions.of_go.then(BTreeMap::new),
            ..Self::default()
        }
    }

    /// True if no function is watched.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether something happens where an instruction of that class leads to.
    #[inline(always)]
    pub fn arrives(&self, class: Class, target: u64) -> Option<Arrival> {
        if self.watched.is_empty() || self.watched.binary_search(&target).is_err() {
            return None;
        }
        let by_call = matches!(class, Class::Call | Class::IndirectCall);
        Some(Arrival { by_call })
    }

    /// Where what tells how deep a stack is stands in memory, if it is there.
    pub fn upper_end(&self, hart: &Hart) -> Option<u64> {
        let goroutine = hart.x[GOROUTINE];
        (self.goroutines.is_some()).then_some(goroutine.wrapping_add(UPPER_END))
    }

    /// Whose stack a thread of the kernel is on.
    fn strand(&mut self, thread: ThreadId, hart: &Hart) -> ThreadId {
        let Some(goroutines) = &mut self.goroutines else {
            return thread;
        };
        let next = GOROUTINES + goroutines.len() as u32;
        let number = goroutines.entry(hart.x[GOROUTINE]).or_insert(next);
        ThreadId(*number)
    }

    /// What that is, and of which thread, where a hart has come there whose stack begins below this address.
    pub fn mark(
        &mut self,
        thread: ThreadId,
        (hart, upper_end): (&Hart, u64),
        arrival: Arrival,
    ) -> Option<(Mark, ThreadId)> {
        let thread = self.strand(thread, hart);
        let depth = upper_end.wrapping_sub(hart.x[STACK_POINTER]);
        let open = self.under_way.get(&thread).copied();
        if let Some(open) = open
            && (open.back, open.depth) == (hart.pc, depth)
            && !arrival.by_call
        {
            self.under_way.remove(&thread);
            self.watch();
            return Some((Mark::OperationEnds, thread));
        }
        // Deeper calls are part of the one under way, as are jumps. One that is not deeper says that the one
        // under way was left in another way.
        let begins = match open {
            None => true,
            Some(open) => arrival.by_call && depth <= open.depth,
        };
        if self.entries.binary_search(&hart.pc).is_err() || !begins {
            return None;
        }
        let back = hart.x[RETURN_ADDRESS];
        self.under_way.insert(thread, Activation { back, depth });
        self.watch();
        let number = self.begun;
        self.begun += 1;
        Some((Mark::OperationBegins { number }, thread))
    }

    fn watch(&mut self) {
        let back = self.under_way.values().map(|one| one.back);
        self.watched = self.entries.iter().copied().chain(back).collect();
        self.watched.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Class = Class::Call;
    const THREAD: ThreadId = ThreadId(1);

    fn come(calls: &mut Calls, class: Class, [pc, back, stack]: [u64; 3]) -> Option<Mark> {
        let mut hart = Hart::default();
        (hart.pc, hart.x[1], hart.x[2]) = (pc, back, stack);
        let arrival = calls.arrives(class, pc)?;
        let (mark, thread) = calls.mark(THREAD, (&hart, u64::MAX), arrival)?;
        assert_eq!(thread, THREAD);
        Some(mark)
    }

    fn calls_of(entries: &[u64]) -> Calls {
        let entries = entries.to_vec();
        let of_go = false;
        Calls::of(&Functions { entries, of_go }, 0)
    }

    const FIRST: Option<Mark> = Some(Mark::OperationBegins { number: 0 });
    const SECOND: Option<Mark> = Some(Mark::OperationBegins { number: 1 });

    #[test]
    fn the_outermost_call_is_the_operation() {
        let mut calls = calls_of(&[0x200, 0x100]);
        assert_eq!(come(&mut calls, CALL, [0x100, 0x14, 1000]), FIRST);
        // It calls itself, and another one, and jumps to its beginning.
        assert_eq!(come(&mut calls, CALL, [0x100, 0x120, 900]), None);
        assert_eq!(come(&mut calls, CALL, [0x200, 0x124, 800]), None);
        assert_eq!(come(&mut calls, Class::Jump, [0x100, 0x14, 1000]), None);
        // A deeper call from the same place comes back there, too.
        assert_eq!(come(&mut calls, Class::Return, [0x14, 0x14, 900]), None);
        let over = come(&mut calls, Class::Return, [0x14, 0x14, 1000]);
        assert_eq!(over, Some(Mark::OperationEnds));
        assert_eq!(come(&mut calls, Class::Return, [0x14, 0x14, 1000]), None);
        assert_eq!(come(&mut calls, CALL, [0x200, 0x18, 1000]), SECOND);
    }

    #[test]
    fn a_call_that_was_left_by_a_long_jump_has_not_ended() {
        let mut calls = calls_of(&[0x100]);
        assert_eq!(come(&mut calls, CALL, [0x100, 0x14, 1000]), FIRST);
        assert_eq!(come(&mut calls, CALL, [0x100, 0x14, 1000]), SECOND);
    }

    #[test]
    fn a_jump_from_another_function_is_a_call_for_its_caller() {
        let mut calls = calls_of(&[0x100]);
        assert_eq!(come(&mut calls, Class::Jump, [0x100, 0x14, 1000]), FIRST);
        let over = come(&mut calls, Class::Return, [0x14, 0x14, 1000]);
        assert_eq!(over, Some(Mark::OperationEnds));
    }

    #[test]
    fn the_stack_of_a_goroutine_may_move() {
        let functions = Functions {
            entries: vec![0x100],
            of_go: true,
        };
        let mut calls = Calls::of(&functions, 0x1000);
        let mut come = |class, pc, stack, upper_end| {
            let mut hart = Hart::default();
            (hart.pc, hart.x[1], hart.x[2], hart.x[27]) = (pc, 0x14, stack, 0x5000);
            let arrival = calls.arrives(class, pc)?;
            calls.mark(THREAD, (&hart, upper_end), arrival)
        };
        let goroutine = ThreadId(GOROUTINES);
        let begins = come(CALL, 0x1100, 900, 1000);
        assert_eq!(
            begins,
            Some((Mark::OperationBegins { number: 0 }, goroutine))
        );
        assert_eq!(come(Class::Indirect, 0x1100, 9900, 10000), None);
        let ends = come(Class::Return, 0x14, 9900, 10000);
        assert_eq!(ends, Some((Mark::OperationEnds, goroutine)));
    }
}
