//! Results as JSON. Keys are fixed: programs read them.

use perdure_hardware::arena::Digest;
use perdure_hardware::counters::{Counters, Described};
use perdure_hardware::module::{self, Module};
use perdure_hardware::statistics::Statistics;
use perdure_linux::FatalSignal;
use perdure_riscv::{Instruction, Operation};
use serde_json::{Map, Value, json};
use twox_hash::XxHash3_128;

use crate::context::SavedAt;
use crate::error::Error;
use crate::machine::Machine;
use crate::region::Measured;
use crate::request::Prepared;
use crate::source::Source;

/// A hash of the machine's final state: memory as the program sees it, every context, time, what
/// left the machine, and how the program ended.
pub fn state_hash<S: Source>(machine: &Machine<S>) -> String {
    let Digest(memory) = machine
        .hardware
        .coherent_digest(&*machine.design, &machine.layout.protected());
    let mut hasher = XxHash3_128::new();
    hasher.write(&memory.to_le_bytes());
    if let Some((addresses, _)) = machine.kernel().pools() {
        let Digest(pools) = (machine.hardware).coherent_digest(&*machine.design, &addresses);
        hasher.write(&pools.to_le_bytes());
    }
    for context in machine.contexts() {
        hasher.write(&context.encode(SavedAt::default()));
    }
    for hart in 0..machine.hardware.cores.len() {
        hasher.write(&machine.clock(hart).to_le_bytes());
    }
    for ((program, descriptor), stream) in &machine.outside.streams {
        let place = u64::from(*program) << 8 | u64::from(*descriptor);
        hasher.write(&place.to_le_bytes());
        hasher.write(&stream.len().to_le_bytes());
        hasher.write(&stream.digest().to_le_bytes());
    }
    let status = machine
        .ended()
        .map_or(i32::MIN, |ended| ended.report.status);
    hasher.write(&status.to_le_bytes());
    format!("{:032x}", hasher.finish_128())
}

/// Everything about a finished run.
#[expect(clippy::cast_precision_loss, reason = "a rate, for people")]
pub fn run_result(
    machine: &Machine,
    prepared: &Prepared,
    seconds: f64,
    interrupted: bool,
) -> Result<Map<String, Value>, Error> {
    let all = machine.statistics();
    let modules = machine.hardware.memory.modules();
    all.check_conservation()
        .and_then(|()| module::check_conservation(modules, &all.hardware))
        .map_err(Error::Defect)?;
    let instructions = machine.retired();
    let ended = machine.ended();
    let cycles = ended.map_or_else(|| machine.time(), |ended| ended.at);
    let drain = (all.hardware.nvm_drained_at_cycle).saturating_sub(cycles);
    // Where nobody waits for the NVM, the work is done when the NVM is.
    let posted = machine.hardware.specification.posted.writes;
    let cycles = if posted { cycles + drain } else { cycles };
    let clock = prepared.configuration.specification.clock();
    let (unknown, refused) = unanswered(machine);
    let fatal = ended.and_then(|ended| ended.report.fatal.as_ref());
    let value = json!({
        "design": prepared.configuration.design.name,
        "machine": prepared.configuration.machine,
        "config_hash": prepared.config_hash,
        "state_hash": state_hash(machine),
        "exit_code": ended.map(|ended| ended.report.status),
        "fatal_signal": fatal.map(|fatal| of_signal(fatal, machine.facts().name)),
        "remarks": ended.map_or_else(Vec::new, |_| machine.design.remarks()),
        "unknown_system_calls": unknown,
        "refused": refused,
        "interrupted": interrupted,
        "sim": {
            "instructions": instructions,
            "cycles": cycles,
            "seconds": clock.nanoseconds(cycles) / 1e9,
            "cycles_until_durable": machine.time(),
            "drain_cycles": drain,
            "harts": machine.hardware.cores.len(),
            "harts_used": machine.contexts().filter(|one| one.hart.retired > 0).count(),
        },
        "host": {
            "seconds": seconds,
            "mips": instructions as f64 / seconds.max(1e-9) / 1e6,
        },
        "nvm": nvm(&all.hardware),
        "statistics": described(all.describe()),
        "programs": programs(machine, prepared),
        "region": machine.meter.measured().map(|measured| region(measured, posted)),
    });
    let Value::Object(mut map) = value else {
        unreachable!("built as an object")
    };
    // The NVM's alone are among the statistics.
    if modules.len() > 1 {
        let modules: Vec<Value> = modules.iter().map(of_module).collect();
        map.insert("modules".into(), Value::Array(modules));
    }
    Ok(map)
}

/// The signal by which a program ended under that design.
fn of_signal(fatal: &FatalSignal, design: &str) -> Value {
    let bits = fatal.instruction_bits;
    let illegal = bits.filter(|_| fatal.name == "SIGILL");
    let elsewhere = illegal.and_then(|bits| instruction_of_others(bits, design));
    let elsewhere = elsewhere.map_or_else(String::new, |said| format!(": {said}"));
    json!({
        "signal": fatal.name,
        "cause": format!("{}{elsewhere}", fatal.cause),
        "pc": format!("{:#x}", fatal.pc),
        "symbol": fatal.symbol.as_ref().map(|(name, _)| name),
        "address": fatal.address.map(|address| format!("{address:#x}")),
        "instruction": bits.map(|bits| perdure_riscv::disassemble(bits, fatal.pc)),
    })
}

/// Says that an instruction is a persistence instruction of other designs than this one, if it is.
fn instruction_of_others(bits: u32, design: &str) -> Option<String> {
    let decoded =
        Instruction::decode(bits).filter(|one| one.operation == Operation::Persistence)?;
    let function = u16::try_from(decoded.immediate).ok()?;
    let others = perdure_designs::who_has(function);
    if others.is_empty() || others.iter().any(|&(has_it, _)| has_it == design) {
        return None;
    }
    let named = others
        .iter()
        .map(|(other, name)| format!("{name} under {other}"));
    let named = named.collect::<Vec<_>>().join(", ");
    Some(format!(
        "{design} does not have function {function} of custom-1, which is {named}"
    ))
}

/// System calls that the kernel does not have, and what it has refused on purpose.
fn unanswered(machine: &Machine) -> (Vec<Value>, Vec<Value>) {
    let (unknown, refused) = (
        machine.kernel().unknown_calls(),
        machine.kernel().refusals(),
    );
    let unknown = unknown.into_iter();
    let unknown = unknown.map(|(number, name)| json!({"number": number, "name": name}));
    let refused = refused.into_iter().map(|refused| {
        json!({
            "kind": refused.kind,
            "number": refused.number,
            "name": refused.name,
            "expected": refused.expected,
        })
    });
    (unknown.collect(), refused.collect())
}

/// What a memory module has done.
fn of_module(module: &Module) -> Value {
    json!({
        "name": module.name,
        "kind": module.kind,
        "persistence": module.persistence,
        "statistics": described(module.counters.describe()),
    })
}

fn nvm(statistics: &Statistics) -> Value {
    json!({
        "written_bytes": {
            "data": statistics.nvm_written_bytes_data,
            "log": statistics.nvm_written_bytes_log,
            "metadata": statistics.nvm_written_bytes_metadata,
            "context": statistics.nvm_written_bytes_context,
            "total": statistics.nvm_written_bytes_total,
        },
        "read_bytes": statistics.nvm_read_bytes,
    })
}

fn described(counters: Vec<Described>) -> Map<String, Value> {
    let named = counters.into_iter().map(|one| {
        let value = json!({"value": one.value, "unit": one.unit, "meaning": one.meaning});
        (one.name.to_owned(), value)
    });
    named.collect()
}

fn programs(machine: &Machine, prepared: &Prepared) -> Vec<Value> {
    let reports = machine.kernel().program_reports();
    let asked = &prepared.workload.kernel.programs;
    let retired = &machine.meter.retired;
    (asked.iter().zip(reports).zip(retired))
        .map(|((program, report), instructions)| {
            json!({
                "program": program.path,
                "arguments": program.arguments,
                "exit_code": report.exit.as_ref().map(|exit| exit.status),
                "runs": report.runs,
                "instructions": instructions,
            })
        })
        .collect()
}

fn region(measured: &Measured, posted: bool) -> Value {
    let drain = if posted { measured.drain_cycles } else { 0 };
    let programs: Vec<Value> = measured
        .programs
        .iter()
        .map(|share| json!({"cycles": share.cycles, "instructions": share.instructions}))
        .collect();
    json!({
        "cycles": measured.cycles + drain,
        "drain_cycles": measured.drain_cycles,
        "instructions": measured.instructions,
        "complete": measured.complete,
        "whole_phase": measured.whole_phase,
        "statistics": described(measured.statistics.describe()),
        "programs": programs,
    })
}

/// The function that an address is in, on whatever the machine runs.
pub fn symbol_of(machine: &Machine, address: u64) -> Option<String> {
    let (_, running) = machine.location();
    let space = running
        .or_else(|| machine.contexts().find_map(|context| context.running))
        .map(|running| running.space)?;
    machine
        .kernel()
        .symbol(space, address)
        .map(|(name, _)| name)
}
