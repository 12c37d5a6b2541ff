//! A design that breaks off is told as such, and by what it did: it panics as it recovers, or stands still.

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

/// The worked example, which panics as it recovers, or takes no epoch after its third.
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
        let is_over = self.1 == Some(STANDS_STILL) && self.0.executing_epoch() > 3;
        !is_over && self.0.can_end_epoch()
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
