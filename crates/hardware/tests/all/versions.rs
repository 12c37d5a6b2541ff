//! The version tag of a store's line in the shared cache.

use perdure_hardware::arena::Arena;
use perdure_hardware::cache::Slot;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{Line, LineNumber, Version};
use perdure_hardware::policy::CrossVersionStore;

use crate::support::{AtHome, tiny};

#[test]
fn a_store_s_line_is_tagged_and_no_other_that_its_slot_has_by_now() {
    let specification = tiny(1);
    let arena = Arena::new(specification.nvm.bytes).expect("address space");
    let mut hardware = Hardware::new(specification, arena, 0..0);
    let lines: [LineNumber; 2] = [4, 5];
    let [slot, _] = lines.map(|line| hardware.load(&mut AtHome, 0, line, 0).0);
    let mut tag = |line: LineNumber, slot: Option<Slot>, version: u16| {
        let store = CrossVersionStore {
            hart: 0,
            group: 0,
            line,
            version: Version::NONE,
            old: &Line::ZERO,
            new: &Line::ZERO,
            offset: 0,
            length: 8,
            slot,
        };
        hardware.set_llc_version_of(&store, Version(version));
        let llc = &hardware.llc;
        lines.map(|line| llc.word(llc.find(line).expect("inclusion")).version().0)
    };
    assert_eq!(tag(4, Some(slot), 3), [3, Version::NONE.0]);
    assert_eq!(tag(5, Some(slot), 5), [3, 5], "the slot has line 4");
    assert_eq!(tag(4, None, 7), [7, 5], "a store around the caches");
    assert_eq!(tag(9, Some(slot), 9), [7, 5], "a line that is not cached");
}
