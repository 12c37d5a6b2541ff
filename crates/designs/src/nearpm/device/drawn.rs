//! What a device does, for whoever draws it: its FIFO, its units, and what waits for them.

use perdure_hardware::device::Inside;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::{Kind, Part, Track, Value};

use super::InFlight;
use crate::nearpm::command::Opcode;

/// A track of the device in a module.
fn track(inside: &Inside, name: &'static str) -> Track {
    Track::new(Kind::Design, Part::Module(inside.module()), name)
}

fn facts_of(one: &InFlight) -> [(&'static str, Value); 5] {
    [
        ("opcode", Value::Number(one.saved.opcode.into())),
        ("command", Value::Number(one.saved.number)),
        ("thread", Value::Number(one.saved.thread.into())),
        ("operand", Value::Address(one.saved.operand)),
        ("size", Value::Number(one.saved.size.into())),
    ]
}

/// A command waited in the FIFO, and a unit is done with it, unless it agrees with others first.
pub fn draw_command(inside: &mut Inside, one: &InFlight) {
    if !inside.draws() {
        return;
    }
    let name = Opcode::name_of(one.saved.opcode);
    let facts = facts_of(one);
    let waited = [one.taken, one.dispatched];
    let fifo = track(inside, "command FIFO");
    inside.draw_span(fifo, name, waited, &facts);
    if one.done < Cycles::MAX {
        let unit = track(inside, "unit").numbered(one.unit);
        inside.draw_span(unit, name, [one.dispatched, one.done], &facts);
    }
}

/// A unit is done with a commit, for which it waited from when this device was ready until all were.
pub fn draw_commit(inside: &mut Inside, one: &InFlight, complete: Cycles) {
    if !inside.draws() {
        return;
    }
    let facts = facts_of(one);
    let unit = track(inside, "unit").numbered(one.unit);
    let name = Opcode::name_of(one.saved.opcode);
    inside.draw_span(unit, name, [one.dispatched, one.done], &facts);
    let handler = track(inside, "multi-device handler");
    let waited = [one.ready, complete];
    inside.draw_span(handler, "waits for other devices", waited, &facts);
}

/// A write of the processor waits in the host queue from then on, and the banks may begin at `clear`.
pub fn draw_held(inside: &mut Inside, address: u64, [kept, clear]: [Cycles; 2]) {
    let queue = track(inside, "host queue");
    let facts = [("address", Value::Address(address))];
    inside.draw_span(queue, "write waits", [kept, clear], &facts);
}
