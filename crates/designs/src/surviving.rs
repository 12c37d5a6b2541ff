//! What a recovery procedure gets: the bytes that survived, and nothing else.
//!
//! Reads and writes go to the image. Every write is a step; the verifier can have the power fail
//! again at any step, which tears that write and makes it return [`Interrupted::PowerLost`].
//!
//! Where programs work in DRAM, recovery also loads lines into it. They appear at their home
//! addresses, as everything that the DRAM holds does, but are no writes to the NVM: what that has
//! there is remembered apart, because the next power cut brings it back.
//!
//! What recovery takes can be measured ([`Surviving::timed`]): every read and write is charged.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use perdure_hardware::arena::{Arena, KeptDigest};
use perdure_hardware::device::{PowerLost, Recovery, SurvivingBytes};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, lines_of};
use perdure_hardware::memory::{Memory, Tear};
use perdure_hardware::pages::Sparse;
use perdure_hardware::recovery_clock::{RecoveryClock, RecoveryCost};

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
}

/// The surviving bytes, writable, with a journal that can put everything back.
pub struct Surviving<'a> {
    arena: &'a mut Arena,
    pools: Vec<Range<u64>>,
    journal: Journal,
    steps: u64,
    fails_at: Option<(u64, Tear)>,
    loaded: BTreeMap<LineNumber, Line>,
    clock: Option<RefCell<RecoveryClock>>,
}

/// What recovery overwrote, each line once, so that one run can be cut and recovered many times. An undone
/// journal can be used again, which saves the host from finding memory for each of a thousand.
#[derive(Debug, Default)]
pub struct Journal {
    lines: Vec<LineNumber>,
    /// What each of them was.
    bytes: Vec<Line>,
    /// A bit for each line of the image: it is in the journal.
    noted: Option<Sparse<u64>>,
    digest: KeptDigest,
}

impl Journal {
    /// How many lines ahead the host is told what will be touched.
    const PREFETCH: usize = 16;

    /// Before the first write to an image of so many bytes.
    fn begin(&mut self, bytes: u64, digest: KeptDigest) {
        let words = bytes.div_ceil(LINE_BYTES as u64).div_ceil(64) as usize;
        if (self.noted.as_ref()).is_none_or(|noted| noted.len() < words) {
            let noted = Sparse::new(words);
            self.noted = Some(noted.expect("the host has room for a bit of each line"));
        }
        self.digest = digest;
    }

    /// A line is about to be overwritten, and was this.
    #[inline]
    fn note(&mut self, line: LineNumber, old: &Line) {
        let Some(noted) = &mut self.noted else { return };
        let (word, bit) = ((line / 64) as usize, 1 << (line % 64));
        if noted.get(word) & bit == 0 {
            *noted.get_mut(word) |= bit;
            self.lines.push(line);
            self.bytes.push(*old);
        }
    }

    /// The kept digest of an image in which nothing but these lines has changed: each counts once, however
    /// often it was written.
    fn digest_after(&self, arena: &Arena) -> KeptDigest {
        let (range, mut digest) = self.digest.clone()?;
        for (index, (line, old)) in self.lines.iter().zip(&self.bytes).enumerate() {
            self.prefetch(arena, index + Self::PREFETCH);
            let address = line * LINE_BYTES as u64;
            let new = arena.line(address);
            if range.contains(&address) && old != new {
                digest.replace(address, &old.0, &new.0);
            }
        }
        Some((range, digest))
    }

    fn prefetch(&self, arena: &Arena, index: usize) {
        if let Some(line) = self.lines.get(index) {
            arena.prefetch(line * LINE_BYTES as u64);
        }
    }

    /// Puts everything back, the kept digest included, and is then empty.
    #[allow(
        clippy::return_self_not_must_use,
        reason = "its memory may be given up"
    )]
    pub fn undo(mut self, arena: &mut Arena) -> Self {
        // What is put back was there before, so its digest is known and need not be computed.
        arena.take_digest();
        for (index, (line, old)) in self.lines.iter().zip(&self.bytes).enumerate() {
            self.prefetch(arena, index + Self::PREFETCH);
            arena.write_line(line * LINE_BYTES as u64, old);
        }
        arena.put_digest(self.digest.take());
        if let Some(noted) = &mut self.noted {
            for line in &self.lines {
                *noted.get_mut((line / 64) as usize) = 0;
            }
        }
        self.lines.clear();
        self.bytes.clear();
        self
    }
}

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
            fails_at: None,
            loaded: BTreeMap::new(),
            clock: None,
        }
    }

    /// What survived of a machine's memory, with its pools where its map has them; using the memory of an
    /// undone journal.
    pub fn of(memory: &'a mut Memory, journal: Journal) -> Self {
        let pools = memory.map().pools().collect();
        Self {
            pools,
            ..Self::with_journal(&mut memory.arena, journal)
        }
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
        self.fails_at = Some((step, tear));
        self
    }

    /// The power fails at the step that comes next.
    #[inline]
    fn fails_now(&self) -> bool {
        matches!(&self.fails_at, Some((step, _)) if *step == self.steps)
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
        let old = self.look(address, bytes.len())?;
        self.charge(|clock| clock.write(address, bytes.len()));
        if *old != *bytes {
            for line in lines_of(address, bytes.len()) {
                let old = self.arena.line(line * LINE_BYTES as u64);
                self.journal.note(line, old);
            }
            let old = self.arena.slice(address, bytes.len());
            match &mut self.fails_at {
                Some((_, tear)) if fails => {
                    let mut torn = old.to_vec();
                    tear.apply(&mut torn, bytes);
                    self.arena.write(address, &torn);
                }
                _ => self.arena.write(address, bytes),
            }
        }
        if fails {
            Err(Interrupted::PowerLost)
        } else {
            Ok(())
        }
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
