//! Whether devices recover as if the power had not failed again: their modules' bytes must be the same,
//! whatever a promise is about. What the design makes of them afterwards is judged elsewhere.
//!
//! Always true here: looking changes nothing.

use perdure_designs::surviving::{DeviceRecoveries, Journal, Surviving, recover_devices};
use perdure_hardware::memory::{Memory, Tear};

use super::again::{chosen_steps, cut_at};

/// Cuts the devices' recovery at up to so many of its steps, lets it begin again, and compares with what one
/// recovery leaves.
pub(super) fn converge(
    memory: &mut Memory,
    devices: &DeviceRecoveries,
    journals: &mut [Journal; 2],
    (most_steps, seed): (u64, u64),
) -> Result<(), String> {
    if devices.is_empty() {
        return Ok(());
    }
    let mut image = Surviving::of(memory, Journal::default());
    // One that leaves its module is a recovery that failed, which has its own verdict.
    let _ = recover_devices(&mut image, devices);
    let steps = image.steps();
    let left = image.take_back();
    let own = |line: u64| {
        let mut ranges = devices.iter().flat_map(|(_, own)| own);
        ranges.any(|range| range.contains(&line))
    };
    let recover = |image: &mut Surviving| {
        let _ = recover_devices(image, devices);
        match image.difference(&left, own) {
            Some(line) => Err(format!("a module differs at {line:#x}")),
            None => Ok(()),
        }
    };
    let chosen = chosen_steps(steps, most_steps, seed);
    let tear = |step: u64| Tear::new(seed ^ step);
    cut_at(&chosen, memory, journals, tear, recover).map_err(|(at, difference)| {
        let how = match at {
            Some(at) => format!("cut again at step {} of the devices' recovery", chosen[at]),
            None => "the devices' recovery begun again on the same bytes".into(),
        };
        format!("{how}: {difference}")
    })
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use perdure_hardware::arena::Arena;
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
            let devices = vec![(recovery, vec![page])];
            converge(memory, &devices, &mut Default::default(), (8, 1))
        };
        assert_eq!(judged(&mut memory, copies), Ok(()));
        let said = judged(&mut memory, counts).unwrap_err();
        assert!(said.contains("a module differs at 0x1000"), "{said}");
        assert!(memory.arena.differing_lines(&before).is_empty());
    }
}
