//! The instructions of other instruction sets: both engines agree to the cycle on every core, and what nobody
//! has is illegal.

use perdure::request::Request;
use perdure::source::{Engine, Engines};
use perdure_designs::Design;
use perdure_designs::ideal::Ideal;
use perdure_designs::nvoverlay::Nvoverlay;
use perdure_designs::picl::Picl;
use perdure_designs::software_logging::SoftwareLogging;
use serde_json::json;

use crate::common::{self, Directory, SMALL, compile, request, run, with};
use crate::engines::{Either, WHOLE, end_of};

/// Runs the guest of all primitives with both engines, and pausing.
fn compare<D: Design>(program: &str, core: &str, harts: usize) {
    let core = format!("core.model={core}");
    let mut set: Vec<&str> = SMALL.to_vec();
    set.push(&core);
    let machine = common::machine_of(D::NAME);
    let more = json!({"set": set, "machine": machine, "harts": harts});
    let mut asked = with(request(D::NAME, program), more);
    asked["program"] = json!([program, "1"]);
    let prepared = Request::parse(&asked.to_string()).and_then(|request| request.prepare());
    let prepared = prepared.expect("it can run");
    let plain = end_of::<D, Engines>(&prepared, Engine::Plain, WHOLE);
    let fast = end_of::<D, Engines>(&prepared, Engine::Fast, WHOLE);
    assert_eq!(fast, plain, "{}, {core}: the fast engine", D::NAME);
    for seed in crate::rigs::seeds(1) {
        let paused = end_of::<D, Either>(&prepared, seed, 5_077);
        assert_eq!(paused, plain, "{}, {core}: paused, seed {seed}", D::NAME);
    }
}

#[test]
fn both_engines_agree_on_every_core() {
    let folder = Directory::new("primitives");
    let program = compile(&folder, "../../../../tests/guests/primitives.c");
    let program = program.to_str().expect("a path");
    compare::<Ideal>(program, "in-order", 2);
    compare::<Ideal>(program, "timing-simple", 1);
    compare::<Ideal>(program, "out-of-order", 2);
    compare::<Picl>(program, "in-order", 1);
    compare::<Picl>(program, "out-of-order", 2);
    compare::<Nvoverlay>(program, "in-order", 2);
    compare::<SoftwareLogging>(program, "in-order", 1);
    let ended = run(&request("ideal", program));
    assert_eq!(ended["exit_code"], 0);
}

#[test]
fn a_function_that_nobody_has_is_illegal() {
    let folder = Directory::new("nobody-has-it");
    let program = folder.at("program");
    // Of the design's range, and of the machine's: no primitive, and a primitive whose unused fields are not 0.
    for instruction in [0x0000_002b_u32, 0x8200_302b, 0x8000_00ab, 0x8010_402b] {
        std::fs::write(&program, crate::pools::elf(&[instruction, 0x73])).expect("a program");
        let ended = run(&request("ideal", program.to_str().expect("a path")));
        assert_eq!(
            ended["fatal_signal"]["signal"], "SIGILL",
            "{instruction:#x}"
        );
    }
}
