//! The persist order of a run: laying its rows over the memory that there was at the start gives what a power
//! cut finds on the media, at any cycle.

use std::sync::{Arc, Mutex};

use perdure::machine::{Machine, Pause};
use perdure::request::{Prepared, Request};
use perdure_hardware::arena::{Arena, PAGE_BYTES};
use perdure_hardware::memory::Tear;
use perdure_hardware::persist_order::{PersistOrder, PersistRow, RowSink};
use perdure_hardware::random::Random;
use perdure_hardware::timeline::NotCopied;

use crate::common;

/// Keeps the rows, of which none may be durable before the horizon at which the last ones came.
struct Kept {
    rows: Arc<Mutex<Vec<PersistRow>>>,
    horizon: u64,
}

impl RowSink for Kept {
    fn take(&mut self, rows: &mut Vec<PersistRow>, horizon: u64) {
        for row in rows.iter() {
            assert!(row.when[2] >= self.horizon, "{row:?}, {}", self.horizon);
        }
        self.horizon = self.horizon.max(horizon);
        self.rows.lock().unwrap().append(rows);
    }
}

/// Replaces what a write between its begin and its end leaves, in both: it may be torn.
fn forget_torn(arena: &mut Arena, rows: &[PersistRow], at: u64) {
    let torn = rows
        .iter()
        .filter(|row| row.when[1] <= at && at < row.when[2]);
    for row in torn {
        arena.write(row.address, &vec![0; row.bytes.len()]);
    }
}

fn replay(prepared: &Prepared, seed: u64) {
    let (configuration, workload) = (&prepared.configuration, &prepared.workload);
    let mut machine = <Machine>::boot(configuration, workload, prepared.engine, None).unwrap();
    let image = machine.hardware.memory.arena.clone();
    let rows = Arc::new(Mutex::new(Vec::new()));
    let sink = Kept {
        rows: Arc::clone(&rows),
        horizon: 0,
    };
    let order = PersistOrder::new(Box::new(sink));
    machine.hardware.memory.persist_order = NotCopied(Some(Box::new(order)));
    let mut random = Random::new(seed);
    let (mut at, mut cuts) = (0, 0);
    loop {
        at += 1 + random.below(40_000);
        let pause = loop {
            match machine.run(at).expect("it runs") {
                Pause::EpochEnded(_) => {}
                pause => break pause,
            }
        };
        if pause == Pause::Finished {
            break;
        }
        cuts += 1;
        let horizon = machine.hardware.memory.horizon();
        if let Some(order) = &mut machine.hardware.memory.persist_order.0 {
            order.hand_on(horizon);
        }
        let mut accepted = rows.lock().unwrap().clone();
        accepted.sort_by_key(|row| row.when[2]);
        let mut expected = image.clone();
        for row in accepted.iter().filter(|row| row.when[2] <= at) {
            expected.write(row.address, &row.bytes);
        }
        let mut cut = machine.clone();
        cut.hardware.memory.power_off(at, &mut Tear::new(seed));
        let mut found = cut.hardware.memory.arena;
        forget_torn(&mut expected, &accepted, at);
        forget_torn(&mut found, &accepted, at);
        let pages: Vec<u64> = found.written_pages().collect();
        for page in pages {
            let (expected, found) = (
                expected.slice(page, PAGE_BYTES),
                found.slice(page, PAGE_BYTES),
            );
            assert_eq!(
                expected, found,
                "{}, cycle {at}, page {page:#x}, seed {seed}",
                prepared.configuration.design.name
            );
        }
    }
    assert!(
        cuts > 5,
        "{}: {cuts} cuts",
        prepared.configuration.design.name
    );
    assert!(rows.lock().unwrap().iter().any(|row| row.hart.is_none()));
}

#[test]
fn replaying_the_rows_gives_what_a_cut_finds() {
    for (design, more) in [
        ("picl", None),
        ("journaling", None),
        ("shadow-paging", None),
        ("hardware-shadow", None),
        ("thynvm", None),
        ("picl", Some("persistence.domain=adr")),
    ] {
        let mut asked = common::request(design, "@exerciser:3000:64:300:2");
        asked["harts"] = 2.into();
        if let Some(more) = more {
            asked["set"].as_array_mut().unwrap().push(more.into());
        }
        let request = Request::parse(&asked.to_string()).expect("a request");
        let prepared = request.prepare().expect("it can run");
        replay(&prepared, 5);
    }
}
