//! The core as its users call it: JSON text in, JSON text out.
//!
//! Requests are [`Request`]; results are described in `docs/machine.md`. Every function returns
//! an [`Error`] whose text is one message for the user.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use perdure_designs::{ALL, Facts};
use perdure_hardware::time::Cycles;
use perdure_linux::WORK_DIRECTORY;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::campaign::{self, broken};
use crate::configuration::{MACHINES, design_named, nearest, summary};
use crate::cost::Probes;
use crate::delivery::{Delivery, write_and_flush};
use crate::drawing::Drawing;
use crate::error::{Error, parsed};
use crate::hunt::{self, Hunt};
use crate::losing;
use crate::machine::{Engine, Machine, Pause, Workload, check_starts};
use crate::mistakes;
use crate::mounts::{mount, write_through};
use crate::mutants::{self, Mutants};
use crate::observer::run_on;
pub use crate::observer::{Observer, Unobserved};
use crate::outside::Outside;
use crate::pools;
use crate::replication::primary::{self, Primary, Target};
use crate::replication::restore::machine_of;
use crate::replication::server;
use crate::report::run_result;
use crate::request::{Prepared, Request};
use crate::series::Series;
use crate::snapshots::{Snapshots, keep};
use crate::unused;

mod debug;
mod replay;

pub use debug::debug;
pub use replay::replay;

/// The planted bug that is asked for, if it is one of the design's own.
fn planted_bug(design: &str, asked: Option<&str>) -> Result<Option<&'static str>, Error> {
    let design = design_named(design)?;
    let Some(name) = asked.filter(|name| !name.starts_with(mistakes::PREFIX)) else {
        return Ok(None);
    };
    let names = || design.planted_bugs.iter().map(|bug| bug.name);
    let found = names().find(|known| *known == name);
    found.map(Some).ok_or_else(|| {
        let design = design.name;
        Error::Request(match nearest(name, names()) {
            Some(hint) => {
                format!("{design} has no planted bug '{name}'; the nearest is '{hint}'")
            }
            None => format!("{design} has no planted bugs"),
        })
    })
}

struct Run<'a> {
    request: &'a Request,
    prepared: &'a Prepared,
    observer: &'a dyn Observer,
    forward: Arc<Delivery>,
}

impl<'a> Run<'a> {
    fn new(
        request: &'a Request,
        prepared: &'a Prepared,
        observer: &'a dyn Observer,
    ) -> Result<Self, Error> {
        Ok(Self {
            request,
            prepared,
            observer,
            forward: Arc::new(Delivery::new(request, prepared, observer)?),
        })
    }

    /// Boots a machine, and runs it to its end.
    fn boot_and_execute(self, bug: Option<&'static str>) -> Result<Value, Error> {
        let prepared = self.prepared;
        let (configuration, workload) = (&prepared.configuration, &prepared.workload);
        let machine = Machine::boot(configuration, workload, prepared.engine, bug)?;
        Ok(Value::Object(self.execute(machine)?))
    }

    /// Goes on, to its end, from an epoch that a replica holds.
    fn go_on_from(self, store: &Snapshots, epoch: u64) -> Result<Value, Error> {
        let prepared = self.prepared;
        let (configuration, workload) = (&prepared.configuration, &prepared.workload);
        let outside = Outside {
            midway: true,
            forward: Some(self.forward.receiver()),
            forgets: true,
            ..Outside::new(configuration.kernel.output_memory_bytes)
        };
        let host = store.replica()?.host_view(&workload.kernel);
        let memory = store.restored(epoch)?;
        let mut machine = machine_of(configuration, memory, host, epoch, outside, prepared.engine)?;
        if let Some(instructions) = workload.stop_after {
            machine.stop_in(instructions);
        }
        // What left before this epoch is elsewhere, or nowhere.
        for file in machine.files()? {
            self.forward.take(&file);
        }
        let mut result = self.execute(machine)?;
        result.insert("restored_epoch".into(), json!(epoch));
        Ok(Value::Object(result))
    }

    /// Runs a machine to its end.
    fn execute(self, mut machine: Machine) -> Result<Map<String, Value>, Error> {
        let forward = &self.forward;
        machine.outside.forward = Some(forward.receiver());
        machine.outside.forgets = true;
        let measures = self.prepared.workload.region.is_some();
        let mut primary = match &self.request.replicate_to {
            Some(to) => {
                let target = Target::parse(to, self.request.secret_file.as_deref())?;
                Some(Primary::start(target, self.prepared, &machine)?)
            }
            None => None,
        };
        let started = Instant::now();
        let total = self.request.instructions_expected();
        let progress = |machine: &Machine| {
            self.observer
                .progress(machine.retired(), total, "instructions", "running");
            forward.hand_on(self.observer);
        };
        let mut replicate = |machine: &mut Machine, _: u64| {
            if let Some(primary) = &mut primary {
                primary.follow(machine);
            }
        };
        let trace = self.request.trace.iter();
        let start = |asked| Drawing::start(asked, self.prepared, &mut machine);
        let drawing = trace.map(start).next().transpose()?;
        let mut series = Series::new(self.request.sample_cycles);
        let mut probes = (self.request.probe_cuts).then(|| Probes::new(&mut machine));
        let end = loop {
            let probe = probes.as_ref().map_or(Cycles::MAX - 1, Probes::until);
            let until = series.until().min(probe);
            let machine = &mut machine;
            match run_on(machine, until, self.observer, &mut replicate, progress)? {
                Some(Pause::Time) => {
                    if until == series.until() {
                        series.take(machine);
                    }
                    if let Some(probes) = probes.as_mut().filter(|_| until == probe) {
                        probes.take(machine);
                    }
                }
                end => break end,
            }
        };
        let interrupted = end.is_none();
        let seconds = started.elapsed().as_secs_f64();
        if let Some(primary) = &mut primary {
            let seconds = self.request.patience_seconds.unwrap_or(PATIENCE_SECONDS);
            primary.finish(&machine, Duration::from_secs(seconds), self.observer);
        }
        let kept = match &self.request.snapshots {
            Some(directory) => Some(keep::keep(&mut machine, self.prepared, directory)?),
            None => None,
        };
        if let Some(message) = &machine.outside.contradiction {
            return Err(Error::Defect(message.clone()));
        }
        if measures && machine.meter.measured().is_none() && !interrupted {
            return Err(self.request.not_reached(&machine.meter.retired));
        }
        let mut result = run_result(&machine, self.prepared, seconds, interrupted)?;
        result.insert("series".into(), series.to_json());
        if let Some(drawing) = drawing {
            result.insert("trace".into(), drawing.finish(&mut machine)?);
        }
        pools::keep(&mut machine, self.prepared.folder.as_deref(), &mut result)?;
        if let Some(probes) = probes {
            result.insert("cut_cost".into(), probes.to_json());
        }
        forward.finish(&mut result, self.observer);
        if let Some(kept) = kept {
            let value = json!({"directory": self.request.snapshots, "epochs": kept.epochs, "sizes": kept.sizes});
            result.insert("snapshots".into(), value);
        }
        if let Some(primary) = primary {
            result.insert("replication".into(), primary.report(&machine));
        }
        if machine.outside.midway {
            let place = |(&(program, descriptor), &offset): (&(u32, u8), &u64)| json!({"program": program, "descriptor": descriptor, "offset": offset});
            let places: Vec<Value> = machine.outside.bases.iter().map(place).collect();
            result.insert("output_from".into(), json!(places));
        }
        Ok(result)
    }
}

/// How long the end of a run waits for a replica that is away, unless told otherwise.
const PATIENCE_SECONDS: u64 = 10;

/// Runs a program.
pub fn run(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let request = Request::parse(request)?;
    unused::refuse_for_runs(&request)?;
    let prepared = request.prepare_giving_back()?;
    let bug = planted_bug(&request.design, request.planted_bug.as_deref())?;
    let asks = [
        ("--snapshots", request.snapshots.is_some()),
        ("replication", request.replicate_to.is_some()),
        ("--probe-cuts", request.probe_cuts),
    ];
    for (what, _) in asks.iter().filter(|(_, asked)| *asked) {
        prepared.configuration.refuse_timing_only(what)?;
    }
    if let Some(directory) = &request.snapshots {
        keep::check(directory, &request.design)?;
    }
    if request.replicate_to.is_some() {
        keep::check_design("--to", &request.design)?;
    }
    let run = Run::new(&request, &prepared, observer)?;
    Ok(run.boot_and_execute(bug)?.to_string())
}

fn cut_request(asked: &Request, until_cut: bool, observer: &dyn Observer) -> Result<String, Error> {
    if asked.replica {
        keep::check_design("--replica", &asked.design)?;
    }
    unused::refuse_for_cuts(asked, until_cut)?;
    let prepared = if asked.leaves_pools() {
        asked.prepare_giving_back()?
    } else {
        asked.prepare()?
    };
    let prepared = prepared.until_cut(until_cut);
    prepared.configuration.refuse_timing_only("a power cut")?;
    let bug = planted_bug(&asked.design, asked.planted_bug.as_deref())?;
    let started = Instant::now();
    let mut result = match campaign::run(asked, &prepared, bug, observer) {
        Ok(campaign) => campaign.to_json(&prepared),
        Err(error) => broken::report(asked, &prepared, error)?,
    };
    let host = json!({"seconds": started.elapsed().as_secs_f64()});
    result.insert("host".into(), host);
    Ok(Value::Object(result).to_string())
}

/// Runs a program, cuts its power, judges every recovery.
pub fn cut(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let request = Request::parse(request)?;
    cut_request(&request, request.until_cut, observer)
}

/// What `perdure replicate --from` asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForwardRequest {
    from: PathBuf,
    to: String,
    #[serde(default)]
    secret_file: Option<PathBuf>,
}

/// Sends what a replica in a directory holds on to another one.
pub fn forward(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let request: ForwardRequest = parsed(request)?;
    let target = Target::parse(&request.to, request.secret_file.as_deref())?;
    let (epoch, sent) = primary::forward(&request.from, &target, observer)?;
    Ok(
        json!({"from": request.from, "to": request.to, "epoch": epoch, "epochs_sent": sent})
            .to_string(),
    )
}

/// Receives epochs of primaries until it is interrupted; what happens is told on standard output.
pub fn serve(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let options: server::Options = parsed(request)?;
    let say = |line: &str| {
        let _ = write_and_flush(std::io::stdout().lock(), format!("{line}\n").as_bytes());
    };
    let epoch = server::serve(&options, observer, &say)?;
    Ok(json!({"directory": options.directory, "epoch": epoch}).to_string())
}

/// What `perdure replica DIR resume` asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeRequest {
    directory: PathBuf,
    #[serde(default)]
    epoch: Option<u64>,
    #[serde(default)]
    sysroot: Option<PathBuf>,
    #[serde(default)]
    mounts: Vec<String>,
    #[serde(default)]
    stop_after: Option<u64>,
    #[serde(default)]
    out: Option<PathBuf>,
    #[serde(default)]
    files: Option<PathBuf>,
    #[serde(default)]
    write_through: Vec<String>,
    #[serde(default)]
    passthrough: bool,
}

/// Restores an epoch that a replica holds, and goes on with the program there.
pub fn resume(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let asked: ResumeRequest = parsed(request)?;
    let store = Snapshots::open(&asked.directory)?;
    let replica = store.replica()?;
    let epoch = store.epoch(asked.epoch)?;
    let mounts = asked.mounts.iter().map(|text| mount(text));
    let mounts: Vec<_> = mounts.collect::<Result<_, _>>()?;
    let write_through = write_through(&asked.write_through)?;
    let mut kernel = replica.kernel_configuration(asked.sysroot, &mounts)?;
    for folder in &write_through {
        let known = kernel
            .mounts
            .iter_mut()
            .find(|mount| mount.guest == folder.guest);
        match known {
            Some(known) => known.host.clone_from(&folder.host),
            None if folder.guest == WORK_DIRECTORY => {
                kernel.work_directory = Some(folder.host.clone());
            }
            None => {
                return Err(Error::Request(format!(
                    "--write-through {}:{}: the program has no mount there",
                    folder.host.display(),
                    folder.guest
                )));
            }
        }
    }
    let configuration = replica.identity.configuration()?;
    kernel.caches = configuration.caches();
    let prepared = Prepared {
        config_hash: configuration.hash(),
        configuration: Arc::new(configuration),
        write_through,
        workload: Workload {
            stop_after: asked.stop_after,
            ..Workload::new(kernel)
        },
        engine: Engine::default(),
        check: None,
        restart: None,
        folder: None,
        program_hash: replica.identity.program_hash.clone(),
        given: Vec::new(),
        until_failure: false,
        until_cut: false,
        explains: false,
        blind: None,
    };
    let request = Request {
        stop_after: asked.stop_after,
        out: asked.out,
        files: asked.files,
        passthrough: asked.passthrough,
        ..Request::default()
    };
    let run = Run::new(&request, &prepared, observer)?;
    Ok(run.go_on_from(&store, epoch)?.to_string())
}

/// Checks that every planted bug is caught and no clean design accused.
pub fn mutants(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let asked: Mutants = parsed(request)?;
    let report = match asked.losses()? {
        Some(losses) => losing::run(&losses, observer)?,
        None => mutants::run(&asked, observer)?,
    };
    Ok(report.to_string())
}

/// Cuts machines drawn by seeds until something fails, or as long as was asked for.
pub fn hunt(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let hunt: Hunt = parsed(request)?;
    (hunt.request.configuration()?).refuse_timing_only("a hunt for cuts that fail")?;
    planted_bug(&hunt.request.design, hunt.request.planted_bug.as_deref())?;
    Ok(hunt::run(&hunt, observer)?.to_string())
}

/// The effective configuration. With values of the user's it is one of which a machine can be made; a preset
/// is shown beside any design, whether that runs on it or not.
pub fn configuration(request: &str) -> Result<String, Error> {
    let request = Request::parse(request)?;
    let configuration = request.configuration()?;
    if !request.set.is_empty() {
        check_starts(&configuration)?;
    }
    let described = configuration.describe().into_iter();
    let values: Map<String, Value> = described
        .map(|(key, value, explained)| {
            let one = explained.json(&key, &value);
            (key, one)
        })
        .collect();
    // The design is no key of a machine file, so that what is printed here is one.
    let mut machine = configuration.effective();
    machine.remove("design");
    let machine = toml::to_string(&machine).map_err(|error| Error::Defect(error.to_string()))?;
    let toml = format!("# design: {}\n{machine}", configuration.design.name);
    Ok(json!({"toml": toml, "hash": configuration.hash(), "values": values}).to_string())
}

/// Designs and machines that this build knows.
pub fn catalogue() -> String {
    let describe = |design: &&Facts| {
        json!({
            "name": design.name,
            "summary": design.summary,
            "promise": design.promise.name, "epochs": design.epochs, "recovery": design.recovery,
            "planted_bugs": design.planted_bugs,
        })
    };
    let designs: Vec<Value> = ALL.iter().map(describe).collect();
    let machines: Vec<Value> = MACHINES
        .iter()
        .map(|(name, preset)| {
            let summary = summary(preset);
            json!({"name": name, "summary": summary, "path": format!("machines/{name}.toml")})
        })
        .collect();
    json!({"designs": designs, "machines": machines}).to_string()
}
