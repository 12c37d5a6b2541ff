//! EID tags (PiCL §IV-A): a few bits that stand for an epoch, compared modulo their width.
//!
//! Epochs are counted in full (64 bits) by the design; caches and log entries hold only the low
//! bits. A tag names exactly one epoch as long as no more than `mask` epochs lie between the oldest
//! one that can still be tagged (PersistedEID, as a ValidFrom) and SystemEID; the design stalls an
//! epoch end that would break this.

use perdure_hardware::line::Version;

/// The width of EID tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochIds {
    mask: u64,
}

impl EpochIds {
    /// Tags of so many bits.
    pub fn new(bits: u32) -> Self {
        Self {
            mask: (1 << bits) - 1,
        }
    }

    /// How far apart two epochs may be and still have tags that can be told apart.
    pub fn span(self) -> u64 {
        self.mask
    }

    /// The tag of an epoch.
    #[inline(always)]
    pub fn tag(self, epoch: u64) -> Version {
        Version((epoch & self.mask) as u16)
    }

    /// The newest epoch, no newer than `reference`, with this tag.
    #[inline(always)]
    pub fn epoch(self, tag: u64, reference: u64) -> u64 {
        reference.wrapping_sub(reference.wrapping_sub(tag) & self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_within_the_span_is_told_apart() {
        for bits in 1..=8 {
            let ids = EpochIds::new(bits);
            for reference in 0..1000u64 {
                for back in 0..=ids.span().min(reference) {
                    let epoch = reference - back;
                    assert_eq!(ids.epoch(u64::from(ids.tag(epoch).0), reference), epoch);
                }
            }
        }
    }
}
