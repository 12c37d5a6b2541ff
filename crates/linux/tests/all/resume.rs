//! A kernel that is saved and restored at any time goes on as if nothing had happened.

use crate::support::{self, Options, Runner, compile, guest};
use perdure_linux::{Configuration, Kernel, PAGE_BYTES, Program, Region};

/// The guest with the kernel replaced by its saved self, over and over, ends like the guest left
/// alone: same output, same files, same number of instructions.
fn resumes(source: &str, slice: u64, restore_every: u64) {
    resumes_with(source, slice, restore_every, |_| ());
}

fn resumes_with(
    source: &str,
    slice: u64,
    restore_every: u64,
    change: impl Fn(&mut Configuration),
) -> i32 {
    let program = compile(&guest(source), &["-static"]);
    let run = |restore_every| {
        let mut options = Options::new(&program);
        options.configuration.harts = 2;
        options.slice = slice;
        change(&mut options.configuration);
        options.restore_every = restore_every;
        support::run(options)
    };
    let (alone, restored) = (run(None), run(Some(restore_every)));
    assert!(
        restored.restored > 20,
        "only {} restores",
        restored.restored
    );
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        text(&restored.standard_output),
        text(&alone.standard_output)
    );
    assert_eq!(restored.files, alone.files);
    assert_eq!(
        (restored.status, &restored.report),
        (alone.status, &alone.report)
    );
    assert_eq!(restored.instructions, alone.instructions);
    restored.status
}

#[test]
fn with_threads_blocked_on_futexes() {
    resumes("threads.c", 300, 7);
    resumes("futexes.c", 300, 7);
    resumes("mutexes.c", 300, 7);
}

#[test]
fn with_threads_blocked_on_pipes_and_polls() {
    resumes("pipes.c", 500, 1);
}

#[test]
fn with_sleepers_timers_and_signals() {
    resumes("signals.c", 200, 1);
    resumes("timers.c", 200, 3);
}

#[test]
fn with_files_and_mappings() {
    resumes("files.c", 200, 5);
    resumes("mapping.c", 200, 1);
    resumes("directories.c", 1000, 5);
}

/// Memory modules, which programs map as they are, and whose frames nobody counts.
#[test]
fn with_memory_beside_the_frames() {
    let status = resumes_with("regions.c", 200, 1, |configuration| {
        let end = configuration.frames.end;
        let page =
            |from: u64, to: u64| end - (64 - from) * PAGE_BYTES..end - (64 - to) * PAGE_BYTES;
        configuration.frames.end = page(0, 0).start;
        let named = |name: &str, addresses, device| Region {
            name: name.into(),
            addresses,
            device,
        };
        configuration.regions = vec![
            named("near", page(0, 4), false),
            named("near.device", page(4, 5), true),
        ];
    });
    assert_eq!(status, 0, "the first check that fails");
}

#[test]
fn with_processes() {
    resumes("processes.c", 2000, 1);
    resumes("execution.c", 500, 1);
    resumes("restraints.c", 500, 1);
}

#[test]
fn with_threads_bound_to_harts() {
    resumes("../../../../tests/guests/bound.c", 2000, 11);
}

#[test]
fn with_every_timer() {
    resumes("../../../../tests/guests/alarms.c", 20_000, 2);
}

#[test]
fn with_pseudo_terminals() {
    resumes("../../../../tests/guests/terminals.c", 1000, 2);
}

#[test]
fn with_files_that_are_watched() {
    resumes("../../../../tests/guests/watches.c", 5000, 3);
}

#[test]
fn with_fifos() {
    resumes("../../../../tests/guests/fifos.c", 1000, 2);
}

#[test]
fn with_attributes_of_files() {
    resumes("attributes.c", 500, 5);
}

#[test]
fn with_asynchronous_requests() {
    resumes("../../../../tests/guests/asynchronous.c", 10_000, 9);
}

#[test]
fn with_stopped_processes() {
    resumes("../../../../tests/guests/jobs.c", 2000, 3);
}

#[test]
fn with_sockets_and_what_lies_between_them() {
    resumes("sockets.c", 20_000, 37);
    resumes("local.c", 500, 3);
}

/// Equal state stands at equal places: between two moments of a busy program, few lines differ.
#[test]
fn saved_bytes_stay_in_place() {
    let program = compile(&guest("mapping.c"), &["-static"]);
    let mut runner = Runner::new(Options::new(&program)).expect("it boots");
    runner.run_until(60_000);
    let before = runner.kernel.save();
    runner.run_until(61_000);
    let after = runner.kernel.save();
    assert_eq!(before.len(), after.len());
    let lines = before.chunks(64).zip(after.chunks(64));
    let changed = lines.filter(|(old, new)| old != new).count();
    assert!(
        changed * 4 < before.len() / 64,
        "{changed} of {} lines changed",
        before.len() / 64
    );
}

/// The same configuration saves the same bytes, whatever the host path of the program.
#[test]
fn nothing_of_the_host_is_in_the_state() {
    let program = compile(&guest("arguments.c"), &["-static"]);
    let elsewhere = program.with_file_name("another-place");
    std::fs::create_dir_all(&elsewhere).expect("a directory");
    let copy = elsewhere.join(program.file_name().expect("a name"));
    std::fs::copy(&program, &copy).expect("a copy");
    let state = |path: &std::path::Path| {
        let mut runner = Runner::new(Options::new(path)).expect("it boots");
        runner.run_until(20_000);
        runner.kernel.save()
    };
    assert!(state(&program) == state(&copy));
}

/// Tens of thousands of pages serialise in a moment. The figure is printed; only gross slowness
/// fails, because hosts differ.
#[test]
fn a_large_state_is_saved_quickly() {
    let source = guest("threads.c");
    let program = compile(&source, &["-static"]);
    let mut runner = Runner::new(Options::new(&program)).expect("it boots");
    runner.run_until(100_000);
    // What a guest of 160 MiB looks like: 40,000 pages through the kernel's own mmap.
    let pages = support::map_pages(&mut runner, 40_000);
    let mut bytes = Vec::new();
    runner.kernel.save_into(&mut bytes);
    let start = std::time::Instant::now();
    for _ in 0..10 {
        runner.kernel.save_into(&mut bytes);
    }
    let each = start.elapsed() / 10;
    println!("{pages} pages: {} bytes saved in {each:?}", bytes.len());
    assert!(each.as_millis() < 100);
    let start = std::time::Instant::now();
    Kernel::restore(&bytes, runner.kernel.host_view()).expect("it restores");
    println!("restored in {:?}", start.elapsed());
}

#[test]
fn a_kernel_restores_for_another_view_of_the_host() {
    let program = compile(&guest("arguments.c"), &["-static"]);
    let configuration = Configuration {
        programs: vec![Program::new(program)],
        ..Options::new("").configuration
    };
    let mut flat = support::Flat::new(256 << 20);
    let kernel = Kernel::boot(configuration.clone(), &mut flat).expect("it boots");
    let view = perdure_linux::HostView::new(&configuration);
    let restored = Kernel::restore(&kernel.save(), view).expect("it restores");
    assert!(restored.save() == kernel.save());
}
