//! The effective configuration: a machine preset, the designs' parameters, and the user's
//! overrides, merged as TOML tables, checked key by key, then typed.
//!
//! Every known key stands in the built-in preset `machines/picl.toml` with a comment that says what
//! it means, so that table is the schema, together with the sections of designs that it does not
//! have: a key that isn't in it is refused with the nearest one that is. The comment of a number also
//! says its range, and no number outside it gets any further, whichever design runs: what a run
//! computes with is never so large that times overflow or that the run cannot end.

use perdure_designs::facts::Parameters;
use perdure_designs::{Facts, named};
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::specification::{
    Core, Dram, Link, Nvm, PersistenceDomain, Posted, PrefetcherSpecification, Private, Second,
    Shared, Specification,
};
use perdure_linux::{CacheKind, CpuCache};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::LazyLock;
use toml::{Table, Value};

use crate::error::Error;
use crate::version::TIMING;

mod by_design;
mod explained;
mod given;
mod modules;
mod presets;
mod suggestions;

pub use explained::Explained;
use explained::{Explanations, RANGES, check_ranges, number};
pub use presets::{MACHINES, summary};
pub use suggestions::nearest;

/// Fewest stores of an epoch.
pub const LEAST_EPOCH_STORES: u64 = 100;

/// Most instructions or stores of a step of the schedule.
const MOST_SCHEDULED: u64 = 1_000_000_000_000_000;

/// Whose stores are counted for an epoch's end. Where sharing groups have epochs of their own, each
/// counts those of its harts, one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// Each hart's by itself: the first to have made so many ends the epoch of all.
    Hart,
    /// Those of all harts together.
    All,
}

/// When an epoch ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// After so many instructions of one hart; 0 for never.
    pub instructions: u64,
    /// After so many stores; 0 for never.
    pub stores: u64,
    /// Of whom.
    pub counted: Counted,
    /// After so many cycles; 0 for never.
    pub cycles: u64,
    /// Other numbers of stores later on, as `INSTRUCTIONS:STORES,...`.
    pub schedule: String,
}

impl Epoch {
    /// The schedule as pairs: instructions of all harts, and stores from then on.
    pub fn scheduled(&self) -> Result<Vec<(u64, u64)>, Error> {
        let wrong = |text: &str| {
            Error::Configuration(format!(
                "epoch.schedule = \"{}\": '{text}' should be INSTRUCTIONS:STORES, with growing instructions, at least {LEAST_EPOCH_STORES} stores, and no number above {MOST_SCHEDULED}",
                self.schedule
            ))
        };
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for text in self.schedule.split(',').filter(|text| !text.is_empty()) {
            let number = |text: &str| u64::try_from(parse_override(text.trim()).as_integer()?).ok();
            let step = text
                .split_once(':')
                .and_then(|(at, stores)| Some((number(at)?, number(stores)?)))
                .ok_or_else(|| wrong(text))?;
            if step.1 < LEAST_EPOCH_STORES
                || step.0.max(step.1) > MOST_SCHEDULED
                || steps.last().is_some_and(|last| last.0 >= step.0)
            {
                return Err(wrong(text));
            }
            steps.push(step);
        }
        Ok(steps)
    }
}

/// How harts take turns in the simulator and threads on harts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduling {
    /// How far a hart may run ahead of the next one.
    pub lookahead_cycles: u64,
    /// How long a thread keeps its hart when others wait.
    pub slice_cycles: u64,
    /// A hart that gives an idle one something to run is no further ahead of it than of others.
    pub wakes_end_turns: bool,
}

/// Costs and constants of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelCosts {
    /// Own work for one system call.
    pub system_call_cycles: u64,
    /// Own work for one page fault.
    pub page_fault_cycles: u64,
    /// Output that may wait before an output commit is forced.
    pub output_limit_bytes: usize,
    /// Output that is held in the host's memory; more lies on its disk. Changes no result.
    pub output_memory_bytes: u64,
    /// The most that a guest can make the host keep of its output, and of the host's files.
    pub host_limit_bytes: u64,
    /// Stack of the first thread.
    pub stack_bytes: u64,
    /// Seed of the guest's random numbers.
    pub random_seed: u64,
    /// The guest's clock at boot.
    pub clock_start_ns: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Typed {
    harts: usize,
    core: Core,
    l1i: Private,
    l1d: Private,
    prefetcher: PrefetcherSpecification,
    l2: Second,
    llc: Shared,
    link: Link,
    nvm: Nvm,
    dram: Dram,
    posted: Posted,
    persistence: PersistenceDomain,
    epoch: Epoch,
    scheduling: Scheduling,
    kernel: KernelCosts,
}

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Name of the machine preset, or the path of the user's.
    pub machine: String,
    /// The design.
    pub design: &'static Facts,
    /// The substrate.
    pub specification: Specification,
    /// Epochs.
    pub epoch: Epoch,
    /// Turns.
    pub scheduling: Scheduling,
    /// Kernel.
    pub kernel: KernelCosts,
    /// All of it as a table, the designs' sections included.
    pub table: Table,
    /// What is known of each key.
    explanations: Explanations,
}

/// The table that knows every key. A design whose section no preset has brings its own defaults.
static SCHEMA: LazyLock<Table> = LazyLock::new(|| {
    let mut table: Table = MACHINES[0].1.parse().expect("the built-in preset is TOML");
    for design in perdure_designs::ALL {
        let section = table.entry(design.name);
        section.or_insert_with(design.defaults);
    }
    table
});

fn configuration_error<T>(message: String) -> Result<T, Error> {
    Err(Error::Configuration(message))
}

/// All leaf keys, dotted, in order.
fn leaves(table: &Table, prefix: &str, into: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        let key = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            Value::Table(inner) => leaves(inner, &key, into),
            _ => into.push((key, value.clone())),
        }
    }
}

fn place<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Value> {
    match key.split_once('.') {
        None => table.get_mut(key),
        Some((first, rest)) => place(table.get_mut(first)?.as_table_mut()?, rest),
    }
}

/// Puts a value at a key that exists, keeping its type.
fn put(table: &mut Table, key: &str, value: Value, source: &str) -> Result<(), Error> {
    if place(table, key).is_none_or(|value| value.is_table()) {
        return configuration_error(format!(
            "{source}: there is no key '{}'; {}",
            given::shown(key),
            suggestions::hint(key, table)
        ));
    }
    let slot = place(table, key).expect("it is there");
    let value = match (&*slot, value) {
        (Value::Float(_), value @ Value::Integer(_)) => number(&value).map_or(value, Value::Float),
        (_, value) => value,
    };
    if !slot.same_type(&value) {
        let kind = match slot {
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Boolean(_) => "true or false",
            Value::Array(_) => "a list of tables, which a machine file has",
            _ => "a text",
        };
        let range = RANGES.get(key).map(|range| format!(", {}", range.text));
        return configuration_error(format!(
            "{source}: {key} = {} should be {kind}{}, as in {key} = {slot}{}",
            given::shown(&value.to_string()),
            range.unwrap_or_default(),
            if key.contains("bytes") {
                ", 64KiB or 2MiB"
            } else {
                ""
            }
        ));
    }
    *slot = value;
    Ok(())
}

/// A value in the notation of the command line: `30_000_000`, `30e6`, `0x10`, `64KiB`, `2MiB`, `true`.
pub(crate) fn parse_override(text: &str) -> Value {
    if let Ok(flag) = text.parse::<bool>() {
        return Value::Boolean(flag);
    }
    let plain = text.replace('_', "");
    for (suffix, factor) in [("KiB", 1i64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)] {
        if let Some(number) = plain.strip_suffix(suffix)
            && let Ok(number) = number.trim().parse::<i64>()
            && let Some(bytes) = number.checked_mul(factor)
        {
            return Value::Integer(bytes);
        }
    }
    if let Some(hexadecimal) = plain.strip_prefix("0x")
        && let Ok(number) = i64::from_str_radix(hexadecimal, 16)
    {
        return Value::Integer(number);
    }
    if let Ok(number) = plain.parse::<i64>() {
        return Value::Integer(number);
    }
    match plain.parse::<f64>() {
        Ok(number)
            if number.is_finite()
                && number.fract() == 0.0
                && plain.contains(['e', 'E'])
                && number.abs() < 9e15 =>
        {
            Value::Integer(number as i64)
        }
        Ok(number) if number.is_finite() => Value::Float(number),
        _ => Value::String(text.to_owned()),
    }
}

/// The design of that name.
pub fn design_named(design: &str) -> Result<&'static Facts, Error> {
    named(design).ok_or_else(|| {
        let names = perdure_designs::NAMES;
        Error::Configuration(format!(
            "there is no design '{design}'; the nearest is '{}' (all: {})",
            nearest(design, names.iter().copied()).unwrap_or_default(),
            names.join(", ")
        ))
    })
}

impl Configuration {
    /// What programs are told of the machine's caches.
    pub fn caches(&self) -> Vec<CpuCache> {
        use CacheKind::{Data, Instruction, Unified};
        let Specification {
            l1i, l1d, l2, llc, ..
        } = &self.specification;
        let all = self.specification.harts;
        let cache = |level, kind, (bytes, ways), harts| CpuCache {
            level,
            kind,
            bytes,
            ways,
            line_bytes: LINE_BYTES,
            harts,
        };
        // Of the last level one slice for each hart, and every hart uses all of them.
        vec![
            cache(1, Data, (l1d.bytes, l1d.ways), 1),
            cache(1, Instruction, (l1i.bytes, l1i.ways), 1),
            cache(2, Unified, (l2.bytes, l2.ways), l2.harts),
            cache(3, Unified, (llc.bytes_per_hart * all, llc.ways), all),
        ]
    }

    /// Merges preset, overrides (`key=value`) and the number of harts, and checks the result.
    pub fn new(
        machine: &str,
        design: &str,
        overrides: &[String],
        harts: Option<usize>,
    ) -> Result<Self, Error> {
        let design = design_named(design)?;
        let (mut table, mut explanations) = (SCHEMA.clone(), Explanations::of_base());
        if let Some((_, preset)) = MACHINES.iter().find(|(name, _)| *name == machine) {
            merge(&mut table, preset, machine)?;
            explanations.give(preset, machine);
        } else if Path::new(machine)
            .extension()
            .is_some_and(|extension| extension == "toml")
            || machine.contains('/')
        {
            let text = given::read(machine)?;
            merge(&mut table, &text, machine)?;
            explanations.give(&text, machine);
        } else {
            return configuration_error(format!(
                "there is no machine '{machine}'; the nearest is '{}', or name a file ending in .toml",
                nearest(machine, MACHINES.iter().map(|(name, _)| *name)).unwrap_or_default()
            ));
        }
        for text in overrides {
            let Some((key, value)) = text.split_once('=') else {
                return configuration_error(format!("--set {text}: write KEY=VALUE"));
            };
            let (key, text) = (key.trim(), value.trim());
            let value = parse_override(text);
            let put = match key.strip_prefix("module.") {
                Some(key) => modules::set(&mut table, key, value.clone()),
                None => put(&mut table, key, value.clone(), "--set"),
            };
            put.map_err(|refusal| given::in_words(refusal, &value, text))?;
            explanations.set(key, "--set");
        }
        if let Some(harts) = harts {
            let harts = i64::try_from(harts).unwrap_or(i64::MAX);
            table.insert("harts".into(), Value::Integer(harts));
            explanations.set("harts", "--harts");
        }
        Self::of_table(table, explanations, machine, design)
    }

    /// The configuration that [`Self::effective`] gave as TOML; `machine` is what it was called.
    pub fn of_effective(text: &str, machine: &str, design: &str) -> Result<Self, Error> {
        let design = design_named(design)?;
        let mut table = SCHEMA.clone();
        let given: Table = text
            .parse()
            .map_err(|error: toml::de::Error| Error::Configuration(error.message().to_owned()))?;
        let keys = given.into_iter().filter(|(key, _)| key != "design");
        let text = toml::to_string(&keys.collect::<Table>()).expect("a table that came from TOML");
        merge(&mut table, &text, machine)?;
        let mut explanations = Explanations::of_base();
        explanations.give(&text, machine);
        Self::of_table(table, explanations, machine, design)
    }

    fn of_table(
        mut table: Table,
        explanations: Explanations,
        machine: &str,
        design: &'static Facts,
    ) -> Result<Self, Error> {
        check_ranges(&table)?;
        by_design::settle_inclusion(&mut table, design)?;
        let modules = modules::of_table(&mut table)?;
        let typed: Typed = (table.clone().try_into())
            .map_err(|error| Error::Configuration(given::no_value(&error)))?;
        let configuration = Self {
            machine: machine.to_owned(),
            design,
            specification: Specification {
                harts: typed.harts,
                core: typed.core,
                l1i: typed.l1i,
                l1d: typed.l1d,
                prefetcher: typed.prefetcher,
                l2: typed.l2,
                llc: typed.llc,
                link: typed.link,
                nvm: typed.nvm,
                dram: typed.dram,
                posted: typed.posted,
                persistence: typed.persistence,
                modules,
            },
            epoch: typed.epoch,
            scheduling: typed.scheduling,
            kernel: typed.kernel,
            table,
            explanations,
        };
        configuration.validate()?;
        for design in perdure_designs::ALL {
            configuration.parameters_of(design)?;
        }
        Ok(configuration)
    }

    fn validate(&self) -> Result<(), Error> {
        (self.specification.validate())
            .map_err(|problem| modules::counted::refusal(&self.table, problem))?;
        self.refuse_for_design()?;
        self.epoch.scheduled().map(drop)
    }

    /// The first key by which the machine has what none can: its runs are timed, and no design's
    /// promise holds there.
    pub fn timing_only(&self) -> Option<&'static str> {
        let posted = &self.specification.posted;
        let untimed = |design: &str, key: &str| {
            let section = self.table.get(design).and_then(Value::as_table);
            let value = section.and_then(|section| section.get(key));
            self.design.name == design && value.and_then(Value::as_bool) == Some(false)
        };
        if posted.writes {
            Some("posted.writes")
        } else if untimed("hardware-shadow", "table_takes_time") {
            Some("hardware-shadow.table_takes_time")
        } else if untimed("picl-l2", "coherence_evicts") {
            Some("picl-l2.coherence_evicts")
        } else {
            None
        }
    }

    /// Refuses such a machine to whoever needs what survives a power cut.
    pub fn refuse_timing_only(&self, what: &str) -> Result<(), Error> {
        let Some(key) = self.timing_only() else {
            return Ok(());
        };
        let value = place(&mut self.table.clone(), key).map(|value| value.to_string());
        configuration_error(format!(
            "{key} = {}: such a machine is for timing only, and nothing that it writes survives a power cut as a design promises; {what} needs another (run, compare and sweep work)",
            value.unwrap_or_default()
        ))
    }

    /// The design's parameters, from its section.
    pub fn parameters(&self) -> Result<Parameters, Error> {
        self.parameters_of(self.design)
    }

    fn parameters_of(&self, design: &Facts) -> Result<Parameters, Error> {
        let section = self.table.get(design.name).cloned();
        let section = section.unwrap_or(Value::Table(Table::new()));
        (design.parameters)(section).map_err(|error| {
            Error::Configuration(format!("[{}] {}", design.name, given::no_value(&error)))
        })
    }

    /// The configuration as TOML: what decides a run's result, no more (other designs' sections
    /// are left out).
    pub fn effective(&self) -> Table {
        let mut table = self.table.clone();
        for name in perdure_designs::NAMES {
            if *name != self.design.name {
                table.remove(*name);
            }
        }
        table.insert("design".into(), Value::String(self.design.name.into()));
        table
    }

    /// The same as text.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.effective()).expect("a table that came from TOML")
    }

    /// A hash of [`Self::effective`] and of the [timing version](TIMING), 16 hexadecimal digits. The
    /// preset's name does not count.
    pub fn hash(&self) -> String {
        let text = format!("timing = {TIMING}\n{}", self.to_toml());
        format!("{:016x}", twox_hash::XxHash3_64::oneshot(text.as_bytes()))
    }

    /// Every key with its value and what is known of it, for `perdure config`.
    pub fn describe(&self) -> Vec<(String, Value, Explained)> {
        let mut known = Vec::new();
        leaves(&self.effective(), "", &mut known);
        modules::in_full(known)
            .into_iter()
            .map(|(key, value)| (key.clone(), value, self.explanations.of(&key)))
            .collect()
    }
}

fn merge(table: &mut Table, preset: &str, source: &str) -> Result<(), Error> {
    let parsed = preset.parse::<Table>();
    let preset = parsed.map_err(|error| given::no_toml(source, &error, preset))?;
    let mut values = Vec::new();
    leaves(&preset, "", &mut values);
    values
        .into_iter()
        .try_for_each(|(key, value)| put(table, &key, value, source))
}

#[cfg(test)]
mod tests;
