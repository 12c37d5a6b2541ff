//! The same guest program on Perdure's kernel and on Linux (through qemu): same output, same end.

use std::path::{Path, PathBuf};

use crate::qemu::{ENVIRONMENT, on_qemu};
use crate::support::{self, Ended, Options, compile, guest};
use perdure_linux::{CacheKind, CpuCache};

/// An empty directory of its own for a run.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory for the run");
    path
}

fn options(program: &Path, arguments: &[&str]) -> Options {
    let mut options = Options::new(program);
    let program = &mut options.configuration.programs[0];
    program.arguments = arguments.iter().map(ToString::to_string).collect();
    program.environment = ENVIRONMENT
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    options
}

fn check(name: &str, ended: &Ended, expected: &(String, i32)) {
    let output = String::from_utf8_lossy(&ended.standard_output);
    let lines = output.lines().zip(expected.0.lines());
    for (number, (ours, theirs)) in lines.enumerate() {
        assert_eq!(
            ours,
            theirs,
            "{name}: line {} differs (left: Perdure)",
            number + 1
        );
    }
    assert_eq!(
        output, expected.0,
        "{name}: one output is longer (left: Perdure)"
    );
    assert_eq!(
        ended.status, expected.1,
        "{name}: exit status (left: Perdure) {}",
        ended.report
    );
}

/// Runs a guest on qemu once and on the kernel in several ways.
fn conforms(source: &str, arguments: &[&str]) {
    let program = compile(&guest(source), &["-static"]);
    let name = Path::new(source).file_name().expect("a file's name");
    let label = format!("{}-{}", name.display(), arguments.join("-"));
    let expected = on_qemu(&program, arguments, &directory(&label));
    for (harts, slice, plain) in [(1, 20_000, false), (3, 777, false), (2, 5000, true)] {
        let mut options = options(&program, arguments);
        options.configuration.harts = harts;
        options.slice = slice;
        options.plain = plain;
        let name = format!("{label} on {harts} harts, slices of {slice}, plain {plain}");
        check(&name, &support::run(options), &expected);
    }
}

macro_rules! conformance {
    ($($name:ident: $source:literal $arguments:expr;)*) => {$(
        #[test]
        fn $name() {
            conforms($source, &$arguments);
        }
    )*};
}

conformance! {
    memory_mapping: "mapping.c" [];
    files: "files.c" [];
    directories: "directories.c" [];
    pipes_and_polling: "pipes.c" [];
    signals: "signals.c" [];
    threads_and_futexes: "threads.c" [];
    clocks_and_timers: "timers.c" [];
    stat_and_permissions: "stat.c" [];
    holes_and_copies: "holes.c" [];
    remapping: "remap.c" [];
    limits: "limits.c" [];
    descriptors_and_locks: "locks.c" [];
    arguments_and_environment: "arguments.c" ["one", "two three", ""];
    errors: "errors.c" [];
    identity_and_limits: "identity.c" [];
    standard_input: "input.c" [];
    locks_seals_and_processes: "peers.c" [];
    processes: "processes.c" [];
    code_that_is_written: "code.c" [];
    cpp_runtime: "runtime.cc" [];
    every_timer_and_signals_that_are_read: "../../../../tests/guests/alarms.c" [];
    threads_bound_to_harts: "../../../../tests/guests/bound.c" ["5", "60"];
    pseudo_terminals: "../../../../tests/guests/terminals.c" [];
    files_that_are_watched: "../../../../tests/guests/watches.c" [];
    fifos_and_pipes: "../../../../tests/guests/fifos.c" [];
    internet_sockets: "sockets.c" [];
    local_sockets: "local.c" [];
    owners_of_files_are_told: "news.c" [];
    stopped_processes: "../../../../tests/guests/jobs.c" [];
    all_that_is_remembered: "../../../../tests/guests/remembers.c" [];
}

/// What qemu leaves out: `SA_NOCLDSTOP`.
#[test]
fn stopped_processes_exactly() {
    let program = compile(&guest("../../../../tests/guests/jobs.c"), &["-static"]);
    let ended = support::run(options(&program, &["exact"]));
    let output = String::from_utf8_lossy(&ended.standard_output);
    assert!(ended.status == 0 && !output.contains(": NO"), "{output}");
}

/// Where Debian's cross compiler keeps the C library's shared objects and their loader.
const CROSS_ROOT: &str = "/usr/riscv64-linux-gnu";

/// Dynamically linked, its loader and libraries from a sysroot.
#[test]
fn dynamic_linking() {
    for source in ["threads.c", "signals.c", "runtime.cc"] {
        let program = compile(&guest(source), &["-static"]);
        let expected = on_qemu(&program, &[], &directory(&format!("dynamic-{source}")));
        for flags in [&["-fPIE", "-pie"], &["-fno-pie", "-no-pie"]] {
            let program = compile(&guest(source), flags);
            let mut options = options(&program, &[]);
            options.configuration.sysroot = Some(CROSS_ROOT.into());
            options.configuration.harts = 2;
            check(
                &format!("{source} {flags:?}"),
                &support::run(options),
                &expected,
            );
        }
    }
}

/// Addresses have names: of functions and variables, in the program and in libraries.
#[test]
fn addresses_have_symbols() {
    let program = compile(&guest("ends.c"), &["-static"]);
    let mut runner = support::Runner::new(options(&program, &["null"])).expect("it boots");
    assert!(runner.run_until(10_000_000));
    let fatal = runner
        .kernel
        .exited()
        .and_then(|report| report.fatal.clone())
        .expect("SIGSEGV");
    assert_eq!(fatal.address, Some(0));
    let space = perdure_linux::SpaceId(1);
    let (name, offset) = runner.kernel.symbol(space, fatal.pc).expect("a function");
    assert!(name == "main" && offset > 0, "{name}+{offset}");
    let here = runner
        .kernel
        .translate(space, fatal.pc, perdure_riscv::Access::Fetch);
    let physical = (here.expect("it ran").physical_frame << 12) + fatal.pc % 4096;
    assert_eq!(
        runner.kernel.reverse_translate(physical),
        Some((space, fatal.pc))
    );
    assert_eq!(runner.kernel.symbol(space, 0x10), None);
}

/// What qemu cannot show: every line's value is known.
macro_rules! facts {
    ($($name:ident: ($stem:literal);)*) => {
        $(#[test]
        fn $name() {
            prints(concat!($stem, ".c"), concat!($stem, ".txt"));
        })*
    };
}

facts! {
    names_that_are_bytes: ("bytes");
    restraints_and_reapers: ("restraints");
    lookups: ("lookups");
    execution: ("execution");
    system_v: ("system_v");
    message_queues: ("queues");
    corners_of_calls: ("corners");
    what_is_done_in_part: ("partial");
    what_is_looked_at_and_what_comes_together: ("checked");
    attributes_of_files: ("attributes");
    tables_of_open_files_and_shared_objects: ("tables");
    reports_of_the_system: ("reports");
    namespaces_locks_and_threads_by_number: ("namespaces");
    children_that_ended_and_stacks_of_handlers: ("children");
    what_is_refused_in_which_order: ("refusals");
    what_moves_and_who_is_told: ("moving");
    policies_and_niceness: ("policies");
    // qemu 7.2 does not know `MAP_SHARED_VALIDATE`; Linux itself says what the text says.
    mappings_whose_flags_are_checked: ("validated");
    memory_that_is_locked_and_capabilities: ("locked");
    several_futexes_and_moves_to_mutexes: ("futexes");
    words_that_are_handed_on: ("mutexes");
    pseudo_terminals_of_old_and_their_owners: ("ptys");
    owners_and_wishes: ("owners");
    // qemu 7.2 does not know `SO_TIMESTAMPNS`.
    how_datagrams_came: ("datagrams");
    who_is_woken_and_gets_a_signal: ("woken");
    what_is_asked_for_in_the_wrong_way: ("asked");
}

/// A guest says what a text says.
fn prints(source: &str, text: &str) {
    let name = source;
    let program = compile(&guest(source), &["-static"]);
    let expected = std::fs::read_to_string(guest(text)).expect("the facts");
    for (harts, slice, plain) in [(1, 20_000, false), (3, 777, false), (2, 5000, true)] {
        let mut options = options(&program, &[]);
        options.configuration.harts = harts;
        options.slice = slice;
        options.plain = plain;
        let name = format!("{name} on {harts} harts, slices of {slice}, plain {plain}");
        check(&name, &support::run(options), &(expected.clone(), 0));
    }
}

/// No guest is forgotten: each is compiled by a test of this crate.
#[test]
fn every_guest_is_in_a_test() {
    let tests = [
        include_str!("conformance.rs"),
        include_str!("host.rs"),
        include_str!("hostile.rs"),
        include_str!("programs.rs"),
        include_str!("resume.rs"),
    ]
    .concat();
    let folder = guest("");
    for entry in std::fs::read_dir(folder).expect("the guests") {
        let path = entry.expect("a guest").path();
        let file = path.file_name().expect("a name").to_string_lossy();
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let named = [format!("{file}\""), format!("(\"{stem}\")")];
        let is_source = !file.ends_with(".h") && !file.ends_with(".txt");
        let is_named = named.iter().any(|name| tests.contains(name));
        assert!(is_named || !is_source, "no test runs {file}");
    }
}

/// qemu has no such calls; Linux itself says what the text says.
#[test]
fn asynchronous_requests() {
    let guests = "../../../../tests/guests";
    prints(
        &format!("{guests}/asynchronous.c"),
        &format!("{guests}/expected/asynchronous.txt"),
    );
}

/// Each hart's caches, as the configuration has them; after a restore, too, before which nobody looked.
#[test]
fn caches_of_the_harts() {
    let program = compile(&guest("caches.c"), &["-static"]);
    let expected = std::fs::read_to_string(guest("caches.txt")).expect("the facts");
    let cache = |level, kind, kib: usize, ways, harts| CpuCache {
        level,
        kind,
        bytes: kib << 10,
        ways,
        line_bytes: 64,
        harts,
    };
    for restore_every in [None, Some(1)] {
        let mut options = options(&program, &[]);
        options.configuration.harts = 3;
        options.configuration.caches = vec![
            cache(1, CacheKind::Data, 32, 4, 1),
            cache(1, CacheKind::Instruction, 16, 2, 1),
            cache(2, CacheKind::Unified, 256, 8, 2),
        ];
        options.restore_every = restore_every;
        let name = format!("caches, restored every {restore_every:?}");
        check(&name, &support::run(options), &(expected.clone(), 0));
    }
}

/// A script can be the first program: by its path in the working directory, by its host path, by a
/// bare name in the sysroot; five may be each other's interpreters, a sixth is one too many.
#[test]
fn scripts_as_first_programs() {
    use std::os::unix::fs::PermissionsExt;
    let (work, root) = (directory("script-work"), directory("script-root"));
    std::fs::create_dir_all(root.join("usr/games")).expect("a directory");
    let program = compile(&guest("execution.c"), &["-static"]);
    std::fs::copy(program, root.join("usr/games/interpreter")).expect("the interpreter");
    let script = |path: &Path, first: &str| {
        std::fs::write(path, format!("#!{first}\nnonsense\n")).expect("a script");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("a mode");
    };
    script(&work.join("own"), "/usr/games/interpreter child script");
    script(
        &root.join("usr/games/s1"),
        "/usr/games/interpreter child script",
    );
    for number in 2..=6 {
        let path = root.join(format!("usr/games/s{number}"));
        script(&path, &format!("/usr/games/s{}", number - 1));
    }
    let run = |path: &str, host: Option<&Path>| {
        let mut options = options(host.unwrap_or(Path::new(path)), &["a", "b c"]);
        options.configuration.sysroot = Some(root.clone());
        options.configuration.work_directory = Some(work.clone());
        support::Runner::new(options).map(|runner| {
            let ended = runner.run();
            (
                String::from_utf8_lossy(&ended.standard_output).into_owned(),
                ended.status,
            )
        })
    };
    let ended = |text: &str, status| (format!("script: {text}\n"), status);
    let own = work.join("own");
    let by_host_path = run("", Some(&own)).expect("it runs");
    assert_eq!(by_host_path, ended("/program/own a b c", 5));
    assert_eq!(
        run("s1", None).expect("it runs"),
        ended("/usr/games/s1 a b c", 5)
    );
    let deep = "/usr/games/s1 /usr/games/s2 /usr/games/s3 /usr/games/s4 /usr/games/s5 a b c";
    assert_eq!(run("s5", None).expect("it runs"), ended(deep, 9));
    let error = run("s6", None).expect_err("it is too deep").to_string();
    assert_eq!(
        error,
        "s6: it is a script whose interpreter is a script, more than five deep"
    );
}

/// A call that nobody implements is answered ENOSYS and named once.
#[test]
fn unknown_calls_are_named() {
    let program = compile(&guest("errors.c"), &["-static"]);
    assert_eq!(
        support::run(options(&program, &[])).unknown,
        [(9999, "(no such call)")]
    );
}

#[test]
fn ways_to_end() {
    const ENDS: [&str; 14] = [
        "normally", "exit", "abort", "null", "jump", "illegal", "trap", "kill", "stack", "text",
        "alarm", "blocked", "thread", "last",
    ];
    let program = compile(&guest("ends.c"), &["-static"]);
    let directory = directory("ends");
    for how in ENDS {
        let expected = on_qemu(&program, &[how], &directory);
        check(how, &support::run(options(&program, &[how])), &expected);
    }
}

#[test]
fn fatal_signals_are_explained() {
    let program = compile(&guest("ends.c"), &["-static"]);
    let report = |how| support::run(options(&program, &[how])).report;
    let null = report("null");
    assert!(
        null.contains("store to 0x0: nothing is mapped there"),
        "{null}"
    );
    assert!(null.contains("SIGSEGV"), "{null}");
    for (how, why) in [
        ("abort", "it found an error of its own and gave up (abort)"),
        (
            "alarm",
            "its alarm went off, and it has no handler for that",
        ),
        ("kill", "the program sent SIGKILL to itself: it was killed"),
    ] {
        let report = report(how);
        assert!(report.contains(why), "{report}");
        assert!(report.contains("instruction_bits: None"), "{report}");
    }
    let text = report("text");
    assert!(text.contains("the mapping forbids it"), "{text}");
    let illegal = report("illegal");
    assert!(
        illegal.contains("no such instruction: 0xffffffff"),
        "{illegal}"
    );
}

/// A tree as text: every path with its kind, mode and content.
fn tree(directory: &Path) -> Vec<String> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let mut lines = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in std::fs::read_dir(&at).expect("a directory").flatten() {
            let path = entry.path();
            let shown = path
                .strip_prefix(directory)
                .expect("inside")
                .display()
                .to_string();
            let metadata = std::fs::symlink_metadata(&path).expect("it is there");
            if metadata.is_symlink() {
                let target = std::fs::read_link(&path).expect("a link");
                lines.push(format!("{shown} -> {}", target.display()));
            } else if metadata.is_dir() {
                lines.push(format!("{shown}/"));
                waiting.push(path);
            } else if metadata.file_type().is_fifo() || metadata.file_type().is_socket() {
                // It never leaves the machine.
            } else {
                let bytes = std::fs::read(&path).expect("a file");
                let hash = twox_hash::XxHash3_64::oneshot(&bytes);
                let mode = metadata.permissions().mode() & 0o700;
                lines.push(format!(
                    "{shown} {} bytes {hash:x} mode {mode:o}",
                    bytes.len()
                ));
            }
        }
    }
    lines.sort();
    lines
}

/// Files and directories that are there before the guest starts.
fn furnish(directory: &Path) {
    std::fs::create_dir_all(directory.join("d/e")).expect("directories");
    let text: Vec<u8> = (0..9000_u32).map(|index| (index % 251) as u8).collect();
    for (name, length) in [("a", 9000), ("b", 10), ("d/a", 4096), ("d/e/a", 5000)] {
        std::fs::write(directory.join(name), &text[..length]).expect("a file");
    }
    std::os::unix::fs::symlink("b", directory.join("l")).expect("a link");
    // What exists on the host is shown with one of two modes: start from those.
    for name in ["a", "b", "d/a", "d/e/a"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(directory.join(name), mode).expect("a mode");
    }
}

/// Random changes to a tree, released record by record (each one twice), leave on the host what
/// they leave under Linux.
#[test]
fn released_trees_equal_linux() {
    let program = compile(&guest("changes.c"), &["-static"]);
    for seed in crate::random::seeds(1).flat_map(|first| first..first + 6) {
        let text = seed.to_string();
        for arguments in [&[&*text, "120"][..], &[&text, "120", "fifos"]] {
            let what = format!("seed {seed} {}", arguments[2..].concat());
            released_tree_equals_linux(&program, arguments, 1 + seed % 3, &what);
        }
    }
}

/// What takes the place of a file or directory of the host's, between two releases, finds it gone
/// with all that was in it, also if it is not released itself.
#[test]
fn what_is_replaced_goes_before_what_replaces_it() {
    let program = compile(&guest("replaces.c"), &["-static"]);
    for what in ["file", "link", "directory", "fifo", "socket"] {
        released_tree_equals_linux(&program, &[what], 1, what);
    }
}

fn released_tree_equals_linux(program: &Path, arguments: &[&str], restore_every: u64, what: &str) {
    let name = program.file_stem().expect("a program").display();
    let [theirs, ours, out, again] = ["linux", "perdure", "out", "twice"].map(|whose| {
        let place = directory(&format!("{name}-{whose}"));
        furnish(&place);
        place
    });
    let expected = on_qemu(program, arguments, &theirs);
    let mut options = options(program, arguments);
    options.configuration.work_directory = Some(ours.clone());
    options.restore_every = Some(restore_every);
    options.slice = 3000;
    let ended = support::run(options);
    check(what, &ended, &expected);
    let through = |host: &Path| {
        let mount = perdure_linux::Mount {
            host: host.to_owned(),
            guest: perdure_linux::WORK_DIRECTORY.to_owned(),
        };
        perdure_linux::HostDirectories::new(None, &[mount], &[]).expect("the folder is there")
    };
    let (mut once, mut twice) = (through(&out), through(&again));
    for release in &ended.files {
        once.apply(release)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        for _ in 0..2 {
            twice
                .apply(release)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
    assert_eq!(tree(&out), tree(&theirs), "{what} (left: Perdure)");
    assert_eq!(tree(&again), tree(&theirs), "{what}, each record twice");
}
