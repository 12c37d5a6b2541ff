use std::sync::{Arc, Mutex};

use perdure_hardware::random::Random;
use perdure_hardware::timeline::Kind;

use super::*;

/// What a format was told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Begin(usize, Cycles),
    End(usize, Cycles),
    Moment(Cycles),
    Level(Cycles, i64),
}

struct Listening(Arc<Mutex<Vec<Told>>>);

impl Listening {
    #[expect(clippy::unnecessary_wraps, reason = "what a format answers")]
    fn hear(&self, told: Told) -> io::Result<()> {
        self.0.lock().expect("nobody has panicked").push(told);
        Ok(())
    }
}

impl Format for Listening {
    fn begin_file(
        &mut self,
        _: &mut dyn Write,
        _: &str,
        _: &[(&'static str, String)],
    ) -> io::Result<()> {
        Ok(())
    }

    fn begin(
        &mut self,
        _: &mut dyn Write,
        row: &Row,
        _: &Event,
        when: [Cycles; 2],
    ) -> io::Result<()> {
        self.hear(Told::Begin(row.number, when[0]))
    }

    fn end(&mut self, _: &mut dyn Write, row: &Row, at: Cycles) -> io::Result<()> {
        self.hear(Told::End(row.number, at))
    }

    fn moment(&mut self, _: &mut dyn Write, _: &Row, _: &Event, at: Cycles) -> io::Result<()> {
        self.hear(Told::Moment(at))
    }

    fn level(&mut self, _: &mut dyn Write, _: &Row, at: Cycles, value: i64) -> io::Result<()> {
        self.hear(Told::Level(at, value))
    }

    fn end_file(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

const TRACK: Track = Track::new(Kind::Requests, Part::Module(0), "reads");

/// What is told of events that come in batches, each with a horizon.
fn told(batches: &[(&[Event], Cycles)]) -> Vec<Told> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let names = Names {
        modules: vec!["nvm".into()],
        design: "none",
    };
    let windows = Windows {
        from: 0,
        until: Cycles::MAX,
        one_in: 1,
        window_cycles: 1000,
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    let output = Output::create(file.path(), u64::MAX).expect("a file");
    let format = Box::new(Listening(Arc::clone(&heard)));
    let mut ordered = Ordered::new(names, windows, format, output, ("", &[])).expect("a file");
    for (events, horizon) in batches {
        ordered.take(&mut events.to_vec(), *horizon);
    }
    let written = ordered.finish();
    assert_eq!(written.trouble, None);
    let all = heard.lock().expect("nobody has panicked");
    all.clone()
}

fn span(from: Cycles, until: Cycles) -> Event {
    Event::span(TRACK, "read", [from, until], &[])
}

#[test]
fn what_comes_ahead_of_time_waits_and_ends_come_before_begins() {
    use Told::{Begin, End};
    let batches: &[(&[Event], Cycles)] =
        &[(&[span(20, 30), span(10, 20)], 5), (&[span(15, 18)], 15)];
    let expected = [
        Begin(0, 10),
        Begin(1, 15),
        End(1, 18),
        End(0, 20),
        Begin(0, 20),
        End(0, 30),
    ];
    assert_eq!(told(batches), expected);
}

#[test]
fn what_takes_no_time_is_a_moment() {
    assert_eq!(told(&[(&[span(7, 7)], 0)]), [Told::Moment(7)]);
}

#[test]
fn of_levels_that_change_at_one_time_the_last_is_told() {
    let change = |at, by| Event::level(TRACK, When::Change(at, by));
    let events = [
        change(5, 1),
        change(9, -1),
        change(9, 1),
        change(9, 1),
        change(12, -2),
    ];
    let expected = [Told::Level(5, 1), Told::Level(9, 2), Told::Level(12, 0)];
    assert_eq!(told(&[(&events, 0)]), expected);
}

#[test]
fn rows_never_overlap_whatever_comes_late() {
    let seed = 3;
    let mut random = Random::new(seed);
    let mut batches = Vec::new();
    for number in 0..200u64 {
        let events: Vec<Event> = (0..20)
            .map(|_| {
                let late = random.below(4) == 0;
                let from =
                    (number * 100 + random.below(300)).saturating_sub(if late { 250 } else { 0 });
                span(from, from + random.below(120))
            })
            .collect();
        batches.push((events, number * 100));
    }
    let batches: Vec<(&[Event], Cycles)> = (batches.iter())
        .map(|(events, horizon)| (events.as_slice(), *horizon))
        .collect();
    let mut rows: BTreeMap<usize, Vec<[Cycles; 2]>> = BTreeMap::new();
    for one in told(&batches) {
        match one {
            Told::Begin(row, at) => rows.entry(row).or_default().push([at, Cycles::MAX]),
            Told::End(row, at) => {
                let spans = rows.get_mut(&row).expect("it has begun");
                spans.last_mut().expect("it has begun")[1] = at;
            }
            Told::Moment(_) | Told::Level(..) => {}
        }
    }
    for mut spans in rows.into_values() {
        spans.sort_unstable();
        let ordered = spans.windows(2).all(|two| two[0][1] <= two[1][0]);
        assert!(ordered, "seed {seed}: {spans:?}");
    }
}
