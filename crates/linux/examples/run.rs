//! Runs a guest on the kernel alone, without caches: `run [--sysroot DIR] [--harts N] [--env NAME=VALUE]
//! [--restore-every N] PROGRAM ARGUMENT…`.
#[allow(dead_code, reason = "the tests use all of it")]
#[path = "../tests/all/support/mod.rs"]
mod support;

use std::io::Write;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut options = support::Options::new("");
    options.memory_bytes = 1 << 30;
    options.instructions_max = u64::MAX;
    let start = support::MEMORY_START;
    options.configuration.frames = start..start + options.memory_bytes as u64;
    options.configuration.work_directory = std::env::current_dir().ok();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--sysroot" => options.configuration.sysroot = Some(value().into()),
            "--harts" => options.configuration.harts = value().parse().unwrap_or(1),
            "--env" => {
                let text = value();
                let (name, text) = text.split_once('=').unwrap_or((&text, ""));
                let variable = (name.to_owned(), text.to_owned());
                options.configuration.programs[0].environment.push(variable);
            }
            "--restore-every" => options.restore_every = value().parse().ok(),
            program => {
                let first = &mut options.configuration.programs[0];
                first.path = program.into();
                first.arguments = arguments.by_ref().collect();
            }
        }
    }
    let start = std::time::Instant::now();
    let runner = match support::Runner::new(options) {
        Ok(runner) => runner,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let ended = runner.run();
    let seconds = start.elapsed().as_secs_f64();
    std::io::stdout()
        .write_all(&ended.standard_output)
        .expect("stdout");
    std::io::stderr()
        .write_all(&ended.standard_error)
        .expect("stderr");
    for (number, name) in &ended.unknown {
        eprintln!("unknown system call {number} {name}");
    }
    eprintln!(
        "status {} {} instructions {} MIPS {:.0}, {} file records",
        ended.status,
        ended.report,
        ended.instructions,
        ended.instructions as f64 / seconds / 1e6,
        ended.files.len()
    );
    std::process::exit(ended.status);
}
