//! The `[[module]]` tables: memory modules beside that of `[nvm]`.
//!
//! Always true here: a table has the keys of its own and those of `[nvm]` and `[link]`, and no others; one
//! that it leaves out has the value of `[nvm]` or `[link]`. What is kept is whole, so that it means the
//! same under another preset. A table is one module, or [as many equal ones as it counts](counted).

use perdure_hardware::specification::{MAIN_MODULE, ModuleSpecification};
use toml::{Table, Value};

use super::{configuration_error, given, leaves, nearest, put};
use crate::error::Error;

pub mod counted;

/// The key under which the tables stand.
const KEY: &str = "module";

/// Of a table, what `[nvm]` does not have, and what it means.
const OWN: [(&str, &str); 8] = [
    ("name", "What it is called: small letters, digits, hyphens."),
    (
        "count",
        "How many equal modules there are, 1 to 64, called NAME-0, NAME-1 and so on; unsaid, there is one, called NAME.",
    ),
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
    let mut modules = table.get_mut(KEY).and_then(Value::as_array_mut);
    if let Some(tables) = &mut modules {
        counted::separate(tables, name)?;
    }
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
        let mut whole = complete(table, &given)?;
        if !given.contains_key(counted::KEY) {
            whole.remove(counted::KEY);
        }
        for one in counted::modules(&whole)? {
            modules.push(typed(one)?);
        }
        completed.push(whole);
    }
    counted::check_names(&completed)?;
    let completed = completed.into_iter().map(Value::Table).collect();
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
    whole.insert(counted::KEY.into(), Value::Integer(1));
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
    (module.try_into())
        .map_err(|error| Error::Configuration(format!("[[{KEY}]] {}", given::no_value(&error))))
}

#[cfg(test)]
mod tests;
