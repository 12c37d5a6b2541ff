//! Where a machine has its pools, and whether it may.
//!
//! Always true here: they lie in persistent memory beside that in which programs live, in the part that the
//! design leaves to them; or, where a design brings back all of the memory in which programs live, in the
//! last part of that, and then programs begin anew after every cut.

use std::ops::Range;
use std::sync::Arc;

use perdure_designs::Facts;
use perdure_designs::layout::Layout;
use perdure_hardware::physical_map::PhysicalMap;
use perdure_linux::{PAGE_BYTES, Pools};

use super::Workload;
use super::assemble::layout_of;
use crate::configuration::Configuration;
use crate::error::Error;
use crate::mistakes::Mistake;

/// The pools of a machine that is to run a workload.
pub fn of(configuration: &Configuration, workload: &Workload) -> Result<Option<Pools>, Error> {
    let Some(source) = &workload.pools else {
        return Ok(None);
    };
    Ok(Some(Pools {
        addresses: addresses(configuration, workload.begins_anew)?,
        source: Arc::clone(source),
        faults_commit: false,
        mistake: workload.mistake.and_then(Mistake::of_pools),
    }))
}

/// Where pools lie, if the machine may have any.
pub fn addresses(configuration: &Configuration, begins_anew: bool) -> Result<Range<u64>, Error> {
    if configuration.design.recovery.resumes() {
        let layout = layout_of(&configuration.specification);
        within(configuration.design, begins_anew, &layout)
    } else {
        beside(configuration, &configuration.specification.physical_map())
    }
}

/// Pools in memory beside that in which programs live.
fn beside(configuration: &Configuration, map: &PhysicalMap) -> Result<Range<u64>, Error> {
    let machine = &configuration.machine;
    let region = map.pools().next().ok_or_else(|| {
        Error::Request(format!(
            "--pmem: the machine '{machine}' has no persistent memory beside that in which programs live; take x86-pm, arm-pm or xeon-pm, or a machine file with two memories"
        ))
    })?;
    Ok((configuration.design.pool_data)(&region))
}

/// The last quarter of the memory in which programs live.
fn within(design: &Facts, begins_anew: bool, layout: &Layout) -> Result<Range<u64>, Error> {
    if !begins_anew {
        return Err(Error::Request(format!(
            "--pmem: {} brings programs back as they were, and keeps no pools beside them; cut with --restart, or take a design after which programs start anew, like ideal",
            design.name
        )));
    }
    let Range { start, end } = layout.frames;
    Ok(end - (end - start) / 4 / PAGE_BYTES * PAGE_BYTES..end)
}
