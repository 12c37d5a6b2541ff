//! A thread's call stack as the program's own call-frame information has it (`.eh_frame`, `.debug_frame`):
//! which registers each function that has not returned will find.
//!
//! Always true here: nothing is guessed. A register that a call may have changed is not known to who called,
//! and a stack ends at the first function without such information.

use std::collections::BTreeMap;

use gimli::{BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame};
use gimli::{Register, RegisterRule, UnwindContext, UnwindSection};

use crate::call_stack::{Memory, word};
use crate::dwarf::{Parsed, Reader, frames_of};

type Description = gimli::FrameDescriptionEntry<Reader>;

/// Functions of a stack that are looked at.
const FRAMES: usize = 256;

const RETURN_ADDRESS: usize = 1;
const STACK_POINTER: usize = 2;
/// Those that a function gives back as it found them, by the calling convention, and those that none changes.
const KEPT: [usize; 15] = [0, 3, 4, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27];

/// A function that has not returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// An address in the instruction that it is at: the next one, or the call.
    pub pc: u64,
    /// Integer registers, as far as they are known.
    pub x: [Option<u64>; 32],
    /// The stack pointer before it was called (DWARF's canonical frame address).
    pub base: Option<u64>,
    /// It is the one that runs, and called none.
    pub is_innermost: bool,
}

/// What a file says of its functions' frames. Addresses are the file's own.
pub struct Unwinding {
    bases: BaseAddresses,
    sections: (EhFrame<Reader>, DebugFrame<Reader>),
    /// By first addresses; of which section.
    functions: BTreeMap<u64, (Description, bool)>,
}

impl Unwinding {
    /// Of an ELF file.
    pub fn of(contents: &[u8]) -> Option<Self> {
        let (bases, eh_frame, debug_frame) = frames_of(contents)?;
        Some(Self::new(bases, eh_frame, debug_frame))
    }

    fn new(bases: BaseAddresses, eh_frame: EhFrame<Reader>, debug: DebugFrame<Reader>) -> Self {
        // What was understood by then is right.
        let mut functions = BTreeMap::new();
        let _ = add(&debug, &bases, true, &mut functions);
        let _ = add(&eh_frame, &bases, false, &mut functions);
        Self {
            bases,
            sections: (eh_frame, debug),
            functions,
        }
    }

    fn description(&self, address: u64) -> Option<&(Description, bool)> {
        let (_, found) = self.functions.range(..=address).next_back()?;
        found.0.contains(address).then_some(found)
    }

    /// True if it has the function at an address.
    pub fn has(&self, address: u64) -> bool {
        self.description(address).is_some()
    }

    /// Completes a frame of this file by its base, and says who called.
    fn caller(&self, frame: &mut Frame, bias: u64, memory: &impl Memory) -> Option<Frame> {
        let address = frame.pc.wrapping_sub(bias);
        let (description, of_debugger) = self.description(address)?;
        let (bases, context) = (&self.bases, &mut UnwindContext::new());
        let (eh_frame, debug_frame) = &self.sections;
        let row = if *of_debugger {
            description.unwind_info_for_address(debug_frame, bases, context, address)
        } else {
            description.unwind_info_for_address(eh_frame, bases, context, address)
        };
        let row = row.ok()?;
        let &CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
            return None;
        };
        let known = |register: Register| *frame.x.get(usize::from(register.0))?;
        let base = known(register)?.wrapping_add_signed(offset);
        let mut x = [None; 32];
        for (number, value) in x.iter_mut().enumerate() {
            let own = frame.x[number];
            *value = match row.register(Register(number as u16)) {
                RegisterRule::Offset(offset) => word(memory, base.wrapping_add_signed(offset)),
                RegisterRule::ValOffset(offset) => Some(base.wrapping_add_signed(offset)),
                RegisterRule::Register(register) => known(register),
                RegisterRule::SameValue => own,
                RegisterRule::Undefined if number == STACK_POINTER => Some(base),
                RegisterRule::Undefined if number == RETURN_ADDRESS && frame.is_innermost => own,
                RegisterRule::Undefined if KEPT.contains(&number) => own,
                _ => None,
            };
        }
        frame.base = Some(base);
        Some(Frame {
            pc: x[usize::from(description.cie().return_address_register().0)]?.checked_sub(1)?,
            x,
            base: None,
            is_innermost: false,
        })
    }
}

/// Adds the functions of a section.
fn add<S: UnwindSection<Reader>>(
    section: &S,
    bases: &BaseAddresses,
    of_debugger: bool,
    functions: &mut BTreeMap<u64, (Description, bool)>,
) -> Parsed<()> {
    let mut entries = section.entries(bases);
    while let Some(entry) = entries.next()? {
        if let CieOrFde::Fde(function) = entry {
            let function = function.parse(S::cie_from_offset)?;
            functions.insert(function.initial_address(), (function, of_debugger));
        }
    }
    Ok(())
}

/// The functions of a thread that stands at `pc` with these registers, the innermost first. `file` says which
/// file has an address, and what was added to the file's own ones.
pub fn of<'u>(
    pc: u64,
    x: [u64; 32],
    file: impl Fn(u64) -> Option<(&'u Unwinding, u64)>,
    memory: &impl Memory,
) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut next = Some(Frame {
        pc,
        x: x.map(Some),
        base: None,
        is_innermost: true,
    });
    while let Some(mut frame) = next.filter(|_| frames.len() < FRAMES) {
        let found = file(frame.pc);
        next = found.and_then(|(unwinding, bias)| unwinding.caller(&mut frame, bias, memory));
        frames.push(frame);
    }
    frames
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;

    use gimli::{EndianArcSlice, LittleEndian};
    use perdure_riscv::Access;

    use super::*;

    /// Words of memory.
    pub struct Words(pub BTreeMap<u64, u64>);

    impl Memory for Words {
        fn read(&self, address: u64, buffer: &mut [u8], _: Access) -> Option<()> {
            buffer.copy_from_slice(&self.0.get(&address)?.to_le_bytes());
            Some(())
        }
    }

    /// A section.
    pub fn section(bytes: &[u8]) -> Reader {
        EndianArcSlice::new(Arc::from(bytes), LittleEndian)
    }

    const BIAS: u64 = 0x4_0000;

    /// A function at 0x1000 that begins with saving `ra` and `s0` in 32 bytes of stack, and one at 0x1100
    /// that does not say where it saves anything.
    fn unwinding() -> Unwinding {
        let description = |parts: &[&[u8]]| {
            let mut bytes = parts.concat();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
        };
        let function = |start: u64, instructions: &[u8]| {
            let range = [start.to_le_bytes(), 0x80_u64.to_le_bytes()].concat();
            description(&[&[0; 4], &range, instructions])
        };
        // Version 1; no augmentation; factors 1 and -8; `ra`; the base is `sp`.
        let common = description(&[&[0xff; 4], &[1, 0, 1, 0x78, 1], &[0x0c, 2, 0]]);
        let saves = function(0x1000, &[0x44, 0x0e, 32, 0x81, 1, 0x88, 2]);
        let silent = function(0x1100, &[]);
        let debug = section(&[common, saves, silent].concat());
        let (bases, none) = (BaseAddresses::default(), section(&[]));
        Unwinding::new(bases, none.into(), debug.into())
    }

    fn frames(pc: u64, memory: &Words) -> Vec<Frame> {
        let unwinding = unwinding();
        let mut x = std::array::from_fn(|number| 1000 + number as u64);
        (x[1], x[2]) = (BIAS + 0x1106, 0x8000);
        let file = |pc: u64| {
            let known = unwinding.has(pc.wrapping_sub(BIAS));
            known.then_some((&unwinding, BIAS))
        };
        of(BIAS + pc, x, file, memory)
    }

    #[test]
    fn a_caller_finds_what_was_saved_and_what_calls_keep() {
        let memory = Words([(0x8018, BIAS + 0x1108), (0x8010, 5)].into());
        let frames = frames(0x1004, &memory);
        let [own, caller] = frames.as_slice() else {
            panic!("{frames:?}");
        };
        assert_eq!(own.base, Some(0x8020));
        assert_eq!(caller.pc, BIAS + 0x1107);
        assert_eq!(caller.x[2], Some(0x8020));
        assert_eq!(caller.x[8], Some(5));
        assert_eq!(caller.x[9], Some(1009));
        assert_eq!(caller.x[10], None);
        // It does not say where it has saved its return address, and something was called since.
        assert_eq!(caller.base, Some(0x8020));
    }

    #[test]
    fn who_has_saved_nothing_yet_returns_to_where_its_register_says() {
        let frames = frames(0x1000, &Words(BTreeMap::new()));
        let pcs: Vec<u64> = frames.iter().map(|frame| frame.pc).collect();
        assert_eq!(pcs, [BIAS + 0x1000, BIAS + 0x1105]);
        assert_eq!(frames[1].x[8], Some(1008));
    }

    #[test]
    fn a_stack_ends_where_nothing_is_known() {
        let unreadable = Words(BTreeMap::new());
        assert_eq!(frames(0x1004, &unreadable).len(), 1);
        assert_eq!(frames(0x1080, &unreadable).len(), 1);
    }
}
