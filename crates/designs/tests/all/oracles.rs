//! Oracles by themselves: what they say of evidence, and that a promise which knows no epochs, to programs
//! that are started anew on a pool, is an oracle like any other.

use perdure_designs::oracle::{Breach, Evidence, Fault, Judgement, Oracle};
use perdure_designs::surviving::{Corruption, Interrupted};
use perdure_designs::{Promise, Recovered};
use perdure_hardware::arena::{Arena, Digest};

/// A pool of two words that are to be equal whenever a program finds them.
#[derive(Debug)]
struct EqualWords {
    pool: u64,
}

impl Oracle for EqualWords {
    fn judge(&self, evidence: &Evidence) -> Judgement {
        let word = |place: u64| evidence.image.slice(self.pool + place, 8);
        let mut judgement = Judgement::default();
        if let Err(why) = evidence.recovered {
            judgement.breaches.push(Breach {
                fault: Fault::Refused,
                judged_by_epoch: 0,
                message: why.to_string(),
            });
        } else if word(0) != word(8) {
            judgement.breaches.push(Breach {
                fault: Fault::Memory,
                judged_by_epoch: 0,
                message: "the words of the pool differ".into(),
            });
        }
        judgement
    }
}

fn judged(
    oracle: &dyn Oracle,
    image: &Arena,
    recovered: &Result<Recovered, Interrupted>,
) -> Judgement {
    oracle.judge(&Evidence {
        recovered,
        image,
        memory: Digest::default(),
        at: 0,
        announced: 0,
        seen: 0,
        early: None,
    })
}

#[test]
fn a_pools_promise_needs_no_epochs() {
    let mut image = Arena::new(1 << 16).expect("a small arena");
    let oracle = EqualWords { pool: 4096 };
    let recovered = Ok(Recovered::default());
    image.write(4096, &[1; 16]);
    assert_eq!(judged(&oracle, &image, &recovered), Judgement::default());
    image.write(4096, &[2]);
    let faults = |judgement: Judgement| -> Vec<Fault> {
        judgement.breaches.iter().map(|one| one.fault).collect()
    };
    assert_eq!(faults(judged(&oracle, &image, &recovered)), [Fault::Memory]);
    let refused = Err(Interrupted::Corrupt(Corruption {
        what: "its seal",
        address: 4096,
    }));
    assert_eq!(faults(judged(&oracle, &image, &refused)), [Fault::Refused]);
}

mod epochs {
    use perdure_designs::oracle::{Beginning, EpochPrefix, Nothing, Remember, Witness};
    use perdure_hardware::hierarchy::Hardware;
    use perdure_hardware::line::Line;
    use perdure_hardware::policy::{Evicted, Eviction, Policy};
    use perdure_hardware::time::Cycles;

    use super::*;

    /// Whom nobody asks: nothing is cached here.
    struct Idle;

    impl Policy for Idle {
        fn evict(&mut self, _: &mut Hardware, _: &Eviction, now: Cycles) -> Evicted {
            Evicted {
                accepted: now,
                durable: now,
            }
        }

        fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}
    }

    fn witness(hardware: &Hardware) -> Witness<'_> {
        Witness {
            hardware,
            design: &Idle,
            range: 0..1 << 16,
        }
    }

    /// A run of two epochs: their digests, and the oracle of a promise that has seen them.
    fn run_of<P: Promise>() -> ([Digest; 2], Hardware, P) {
        let specification = crate::common::geometry::TINY.specification();
        let arena = Arena::new(specification.nvm.bytes).expect("an arena");
        let mut hardware = Hardware::new(specification, arena, 0..0);
        let beginning = Beginning {
            epoch: 0,
            executing: 1,
            groups: 1,
        };
        let begun = P::begin(&witness(&hardware), beginning, Remember::Digests);
        let mut oracle = begun.expect("no copy is made");
        let start = witness(&hardware).digest();
        hardware.memory.arena.write_line(128, &Line([7; 64]));
        oracle.epoch_ended(&witness(&hardware), 1);
        let end = witness(&hardware).digest();
        ([start, end], hardware, oracle)
    }

    fn said(oracle: &dyn Oracle, hardware: &Hardware, epoch: u64, memory: Digest) -> Judgement {
        oracle.judge(&Evidence {
            recovered: &Ok(Recovered::at(epoch)),
            image: &hardware.memory.arena,
            memory,
            at: 0,
            announced: 1,
            seen: 0,
            early: None,
        })
    }

    #[test]
    fn an_epoch_prefix_is_new_enough_and_as_it_was() {
        let ([start, end], hardware, oracle) = run_of::<EpochPrefix>();
        let good = said(&oracle, &hardware, 1, end);
        assert_eq!((good.epoch, good.breaches.len()), (Some(1), 0));
        let old = said(&oracle, &hardware, 0, start);
        assert_eq!(old.breaches[0].fault, Fault::Age);
        assert_eq!(old.breaches[0].judged_by_epoch, 1);
        let other = said(&oracle, &hardware, 1, start);
        assert_eq!(other.breaches[0].fault, Fault::Memory);
        assert!(oracle.converged(Some(1), &Recovered::at(1)));
        assert!(!oracle.converged(Some(1), &Recovered::at(0)));
    }

    #[test]
    fn where_nothing_is_promised_any_epoch_will_do() {
        let ([start, end], hardware, oracle) = run_of::<Nothing>();
        for (epoch, memory) in [(0, start), (1, end)] {
            let found = said(&oracle, &hardware, 5, memory);
            assert_eq!((found.epoch, found.breaches.len()), (Some(epoch), 0));
        }
        let none = said(&oracle, &hardware, 0, Digest(3));
        assert_eq!((none.epoch, none.breaches[0].fault), (None, Fault::Memory));
    }
}
