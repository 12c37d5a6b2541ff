//! What restoring a kernel can be made to forget, to see whether the judge of power cuts notices.
//!
//! Always true: there is a loss for each section that is an array, for each record and part, and for
//! each field of them, however deep. The table is made from the types that are saved
//! ([`Section::tell`]), so a field that is added is a loss at once, without being written down again.

mod fields;
mod forget;

use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kernel::Kernel;
use crate::restore::{RestoreError, records, sections, threads};
use crate::save::{Contents, SECTION_ORDER, Section, append, assemble, save_record, save_thread};
use crate::thread::{Context, Thread};
use fields::Names;
use forget::{Fate, Fated};

/// A value that was saved, without one of its fields: the same again, had nothing ever been put there.
pub fn forgetting<T: Serialize + DeserializeOwned>(value: &T, field: &[&'static str]) -> Option<T> {
    again(value, Fate::Without(field))
}

/// The names of all fields of a type, those of records in it included, each behind those that lead to
/// it.
pub fn fields_of<T: DeserializeOwned>() -> Vec<Vec<&'static str>> {
    fields::of::<T>(&[])
}

struct Place {
    section: Section,
    /// The record or part, and the way to the field; alone where all of it is forgotten.
    names: Names,
    /// The names, with points between.
    name: String,
}

/// Something that restoring forgets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss(usize);

impl std::fmt::Debug for Loss {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

fn table() -> &'static [Place] {
    static TABLE: OnceLock<Vec<Place>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut lister = Lister {
            section: Section::Settings,
            places: Vec::new(),
        };
        for section in SECTION_ORDER {
            lister.section = section;
            section.tell(&mut lister);
        }
        lister.places
    })
}

impl Loss {
    /// Every loss that there can be, in the order of the saved bytes.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..table().len()).map(Self)
    }

    /// Its name: the record and the fields that lead to what is forgotten, with points between.
    pub fn name(self) -> &'static str {
        &table()[self.0].name
    }

    /// By name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|loss| loss.name() == name)
    }
}

/// Writes the table.
struct Lister {
    section: Section,
    places: Vec<Place>,
}

impl Lister {
    fn add(&mut self, names: Names) {
        self.places.push(Place {
            section: self.section,
            name: names.join("."),
            names,
        });
    }

    fn record<T: DeserializeOwned>(&mut self, name: &'static str) {
        for names in fields::of::<T>(&[name]) {
            self.add(names);
        }
    }
}

impl Contents for Lister {
    fn value<T: Serialize + DeserializeOwned>(&mut self, name: &'static str) {
        self.record::<T>(name);
    }

    fn part<T: Serialize + DeserializeOwned>(&mut self, _: u8, name: &'static str) {
        self.add(vec![name]);
        self.record::<T>(name);
    }

    fn records<T: Serialize + DeserializeOwned>(&mut self, name: &'static str) {
        self.record::<T>(name);
    }

    fn threads(&mut self, context: &'static str, name: &'static str) {
        self.record::<Context>(context);
        self.record::<Thread>(name);
    }

    fn array(&mut self, name: &'static str) {
        self.add(vec![name]);
    }
}

/// Copies a section, without what is lost.
struct Copier<'a> {
    names: &'a [&'static str],
    left: &'a [u8],
    out: &'a mut Vec<u8>,
    /// Cleared by what does not decode.
    good: bool,
}

impl<'a> Copier<'a> {
    fn fate(&self, name: &str) -> Fate<'a> {
        match self.names {
            [only] if *only == name => Fate::Forgotten,
            [first, rest @ ..] if *first == name => Fate::Without(rest),
            _ => Fate::Kept,
        }
    }

    fn copy<T: Serialize + DeserializeOwned>(&mut self, fate: Fate) {
        match postcard::take_from_bytes::<T>(self.left) {
            Ok((value, left)) => {
                append(self.out, &Fated(&value, fate));
                self.left = left;
            }
            Err(_) => self.good = false,
        }
    }
}

impl Contents for Copier<'_> {
    fn value<T: Serialize + DeserializeOwned>(&mut self, name: &'static str) {
        self.copy::<T>(self.fate(name));
    }

    fn part<T: Serialize + DeserializeOwned>(&mut self, number: u8, name: &'static str) {
        if let Some((found, left)) = self.left.split_first()
            && *found == number
        {
            self.left = left;
            let start = self.out.len();
            self.out.push(number);
            self.copy::<T>(self.fate(name));
            if let Fate::Forgotten = self.fate(name) {
                self.out.truncate(start);
            }
        }
    }

    fn records<T: Serialize + DeserializeOwned>(&mut self, name: &'static str) {
        let fate = self.fate(name);
        match records::<T>(self.left, name) {
            Ok(values) => {
                for value in &values {
                    save_record(
                        self.out,
                        value.as_ref().map(|value| Fated(value, fate)).as_ref(),
                    );
                }
            }
            Err(_) => self.good = false,
        }
    }

    fn threads(&mut self, context: &'static str, name: &'static str) {
        let (of_context, of_thread) = (self.fate(context), self.fate(name));
        match threads(self.left) {
            Ok(threads) => {
                for thread in threads.values() {
                    let again = with_fates(thread, of_context, of_thread);
                    self.good &= again.is_some();
                    if let Some(thread) = again {
                        save_thread(self.out, &thread);
                    }
                }
            }
            Err(_) => self.good = false,
        }
    }

    fn array(&mut self, name: &'static str) {
        if let Fate::Kept = self.fate(name) {
            self.out.extend_from_slice(self.left);
        }
    }
}

/// Saved and restored, with these fates.
fn again<T: Serialize + DeserializeOwned>(value: &T, fate: Fate) -> Option<T> {
    let mut bytes = Vec::new();
    append(&mut bytes, &Fated(value, fate));
    postcard::from_bytes(&bytes).ok()
}

fn with_fates(thread: &Thread, of_context: Fate, of_thread: Fate) -> Option<Thread> {
    Some(Thread {
        context: again(&thread.context, of_context)?,
        ..again(thread, of_thread)?
    })
}

impl Kernel {
    /// The bytes of a saved kernel without something; `None` if there was nothing of it.
    pub fn forget(bytes: &[u8], loss: Loss) -> Result<Option<Vec<u8>>, RestoreError> {
        let place = &table()[loss.0];
        let sections = sections(bytes)?;
        let mut good = true;
        let mut out = Vec::new();
        assemble(&mut out, |index, out| {
            if index != place.section as usize {
                return out.extend_from_slice(sections[index]);
            }
            let mut copier = Copier {
                names: &place.names,
                left: sections[index],
                out,
                good: true,
            };
            place.section.tell(&mut copier);
            good = copier.good;
        });
        if !good {
            return Err(RestoreError::Section("that something is lost of"));
        }
        let length = out.len().min(bytes.len());
        Ok((out[..length] != bytes[..length]).then_some(out))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_section_part_and_field_has_a_loss_of_its_own() {
        let names: BTreeSet<&str> = Loss::all().map(Loss::name).collect();
        assert_eq!(names.len(), Loss::all().count());
        for name in [
            "settings.clock_start_ns",
            "output.pending.bytes",
            "core.open.pipes.entries.bytes",
            "timers.posix.notice.value",
            "sockets.table.entries.queue.files",
            "process.umask",
            "context.fcsr",
            "thread.state.Blocked.wait.Futex.key.File",
            "space.mappings.backing.File.offset",
            "inode.node.Directory.entries",
            "frame-cells",
        ] {
            let loss = Loss::named(name).unwrap_or_else(|| panic!("no loss {name}"));
            assert_eq!(loss.name(), name);
        }
        for section in SECTION_ORDER {
            let here = table()
                .iter()
                .filter(|place| place.section as usize == section as usize);
            assert!(here.count() > 0);
        }
    }

    #[test]
    fn what_is_forgotten_is_one_field_and_nothing_else() {
        let mut thread = Thread::new(
            crate::machine::ThreadId(7),
            crate::process::ProcessId(7),
            Context::default(),
            "name".into(),
        );
        (thread.mask, thread.robust_list) = (5, 9);
        thread.alternate_stack.size = 11;
        let left = forgetting(&thread, &["alternate_stack", "size"]).expect("it decodes");
        let kept = (
            left.mask,
            left.robust_list,
            left.alternate_stack.size,
            left.name,
        );
        assert_eq!(kept, (5, 9, 0, "name".to_owned()));
        let left = forgetting(&thread, &["mask"]).expect("it decodes");
        assert_eq!((left.mask, left.alternate_stack.size), (0, 11));
    }
}
