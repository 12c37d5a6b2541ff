//! A surviving image against plain bytes: what recovery writes is there, the kept digest is that of the
//! bytes, and an undone journal leaves what was there before and can be used again.

use crate::common::{Random, seeds};
use perdure_designs::surviving::{Interrupted, Journal, Surviving};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::memory::Tear;

const BYTES: u64 = 1 << 20;
/// What of the image is written to, few lines, so that each is written many times.
const TOUCHED: u64 = 64 * LINE_BYTES as u64;

fn random_arena(random: &mut Random) -> Arena {
    let mut arena = Arena::new(BYTES).expect("address space");
    for at in (0..TOUCHED).step_by(8) {
        arena.write(at, &[random.below(3) as u8; 8]);
    }
    arena
}

/// Writes of every kind, to the image and to plain bytes. The power fails at one of them, if anywhere.
fn write_at_random(image: &mut Surviving, plain: &mut [u8], random: &mut Random) {
    for _ in 0..200 {
        let value = [0, 1, 0xa5][random.below(3)];
        let line = random.below(TOUCHED / LINE_BYTES as u64);
        let at = line * LINE_BYTES as u64;
        let (address, length) = match random.below(3) {
            0 => (random.below(TOUCHED - 300), random.below(300)),
            _ => (at, LINE_BYTES as u64),
        };
        let bytes = vec![value; length as usize];
        let whole = address == at && length == LINE_BYTES as u64;
        let done = match random.below(3) {
            0 if whole => image
                .load_line(line, &Line([value; 64]))
                .map_err(Interrupted::from),
            1 if whole => image.write_line(line, &Line([value; 64])),
            _ => image.write(address, &bytes),
        };
        if done.is_err() {
            return;
        }
        plain[address as usize..][..length as usize].copy_from_slice(&bytes);
    }
}

#[test]
fn a_journal_keeps_each_line_once_and_puts_it_back() {
    for seed in seeds(20) {
        let mut random = Random(seed);
        let mut arena = random_arena(&mut random);
        // What lies beyond counts in no digest.
        let range = 64..TOUCHED / 2;
        let keeps = random.below(4) > 0;
        if keeps {
            arena.keep_digest(range.clone());
        }
        let before = arena.clone();
        let mut journals = [Journal::default(), Journal::default()];
        for round in 0..10 {
            let told = format!("seed {seed}, round {round}");
            let [first, second] = journals;
            let mut plain = arena.slice(0, TOUCHED as usize).to_vec();
            let mut image = Surviving::with_journal(&mut arena, first);
            write_at_random(&mut image, &mut plain, &mut random);
            let first = image.into_journal();
            assert!(*arena.slice(0, TOUCHED as usize) == plain, "{told}");
            let digest = keeps.then(|| arena.compute_digest(range.clone()));
            assert_eq!(arena.digest(), digest, "{told}");

            // A second one over the first, whose power fails.
            let tear = Tear::new(random.next());
            let image = Surviving::with_journal(&mut arena, second);
            let mut image = image.failing_at(random.below(200), tear);
            write_at_random(&mut image, &mut plain.clone(), &mut random);
            let second = image.into_journal();
            let torn = keeps.then(|| arena.compute_digest(range.clone()));
            assert_eq!(arena.digest(), torn, "{told}");

            let second = second.undo(&mut arena);
            assert!(*arena.slice(0, TOUCHED as usize) == plain, "{told}");
            assert_eq!(arena.digest(), digest, "{told}");
            journals = [first.undo(&mut arena), second];
            assert_eq!(arena.differing_lines(&before), [0; 0], "{told}");
            assert_eq!(arena.kept_digest(), before.kept_digest(), "{told}");
        }
    }
}

/// An onlooker sees what a recovery leaves whose power fails there, and recovery comes to what it does where
/// nobody looks. What it left is told from anything else.
#[test]
fn what_cuts_would_leave_is_seen() {
    for seed in seeds(20) {
        let mut random = Random(seed);
        let mut arena = random_arena(&mut random);
        let range = 64..TOUCHED / 2;
        arena.keep_digest(range.clone());
        let before = arena.clone();
        let written = random.next();
        let recover = |image: &mut Surviving| {
            let mut plain = before.slice(0, TOUCHED as usize).to_vec();
            write_at_random(image, &mut plain, &mut Random(written));
        };
        let mut image = Surviving::new(&mut arena);
        recover(&mut image);
        let steps = image.steps();
        let journal = image.into_journal();
        let after = arena.clone();
        let left = journal.take_back(&mut arena);
        assert_eq!(arena.differing_lines(&before), [0; 0], "seed {seed}");

        let mut seen = Vec::new();
        let mut look = |step: u64, arena: &mut Arena| seen.push((step, arena.clone()));
        let cuts: Vec<u64> = (0..steps).filter(|_| random.below(3) == 0).collect();
        let torn = |step: &u64| (*step, Tear::new(*step));
        let mut image = Surviving::new(&mut arena);
        image = image.seen_at(cuts.iter().rev().map(torn).collect(), &mut look);
        recover(&mut image);
        assert_eq!(image.difference(&left, |_| true), None, "seed {seed}");
        let journal = image.into_journal();
        assert_eq!(arena.differing_lines(&after), [0; 0], "seed {seed}");
        journal.undo(&mut arena);

        assert_eq!(
            seen.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
            cuts,
            "seed {seed}"
        );
        for (step, found) in seen {
            let told = format!("seed {seed}, step {step}");
            let mut image = Surviving::new(&mut arena).failing_at(step, Tear::new(step));
            recover(&mut image);
            let first = image.difference(&left, |_| true);
            let counted = image.difference(&left, |address| range.contains(&address));
            let loaded = image.loaded().clone();
            let journal = image.into_journal();
            assert_eq!(
                first,
                arena.differing_lines(&after).first().copied(),
                "{told}"
            );
            assert_eq!(
                counted.is_some(),
                arena.digest() != after.digest(),
                "{told}"
            );
            for (line, bytes) in &loaded {
                arena.write_line(line * 64, bytes);
            }
            assert_eq!(arena.differing_lines(&found), [0; 0], "{told}");
            journal.undo(&mut arena);
        }
    }
}
