//! A hart's architectural state as plain data, and its byte format for contexts kept in NVM.
//!
//! Always true between two calls of an engine: `x[0]` is zero, `pc` is even, `fcsr` holds no bit
//! outside its eight, and `pc` and `retired` are exact.

/// The architectural state of one hart. Nothing else of a hart survives a power cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Hart {
    /// Integer registers; `x[0]` is always zero.
    pub x: [u64; 32],
    /// Floating-point registers; a single-precision value is NaN-boxed (upper half all ones).
    pub f: [u64; 32],
    /// Address of the next instruction.
    pub pc: u64,
    /// Rounding mode (bits 7–5) and accrued exception flags (bits 4–0).
    pub fcsr: u32,
    /// Instructions retired since the hart was made; the `instret` CSR.
    pub retired: u64,
}

/// Bytes in a saved context: 67 little-endian 64-bit words.
///
/// | word | holds |
/// |---|---|
/// | 0–31 | `x0` … `x31` (`x0` is zero) |
/// | 32–63 | `f0` … `f31` |
/// | 64 | `pc` |
/// | 65 | `fcsr` |
/// | 66 | `retired` |
///
/// There is no checksum: whoever writes contexts to NVM guards them together with the rest of
/// what it writes.
pub const CONTEXT_BYTES: usize = 67 * 8;

const PC_WORD: usize = 64;
const FCSR_WORD: usize = 65;
const RETIRED_WORD: usize = 66;

/// Bytes that cannot be a context of a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// The zero register holds something.
    #[error("hart context: x0 is {0:#x}, but it can only be zero; the saved bytes are damaged")]
    ZeroRegister(u64),
    /// The program counter is odd.
    #[error("hart context: pc {0:#x} is odd; the saved bytes are damaged")]
    OddProgramCounter(u64),
    /// `fcsr` has bits that do not exist.
    #[error("hart context: fcsr {0:#x} has bits above bit 7; the saved bytes are damaged")]
    FloatControl(u64),
}

impl Hart {
    /// The context as bytes, in the format of [`CONTEXT_BYTES`].
    pub fn to_bytes(&self) -> [u8; CONTEXT_BYTES] {
        let special = [self.pc, u64::from(self.fcsr), self.retired];
        let words = self.x.iter().chain(&self.f).chain(&special);
        let mut bytes = [0; CONTEXT_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The context from bytes written by [`Hart::to_bytes`].
    pub fn from_bytes(bytes: &[u8; CONTEXT_BYTES]) -> Result<Self, ContextError> {
        let mut words = [0; CONTEXT_BYTES / 8];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut raw = [0; 8];
            raw.copy_from_slice(place);
            *word = u64::from_le_bytes(raw);
        }
        if words[0] != 0 {
            return Err(ContextError::ZeroRegister(words[0]));
        }
        if words[PC_WORD] & 1 != 0 {
            return Err(ContextError::OddProgramCounter(words[PC_WORD]));
        }
        if words[FCSR_WORD] > 0xff {
            return Err(ContextError::FloatControl(words[FCSR_WORD]));
        }
        let mut hart = Self {
            pc: words[PC_WORD],
            fcsr: words[FCSR_WORD] as u32,
            retired: words[RETIRED_WORD],
            ..Self::default()
        };
        hart.x.copy_from_slice(&words[..32]);
        hart.f.copy_from_slice(&words[32..64]);
        Ok(hart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Hart {
        let mut hart = Hart {
            pc: 0x1_0000,
            fcsr: 0xe1,
            retired: 1 << 40,
            ..Hart::default()
        };
        for register in 1..32 {
            hart.x[register] = 0x0101_0101_0101_0101 * register as u64;
            hart.f[register] = !hart.x[register];
        }
        hart
    }

    #[test]
    fn a_context_survives_its_bytes() {
        let hart = example();
        let bytes = hart.to_bytes();
        assert_eq!(bytes[8..16], [1; 8], "x1 is the second word");
        assert_eq!(Hart::from_bytes(&bytes), Ok(hart));
    }

    #[test]
    fn damaged_contexts_are_refused() {
        let good = example().to_bytes();
        let damage = |word: usize, byte: u8| {
            let mut bytes = good;
            bytes[word * 8] |= byte;
            bytes[word * 8 + 1] |= byte;
            Hart::from_bytes(&bytes)
        };
        assert_eq!(damage(0, 7), Err(ContextError::ZeroRegister(0x707)));
        assert_eq!(
            damage(PC_WORD, 1),
            Err(ContextError::OddProgramCounter(0x1_0101))
        );
        assert_eq!(damage(FCSR_WORD, 2), Err(ContextError::FloatControl(0x2e3)));
    }
}
