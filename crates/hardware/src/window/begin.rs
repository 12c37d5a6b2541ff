//! The first half of an instruction: it is fetched, dispatched and issued.
//!
//! Always true here: whoever calls knows most often what work it is, and so is with one jump where no other
//! work is thought of.

use super::causes::Cause;
use super::units::Unit;
use super::{AtHand, Instruction, Window, Work};
use crate::time::Cycles;

/// The queue in which an instruction needs an entry, beside those that all of them need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queued {
    No,
    Load,
    Store,
}

impl Window {
    /// Fetches, dispatches and issues an instruction of a hart whose clock stands at `clock`.
    #[inline(always)]
    pub fn begin(&mut self, instruction: Instruction, clock: Cycles) {
        match instruction.work {
            Work::Load => self.begin_load(instruction, clock),
            Work::Store => self.begin_store(instruction, clock),
            Work::Integer | Work::Transfer(_) => self.begin_integer(instruction, clock),
            _ => self.begin_other(instruction, clock),
        }
    }

    #[inline(never)]
    fn begin_load(&mut self, instruction: Instruction, clock: Cycles) {
        let ready = self.dispatch(instruction, clock, Queued::Load);
        let issued = self.units.begin_short(Unit::Load, ready, self.present + 1);
        self.take(instruction, (clock, issued), 0);
    }

    #[inline(never)]
    fn begin_store(&mut self, instruction: Instruction, clock: Cycles) {
        let ready = self.dispatch(instruction, clock, Queued::Store);
        let issued = self.units.begin_short(Unit::Store, ready, self.present + 1);
        self.take(instruction, (clock, issued), 1);
        self.at_hand.line = issued;
    }

    #[inline(never)]
    fn begin_integer(&mut self, instruction: Instruction, clock: Cycles) {
        let ready = self.dispatch(instruction, clock, Queued::No);
        let issued = self
            .units
            .begin_short(Unit::Integer, ready, self.present + 1);
        self.take(instruction, (clock, issued), 1);
    }

    /// What takes its unit for longer, or waits at the head of the reorder buffer.
    #[inline(never)]
    fn begin_other(&mut self, instruction: Instruction, clock: Cycles) {
        let ready = self.dispatch(instruction, clock, Queued::No);
        if let Work::Alone(alone) = instruction.work {
            self.take(instruction, (clock, ready.max(self.committed_at)), 1);
            self.at_hand.alone = Some(alone.cause());
            return;
        }
        let (unit, occupancy, latency) = self.needs(instruction.work);
        let issued = self.units.begin(unit, occupancy, ready, self.present + 1);
        self.take(instruction, (clock, issued), latency);
    }

    /// The instruction is the one at hand, and what it makes is there so long after it is issued.
    #[inline(always)]
    fn take(
        &mut self,
        instruction: Instruction,
        (clock, issued): (Cycles, Cycles),
        latency: Cycles,
    ) {
        self.is_at_work = true;
        self.at_hand = AtHand {
            destination: instruction.destination,
            clock,
            issued,
            complete: issued + latency,
            ..AtHand::NOTHING
        };
    }

    #[inline(always)]
    fn fetch_one(&mut self) {
        if self.fetched == self.core.fetch_width {
            self.fetch += 1;
            self.fetched = 0;
        }
        self.fetch_not_before(self.fetch_queue.next_free(), Cause::FrontEnd);
        self.fetched += 1;
    }

    /// Fetches and dispatches an instruction. Returns when its operands are there.
    #[inline(always)]
    fn dispatch(&mut self, instruction: Instruction, clock: Cycles, queued: Queued) -> Cycles {
        self.stands_at(clock);
        self.fetch_one();
        let next = self.present + Cycles::from(self.dispatched == self.core.dispatch_width);
        let reorder_buffer = self.reorder_buffer.next_free();
        let queue = match queued {
            Queued::No => 0,
            Queued::Load => self.load_queue.next_free(),
            Queued::Store => self.store_queue.next_free(self.present),
        };
        let issue_queue = self.issue_queue.next_free(self.present);
        let at = (next.max(self.fetch).max(reorder_buffer))
            .max(queue)
            .max(issue_queue);
        if at > self.present {
            // Of several that it waits for as long, the first is the cause.
            let cause = match at {
                _ if at == next => Cause::Dispatch,
                _ if at == self.fetch => self.fetch_cause,
                _ if at == reorder_buffer => Cause::ReorderBuffer,
                _ if at == issue_queue && at != queue => Cause::IssueQueue,
                _ if queued == Queued::Load => Cause::LoadQueue,
                _ => Cause::StoreQueue,
            };
            if cause != Cause::Dispatch {
                self.tell(cause, self.present + 1, at);
            }
            self.cycles[Cause::Dispatch as usize] += 1;
            self.cycles[cause as usize] += at - self.present - 1;
            self.present = at;
            self.dispatched = 0;
        }
        self.fetch_cause = Cause::FrontEnd;
        self.dispatched += 1;
        self.fetch_queue.take(self.present);
        let operands = instruction
            .sources
            .map(|from| self.ready[usize::from(from)]);
        operands.into_iter().fold(self.present + 1, Cycles::max)
    }

    /// Unit, time that it is taken, and time until the result.
    fn needs(&self, work: Work) -> (Unit, Cycles, Cycles) {
        let core = &self.core;
        match work {
            Work::Integer | Work::Transfer(_) | Work::Alone(_) => (Unit::Integer, 1, 1),
            Work::Multiply => (Unit::Multiply, 1, core.multiply_cycles),
            Work::Divide => (Unit::Multiply, core.divide_cycles, core.divide_cycles),
            Work::Float => (Unit::Float, 1, core.float_cycles),
            Work::FloatMultiply => (Unit::FloatMultiply, 1, core.float_multiply_cycles),
            Work::FloatDivide => (
                Unit::FloatMultiply,
                core.float_divide_cycles,
                core.float_divide_cycles,
            ),
            Work::Load => (Unit::Load, 1, 0),
            Work::Store => (Unit::Store, 1, 1),
        }
    }
}
