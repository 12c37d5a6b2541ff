//! The `[[module]]` tables: memory modules beside that of `[nvm]`.
//!
//! Always true here: a table has the keys of its own and those of `[nvm]` and `[link]`, and no others; one
//! that it leaves out has the value of `[nvm]` or `[link]`. What is kept is whole, so that it means the
//! same under another preset.

use perdure_hardware::specification::ModuleSpecification;
use toml::{Table, Value};

use super::{configuration_error, leaves, put};
use crate::error::Error;

/// The key under which the tables stand.
const KEY: &str = "module";

/// Of a table, what `[nvm]` does not have.
const OWN: [&str; 7] = [
    "name",
    "kind",
    "persistence",
    "region",
    "interleaving_bytes",
    "device_bytes",
    "link",
];

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
    module.extend(OWN.iter().filter_map(|&key| whole.remove_entry(key)));
    module.insert("media".into(), whole.into());
    module.try_into().map_err(|error: toml::de::Error| {
        Error::Configuration(format!("[[{KEY}]] {}", error.message()))
    })
}

#[cfg(test)]
mod tests {
    use perdure_hardware::specification::Domain;

    use super::super::Configuration;

    fn built(design: &str, text: &str) -> Result<Configuration, String> {
        let name = std::thread::current()
            .name()
            .unwrap_or("")
            .replace("::", "-");
        let path = std::env::temp_dir().join(format!(
            "perdure-modules-{}-{name}.toml",
            std::process::id()
        ));
        std::fs::write(&path, text).unwrap();
        let machine = path.display().to_string();
        let built = Configuration::new(&machine, design, &[], None);
        std::fs::remove_file(&path).unwrap();
        built.map_err(|error| error.to_string())
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
}
