//! Presets, ranges, refusals, hashes.

use super::*;

fn built(overrides: &[&str]) -> Result<Configuration, Error> {
    let overrides: Vec<_> = overrides.iter().map(ToString::to_string).collect();
    Configuration::new("picl", "picl", &overrides, None)
}

/// The refusal of an override.
pub(super) fn refused(text: &str) -> String {
    built(&[text]).unwrap_err().to_string()
}

#[test]
fn the_preset_is_table_iv_and_every_key_is_explained() {
    let configuration = built(&[]).unwrap();
    assert_eq!(configuration.specification.l2.bytes, 256 << 10);
    assert_eq!(configuration.epoch.instructions, 30_000_000);
    for (key, _, explained) in configuration.describe() {
        assert!(
            key == "design" || !explained.meaning.is_empty() && !explained.source.is_empty(),
            "{key} has no comment, or none that says where its value is from"
        );
    }
}

#[test]
fn a_value_has_the_source_of_whoever_gave_it() {
    let set = ["l2.ways=4".to_owned()];
    let of = Configuration::new("nvoverlay", "picl", &set, Some(2)).unwrap();
    let explained = |key: &str| {
        let mut all = of.describe().into_iter();
        all.find(|(name, ..)| name == key).unwrap().2
    };
    assert_eq!(explained("core.frequency_mhz").source, "paper: 3 GHz");
    assert!(explained("core.frequency_mhz").meaning.starts_with("Clock"));
    assert!(
        explained("core.frequency_mhz")
            .decides
            .contains("nanosecond")
    );
    assert!(explained("nvm.page_policy").source.starts_with("picl: "));
    assert_eq!(explained("l2.ways").source, "--set");
    assert_eq!(explained("harts").source, "--harts");
}

#[test]
fn wrong_keys_and_values_are_refused_with_help() {
    let message = |overrides: &[&str]| built(overrides).unwrap_err().to_string();
    assert!(message(&["l2.byte=4"]).contains("'l2.bytes'"));
    assert!(message(&["picl.acs_gab=4"]).contains("'picl.acs_gap'"));
    assert!(message(&["l1d.bytes=64"]).contains("smaller than one set"));
    assert!(message(&["core.model=fast"]).contains("in-order"));
    assert!(message(&["nvm.banks=many"]).contains("integer"));
    assert!(message(&["nvm.banks"]).contains("KEY=VALUE"));
    assert!(
        Configuration::new("pcl", "picl", &[], None)
            .unwrap_err()
            .to_string()
            .contains("'picl'")
    );
    assert!(
        Configuration::new("picl", "piccl", &[], None)
            .unwrap_err()
            .to_string()
            .contains("'picl'")
    );
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
#[test]
fn every_number_has_a_range_that_every_preset_keeps() {
    for (machine, _) in MACHINES {
        for design in perdure_designs::NAMES {
            let table = match Configuration::new(machine, design, &[], None) {
                Ok(configuration) => configuration.table,
                // Programs live in DRAM there, from which nobody resumes.
                Err(error) if error.to_string().contains("module.main.kind") => continue,
                Err(error) => panic!("{machine}, {design}: {error}"),
            };
            let mut values = Vec::new();
            leaves(&table, "", &mut values);
            for (key, value) in values {
                assert_eq!(
                    RANGES.contains_key(&key),
                    number(&value).is_some(),
                    "{key}: a number, and nothing else, has a line '# Range: LEAST to MOST.'"
                );
            }
        }
    }
    assert!(RANGES["epoch.stores"].holds(LEAST_EPOCH_STORES as f64));
    assert!(!RANGES["epoch.stores"].holds((LEAST_EPOCH_STORES - 1) as f64));
}

#[test]
fn a_number_out_of_range_is_refused_by_name_in_every_section() {
    let extreme = [
        "-1",
        "0",
        "1",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "2_000_000_000_000_000_000",
        "-9223372036854775808",
        "2e18",
        "1e308",
        "1e-308",
        "0.5",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "",
        "many",
        "1e9999",
        "0xffffffffffffffff",
    ];
    for (key, range) in &*RANGES {
        for text in extreme {
            let Err(error) = built(&[&format!("{key}={text}")]) else {
                let number = number(&parse_override(text));
                assert!(
                    number.is_some_and(|number| range.holds(number)),
                    "{key}={text}"
                );
                continue;
            };
            let said = error.to_string();
            assert!(said.contains(&format!("{key} = ")), "{key}={text}: {said}");
            assert!(!said.contains('\n'), "{key}={text}: {said}");
            let value = number(&parse_override(text));
            if !value.is_some_and(|value| range.holds(value) && value.fract() == 0.0) {
                assert!(said.contains(&range.text), "{key}={text}: {said}");
            }
        }
    }
    let ideal = Configuration::new("picl", "ideal", &["picl.acs_gap=999999".into()], None);
    let said = ideal.unwrap_err().to_string();
    assert!(
        said.contains("picl.acs_gap = 999999: must be 0 to 253"),
        "{said}"
    );
}

#[test]
fn values_may_be_written_as_people_do() {
    let configuration = built(&[
        "l2.bytes=512KiB",
        "epoch.instructions=1_000_000",
        "nvm.row_read_ns=100",
        "dram.present=true",
    ])
    .unwrap();
    assert_eq!(configuration.specification.l2.bytes, 512 << 10);
    assert_eq!(configuration.epoch.instructions, 1_000_000);
    assert!(configuration.specification.dram.present);
}

#[test]
fn a_machine_that_is_for_timing_only_is_named_and_refused() {
    let key = |machine: &str, design: &str, set: &[&str]| {
        let set: Vec<_> = set.iter().map(ToString::to_string).collect();
        let configuration = Configuration::new(machine, design, &set, None).unwrap();
        let refused = configuration.refuse_timing_only("a power cut");
        let key = configuration.timing_only();
        assert_eq!(refused.is_err(), key.is_some());
        if let (Err(error), Some(key)) = (refused, key) {
            let said = error.to_string();
            assert!(said.contains(key) && said.contains("a power cut"), "{said}");
        }
        key
    };
    for design in perdure_designs::NAMES {
        assert_eq!(key("picl", design, &[]), None);
        assert_eq!(key("nvoverlay", design, &["epoch.counted=all"]), None);
        assert_eq!(key("nvoverlay-paper", design, &[]), Some("posted.writes"));
    }
    let untimed = "hardware-shadow.table_takes_time";
    let set = format!("{untimed}=false");
    assert_eq!(key("picl", "hardware-shadow", &[&set]), Some(untimed));
    assert_eq!(key("picl", "picl", &[&set]), None, "another design's");
    let untimed = "picl-l2.coherence_evicts";
    let set = format!("{untimed}=false");
    assert_eq!(key("nvoverlay", "picl-l2", &[&set]), Some(untimed));
    assert_eq!(key("nvoverlay", "picl", &[&set]), None, "another design's");
    let half = built(&["posted.banks_by_home_line=true"]).unwrap_err();
    assert!(half.to_string().contains("posted.writes = true"));
}

#[test]
fn the_hash_follows_what_matters() {
    let plain = built(&[]).unwrap().hash();
    assert_eq!(plain, built(&["l2.ways=8"]).unwrap().hash());
    assert_ne!(plain, built(&["l2.ways=16"]).unwrap().hash());
}

/// What a machine file of that content is refused with.
fn refused_file(content: &[u8]) -> String {
    let file = tempfile::Builder::new().suffix(".toml").tempfile();
    let file = file.expect("a file");
    std::fs::write(file.path(), content).expect("written");
    let machine = file.path().to_str().expect("text");
    let made = Configuration::new(machine, "picl", &[], None);
    made.expect_err("it is refused").to_string()
}

#[test]
fn a_refusal_of_a_machine_file_is_not_endless() {
    let long = "x".repeat(100_000);
    for (content, said) in [
        (
            format!("[llc]\nways = {long}\n"),
            "TOML parse error at line 2, column 8: ",
        ),
        (format!("[llc]\n{long} = 1\n"), "there is no key 'llc.xxx"),
        (
            format!("[llc]\nways = '{long}'\n"),
            "should be an integer, 1 to 64",
        ),
        ("#".repeat((1 << 20) + 1), ": it is longer than 1 MiB"),
    ] {
        let message = refused_file(content.as_bytes());
        assert!(message.contains(said) && message.len() < 1000, "{message}");
    }
    let message = refused_file(b"# \xff");
    assert!(message.ends_with(": it is not UTF-8 text"), "{message}");
    let zeros = Configuration::new("/dev/zero", "picl", &[], None);
    let message = zeros.expect_err("it is refused").to_string();
    assert_eq!(
        message,
        "configuration: machine file /dev/zero: it is longer than 1 MiB"
    );
    // A line that fits is shown as it stands there.
    let message = refused_file(b"[llc]\nways = many\n");
    assert!(message.contains("2 | ways = many"), "{message}");
}

#[test]
fn a_value_is_refused_as_it_was_given() {
    for given in ["18446744073709551616", "1.50", "1e30"] {
        let message = built(&[&format!("llc.ways={given}")])
            .expect_err("refused")
            .to_string();
        let said = format!("llc.ways = {given} should be an integer, 1 to 64");
        assert!(message.contains(&said), "{message}");
    }
}

#[test]
fn a_value_that_its_key_cannot_have_is_refused_with_the_key() {
    for (given, key) in [
        ("nvm.scheduling=none", "nvm.scheduling"),
        ("core.model=deep", "core.model"),
    ] {
        let message = built(&[given]).expect_err("refused").to_string();
        assert!(message.contains("unknown variant"), "{message}");
        assert!(message.ends_with(&format!(" in `{key}`")), "{message}");
    }
}
