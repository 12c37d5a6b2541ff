//! What of a machine the design decides, and what it refuses.

use perdure_designs::Facts;
use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::specification::{Domain, Inclusion};
use toml::{Table, Value};

use super::{Configuration, configuration_error, place};
use crate::error::Error;

/// Replaces `llc.inclusion = "by-design"` by what the design needs, and refuses what it cannot have.
pub(super) fn settle_inclusion(table: &mut Table, design: &Facts) -> Result<(), Error> {
    const KEY: &str = "llc.inclusion";
    let text = |inclusion: Inclusion| {
        Value::try_from(inclusion).expect("an enumeration without fields is a string")
    };
    let (design, needed) = (design.name, design.needs_inclusion);
    let slot = place(table, KEY).expect("the schema has every key");
    if *slot == text(Inclusion::ByDesign) {
        *slot = text(if needed {
            Inclusion::Inclusive
        } else {
            Inclusion::NonInclusive
        });
    }
    if needed && *slot == text(Inclusion::NonInclusive) {
        return configuration_error(format!(
            "{KEY} = {slot}: {design} works only with an inclusive last-level cache; write \"inclusive\" or \"by-design\""
        ));
    }
    Ok(())
}

impl Configuration {
    /// Refuses a memory from which a design that resumes could not.
    pub(super) fn refuse_for_design(&self) -> Result<(), Error> {
        if !self.design.recovery.resumes() {
            return Ok(());
        }
        let (design, specification) = (self.design.name, &self.specification);
        if specification.persistence.domain == Domain::Eadr {
            return configuration_error(format!(
                "persistence.domain = \"eadr\": {design} decides itself what leaves the caches when; write \"adr\" or \"media\", or take a design that promises nothing, like ideal"
            ));
        }
        let volatile = (specification.modules.iter()).find(|one| one.kind == RegionKind::Dram);
        if let Some(module) = volatile {
            return configuration_error(format!(
                "module.{}.kind = \"dram\": programs and the kernel would live there, and {design} keeps them in persistent memory; leave the module out, or take a design that promises nothing, like ideal",
                module.name
            ));
        }
        Ok(())
    }
}
