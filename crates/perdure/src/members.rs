//! Which part of a variable lies at an address: members of structures and elements of arrays, by the
//! program's own debug information (DWARF).
//!
//! Always true here: a program without it, or with what this does not understand, has variables without
//! parts; nothing is guessed.

use std::collections::BTreeMap;

use gimli::{AttributeValue, DebugInfoOffset, Operation, UnitOffset, UnitSectionOffset};

use crate::dwarf::{Parsed, Reader, dwarf_of};

pub(crate) type Unit = gimli::Unit<Reader>;
pub(crate) type Entry<'u> = gimli::DebuggingInformationEntry<'u, 'u, Reader>;

/// So deep types may be nested.
const DEPTH_MAX: usize = 32;

/// Pointers of a type that are followed.
const POINTERS_MAX: usize = 4096;

/// A type: its unit, and where in it.
pub type Type = (usize, UnitOffset);

/// What a file's debug information says of its variables.
pub struct Members {
    pub(crate) units: Vec<Unit>,
    /// Types of variables, by their addresses in the file.
    variables: BTreeMap<u64, Type>,
    pub(crate) dwarf: gimli::Dwarf<Reader>,
}

impl Members {
    /// Of an ELF file.
    pub fn of(contents: &[u8]) -> Option<Self> {
        dwarf_of(contents).map(Self::new)
    }

    pub(crate) fn new(dwarf: gimli::Dwarf<Reader>) -> Self {
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
        members
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
    pub(crate) fn type_of(&self, unit: usize, entry: &Entry) -> Parsed<Option<Type>> {
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

    pub(crate) fn place(&self, unit: usize, reference: &AttributeValue<Reader>) -> Option<Type> {
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

    /// All variables that always are where they are: their addresses in the file, and their types.
    pub fn variables(&self) -> impl Iterator<Item = (u64, Type)> {
        self.variables.iter().map(|(&address, &of)| (address, of))
    }

    /// How many bytes a type has; 0 if nobody says.
    pub fn bytes(&self, of: Type) -> u64 {
        self.size_of(of, 0).ok().flatten().unwrap_or(0)
    }

    /// What lies so far into a structure, as `structure.member`; nothing if the type has no name.
    pub fn part(&self, of: Type, offset: u64) -> Option<String> {
        let mut path = self.name_of(of, 0).ok()??;
        let _ = self.descend(of, offset, &mut path, 0);
        Some(path)
    }

    /// What a pointer to a structure is, as `structure *`; nothing if the type is no such pointer.
    pub fn pointer(&self, of: Type) -> Option<String> {
        self.pointer_name(of, 0).ok()?
    }

    /// The pointers to structures that a type has, and to pointers to them: where, and to what.
    pub fn pointers(&self, of: Type) -> Vec<(u64, Type)> {
        let mut found = Vec::new();
        // What was understood by then is right.
        let _ = self.pointers_from(of, 0, &mut found, 0);
        found
    }

    fn pointers_from(
        &self,
        of: Type,
        start: u64,
        found: &mut Vec<(u64, Type)>,
        depth: usize,
    ) -> Parsed<()> {
        if depth == DEPTH_MAX || found.len() >= POINTERS_MAX {
            return Ok(());
        }
        let (unit, at) = of;
        let entry = self.units[unit].entry(at)?;
        let tag = entry.tag();
        if is_structure(tag) {
            for (_, offset, of) in self.members_of(of)? {
                self.pointers_from(of, start + offset, found, depth + 1)?;
            }
            return Ok(());
        }
        let Some(inner) = self.type_of(unit, &entry)? else {
            return Ok(());
        };
        if is_alias(tag) {
            return self.pointers_from(inner, start, found, depth + 1);
        }
        if is_pointer(tag) && self.leads_to_structure(inner, depth)? {
            found.push((start, inner));
        }
        if tag == gimli::DW_TAG_array_type {
            let mut one = Vec::new();
            self.pointers_from(inner, 0, &mut one, depth + 1)?;
            let (size, count) = (self.bytes(inner), self.dimensions(of)?.iter().product());
            let elements = (0..if one.is_empty() { 0 } else { count }).map(|index| index * size);
            let all =
                elements.flat_map(|from| one.iter().map(move |&(at, of)| (start + from + at, of)));
            found.extend(all.take(POINTERS_MAX));
        }
        Ok(())
    }

    /// True for a structure, by whatever name.
    fn is_structure(&self, (unit, at): Type, depth: usize) -> Parsed<bool> {
        let entry = self.units[unit].entry(at)?;
        match self.type_of(unit, &entry)? {
            Some(of) if is_alias(entry.tag()) && depth < DEPTH_MAX => {
                self.is_structure(of, depth + 1)
            }
            _ => Ok(is_structure(entry.tag())),
        }
    }

    /// True for a structure, and for a pointer to what leads there.
    fn leads_to_structure(&self, of: Type, depth: usize) -> Parsed<bool> {
        match self.pointed(of, depth)? {
            Some(target) if depth < DEPTH_MAX => self.leads_to_structure(target, depth + 1),
            _ => self.is_structure(of, depth),
        }
    }

    /// What a pointer points to, by whatever name; nothing if the type is none.
    fn pointed(&self, (unit, at): Type, depth: usize) -> Parsed<Option<Type>> {
        let entry = self.units[unit].entry(at)?;
        match self.type_of(unit, &entry)? {
            Some(of) if is_alias(entry.tag()) && depth < DEPTH_MAX => self.pointed(of, depth + 1),
            target => Ok(target.filter(|_| is_pointer(entry.tag()))),
        }
    }

    /// A type's name, or that of what it is another name for.
    fn name_of(&self, (unit, at): Type, depth: usize) -> Parsed<Option<String>> {
        let entry = self.units[unit].entry(at)?;
        if let Some(name) = self.entry_name(unit, &entry)? {
            return Ok(Some(name));
        }
        match self.type_of(unit, &entry)? {
            Some(of) if is_alias(entry.tag()) && depth < DEPTH_MAX => self.name_of(of, depth + 1),
            _ => Ok(None),
        }
    }

    fn pointer_name(&self, of: Type, depth: usize) -> Parsed<Option<String>> {
        let target = self.pointed(of, depth)?.filter(|_| depth < DEPTH_MAX);
        let Some(target) = target else {
            return Ok(None);
        };
        let name = match self.name_of(target, depth)? {
            None => self.pointer_name(target, depth + 1)?,
            name => name,
        };
        Ok(name.map(|name| format!("{name} *")))
    }

    fn entry_name(&self, unit: usize, entry: &Entry) -> Parsed<Option<String>> {
        let Some(name) = entry.attr_value(gimli::DW_AT_name)? else {
            return Ok(None);
        };
        let name = self.dwarf.attr_string(&self.units[unit], name)?;
        Ok(Some(gimli::Reader::to_string_lossy(&name)?.into_owned()))
    }

    fn descend(&self, of: Type, offset: u64, path: &mut String, depth: usize) -> Parsed<()> {
        if depth == DEPTH_MAX {
            return Ok(());
        }
        let (unit, at) = of;
        let entry = self.units[unit].entry(at)?;
        match entry.tag() {
            tag if is_structure(tag) => self.member(of, offset, path, depth),
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
        // Of a union, the first one says it.
        for (name, start, of) in self.members_of(of)? {
            let size = self.size_of(of, 0)?.unwrap_or(0);
            if (start..start + size.max(1)).contains(&offset) {
                path.push_str(&name);
                return self.descend(of, offset - start, path, depth + 1);
            }
        }
        Ok(())
    }

    /// The members of a structure: `.name`, or nothing for what it inherits; where, and of which type.
    fn members_of(&self, (unit, at): Type) -> Parsed<Vec<(String, u64, Type)>> {
        let mut tree = self.units[unit].entries_tree(Some(at))?;
        let mut children = tree.root()?.children();
        let mut members = Vec::new();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let tag = entry.tag();
            if tag != gimli::DW_TAG_member && tag != gimli::DW_TAG_inheritance {
                continue;
            }
            if let (Some(start), Some(of)) = (offset_of(entry)?, self.type_of(unit, entry)?) {
                let name = self.entry_name(unit, entry)?;
                let name = name.filter(|_| tag == gimli::DW_TAG_member);
                members.push((
                    name.map_or_else(String::new, |name| format!(".{name}")),
                    start,
                    of,
                ));
            }
        }
        Ok(members)
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

fn is_structure(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type
    )
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
