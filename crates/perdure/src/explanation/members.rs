//! Which part of a variable lies at an address: members of structures and elements of arrays, by the
//! program's own debug information (DWARF).
//!
//! Always true here: a program without it, or with what this does not understand, has variables without
//! parts; nothing is guessed.

use std::collections::BTreeMap;

use gimli::{AttributeValue, DebugInfoOffset, Operation, UnitOffset, UnitSectionOffset};

use crate::dwarf::{Parsed, Reader, dwarf_of};

type Unit = gimli::Unit<Reader>;
type Entry<'u> = gimli::DebuggingInformationEntry<'u, 'u, Reader>;

/// So deep types may be nested.
const DEPTH_MAX: usize = 32;

/// A type: its unit, and where in it.
type Type = (usize, UnitOffset);

/// What a file's debug information says of its variables.
pub struct Members {
    units: Vec<Unit>,
    /// Types of variables, by their addresses in the file.
    variables: BTreeMap<u64, Type>,
    dwarf: gimli::Dwarf<Reader>,
}

impl Members {
    /// Of an ELF file.
    pub fn of(contents: &[u8]) -> Option<Self> {
        let dwarf = dwarf_of(contents)?;
        let mut members = Self {
            units: Vec::new(),
            variables: BTreeMap::new(),
            dwarf,
        };
        let mut headers = members.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if let Ok(unit) = members.dwarf.unit(header) {
                members.units.push(unit);
            }
        }
        for unit in 0..members.units.len() {
            let found = members.variables_of(unit).unwrap_or_default();
            members.variables.extend(found);
        }
        Some(members)
    }

    fn variables_of(&self, number: usize) -> Parsed<Vec<(u64, Type)>> {
        let unit = &self.units[number];
        let mut found = Vec::new();
        let mut entries = unit.entries();
        while let Some((_, entry)) = entries.next_dfs()? {
            if entry.tag() != gimli::DW_TAG_variable {
                continue;
            }
            if let (Some(address), Some(of)) =
                (self.address_of(unit, entry)?, self.type_of(number, entry)?)
            {
                found.push((address, of));
            }
        }
        Ok(found)
    }

    /// Where a variable is, if it always is there.
    fn address_of(&self, unit: &Unit, entry: &Entry) -> Parsed<Option<u64>> {
        let Some(AttributeValue::Exprloc(place)) = entry.attr_value(gimli::DW_AT_location)? else {
            return Ok(None);
        };
        let mut operations = place.operations(unit.encoding());
        let address = match operations.next()? {
            Some(Operation::Address { address }) => address,
            Some(Operation::AddressIndex { index }) => self.dwarf.address(unit, index)?,
            _ => return Ok(None),
        };
        Ok(operations.next()?.is_none().then_some(address))
    }

    /// The type that an entry names, or the one that it completes.
    fn type_of(&self, unit: usize, entry: &Entry) -> Parsed<Option<Type>> {
        if let Some(of) = entry.attr_value(gimli::DW_AT_type)? {
            return Ok(self.place(unit, &of));
        }
        let declared = entry.attr_value(gimli::DW_AT_specification)?;
        let Some((unit, at)) = declared.and_then(|of| self.place(unit, &of)) else {
            return Ok(None);
        };
        let declared = self.units[unit].entry(at)?;
        let of = declared.attr_value(gimli::DW_AT_type)?;
        Ok(of.and_then(|of| self.place(unit, &of)))
    }

    fn place(&self, unit: usize, reference: &AttributeValue<Reader>) -> Option<Type> {
        match *reference {
            AttributeValue::UnitRef(at) => Some((unit, at)),
            AttributeValue::DebugInfoRef(at) => self.unit_of(at),
            _ => None,
        }
    }

    fn unit_of(&self, at: DebugInfoOffset) -> Option<Type> {
        let at = UnitSectionOffset::DebugInfoOffset(at);
        let mut units = self.units.iter().enumerate();
        units.find_map(|(number, unit)| Some((number, at.to_unit_offset(unit)?)))
    }

    /// True if there is a variable there whose type is known: the program's author wrote it, no library.
    pub fn has(&self, start: u64) -> bool {
        self.variables.contains_key(&start)
    }

    /// The part of the variable at `start` that lies `offset` bytes into it, as C writes it: `.head`,
    /// `[3].balance`; empty if it has no parts, or nobody knows them. Addresses are the file's own.
    pub fn path(&self, start: u64, offset: u64) -> String {
        let mut path = String::new();
        if let Some(&of) = self.variables.get(&start) {
            // What was understood by then is right.
            let _ = self.descend(of, offset, &mut path, 0);
        }
        path
    }

    fn descend(&self, of: Type, offset: u64, path: &mut String, depth: usize) -> Parsed<()> {
        if depth == DEPTH_MAX {
            return Ok(());
        }
        let (unit, at) = of;
        let entry = self.units[unit].entry(at)?;
        match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                self.member(of, offset, path, depth)
            }
            gimli::DW_TAG_array_type => {
                let Some(element) = self.type_of(unit, &entry)? else {
                    return Ok(());
                };
                let size = self.size_of(element, 0)?.unwrap_or(0);
                if size == 0 {
                    return Ok(());
                }
                let mut index = offset / size;
                let mut indices = Vec::new();
                for count in self.dimensions(of)?.into_iter().skip(1).rev() {
                    indices.push(index % count.max(1));
                    index /= count.max(1);
                }
                indices.push(index);
                for index in indices.into_iter().rev() {
                    path.extend(["[", &index.to_string(), "]"]);
                }
                self.descend(element, offset % size, path, depth + 1)
            }
            tag if is_alias(tag) => match self.type_of(unit, &entry)? {
                Some(of) => self.descend(of, offset, path, depth + 1),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn member(&self, of: Type, offset: u64, path: &mut String, depth: usize) -> Parsed<()> {
        let (unit, at) = of;
        let mut tree = self.units[unit].entries_tree(Some(at))?;
        let mut children = tree.root()?.children();
        let mut inside = None;
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let tag = entry.tag();
            if tag != gimli::DW_TAG_member && tag != gimli::DW_TAG_inheritance {
                continue;
            }
            let (Some(start), Some(of)) = (offset_of(entry)?, self.type_of(unit, entry)?) else {
                continue;
            };
            let size = self.size_of(of, 0)?.unwrap_or(0);
            // Of a union, the first one says it.
            if (start..start + size.max(1)).contains(&offset) {
                let name = match entry.attr_value(gimli::DW_AT_name)? {
                    Some(name) if tag == gimli::DW_TAG_member => {
                        let name = self.dwarf.attr_string(&self.units[unit], name)?;
                        format!(".{}", gimli::Reader::to_string_lossy(&name)?)
                    }
                    _ => String::new(),
                };
                inside = Some((name, of, offset - start));
                break;
            }
        }
        let Some((name, of, rest)) = inside else {
            return Ok(());
        };
        path.push_str(&name);
        self.descend(of, rest, path, depth + 1)
    }

    /// How many elements an array has in each of its dimensions.
    fn dimensions(&self, (unit, at): Type) -> Parsed<Vec<u64>> {
        let mut tree = self.units[unit].entries_tree(Some(at))?;
        let mut children = tree.root()?.children();
        let mut counts = Vec::new();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            if entry.tag() != gimli::DW_TAG_subrange_type {
                continue;
            }
            let number = |name| -> Parsed<Option<u64>> {
                Ok(entry
                    .attr_value(name)?
                    .and_then(|value| value.udata_value()))
            };
            let last = number(gimli::DW_AT_upper_bound)?;
            let count = number(gimli::DW_AT_count)?;
            counts.push(count.or(last.map(|last| last + 1)).unwrap_or(0));
        }
        Ok(counts)
    }

    fn size_of(&self, of: Type, depth: usize) -> Parsed<Option<u64>> {
        if depth == DEPTH_MAX {
            return Ok(None);
        }
        let (unit, at) = of;
        let entry = self.units[unit].entry(at)?;
        if let Some(size) = entry.attr_value(gimli::DW_AT_byte_size)? {
            return Ok(size.udata_value());
        }
        let tag = entry.tag();
        if is_pointer(tag) {
            return Ok(Some(8));
        }
        let Some(inner) = self.type_of(unit, &entry)? else {
            return Ok(None);
        };
        let inner = self.size_of(inner, depth + 1)?;
        if tag == gimli::DW_TAG_array_type {
            let count: u64 = self.dimensions(of)?.iter().product();
            return Ok(inner.map(|size| size * count));
        }
        Ok(inner.filter(|_| is_alias(tag)))
    }
}

/// Where a member begins in its structure.
fn offset_of(entry: &Entry) -> Parsed<Option<u64>> {
    if let Some(bits) = entry.attr_value(gimli::DW_AT_data_bit_offset)? {
        return Ok(bits.udata_value().map(|bits| bits / 8));
    }
    let start = entry.attr_value(gimli::DW_AT_data_member_location)?;
    // Members of unions have none.
    Ok(start.map_or(Some(0), |start| start.udata_value()))
}

fn is_alias(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type
    )
}

fn is_pointer(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type
    )
}
