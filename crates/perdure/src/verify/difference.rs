//! What a cut left of memory, beside what it should have left.
//!
//! Always true here: looking changes nothing; the machine is afterwards as before.

use std::ops::Range;

use perdure_designs::oracle::{Evidence, Oracle};
use perdure_designs::surviving::{Journal, Surviving};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::time::Cycles;

use super::{scope, witness};
use crate::machine::Machine;

/// What wrong memory is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// What was promised, of that epoch where there are epochs.
    Promise(u64),
    /// What programs saw in their pools when the power was cut.
    Newest,
}

/// Memory as recovery left it, and as it should be.
pub struct Images {
    /// As it should be.
    pub expected: Arena,
    /// As it came back.
    pub found: Arena,
    /// Addresses of the lines that differ where it matters, in order.
    pub wrong: Vec<u64>,
    /// What recovery says, if it refused.
    pub refused: Option<String>,
}

/// Makes a range what it is elsewhere.
pub fn overwrite(memory: &mut Arena, with: &Arena, range: &Range<u64>) {
    let differing = memory.differing_lines(with);
    for address in differing.into_iter().filter(|line| range.contains(line)) {
        memory.write_line(address, with.line(address));
    }
}

/// Cuts and recovers as [`super::cut`] does, and compares byte by byte; the oracle has watched the machine to
/// the cut, and remembers the image of the epoch that was promised.
pub fn images(
    machine: &mut Machine,
    oracle: Box<dyn Oracle>,
    against: Against,
    (at, tear_seed): (Cycles, u64),
) -> std::io::Result<Images> {
    let range = scope(machine);
    let pools: Vec<Range<u64>> = machine.hardware.memory.map().pools().collect();
    let recovery = machine.recovery();
    let (announced, seen) = (machine.announced_epoch(), machine.outside.seen_epoch);
    let newest = witness(machine).image()?;
    let lost = machine.power_off(at, tear_seed);
    let memory = &mut machine.hardware.memory;
    let mut surviving = Surviving::of(memory, Journal::default());
    let recovered = recovery.run(&mut surviving);
    let journal = surviving.into_journal();
    let found = memory.arena.clone();
    journal.undo(&mut memory.arena);
    memory.power_back(&lost);
    let refused = recovered.as_ref().err().map(ToString::to_string);
    if against == Against::Newest {
        let mut wrong = found.differing_lines(&newest);
        wrong.retain(|line| pools.iter().any(|pool| pool.contains(line)));
        return Ok(Images {
            expected: newest,
            found,
            wrong,
            refused,
        });
    }
    let evidence = Evidence {
        recovered: &recovered,
        image: &found,
        memory: found.digest_of(range.clone()),
        at,
        announced,
        seen,
        early: None,
    };
    if let Some(lines) = oracle.wrong_lines(&evidence) {
        let mut expected = found.clone();
        let mut wrong = Vec::with_capacity(lines.len());
        for (line, bytes) in lines {
            wrong.push(line * LINE_BYTES as u64);
            expected.write_line(line * LINE_BYTES as u64, &bytes);
        }
        return Ok(Images {
            expected,
            found,
            wrong,
            refused,
        });
    }
    let expected = oracle.into_image(&witness(machine))?;
    let mut wrong = found.differing_lines(&expected);
    wrong.retain(|line| range.contains(line));
    Ok(Images {
        expected,
        found,
        wrong,
        refused,
    })
}
