//! Several programs in one machine: each with its own process, streams and end.

use crate::conformance::directory;
use crate::support::{self, Ended, Options, Runner, compile, guest};
use perdure_linux::{Kernel, Program, Repeat};
use perdure_riscv::Hart;

fn program(arguments: &[&str]) -> Program {
    Program {
        arguments: arguments.iter().map(ToString::to_string).collect(),
        ..Program::new(compile(&guest("programs.c"), &["-static"]))
    }
}

fn options(programs: &[&[&str]]) -> Options {
    let mut options = Options::new("");
    options.configuration.programs = programs.iter().map(|list| program(list)).collect();
    options.configuration.harts = programs.len();
    options.slice = 2000;
    options
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn output_of(ended: &Ended, place: u32) -> String {
    if place == 0 {
        return text(&ended.standard_output);
    }
    ended
        .others
        .get(&place)
        .map(|bytes| text(bytes))
        .unwrap_or_default()
}

fn runs(ended: &Ended) -> Vec<u64> {
    ended.reports.iter().map(|report| report.runs).collect()
}

fn statuses(ended: &Ended) -> Vec<i32> {
    let ends = ended.reports.iter().flat_map(|report| &report.exit);
    ends.map(|report| report.status).collect()
}

/// Beside others, a program says what it says alone.
#[test]
fn neighbours_are_not_noticed() {
    let all: [&[&str]; 4] = [
        &["numbers", "20"],
        &["count", "40"],
        &["echo"],
        &["count", "5"],
    ];
    let mut together = options(&all);
    together.configuration.programs[2].stdin = Some(b"one\ntwo\n".to_vec());
    let together = support::run(together);
    assert_eq!(statuses(&together), [0, 0, 3, 0]);
    assert_eq!(together.status, 3, "the first that is not zero");
    assert_eq!(output_of(&together, 2), "0 one\n0 two\n");
    for place in [1, 3] {
        let alone = support::run(options(&[all[place as usize]]));
        assert_eq!(output_of(&together, place), text(&alone.standard_output));
    }
    // The numbers that it is given do not depend on when others ask for theirs, or how much.
    let mut other = options(&[all[0], &["numbers", "3"], all[1], all[3]]);
    other.slice = 333;
    let other = support::run(other);
    assert_eq!(output_of(&other, 0), output_of(&together, 0));
    assert_eq!(output_of(&other, 0).lines().count(), 20);
}

/// A program that a signal ends is reported, and stops nobody.
#[test]
fn one_death_stops_nobody() {
    let ended = support::run(options(&[&["count", "100"], &["dies"], &["count", "50"]]));
    assert_eq!(statuses(&ended), [0, 128 + 11, 0]);
    assert_eq!(ended.status, 128 + 11);
    assert!(output_of(&ended, 0).contains("\n10 ") && output_of(&ended, 2).contains("\n10 "));
    let fatal = ended.reports[1]
        .exit
        .as_ref()
        .and_then(|exit| exit.fatal.as_ref());
    let fatal = fatal.expect("the signal");
    assert_eq!(fatal.name, "SIGSEGV");
    assert!(fatal.symbol.is_some(), "where it died has a name");
}

/// Fewer harts than programs: they take turns.
#[test]
fn programs_share_harts() {
    let mut options = options(&[&["count", "100"], &["count", "50"], &["numbers", "5"]]);
    options.configuration.harts = 1;
    let ended = support::run(options);
    assert_eq!(statuses(&ended), [0, 0, 0]);
}

/// A finished program begins again, until every one has finished; only its first run is heard.
#[test]
fn finished_programs_begin_again() {
    let mut again = options(&[&["count", "100"], &["count", "1"], &["leaves", "3"]]);
    again.configuration.repeat = Repeat::UntilAllFinished;
    let ended = support::run(again.clone());
    assert_eq!(statuses(&ended), [0, 0, 0]);
    let [first, second, third] = runs(&ended)[..] else {
        panic!("three programs")
    };
    assert!(
        first == 1 && second > 5 && third > 5,
        "{first}, {second}, {third} runs"
    );
    let alone = support::run(options(&[&["count", "1"]]));
    assert_eq!(output_of(&ended, 1), text(&alone.standard_output));
    // Without repetition each runs once, and children that were left behind end with the machine.
    again.configuration.repeat = Repeat::Never;
    assert_eq!(runs(&support::run(again)), [1, 1, 1]);
}

/// Programs that are started again for ever end with the machine alone, restored or not.
#[test]
fn programs_go_on_for_ever() {
    let mut always = options(&[&["count", "1"], &["leaves", "1"]]);
    always.configuration.repeat = Repeat::Always;
    always.restore_every = Some(5);
    let mut runner = Runner::new(always).expect("it boots");
    assert!(!runner.run_until(200_000));
    assert!(runner.kernel.exited().is_none());
    let reports = runner.kernel.program_reports();
    assert!(
        reports
            .iter()
            .all(|report| report.runs > 1 && report.exit.is_some())
    );
}

/// What finished runs held is let go: the state does not grow with their number.
#[test]
fn runs_leave_nothing_behind() {
    let mut again = options(&[&["count", "1000000"], &["leaves", "3"], &["numbers", "4"]]);
    again.configuration.repeat = Repeat::UntilAllFinished;
    let mut runner = Runner::new(again).expect("it boots");
    let mut bytes = Vec::new();
    for instructions in [300_000, 600_000, 900_000, 1_200_000] {
        assert!(!runner.run_until(instructions));
        bytes.push(runner.kernel.save().len());
    }
    let reports = runner.kernel.program_reports();
    assert!(reports[1].runs > 10 && reports[2].runs > 3, "{reports:?}");
    assert!(bytes[3] <= bytes[0], "bytes of state: {bytes:?}");
}

/// The state of many processes restores, at any time, to one that goes on in the same way.
#[test]
fn programs_resume() {
    let mut again = options(&[&["count", "40"], &["numbers", "20"], &["leaves", "2"]]);
    again.configuration.repeat = Repeat::UntilAllFinished;
    again.slice = 300;
    let alone = support::run(again.clone());
    for every in [1, 7] {
        again.restore_every = Some(every);
        let restored = support::run(again.clone());
        assert!(restored.restored > 20);
        for place in 0..3 {
            assert_eq!(output_of(&restored, place), output_of(&alone, place));
        }
        assert_eq!(restored.reports, alone.reports);
        assert_eq!(restored.instructions, alone.instructions);
    }
}

/// Every process has a space of its own, and addresses are found in each.
#[test]
fn spaces_are_apart() {
    let mut runner = Runner::new(options(&[&["count", "40"], &["count", "40"]])).expect("it boots");
    runner.run_until(20_000);
    let running = [0, 1].map(|index| {
        let (kernel, flat) = (&mut runner.kernel, &mut runner.flat);
        let running = kernel.schedule(index, &mut Hart::default(), flat);
        assert_eq!(kernel.running(index), running);
        running.expect("both can run")
    });
    let kernel: &Kernel = &runner.kernel;
    let mut programs = running.map(|running| running.program);
    programs.sort_unstable();
    assert_eq!(programs, [0, 1]);
    assert_ne!(running[0].space, running[1].space);
    let stack = 0x7fff_ffff_e000;
    let frames = running.map(|running| {
        let place = kernel.translate(running.space, stack, perdure_riscv::Access::Load);
        place.expect("a stack").physical_frame
    });
    assert_ne!(frames[0], frames[1]);
    for (running, frame) in running.iter().zip(frames) {
        assert_eq!(
            kernel.reverse_translate(frame << 12),
            Some((running.space, stack))
        );
    }
    assert_eq!(kernel.symbol(perdure_linux::SpaceId(77), 0x10000), None);
    let nowhere = perdure_linux::SpaceId(0);
    assert!(
        kernel
            .translate(nowhere, stack, perdure_riscv::Access::Load)
            .is_none()
    );
}

fn local(arguments: &[&str]) -> Program {
    Program {
        path: compile(&guest("local.c"), &["-static"]),
        ..program(arguments)
    }
}

/// A server and its client are programs of their own, on harts of their own; also when the kernel is
/// saved and restored in the middle of what they say.
#[test]
fn programs_talk_to_each_other() {
    for restore_every in [None, Some(3)] {
        let mut options = options(&[&[], &[]]);
        options.configuration.programs = vec![local(&["serve", "7000"]), local(&["ask", "7000"])];
        options.slice = 500;
        options.restore_every = restore_every;
        let ended = support::run(options);
        assert_eq!(statuses(&ended), [0, 0], "{}", ended.report);
        assert_eq!(output_of(&ended, 0), "served\n");
        assert_eq!(output_of(&ended, 1), "10000\n");
    }
}

/// Open files that only messages hold which nobody can receive are let go.
#[test]
fn what_nobody_can_receive_is_closed() {
    let mut options = options(&[&[]]);
    options.configuration.programs = vec![local(&["garbage"])];
    assert_eq!(support::run(options).status, 0);
}

/// However somebody wrote its name: a program finds what lies beside its file, as every JDK does.
#[test]
fn the_first_program_knows_its_own_file() {
    let root = directory("linked-root");
    std::fs::create_dir_all(root.join("usr/lib/tool")).expect("a directory");
    std::fs::create_dir_all(root.join("usr/bin")).expect("a directory");
    let program = compile(&guest("execution.c"), &["-static"]);
    std::fs::copy(program, root.join("usr/lib/tool/real")).expect("the program");
    for (link, target) in [
        ("bin", "usr/bin"),
        ("usr/bin/first", "second"),
        ("usr/bin/second", "/usr/lib/../lib/tool/real"),
        ("usr/lib/tool/beside", "./real"),
    ] {
        let _ = std::fs::remove_file(root.join(link));
        std::os::unix::fs::symlink(target, root.join(link)).expect("a link");
    }
    for path in [
        "/bin/first",
        "/usr/bin/second",
        "/usr/lib/tool/beside",
        "/usr/lib/tool/real",
        "first",
    ] {
        let mut options = Options::new(path);
        options.configuration.programs[0].arguments = ["child", "file"].map(String::from).into();
        options.configuration.sysroot = Some(root.clone());
        let ended = support::run(options);
        let said = String::from_utf8_lossy(&ended.standard_output).into_owned();
        assert_eq!(
            (said.as_str(), ended.status),
            ("/usr/lib/tool/real\n", 0),
            "{path}"
        );
    }
}
