//! The stride prefetcher, in time: streams that it knows, and those that it cannot know.

use perdure_hardware::arena::Arena;
use perdure_hardware::core_timing::AccessKind;
use perdure_hardware::counters::Counters;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

use crate::support::{AtHome, table_iv};

/// Lines of a page.
const PAGE: u64 = 64;

/// Loads lines one after the other, with so many instructions between. Returns what was counted and the
/// time that each load took.
fn loads(degree: usize, lines: &[u64], between: u64) -> (Statistics, Vec<Cycles>) {
    let mut specification = table_iv(1);
    specification.prefetcher.degree = degree;
    let arena = Arena::new(specification.nvm.bytes).expect("address space");
    let mut hardware = Hardware::new(specification, arena, 0..0);
    let mut retired = 0;
    let mut took = Vec::new();
    for &line in lines {
        retired += between;
        let now = hardware.cores[0].timing.now(retired);
        let (_, ready) = hardware.load(&mut AtHome, 0, line, now);
        hardware.accessed(0, AccessKind::Load, now, ready);
        took.push(ready - now);
    }
    let statistics = hardware.statistics();
    statistics.check_conservation().expect("they add up");
    (statistics, took)
}

#[test]
fn of_a_stream_the_first_three_lines_of_a_page_are_waited_for() {
    let lines: Vec<u64> = (0..PAGE).collect();
    for degree in [1, 4] {
        let (statistics, took) = loads(degree, &lines, 10_000);
        assert_eq!(statistics.l1d_misses, 3, "degree {degree}");
        assert_eq!(statistics.prefetches, PAGE - 3);
        assert_eq!(statistics.prefetches_used, PAGE - 3);
        assert!(took[..3].iter().all(|&cycles| cycles > 256), "{took:?}");
        assert!(took[3..].iter().all(|&cycles| cycles == 0), "{took:?}");
    }
}

#[test]
fn a_line_that_is_on_its_way_is_waited_for_as_long_as_it_takes() {
    let lines: Vec<u64> = (0..PAGE).collect();
    let (_, alone) = loads(0, &lines, 100);
    let (statistics, took) = loads(1, &lines, 100);
    assert_eq!(statistics.prefetches_used, PAGE - 3);
    // The one ahead was asked for when the last one was, 100 instructions and a wait ago.
    for (index, pair) in took.windows(2).enumerate().skip(2) {
        let [before, wait] = [pair[0], pair[1]];
        assert!(wait + 100 + before >= alone[index + 1], "{index}: {wait}");
    }
    let sum = |took: &[Cycles]| took.iter().sum::<Cycles>();
    assert!(sum(&took) < sum(&alone));
}

#[test]
fn strides_are_followed_to_the_end_of_the_page_and_noise_is_not() {
    let strides: Vec<u64> = (0..16).map(|step| step * 4).collect();
    let (statistics, _) = loads(4, &strides, 10_000);
    assert_eq!(
        (statistics.prefetches, statistics.prefetches_used),
        (13, 13)
    );
    let backwards: Vec<u64> = (0..PAGE).rev().collect();
    let (statistics, _) = loads(4, &backwards, 10_000);
    assert_eq!(
        (statistics.prefetches, statistics.prefetches_used),
        (61, 61)
    );
    let noise: Vec<u64> = (0..PAGE).map(|step| step * step * 7 % 61).collect();
    let (statistics, _) = loads(4, &noise, 10_000);
    assert!(statistics.prefetches < 8, "{}", statistics.prefetches);
}
