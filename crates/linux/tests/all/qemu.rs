//! What Linux says, by qemu.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What guests find in their environment.
pub const ENVIRONMENT: [(&str, &str); 3] = [("FACT", "1"), ("EMPTY", ""), ("LONG", LONG)];
const LONG: &str = "0123456789012345678901234567890123456789012345678901234567890123456789";

/// What `timeout` says of a program that it has ended.
const TOO_LONG: i32 = 124;

/// What a guest says of an expectation of its own that is not met.
const NOT_MET: &str = ": NO\n";

/// How often a guest is run under qemu before what it says is believed.
const QEMU_RUNS: usize = 5;

/// Output and exit status under qemu, which must be installed. There, processes really run at once and the
/// host charges CPU time by its own ticks: once in a long while a busy host lets a signal and the wait for it
/// miss each other, or a timer of CPU time go off early. What the guest itself says Linux does not do, or
/// what does not end, is therefore run once more.
pub fn on_qemu(program: &Path, arguments: &[&str], directory: &Path) -> (String, i32) {
    let run = || once(program, arguments, directory);
    let is_in_doubt =
        |(output, status): &(String, i32)| *status == TOO_LONG || output.contains(NOT_MET);
    let mut last = run();
    for _ in 1..QEMU_RUNS {
        if !is_in_doubt(&last) {
            break;
        }
        last = run();
    }
    last
}

fn once(program: &Path, arguments: &[&str], directory: &Path) -> (String, i32) {
    // The guest's environment has no PATH.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let qemu = std::env::split_paths(&path)
        .map(|folder| folder.join("qemu-riscv64"))
        .find(|file| file.is_file())
        .expect("qemu-riscv64 is installed (qemu-user)");
    let output = Command::new("timeout")
        .args(["--kill-after=1", "60"])
        .arg(&qemu)
        .arg(program)
        .args(arguments)
        .env_clear()
        .envs(ENVIRONMENT)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", qemu.display()));
    let status = output
        .status
        .code()
        .or(output.status.signal().map(|signal| 128 + signal));
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        status.expect("it ended"),
    )
}
