//! The `[[module]]` tables: memory modules beside that of `[nvm]`.
//!
//! Always true here: a table has the keys of its own and those of `[nvm]` and `[link]`, and no others; one
//! that it leaves out has the value of `[nvm]` or `[link]`. What is kept is whole, so that it means the
//! same under another preset.

use perdure_hardware::specification::{MAIN_MODULE, ModuleSpecification};
use toml::{Table, Value};

use super::{configuration_error, leaves, nearest, put};
use crate::error::Error;

/// The key under which the tables stand.
const KEY: &str = "module";

/// Of a table, what `[nvm]` does not have, and what it means.
const OWN: [(&str, &str); 7] = [
    ("name", "What it is called: small letters, digits, hyphens."),
    (
        "kind",
        "What its bytes are to the machine: dram, persistent or device.",
    ),
    (
        "persistence",
        "What it keeps when the power fails: none (dram), media, or write-queue.",
    ),
    (
        "region",
        "The region that it shares, in turn, with all modules that name it; empty for one of its own.",
    ),
    (
        "interleaving_bytes",
        "How much of a shared region lies together in one module: a power of two, at least row_bytes.",
    ),
    (
        "device_bytes",
        "A device region beside its memory, for a program in the module.",
    ),
    ("link", "As `[link]`."),
];

/// What a key of a table means, if it is none of `[nvm]` or `[link]`.
pub fn meaning(key: &str) -> Option<&'static str> {
    let own = OWN.iter().find(|(own, _)| *own == key);
    own.map(|(_, meaning)| *meaning)
}

/// Keys of a completed configuration, with those of its tables as `module.NAME.KEY`.
pub fn in_full(keys: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in keys {
        match value {
            Value::Array(tables) if !tables.is_empty() => {
                for table in tables.iter().filter_map(Value::as_table) {
                    leaves(table, &format!("{KEY}.{}", name_of(table)), &mut found);
                }
            }
            value => found.push((key, value)),
        }
    }
    found
}

fn name_of(table: &Table) -> &str {
    table
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Sets a key of a module, `NAME.KEY`, which its table may leave unsaid.
pub fn set(table: &mut Table, key: &str, value: Value) -> Result<(), Error> {
    let (name, key) = key.split_once('.').unwrap_or((key, ""));
    let source = format!("--set {KEY}.{name}");
    if name == MAIN_MODULE {
        return configuration_error(format!("{source}: its keys are those of [{name}]"));
    }
    let around = table.clone();
    let modules = table.get_mut(KEY).and_then(Value::as_array_mut);
    let mut modules: Vec<_> = (modules.into_iter().flatten())
        .filter_map(Value::as_table_mut)
        .collect();
    let Some(index) = modules.iter().position(|one| name_of(one) == name) else {
        let names: Vec<_> = modules.iter().map(|one| name_of(one)).collect();
        return configuration_error(match nearest(name, names.iter().copied()) {
            Some(hint) => format!(
                "{source}: there is no such module; the nearest is '{hint}' (all: {})",
                names.join(", ")
            ),
            None => format!("{source}: this machine has no [[{KEY}]]"),
        });
    };
    let module = &mut *modules[index];
    put(&mut complete(&around, module)?, key, value.clone(), &source)?;
    insert(module, key, value);
    Ok(())
}

/// Puts a value at a dotted key, which is known to be one.
fn insert(table: &mut Table, key: &str, value: Value) {
    let Some((section, key)) = key.split_once('.') else {
        table.insert(key.into(), value);
        return;
    };
    let section = table.entry(section).or_insert_with(|| Table::new().into());
    if let Value::Table(section) = section {
        insert(section, key, value);
    }
}

/// The modules of a configuration, whose tables are completed.
pub fn of_table(table: &mut Table) -> Result<Vec<ModuleSpecification>, Error> {
    let Some(Value::Array(given)) = table.get(KEY).cloned() else {
        return configuration_error(format!("{KEY} must be a list of [[{KEY}]] tables"));
    };
    let mut modules = Vec::new();
    let mut completed = Vec::new();
    for one in given {
        let Value::Table(given) = one else {
            return configuration_error(format!("{KEY} = {one}: write a [[{KEY}]] table"));
        };
        let whole = complete(table, &given)?;
        modules.push(typed(whole.clone())?);
        completed.push(Value::Table(whole));
    }
    table.insert(KEY.into(), Value::Array(completed));
    Ok(modules)
}

/// What a table says, and what it leaves unsaid.
fn complete(configuration: &Table, given: &Table) -> Result<Table, Error> {
    let section = |name: &str| configuration.get(name).and_then(Value::as_table).cloned();
    let mut whole = section("nvm").unwrap_or_default();
    whole.insert("link".into(), section("link").unwrap_or_default().into());
    let dram = given.get("kind").and_then(Value::as_str) == Some("dram");
    for (key, value) in [
        ("name", ""),
        ("kind", "persistent"),
        ("persistence", if dram { "none" } else { "media" }),
        ("region", ""),
    ] {
        whole.insert(key.into(), value.into());
    }
    whole.insert("interleaving_bytes".into(), Value::Integer(4096));
    whole.insert("device_bytes".into(), Value::Integer(0));
    let name = given.get("name").map(ToString::to_string);
    let source = format!(
        "[[{KEY}]] {}",
        name.unwrap_or_else(|| "without a name".into())
    );
    let mut values = Vec::new();
    leaves(given, "", &mut values);
    (values.into_iter()).try_for_each(|(key, value)| put(&mut whole, &key, value, &source))?;
    Ok(whole)
}

/// A whole table as a module.
fn typed(mut whole: Table) -> Result<ModuleSpecification, Error> {
    let mut module = Table::new();
    module.extend(OWN.iter().filter_map(|(key, _)| whole.remove_entry(*key)));
    module.insert("media".into(), whole.into());
    module.try_into().map_err(|error: toml::de::Error| {
        Error::Configuration(format!("[[{KEY}]] {}", error.message()))
    })
}

#[cfg(test)]
mod tests {
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
}
