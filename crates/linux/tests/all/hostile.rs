//! Damaged input never panics and never asks for absurd memory: it is refused, or it does what
//! its bytes say.

use std::path::{Path, PathBuf};

use crate::random::{Random, seeds};
use crate::support::{self, Flat, Options, Runner, compile, guest};
use perdure_linux::{BootError, Configuration, ElfError, Kernel, Mount, Program, Spool};

/// Changes a few places in the way that damaged or hostile files are changed.
fn damage(random: &mut Random, bytes: &mut [u8], from: usize, to: usize) {
    for _ in 0..=random.index(4) {
        let at = from + random.index(to.min(bytes.len()) - from);
        match random.index(5) {
            0 => bytes[at] ^= 1 << random.index(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
            3 => bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
}

/// So many cases, half of them by seeds that never change and half by fresh ones.
fn cases(count: u64) -> impl Iterator<Item = u64> {
    seeds(1).flat_map(move |first| first..first + count / 2)
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn boot(program: &Path) -> Result<Runner, BootError> {
    let mut options = Options::new(program);
    options.memory_bytes = 16 << 20;
    options.configuration.frames.end = support::MEMORY_START + (16 << 20);
    Runner::new(options)
}

/// A program small enough to be damaged thousands of times.
fn small_program() -> Vec<u8> {
    let program = compile(&guest("small.c"), &["-static", "-nostdlib", "-s"]);
    std::fs::read(program).expect("the program")
}

#[test]
fn damaged_elf_files_are_refused_or_run() {
    let original = small_program();
    let path = temporary("damaged.elf");
    let (mut refused, mut ran) = (0, 0);
    for seed in cases(1000) {
        let mut random = Random::new(seed);
        let mut bytes = original.clone();
        // Mostly the headers, where it hurts.
        let reach = if random.index(8) == 0 {
            bytes.len()
        } else {
            64 + 56 * 8
        };
        damage(&mut random, &mut bytes, 4, reach);
        if random.index(10) == 0 {
            bytes.truncate(random.index(original.len()));
        }
        std::fs::write(&path, &bytes).expect("the damaged file");
        let result = std::panic::catch_unwind(|| match boot(&path) {
            Ok(mut runner) => {
                runner.run_until(20_000);
                let _ = runner.kernel.symbol(perdure_linux::SpaceId(1), 0x10080);
                true
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                false
            }
        });
        let Ok(accepted) = result else {
            panic!("seed {seed}: a damaged ELF file made the kernel panic")
        };
        if accepted {
            ran += 1;
        } else {
            refused += 1;
        }
    }
    println!("{refused} refused, {ran} ran");
    let all = refused + ran;
    assert!(refused > all / 10 && ran > all / 10);
}

#[test]
fn what_is_no_program_is_named() {
    let refused = |bytes: &[u8]| {
        let path = temporary("refused.elf");
        std::fs::write(&path, bytes).expect("the file");
        match boot(&path) {
            Err(BootError::Elf { error, .. }) => error,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was accepted"),
        }
    };
    let original = small_program();
    let changed = |at: usize, value: u8| {
        let mut bytes = original.clone();
        bytes[at] = value;
        refused(&bytes)
    };
    assert_eq!(refused(b"#!\n"), ElfError::NotElf);
    assert_eq!(refused(b""), ElfError::NotElf);
    assert_eq!(changed(4, 1), ElfError::Format);
    assert_eq!(changed(5, 2), ElfError::Format);
    assert_eq!(changed(18, 62), ElfError::Machine("x86-64".to_owned()));
    assert_eq!(changed(16, 1), ElfError::Kind("an object file"));
    assert!(matches!(refused(&original[..40]), ElfError::Truncated(..)));
    assert!(matches!(refused(&original[..200]), ElfError::Truncated(..)));
    assert!(matches!(
        boot(Path::new("/nowhere/at all")),
        Err(BootError::NoProgram(_))
    ));
    assert!(matches!(boot(Path::new("/")), Err(BootError::NotAFile(_))));
    let dynamic = compile(&guest("ends.c"), &[]);
    let error = match boot(&dynamic) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it runs without its interpreter"),
    };
    assert!(
        error.contains("/lib/ld-linux-riscv64-lp64d.so.1"),
        "{error}"
    );
    assert!(
        error.contains("--sysroot") && error.contains("perdure sysroot"),
        "{error}"
    );
}

/// A script without its interpreter is named as it was typed, and the message says what to do.
#[test]
fn a_script_needs_its_interpreter() {
    let path = temporary("script.sh");
    std::fs::write(&path, "#!/bin/sh -e\nexit 3\n").expect("the script");
    let refused = |options: Options| match Runner::new(options) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it runs without its interpreter"),
    };
    let bare = refused(Options::new(&path));
    let expected = format!("{}: it is a script for /bin/sh, which is", path.display());
    assert!(bare.starts_with(&expected), "{bare}");
    assert!(bare.contains("perdure sysroot"), "{bare}");
    let mut options = Options::new(&path);
    options.configuration.sysroot = Some(std::env::temp_dir());
    let with_root = refused(options);
    assert!(with_root.contains("is not in the sysroot"), "{with_root}");
    std::fs::write(&path, "#!/program\n").expect("the script");
    let directory = refused(Options::new(&path));
    assert!(directory.contains("may be executed"), "{directory}");
    std::fs::write(&path, "#!/program/script.sh\n").expect("the script");
    let circle = refused(Options::new(&path));
    assert!(circle.contains("more than five deep"), "{circle}");
}

#[test]
fn bad_configurations_are_refused() {
    let program = compile(&guest("small.c"), &["-static", "-nostdlib", "-s"]);
    let good = Configuration {
        programs: vec![Program::new(program)],
        ..Options::new("").configuration
    };
    let refused = |change: &dyn Fn(&mut Configuration)| {
        let mut configuration = good.clone();
        change(&mut configuration);
        match Kernel::boot(configuration, &mut Flat::new(1 << 20)) {
            Ok(_) => panic!("it was accepted"),
            Err(error) => error,
        }
    };
    let mount = |guest: &str| Mount {
        host: "/".into(),
        guest: guest.to_owned(),
    };
    assert!(matches!(refused(&|c| c.harts = 0), BootError::Harts(0)));
    assert!(matches!(
        refused(&|c| c.frames = 1..2),
        BootError::Frames { .. }
    ));
    assert!(matches!(
        refused(&|c| c.stack_bytes = 1),
        BootError::Stack(1)
    ));
    assert!(matches!(
        refused(&|c| c.sysroot = Some("/nowhere".into())),
        BootError::Mount { .. }
    ));
    assert!(matches!(
        refused(&|c| c.mounts = vec![mount("/a/../b")]),
        BootError::MountPoint(_)
    ));
    assert!(matches!(
        refused(&|c| c.mounts = vec![mount("/")]),
        BootError::MountPoint(_)
    ));
    assert!(matches!(
        refused(&|c| c.programs[0].arguments = vec!["\0".into()]),
        BootError::ZeroByte(_)
    ));
    assert!(matches!(
        refused(&|c| c.programs[0].arguments = vec!["x".repeat(2 << 20)]),
        BootError::Arguments
    ));
    let tiny = |c: &mut Configuration| c.frames.end = c.frames.start + 4096;
    assert!(matches!(refused(&tiny), BootError::Memory));
}

#[test]
fn a_guest_without_memory_ends_with_a_reason() {
    let program = compile(&guest("hungry.c"), &["-static"]);
    let mut options = Options::new(&program);
    options.configuration.frames.end = options.configuration.frames.start + (8 << 20);
    let ended = support::run(options);
    assert_eq!(ended.status, 128 + 9, "{}", ended.report);
    assert!(
        ended.report.contains("out of memory: all 8 MiB"),
        "{}",
        ended.report
    );
}

/// Saved bytes of a guest in the middle of things.
fn saved(source: &str, instructions: u64) -> (Vec<u8>, Runner) {
    let program = compile(&guest(source), &["-static"]);
    let mut options = Options::new(program);
    options.memory_bytes = 16 << 20;
    options.configuration.frames.end = support::MEMORY_START + (16 << 20);
    options.slice = 500;
    let mut runner = Runner::new(options).expect("it boots");
    runner.run_until(instructions);
    (runner.kernel.save(), runner)
}

fn repair_checksum(bytes: &mut [u8]) {
    let length = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes")) as usize;
    if let Some(body) = bytes.get(64..length) {
        let checksum = twox_hash::XxHash3_64::oneshot(body);
        bytes[24..32].copy_from_slice(&checksum.to_le_bytes());
    }
}

#[test]
fn damaged_states_are_refused() {
    let (original, runner) = saved("pipes.c", 40_000);
    for seed in cases(2000) {
        let mut random = Random::new(seed);
        let mut bytes = original.clone();
        let at = random.index(original.len());
        bytes[at] ^= 1 << random.index(8);
        let inside = !(32..64).contains(&at);
        let result = Kernel::restore(&bytes, runner.kernel.host_view());
        assert!(
            result.is_err() || !inside,
            "seed {seed}: a flipped bit at {at} was not seen"
        );
        bytes.truncate(at);
        let result = Kernel::restore(&bytes, runner.kernel.host_view());
        assert!(result.is_err(), "seed {seed}: {at} bytes were enough");
    }
}

/// Even with a right checksum, no bytes make the kernel panic: not when restored, nor when it
/// then runs. They may make the guest misbehave.
macro_rules! forged_states_are_refused_or_run {
    ($($(#[$what:meta])* $name:ident: $source:literal after $instructions:literal;)*) => {
        mod forged_states_are_refused_or_run {$(
            $(#[$what])*
            #[test]
            fn $name() {
                super::forge($source, $instructions);
            }
        )*}
    };
}

forged_states_are_refused_or_run! {
    pipes: "pipes.c" after 40_000;
    /// Two processes, one of which waits at a pipe.
    processes: "processes.c" after 70_000;
    /// Segments, semaphores and queues.
    system_v: "system_v.c" after 200_000;
    /// Messages, and who is to be told of them.
    queues: "queues.c" after 132_000;
    /// Owners of open files that are told of them.
    owners: "news.c" after 46_000;
    /// Timers of every kind.
    timers: "../../../../tests/guests/alarms.c" after 80_000;
    terminals: "../../../../tests/guests/terminals.c" after 45_000;
    /// Watches, and events that wait.
    watches: "../../../../tests/guests/watches.c" after 45_000;
    /// FIFOs, and whoever waits for their other end.
    fifos: "../../../../tests/guests/fifos.c" after 45_000;
    /// Requests that wait, events that nobody has fetched.
    asynchronous: "../../../../tests/guests/asynchronous.c" after 120_000;
    /// Attributes of files.
    attributes: "attributes.c" after 50_000;
    /// One that is stopped.
    jobs: "../../../../tests/guests/jobs.c" after 40_000;
    /// Sockets in every state, and messages with open files in them.
    sockets: "crowd.c" after 60_000;
}

fn forge(source: &str, instructions: u64) {
    let (original, runner) = saved(source, instructions);
    let (mut refused, mut ran) = (0, 0);
    let section = |index: usize| {
        let at = 64 + 16 * index;
        let word = |at: usize| u64::from_le_bytes(original[at..at + 8].try_into().expect("8"));
        (word(at) as usize, (word(at) + word(at + 8)) as usize)
    };
    for seed in cases(1000) {
        let mut random = Random::new(seed);
        let mut bytes = original.clone();
        // The table, or one of the sections.
        let (from, to) = match random.index(14) {
            index @ 0..12 => section(index),
            _ => (64, 256),
        };
        if to > from {
            damage(&mut random, &mut bytes, from, to);
        }
        repair_checksum(&mut bytes);
        let result = std::panic::catch_unwind(|| {
            let host = runner.kernel.host_view();
            let Ok(kernel) = Kernel::restore(&bytes, host) else {
                return false;
            };
            let mut forged = runner.with_kernel(kernel);
            forged.run_until(instructions + 20_000);
            let _ = forged
                .kernel
                .release_files(&mut forged.flat, &Spool::default());
            let _ = forged.kernel.save();
            true
        });
        let Ok(accepted) = result else {
            panic!("seed {seed}: forged state made the kernel panic")
        };
        if accepted {
            ran += 1;
        } else {
            refused += 1;
        }
    }
    println!("{refused} refused, {ran} ran");
    let all = refused + ran;
    assert!(refused > all / 20 && ran > all / 20);
}
