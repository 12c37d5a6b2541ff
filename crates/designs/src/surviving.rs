//! What a recovery procedure gets: the bytes that survived, and nothing else.
//!
//! Reads and writes go to the image. Every write is a step; the verifier can have the power fail
//! again at any step, which tears that write and makes it return [`Interrupted::PowerLost`]. Or it looks
//! what a cut at each of many steps would leave ([`Surviving::seen_at`]): recovery then goes on.
//!
//! Where programs work in DRAM, recovery also loads lines into it. They appear at their home
//! addresses, as everything that the DRAM holds does, but are no writes to the NVM: what that has
//! there is remembered apart, because the next power cut brings it back.
//!
//! What recovery takes can be measured ([`Surviving::timed`]): every read and write is charged.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use perdure_hardware::arena::Arena;
use perdure_hardware::device::{PowerLost, Recovery, SurvivingBytes};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, lines_of};
use perdure_hardware::memory::{Memory, Tear};
use perdure_hardware::recovery_clock::{RecoveryClock, RecoveryCost};

pub use crate::journal::{Journal, Left};

/// A surviving image that recovery refuses to trust.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the surviving image is corrupt: {what} (at {address:#x})")]
pub struct Corruption {
    /// What does not hold.
    pub what: &'static str,
    /// Where.
    pub address: u64,
}

/// Why recovery did not finish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// The power failed again; recovery runs once more on what survived that.
    #[error("the power failed during recovery")]
    PowerLost,
    /// The image is damaged.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// Whoever recovers has a defect, which says this of itself.
    #[error("recovery has a defect: it {0}")]
    Panicked(String),
}

/// The surviving bytes, writable, with a journal that can put everything back.
pub struct Surviving<'a> {
    arena: &'a mut Arena,
    pools: Vec<Range<u64>>,
    journal: Journal,
    steps: u64,
    /// Steps at which the power fails, the last one first.
    cuts: Vec<(u64, Tear)>,
    /// The first of them that is still to come: every write asks.
    next_cut: u64,
    onlooker: Option<Onlooker<'a>>,
    loaded: BTreeMap<LineNumber, Line>,
    clock: Option<RefCell<RecoveryClock>>,
}

/// Gets the step of a cut and what survives it, and leaves that as it was.
pub type Onlooker<'a> = &'a mut dyn FnMut(u64, &mut Arena);

/// No step.
const NEVER: u64 = u64::MAX;

impl<'a> Surviving<'a> {
    /// An image whose power stays on. Its kept digest is brought up to date when the borrow ends, by
    /// [`Self::into_journal`] or [`Self::into_parts`].
    pub fn new(arena: &'a mut Arena) -> Self {
        Self::with_journal(arena, Journal::default())
    }

    /// The same, using the memory of an undone journal.
    pub fn with_journal(arena: &'a mut Arena, mut journal: Journal) -> Self {
        journal.begin(arena.len(), arena.take_digest());
        Self {
            arena,
            pools: Vec::new(),
            journal,
            steps: 0,
            cuts: Vec::new(),
            next_cut: NEVER,
            onlooker: None,
            loaded: BTreeMap::new(),
            clock: None,
        }
    }

    /// What survived of a machine's memory, with its pools where its map has them; using the memory of an
    /// undone journal.
    pub fn of(memory: &'a mut Memory, journal: Journal) -> Self {
        let pools = memory.map().pools().collect();
        Self::with_journal(&mut memory.arena, journal).with_pools(pools)
    }

    /// The same image, of a machine that has such pools.
    #[must_use]
    pub fn with_pools(mut self, pools: Vec<Range<u64>>) -> Self {
        self.pools = pools;
        self
    }

    /// Where the machine has persistent memory beside that in which programs live.
    pub fn pools(&self) -> &[Range<u64>] {
        &self.pools
    }

    /// Charges every read and write to a clock.
    #[must_use]
    pub fn timed(mut self, clock: RecoveryClock) -> Self {
        self.clock = Some(RefCell::new(clock));
        self
    }

    /// What recovery has taken so far, by its clock.
    pub fn cost(&self) -> RecoveryCost {
        let clock = self.clock.as_ref().map(RefCell::borrow);
        clock.map_or_else(RecoveryCost::default, |clock| clock.cost())
    }

    #[inline]
    fn charge(&self, how: impl FnOnce(&mut RecoveryClock)) {
        if let Some(clock) = &self.clock {
            how(&mut clock.borrow_mut());
        }
    }

    /// Lets the power fail at a step (0 is the first write).
    #[must_use]
    pub fn failing_at(mut self, step: u64, tear: Tear) -> Self {
        self.cuts = vec![(step, tear)];
        self.await_cut();
        self
    }

    /// Shows what survives if the power fails at each of these steps, each once. Recovery does not notice.
    #[must_use]
    pub fn seen_at(mut self, mut cuts: Vec<(u64, Tear)>, onlooker: Onlooker<'a>) -> Self {
        cuts.sort_by_key(|(step, _)| Reverse(*step));
        self.cuts = cuts;
        self.onlooker = Some(onlooker);
        self.await_cut();
        self
    }

    fn await_cut(&mut self) {
        self.next_cut = self.cuts.last().map_or(NEVER, |(step, _)| *step);
    }

    /// The power fails at the step that comes next.
    #[inline]
    fn fails_now(&self) -> bool {
        self.next_cut == self.steps
    }

    /// The power fails while these bytes are written, whose lines are noted: that is torn. If there is an
    /// onlooker, it sees that, with what is in DRAM lost, and then it has never happened.
    fn cut(&mut self, address: u64, bytes: &[u8]) -> Result<(), Interrupted> {
        let cut = self.cuts.pop();
        self.await_cut();
        let old = self.arena.slice(address, bytes.len()).into_owned();
        if let Some((_, mut tear)) = cut.filter(|_| old != bytes) {
            let mut torn = old.clone();
            tear.apply(&mut torn, bytes);
            self.arena.write(address, &torn);
        }
        let Some(onlooker) = &mut self.onlooker else {
            return Err(Interrupted::PowerLost);
        };
        let mut in_dram = Vec::new();
        for (line, behind) in &self.loaded {
            let address = line * LINE_BYTES as u64;
            in_dram.push((address, self.arena.replace_line(address, behind)));
        }
        onlooker(self.steps - 1, self.arena);
        for (address, bytes) in in_dram {
            self.arena.write_line(address, &bytes);
        }
        self.arena.write(address, &old);
        Ok(())
    }

    /// Size of the image in bytes.
    pub fn len(&self) -> u64 {
        self.arena.len()
    }

    /// True for an image of no bytes.
    pub fn is_empty(&self) -> bool {
        self.arena.is_empty()
    }

    /// Bytes of the image.
    pub fn read(&self, address: u64, length: usize) -> Result<Cow<'_, [u8]>, Corruption> {
        let bytes = self.look(address, length)?;
        self.charge(|clock| clock.read(address, length));
        Ok(bytes)
    }

    /// Bytes of the image, at no cost.
    fn look(&self, address: u64, length: usize) -> Result<Cow<'_, [u8]>, Corruption> {
        if address
            .checked_add(length as u64)
            .is_none_or(|end| end > self.arena.len())
        {
            return Err(Corruption {
                what: "an address beyond the end of memory",
                address,
            });
        }
        Ok(self.arena.slice(address, length))
    }

    /// Tells the host that bytes will be touched soon.
    pub fn prefetch(&self, address: u64) {
        self.arena.prefetch(address);
    }

    /// Writes bytes: one step.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Interrupted> {
        let fails = self.fails_now();
        self.steps += 1;
        let differs = *self.look(address, bytes.len())? != *bytes;
        self.charge(|clock| clock.write(address, bytes.len()));
        if differs {
            for line in lines_of(address, bytes.len()) {
                let old = self.arena.line(line * LINE_BYTES as u64);
                self.journal.note(line, old);
            }
        }
        if fails {
            self.cut(address, bytes)?;
        }
        if differs {
            self.arena.write(address, bytes);
        }
        Ok(())
    }

    /// Writes bytes, unless they are there already: then it is no step.
    pub fn write_unless_there(&mut self, address: u64, bytes: &[u8]) -> Result<(), Interrupted> {
        if self.read(address, bytes.len())? == bytes {
            return Ok(());
        }
        self.write(address, bytes)
    }

    /// Writes a line: one step.
    #[inline]
    pub fn write_line(&mut self, line: LineNumber, new: &Line) -> Result<(), Interrupted> {
        let address = line.wrapping_mul(LINE_BYTES as u64);
        if self.fails_now() || line >= self.arena.len() / LINE_BYTES as u64 {
            return self.write(address, &new.0);
        }
        self.steps += 1;
        self.charge(|clock| clock.write(address, LINE_BYTES));
        let old = self.arena.line(address);
        if old != new {
            self.journal.note(line, old);
            self.arena.write_line(address, new);
        }
        Ok(())
    }

    /// Loads a line into the working DRAM. It is no step: the NVM's bytes do not change, and the
    /// next power cut undoes it.
    #[inline]
    pub fn load_line(&mut self, line: LineNumber, new: &Line) -> Result<(), Corruption> {
        let address = line.wrapping_mul(LINE_BYTES as u64);
        if line >= self.arena.len() / LINE_BYTES as u64 {
            return Err(Corruption {
                what: "a line beyond the end of memory",
                address,
            });
        }
        self.charge(|clock| clock.load(line));
        let old = self.arena.line(address);
        if old != new {
            self.loaded.entry(line).or_insert(*old);
            self.journal.note(line, old);
            self.arena.write_line(address, new);
        }
        Ok(())
    }

    /// What the NVM has at the home addresses of the lines that were loaded into the DRAM, where it
    /// differs.
    pub fn loaded(&self) -> &BTreeMap<LineNumber, Line> {
        &self.loaded
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The first address, of those that count, of a line in which this image differs from what another
    /// recovery left, of the same bytes or of what survived a cut of that one.
    pub fn difference(&self, left: &Left, counts: impl Fn(u64) -> bool) -> Option<u64> {
        left.difference(self.arena, &self.journal, counts)
    }

    /// Ends the borrow and puts everything back.
    pub fn undo(self) -> Journal {
        self.take_back().forget()
    }

    /// The same; what was there is remembered.
    pub fn take_back(self) -> Left {
        self.journal.take_back(self.arena)
    }

    /// Ends the borrow; the journal can put everything back.
    pub fn into_journal(self) -> Journal {
        self.into_parts().0
    }

    /// The same, with [`Self::loaded`].
    pub fn into_parts(self) -> (Journal, BTreeMap<LineNumber, Line>) {
        let digest = self.journal.digest_after(self.arena);
        self.arena.put_digest(digest);
        (self.journal, self.loaded)
    }
}

/// How the devices of a machine recover, each with where its module's memory lies
/// ([`perdure_hardware::memory::Memory::device_recoveries`]).
pub type DeviceRecoveries = Vec<(Recovery, Vec<Range<u64>>)>;

/// The image as one device's recovery gets it: its module's bytes, and no others.
struct OfModule<'i, 'a> {
    image: &'i mut Surviving<'a>,
    own: &'i [Range<u64>],
    /// Why its recovery does not count.
    failed: Option<Interrupted>,
}

impl OfModule<'_, '_> {
    fn hold(&mut self, address: u64, length: usize) -> bool {
        let end = address.saturating_add(length as u64);
        // They stand in the order of addresses.
        let behind = self.own.partition_point(|one| one.start <= address);
        let own = behind > 0 && end <= self.own[behind - 1].end;
        if !own {
            let what = "a device's recovery left its module";
            let corruption = Corruption { what, address };
            self.failed.get_or_insert(corruption.into());
        }
        own
    }
}

impl SurvivingBytes for OfModule<'_, '_> {
    fn read(&mut self, address: u64, length: usize) -> Vec<u8> {
        if !self.hold(address, length) {
            return vec![0; length];
        }
        match self.image.read(address, length) {
            Ok(bytes) => bytes.to_vec(),
            Err(corruption) => {
                self.failed.get_or_insert(corruption.into());
                vec![0; length]
            }
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), PowerLost> {
        if !self.hold(address, bytes.len()) {
            return Ok(());
        }
        match self.image.write(address, bytes) {
            Ok(()) => Ok(()),
            Err(Interrupted::PowerLost) => Err(PowerLost),
            Err(corrupt) => {
                self.failed.get_or_insert(corrupt);
                Ok(())
            }
        }
    }
}

/// Lets the devices recover, which they do before any software.
pub fn recover_devices(
    image: &mut Surviving,
    devices: &DeviceRecoveries,
) -> Result<(), Interrupted> {
    for (recovery, own) in devices {
        image.charge(RecoveryClock::device_begins);
        let mut module = OfModule {
            image: &mut *image,
            own,
            failed: None,
        };
        let done = recovery(&mut module, own);
        if let Some(failed) = module.failed {
            return Err(failed);
        }
        done.map_err(|PowerLost| Interrupted::PowerLost)?;
    }
    image.charge(RecoveryClock::devices_end);
    Ok(())
}
