//! The contract between the substrate and a design ([`Policy`](crate::policy::Policy)), enforced:
//! every answer of a hook, and everything that it asks of memory and of the event queue, is held
//! against what the contract says. The first breach ends the run with a message that names the hook.
//!
//! Always true here:
//! - A contract only looks: with it, a run takes exactly the cycles that it takes without.
//! - It costs a compare where a hook is called or memory is asked, never on a hit. Debug builds and
//!   whoever cuts the power enforce it ([`Hardware::enforce_contract`]); plain runs do not.
//! - What a design hands to the caches is held against a shadow: every line as it left them last, or
//!   as it was at the start. The shadow never learns of a line's bytes from the design.

use crate::hierarchy::Hardware;
use crate::line::{LINE_BYTES, Line, LineNumber, Version};
use crate::memory::Memory;
use crate::policy::{DeviceAnswer, Evicted, Policy, PolicyFailure};
use crate::shadow::Shadow;
use crate::time::Cycles;

/// No clock comes to it: after 73 years at 2 GHz.
const NEVER: Cycles = 1 << 62;

/// A hook that is being answered.
#[derive(Clone, Copy, Debug)]
struct Asked {
    hook: &'static str,
    now: Cycles,
    /// The earliest event that had been scheduled when it was asked.
    earliest_event: Cycles,
}

/// What was seen of a design, and its first breach.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    /// The innermost last: a hook may flush the caches, which asks for evictions.
    asked: Vec<Asked>,
    /// By hart: the version that was seen last, and how many changes had been told by then.
    versions: Vec<Option<(Version, u32)>>,
    /// The newest announced and the executing epoch, as they were seen last.
    epochs: Option<(u64, u64)>,
    /// Since the first line was brought.
    shadow: Option<Shadow>,
    breach: Option<String>,
}

impl Contract {
    fn breaks(&mut self, what: impl FnOnce() -> String) {
        self.breach.get_or_insert_with(what);
    }

    /// The hook that is being answered, for messages.
    fn hook(&self) -> String {
        match self.asked.last() {
            Some(asked) => format!("hook `{}`", asked.hook),
            None => "the design, outside its hooks,".into(),
        }
    }

    /// Memory is asked to read or write (`what`) a range, of which `room` says whether it fits. What
    /// an engine of the design would have done since the last event it may do now, as of then; up
    /// to `horizon`, no cut could see it any more.
    pub(crate) fn request(
        &mut self,
        what: &str,
        (address, length): (u64, usize),
        room: Result<(), &str>,
        now: Cycles,
        horizon: Cycles,
    ) {
        if let Err(problem) = room {
            let hook = self.hook();
            self.breaks(|| format!("{hook} {what} {length} bytes at {address:#x}, {problem}"));
        }
        let asked = self.asked.first().map_or(0, |asked| asked.now);
        if now < asked && now <= horizon {
            let hook = self.hook();
            self.breaks(|| {
                format!(
                    "{hook} {what} at cycle {now} (address {address:#x}), when everything up to {horizon} has happened"
                )
            });
        }
    }

    /// A device has written bytes of its module, which nobody's caches know of.
    pub(crate) fn changed_inside(&mut self, address: u64, bytes: &[u8]) {
        if let Some(shadow) = &mut self.shadow {
            shadow.changed_inside(address, bytes);
        }
    }

    /// A store is about to find out which version is its hart's.
    pub(crate) fn version(&mut self, hart: usize, version: Version, changes: u32) {
        if self.versions.len() <= hart {
            self.versions.resize(hart + 1, None);
        }
        if let Some((before, changes_before)) = self.versions[hart].replace((version, changes))
            && before != version
            && changes_before == changes
        {
            self.breaks(|| {
                format!(
                    "hook `current_version` answered {version:?} for hart {hart}, and {before:?} before, but the design did not say that it changed: stores that hit go by the old one (call `version_changed`)"
                )
            });
        }
    }
}

/// What hooks answer, as far as time goes.
pub trait Answer {
    /// When whoever asked may go on; `None` if nobody waits.
    fn ready(&self) -> Option<Cycles>;

    /// When what was asked for is durable, if the answer says so.
    fn durable(&self) -> Option<Cycles> {
        None
    }
}

impl Answer for () {
    fn ready(&self) -> Option<Cycles> {
        None
    }
}

impl Answer for Cycles {
    fn ready(&self) -> Option<Cycles> {
        Some(*self)
    }
}

impl Answer for (Line, Cycles) {
    fn ready(&self) -> Option<Cycles> {
        Some(self.1)
    }
}

impl Answer for Evicted {
    fn ready(&self) -> Option<Cycles> {
        Some(self.accepted)
    }

    fn durable(&self) -> Option<Cycles> {
        Some(self.durable)
    }
}

impl Answer for DeviceAnswer {
    fn ready(&self) -> Option<Cycles> {
        let (Self::Admitted { at } | Self::Answered { at }) = self;
        Some(*at)
    }
}

impl Answer for Option<(u64, Cycles)> {
    fn ready(&self) -> Option<Cycles> {
        self.map(|(_, ready)| ready)
    }
}

impl Memory {
    /// Holds the design to its contract, if that is wanted: no request before the hook was asked, no
    /// block across rows. False if the request cannot even be carried out.
    #[inline]
    pub(crate) fn check(&mut self, what: &str, address: u64, length: usize, now: Cycles) -> bool {
        if self.contract.is_none() {
            return true;
        }
        let room = self.room(address, length, true);
        self.hold(what, address, length, room, now)
    }

    #[cold]
    pub(crate) fn hold(
        &mut self,
        what: &str,
        address: u64,
        length: usize,
        room: Result<(), &str>,
        now: Cycles,
    ) -> bool {
        let horizon = self.horizon();
        let Some(contract) = &mut self.contract else {
            return true;
        };
        contract.request(what, (address, length), room, now, horizon);
        room.is_ok()
    }
}

impl Hardware {
    /// From now on, holds the design to its contract. Called before the first access, where every line
    /// is at its home address.
    pub fn enforce_contract(&mut self) {
        self.memory.contract.get_or_insert_default();
    }

    /// Whether it is.
    pub fn enforces_contract(&self) -> bool {
        self.memory.contract.is_some()
    }

    /// Calls a hook of the design: `hook` is its name, `now` the time at which it is asked.
    #[inline(always)]
    pub fn asking<A: Answer>(
        &mut self,
        hook: &'static str,
        now: Cycles,
        call: impl FnOnce(&mut Self) -> A,
    ) -> A {
        let enforced = self.memory.contract.is_some();
        if enforced {
            self.asks(hook, now);
        }
        let answer = call(self);
        if enforced {
            self.answered(answer.ready(), answer.durable());
        }
        answer
    }

    #[cold]
    fn asks(&mut self, hook: &'static str, now: Cycles) {
        let earliest_event = self.events.take_earliest();
        if let Some(contract) = &mut self.memory.contract {
            contract.asked.push(Asked {
                hook,
                now,
                earliest_event,
            });
        }
    }

    #[cold]
    fn answered(&mut self, ready: Option<Cycles>, durable: Option<Cycles>) {
        let event = self.events.take_earliest();
        let horizon = self.memory.horizon();
        let Some(contract) = &mut self.memory.contract else {
            return;
        };
        let Some(Asked {
            hook,
            now,
            earliest_event,
        }) = contract.asked.pop()
        else {
            return;
        };
        if let Some(ready) = ready.filter(|&ready| ready < now) {
            contract.breaks(|| {
                format!("hook `{hook}` answered cycle {ready}, before {now}, when it was asked")
            });
        }
        if let Some(ready) = ready.filter(|&ready| ready >= NEVER) {
            contract.breaks(|| format!("hook `{hook}` answered cycle {ready}, which never comes"));
        }
        if let (Some(ready), Some(durable)) = (ready, durable)
            && durable < ready
        {
            contract.breaks(|| {
                format!(
                    "hook `{hook}` answered that bytes are durable at cycle {durable}, before they were accepted, at {ready}"
                )
            });
        }
        if event < now && event <= horizon {
            contract.breaks(|| {
                format!("hook `{hook}` scheduled an event for cycle {event}, when everything up to {horizon} has happened")
            });
        }
        self.events.see_earliest(earliest_event.min(event));
        self.fail_if_broken();
    }

    /// The shadow, if the contract is enforced.
    fn shadow(&mut self) -> Option<&mut Shadow> {
        let Memory {
            contract,
            arena,
            modules,
            ..
        } = &mut self.memory;
        let shadow = &mut contract.as_mut()?.shadow;
        let shadow = shadow.get_or_insert_with(|| {
            let devices = modules.iter().any(|module| module.device.is_some());
            Shadow::of(arena, devices)
        });
        Some(shadow)
    }

    /// A line is about to be asked for. Returns what `peek` shows of it, if somebody looks.
    #[inline(always)]
    pub(crate) fn fills<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
        line: LineNumber,
    ) -> Option<Line> {
        self.memory.contract.as_ref()?;
        self.peek_before(policy, line)
    }

    #[cold]
    fn peek_before<P: Policy + ?Sized>(&mut self, policy: &P, line: LineNumber) -> Option<Line> {
        self.shadow()?.prefetch(line);
        Some(policy.peek(self, line))
    }

    /// [`Policy::fill`] brought a line, and `peek` had shown it.
    #[inline(always)]
    pub(crate) fn filled(
        &mut self,
        line: LineNumber,
        shown: Option<Line>,
        bytes: &Line,
        now: Cycles,
    ) {
        if let Some(shown) = shown {
            self.hold_to_bytes(line, &shown, bytes, now);
        }
    }

    #[cold]
    fn hold_to_bytes(&mut self, line: LineNumber, shown: &Line, bytes: &Line, now: Cycles) {
        let address = line * LINE_BYTES as u64;
        let right = (self.shadow()).is_none_or(|shadow| shadow.is(address, bytes));
        let Some(contract) = &mut self.memory.contract else {
            return;
        };
        if shown != bytes {
            contract.breaks(|| {
                format!(
                    "hook `fill` brought other bytes for line {line:#x} at cycle {now} than hook `peek` showed"
                )
            });
        }
        if !right {
            contract.breaks(|| {
                format!(
                    "hook `fill` brought other bytes for line {line:#x} at cycle {now} than those that left the caches last, or were there at the start"
                )
            });
        }
        self.fail_if_broken();
    }

    /// A line's newest bytes are about to leave the caches.
    #[inline(always)]
    pub(crate) fn leaves(&mut self, line: LineNumber, bytes: &Line) {
        self.needs_no_energy(line);
        if self.memory.contract.is_some() {
            self.note_leaving(line, bytes);
        }
    }

    #[cold]
    fn note_leaving(&mut self, line: LineNumber, bytes: &Line) {
        if let Some(shadow) = self.shadow() {
            shadow.leaves(line * LINE_BYTES as u64, bytes);
        }
    }

    /// A line that nothing caches any more has left: `peek` must show it from now on.
    #[inline(always)]
    pub(crate) fn replaced<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
    ) {
        // A design that cannot go on has said so.
        if self.memory.contract.is_some() && self.failure.is_none() {
            self.hold_to_peek(policy, line, bytes, now);
        }
    }

    #[cold]
    fn hold_to_peek<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
    ) {
        let shown = policy.peek(self, line);
        if let Some(contract) = &mut self.memory.contract
            && shown != *bytes
        {
            contract.breaks(|| {
                format!(
                    "hook `evict` took line {line:#x} at cycle {now}, and hook `peek` shows other bytes for it"
                )
            });
            self.fail_if_broken();
        }
    }

    /// What the design says of its epochs now: the newest that may leave, and the one that executes
    /// (the oldest, if sharing groups have their own).
    pub fn hold_to_epochs(&mut self, announced: u64, executing: u64) {
        let Some(contract) = &mut self.memory.contract else {
            return;
        };
        let (announced_before, executing_before) =
            contract.epochs.unwrap_or((announced, executing));
        if announced < announced_before {
            contract.breaks(|| {
                format!("`announced_epoch` went back from {announced_before} to {announced}")
            });
        }
        if executing < executing_before {
            contract.breaks(|| {
                format!("`executing_epoch` went back from {executing_before} to {executing}")
            });
        }
        if announced >= executing {
            contract.breaks(|| {
                format!(
                    "`announced_epoch` says {announced}, which has not ended: {executing} executes"
                )
            });
        }
        contract.epochs = Some((announced, executing));
        self.fail_if_broken();
    }

    fn fail_if_broken(&mut self) {
        if let Some(contract) = &mut self.memory.contract
            && let Some(breach) = contract.breach.take()
        {
            self.breach.get_or_insert(PolicyFailure(breach));
        }
    }
}
