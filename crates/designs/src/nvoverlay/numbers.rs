//! Epoch numbers as tags (§IV-D): a few bits for an epoch that only ever grows.
//!
//! The tags are dealt out in two groups, L and U. Always true:
//! - All sharing groups run epochs of one group (which one is newer is the *epoch-sense*).
//! - No tag in the machine is older than the beginning of the other group's last turn, so that a tag
//!   stands for one epoch: the newest one with that tag.

use perdure_hardware::line::Version;

/// The arithmetic of tags of so many bits.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    modulus: u64,
}

impl Numbers {
    /// Of 2 to 16 bits. [`Version::NONE`] is no tag, so with 16 bits two numbers stay unused.
    pub fn new(bits: u32) -> Self {
        Self {
            modulus: ((1 << bits) - u64::from(bits == 16)) & !1,
        }
    }

    /// The tag of an epoch.
    #[inline]
    pub fn tag(self, epoch: u64) -> Version {
        Version((epoch % self.modulus) as u16)
    }

    /// The epoch of a tag, none being newer than `newest`; 0, before the first, for none.
    #[inline]
    pub fn epoch(self, tag: Version, newest: u64) -> u64 {
        if tag == Version::NONE {
            return 0;
        }
        let age = (newest + self.modulus - u64::from(tag.0)) % self.modulus;
        newest.saturating_sub(age)
    }

    /// Groups are counted through: even ones are L, odd ones U.
    #[inline]
    pub fn group(self, epoch: u64) -> u64 {
        epoch / (self.modulus / 2)
    }

    /// Epochs in a group.
    pub fn group_epochs(self) -> u64 {
        self.modulus / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_stands_for_one_epoch_within_two_groups() {
        for bits in [2, 3, 4, 8, 16] {
            let numbers = Numbers::new(bits);
            for newest in [0, 1, 5, 1000, 65_533, 65_534, 65_535, 1_000_000] {
                let oldest = numbers.group(newest).saturating_sub(1) * numbers.group_epochs();
                for epoch in oldest.max(1)..=newest {
                    let tag = numbers.tag(epoch);
                    assert_ne!(tag, Version::NONE);
                    assert_eq!(numbers.epoch(tag, newest), epoch, "{bits} bits, {newest}");
                }
            }
        }
    }
}
