//! A design that breaks off is told as such, and by what it did: it panics, as it recovers or before, or
//! stands still.

use perdure::api::Unobserved;
use perdure::campaign;
use perdure::error::Error;
use perdure::request::Request;
use perdure_designs::design::ImpossibleParameter;
use perdure_designs::layout::Layout;
use perdure_designs::surviving::{Interrupted, Surviving};
use perdure_designs::{
    Design, EpochNumbers, Facts, MachineEpochs, OfMachine, PlantedBug, Recovered, Urgency,
};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::policy::{Evicted, Eviction, Policy};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use serde_json::Value;

use crate::flush_at_epoch_end::FlushAtEpochEnd;
use crate::wrapped::as_the_worked_example;

/// How it breaks off.
const PANICS: &str = "panics";
const STANDS_STILL: &str = "stands-still";
const PANICS_IN_A_HOOK: &str = "panics-in-a-hook";
const PANICS_AT_A_CUT: &str = "panics-at-a-cut";

/// The worked example, which panics as it recovers, at the end of its third epoch or at a cut, or takes no
/// epoch after its third.
#[derive(Clone)]
struct Stubborn(FlushAtEpochEnd, Option<&'static str>);

impl Policy for Stubborn {
    as_the_worked_example!(Policy);
}

impl EpochNumbers for Stubborn {
    as_the_worked_example!(EpochNumbers);
}

impl MachineEpochs for Stubborn {
    fn can_end_epoch(&self) -> bool {
        let is_over = self.0.executing_epoch() > 3;
        assert!(self.1 != Some(PANICS_IN_A_HOOK) || !is_over, "no fourth");
        (self.1 != Some(STANDS_STILL) || !is_over) && self.0.can_end_epoch()
    }

    as_the_worked_example!(MachineEpochs);
}

impl Design for Stubborn {
    const NAME: &'static str = "stubborn";
    const SUMMARY: &'static str = "the worked example, which breaks off";
    as_the_worked_example!(Design);

    fn start(
        parameters: &Self::Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let own = FlushAtEpochEnd::start(parameters, layout, hardware, epoch, None)?;
        Ok(Self(own, bug))
    }

    fn drain(&self, _: Cycles, _: &mut dyn FnMut(u64, &[u8])) {
        assert!(self.1 != Some(PANICS_AT_A_CUT), "half a battery");
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        assert!(bug != Some(PANICS), "half a log");
        FlushAtEpochEnd::recover(image, None)
    }
}

/// What comes of four cuts.
fn cut(bug: &'static str) -> Result<Value, Error> {
    let settings = ["epoch.instructions=20000", "nvm.bytes=256MiB"];
    let request = Request {
        design: "ideal".into(),
        set: settings.map(str::to_owned).to_vec(),
        program: vec!["@exerciser:6000:16:1000".into()],
        cuts: Some(4),
        seed: Some(1),
        ..Request::default()
    };
    let prepared = request.prepare().expect("a good request");
    let prepared = prepared.under(Facts::of::<Stubborn>());
    let campaign = campaign::run(&request, &prepared, Some(bug), &Unobserved)?;
    Ok(Value::Object(campaign.to_json(&prepared)))
}

#[test]
fn a_hook_that_panics_is_told_with_its_place_and_at_a_cut_with_that() {
    for (bug, words, is_at_a_cut) in [
        (PANICS_IN_A_HOOK, "no fourth", false),
        (PANICS_AT_A_CUT, "half a battery", true),
    ] {
        let error = cut(bug).expect_err("it panics");
        let said = error.to_string();
        assert!(said.contains(": it panicked at "), "{said}");
        assert!(said.contains("breaking_off.rs"), "{said}");
        assert!(said.ends_with(words), "{said}");
        let Error::Panicked { at, .. } = error else {
            panic!("{said}")
        };
        assert_eq!(at.is_some(), is_at_a_cut, "{said}");
    }
}

#[test]
fn a_recovery_that_panics_has_failed_and_ends_no_campaign() {
    let campaign = cut(PANICS).expect("a campaign that ends");
    assert_eq!(
        (&campaign["cuts"], &campaign["failed"]),
        (&4.into(), &4.into())
    );
    for one in campaign["results"].as_array().expect("cuts") {
        assert_eq!(one["verdict"], "recovery-failed");
        let said = one["message"].as_str().expect("why");
        assert!(
            said.starts_with("recovery has a defect: it panicked at "),
            "{said}"
        );
        assert!(said.contains("half a log"), "{said}");
    }
}

#[test]
fn a_design_that_can_take_no_epoch_and_has_nothing_to_come_breaks_its_contract() {
    let said = cut(STANDS_STILL).expect_err("it stands still").to_string();
    assert!(
        said.starts_with("design stubborn: epoch 4 is to end at cycle "),
        "{said}"
    );
    assert!(said.contains("`can_end_epoch` is false"), "{said}");
}
