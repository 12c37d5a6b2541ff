//! Whether it is noticed that restoring loses something: every field of what is saved ([`Lost`]) in
//! turn, by cuts of guests that use what the kernel can remember, resumed without it.
//!
//! Each guest runs once, uncut, and is cut once, when it has said that the kernel remembers everything.
//! The cut is resumed once without a loss, which must end as the uncut run, and once for each loss that
//! was not noticed before and takes something from this very image. What nobody notices must be listed,
//! with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use perdure_hardware::random::Random;
use perdure_hardware::time::Cycles;
use serde_json::{Value, json};

use crate::campaign::{self, Survey};
use crate::error::Error;
use crate::given_files;
use crate::lives::{End, Lives, failure_of, status_of, world_of};
use crate::losses::Lost;
use crate::machine::{Image, Machine, Pause, Resumption};
use crate::mistakes::{FORGETS, Mistake, PREFIX};
use crate::observer::{Observer, run_on};
use crate::outside::Outside;
use crate::panics;
use crate::parallel;
use crate::request::{Prepared, Request, Resume, Schedule};
use crate::token::Token;
use crate::verify::{self, CutOptions, Golden, Verdict};

/// The design whose cuts these are. Losses are the machine's: one design is as good as another.
const DESIGN: &str = "picl";

const HARTS: usize = 2;

/// A small machine is soon copied.
const SET: &[&str] = &[
    "nvm.bytes=67108864",
    "picl.log_extent_bytes=1048576",
    "picl.log_limit_bytes=16777216",
    "llc.bytes_per_hart=524288",
    "l2.bytes=131072",
    "epoch.instructions=5000",
    "picl.acs_gap=0",
];

/// Each says that it has made the kernel remember everything, works, and then asks for every bit of it.
const SCENES: &[&str] = &["remembers", "keeps"];

/// The losses that a file lists, a line each, with the reason behind the name. An entry covers all that
/// is below it, too.
fn excused(path: &Path) -> Result<Vec<(String, String)>, Error> {
    let host = |source| Error::Host {
        what: format!("reading {}", path.display()),
        source,
    };
    let text = given_files::text(path).map_err(host)?;
    let text = String::from_utf8(text)
        .map_err(|error| host(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once(char::is_whitespace) {
            Some((name, why)) if Lost::named(name).is_some() => {
                Ok((name.to_owned(), why.trim().to_owned()))
            }
            _ => Err(Error::Request(format!(
                "{}: '{line}' is no loss with a reason",
                path.display()
            ))),
        })
        .collect()
}

fn covers(entry: &str, name: &str) -> bool {
    let below = name.strip_prefix(entry);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Losing<'a> {
    /// The folder of the scenes' programs.
    pub guests: &'a Path,
    /// The list of what need not be noticed.
    pub unnoticed: Option<&'a Path>,
    /// Threads, among which each scene's losses are shared out.
    pub jobs: usize,
}

/// Runs every scene.
pub fn run(losing: &Losing, observer: &dyn Observer) -> Result<Value, Error> {
    let Losing {
        guests,
        unnoticed,
        jobs,
    } = *losing;
    let excused = unnoticed.map_or_else(|| Ok(Vec::new()), excused)?;
    let mut left: Vec<Lost> = Lost::all().collect();
    let all = left.clone();
    let mut noticed: BTreeMap<Lost, (String, String)> = BTreeMap::new();
    let mut there: Vec<Lost> = Vec::new();
    let (mut cuts, mut false_alarms, mut alarm) = (0, 0, None);
    for &scene in SCENES {
        let jobs = jobs.max(1);
        let found = parallel::threads(jobs, |job| {
            let mine: Vec<Lost> = left.iter().copied().skip(job).step_by(jobs).collect();
            lose_under(scene, guests, &mine, observer)
        })?;
        for losses in found {
            cuts += losses.cuts;
            for (lost, (verdict, token)) in losses.noticed {
                let by = format!("{}, {scene}", verdict.name());
                noticed.insert(lost, (by, token));
            }
            there.extend(losses.unnoticed);
            false_alarms += u64::from(losses.false_alarm.is_some());
            alarm = alarm.or(losses.false_alarm);
        }
        left.retain(|lost| !noticed.contains_key(lost));
    }
    let mutants = all.iter().filter_map(|lost| {
        let found = noticed.get(lost);
        let excuse = excused
            .iter()
            .find(|(entry, _)| found.is_none() && covers(entry, lost.name()));
        let why = if there.contains(lost) {
            "lost, and nothing is different"
        } else {
            "no guest has anything there"
        };
        let by = found.map_or(why, |(by, _)| by);
        let name = lost.name();
        excuse.is_none().then(|| {
            json!({
                "name": format!("{FORGETS}{name}"), "summary": format!("restoring loses {name}"),
                "caught": found.is_some(), "by": by, "cuts": 0,
                "token": found.map(|(_, token)| token),
            })
        })
    });
    let unnoticed: serde_json::Map<String, Value> = excused
        .iter()
        .map(|(entry, why)| (entry.clone(), json!(why)))
        .collect();
    Ok(json!({
        "design": "state",
        "mutants": mutants.collect::<Vec<_>>(),
        "unnoticeable": unnoticed,
        "clean": {"cuts": cuts, "false_alarms": false_alarms, "token": alarm},
    }))
}

fn lose_under(
    scene: &str,
    folder: &Path,
    all: &[Lost],
    observer: &dyn Observer,
) -> Result<Losses, Error> {
    let program = folder.join(scene);
    let request = Request {
        design: DESIGN.into(),
        machine: "picl".into(),
        harts: Some(HARTS),
        set: SET.iter().map(|&text| text.to_owned()).collect(),
        program: vec![program.to_string_lossy().into_owned()],
        ..Request::default()
    };
    lose(&request, all, observer)
}

/// What came of losses.
#[derive(Default)]
struct Losses {
    /// The losses that were noticed: how, and the token.
    pub noticed: BTreeMap<Lost, (Verdict, String)>,
    /// Those that were not, although there was something to lose.
    pub unnoticed: BTreeSet<Lost>,
    /// Cuts that were resumed.
    pub cuts: usize,
    /// The token of a cut that lost nothing, if it was not verified.
    pub false_alarm: Option<String>,
}

/// Runs a program once, cuts it when its first output has come back, and resumes it without each of the
/// things that could be lost.
fn lose(request: &Request, all: &[Lost], observer: &dyn Observer) -> Result<Losses, Error> {
    let prepared = request.prepare()?;
    let survey = campaign::survey(&prepared, None, Schedule::Random, observer)?;
    let lives = Lives {
        prepared: &prepared,
        bug: None,
        uncut: &survey.uncut,
        check: None,
        recovery_steps: 0,
        observer,
        progress: &|| (),
    };
    let mut losses = Losses::default();
    let mut machine = lives.first()?;
    let mut golden = Golden::watch(&mut machine, 0)?;
    let watch = |machine: &mut Machine, epoch| golden.record(machine, epoch);
    reach_output(&mut machine, survey.uncut.end, observer, watch)?;
    let at = machine.time();
    let tear_seed = Random::new(at).bits();
    let options = CutOptions {
        tear_seed,
        keep_image: true,
        ..CutOptions::default()
    };
    let judged = verify::cut(&mut machine, &mut golden, at, options);
    let token = |bug| token_of(request, &prepared, &survey, (at, tear_seed), bug);
    losses.cuts += 1;
    let (Verdict::Verified, Some(mut image), Some(epoch)) =
        (judged.verdict, judged.image, judged.recovered_epoch)
    else {
        losses.false_alarm = Some(token(None));
        return Ok(losses);
    };
    // Copies need not keep it up.
    let _ = image.memory.take_digest();
    let cut = Cut {
        lives: &lives,
        machine: &machine,
        image,
        epoch,
    };
    let (uncut, ends) = (&survey.uncut, cut.end(None, Limit::NONE)?);
    let reference = match ends {
        Ok((End::Finished, ended)) if ended.is_as(uncut.status, &uncut.outside) => ended,
        _ => {
            losses.false_alarm = Some(token(None));
            return Ok(losses);
        }
    };
    for (done, &lost) in (0..).zip(all) {
        observer.progress(done, all.len() as u64, "losses", lost.name());
        if observer.interrupted() {
            break;
        }
        if !machine.saves(&cut.image, lost) {
            continue;
        }
        losses.cuts += 1;
        // A panic is what restoring should have refused.
        let noticed = panics::caught(|| cut.notices(lost, &reference))
            .map_err(|said| Error::Defect(format!("resuming without {} {said}", lost.name())))?;
        if let Some(verdict) = noticed? {
            let bug = format!("{PREFIX}{FORGETS}{}", lost.name());
            losses.noticed.insert(lost, (verdict, token(Some(bug))));
        } else {
            losses.unnoticed.insert(lost);
        }
    }
    Ok(losses)
}

/// The token of a cut that is resumed, with that loss if there is one.
fn token_of(
    request: &Request,
    prepared: &Prepared,
    survey: &Survey,
    cut: (Cycles, u64),
    planted_bug: Option<String>,
) -> String {
    let request = Request {
        resume: Some(Resume::All),
        generations: Some(1),
        planted_bug,
        ..request.clone()
    };
    Token::of(request, prepared, cut, survey.named.reads.clone()).encode()
}

/// A machine as the power goes, and what recovery makes of it.
struct Cut<'a> {
    lives: &'a Lives<'a>,
    machine: &'a Machine,
    image: Image,
    epoch: u64,
}

impl Cut<'_> {
    /// Goes on without something, to the end or a limit; an error in words if that cannot be.
    fn end(&self, lost: Option<Lost>, limit: Limit) -> Result<Result<(End, Ended), String>, Error> {
        let image = self.image.clone();
        let (host, outside) = world_of(self.machine);
        let resumption = Resumption {
            epoch: self.epoch,
            outside,
            engine: self.lives.prepared.engine,
            bug: None,
            mistake: lost.map(Mistake::Forgets),
        };
        let configuration = &self.lives.prepared.configuration;
        let mut machine = match Machine::resume(configuration, image, host, resumption) {
            Ok(machine) => machine,
            Err(error @ Error::Host { .. }) => return Err(error),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let began = machine.time();
        let mut epochs = 0;
        let end = loop {
            match machine.run(began.saturating_add(limit.cycles)) {
                Ok(Pause::Finished) => break End::Finished,
                Ok(Pause::EpochEnded(_)) if self.lives.observer.interrupted() => {
                    break End::Stopped;
                }
                Ok(Pause::EpochEnded(_)) if epochs < limit.epochs => epochs += 1,
                Ok(_) => break End::Hangs("it goes on and on".into()),
                Err(error) => break failure_of(error)?,
            }
        };
        let ended = Ended {
            took: machine.time().saturating_sub(began),
            epochs,
            status: status_of(&machine),
            outside: machine.outside,
        };
        Ok(Ok((end, ended)))
    }

    /// How it is noticed that something is lost, if it is: the run that goes on without it does not end
    /// as the one that lost nothing, or not soon after.
    fn notices(&self, lost: Lost, reference: &Ended) -> Result<Option<Verdict>, Error> {
        let limit = Limit {
            cycles: reference.took / 2 * 3 + Limit::MORE_CYCLES,
            epochs: reference.epochs * 2 + Limit::MORE_EPOCHS,
        };
        Ok(match self.end(Some(lost), limit)? {
            Err(_) => Some(Verdict::NotResumable),
            Ok((End::Broken(_), _)) => Some(Verdict::OutputDiffers),
            Ok((End::Hangs(_), _)) => Some(Verdict::ResumeDiffers),
            Ok((End::Stopped, _)) => None,
            Ok((End::Finished, ended)) => {
                let same = ended.is_as(reference.status, &reference.outside);
                (!same).then_some(Verdict::ResumeDiffers)
            }
        })
    }
}

/// How a resumed run has ended.
struct Ended {
    took: Cycles,
    epochs: u64,
    status: Option<i32>,
    outside: Outside,
}

impl Ended {
    /// With that exit status, and everything that left the machine.
    fn is_as(&self, status: Option<i32>, outside: &Outside) -> bool {
        self.status == status && self.outside.difference(outside).is_none()
    }
}

/// For how long a resumed run may go on.
#[derive(Clone, Copy)]
struct Limit {
    cycles: Cycles,
    epochs: u64,
}

impl Limit {
    /// Of a run that loses nothing: its program ends.
    const NONE: Self = Self {
        cycles: Cycles::MAX,
        epochs: u64::MAX,
    };
    /// A run that lost something may be so much later than half as long again.
    const MORE_CYCLES: Cycles = 2_000_000;
    const MORE_EPOCHS: u64 = 20;
}

/// Runs until an epoch has come back at whose end something was written to standard output.
fn reach_output(
    machine: &mut Machine,
    end: Cycles,
    observer: &dyn Observer,
    mut watch: impl FnMut(&mut Machine, u64),
) -> Result<(), Error> {
    let mut next = machine.time();
    while machine.outside.stream(0, 1).is_empty() {
        next += (end / 1024).max(1);
        let reached = run_on(machine, next, observer, &mut watch, |_| {})?;
        let early = |what| Error::Request(format!("{what} before the first output had come back"));
        match reached {
            None => return Err(early("interrupted")),
            Some(Pause::Finished) => return Err(early("the guest had ended")),
            Some(_) => {}
        }
    }
    Ok(())
}
