//! Memory modules beside the NVM, what of memory outlives the power, and what lies where.

use serde::{Deserialize, Serialize};

use super::{Dram, ImpossibleGeometry, Link, MAIN_MODULE, Nvm, Specification, require};
use crate::cache::LINE_NUMBER_LIMIT;
use crate::line::LINE_BYTES;
use crate::physical_map::{PhysicalMap, Plan, RegionKind};

/// What a module keeps when the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Nothing: its bytes are gone.
    None,
    /// What its media have; a write that is under way there may be torn.
    Media,
    /// What its write queue has accepted, too: a reserve of energy drains it.
    WriteQueue,
}

impl Persistence {
    /// As a configuration spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Media => "media",
            Self::WriteQueue => "write-queue",
        }
    }
}

/// How far the machine's persistence domain reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    /// As each module says.
    #[default]
    Media,
    /// To the write queues of all persistent modules.
    Adr,
    /// To the caches and store buffers.
    Eadr,
}

/// What the machine's reserve of energy keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersistenceDomain {
    /// How far it reaches.
    pub domain: Domain,
}

/// A memory module beside the NVM: one `[[module]]` table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleSpecification {
    /// What it is called: small letters, digits and hyphens.
    pub name: String,
    /// What its bytes are to the machine.
    pub kind: RegionKind,
    /// What it keeps when the power fails.
    pub persistence: Persistence,
    /// The region that it shares with all modules that name the same one; a region of its own if empty.
    pub region: String,
    /// Bytes that lie together in one module of a shared region.
    pub interleaving_bytes: u64,
    /// Bytes of a device region beside its memory, through which its program is reached; 0 for none.
    pub device_bytes: u64,
    /// Its controller and media.
    pub media: Nvm,
    /// Its link.
    pub link: Link,
}

impl ModuleSpecification {
    /// The region that it is in.
    pub fn region(&self) -> &str {
        if self.region.is_empty() {
            &self.name
        } else {
            &self.region
        }
    }

    /// Its persistence in a machine whose domain reaches so far.
    pub fn kept(&self, domain: Domain) -> Persistence {
        match (self.kind, self.persistence, domain) {
            (RegionKind::Persistent, Persistence::Media, Domain::Adr | Domain::Eadr) => {
                Persistence::WriteQueue
            }
            (_, persistence, _) => persistence,
        }
    }

    fn validate(&self, others: &[Self]) -> Result<(), ImpossibleGeometry> {
        let key = |name: &str| format!("module.{}.{name}", self.name);
        let good = |name: &str| {
            let allowed =
                |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
            !name.is_empty() && name.chars().all(allowed)
        };
        require(
            good(&self.name) && self.name != MAIN_MODULE,
            "module.name",
            &format!("{:?}", self.name),
            "must be small letters, digits and hyphens, and not 'nvm', which is the module of [nvm]",
        )?;
        let same_name = others.iter().filter(|other| other.name == self.name);
        require(
            same_name.count() == 1,
            "module.name",
            &self.name,
            "must be one module's alone",
        )?;
        require(
            good(self.region()) && self.region() != MAIN_MODULE,
            &key("region"),
            &self.region,
            "must be small letters, digits and hyphens, and not 'nvm'",
        )?;
        let dram = self.kind == RegionKind::Dram;
        let forgets = self.persistence == Persistence::None;
        require(
            (!dram || forgets) && (self.kind != RegionKind::Persistent || !forgets),
            &key("persistence"),
            &self.persistence.name(),
            "must be none for kind = dram, and media or write-queue for kind = persistent",
        )?;
        let bytes = self.media.bytes;
        require(
            (4096..=1 << 42).contains(&bytes) && bytes.is_multiple_of(4096),
            &key("bytes"),
            &bytes,
            "must be a multiple of 4096, to 4 TiB",
        )?;
        let device = self.device_bytes;
        require(
            device.is_multiple_of(4096)
                && device <= 1 << 30
                && (self.kind != RegionKind::Device || device == 0),
            &key("device_bytes"),
            &device,
            "must be a multiple of 4096, to 1 GiB, and 0 for kind = device",
        )?;
        validate_media(&key(""), &self.media)?;
        validate_link(&key("link."), &self.link)?;
        self.validate_sharing(others)
    }

    /// Refuses modules that cannot take a region in turn.
    fn validate_sharing(&self, others: &[Self]) -> Result<(), ImpossibleGeometry> {
        let key = |name: &str| format!("module.{}.{name}", self.name);
        let (bytes, granule) = (self.media.bytes, self.interleaving_bytes);
        require(
            granule.is_power_of_two() && granule >= self.media.row_bytes as u64,
            &key("interleaving_bytes"),
            &granule,
            "must be a power of two, and at least row_bytes",
        )?;
        let sharing = || {
            others
                .iter()
                .filter(|other| other.region() == self.region())
        };
        if sharing().count() == 1 {
            return Ok(());
        }
        require(
            bytes.is_multiple_of(granule),
            &key("bytes"),
            &bytes,
            "must be a multiple of interleaving_bytes",
        )?;
        let alike = sharing().all(|other| {
            (
                other.kind,
                other.persistence,
                other.media.bytes,
                other.interleaving_bytes,
            ) == (self.kind, self.persistence, bytes, granule)
        });
        require(
            alike,
            &key("region"),
            &self.region(),
            "is shared by modules that must have the same kind, persistence, bytes and interleaving_bytes",
        )
    }
}

impl Specification {
    /// What lies where in the physical address space, and which module has it.
    pub fn physical_map(&self) -> PhysicalMap {
        let nvm = (self.nvm.bytes > 0).then(|| Plan {
            name: MAIN_MODULE.into(),
            kind: RegionKind::Persistent,
            bytes: self.nvm.bytes,
            modules: vec![0],
            granule_bytes: self.nvm.row_bytes as u64,
            offset: 0,
        });
        let mut plans = Vec::from_iter(nvm);
        for (index, module) in self.modules.iter().enumerate() {
            let number = index + 1;
            match (plans.iter_mut()).find(|plan| plan.name == module.region()) {
                Some(plan) => {
                    plan.modules.push(number);
                    plan.bytes += module.media.bytes;
                }
                None => plans.push(Plan {
                    name: module.region().into(),
                    kind: module.kind,
                    bytes: module.media.bytes,
                    modules: vec![number],
                    granule_bytes: module.interleaving_bytes,
                    offset: 0,
                }),
            }
        }
        let beside = (self.modules.iter().enumerate()).filter(|(_, one)| one.device_bytes > 0);
        plans.extend(beside.map(|(index, module)| Plan {
            name: format!("{}.device", module.name),
            kind: RegionKind::Device,
            bytes: module.device_bytes,
            modules: vec![index + 1],
            granule_bytes: module.interleaving_bytes,
            offset: module.media.bytes,
        }));
        PhysicalMap::new(plans)
    }

    /// Lines of the physical address space.
    pub fn lines(&self) -> usize {
        (self.physical_map().bytes() / LINE_BYTES as u64) as usize
    }

    /// What the module of [`Self::nvm`] keeps when the power fails.
    pub fn nvm_keeps(&self) -> Persistence {
        match self.persistence.domain {
            Domain::Media => Persistence::Media,
            Domain::Adr | Domain::Eadr => Persistence::WriteQueue,
        }
    }

    /// What a machine needs whose `[nvm]` says what its modules have in common, and is no module itself.
    pub(super) fn has_dram_and_persistent_modules(&self) -> bool {
        let has = |kind| self.modules.iter().any(|one| one.kind == kind);
        has(RegionKind::Dram) && has(RegionKind::Persistent)
    }

    pub(super) fn validate_modules(&self) -> Result<(), ImpossibleGeometry> {
        for module in &self.modules {
            module.validate(&self.modules)?;
        }
        require(
            self.modules.is_empty() || !self.dram.present,
            "dram.present",
            &self.dram.present,
            "is DRAM in front of the NVM, without addresses of its own; it cannot be had beside [[module]] tables",
        )?;
        let sizes = self.modules.iter();
        let bytes: u64 = sizes.map(|one| one.media.bytes + one.device_bytes).sum();
        let bytes = bytes.saturating_add(self.nvm.bytes);
        require(
            bytes <= 1 << 42 && bytes / LINE_BYTES as u64 <= LINE_NUMBER_LIMIT,
            "module.bytes",
            &bytes,
            "and nvm.bytes must be at most 4 TiB together",
        )
    }
}

/// Refuses a link that cannot be built; `prefix` begins its keys.
pub(super) fn validate_link(prefix: &str, link: &Link) -> Result<(), ImpossibleGeometry> {
    require(
        link.width_bits >= 8 && link.width_bits.is_multiple_of(8) && link.width_bits <= 4096,
        &format!("{prefix}width_bits"),
        &link.width_bits,
        "must be a multiple of 8, 8 to 4096",
    )?;
    require(
        (1..=1_000_000).contains(&link.frequency_mhz),
        &format!("{prefix}frequency_mhz"),
        &link.frequency_mhz,
        "must be 1 to 1000000",
    )?;
    require(
        (0.0..=1e6).contains(&link.latency_ns),
        &format!("{prefix}latency_ns"),
        &link.latency_ns,
        "must be 0 to 1e6",
    )
}

/// Refuses a controller and media that cannot be built, whatever their size.
pub(super) fn validate_media(prefix: &str, media: &Nvm) -> Result<(), ImpossibleGeometry> {
    require(
        media.row_bytes.is_power_of_two() && (64..=65536).contains(&media.row_bytes),
        &format!("{prefix}row_bytes"),
        &media.row_bytes,
        "must be a power of two, 64 to 65536",
    )?;
    for (key, value) in [
        ("row_read_ns", media.row_read_ns),
        ("row_write_ns", media.row_write_ns),
    ] {
        require(
            value > 0.0 && value <= 1e9,
            &format!("{prefix}{key}"),
            &value,
            "must be above 0 and at most 1e9",
        )?;
    }
    for (key, value) in [
        ("banks", media.banks),
        ("read_queue_entries", media.read_queue_entries),
        ("write_queue_entries", media.write_queue_entries),
    ] {
        require(
            (1..=4096).contains(&value),
            &format!("{prefix}{key}"),
            &value,
            "must be 1 to 4096",
        )?;
    }
    Ok(())
}

impl Dram {
    pub(super) fn validate(&self) -> Result<(), ImpossibleGeometry> {
        for (key, count) in [
            ("dram.controllers", self.controllers),
            ("dram.banks", self.banks),
        ] {
            require((1..=64).contains(&count), key, &count, "must be 1 to 64")?;
        }
        for (key, value) in [
            ("dram.access_ns", self.access_ns),
            ("dram.cycle_ns", self.cycle_ns),
        ] {
            let good = value > 0.0 && value <= 1e9;
            require(good, key, &value, "must be above 0 and at most 1e9")?;
        }
        require(
            (1..=1_000_000).contains(&self.frequency_mhz),
            "dram.frequency_mhz",
            &self.frequency_mhz,
            "must be 1 to 1000000",
        )
    }
}
