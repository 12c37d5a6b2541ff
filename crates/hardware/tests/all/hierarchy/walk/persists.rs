//! Persist operations and fences of the walk, and what must be true after them.

use perdure_hardware::core_timing::AccessKind;
use perdure_hardware::line::LineNumber;
use perdure_hardware::persist::{Effect, Fence, Order, Persist, Point};

use super::Walk;

impl Walk<'_> {
    pub(super) fn persist(&mut self, hart: usize, line: LineNumber, effect: Effect) {
        let now = self.now(hart);
        self.model.cache_block = Some(line);
        self.model.cache_block_durable = 0;
        let point = if self.random.once_in(4) {
            Point::Coherence
        } else {
            Point::Persistence
        };
        let order = match self.random.below(3) {
            0 => Order::Stores,
            1 => Order::Line,
            _ => Order::Accesses,
        };
        let persist = Persist {
            point,
            order,
            ..Persist::behind_stores(hart, line, effect)
        };
        let ready = self.hardware.persist(&mut self.model, &persist, now);
        self.model.cache_block = None;
        if point == Point::Persistence {
            self.durable[hart] = self.durable[hart].max(self.model.cache_block_durable);
        }
        let begins = now.max(self.written[hart]);
        assert!(ready >= begins, "{persist:?} was not behind the stores");
        assert!(
            order != Order::Accesses
                || point == Point::Coherence
                || ready >= self.model.cache_block_durable,
            "{persist:?} lets the hart go on early"
        );
        assert!(
            !self.model.line(line).dirty,
            "line {line:#x} stayed dirty after {persist:?}"
        );
        assert!(
            effect == Effect::Clean || self.hardware.llc.find(line).is_none(),
            "line {line:#x} stayed after {persist:?}"
        );
        self.post(hart, AccessKind::Persist(order), now, ready);
    }

    pub(super) fn fence(&mut self, hart: usize) {
        let now = self.now(hart);
        let goes_on = (self.hardware).fence(&mut self.model, hart, Fence::FULL, now);
        assert_eq!(goes_on, self.now(hart), "when the hart goes on");
        assert!(
            self.now(hart) >= self.posted[hart].max(self.durable[hart]),
            "a fence doesn't wait for a store or for a cache-block instruction"
        );
        assert_eq!(
            (self.hardware).fence(&mut self.model, hart, Fence::FULL, goes_on),
            goes_on,
            "a second fence waits for nothing"
        );
    }
}
