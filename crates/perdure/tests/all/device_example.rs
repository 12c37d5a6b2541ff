//! The device example of `docs/extend.md`: a module that zeroes pages on command, under a design that
//! restarts. Random programs without a processor are cut at every event; a guest program maps module and
//! device, and whole machines that run it are cut near events, and while they recover.

use perdure::api::Unobserved;
use perdure::campaign;
use perdure::request::{Request, Schedule};
use perdure::verify::Verdict;
use perdure_designs::Design;
use perdure_designs::Facts;
use perdure_designs::oracle::Fault;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::persist::Fence;
use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::random::Random;
use perdure_hardware::specification::{ModuleSpecification, Persistence, Specification};
use perdure_hardware::time::Cycles;
use serde_json::Value;

use crate::common::{Directory, compile};
use crate::page_zeroing::{PAGE, PageZeroing};
use crate::restart_rig::Run;
use crate::rigs::geometry::{DIRECT_MAPPED, Geometry, TINY};
use crate::rigs::rig::Rig;

const PAGES: u64 = 8;
const PAGE_LINES: u64 = PAGE / LINE_BYTES as u64;

/// A small machine with a module of eight pages that has a device.
fn machine(geometry: &Geometry) -> Specification {
    let mut specification = geometry.specification();
    let mut media = specification.nvm.clone();
    media.bytes = PAGES * PAGE;
    specification.modules = vec![ModuleSpecification {
        name: "near".into(),
        kind: RegionKind::Persistent,
        persistence: Persistence::Media,
        region: String::new(),
        interleaving_bytes: PAGE,
        device_bytes: PAGE,
        media,
        link: specification.link.clone(),
    }];
    specification
}

/// A rig whose hart uses the device.
struct Near {
    run: Run<PageZeroing>,
    random: Random,
    /// The module's first line, and where its commands go.
    first: LineNumber,
    commands: u64,
}

impl Near {
    fn new(geometry: &Geometry, seed: u64, bug: Option<&'static str>) -> Self {
        let run = Run::new(machine(geometry), bug, 3);
        let regions = run.rig.hardware.memory.map().regions();
        let start = |name: &str| {
            let found = regions.iter().find(|region| region.name == name);
            found.expect("a region").addresses.start
        };
        Self {
            first: line_of(start("near")),
            commands: start("near.device"),
            random: Random::new(seed),
            run,
        }
    }

    fn line(&mut self, page: u64) -> LineNumber {
        self.first + page * PAGE_LINES + self.random.below(PAGE_LINES)
    }

    /// Brings a page's lines out of the caches.
    fn let_go(&mut self, page: u64) {
        let first = self.first + page * PAGE_LINES;
        self.run.act(|rig| {
            (first..first + PAGE_LINES).for_each(|line| rig.cache_block(0, line, true));
        });
    }

    fn zero(&mut self, page: u64) {
        let (to, first) = (self.commands, self.first + page * PAGE_LINES);
        self.run.act(|rig| {
            let now = rig.clock(0);
            let Rig {
                hardware, design, ..
            } = rig;
            hardware.device_store(design, (0, to), &page.to_le_bytes(), now);
            for line in first..first + PAGE_LINES {
                rig.model.insert(line, Line::ZERO);
            }
        });
    }

    /// Stores, and mostly waits until that is durable.
    fn store(&mut self, page: u64) {
        let (line, word) = (self.line(page), self.random.below(8) as usize);
        let (value, waits) = (self.random.bits(), self.random.below(4) > 0);
        self.run.act(|rig| rig.store(0, line, word, value));
        if waits {
            self.run.act(|rig| {
                rig.cache_block(0, line, false);
                let now = rig.clock(0);
                (rig.hardware).fence(&mut rig.design, 0, Fence::FULL, now);
            });
        }
    }

    /// How many pages the device says it has zeroed.
    fn zeroed(&mut self) -> u64 {
        let (from, mut bytes) = (self.commands, [0; 8]);
        let (hardware, late) = (&mut self.run.rig.hardware, Cycles::MAX / 2);
        let statistics = &mut hardware.statistics;
        (hardware.memory).device_load(from, &mut bytes, late, statistics);
        u64::from_le_bytes(bytes)
    }

    /// A random program: pages are filled, zeroed a few at a time, and stored to while they are.
    fn work(&mut self, rounds: u64) {
        let mut commands = 0;
        for page in 1..PAGES {
            (0..4).for_each(|_| self.store(page));
        }
        for _ in 0..rounds {
            let first = 1 + self.random.below(3);
            let pages = first..PAGES.min(first + 1 + self.random.below(7));
            for page in pages.clone() {
                self.store(page);
                self.let_go(page);
            }
            pages.clone().for_each(|page| self.zero(page));
            commands += pages.end - pages.start;
            for _ in 0..self.random.below(6) {
                let page = first + self.random.below(pages.end - first);
                self.store(page);
                let line = self.line(page);
                self.run.act(|rig| rig.load(0, line));
            }
            let page = 1 + self.random.below(PAGES - 1);
            self.store(page);
            if self.run.fault.is_some() {
                return;
            }
        }
        assert_eq!(self.zeroed(), commands);
        let hardware = &self.run.rig.hardware;
        assert!(hardware.failure.is_none() && hardware.breach.is_none());
    }
}

/// What a random program is accused of, with its cuts.
fn accused(geometry: &Geometry, seed: u64, bug: Option<&'static str>) -> (Option<Fault>, u64, u64) {
    let mut near = Near::new(geometry, seed, bug);
    near.work(8);
    (near.run.fault, near.run.cuts, near.run.in_recovery)
}

const BUGS: [(&str, Fault, Verdict); 3] = [
    (
        "early-acknowledgement",
        Fault::Age,
        Verdict::OlderThanAnnounced,
    ),
    ("conflicts-pass", Fault::Age, Verdict::OlderThanAnnounced),
    ("half-replayed", Fault::Memory, Verdict::MemoryDiffers),
];

fn planted(name: &str) -> &'static str {
    let mut bugs = PageZeroing::PLANTED_BUGS.iter();
    bugs.find(|bug| bug.name == name)
        .expect("it is planted")
        .name
}

#[test]
fn no_cut_at_any_event_finds_it_wrong() {
    for geometry in [&TINY, &DIRECT_MAPPED] {
        for seed in crate::rigs::seeds(1) {
            let (fault, cuts, in_recovery) = accused(geometry, seed, None);
            let run = format!("'{}', PERDURE_SEED={seed}", geometry.name);
            println!("{run}: {cuts} cuts, {in_recovery} in recovery");
            assert_eq!(fault, None, "{run}");
            assert!(cuts > 200 && in_recovery > 100, "{run}");
        }
    }
}

#[test]
fn every_planted_bug_is_found_by_what_it_breaks() {
    for (bug, fault, _) in BUGS {
        assert_eq!(
            accused(&TINY, 1, Some(planted(bug))).0,
            Some(fault),
            "{bug}"
        );
    }
    assert_eq!(PageZeroing::PLANTED_BUGS.len(), BUGS.len());
}

const MACHINE: &str = r#"
nvm.bytes = 67108864
[[module]]
name = "main"
kind = "dram"
bytes = 268435456
[[module]]
name = "near"
bytes = 65536
device_bytes = 4096
"#;

/// The verdicts on cuts of a machine that runs the guest program, and what was said of each.
fn verdicts(
    directory: &Directory,
    seed: u64,
    cuts: u64,
    bug: Option<&'static str>,
) -> Vec<(Verdict, String)> {
    let (program, machine) = (directory.at("page_zeroing"), directory.at("near.toml"));
    let request = Request {
        design: "ideal".into(),
        machine: machine.display().to_string(),
        program: vec![program.display().to_string(), seed.to_string()],
        cuts: Some(cuts),
        schedule: Some(Schedule::NearEvents),
        seed: Some(seed),
        during_recovery: true,
        ..Request::default()
    };
    let prepared = request.prepare().expect("a good request");
    let prepared = prepared.under(Facts::of::<PageZeroing>());
    let campaign = campaign::run(&request, &prepared, bug, &Unobserved);
    let campaign = campaign.expect("it ends");
    let document = campaign.to_json(&prepared);
    let saved = document["coverage"]["cuts_with_saved_bytes"].as_u64();
    assert!(
        saved > Some(cuts / 10),
        "PERDURE_SEED={seed}: {saved:?} cuts"
    );
    assert_eq!(document["exit_code"], 0, "PERDURE_SEED={seed}");
    let said = |result: &Value| result["message"].as_str().unwrap_or_default().to_owned();
    let messages = document["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(said);
    let verdicts = campaign.results.iter().map(|cut| cut.verdict);
    verdicts.zip(messages).collect()
}

#[test]
fn a_program_that_uses_the_device_is_cut() {
    let directory = Directory::new("page-zeroing");
    compile(&directory, "page_zeroing.c");
    std::fs::write(directory.at("near.toml"), MACHINE).expect("a machine file");
    for seed in crate::rigs::seeds(1) {
        let found = verdicts(&directory, seed, 60, None);
        for (verdict, message) in &found {
            assert_eq!(
                *verdict,
                Verdict::Verified,
                "PERDURE_SEED={seed}: {message}"
            );
            assert!(message.starts_with("processes are lost; the module is as after"));
        }
        assert_eq!(found.len(), 60);
    }
    for (bug, _, expected) in BUGS {
        let found = verdicts(&directory, 1, 100, Some(planted(bug)));
        let wrong = found
            .iter()
            .find(|(verdict, _)| *verdict != Verdict::Verified);
        assert_eq!(wrong.map(|(verdict, _)| *verdict), Some(expected), "{bug}");
    }
}
