//! The second half of an instruction: it commits, and leaves what it held.
//!
//! Always true here: whoever calls knows most often what work it is, as at its beginning.

use super::causes::Cause;
use super::{AtHand, Transfer, Window, Work};
use crate::time::Cycles;

impl Window {
    /// The instruction at hand, which was that work, has been carried out; `behind` is the address behind it,
    /// which it left for `target` if it did. Returns how far the present went on since it began, and when
    /// what it stored is written; 0 if it stored nothing.
    #[inline(always)]
    pub fn end(&mut self, work: Work, behind: u64, target: Option<u64>) -> (Cycles, Cycles) {
        match work {
            Work::Transfer(transfer) => (self.end_transfer(transfer, behind, target), 0),
            Work::Load | Work::Store | Work::Alone(_) => self.end_access(work),
            _ => (self.end_other(), 0),
        }
    }

    /// What computes from registers alone.
    #[inline(never)]
    fn end_other(&mut self) -> Cycles {
        self.retire();
        self.present - self.at_hand.clock
    }

    #[inline(never)]
    fn end_transfer(&mut self, transfer: Transfer, behind: u64, target: Option<u64>) -> Cycles {
        self.retire();
        self.resolve(transfer, self.at_hand.complete, behind, target);
        self.present - self.at_hand.clock
    }

    #[inline(never)]
    fn end_access(&mut self, work: Work) -> (Cycles, Cycles) {
        let committed = self.retire();
        if work == Work::Load {
            self.load_queue.take(committed);
        }
        let AtHand {
            line,
            alone,
            clock,
            complete,
            ..
        } = self.at_hand;
        let mut written = 0;
        if line > 0 {
            written = self.write(committed.max(line));
            if work == Work::Store {
                self.store_queue.take(written);
            }
        }
        if let Some(cause) = alone {
            self.counts.head_stalls += 1;
            if complete > self.present {
                self.advance(complete, cause);
            }
        }
        (self.present - clock, written)
    }

    /// The instruction at hand leaves the queues that all pass through. Returns when it commits.
    #[inline(always)]
    fn retire(&mut self) -> Cycles {
        self.is_at_work = false;
        let AtHand {
            destination,
            issued,
            complete,
            ..
        } = self.at_hand;
        self.ready[usize::from(destination)] = complete;
        let committed = self.commit(complete);
        self.issue_queue.take(issued);
        self.reorder_buffer.take(committed);
        committed
    }

    #[inline(always)]
    pub(super) fn commit(&mut self, complete: Cycles) -> Cycles {
        if complete > self.committed_at {
            self.committed_at = complete;
            self.committed = 0;
        } else if self.committed == self.core.commit_width {
            self.committed_at += 1;
            self.committed = 0;
        }
        self.committed += 1;
        self.committed_at
    }

    fn resolve(&mut self, transfer: Transfer, at: Cycles, behind: u64, target: Option<u64>) {
        self.counts.transfers += 1;
        if !self.predictor.predict(transfer, behind, target) {
            self.counts.mispredicts += 1;
            self.fetch_not_before(at + self.core.front_end_cycles, Cause::Mispredict);
        } else if target.is_some() {
            self.fetch += 1;
            self.fetched = 0;
        }
    }
}
