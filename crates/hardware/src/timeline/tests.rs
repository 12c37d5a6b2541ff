use std::sync::{Arc, Mutex};

use super::*;

/// Keeps what it gets, for who looks afterwards.
struct Kept(Arc<Mutex<Vec<Event>>>);

impl Sink for Kept {
    fn take(&mut self, events: &mut Vec<Event>, _: Cycles) {
        self.0.lock().expect("nobody has panicked").append(events);
    }
}

const ENGINE: Track = Track::of_design("engine");

fn drawn(kinds: Vec<Kind>, from: Cycles, draw: impl FnOnce(&mut Timeline)) -> Vec<Event> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let mut timeline = Timeline::new(kinds, from, Box::new(Kept(Arc::clone(&kept))));
    draw(&mut timeline);
    timeline.finish(1000);
    kept.lock().expect("nobody has panicked").clone()
}

fn spans(events: &[Event]) -> Vec<(&'static str, [Cycles; 2])> {
    let span = |event: &Event| match event.when {
        When::Span(from, until) => Some((event.name, [from, until])),
        _ => None,
    };
    events.iter().filter_map(span).collect()
}

#[test]
fn steps_of_one_name_that_follow_each_other_are_one_span() {
    let events = drawn(vec![Kind::Design], 0, |timeline| {
        timeline.step(ENGINE, "index", [10, 20]);
        timeline.step(ENGINE, "index", [20, 35]);
        timeline.step(ENGINE, "merge", [35, 40]);
        timeline.step(ENGINE, "merge", [50, 60]);
    });
    let expected = [
        ("index", [10, 35]),
        ("merge", [35, 40]),
        ("merge", [50, 60]),
    ];
    assert_eq!(spans(&events), expected);
}

#[test]
fn what_has_begun_ends_at_the_end_and_says_that_it_was_not_over() {
    let events = drawn(vec![Kind::Design], 0, |timeline| {
        timeline.begin(ENGINE, 7, "pass", 100, &[("epoch", Value::Number(3))]);
        timeline.begin(ENGINE, 8, "pass", 110, &[]);
        timeline.end(ENGINE, 8, 120, &[("lines", Value::Number(5))]);
        timeline.end(ENGINE, 9, 130, &[]);
    });
    assert_eq!(
        spans(&events),
        [("pass", [110, 120]), ("pass", [100, 1000])]
    );
    assert_eq!(events[0].facts[..], [("lines", Value::Number(5))]);
    assert_eq!(events[1].facts[1], ("unfinished", Value::Number(1)));
}

#[test]
fn what_nobody_wants_is_not_kept() {
    let events = drawn(vec![Kind::Links], 50, |timeline| {
        timeline.take(Event::moment(ENGINE, "of the design", 60, &[]));
        let link = Track::new(Kind::Links, Part::Module(0), "link");
        timeline.take(Event::span(link, "too early", [10, 49], &[]));
        timeline.take(Event::span(link, "reaches into it", [10, 51], &[]));
    });
    assert_eq!(spans(&events), [("reaches into it", [10, 51])]);
}

#[test]
fn a_copy_draws_nothing() {
    let of_original = NotCopied(Some(Box::new(1)));
    assert!(of_original.clone().0.is_none());
}
