//! A run that is stopped, stepped and taken back, anywhere and as often as somebody likes, is the run that
//! nobody looked at; and a position is the same state however one came there.

use std::collections::BTreeMap;

use perdure_hardware::random::Random;
use serde_json::{Value, json};

use super::forward::{Goal, Stop};
use super::head::NEVER;
use super::output::Printer;
use super::session::{Position, Session};
use super::view;
use crate::machine::{Engine, Machine, Pause};
use crate::report::state_hash;
use crate::request::{Prepared, Request};
use crate::stepping::{Stops, Touch, WatchPoint};

type Ending = (String, u64, Vec<(&'static str, u64)>);

fn ending(machine: &Machine) -> Ending {
    let statistics = machine.statistics();
    let counters = statistics.describe();
    let counters = counters.iter().map(|one| (one.name, one.value)).collect();
    (state_hash(machine), machine.time(), counters)
}

fn prepared(design: &str, machine: &str, more: &[&str]) -> Prepared {
    let small = [
        "l1i.bytes=4KiB",
        "l1d.bytes=4KiB",
        "l2.bytes=16KiB",
        "llc.bytes_per_hart=64KiB",
    ];
    let set: Vec<&str> = small.into_iter().chain(more.iter().copied()).collect();
    let asked: Value = json!({
        "design": design, "machine": machine, "harts": 2, "set": set,
        "program": ["@exerciser:600:64:100:2"],
    });
    let request = Request::parse(&asked.to_string()).expect("a request");
    request.prepare().expect("it can run")
}

fn undisturbed(prepared: &Prepared) -> Ending {
    let mut machine: Machine = prepared.boot(None).expect("it boots");
    machine.keep_progress(0);
    while machine.run(NEVER).expect("it runs") != Pause::Finished {}
    ending(&machine)
}

/// Goes about at random, and looks at each place a second time when it comes there again.
fn wander(session: &mut Session, random: &mut Random) {
    let mut seen: BTreeMap<Position, String> = BTreeMap::new();
    let mut farthest = session.position();
    for _ in 0..40 {
        let thread = session.thread;
        let pc = view::pc_of(session.machine(), thread).unwrap_or_default();
        let stack = view::registers(session.machine(), thread).map_or(0, |one| one.x[2]);
        let mut stops = Stops::default();
        match random.below(4) {
            0 => stops.breakpoints.push(pc),
            1 => stops.watches.push(WatchPoint {
                start: stack & !7,
                bytes: 64,
                touch: Touch::Either,
            }),
            _ => {}
        }
        session.stops = std::sync::Arc::new(stops);
        let step = Goal::Step {
            thread,
            range: None,
        };
        let mut left = random.below(3);
        // Without a stop, going on would go to the end: somebody interrupts it.
        let mut poll = || {
            left = left.wrapping_sub(1);
            left == u64::MAX
        };
        match random.below(6) {
            0 | 1 => drop(session.advance(step, &mut || false).expect("a step")),
            2 => drop(session.retreat(step, &mut || false).expect("a step back")),
            3 => drop(
                session
                    .retreat(Goal::Stop, &mut || false)
                    .expect("a way back"),
            ),
            4 => {
                let moment = random.below(farthest.moment + 1);
                session.go(Position { life: 0, moment }).expect("a place");
            }
            _ => drop(session.advance(Goal::Stop, &mut poll).expect("a way on")),
        }
        let position = session.position();
        farthest = farthest.max(position);
        let registers = view::registers(session.machine(), session.thread);
        let state = format!("{:?} {registers:?}", session.thread);
        let known = seen.entry(position).or_insert_with(|| state.clone());
        // Another thread may be the one that is shown, but not the same one elsewhere.
        if known.split(' ').next() == state.split(' ').next() {
            assert_eq!(*known, state, "at {position:?}");
        }
    }
}

/// Stops again and again where it stands, and lets the very machine that was stopped run to its end.
fn stop_often(session: &mut Session, expected: &Ending) {
    let mut met = 0;
    for _ in 0..60 {
        let thread = session.thread;
        let mut stops = Stops::default();
        let pc = view::pc_of(session.machine(), thread).unwrap_or_default();
        // The block behind this one, in the same line, is about to be stopped before as well.
        stops.breakpoints = vec![pc, (pc | 63) - 1];
        let step = Goal::Step {
            thread,
            range: None,
        };
        let before = (session.advance(step, &mut || false)).expect("a step");
        session.stops = std::sync::Arc::new(stops);
        let mut left = 3;
        let mut poll = || {
            left -= 1;
            left == 0
        };
        let stop = session.advance(Goal::Stop, &mut poll).expect("a way on");
        session.stops = std::sync::Arc::default();
        met += u32::from(stop == Stop::Breakpoint);
        if matches!(before, Stop::HistoryEnds(_)) || matches!(stop, Stop::HistoryEnds(_)) {
            break;
        }
    }
    assert!(met > 10, "{met} stops at breakpoints");
    let mut head = session.head.clone();
    head.look_for(&std::sync::Arc::default());
    head.run_to(u64::MAX, NEVER).expect("it ends");
    let design = head.machine.facts().name;
    assert_eq!(ending(&head.machine), *expected, "{design}");
}

fn check(design: &str, machine: &str, more: &[&str], seed: u64) {
    let mut prepared = prepared(design, machine, more);
    let expected = undisturbed(&prepared);
    prepared.engine = Engine::Stepping;
    let printer = Printer::new(false);
    let session = Session::new(prepared.clone(), None, Vec::new(), 6, printer);
    let mut session = session.expect("it boots");
    let moment = session.position().moment + 30_000;
    (session.go(Position { life: 0, moment })).expect("a place");
    stop_often(&mut session, &expected);
    wander(&mut session, &mut Random::new(seed));
    session.stops = std::sync::Arc::default();
    let moment = session.position().moment / 2;
    (session.go(Position { life: 0, moment })).expect("a place");
    let end = loop {
        match session.advance(Goal::Stop, &mut || false).expect("it runs") {
            Stop::Interrupted => {}
            stop => break stop,
        }
    };
    assert!(matches!(end, Stop::HistoryEnds(_)), "{end:?}");
    let mut head = session.head.clone();
    head.run_to(u64::MAX, NEVER).expect("it ends");
    assert_eq!(ending(&head.machine), expected, "{design}, seed {seed}");
    let again = session.advance(Goal::Stop, &mut || false).expect("the end");
    assert!(matches!(again, Stop::Exited(_, None)), "{again:?}");
}

#[test]
fn nothing_is_different_for_being_looked_at() {
    check("ideal", "picl", &[], 1);
    check("picl", "picl", &["epoch.instructions=20000"], 2);
    check("nvoverlay", "nvoverlay", &[], 3);
}

#[test]
fn nor_on_a_core_that_is_out_of_order() {
    check(
        "picl",
        "picl",
        &["core.model=out-of-order", "epoch.instructions=20000"],
        4,
    );
}
