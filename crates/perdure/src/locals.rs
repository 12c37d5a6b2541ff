//! What the parameters and local variables of functions that have not returned point to, by the program's
//! own debug information (DWARF).
//!
//! Always true here: nothing is guessed. A variable that the debug information does not place at the
//! instruction, or in a way that this does not understand (the value that a register had on entry), points to
//! nothing; so does one whose declaration has not been executed, as far as lines tell.

use std::collections::BTreeMap;

use gimli::{AttributeValue, EvaluationResult, Expression, Location, Piece, UnitOffset, Value};

use crate::call_stack::{Memory, word};
use crate::dwarf::{Parsed, Reader};
use crate::frames::Frame;
use crate::members::{Entry, Members, Type, Unit};

/// So deep scopes may be nested, and so often an entry may say what another one does.
const DEPTH_MAX: usize = 32;

/// Operations of an expression.
const OPERATIONS: u32 = 1000;

/// Pointers to structures: their values, and to what.
pub type Pointers = Vec<(u64, Type)>;

/// The functions of a file by the file's own first addresses: where they end, and where they are described.
pub struct Functions(BTreeMap<u64, (u64, Type)>);

/// A part of a function that has variables: where it is described, and from which line it was inlined.
struct Scope {
    at: UnitOffset,
    inlined: Option<u64>,
}

/// A frame, looked at.
struct Looked<'l, M> {
    members: &'l Members,
    unit: usize,
    frame: &'l Frame,
    bias: u64,
    memory: &'l M,
    /// Where the function has its variables.
    base: Option<u64>,
}

impl Functions {
    /// Of a file.
    pub fn of(members: &Members) -> Self {
        let mut functions = Self(BTreeMap::new());
        for number in 0..members.units.len() {
            // What was understood by then is right.
            let _ = functions.add(members, number);
        }
        functions
    }

    fn add(&mut self, members: &Members, number: usize) -> Parsed<()> {
        let unit = &members.units[number];
        let mut entries = unit.entries();
        while let Some((_, entry)) = entries.next_dfs()? {
            if entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let mut ranges = members.dwarf.die_ranges(unit, entry)?;
            while let Some(range) = ranges.next()? {
                let function = (number, entry.offset());
                self.0.insert(range.begin, (range.end, function));
            }
        }
        Ok(())
    }

    /// What the parameters of a frame's function point to, and its other variables; of what was inlined, too.
    /// The innermost scope is first.
    pub fn pointers(
        &self,
        members: &Members,
        frame: &Frame,
        bias: u64,
        memory: &impl Memory,
    ) -> [Pointers; 2] {
        let mut found = Default::default();
        let address = frame.pc.wrapping_sub(bias);
        let function = self.0.range(..=address).next_back();
        if let Some((_, &(_, (unit, at)))) = function.filter(|(_, (end, _))| address < *end) {
            let mut looked = Looked {
                members,
                unit,
                frame,
                bias,
                memory,
                base: None,
            };
            // What was understood by then is right.
            let _ = looked.function(at, &mut found);
        }
        found
    }
}

impl<M: Memory> Looked<'_, M> {
    fn unit(&self) -> &Unit {
        &self.members.units[self.unit]
    }

    /// The instruction's address, the file's own.
    fn address(&self) -> u64 {
        self.frame.pc.wrapping_sub(self.bias)
    }

    fn function(&mut self, at: UnitOffset, found: &mut [Pointers; 2]) -> Parsed<()> {
        self.base = self.base_of(at)?;
        let mut scopes = vec![Scope { at, inlined: None }];
        self.enter(at, &mut scopes)?;
        let mut line = line_of(self.unit(), self.address())?;
        for scope in scopes.iter().rev() {
            self.scope(scope.at, line, found)?;
            line = scope.inlined.or(line);
        }
        Ok(())
    }

    /// The address that `DW_OP_fbreg` counts from.
    fn base_of(&self, at: UnitOffset) -> Parsed<Option<u64>> {
        let entry = self.unit().entry(at)?;
        let Some(place) = entry.attr_value(gimli::DW_AT_frame_base)? else {
            return Ok(None);
        };
        let pieces = self.placed(place)?.and_then(|at| self.evaluate(at));
        let [Piece { location, .. }] = pieces.as_deref().unwrap_or_default() else {
            return Ok(None);
        };
        Ok(match *location {
            Location::Address { address } => Some(address),
            Location::Register { register } => self.register(register),
            _ => None,
        })
    }

    /// Adds the scopes within one that have the instruction.
    fn enter(&self, at: UnitOffset, scopes: &mut Vec<Scope>) -> Parsed<()> {
        let mut tree = self.unit().entries_tree(Some(at))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let is_scope = [
                gimli::DW_TAG_lexical_block,
                gimli::DW_TAG_inlined_subroutine,
            ];
            if is_scope.contains(&entry.tag()) && self.has_instruction(entry)? {
                let inlined = entry.attr_value(gimli::DW_AT_call_line)?;
                let inlined = inlined.and_then(|line| line.udata_value());
                let at = entry.offset();
                scopes.push(Scope { at, inlined });
                if scopes.len() < DEPTH_MAX {
                    self.enter(at, scopes)?;
                }
                return Ok(());
            }
        }
        Ok(())
    }

    fn has_instruction(&self, entry: &Entry) -> Parsed<bool> {
        let mut ranges = self.members.dwarf.die_ranges(self.unit(), entry)?;
        while let Some(range) = ranges.next()? {
            if (range.begin..range.end).contains(&self.address()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds what the variables of a scope point to, of which this line is executed.
    fn scope(&self, at: UnitOffset, line: Option<u64>, found: &mut [Pointers; 2]) -> Parsed<()> {
        let mut tree = self.unit().entries_tree(Some(at))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let is_local = match entry.tag() {
                gimli::DW_TAG_formal_parameter => false,
                gimli::DW_TAG_variable => true,
                _ => continue,
            };
            let declared = self.found_of((self.unit, entry), 0, &|_, entry| {
                let line = entry.attr_value(gimli::DW_AT_decl_line)?;
                Ok(line.and_then(|line| line.udata_value()))
            })?;
            if !is_local || !self.is_to_come(declared, line) {
                found[usize::from(is_local)].extend(self.variable(entry)?);
            }
        }
        Ok(())
    }

    /// True if a variable that is declared there has no value yet. Who calls on the line of a declaration
    /// does so for the value.
    fn is_to_come(&self, declared: Option<u64>, line: Option<u64>) -> bool {
        let (Some(declared), Some(line)) = (declared, line) else {
            return false;
        };
        declared > line || declared == line && !self.frame.is_innermost
    }

    /// What a variable points to.
    fn variable(&self, entry: &Entry) -> Parsed<Pointers> {
        let place = entry.attr_value(gimli::DW_AT_location)?;
        let typed = |unit, entry: &Entry| self.members.type_of(unit, entry);
        let of = self.found_of((self.unit, entry), 0, &typed)?;
        let (Some(place), Some(of)) = (place, of) else {
            return Ok(Vec::new());
        };
        let pieces = self.placed(place)?.and_then(|at| self.evaluate(at));
        let pieces = pieces.unwrap_or_default();
        let pointers = self.members.pointers(of).into_iter();
        Ok(pointers
            .filter_map(|(offset, to)| Some((self.word(&pieces, offset)?, to)))
            .collect())
    }

    /// What is found of a unit's entry, or else of the one that it is an instance of.
    fn found_of<T>(
        &self,
        (unit, entry): (usize, &Entry),
        depth: usize,
        find: &dyn Fn(usize, &Entry) -> Parsed<Option<T>>,
    ) -> Parsed<Option<T>> {
        let found = find(unit, entry)?;
        let origin = entry.attr_value(gimli::DW_AT_abstract_origin)?;
        let origin = origin.and_then(|of| self.members.place(unit, &of));
        match origin.filter(|_| found.is_none() && depth < DEPTH_MAX) {
            Some((unit, at)) => {
                let entry = self.members.units[unit].entry(at)?;
                self.found_of((unit, &entry), depth + 1, find)
            }
            None => Ok(found),
        }
    }

    /// What an attribute says of where something is, if it says so of this instruction.
    fn placed(&self, place: AttributeValue<Reader>) -> Parsed<Option<Expression<Reader>>> {
        if let AttributeValue::Exprloc(always) = place {
            return Ok(Some(always));
        }
        let Some(mut entries) = self.members.dwarf.attr_locations(self.unit(), place)? else {
            return Ok(None);
        };
        while let Some(entry) = entries.next()? {
            if (entry.range.begin..entry.range.end).contains(&self.address()) {
                return Ok(Some(entry.data));
            }
        }
        Ok(None)
    }

    fn register(&self, register: gimli::Register) -> Option<u64> {
        *self.frame.x.get(usize::from(register.0))?
    }

    /// Where something is, piece by piece.
    fn evaluate(&self, at: Expression<Reader>) -> Option<Vec<Piece<Reader>>> {
        let mut evaluation = at.evaluation(self.unit().encoding());
        evaluation.set_max_iterations(OPERATIONS);
        let mut state = evaluation.evaluate();
        loop {
            state = match state.ok()? {
                EvaluationResult::Complete => return Some(evaluation.result()),
                EvaluationResult::RequiresMemory {
                    address,
                    size: 8,
                    space: None,
                    base_type: UnitOffset(0),
                } => evaluation.resume_with_memory(Value::Generic(word(self.memory, address)?)),
                EvaluationResult::RequiresRegister {
                    register,
                    base_type: UnitOffset(0),
                } => evaluation.resume_with_register(Value::Generic(self.register(register)?)),
                EvaluationResult::RequiresFrameBase => {
                    evaluation.resume_with_frame_base(self.base?)
                }
                EvaluationResult::RequiresCallFrameCfa => {
                    evaluation.resume_with_call_frame_cfa(self.frame.base?)
                }
                EvaluationResult::RequiresRelocatedAddress(address) => {
                    evaluation.resume_with_relocated_address(address.wrapping_add(self.bias))
                }
                EvaluationResult::RequiresIndexedAddress { index, relocate } => {
                    let address = self.members.dwarf.address(self.unit(), index).ok()?;
                    let bias = if relocate { self.bias } else { 0 };
                    evaluation.resume_with_indexed_address(address.wrapping_add(bias))
                }
                _ => return None,
            };
        }
    }

    /// The word that lies so far into what is in these pieces.
    fn word(&self, pieces: &[Piece<Reader>], offset: u64) -> Option<u64> {
        let mut start = 0;
        for piece in pieces {
            let bytes = piece.size_in_bits.map_or(u64::MAX, |bits| bits / 8);
            let inner = offset.checked_sub(start)?;
            if inner < bytes {
                let is_whole = piece.bit_offset.is_none() && bytes - inner >= 8;
                return self.word_of(&piece.location, inner).filter(|_| is_whole);
            }
            start = start.saturating_add(bytes);
        }
        None
    }

    fn word_of(&self, location: &Location<Reader>, offset: u64) -> Option<u64> {
        match *location {
            Location::Address { address } => word(self.memory, address.wrapping_add(offset)),
            Location::Register { register } if offset == 0 => self.register(register),
            Location::Value {
                value: Value::Generic(value),
            } if offset == 0 => Some(value),
            _ => None,
        }
    }
}

/// The line of an instruction, by the unit's own table.
fn line_of(unit: &Unit, address: u64) -> Parsed<Option<u64>> {
    let Some(program) = unit.line_program.clone() else {
        return Ok(None);
    };
    let mut rows = program.rows();
    let mut before: Option<(u64, Option<u64>)> = None;
    while let Some((_, row)) = rows.next_row()? {
        if let Some((start, line)) = before
            && (start..row.address()).contains(&address)
        {
            return Ok(line);
        }
        let line = row.line().map(u64::from);
        before = (!row.end_sequence()).then_some((row.address(), line));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use gimli::SectionId;

    use super::*;
    use crate::frames::tests::{Words, section};

    const BIAS: u64 = 0x4_0000;
    const NODE: UnitOffset = UnitOffset(20);

    /// Tags, whether there are children, and attributes with their forms.
    const ABBREVIATIONS: &[u8] = &[
        1, 0x11, 1, 0x11, 0x01, 0, 0, // a unit: from where addresses count
        2, 0x2e, 1, 0x11, 0x01, 0x12, 0x06, 0x40, 0x18, 0, 0, // a function: from, bytes, base
        3, 0x05, 0, 0x02, 0x18, 0x49, 0x13, 0, 0, // a parameter: place, type
        4, 0x34, 0, 0x02, 0x17, 0x49, 0x13, 0, 0, // a variable: list of places, type
        6, 0x0f, 0, 0x49, 0x13, 0, 0, // a pointer
        7, 0x13, 0, 0x0b, 0x0b, 0, 0, // a structure
        0,
    ];

    /// A function at 0x100 with parameters at these places, and a variable: in `a0`, from 0x110 to 0x120.
    fn described(parameters: &[&[u8]]) -> Members {
        let to_node = 22_u32.to_le_bytes();
        let mut units = vec![4, 0, 0, 0, 0, 0, 8, 1];
        units.extend([0; 8]);
        units.extend([7, 16, 6]);
        units.extend((NODE.0 as u32).to_le_bytes());
        units.push(2);
        units.extend(0x100_u64.to_le_bytes());
        units.extend(0x80_u32.to_le_bytes());
        units.extend([1, 0x9c]);
        for place in parameters {
            units.extend([3, place.len() as u8]);
            units.extend(*place);
            units.extend(to_node);
        }
        units.extend([4, 0, 0, 0, 0]);
        units.extend(to_node);
        units.extend([0, 0]);
        let units = [&(units.len() as u32).to_le_bytes()[..], &units].concat();
        let range = [0x110_u64.to_le_bytes(), 0x120_u64.to_le_bytes()].concat();
        let places = [&range[..], &[1, 0, 0x5a], &[0; 16]].concat();
        let load = |id| -> Parsed<Reader> {
            Ok(section(match id {
                SectionId::DebugAbbrev => ABBREVIATIONS,
                SectionId::DebugInfo => &units,
                SectionId::DebugLoc => &places,
                _ => &[],
            }))
        };
        Members::new(gimli::Dwarf::load(load).expect("sections"))
    }

    /// What the parameters point to, and the variable, at an address in the function.
    fn pointers(parameters: &[&[u8]], at: u64) -> [Vec<u64>; 2] {
        let members = described(parameters);
        let mut x = [None; 32];
        (x[8], x[10]) = (Some(0x7000), Some(0x9000));
        let frame = Frame {
            pc: BIAS + at,
            x,
            base: Some(0x8000),
            is_innermost: true,
        };
        let memory = Words([(0x7010, 0x9010), (0x7fe8, 0x9020)].into());
        let found = Functions::of(&members).pointers(&members, &frame, BIAS, &memory);
        found.map(|pointers| {
            assert!(pointers.iter().all(|&(_, to)| to == (0, NODE)));
            pointers.into_iter().map(|(target, _)| target).collect()
        })
    }

    #[test]
    fn parameters_are_where_their_places_say() {
        let in_frame: &[u8] = &[0x91, 0x68];
        let behind_register: &[u8] = &[0x78, 0x10];
        let (in_register, known): (&[u8], &[u8]) = (&[0x5a], &[0x7a, 8, 0x9f]);
        let at_address: &[u8] = &[0x03, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x9f];
        let halves: &[u8] = &[0x5a, 0x93, 4, 0x58, 0x93, 4];
        let all = [in_frame, behind_register, in_register, known, at_address];
        let [parameters, _] = pointers(&all, 0x100);
        assert_eq!(parameters, [0x9020, 0x9010, 0x9000, 0x9008, BIAS + 0x80]);
        assert!(pointers(&[halves], 0x100)[0].is_empty());
    }

    #[test]
    fn what_cannot_be_known_points_to_nothing() {
        let (unknown, unreadable): (&[u8], &[u8]) = (&[0x59], &[0x91, 0]);
        let on_entry: &[u8] = &[0xf3, 1, 0x5a, 0x9f];
        let nowhere: &[u8] = &[];
        let all = [unknown, unreadable, on_entry, nowhere];
        assert!(pointers(&all, 0x100)[0].is_empty());
    }

    #[test]
    fn a_variable_has_a_place_where_its_list_says() {
        assert!(pointers(&[], 0x10f)[1].is_empty());
        assert_eq!(pointers(&[], 0x110)[1], [0x9000]);
        assert!(pointers(&[], 0x120)[1].is_empty());
        assert!(pointers(&[], 0x180)[1].is_empty());
    }
}
