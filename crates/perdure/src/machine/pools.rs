//! Where a machine has its pools, and whether it may.
//!
//! Always true here: they lie in persistent memory beside that in which programs live, in the part that the
//! design leaves to them.

use std::ops::Range;
use std::sync::Arc;

use perdure_designs::Design;
use perdure_hardware::physical_map::PhysicalMap;
use perdure_linux::Pools;

use super::Workload;
use crate::configuration::Configuration;
use crate::error::Error;
use crate::mistakes::Mistake;

/// The pools of a machine that is to run a workload.
pub fn of<D: Design>(
    configuration: &Configuration,
    workload: &Workload,
    map: &PhysicalMap,
) -> Result<Option<Pools>, Error> {
    let Some(source) = &workload.pools else {
        return Ok(None);
    };
    Ok(Some(Pools {
        addresses: addresses::<D>(map, &configuration.machine)?,
        source: Arc::clone(source),
        mistake: workload.mistake.and_then(Mistake::of_pools),
    }))
}

/// Where programs have pools in a machine's memory.
fn addresses<D: Design>(map: &PhysicalMap, machine: &str) -> Result<Range<u64>, Error> {
    let Some(region) = map.pools().next() else {
        return Err(Error::Request(format!(
            "--pmem: the machine '{machine}' has no persistent memory beside that in which programs live; take x86-pm, arm-pm or xeon-pm, or a machine file with two memories"
        )));
    };
    if D::RECOVERY.resumes() {
        return Err(Error::Request(format!(
            "--pmem: {} brings programs back as they were, and keeps no pools beside them; take a design after which programs start anew, like ideal",
            D::NAME
        )));
    }
    Ok(D::pool_data(&region))
}
