//! A design hears when another thread begins to run on a hart, and may make it wait. A thread that is started
//! runs at once, or when the turn of the hart that started it is over. What a hart remembers of the page
//! tables ends with them.

use std::collections::BTreeSet;
use std::sync::Mutex;

use perdure::api::Unobserved;
use perdure::campaign;
use perdure::request::Request;
use perdure_designs::design::ImpossibleParameter;
use perdure_designs::layout::Layout;
use perdure_designs::surviving::{Interrupted, Surviving};
use perdure_designs::{
    Design, EpochNumbers, Facts, MachineEpochs, OfMachine, PlantedBug, Recovered, Urgency,
};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::Version;
use perdure_hardware::policy::{CrossVersionStore, Evicted, Eviction, Policy};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use serde_json::json;

use crate::common::{Directory, compile, request, run, with};
use crate::flush_at_epoch_end::FlushAtEpochEnd;
use crate::wrapped::as_the_worked_example;

/// Threads and the harts on which they began to run.
static HEARD: Mutex<BTreeSet<(usize, u32)>> = Mutex::new(BTreeSet::new());

/// The worked example, which also listens.
#[derive(Clone)]
struct Listens(FlushAtEpochEnd);

impl Policy for Listens {
    fn current_version(&self, hart: usize) -> Version {
        self.0.current_version(hart)
    }

    fn thread_runs(&mut self, _: &mut Hardware, hart: usize, thread: u32, now: Cycles) -> Cycles {
        HEARD
            .lock()
            .expect("nobody panicked")
            .insert((hart, thread));
        now + 1_000
    }

    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        self.0.store(hardware, store, now)
    }

    as_the_worked_example!(Policy);
}

impl EpochNumbers for Listens {
    as_the_worked_example!(EpochNumbers);
}

impl MachineEpochs for Listens {
    fn can_end_epoch(&self) -> bool {
        self.0.can_end_epoch()
    }

    as_the_worked_example!(MachineEpochs);
}

impl Design for Listens {
    const NAME: &'static str = "listens";
    const SUMMARY: &'static str = "the worked example, which also hears of threads";
    as_the_worked_example!(Design);

    fn start(
        parameters: &Self::Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        FlushAtEpochEnd::start(parameters, layout, hardware, epoch, bug).map(Self)
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        FlushAtEpochEnd::recover(image, bug)
    }
}

#[test]
fn a_design_hears_of_every_thread_that_begins_to_run() {
    let settings = ["epoch.instructions=20000", "nvm.bytes=256MiB"];
    let request = Request {
        design: "ideal".into(),
        harts: Some(2),
        set: settings.map(str::to_owned).to_vec(),
        program: vec!["@exerciser:800:16:200:2".into()],
        cuts: Some(2),
        seed: Some(1),
        ..Request::default()
    };
    let prepared = request.prepare().expect("a good request");
    let prepared = prepared.under(Facts::of::<Listens>());
    let campaign =
        campaign::run(&request, &prepared, None, &Unobserved).expect("a campaign that ends");
    assert_eq!((campaign.verified(), campaign.failed()), (2, 0));
    let heard = HEARD.lock().expect("nobody panicked");
    let harts: BTreeSet<_> = heard.iter().map(|&(hart, _)| hart).collect();
    let threads: BTreeSet<_> = heard.iter().map(|&(_, thread)| thread).collect();
    assert_eq!(harts, BTreeSet::from([0, 1]), "{heard:?}");
    assert!(threads.len() >= 2, "{heard:?}");
}

#[test]
fn a_thread_that_is_started_runs_at_once_or_behind_a_turn() {
    let folder = Directory::new("woken");
    let program = compile(&folder, "woken.c");
    let instructions = |at_once: bool| {
        let set = [format!("scheduling.wakes_end_turns={at_once}")];
        let asked = request("ideal", program.to_str().expect("a path"));
        let ended = run(&with(asked, json!({"harts": 2, "set": set})));
        assert_eq!(ended["exit_code"], 0, "{ended}");
        ended["sim"]["instructions"].as_u64().expect("a number")
    };
    // Who started it looks for it until it runs.
    let (at_once, behind) = (instructions(true), instructions(false));
    assert!(at_once + 20_000 < behind, "{at_once} and {behind}");
}

#[test]
fn a_page_table_that_is_used_again_is_no_longer_what_it_was() {
    let folder = Directory::new("remapped");
    let program = compile(&folder, "remapped.c");
    for engine in ["compiled", "plain"] {
        let asked = request("ideal", program.to_str().expect("a path"));
        let ended = run(&with(asked, json!({"harts": 2, "engine": engine})));
        assert_eq!(ended["exit_code"], 0, "{engine}: {ended}");
    }
}
