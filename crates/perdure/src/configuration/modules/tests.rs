//! `[[module]]` tables: what they lay out, what is refused, how options set their keys.

use perdure_hardware::specification::Domain;

use super::super::Configuration;
use crate::error::Error;

fn with_file(
    text: &str,
    build: impl FnOnce(&str) -> Result<Configuration, Error>,
) -> Result<Configuration, String> {
    let name = std::thread::current()
        .name()
        .unwrap_or("")
        .replace("::", "-");
    let path = std::env::temp_dir().join(format!(
        "perdure-modules-{}-{name}.toml",
        std::process::id()
    ));
    std::fs::write(&path, text).unwrap();
    let built = build(&path.display().to_string());
    std::fs::remove_file(&path).unwrap();
    built.map_err(|error| error.to_string())
}

fn built(design: &str, text: &str) -> Result<Configuration, String> {
    with_file(text, |machine| {
        Configuration::new(machine, design, &[], None)
    })
}

const POOLS: &str = r#"
[[module]]
name = "pool-0"
kind = "persistent"
persistence = "write-queue"
region = "pools"
bytes = 134217728
row_read_ns = 100

[[module]]
name = "pool-1"
persistence = "write-queue"
region = "pools"
bytes = 134217728
link.frequency_mhz = 800

[[module]]
name = "main"
kind = "dram"
bytes = 268435456
"#;

#[test]
fn modules_are_laid_out_and_what_is_unsaid_is_the_nvms() {
    let configuration = built("ideal", POOLS).unwrap();
    let map = configuration.specification.physical_map();
    let laid: Vec<_> = (map.regions().iter())
        .map(|region| {
            let bytes = region.addresses.end - region.addresses.start;
            (region.name.as_str(), region.modules.clone(), bytes >> 20)
        })
        .collect();
    let expected = [
        ("main", vec![3], 256),
        ("nvm", vec![0], 8192),
        ("pools", vec![1, 2], 256),
    ];
    assert_eq!(laid, expected);
    let [first, second, _] = &configuration.specification.modules[..] else {
        panic!("three modules");
    };
    assert_eq!(
        (first.media.row_read_ns, second.media.row_read_ns),
        (100.0, 128.0)
    );
    assert_eq!(
        (first.link.frequency_mhz, second.link.frequency_mhz),
        (1600, 800)
    );
    let again = Configuration::of_effective(&configuration.to_toml(), "again", "ideal");
    let again = again.unwrap();
    assert_eq!(again.specification, configuration.specification);
    assert_eq!(again.hash(), configuration.hash());
    assert_ne!(again.hash(), built("ideal", "").unwrap().hash());
}

#[test]
fn bad_modules_are_refused_by_key() {
    let said = |table: &str| built("ideal", &format!("[[module]]\n{table}")).unwrap_err();
    let cases = [
        ("kind = \"dram\"", "module.name"),
        ("name = \"nvm\"", "module.name"),
        ("name = \"a\"\nbank = 2", "'banks'"),
        ("name = \"a\"\nlink.width = 2", "'link.width_bits'"),
        ("name = \"a\"\nbanks = \"many\"", "should be an integer"),
        ("name = \"a\"\nbanks = 0", "module.a.banks = 0: must be"),
        ("name = \"a\"\nkind = \"rom\"", "rom"),
        (
            "name = \"a\"\npersistence = \"none\"",
            "module.a.persistence = none",
        ),
        (
            "name = \"a\"\nkind = \"dram\"\npersistence = \"media\"",
            "must be none",
        ),
        ("name = \"a\"\nbytes = 5000", "module.a.bytes = 5000"),
        (
            "name = \"a\"\ninterleaving_bytes = 64",
            "module.a.interleaving_bytes",
        ),
        (
            "name = \"a\"\n[[module]]\nname = \"a\"",
            "one module's alone",
        ),
        (
            "name = \"a\"\n[[module]]\nname = \"b\"\nregion = \"a\"\nbytes = 4096",
            "module.a.region",
        ),
        ("name = \"a\"\ndevice_bytes = 5", "module.a.device_bytes"),
        ("name = \"a\"\n[dram]\npresent = true", "dram.present"),
        ("name = \"a\"\nbytes = 4398046511104", "at most 4 TiB"),
    ];
    for (table, expected) in cases {
        let said = said(table);
        assert!(said.contains(expected), "{table}: {said}");
    }
    let set = |text: &str| {
        let built = Configuration::new("picl", "ideal", &[text.into()], None);
        built.unwrap_err().to_string()
    };
    assert!(set("module=4").contains("list of tables"));
    assert!(set("persistence.domain=battery").contains("eadr"));
}

#[test]
fn what_a_design_cannot_keep_its_promise_on_is_refused() {
    let eadr = "[persistence]\ndomain = \"eadr\"";
    let domain = |design, text: &str| {
        let built = built(design, text);
        built.map(|one| one.specification.persistence.domain)
    };
    assert_eq!(domain("ideal", eadr), Ok(Domain::Eadr));
    assert!(domain("picl", eadr).unwrap_err().contains("picl"));
    assert_eq!(
        domain("picl", "[persistence]\ndomain = \"adr\""),
        Ok(Domain::Adr)
    );
    assert!(
        domain("picl", POOLS)
            .unwrap_err()
            .contains("module.main.kind")
    );
}

fn set(text: &str, options: &[&str]) -> Result<Configuration, String> {
    let options: Vec<_> = options.iter().map(|one| (*one).to_owned()).collect();
    with_file(text, |machine| {
        Configuration::new(machine, "ideal", &options, None)
    })
}

#[test]
fn an_option_sets_a_key_of_a_module_as_its_table_would() {
    let options = [
        "module.pool-1.banks=4",
        "module.pool-1.link.width_bits=32",
        "module.main.row_read_ns=30",
        "nvm.row_write_ns=400",
    ];
    let by_option = set(POOLS, &options).unwrap();
    let [first, second, main] = &by_option.specification.modules[..] else {
        panic!("three modules");
    };
    assert_eq!((first.media.banks, second.media.banks), (8, 4));
    assert_eq!(
        (second.link.width_bits, second.link.frequency_mhz),
        (32, 800)
    );
    // What a table does not say is still the NVM's, whichever option comes first.
    assert_eq!(
        (main.media.row_read_ns, main.media.row_write_ns),
        (30.0, 400.0)
    );
    let text = POOLS
        .replace(
            "link.frequency_mhz = 800",
            "link.frequency_mhz = 800\nlink.width_bits = 32\nbanks = 4",
        )
        .replace("bytes = 268435456", "bytes = 268435456\nrow_read_ns = 30");
    let by_table = set(&text, &["nvm.row_write_ns=400"]).unwrap();
    assert_eq!(by_table.hash(), by_option.hash());
}

#[test]
fn an_option_for_no_module_or_no_key_is_refused() {
    let cases = [
        (
            POOLS,
            "module.pool-2.banks=4",
            "no such module; the nearest is 'pool-1'",
        ),
        (
            POOLS,
            "module.pool-1.bank=4",
            "--set module.pool-1: there is no key 'bank'; the nearest is 'banks'",
        ),
        (POOLS, "module.pool-1.link.width=4", "'link.width_bits'"),
        (POOLS, "module.pool-1.banks=many", "should be an integer"),
        (
            POOLS,
            "module.pool-1.banks=0",
            "module.pool-1.banks = 0: must be",
        ),
        (POOLS, "module.pool-1=4", "there is no key ''"),
        (POOLS, "module.nvm.banks=4", "its keys are those of [nvm]"),
        ("", "module.pool-1.banks=4", "has no [[module]]"),
    ];
    for (text, option, expected) in cases {
        let said = set(text, &[option]).unwrap_err();
        assert!(said.contains(expected), "{option}: {said}");
    }
}

#[test]
fn every_key_of_a_module_is_explained() {
    let text = POOLS.replace(
        "kind = \"persistent\"",
        "# (ours: a pool)\nkind = \"persistent\"",
    );
    let configuration = set(&text, &["module.pool-1.banks=4"]).unwrap();
    let all = configuration.describe();
    let of_modules = all.iter().filter(|(key, ..)| key.starts_with("module"));
    let mut count = 0;
    for (key, value, explained) in of_modules {
        count += 1;
        assert!(!value.is_array() && !explained.meaning.is_empty(), "{key}");
        assert!(!explained.source.is_empty(), "{key}");
    }
    assert!(count > 3 * 12, "{count} keys");
    let explained = |key: &str| &all.iter().find(|(one, ..)| one == key).unwrap().2;
    assert_eq!(explained("module.pool-0.kind").source, "ours: a pool");
    let file = &explained("module.pool-0.row_read_ns").source;
    assert!(file.contains("perdure-modules-"), "{file}");
    assert_eq!(explained("module.pool-0.banks").source, "as nvm.banks");
    assert_eq!(explained("module.pool-1.banks").source, "--set");
    assert_eq!(
        explained("module.main.link.width_bits").source,
        "as link.width_bits"
    );
    assert_eq!(explained("module.main.region").source, "unsaid");
    let nvm = &explained("nvm.banks").meaning;
    assert_eq!(nvm, &explained("module.pool-0.banks").meaning);
}

const COUNTED: &str = r#"
[[module]]
name = "pool"
count = 2
kind = "persistent"
persistence = "write-queue"
region = "pools"
bytes = 134217728
row_read_ns = 100
link.frequency_mhz = 800

[[module]]
name = "main"
kind = "dram"
bytes = 268435456
"#;

#[test]
fn a_counted_table_is_as_many_equal_modules() {
    let one_by_one = POOLS
        .replace("row_read_ns = 100", "link.frequency_mhz = 800")
        .replace(
            "link.frequency_mhz = 800",
            "row_read_ns = 100\nlink.frequency_mhz = 800",
        );
    let counted = set(COUNTED, &[]).unwrap();
    assert_eq!(
        counted.specification,
        set(&one_by_one, &[]).unwrap().specification
    );
    let again = Configuration::of_effective(&counted.to_toml(), "again", "ideal").unwrap();
    assert_eq!(again.specification, counted.specification);
    assert_eq!(again.hash(), counted.hash());
    let names = |options: &[&str]| {
        let modules = set(COUNTED, options).unwrap().specification.modules;
        let names: Vec<_> = modules.into_iter().map(|one| one.name).collect();
        names.join(" ")
    };
    assert_eq!(names(&["module.pool.count=1"]), "pool-0 main");
    assert_eq!(names(&["module.pool.count=3"]), "pool-0 pool-1 pool-2 main");
    assert_eq!(names(&["module.main.count=1"]), "pool-0 pool-1 main-0");
}

#[test]
fn a_key_of_a_counted_table_is_all_its_modules() {
    let configuration = set(COUNTED, &["module.pool.banks=4", "module.pool.count=3"]).unwrap();
    let modules = &configuration.specification.modules;
    let banks: Vec<_> = modules.iter().map(|one| one.media.banks).collect();
    assert_eq!(banks, [4, 4, 4, 8]);
    let all = configuration.describe();
    let explained = |key: &str| all.iter().find(|(one, ..)| one == key);
    let (_, count, known) = explained("module.pool.count").unwrap();
    assert_eq!(
        (count.as_integer(), known.source.as_str()),
        (Some(3), "--set")
    );
    assert!(explained("module.main.count").is_none());
    assert!(explained("module.pool-0.banks").is_none());
}

#[test]
fn what_is_set_for_one_of_several_makes_each_a_table_of_its_own() {
    let options = ["module.pool.banks=4", "module.pool-1.row_read_ns=300"];
    let configuration = set(COUNTED, &options).unwrap();
    let [first, second, main] = &configuration.specification.modules[..] else {
        panic!("three modules");
    };
    let names = [first, second, main].map(|one| one.name.as_str());
    assert_eq!(names, ["pool-0", "pool-1", "main"]);
    let reads = (first.media.row_read_ns, second.media.row_read_ns);
    assert_eq!(reads, (100.0, 300.0));
    assert_eq!((first.media.banks, second.media.banks), (4, 4));
    let all = set(COUNTED, &["module.pool-1.banks=4", "module.pool.banks=8"]);
    assert!(all.unwrap_err().contains("there is no such module"));
}

#[test]
fn a_count_that_cannot_be_and_names_that_meet_are_refused() {
    let cases = [
        (
            "",
            "module.pool.count=0",
            "module.pool.count = 0: must be 1 to 64",
        ),
        (
            "",
            "module.pool.count=-1",
            "module.pool.count = -1: must be",
        ),
        (
            "",
            "module.pool.count=65",
            "module.pool.count = 65: must be",
        ),
        ("", "module.pool.count=two", "should be an integer"),
        ("", "module.pool.banks=0", "module.pool.banks = 0: must be"),
        (
            "",
            "module.pool.region=Pools",
            "module.pool.region = Pools: must be",
        ),
        (
            "",
            "module.pool-2.banks=4",
            "no such module; the nearest is 'pool'",
        ),
        (
            "[[module]]\nname = \"pool-1\"",
            "harts=1",
            "module.name = pool-1: must be one module's alone, and the table 'pool' has pool-0 to pool-1",
        ),
        (
            "[[module]]\nname = \"pool\"",
            "harts=1",
            "module.name = pool: must be one module's alone",
        ),
        (
            "[[module]]\ncount = 2",
            "harts=1",
            "module.name = \"\": must be",
        ),
        (
            "[[module]]\nname = \"nvm\"\ncount = 2",
            "harts=1",
            "module.name = \"nvm\": must be",
        ),
    ];
    for (more, option, expected) in cases {
        let said = set(&format!("{COUNTED}{more}"), &[option]).unwrap_err();
        assert!(said.contains(expected), "{more} {option}: {said}");
    }
}

/// Every count of devices is NearPM's machine but for that.
#[test]
fn nearpm_has_as_many_devices_as_are_asked_for() {
    for count in 1..=8 {
        let set = format!("module.nearpm.count={count}");
        let configuration = Configuration::new("nearpm", "nearpm", &[set], None).unwrap();
        let map = configuration.specification.physical_map();
        let devices = (map.regions().iter()).filter(|one| one.name.starts_with("nearpm-"));
        let names: Vec<_> = devices.map(|one| one.name.clone()).collect();
        let expected: Vec<_> = (0..count).map(|at| format!("nearpm-{at}.device")).collect();
        assert_eq!(names, expected);
        let pools = map.pools().next().unwrap();
        assert_eq!(pools.end - pools.start, count << 31);
    }
}
