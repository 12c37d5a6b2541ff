//! What a machine has counted: its hardware, and its design.
//!
//! Always true: results list the counters of every registered design, in one order, so that those of
//! different designs stand side by side. What a design does not have is 0.

use std::collections::BTreeSet;

use perdure_designs::OwnCounters;
use perdure_hardware::counters::{Counters, Described};
use perdure_hardware::statistics::Statistics;

/// The hardware's counters and a design's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineStatistics {
    /// The hardware's.
    pub hardware: Statistics,
    /// The design's own.
    pub design: OwnCounters,
}

impl MachineStatistics {
    /// What was counted since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            hardware: self.hardware.since(&earlier.hardware),
            design: self.design.since(&earlier.design),
        }
    }

    /// Sums that must add up; says which one doesn't.
    pub fn check_conservation(&self) -> Result<(), String> {
        self.hardware.check_conservation()?;
        self.design.check_conservation()
    }

    /// All counters that a result has: the hardware's, and between those of its caches and those of
    /// its memory the designs'.
    pub fn describe(&self) -> Vec<Described> {
        let mut all = self.hardware.describe();
        let memory = all.iter().position(|one| one.name == FIRST_OF_MEMORY);
        let behind = all.split_off(memory.expect("the hardware has it"));
        all.extend(of_designs(self.design.describe()));
        all.extend(behind);
        all
    }
}

/// The first counter of the memory's, before which designs' counters stand.
const FIRST_OF_MEMORY: &str = "dram.reads";

/// Designs by the first part of their counters' names, in the order in which results have always had
/// them. Others follow.
const ORDER: &[&str] = &[
    "picl",
    "journaling",
    "frm",
    "shadow-paging",
    "thynvm",
    "nvoverlay",
    "spms",
    "hlog",
    "nearpm",
];

/// The counters of all registered designs, with the values of `own`; then what else `own` has, if its
/// design is not registered. Several designs may have a counter of the same name.
fn of_designs(own: Vec<Described>) -> Vec<Described> {
    let zeros = (perdure_designs::ALL.iter()).flat_map(|design| (design.counters)().describe());
    let mut names = BTreeSet::new();
    let mut all: Vec<Described> = zeros
        .chain(own.clone())
        .filter(|one| names.insert(one.name))
        .collect();
    all.sort_by_key(|one| {
        let design = one.name.split('.').next();
        let known = ORDER.iter().position(|known| Some(*known) == design);
        known.unwrap_or(ORDER.len())
    });
    for counted in own {
        let listed = all.iter_mut().find(|one| one.name == counted.name);
        listed.expect("all of them are listed").value = counted.value;
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use perdure_designs::frm::counters::Counters as Frm;

    use super::*;

    fn published(statistics: &MachineStatistics) -> Vec<(&'static str, u64)> {
        let all = statistics.describe().into_iter();
        all.map(|one| (one.name, one.value)).collect()
    }

    #[test]
    fn every_design_publishes_the_same_list_with_its_own_values_in_it() {
        let frm = published(&MachineStatistics {
            hardware: Statistics::default(),
            design: OwnCounters::new(Frm {
                merged: 3,
                log_bytes_live_peak: 7,
                ..Frm::default()
            }),
        });
        let none = published(&MachineStatistics::default());
        assert_eq!(frm.len(), none.len());
        for ((name, value), (of_none, zero)) in frm.into_iter().zip(none) {
            assert_eq!((name, 0), (of_none, zero));
            let expected = match name {
                "frm.merged" => 3,
                "picl.log_live_peak" => 7,
                _ => 0,
            };
            assert_eq!(value, expected, "{name}");
        }
    }

    #[test]
    fn designs_stand_in_their_order_between_caches_and_memory() {
        let all = published(&MachineStatistics::default());
        let names: BTreeSet<_> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all.len());
        let mut designs: Vec<_> = (all.iter())
            .filter_map(|(name, _)| name.split('.').next())
            .collect();
        designs.dedup();
        let behind = designs.iter().position(|name| *name == "dram").unwrap();
        let before = behind - ORDER.len();
        assert_eq!(&designs[before..behind], ORDER);
        assert_eq!(designs[before - 1], "epoch");
    }

    /// Every result of every design has had this list, and whoever compares results counts on it.
    #[test]
    fn the_manual_has_exactly_this_list() {
        let manual = include_str!("../../../docs/machine.md");
        let (_, table) = manual.split_once("<!-- table statistics -->").unwrap();
        let (table, _) = table.split_once("<!-- end -->").unwrap();
        let listed: Vec<_> = table.lines().filter(|row| row.starts_with("| `")).collect();
        let published = MachineStatistics::default().describe();
        let published: Vec<_> = (published.iter())
            .map(|one| format!("| `{}` | {} | {} |", one.name, one.unit, one.meaning))
            .collect();
        assert_eq!(published, listed);
    }

    /// Two designs may count the same, and then say the same about it.
    #[test]
    fn counters_of_one_name_have_one_meaning() {
        let mut meanings = BTreeMap::new();
        for design in perdure_designs::ALL {
            for one in (design.counters)().describe() {
                let meaning = (one.unit, one.meaning);
                assert_eq!(*meanings.entry(one.name).or_insert(meaning), meaning);
            }
        }
    }

    perdure_hardware::counters! {
        /// Of a design that is not registered.
        struct Unregistered {
            granted, "genie.granted", "wishes", "wishes granted";
        }
    }

    #[test]
    fn counters_of_a_design_that_is_not_registered_come_last_of_the_designs() {
        let all = published(&MachineStatistics {
            hardware: Statistics::default(),
            design: OwnCounters::new(Unregistered { granted: 3 }),
        });
        let behind = all.iter().position(|(name, _)| *name == FIRST_OF_MEMORY);
        assert_eq!(all[behind.unwrap() - 1], ("genie.granted", 3));
    }
}
