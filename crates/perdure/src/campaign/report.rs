//! What a campaign found, and as JSON.
//!
//! Always true here: a result says everything that is needed to make it again (its token).

use std::collections::BTreeMap;

use perdure_designs::oracle::Without;
use perdure_hardware::time::Cycles;
use serde_json::{Map, Value, json};

use super::survey::Survey;
use crate::cost::{self, CutCost};
use crate::explanation::Explanation;
use crate::lives::{Life, Restarted, Sequel};
use crate::request::Prepared;
use crate::verify::Verdict;
use crate::version::BUILD;

/// One cut's result.
pub struct CutResult {
    pub(super) cycle: Cycles,
    pub(super) recovered_epoch: Option<u64>,
    pub(super) replica_epoch: Option<u64>,
    pub(super) resumed: bool,
    /// The verdict.
    pub verdict: Verdict,
    pub(crate) message: Option<String>,
    pub(super) without: Without,
    /// For replay.
    pub token: String,
    pub(super) phase: &'static str,
    pub(super) location: Option<String>,
    pub(super) cost: CutCost,
    pub(super) torn: usize,
    pub(super) lost: usize,
    pub(super) saved_bytes: Option<u64>,
    pub(super) recovery_cuts: u64,
    /// The lives that were cut, this cut's first.
    pub(super) lives: Vec<Life>,
    pub(super) generations: u32,
    /// How the programs ended that were started again, after each of these lives.
    pub(super) restarts: Vec<Restarted>,
    pub(super) depends_on_timing: bool,
    pub(super) explanation: Option<Explanation>,
    pub(super) resumed_output: Option<Vec<u8>>,
    pub(super) resumed_cycles: Option<u64>,
}

/// A finished campaign.
pub struct Campaign {
    /// In order of cycles.
    pub results: Vec<CutResult>,
    pub(super) survey: Survey,
    /// The user stopped it.
    pub interrupted: bool,
    pub(super) deterministic: bool,
}

impl Campaign {
    fn count(&self, counts: impl Fn(Verdict) -> bool) -> usize {
        let verdicts = self.results.iter().map(|one| one.verdict);
        verdicts.filter(|&verdict| counts(verdict)).count()
    }

    /// Cuts that were verified.
    pub fn verified(&self) -> usize {
        self.count(|verdict| verdict == Verdict::Verified)
    }

    /// Cuts at which something was lost that nobody had promised to keep.
    pub fn lost(&self) -> usize {
        self.count(|verdict| verdict == Verdict::Lost)
    }

    /// Cuts at which a promise was broken.
    pub fn failed(&self) -> usize {
        self.count(Verdict::is_failure)
    }

    /// As JSON.
    pub fn to_json(&self, prepared: &Prepared) -> Map<String, Value> {
        let results: Vec<Value> = self.results.iter().map(CutResult::to_json).collect();
        let count = |key: fn(&CutResult) -> Option<&str>| {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            for name in self.results.iter().filter_map(key) {
                *counts.entry(name).or_default() += 1;
            }
            counts
        };
        let sum = |value: fn(&CutResult) -> u64| self.results.iter().map(value).sum::<u64>();
        let costs: Vec<CutCost> = self.results.iter().map(|one| one.cost).collect();
        let paths: BTreeMap<_, _> = self.survey.paths.iter().copied().collect();
        let value = json!({
            "build": BUILD,
            "design": prepared.configuration.design.name,
            "machine": prepared.configuration.machine,
            "config_hash": prepared.config_hash,
            "state_hash": self.survey.state_hash,
            "exit_code": self.survey.uncut.status,
            "interrupted": self.interrupted,
            "deterministic": self.deterministic,
            "run_cycles": self.survey.state_hash.as_ref().map(|_| self.survey.uncut.end),
            "cuts": self.results.len(),
            "verified": self.verified(),
            "lost": self.lost(),
            "failed": self.failed(),
            "resumed": self.results.iter().filter(|one| one.resumed).count(),
            "depends_on_timing": self.results.iter().filter(|one| one.depends_on_timing).count(),
            "checked": prepared.check.is_some(),
            "generations": self.results.iter().map(|one| one.generations).max(),
            "coverage": {
                "design_states": count(|one| Some(one.phase)),
                "locations": count(|one| one.location.as_deref()),
                "paths": paths,
                "cuts_with_torn_writes": sum(|one| u64::from(one.torn > 0)),
                "cuts_with_lost_writes": sum(|one| u64::from(one.lost > 0)),
                "cuts_during_recovery": sum(|one| one.recovery_cuts),
                "cuts_of_later_lives": sum(|one| one.lives.len() as u64 - 1),
            },
            "cut_cost": cost::summary(&costs),
            "results": results,
        });
        let Value::Object(mut map) = value else {
            unreachable!("built as an object")
        };
        if prepared.restart.is_some() {
            let restarted = self.results.iter().filter(|one| !one.restarts.is_empty());
            map.insert("restarted".into(), json!(restarted.count()));
            let again = self.survey.uncut.again.as_ref().map(Restarted::to_json);
            map.insert("after_the_end".into(), json!(again));
        }
        let without = |of: fn(&Without) -> &Option<String>| {
            let cuts = self.results.iter().filter(|one| of(&one.without).is_some());
            cuts.count()
        };
        for (key, cuts) in [
            ("cuts_without_loaded", without(|one| &one.loaded)),
            ("cuts_without_before", without(|one| &one.before)),
        ] {
            if cuts > 0 {
                map["coverage"][key] = json!(cuts);
            }
        }
        let saved = self.results.iter().map(|one| one.saved_bytes);
        if saved.clone().any(|bytes| bytes.is_some()) {
            let cuts = saved.filter(|bytes| bytes.is_some_and(|bytes| bytes > 0));
            map["coverage"]["cuts_with_saved_bytes"] = json!(cuts.count());
        }
        map
    }
}

impl CutResult {
    /// Takes in what came of the lives after the first.
    pub(super) fn take(&mut self, sequel: Sequel, keep_output: bool) {
        let goes_on = sequel.restarts.is_empty();
        self.resumed = sequel.end.is_some() || goes_on && sequel.failure.is_some();
        self.lives.extend(sequel.lives);
        self.restarts = sequel.restarts;
        let shown = usize::from(sequel.failure.is_some());
        let quiet = self.restarts.len().saturating_sub(shown);
        for restart in &mut self.restarts[..if keep_output { 0 } else { quiet }] {
            restart.last_lines = None;
        }
        self.recovery_cuts += sequel.recovery_cuts;
        self.depends_on_timing = sequel.depends_on_timing;
        if let Some((verdict, message)) = sequel.failure {
            self.verdict = verdict;
            self.message = Some(message);
        }
        if let Some((cycles, output)) = sequel.end {
            self.resumed_cycles = Some(cycles);
            self.resumed_output = keep_output.then_some(output);
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let output = self
            .resumed_output
            .as_ref()
            .map(|bytes| String::from_utf8_lossy(bytes));
        let mut value = json!({
            "cycle": self.cycle,
            "recovered_epoch": self.recovered_epoch,
            "resumed": self.resumed,
            "verdict": self.verdict,
            "token": self.token,
            "design_state": self.phase,
            "location": self.location,
            "writes_in_flight": self.torn,
            "writes_lost": self.lost,
            "cuts_during_recovery": self.recovery_cuts,
        });
        if let Value::Object(result) = &mut value {
            result.extend(self.cost.to_json());
        }
        let lives = (self.generations > 1).then(|| self.lives.iter().map(Life::to_json).collect());
        let restarts: Vec<Value> = self.restarts.iter().map(Restarted::to_json).collect();
        let restarts = (!restarts.is_empty()).then_some(Value::Array(restarts));
        let timing = self.depends_on_timing.then_some(Value::Bool(true));
        let first = (self.explanation.as_ref()).and_then(|one| one.first.as_ref());
        for (key, optional) in [
            ("saved_bytes", self.saved_bytes.map(|bytes| json!(bytes))),
            ("lives", lives),
            ("restarts", restarts),
            ("depends_on_timing", timing),
            (
                "replica_epoch",
                self.replica_epoch.map(|epoch| json!(epoch)),
            ),
            (
                "without_loaded",
                self.without.loaded.as_ref().map(|text| json!(text)),
            ),
            (
                "without_before",
                self.without.before.as_ref().map(|text| json!(text)),
            ),
            ("message", self.message.as_ref().map(|text| json!(text))),
            ("first_difference", first.map(|one| json!(one))),
            (
                "explanation",
                self.explanation.as_ref().map(|one| one.whole.clone()),
            ),
            ("resumed_output", output.map(|text| json!(text))),
            (
                "resumed_cycles",
                self.resumed_cycles.map(|cycles| json!(cycles)),
            ),
        ] {
            if let Some(present) = optional {
                value[key] = present;
            }
        }
        value
    }
}
