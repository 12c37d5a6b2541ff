//! The commands of the monitor: what a debugger of durable memory is asked beside what gdb knows.
//!
//! Always true here: an answer is text for people, one fact a line; a command that moves in time says where
//! the position is then.

use std::fmt::Write;

use perdure_designs::Epochs;
use perdure_hardware::time::Cycles;

use super::forward::{Goal, Stop};
use super::life::End;
use super::session::{Poll, Position, Session};
use super::view;
use crate::code_place::Sources;
use crate::error::Error;
use crate::report::state_hash;

/// The commands, for `help`.
const COMMANDS: [(&str, &str); 15] = [
    (
        "where",
        "the position: life, cycle, hart, thread, instruction",
    ),
    (
        "lives",
        "the time line: the lives and how each began and ended",
    ),
    (
        "goto [LIFE:]CYCLE",
        "when everything up to that cycle has happened",
    ),
    (
        "goto start|end|NAME",
        "the boot, the end of this life as far as it goes, a bookmark",
    ),
    ("bookmark [NAME]", "remember the position"),
    ("bookmarks", "the positions that are remembered"),
    (
        "cut [CYCLE]",
        "the power fails now, or then; recovery, and into the next life",
    ),
    (
        "durable ADDRESS|SYMBOL[:BYTES]",
        "what would survive a power cut now, and where it is",
    ),
    (
        "wrote ADDRESS|SYMBOL[:BYTES]",
        "which store wrote there last, and when that became durable",
    ),
    ("epochs", "which epochs execute, and which are persisted"),
    ("harts", "what every hart does"),
    (
        "hash",
        "a digest of the whole machine here: the same state has the same one",
    ),
    ("thread", "the number of the thread that stopped last"),
    (
        "program [PATH]",
        "the program whose breakpoints hold, by its path in the guest",
    ),
    ("help", "this"),
];

fn request<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Request(message.into()))
}

/// A number as people write it.
pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Session {
    /// Carries out a command.
    pub fn monitor(&mut self, line: &str, poll: Poll) -> Result<String, Error> {
        let mut words = line.split_whitespace();
        let command = words.next().unwrap_or("help");
        let argument = words.next();
        if let Some(more) = words.next() {
            return request(format!(
                "{command}: '{more}' is one word too many; see monitor help"
            ));
        }
        let needed = |what: &str| {
            argument.map(str::to_owned).ok_or_else(|| {
                Error::Request(format!("{command}: say {what}, as monitor help shows"))
            })
        };
        match command {
            "help" => Ok(help()),
            "where" => Ok(self.told_where()),
            "lives" => Ok(self.told_lives()),
            "goto" => self.go_to(&needed("where to")?, poll),
            "bookmark" => Ok(self.bookmark(argument)),
            "bookmarks" => Ok(self.told_bookmarks()),
            "cut" => self.cut_at(argument),
            "durable" => self.durable(&needed("an address or a symbol")?),
            "wrote" => self.wrote(&needed("an address or a symbol")?, poll),
            "epochs" => Ok(self.told_epochs()),
            "harts" => Ok(self.told_harts()),
            "hash" => Ok(state_hash(self.machine())),
            "thread" => Ok(format!("thread {}", self.thread)),
            "program" => self.choose_program(argument),
            other => {
                let names = COMMANDS.iter().map(|(usage, _)| usage.split(' ').next());
                let nearest = crate::configuration::nearest(other, names.flatten());
                let hint =
                    nearest.map_or(String::new(), |name| format!("; the nearest is '{name}'"));
                request(format!(
                    "there is no command '{other}'{hint}; see monitor help"
                ))
            }
        }
    }

    /// The position in words.
    pub fn told_where(&mut self) -> String {
        let Position { life, moment } = self.position();
        let cycle = self.cycle();
        let machine = self.machine();
        let thread = self.thread;
        let mut told = format!("life {}, cycle {cycle}, moment {moment}", life + 1);
        let Some(pc) = view::pc_of(machine, thread) else {
            told += ": no thread lives";
            return told;
        };
        let hart = view::hart_of(machine, thread);
        let place = hart.map_or("on no hart".into(), |hart| format!("on hart {hart}"));
        let _ = write!(
            told,
            ": thread {thread} {place}, at {}",
            self.instruction(pc)
        );
        told
    }

    /// An instruction's address with its function and its line, as far as they are known.
    pub fn instruction(&self, pc: u64) -> String {
        let space = view::space_of(self.machine(), self.thread);
        match space {
            Some(space) => Sources::default()
                .place(self.machine().kernel(), space, pc)
                .to_string(),
            None => format!("{pc:#x}"),
        }
    }

    fn told_lives(&self) -> String {
        let mut told = String::new();
        for (number, life) in self.lives.iter().enumerate() {
            let here = if number == self.life { "* " } else { "  " };
            let _ = writeln!(told, "{here}life {}: {}", number + 1, life.began);
            let end = match (&life.end, life.planned) {
                (Some((_, End::Cut(cut))), _) => {
                    format!("ended by a power cut at cycle {}", cut.cycle)
                }
                (Some((_, End::Finished(Some(ended)))), _) => {
                    format!(
                        "ended with status {} at cycle {}",
                        ended.report.status, ended.at
                    )
                }
                (Some((_, End::Finished(None))), _) => "ended where it was told to".into(),
                (Some((_, End::Failed(words))), _) => format!("cannot go on: {words}"),
                (None, Some(cut)) => format!("to be cut at cycle {}", cut.cycle),
                (None, None) => "not lived to its end yet".into(),
            };
            let _ = writeln!(told, "    {end}");
        }
        told
    }

    fn go_to(&mut self, to: &str, poll: Poll) -> Result<String, Error> {
        self.reported = None;
        if let Some(&(position, thread)) = self.bookmarks.get(to) {
            self.go(position)?;
            self.thread = thread;
            self.choose_thread();
            return Ok(self.told_where());
        }
        match to {
            "start" => {
                let moment = self.lives[0].start();
                self.go(Position { life: 0, moment })?;
                return Ok(self.told_where());
            }
            "end" => return self.go_to_end(poll),
            _ => {}
        }
        let (life, cycle) = match to.split_once(':') {
            Some((life, cycle)) => (number(life), number(cycle)),
            None => (Some(self.life as u64 + 1), number(to)),
        };
        let (Some(life), Some(cycle)) = (life, cycle) else {
            let known: Vec<&str> = self.bookmarks.keys().map(String::as_str).collect();
            let known = if known.is_empty() {
                "none".into()
            } else {
                known.join(", ")
            };
            return request(format!(
                "goto {to}: that is no cycle, and no bookmark (there are: {known})"
            ));
        };
        let life = usize::try_from(life)
            .ok()
            .filter(|life| (1..=self.lives.len()).contains(life));
        let Some(life) = life.map(|life| life - 1) else {
            return request(format!(
                "goto {to}: there are {} lives so far; go to the cut that ends the last one, and on",
                self.lives.len()
            ));
        };
        let planned = self.lives[life]
            .planned
            .map_or(Cycles::MAX - 1, |cut| cut.cycle);
        let head = self.at_cycle(life, cycle.min(planned))?;
        let mut moment = head.moment();
        if let Some(last) = self.last_moment(life) {
            moment = moment.min(last);
        } else if head.machine.ended().is_some() {
            moment = head.last_entry;
        }
        self.go(Position { life, moment })?;
        Ok(self.told_where())
    }

    fn go_to_end(&mut self, poll: Poll) -> Result<String, Error> {
        let stops = std::mem::take(&mut self.stops);
        let life = self.life;
        let last = self.last_moment(life);
        let went = match last {
            Some(moment) => self
                .go(Position { life, moment })
                .map(|()| Stop::Interrupted),
            None => self.advance(Goal::Stop, poll),
        };
        self.stops = stops;
        let words = match went? {
            Stop::HistoryEnds(words) => format!("\n{words}"),
            Stop::PowerFails => "\nthe power fails next".into(),
            _ => String::new(),
        };
        Ok(self.told_where() + &words)
    }

    fn bookmark(&mut self, name: Option<&str>) -> String {
        let free = || {
            let mut numbers = (1..).map(|number| format!("b{number}"));
            numbers.find(|name| !self.bookmarks.contains_key(name))
        };
        let name = name.map(str::to_owned).or_else(free).unwrap_or_default();
        let position = self.position();
        self.bookmarks.insert(name.clone(), (position, self.thread));
        format!("bookmark {name}: {}", self.told_where())
    }

    fn told_bookmarks(&self) -> String {
        if self.bookmarks.is_empty() {
            return "there are no bookmarks; monitor bookmark makes one".into();
        }
        let lines = self.bookmarks.iter().map(|(name, (at, thread))| {
            format!(
                "{name}: life {}, moment {}, thread {thread}\n",
                at.life + 1,
                at.moment
            )
        });
        lines.collect()
    }

    fn cut_at(&mut self, cycle: Option<&str>) -> Result<String, Error> {
        let cycle = match cycle {
            None => self.now(),
            Some(text) => number(text)
                .ok_or_else(|| Error::Request(format!("cut {text}: that is no cycle")))?,
        };
        let told = self.cut(cycle)?;
        Ok(format!("{told}\n{}", self.told_where()))
    }

    fn told_epochs(&mut self) -> String {
        let design = self.machine().facts();
        if design.epochs == Epochs::None || !design.recovery.resumes() {
            return format!("{} has no epochs to which a machine goes back", design.name);
        }
        // Asking a sharing group takes the design as it may be changed.
        let mut copy = self.machine().clone();
        let (executing, announced) = (copy.executing_epoch(), copy.announced_epoch());
        let mut told = format!("executing: epoch {executing}\n");
        if design.epochs == Epochs::ByGroup {
            let groups: Vec<_> = copy
                .hardware
                .groups
                .iter()
                .map(|group| group.harts.clone())
                .collect();
            for harts in groups {
                if let Some(epoch) = copy.epoch_of(harts.start) {
                    let _ = writeln!(
                        told,
                        "  harts {}-{}: epoch {epoch}",
                        harts.start,
                        harts.end - 1
                    );
                }
            }
        }
        let _ = write!(
            told,
            "persisted: epoch {announced}, whose output may leave and to which a power cut goes back at most"
        );
        if executing > announced + 1 {
            let _ = write!(
                told,
                "\non the way: epochs {} to {}",
                announced + 1,
                executing - 1
            );
        }
        told
    }

    fn told_harts(&self) -> String {
        let machine = self.machine();
        let mut sources = Sources::default();
        let mut told = String::new();
        for (number, hart) in machine.contexts().enumerate() {
            let does = match hart.running {
                Some(running) => {
                    let at = sources.place(machine.kernel(), running.space, hart.hart.pc);
                    format!("thread {} at {at}", running.thread.0)
                }
                None => "idle".into(),
            };
            let (cycle, retired) = (machine.clock(number), hart.hart.retired);
            let _ = writeln!(
                told,
                "hart {number}: cycle {cycle}, {retired} instructions, {does}"
            );
        }
        told
    }

    fn choose_program(&mut self, path: Option<&str>) -> Result<String, Error> {
        if let Some(path) = path {
            let threads = view::threads(self.machine());
            if !threads.iter().any(|(_, executable)| executable == path) {
                let mut known: Vec<&str> = threads
                    .iter()
                    .map(|(_, executable)| executable.as_str())
                    .collect();
                known.dedup();
                return request(format!(
                    "program {path}: nobody runs it now; there are: {}",
                    known.join(", ")
                ));
            }
            self.program = path.into();
        }
        Ok(format!("breakpoints hold in {}", self.program))
    }
}

fn help() -> String {
    let width = COMMANDS
        .iter()
        .map(|(usage, _)| usage.len())
        .max()
        .unwrap_or(0);
    let lines = COMMANDS
        .iter()
        .map(|(usage, meaning)| format!("{usage:width$}  {meaning}\n"));
    lines.collect()
}
