//! Work that is done on several threads of the host.
//!
//! Always true here: answers come in the order of the work, whoever did it and when; a thread that
//! fails, or cannot be started, is an error and no panic of the whole.

use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;
use crate::panics;

/// A machine walks deep structures of the guest's kernel; the host's default is too small for that.
const STACK_BYTES: usize = 16 << 20;

/// Runs `work` on so many threads, each with its number, and returns what each answered.
pub fn threads<T: Send>(
    jobs: usize,
    work: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    if jobs <= 1 {
        return Ok(vec![panics::told(None, || work(0))?]);
    }
    let work = &work;
    std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..jobs)
            .map(|job| {
                let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, move || panics::told(None, || work(job)))
            })
            .collect();
        let joined = spawned.into_iter().map(|thread| {
            let thread = thread.map_err(|source| Error::Host {
                what: "starting a thread (--jobs)".into(),
                source,
            })?;
            thread.join().expect("what it panics with is its answer")
        });
        // All are joined before the first error leaves.
        joined.collect::<Vec<_>>().into_iter().collect()
    })
}

/// What `work` makes of each item, by so many threads: whoever is free takes the next one.
pub fn map<I: Sync, T: Send>(
    jobs: usize,
    items: &[I],
    work: impl Fn(&I) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        items.get(at).map(|item| (at, item))
    };
    let done = |(at, item)| {
        let answer = work(item).inspect_err(|_| {
            // Nobody begins anything any more.
            next.store(items.len(), Ordering::Relaxed);
        });
        Ok((at, answer?))
    };
    let answers = threads(jobs.min(items.len()), |_| {
        iter::from_fn(take).map(done).collect::<Result<Vec<_>, _>>()
    })?;
    let mut answers: Vec<_> = answers.into_iter().flatten().collect();
    answers.sort_unstable_by_key(|(at, _)| *at);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_for_any_number_of_threads() {
        let items: Vec<u64> = (0..100).collect();
        for jobs in [0, 1, 2, 7, 200] {
            let squares = map(jobs, &items, |item| Ok(item * item)).unwrap();
            assert!(
                squares
                    .iter()
                    .zip(&items)
                    .all(|(square, item)| *square == item * item)
            );
            assert_eq!(squares.len(), items.len());
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let done = AtomicUsize::new(0);
        let items: Vec<usize> = (0..1000).collect();
        let failed = map(2, &items, |&item| {
            done.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
            if item == 3 {
                return Err(Error::Defect("three".into()));
            }
            Ok(())
        });
        assert!(failed.is_err());
        assert!(done.load(Ordering::Relaxed) < items.len());
    }

    #[test]
    fn a_panic_is_an_error() {
        let failed = threads(2, |job| {
            assert!(job == 0, "job {job}");
            Ok(())
        });
        assert!(failed.unwrap_err().to_string().ends_with(": job 1"));
    }
}
