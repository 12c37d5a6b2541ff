//! The instructions of other instruction sets, and memory types: both engines agree to the cycle on every
//! core, cuts change nothing, and an instruction that nobody has is illegal.

use perdure::request::Request;
use perdure::source::{Engine, Engines};
use perdure_riscv::fast::Pace;
use serde_json::json;

use crate::common::{self, Directory, SMALL, compile, cut, request, run, with};
use crate::engines::{Either, WHOLE, end_of};

/// Runs a guest with both engines, and pausing.
fn compare(design: &str, program: &str, core: &str, harts: usize) {
    let core = format!("core.model={core}");
    let mut set: Vec<&str> = SMALL.to_vec();
    set.push(&core);
    // Threads that are woken run at once, on all cores but one.
    if core.ends_with("order") {
        set.push("scheduling.wakes_end_turns=true");
    }
    let machine = common::machine_of(design);
    let more = json!({"set": set, "machine": machine, "harts": harts});
    let mut asked = with(request(design, program), more);
    asked["program"] = json!([program, "1"]);
    let prepared = Request::parse(&asked.to_string()).and_then(|request| request.prepare());
    let prepared = prepared.expect("it can run");
    let plain = end_of::<Engines>(&prepared, Engine::Plain, WHOLE);
    let fast = end_of::<Engines>(&prepared, Engine::Fast, WHOLE);
    assert_eq!(fast, plain, "{design}, {core}: the fast engine");
    let compiled = end_of::<Engines>(&prepared, Engine::Compiled(Pace::EAGER), WHOLE);
    assert_eq!(compiled, plain, "{design}, {core}: compiled");
    for seed in crate::rigs::seeds(1) {
        let paused = end_of::<Either>(&prepared, seed, 5_077);
        assert_eq!(paused, plain, "{design}, {core}: paused, seed {seed}");
    }
}

/// A guest of the tests' on every core, and under designs that log, keep versions, and run a library. What is
/// cut goes on as if nothing had been.
fn agrees_and_comes_back(guest: &str) {
    let folder = Directory::new(guest);
    let program = compile(&folder, &format!("../../../../tests/guests/{guest}.c"));
    let program = program.to_str().expect("a path");
    compare("ideal", program, "in-order", 2);
    compare("ideal", program, "timing-simple", 1);
    compare("ideal", program, "out-of-order", 2);
    compare("picl", program, "in-order", 1);
    compare("picl", program, "out-of-order", 2);
    compare("nvoverlay", program, "in-order", 2);
    compare("software-logging", program, "in-order", 1);
    let ended = run(&request("ideal", program));
    assert_eq!(ended["exit_code"], 0);
    for (design, machine) in [("picl", "picl"), ("nvoverlay", "nvoverlay")] {
        let more = json!({"machine": machine, "harts": 2, "cuts": 6, "resume": "all"});
        let result = cut(&with(request(design, program), more));
        assert_eq!(result["verified"], 6, "{guest}, {design}: {result}");
    }
}

#[test]
fn flushes_and_fences_take_the_same_time_in_both_engines_on_every_core() {
    agrees_and_comes_back("primitives");
}

#[test]
fn code_that_changes_in_place_is_what_it_was_changed_to() {
    agrees_and_comes_back("rewrites");
}

#[test]
fn memory_types_take_the_same_time_in_both_engines_on_every_core() {
    agrees_and_comes_back("memory_types");
}

#[test]
fn a_function_that_nobody_has_is_illegal() {
    let folder = Directory::new("nobody-has-it");
    let program = folder.at("program");
    // Of the design's range, and of the machine's: no primitive, and primitives whose unused fields are
    // not 0.
    for instruction in [0x0000_002b_u32, 0x8200_302b, 0x8000_00ab, 0x8010_402b] {
        std::fs::write(&program, crate::pools::elf(&[instruction, 0x73])).expect("a program");
        let ended = run(&request("ideal", program.to_str().expect("a path")));
        assert_eq!(
            ended["fatal_signal"]["signal"], "SIGILL",
            "{instruction:#x}"
        );
    }
}
