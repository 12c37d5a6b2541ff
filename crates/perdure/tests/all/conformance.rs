//! One harness that every design passes: the registry enrols those that come with the machine, and
//! the worked example of `docs/add-a-design.md` goes through it beside them.
//!
//! For each design, on each of the small and unlucky machines of the designs' own random tests: it
//! starts or says which key is impossible; loads see what was stored; no cut, and no second one
//! during recovery, brings back anything but an epoch; every answer of every hook keeps the
//! contract; and the same seed gives the same run.

use perdure::configuration::Configuration;
use perdure_designs::design::ImpossibleParameter;
use perdure_designs::layout::Layout;
use perdure_designs::{Design, Epochs, EpochsOf, NAMES, Promise, Visitor, with_design};
use perdure_hardware::arena::Arena;
use perdure_hardware::hierarchy::Hardware;

use crate::flush_at_epoch_end::{FlushAtEpochEnd, Parameters};
use crate::rigs::campaign::{self, Effort};
use crate::rigs::geometry::{ALL, Geometry, SHORT_ROWS};
use crate::rigs::random_cuts;
use crate::rigs::rig::Rig;
use crate::rigs::workload::Workload;

const EFFORT: Effort = Effort {
    generations: 2,
    cut_times: 20,
    tears: 1,
};

/// What a design did on all machines.
#[derive(Debug, Default)]
struct Conformed {
    cuts: u64,
    machines: usize,
    /// Keys that it refused, with the machine.
    refused: Vec<(&'static str, &'static str)>,
}

/// The design's parameters: first its defaults, then what makes its rare paths common.
fn parameters<D: Design>() -> Vec<D::Parameters> {
    if !NAMES.contains(&D::NAME) {
        return vec![D::Parameters::default()];
    }
    let section = format!("{}.", D::NAME);
    let of_section = |set: &&[&str]| -> Vec<String> {
        let mine = set.iter().filter(|text| text.starts_with(&section));
        mine.map(|text| (*text).to_owned()).collect()
    };
    let mut sets = vec![Vec::new()];
    sets.extend(D::UNLUCKY_SETTINGS.iter().map(of_section));
    sets.dedup();
    let parameters = sets.iter().map(|set| {
        let configuration = Configuration::new("picl", D::NAME, set, None);
        let configuration = configuration.expect("the design's own settings are good");
        let section = configuration.table[D::NAME].clone();
        section.try_into().expect("they have been checked")
    });
    parameters.collect()
}

fn start<D: Design>(
    geometry: &Geometry,
    parameters: &D::Parameters,
) -> Result<D, ImpossibleParameter> {
    let specification = geometry.specification();
    let layout = Layout::new(specification.harts, specification.nvm.bytes);
    let arena = Arena::new(specification.nvm.bytes).expect("memory for the arena");
    let mut hardware = Hardware::new(specification, arena, layout.contexts.clone());
    D::start(parameters, &layout, &mut hardware, 0, None)
}

fn conform<D: Design>() -> Conformed {
    let mut conformed = Conformed::default();
    let parameters = parameters::<D>();
    let geometries = ALL.iter().chain(&SHORT_ROWS);
    for (index, geometry) in geometries.enumerate() {
        let parameters = &parameters[index % parameters.len()];
        let geometry = Geometry {
            nvm_bytes: 8 << 30,
            ..*geometry
        };
        // Some designs want a last-level cache that is not inclusive.
        let mut refused = None;
        let possible = [geometry, geometry.not_inclusive()]
            .into_iter()
            .find(|one| {
                let impossible = start::<D>(one, parameters).err();
                refused = refused.or(impossible.as_ref().map(|one| one.key));
                impossible.is_none()
            });
        let Some(geometry) = possible else {
            conformed
                .refused
                .extend(refused.map(|key| (key, geometry.name)));
            continue;
        };
        conformed.machines += 1;
        if !D::RECOVERY.resumes() {
            let mut rig = Rig::<D>::new(geometry.specification(), parameters, None);
            let ran = Workload::new(&geometry, 1).run_until(&mut rig, 300_000);
            assert!(ran.is_ok(), "{} on '{}': {ran:?}", D::NAME, geometry.name);
            continue;
        }
        let run = || campaign::run::<D>(&geometry, parameters, None, 1, EFFORT);
        let report = run().unwrap_or_else(|accused| {
            panic!(
                "{} on '{}', cut {}: {}",
                D::NAME,
                geometry.name,
                accused.cuts,
                accused.accusation
            )
        });
        if index == 0 {
            assert_eq!(run().ok(), Some(report.clone()), "{}", D::NAME);
        }
        conformed.cuts += report.cuts + report.cuts_in_recovery;
    }
    conformed
}

struct Enrolled;

impl Visitor for Enrolled {
    type Output = Option<Conformed>;

    fn visit<D: Design>(self) -> Self::Output {
        assert!(
            !D::Promise::BINDS || D::PLANTED_BUGS.len() >= 8,
            "{} has too few planted bugs",
            D::NAME
        );
        for &(function, name) in D::INSTRUCTIONS {
            assert!(function < 512, "{name} of {} is the machine's", D::NAME);
            assert!(perdure_designs::who_has(function).contains(&(D::NAME, name)));
        }
        // Sharing groups with epochs of their own are driven by whole machines only: by `perdure
        // mutants`.
        (D::Epochs::WHOSE == Epochs::Machine).then(conform::<D>)
    }
}

#[test]
fn every_registered_design_conforms() {
    for name in NAMES {
        let conformed = with_design(name, Enrolled).expect("the registry knows its names");
        println!("{name}: {conformed:?}");
        let Some(conformed) = conformed else {
            continue;
        };
        assert!(conformed.machines >= 11, "{name}: {conformed:?}");
        for (key, machine) in conformed.refused {
            let of_the_machine = ["nvm.row_bytes", "llc.inclusion", "l2.harts"].contains(&key);
            assert!(
                of_the_machine || key.starts_with(name),
                "{name} refused {key} on '{machine}'"
            );
        }
    }
}

#[test]
fn the_worked_example_conforms_on_every_machine() {
    let conformed = conform::<FlushAtEpochEnd>();
    println!("{conformed:?}");
    assert_eq!(conformed.machines, ALL.len() + SHORT_ROWS.len());
    assert!(conformed.cuts > 500, "{conformed:?}");
}

#[test]
fn every_planted_bug_of_the_worked_example_is_caught() {
    let machines: Vec<_> = [ALL[0], ALL[1], SHORT_ROWS[0]]
        .map(|geometry| (geometry, Parameters {}))
        .to_vec();
    random_cuts::every_planted_bug_is_caught::<FlushAtEpochEnd>(&machines, EFFORT);
}
