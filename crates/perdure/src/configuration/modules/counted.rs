//! Equal modules that one table counts.
//!
//! Always true here: a table that says how many has its modules numbered from 0, one alone, too, so that
//! another count changes no name; a table that does not say has one, with the table's name. Keys are the
//! table's, of all its modules; what is set for one of them makes each a table of its own. No name is that of
//! two tables or modules.

use perdure_hardware::specification::{ImpossibleGeometry, MAIN_MODULE};
use toml::{Table, Value};

use super::{configuration_error, name_of};
use crate::error::Error;

/// The key that counts.
pub const KEY: &str = "count";
/// Most modules of a table.
const MOST: i64 = 64;

/// How many modules a whole table has, if it says so.
fn count(table: &Table) -> Option<i64> {
    table.get(KEY)?.as_integer()
}

fn names(table: &Table) -> Vec<String> {
    let name = name_of(table);
    match count(table) {
        // What is no name is refused as that of one module is.
        Some(count) if !name.is_empty() && name != MAIN_MODULE => {
            (0..count).map(|at| format!("{name}-{at}")).collect()
        }
        _ => vec![name.to_owned()],
    }
}

/// Whether a table counts a module of that name.
pub fn has(table: &Table, name: &str) -> bool {
    count(table).is_some_and(|count| count <= MOST) && names(table).iter().any(|one| one == name)
}

/// The modules of a whole table, each as a table without a count.
pub fn modules(whole: &Table) -> Result<Vec<Table>, Error> {
    if let Some(count) = count(whole).filter(|count| !(1..=MOST).contains(count)) {
        return configuration_error(format!(
            "module.{}.{KEY} = {count}: must be 1 to {MOST}",
            name_of(whole)
        ));
    }
    let mut one = whole.clone();
    one.remove(KEY);
    let named = |name| {
        let mut one = one.clone();
        one.insert("name".into(), Value::String(name));
        one
    };
    Ok(names(whole).into_iter().map(named).collect())
}

/// Makes a table of each module of the table that counts one of that name, if there is one.
pub fn separate(tables: &mut Vec<Value>, name: &str) -> Result<(), Error> {
    let counts = |one: &Value| one.as_table().is_some_and(|one| has(one, name));
    let Some(at) = tables.iter().position(counts) else {
        return Ok(());
    };
    if let Value::Table(table) = tables.remove(at) {
        let own = modules(&table)?.into_iter().map(Value::Table);
        tables.splice(at..at, own);
    }
    Ok(())
}

/// Refuses tables that take a name twice, as theirs or as a module's.
pub fn check_names(tables: &[Table]) -> Result<(), Error> {
    let all = || tables.iter().enumerate();
    let takes = |one: &Table, name: &str| name_of(one) == name || has(one, name);
    for (at, one) in all() {
        let own = std::iter::once(name_of(one).to_owned()).chain(names(one));
        for name in own {
            let Some((_, other)) = all().find(|(of, other)| *of != at && takes(other, &name))
            else {
                continue;
            };
            let counting = [other, one].into_iter().find(|one| count(one).is_some());
            let why = counting.map_or(String::new(), |table| {
                let (first, last) = (&names(table)[0], &names(table)[names(table).len() - 1]);
                format!(", and the table '{}' has {first} to {last}", name_of(table))
            });
            return configuration_error(format!(
                "module.name = {name}: must be one module's alone{why}"
            ));
        }
    }
    Ok(())
}

/// What hardware says of a key of one module, of the key that its user gives: that of its table.
pub fn refusal(configuration: &Table, mut problem: ImpossibleGeometry) -> Error {
    let tables = configuration.get(super::KEY).and_then(Value::as_array);
    let of_module = (problem.key.strip_prefix("module.")).and_then(|key| key.split_once('.'));
    if let (Some(tables), Some((name, rest))) = (tables, of_module) {
        let mut tables = tables.iter().filter_map(Value::as_table);
        if let Some(table) = tables.find(|table| has(table, name)) {
            problem.key = format!("module.{}.{rest}", name_of(table));
        }
    }
    Error::Configuration(problem.to_string())
}
