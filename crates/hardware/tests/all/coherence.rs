//! The protocol [`coherence::transition`](perdure_hardware::coherence), explored to the end.
//!
//! A small machine is modelled around the pure function: three or four sharing groups, two lines, one
//! set of the shared cache with room for one line (each fill recalls the other line) or for both. From
//! the empty machine every event is tried in every reachable state, breadth first, so that a violation
//! comes with a shortest trace. The events are everything that can reach the directory (load, fetch,
//! store, eviction from a sharing group, recall, clean) and what never does (the silent Exclusive →
//! Modified).
//!
//! Data is abstracted to one bit for each copy: is it the newest? A store makes one copy newest and
//! all others not; that is enough to see every lost or stale value.
//!
//! The second half plants mistakes in the protocol; the explorer must find every one of them.

use std::collections::{BTreeSet, VecDeque};

use perdure_hardware::cache::State;
use perdure_hardware::coherence::{Directory, Request, Snoop, Transition, transition};

const LINES: usize = 2;

type Protocol = fn(Directory, Request, u32) -> Transition;

/// One line as the whole machine has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct LineState<const DOMAINS: usize> {
    /// The shared cache holds it; the directory means something only then.
    resident: bool,
    directory: Directory,
    private: [State; DOMAINS],
    private_newest: [bool; DOMAINS],
    shared_dirty: bool,
    shared_newest: bool,
    memory_newest: bool,
}

impl<const DOMAINS: usize> LineState<DOMAINS> {
    const IN_MEMORY: Self = Self {
        resident: false,
        directory: Directory {
            holders: 0,
            exclusive: false,
        },
        private: [State::Invalid; DOMAINS],
        private_newest: [false; DOMAINS],
        shared_dirty: false,
        shared_newest: false,
        memory_newest: true,
    };

    /// Does to the private copies what the protocol says, as the hierarchy does it.
    fn snoop(&mut self, snoop: Snoop, requester: Option<usize>) -> Result<(), String> {
        let (targets, after) = match snoop {
            Snoop::None => return Ok(()),
            Snoop::Invalidate(holders) => (holders, State::Invalid),
            Snoop::Downgrade(owner) => (1 << owner, State::Shared),
            Snoop::Clean(owner) => (1 << owner, State::Exclusive),
        };
        if targets == 0 || targets >> DOMAINS != 0 {
            return Err(format!(
                "{snoop:?} targets nobody, or a sharing group that isn't"
            ));
        }
        for group in (0..DOMAINS).filter(|group| targets >> group & 1 != 0) {
            if requester == Some(group) {
                return Err(format!("{snoop:?} hits the requester {group}"));
            }
            match self.private[group] {
                State::Invalid => {
                    return Err(format!(
                        "{snoop:?} hits sharing group {group}, which holds nothing"
                    ));
                }
                State::Modified => {
                    self.shared_newest = self.private_newest[group];
                    self.shared_dirty = true;
                }
                State::Shared | State::Exclusive => {}
            }
            self.private[group] = after;
            self.private_newest[group] &= after != State::Invalid;
        }
        Ok(())
    }

    /// A sharing group's request at the directory, and the grant.
    fn request(
        &mut self,
        protocol: Protocol,
        request: Request,
        group: usize,
    ) -> Result<(), String> {
        if !self.resident {
            self.resident = true;
            self.directory = Directory::default();
            self.shared_newest = self.memory_newest;
            self.shared_dirty = false;
        }
        let change = protocol(self.directory, request, group as u32);
        self.snoop(change.snoop, Some(group))?;
        self.directory = change.next;
        let allowed: &[State] = match request {
            Request::Read => &[State::Shared, State::Exclusive],
            Request::Fetch => &[State::Shared],
            _ => &[State::Exclusive],
        };
        if !allowed.contains(&change.grant) {
            return Err(format!("{request:?} was granted {:?}", change.grant));
        }
        if self.private[group] == State::Invalid {
            self.private_newest[group] = self.shared_newest;
        }
        self.private[group] = change.grant;
        Ok(())
    }

    fn store(&mut self, protocol: Protocol, group: usize) -> Result<(), String> {
        if self.private[group] < State::Exclusive {
            self.request(protocol, Request::Write, group)?;
        }
        self.private[group] = State::Modified; // Silent, if it was Exclusive.
        self.shared_newest = false;
        self.memory_newest = false;
        self.private_newest = [false; DOMAINS];
        self.private_newest[group] = true;
        Ok(())
    }

    fn evict(&mut self, protocol: Protocol, group: usize) {
        if self.private[group] == State::Modified {
            self.shared_newest = self.private_newest[group];
            self.shared_dirty = true;
        }
        self.private[group] = State::Invalid;
        self.private_newest[group] = false;
        self.directory = protocol(self.directory, Request::Evict, group as u32).next;
    }

    /// The shared cache gives the line up: inclusion, then write-back.
    fn recall(&mut self, protocol: Protocol) -> Result<(), String> {
        let change = protocol(self.directory, Request::Recall, 0);
        self.snoop(change.snoop, None)?;
        if change.next != Directory::default() {
            return Err("a recalled line still has a directory".into());
        }
        if self.private.iter().any(|&state| state != State::Invalid) {
            return Err("a sharing group holds a line that was recalled".into());
        }
        if self.shared_dirty {
            self.memory_newest = self.shared_newest;
        }
        *self = Self {
            memory_newest: self.memory_newest,
            ..Self::IN_MEMORY
        };
        Ok(())
    }

    /// The newest bytes go to memory, everybody keeps a copy.
    fn clean(&mut self, protocol: Protocol) -> Result<(), String> {
        let held_before = self.private.map(|state| state != State::Invalid);
        let change = protocol(self.directory, Request::Clean, 0);
        self.snoop(change.snoop, None)?;
        self.directory = change.next;
        if self.shared_dirty {
            self.memory_newest = self.shared_newest;
        }
        self.shared_dirty = false;
        if self.private.map(|state| state != State::Invalid) != held_before {
            return Err("a clean changed who holds the line".into());
        }
        if !self.memory_newest {
            return Err("memory isn't newest after a clean".into());
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let holders = self.mask(|state| state != State::Invalid);
        let owners = self.mask(|state| state >= State::Exclusive);
        if owners != 0 && (owners != holders || !owners.is_power_of_two()) {
            return Err("single writer or many readers".into());
        }
        let exact = Directory {
            holders,
            exclusive: owners != 0,
        };
        if self.directory != exact {
            return Err(format!(
                "the directory is not exact: {:?} ≠ {exact:?}",
                self.directory
            ));
        }
        for group in 0..DOMAINS {
            if self.private[group] != State::Invalid && !self.private_newest[group] {
                return Err(format!("sharing group {group} may read an old value"));
            }
        }
        let modified = self.private.contains(&State::Modified);
        if self.resident && !modified && !self.shared_newest {
            return Err("nobody is Modified and the shared cache is old".into());
        }
        if !modified && !self.shared_dirty && !self.memory_newest {
            return Err("the newest value is lost: all clean, memory old".into());
        }
        Ok(())
    }

    fn mask(&self, of: impl Fn(State) -> bool) -> u64 {
        (0..DOMAINS)
            .filter(|&group| of(self.private[group]))
            .map(|group| 1 << group)
            .sum()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Load(usize),
    Fetch(usize),
    Store(usize),
    Evict(usize),
    Recall,
    Clean,
}

type Event = (Action, usize);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Machine<const DOMAINS: usize> {
    lines: [LineState<DOMAINS>; LINES],
}

impl<const DOMAINS: usize> Machine<DOMAINS> {
    const COLD: Self = Self {
        lines: [LineState::IN_MEMORY; LINES],
    };

    /// Every event that hardware could see in this state.
    fn possible(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, line) in self.lines.iter().enumerate() {
            for group in 0..DOMAINS {
                if line.private[group] == State::Invalid {
                    events.push((Action::Load(group), index));
                    events.push((Action::Fetch(group), index));
                } else {
                    events.push((Action::Evict(group), index));
                }
                events.push((Action::Store(group), index));
            }
            if line.resident {
                events.push((Action::Recall, index));
                events.push((Action::Clean, index));
            }
        }
        events
    }

    fn apply(
        &mut self,
        protocol: Protocol,
        ways: usize,
        (action, index): Event,
    ) -> Result<(), String> {
        let fills = matches!(
            action,
            Action::Load(_) | Action::Fetch(_) | Action::Store(_)
        ) && !self.lines[index].resident;
        let residents = self.lines.iter().filter(|line| line.resident).count();
        if fills && residents == ways {
            self.lines[1 - index].recall(protocol)?;
        }
        let line = &mut self.lines[index];
        match action {
            Action::Load(group) => line.request(protocol, Request::Read, group)?,
            Action::Fetch(group) => line.request(protocol, Request::Fetch, group)?,
            Action::Store(group) => line.store(protocol, group)?,
            Action::Evict(group) => line.evict(protocol, group),
            Action::Recall => line.recall(protocol)?,
            Action::Clean => line.clean(protocol)?,
        }
        self.lines.iter().try_for_each(LineState::check)
    }
}

struct Explored {
    states: usize,
    events: usize,
}

/// Explores everything reachable; a violation comes back as its shortest trace.
fn explore<const DOMAINS: usize>(protocol: Protocol, ways: usize) -> Result<Explored, String> {
    let mut seen = BTreeSet::from([Machine::<DOMAINS>::COLD]);
    // States in order of discovery, each with the event that led there from an earlier one.
    let mut found: Vec<(Machine<DOMAINS>, Option<(usize, Event)>)> = vec![(Machine::COLD, None)];
    let mut queue = VecDeque::from([0]);
    let mut events = 0;
    while let Some(from) = queue.pop_front() {
        for event in found[from].0.possible() {
            events += 1;
            let mut machine = found[from].0;
            if let Err(violation) = machine.apply(protocol, ways, event) {
                let mut trace = vec![event];
                let mut at = from;
                while let Some((before, event)) = found[at].1 {
                    trace.push(event);
                    at = before;
                }
                trace.reverse();
                return Err(format!("{violation}, after {trace:?}"));
            }
            if seen.insert(machine) {
                queue.push_back(found.len());
                found.push((machine, Some((from, event))));
            }
        }
    }
    Ok(Explored {
        states: found.len(),
        events,
    })
}

#[test]
fn every_reachable_state_is_coherent() {
    let runs = [
        ("3 sharing groups, 1 way", explore::<3>(transition, 1)),
        ("3 sharing groups, 2 ways", explore::<3>(transition, 2)),
        ("4 sharing groups, 1 way", explore::<4>(transition, 1)),
        ("4 sharing groups, 2 ways", explore::<4>(transition, 2)),
    ];
    // A model that shrinks proves less; whoever changes the protocol states the new numbers here.
    // By hand, for D sharing groups: a line is in memory only, or in the shared cache, clean or dirty,
    // with no holder, any set of sharers, or an owner that has written or not:
    // 1 + 2 × (1 + (2^D − 1) + 2D) = 29 and 49; two lines with room for both are independent.
    let expected = [(57, 1066), (29 * 29, 16298), (97, 2360), (49 * 49, 59192)];
    let mut counted = Vec::new();
    for (name, run) in runs {
        let run = run.unwrap_or_else(|trace| panic!("{name}: {trace}"));
        println!("{name}: {} states, {} events", run.states, run.events);
        counted.push((run.states, run.events));
    }
    assert_eq!(counted, expected);
}

// ---- Planted mistakes --------------------------------------------------------------------------

/// A protocol that is the real one except where `change` says otherwise.
macro_rules! mutant {
    ($name:ident, |$now:pat_param, $request:ident, $requester:pat_param, $result:ident| $change:block) => {
        fn $name(now: Directory, $request: Request, requester: u32) -> Transition {
            let mut $result = transition(now, $request, requester);
            let ($now, $requester) = (now, requester);
            $change
            $result
        }
    };
}

fn without_lowest(snoop: Snoop) -> Snoop {
    match snoop {
        Snoop::Invalidate(holders) if holders.is_power_of_two() => Snoop::None,
        Snoop::Invalidate(holders) => Snoop::Invalidate(holders & (holders - 1)),
        other => other,
    }
}

mutant!(write_forgets_one_sharer, |_, request, _, result| {
    if request == Request::Write {
        result.snoop = without_lowest(result.snoop);
    }
});
mutant!(
    write_only_downgrades_the_owner,
    |now, request, _, result| {
        if request == Request::Write && now.exclusive && result.snoop != Snoop::None {
            result.snoop = Snoop::Downgrade(now.holders.trailing_zeros());
        }
    }
);
mutant!(
    write_invalidates_the_requester_too,
    |now, request, _, result| {
        if request == Request::Write && result.snoop != Snoop::None {
            result.snoop = Snoop::Invalidate(now.holders);
        }
    }
);
mutant!(write_is_not_noted_as_exclusive, |_, request, _, result| {
    if request == Request::Write {
        result.next.exclusive = false;
    }
});
mutant!(
    write_leaves_sharers_in_the_directory,
    |now, request, _, result| {
        if request == Request::Write {
            result.next.holders |= now.holders;
        }
    }
);
mutant!(write_grants_shared, |_, request, _, result| {
    if request == Request::Write {
        result.grant = State::Shared;
    }
});
mutant!(
    read_grants_exclusive_when_shared,
    |_, request, _, result| {
        if request == Request::Read {
            result.grant = State::Exclusive;
        }
    }
);
mutant!(read_skips_the_owner, |_, request, _, result| {
    if request == Request::Read {
        result.snoop = Snoop::None;
    }
});
mutant!(
    read_cleans_the_owner_without_downgrade,
    |_, request, _, result| {
        if let (Request::Read, Snoop::Downgrade(owner)) = (request, result.snoop) {
            result.snoop = Snoop::Clean(owner);
        }
    }
);
mutant!(
    read_downgrades_the_requester,
    |_, request, requester, result| {
        if let (Request::Read, Snoop::Downgrade(_)) = (request, result.snoop) {
            result.snoop = Snoop::Downgrade(requester);
        }
    }
);
mutant!(read_forgets_the_requester, |now, request, _, result| {
    if request == Request::Read && now.holders != 0 {
        result.next.holders = now.holders;
    }
});
mutant!(
    read_keeps_the_directory_exclusive,
    |now, request, _, result| {
        if request == Request::Read {
            result.next.exclusive |= now.exclusive;
        }
    }
);
mutant!(
    fetch_grants_exclusive_to_the_first,
    |now, request, requester, result| {
        if request == Request::Fetch && now.holders == 0 {
            result = transition(now, Request::Read, requester);
        }
    }
);
mutant!(fetch_skips_the_owner, |_, request, _, result| {
    if request == Request::Fetch {
        result.snoop = Snoop::None;
    }
});
mutant!(evict_keeps_the_bit, |now, request, _, result| {
    if request == Request::Evict {
        result.next = now;
    }
});
mutant!(evict_keeps_the_owner_flag, |now, request, _, result| {
    if request == Request::Evict {
        result.next.exclusive = now.exclusive;
    }
});
mutant!(evict_drops_everybody, |_, request, _, result| {
    if request == Request::Evict {
        result.next = Directory::default();
    }
});
mutant!(evict_promotes_the_last_sharer, |_, request, _, result| {
    if request == Request::Evict && result.next.holders.is_power_of_two() {
        result.next.exclusive = true;
    }
});
mutant!(recall_forgets_one_holder, |_, request, _, result| {
    if request == Request::Recall {
        result.snoop = without_lowest(result.snoop);
    }
});
mutant!(
    recall_only_downgrades_the_owner,
    |now, request, _, result| {
        if request == Request::Recall && now.exclusive {
            result.snoop = Snoop::Downgrade(now.holders.trailing_zeros());
        }
    }
);
mutant!(recall_keeps_the_directory, |now, request, _, result| {
    if request == Request::Recall {
        result.next = now;
    }
});
mutant!(clean_does_not_reach_the_owner, |_, request, _, result| {
    if request == Request::Clean {
        result.snoop = Snoop::None;
    }
});
mutant!(clean_downgrades_the_owner, |_, request, _, result| {
    if let (Request::Clean, Snoop::Clean(owner)) = (request, result.snoop) {
        result.snoop = Snoop::Downgrade(owner);
    }
});
mutant!(clean_takes_the_line_away, |now, request, _, result| {
    if request == Request::Clean && now.exclusive {
        result.snoop = Snoop::Invalidate(now.holders);
        result.next = Directory::default();
    }
});
mutant!(clean_forgets_the_owner, |_, request, _, result| {
    if request == Request::Clean {
        result.next.exclusive = false;
    }
});

#[test]
fn every_planted_mistake_is_found() {
    macro_rules! named {
        ($($mutant:ident),* $(,)?) => { [$((stringify!($mutant), $mutant as Protocol)),*] };
    }
    let mutants = named![
        write_forgets_one_sharer,
        write_only_downgrades_the_owner,
        write_invalidates_the_requester_too,
        write_is_not_noted_as_exclusive,
        write_leaves_sharers_in_the_directory,
        write_grants_shared,
        read_grants_exclusive_when_shared,
        read_skips_the_owner,
        read_cleans_the_owner_without_downgrade,
        read_downgrades_the_requester,
        read_forgets_the_requester,
        read_keeps_the_directory_exclusive,
        fetch_grants_exclusive_to_the_first,
        fetch_skips_the_owner,
        evict_keeps_the_bit,
        evict_keeps_the_owner_flag,
        evict_drops_everybody,
        evict_promotes_the_last_sharer,
        recall_forgets_one_holder,
        recall_only_downgrades_the_owner,
        recall_keeps_the_directory,
        clean_does_not_reach_the_owner,
        clean_downgrades_the_owner,
        clean_takes_the_line_away,
        clean_forgets_the_owner,
    ];
    for (name, protocol) in mutants {
        match explore::<3>(protocol, 1) {
            Err(trace) => println!("{name}: {trace}"),
            Ok(explored) => panic!("{name}: not found in {} states", explored.states),
        }
    }
}
