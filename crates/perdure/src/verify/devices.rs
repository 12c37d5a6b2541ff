//! Whether devices recover as if the power had not failed again: their modules' bytes must be the same,
//! whatever a promise is about. What the design makes of them afterwards is judged elsewhere.
//!
//! Always true here: looking changes nothing.

use perdure_designs::surviving::{DeviceRecoveries, Journal, Surviving, recover_devices};
use perdure_hardware::arena::Arena;
use perdure_hardware::memory::{Memory, Tear};

use super::again::chosen_steps;

/// Cuts the devices' recovery at up to so many of its steps, lets it begin again, and compares with what one
/// recovery leaves.
pub(super) fn converge(
    memory: &mut Memory,
    devices: &DeviceRecoveries,
    (most_steps, seed): (u64, u64),
) -> Result<(), String> {
    if devices.is_empty() {
        return Ok(());
    }
    let (once, steps) = recovered(memory, devices, None);
    let own = |line: &u64| {
        let mut ranges = devices.iter().flat_map(|(_, own)| own);
        ranges.any(|range| range.contains(line))
    };
    for step in chosen_steps(steps, most_steps, seed) {
        let (twice, _) = recovered(memory, devices, Some((step, Tear::new(seed ^ step))));
        let differing = once.differing_lines(&twice);
        if let Some(line) = differing.into_iter().find(own) {
            return Err(format!(
                "cut again at step {step} of the devices' recovery: a module differs at {line:#x}"
            ));
        }
    }
    Ok(())
}

/// Memory as the devices leave it, perhaps after a recovery that was cut, and how many steps that took.
fn recovered(
    memory: &mut Memory,
    devices: &DeviceRecoveries,
    cut: Option<(u64, Tear)>,
) -> (Arena, u64) {
    let first = cut.map(|(step, tear)| {
        let mut image = Surviving::of(memory, Journal::default()).failing_at(step, tear);
        // That it was cut is what it says; what else there is to say, the one that follows says, too.
        let _ = recover_devices(&mut image, devices);
        image.into_journal()
    });
    let mut image = Surviving::of(memory, Journal::default());
    // One that leaves its module is a recovery that failed, which has its own verdict.
    let _ = recover_devices(&mut image, devices);
    let steps = image.steps();
    let second = image.into_journal();
    let left = memory.arena.clone();
    for journal in [Some(second), first].into_iter().flatten() {
        journal.undo(&mut memory.arena);
    }
    (left, steps)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use perdure_hardware::device::{PowerLost, Recovery, SurvivingBytes};

    use super::*;
    use crate::configuration::Configuration;

    fn copies(image: &mut dyn SurvivingBytes, own: &[Range<u64>]) -> Result<(), PowerLost> {
        let bytes = image.read(own[0].start, 8);
        image.write(own[0].start + 64, &bytes)?;
        image.write(own[0].start + 128, &bytes)
    }

    /// Counts its recoveries before it is through.
    fn counts(image: &mut dyn SurvivingBytes, own: &[Range<u64>]) -> Result<(), PowerLost> {
        let count = image.read(own[0].start, 1)[0];
        image.write(own[0].start, &[count + 1])?;
        image.write(own[0].start + 64, &[1])
    }

    #[test]
    fn a_recovery_that_leaves_something_else_the_second_time_is_found() {
        let small = ["nvm.bytes=64MiB".to_owned()];
        let machine = Configuration::new("picl", "ideal", &small, None).unwrap();
        let arena = Arena::new(machine.specification.nvm.bytes).unwrap();
        let mut memory = Memory::new(&machine.specification, arena, 0..0);
        memory.arena.write(4096, &[7; 8]);
        let before = memory.arena.clone();
        let judged = |memory: &mut Memory, recovery: Recovery| {
            let page: Range<u64> = 4096..8192;
            converge(memory, &vec![(recovery, vec![page])], (8, 1))
        };
        assert_eq!(judged(&mut memory, copies), Ok(()));
        let said = judged(&mut memory, counts).unwrap_err();
        assert!(said.contains("a module differs at 0x1000"), "{said}");
        assert!(memory.arena.differing_lines(&before).is_empty());
    }
}
