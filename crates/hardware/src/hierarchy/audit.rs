//! What is always true of the hierarchy, checked over all of it; for tests.
//!
//! Always true here: an audit believes no directory, and looks into every cache.

use crate::cache::{Slot, State, Word};
use crate::coherence::Directory;
use crate::directories::FullMap;
use crate::hierarchy::Hardware;
use crate::policy::Policy;
use crate::sharing_group::{SharingGroup, members};

impl Hardware {
    /// Checks inclusion, directory and single ownership over the whole hierarchy; for tests.
    pub fn audit<P: Policy + ?Sized>(&self, policy: &P) -> Result<(), String> {
        self.audit_groups()?;
        if let Some(map) = self.directories.apart() {
            return self.audit_apart(policy, map);
        }
        for (number, group) in self.groups.iter().enumerate() {
            for (at, word) in group.l2.iter() {
                let line = word.line();
                let Some(slot) = self.llc.find(line) else {
                    return Err(format!(
                        "sharing group {number}: line {line:#x} in l2, not in llc"
                    ));
                };
                if group.below[at.0 as usize] != slot {
                    return Err(format!(
                        "sharing group {number}: line {line:#x} is not where the l2 has it in the llc"
                    ));
                }
                self.directory(slot).audit(number, word)?;
            }
        }
        for (slot, word) in self.llc.iter() {
            for (number, group) in self.groups.iter().enumerate() {
                let held = group.l2.find(word.line()).is_some();
                if held != (self.directories.holders(slot) >> number & 1 != 0) {
                    return Err(format!(
                        "line {:#x}: directory wrong about sharing group {number}",
                        word.line()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks what is always true within the sharing groups; for tests.
    pub(crate) fn audit_groups(&self) -> Result<(), String> {
        for (number, group) in self.groups.iter().enumerate() {
            for (slot, word) in group.l2.iter() {
                self.audit_above(group, slot).map_err(|wrong| {
                    format!("sharing group {number}, line {:#x}: {wrong}", word.line())
                })?;
            }
        }
        for (hart, core) in self.cores.iter().enumerate() {
            let l2 = &self.groups[core.group].l2;
            for (slot, word) in core.l1d.iter() {
                let line = word.line();
                if l2.find(line) != Some(core.below[slot.0 as usize]) {
                    return Err(format!(
                        "hart {hart}: line {line:#x} is not where the l1d has it in the l2"
                    ));
                }
            }
            for (name, cache) in [("l1d", &core.l1d), ("l1i", &core.l1i)] {
                if let Some((_, word)) = cache
                    .iter()
                    .find(|(_, word)| l2.find(word.line()).is_none())
                {
                    let line = word.line();
                    return Err(format!("hart {hart}: line {line:#x} in {name}, not in l2"));
                }
            }
        }
        Ok(())
    }

    fn audit_above(&self, group: &SharingGroup, slot: Slot) -> Result<(), String> {
        let line = group.l2.word(slot).line();
        let mut exact = Directory::default();
        for hart in group.harts.clone() {
            let core = &self.cores[hart];
            let above = core.l1d.find(line);
            let word = group.l2.word(slot);
            let in_l1i = core.l1i.find(line).is_some();
            let expected = above.is_some() || group.is_shared();
            if word.may_be_in_l1d() != expected || in_l1i && !word.may_be_in_l1i() {
                return Err(format!("{word:?} is wrong about the L1s of hart {hart}"));
            }
            if above.is_some() || core.l1i.find(line).is_some() {
                exact.holders |= 1 << hart;
            }
            if group.is_shared() && core.reservation == Some(line) && above.is_none() {
                return Err(format!("hart {hart} reserves it and has lost it"));
            }
            let Some(above) = above else {
                continue;
            };
            let (above_word, below_word) = (core.l1d.word(above), group.l2.word(slot));
            let (state, below) = (above_word.state(), below_word.state());
            exact.exclusive |= state > State::Shared;
            if state > State::Shared && below <= State::Shared {
                return Err(format!(
                    "{state:?} in hart {hart}'s l1d over {below:?} in l2"
                ));
            }
            let alike = above_word.version() == below_word.version()
                && core.l1d.data(above) == group.l2.data(slot);
            if state != State::Modified && !alike {
                return Err(format!(
                    "hart {hart}'s unwritten copy differs from the l2's"
                ));
            }
        }
        if exact.exclusive && exact.holders.count_ones() != 1 {
            return Err(format!(
                "several hold it, one of them exclusively: {exact:?}"
            ));
        }
        match group.holders.get(slot.0 as usize) {
            Some(directory) if *directory != exact => {
                Err(format!("directory {directory:?} instead of {exact:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Checks directory and single ownership, and what clean lines hold. What is below the caches is
    /// where the policy has it, which need not be the home address.
    pub(crate) fn audit_apart<P: Policy + ?Sized>(
        &self,
        policy: &P,
        map: &FullMap,
    ) -> Result<(), String> {
        for (number, group) in self.groups.iter().enumerate() {
            for (slot, word) in group.l2.iter() {
                let line = word.line();
                map.get(line).audit(number, word)?;
                let below = match self.llc.find(line) {
                    Some(below) => *self.llc.data(below),
                    None => policy.peek(self, line),
                };
                if self.dirty_in(number, line).is_none() && *group.l2.data(slot) != below {
                    return Err(format!(
                        "sharing group {number}: line {line:#x} is clean in l2 and differs from what is below"
                    ));
                }
            }
        }
        for (line, holders) in map.held() {
            let absent = members(holders).find(|&group| {
                let l2 = &self.groups[group].l2;
                l2.find(line).is_none()
            });
            if let Some(group) = absent {
                return Err(format!(
                    "line {line:#x}: directory wrong about sharing group {group}"
                ));
            }
        }
        Ok(())
    }
}

impl Directory {
    /// Checks what it says against the word of a line in a sharing group's L2.
    pub(crate) fn audit(&self, group: usize, word: Word) -> Result<(), String> {
        let owns = self.exclusive && self.holders == 1 << group;
        if self.holders >> group & 1 == 0 || owns != (word.state() > State::Shared) {
            return Err(format!(
                "sharing group {group}: line {:#x} is {:?} in l2, directory says {self:?}",
                word.line(),
                word.state()
            ));
        }
        Ok(())
    }
}
