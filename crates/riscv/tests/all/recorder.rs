//! A memory that records every call, keeps lines in an instruction cache that may go stale or lose them at
//! any time, faults on unmapped addresses, stalls (lowers the limit) now and then, and knows some persistence
//! functions.

use crate::common::Random;
use perdure_riscv::{
    Access, Amo, Barrier, CacheBlock, Class, Fault, FetchedLine, Mark, Memory, Observed, Scalar,
};

pub const BASE: u64 = 0x2000;
pub const LINE: u64 = 64;

/// A call to memory as an observer behind it would see it: a fetch that was answered from an
/// engine's own copy is a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Fetch(u64),
    Load(u64, usize),
    Store(u64, u64, usize),
    LoadReserved(u64, usize),
    StoreConditional(u64, u64, usize),
    Atomic(Amo, u64, u64, usize),
    CacheBlock(CacheBlock, u64),
    Fence(u8, u8),
    NonTemporal(u64, u64),
    Barrier(Barrier),
    FenceInstruction,
    Mark(Mark),
    Persistence(u16, [u64; 2]),
    Begins(Observed),
    /// The address behind an instruction that may transfer control, and where it went.
    Ends(Option<u64>, Option<u64>),
}

#[derive(Clone)]
pub struct Recorder<const OBSERVES: bool = false> {
    pub bytes: Vec<u8>,
    /// What the instruction cache holds, and a number that changes whenever that changes.
    pub cached: Vec<Option<([u8; 64], u64)>>,
    pub fills: u64,
    /// Stores reach the instruction cache at once.
    pub coherent: bool,
    pub calls: Vec<(Call, u64)>,
    pub limit: u64,
    pub reservation: Option<u64>,
    /// Answers `fetch_again` with no for no reason, once in that many times.
    pub forgetful: Random,
    /// The instruction that began last.
    pub observed: Option<Observed>,
}

impl<const OBSERVES: bool> Recorder<OBSERVES> {
    pub fn new(bytes: Vec<u8>, coherent: bool, limit: u64) -> Self {
        Self {
            cached: vec![None; bytes.len() / LINE as usize],
            bytes,
            fills: 0,
            coherent,
            calls: Vec::new(),
            limit,
            reservation: None,
            forgetful: Random::new(7),
            observed: None,
        }
    }

    fn note(&mut self, call: Call, retired: u64) {
        self.calls.push((call, retired));
        // Some accesses stall: the same ones for both engines.
        let stalls = matches!(call, Call::Load(address, _) | Call::Store(address, ..)
            if address % 13 == 0);
        if stalls {
            self.limit = self.limit.saturating_sub(3);
        }
    }

    fn place(&self, address: u64, length: usize, access: Access) -> Result<usize, Fault> {
        let offset = address.wrapping_sub(BASE);
        let end = self.bytes.len() as u64;
        if offset < end && offset + length as u64 <= end {
            Ok(offset as usize)
        } else {
            let address = if offset < end { BASE + end } else { address };
            Err(Fault { access, address })
        }
    }

    fn value<T: Scalar>(&self, place: usize) -> T {
        T::from_le(&self.bytes[place..place + T::BYTES])
    }

    fn put<T: Scalar>(&mut self, place: usize, value: T) {
        let bytes = value.to_u64().to_le_bytes();
        self.bytes[place..place + T::BYTES].copy_from_slice(&bytes[..T::BYTES]);
        if self.coherent {
            let line = LINE as usize;
            for number in place / line..=(place + T::BYTES - 1) / line {
                self.cached[number] = None;
            }
        }
    }
}

impl<const OBSERVES: bool> Memory for Recorder<OBSERVES> {
    type FetchHint = u64;

    const OBSERVES: bool = OBSERVES;

    fn begins(&mut self, observed: Observed, retired: u64) {
        self.note(Call::Begins(observed), retired);
        self.observed = Some(observed);
    }

    fn ends(&mut self, class: Class, behind: u64, target: Option<u64>) {
        if OBSERVES {
            use Class::{Branch, Call as Calls, Indirect, IndirectCall, Jump, Return};
            let begun = self.observed.take().expect("it has begun");
            assert_eq!(class, begun.class);
            let transfers = [Branch, Calls, Indirect, IndirectCall, Jump, Return];
            let behind = transfers.contains(&class).then_some(behind);
            self.note(Call::Ends(behind, target), 0);
        }
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn load<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        self.note(Call::Load(address, T::BYTES), retired);
        Ok(self.value(self.place(address, T::BYTES, Access::Load)?))
    }

    fn store<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> Result<(), Fault> {
        self.note(Call::Store(address, value.to_u64(), T::BYTES), retired);
        let place = self.place(address, T::BYTES, Access::Store)?;
        self.put(place, value);
        Ok(())
    }

    fn load_hit<T: Scalar>(&mut self, address: u64, retired: u64) -> Option<T> {
        let hits =
            !address.is_multiple_of(3) && self.place(address, T::BYTES, Access::Load).is_ok();
        hits.then(|| self.load(address, retired).ok()).flatten()
    }

    fn store_hit<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> bool {
        let hits =
            !address.is_multiple_of(3) && self.place(address, T::BYTES, Access::Store).is_ok();
        hits && self.store(address, value, retired).is_ok()
    }

    fn fetch(&mut self, pc: u64, retired: u64) -> Result<FetchedLine<'_, u64>, Fault> {
        self.note(Call::Fetch(pc), retired);
        let place = self.place(pc, 2, Access::Fetch)? & !(LINE as usize - 1);
        let line = &mut self.cached[place / LINE as usize];
        let &mut (ref bytes, hint) = line.get_or_insert_with(|| {
            let mut bytes = [0; 64];
            bytes.copy_from_slice(&self.bytes[place..place + LINE as usize]);
            self.fills += 1;
            (bytes, self.fills)
        });
        Ok(FetchedLine { bytes, hint })
    }

    fn fetch_again(&mut self, pc: u64, hint: u64, retired: u64) -> bool {
        let Ok(place) = self.place(pc, 2, Access::Fetch) else {
            return false;
        };
        let same = self.cached[place / LINE as usize].is_some_and(|(_, number)| number == hint);
        let answer = same && !self.forgetful.once_in(8);
        if answer {
            self.note(Call::Fetch(pc), retired);
        }
        answer
    }

    fn load_reserved<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        self.note(Call::LoadReserved(address, T::BYTES), retired);
        let place = self.place(address, T::BYTES, Access::Load)?;
        self.reservation = Some(address / LINE);
        Ok(self.value(place))
    }

    fn store_conditional<T: Scalar>(
        &mut self,
        address: u64,
        value: T,
        retired: u64,
    ) -> Result<bool, Fault> {
        self.note(
            Call::StoreConditional(address, value.to_u64(), T::BYTES),
            retired,
        );
        let place = self.place(address, T::BYTES, Access::Store)?;
        let stands = self.reservation.take() == Some(address / LINE);
        if stands {
            self.put(place, value);
        }
        Ok(stands)
    }

    fn atomic<T: Scalar>(
        &mut self,
        operation: Amo,
        address: u64,
        operand: T,
        retired: u64,
    ) -> Result<T, Fault> {
        self.note(
            Call::Atomic(operation, address, operand.to_u64(), T::BYTES),
            retired,
        );
        let place = self.place(address, T::BYTES, Access::Store)?;
        let old = self.value(place);
        self.put(place, operation.apply(old, operand));
        Ok(old)
    }

    fn cache_block(
        &mut self,
        operation: CacheBlock,
        address: u64,
        retired: u64,
    ) -> Result<(), Fault> {
        self.note(Call::CacheBlock(operation, address), retired);
        self.place(address, 1, Access::Store).map(|_| ())
    }

    fn store_non_temporal(&mut self, address: u64, value: u64, retired: u64) -> Result<(), Fault> {
        self.note(Call::NonTemporal(address, value), retired);
        let place = self.place(address, 8, Access::Store)?;
        self.put(place, value);
        Ok(())
    }

    fn barrier(&mut self, barrier: Barrier, retired: u64) {
        self.note(Call::Barrier(barrier), retired);
    }

    fn fence(&mut self, predecessor: u8, successor: u8, retired: u64) {
        self.note(Call::Fence(predecessor, successor), retired);
    }

    fn mark(&mut self, mark: Mark, retired: u64) -> Result<(), Fault> {
        self.note(Call::Mark(mark), retired);
        match mark {
            Mark::Atomic { start, .. } => self.place(start, 1, Access::Load).map(|_| ()),
            Mark::OperationBegins { .. } | Mark::OperationEnds => Ok(()),
        }
    }

    fn fence_instruction(&mut self, retired: u64) {
        self.note(Call::FenceInstruction, retired);
        self.cached.fill(None);
    }

    fn persistence(
        &mut self,
        function: u16,
        operands: [u64; 2],
        retired: u64,
    ) -> Result<Option<u64>, Fault> {
        self.note(Call::Persistence(function, operands), retired);
        Ok(function
            .is_multiple_of(2)
            .then_some(operands[0] ^ operands[1]))
    }

    fn cycle(&self, retired: u64) -> u64 {
        retired * 3 + 1
    }

    fn time(&self, retired: u64) -> u64 {
        retired / 10
    }
}
